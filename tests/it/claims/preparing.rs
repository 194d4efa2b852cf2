//! Work between commit and binding: reported, with a deadline, and undone whole.

use core::time::Duration;

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, DeviceClass, DeviceDemand, ResourceSlice, SliceDevice, StorageClass, Volume,
    VolumeClaim,
};
use phalanx::plugins::DynamicResources;
use phalanx::queue::{Gone, GroupState, Settings, Ticket};
use phalanx::state::StorageObject;
use phalanx::{
    Cluster, Decision, Event, Framework, Node, Plan, Pod, PodGroup, QueueError, Scheduler, Time,
};

use crate::support::budget;
use crate::support::dice::Dice;

fn framework() -> Framework {
    DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap()
}

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

/// Nodes of two devices each.
fn scheduler(nodes: usize, settings: Settings) -> Scheduler {
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for at in 0..nodes {
        let name = format!("n{at}");
        cluster.add_node(Node::new(&name).capacity("cpu", 8)).unwrap();
        let gpus = (0..2).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
        let slice = ResourceSlice::on(name, "gpu.example.com");
        cluster.set_resource_slice(gpus.fold(slice, ResourceSlice::device));
    }
    Scheduler::new(cluster, framework(), settings)
}

fn settings() -> Settings {
    Settings::new().prepare_within(Duration::from_secs(30))
}

fn gang(name: &str, members: usize) -> PodGroup {
    let spec = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 1));
    let pod = |at: usize| {
        let pod = Pod::new().name(format!("{name}-{at}")).request("cpu", 1);
        pod.own_claim("gpus", spec.clone())
    };
    (0..members).fold(PodGroup::gang(name, members as u32), |gang, at| gang.pod(pod(at)))
}

fn in_use(scheduler: &Scheduler) -> usize {
    let book = scheduler.cluster().claims();
    let devices = book.slices().flat_map(|slice| slice.devices.iter().map(move |own| (slice, own)));
    devices
        .filter(|(slice, own)| book.usage(&slice.driver, &slice.pool, &own.name).is_some())
        .count()
}

fn prepare(scheduler: &mut Scheduler, now: Time) -> (Ticket, Plan) {
    match scheduler.poll_decision(now) {
        Some(Decision::Prepare { ticket, plan, .. }) => (ticket, plan),
        other => panic!("{other:?}"),
    }
}

fn unbind(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let Some(Decision::Unbind { pods, .. }) = scheduler.poll_decision(now) else {
        panic!("nothing is undone")
    };
    for own in &pods {
        let gone = Gone::Unbound { pod: own.pod.clone() };
        scheduler.handle_gone(gone, now).unwrap();
    }
    pods.iter().map(|own| own.pod.name().to_owned()).collect()
}

#[test]
fn a_plan_that_is_prepared_is_bound_then() {
    let mut scheduler = scheduler(2, settings());
    scheduler.handle_group(gang("a", 3), at(0)).unwrap();
    let (ticket, plan) = prepare(&mut scheduler, at(0));
    assert_eq!((plan.len(), in_use(&scheduler)), (3, 3));
    assert!(plan.assignments().all(|own| own.allocations().len() == 1));
    assert_eq!(scheduler.poll_decision(at(1)), None);
    scheduler.handle_prepared(ticket, Ok(()), at(20)).unwrap();
    let Some(Decision::Bind { ticket: bound, plan: again, .. }) = scheduler.poll_decision(at(20))
    else {
        panic!("nothing is bound")
    };
    assert_eq!((bound, again), (ticket, plan));
    assert_eq!(scheduler.handle_prepared(ticket, Ok(()), at(21)), Err(QueueError::StaleTicket));
    // The deadline of the preparation is over, and says nothing of the binding.
    assert_eq!(scheduler.poll_decision(at(40)), None);
    scheduler.handle_bound(ticket, at(41)).unwrap();
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
    scheduler.check().unwrap();
}

#[test]
fn a_preparation_that_fails_or_takes_too_long_is_undone_whole() {
    for fails in [true, false] {
        let mut scheduler = scheduler(1, settings());
        scheduler.handle_group(gang("a", 2), at(0)).unwrap();
        scheduler.handle_group(gang("b", 1), at(0)).unwrap();
        let (ticket, _) = prepare(&mut scheduler, at(0));
        assert_eq!(scheduler.poll_decision(at(0)), None);
        let now = if fails {
            let reason = Err("no volume".to_owned());
            scheduler.handle_prepared(ticket, reason, at(10)).unwrap();
            at(10)
        } else {
            assert_eq!(scheduler.poll_decision(at(29)), None);
            at(30)
        };
        assert_eq!(unbind(&mut scheduler, now), ["a-0", "a-1"]);
        assert_eq!(scheduler.handle_prepared(ticket, Ok(()), now), Err(QueueError::StaleTicket));
        // The devices are free, and the first gang backs off.
        let (_, plan) = prepare(&mut scheduler, now);
        assert_eq!(plan.group().name(), "b");
        scheduler.check().unwrap();
    }
}

#[test]
fn plans_without_claims_are_bound_at_once_and_so_are_all_by_default() {
    let mut plain = scheduler(1, settings());
    let group = PodGroup::gang("a", 2).pods(2, Pod::new().request("cpu", 1));
    plain.handle_group(group, at(0)).unwrap();
    assert!(matches!(plain.poll_decision(at(0)), Some(Decision::Bind { .. })));
    let mut usual = scheduler(1, Settings::new());
    usual.handle_group(gang("a", 2), at(0)).unwrap();
    assert!(matches!(usual.poll_decision(at(0)), Some(Decision::Bind { .. })));
}

#[test]
fn a_node_that_is_lost_undoes_what_is_prepared_on_it() {
    let mut scheduler = scheduler(1, settings());
    scheduler.handle_group(gang("a", 2), at(0)).unwrap();
    let (ticket, _) = prepare(&mut scheduler, at(0));
    scheduler.handle_event(Event::NodeRemoved { name: "n0".into(), version: 0 }, at(1)).unwrap();
    // The first member failed with its node; the others are taken back.
    assert_eq!(unbind(&mut scheduler, at(1)), ["a-1"]);
    assert_eq!(scheduler.handle_prepared(ticket, Ok(()), at(2)), Err(QueueError::StaleTicket));
    assert_eq!(in_use(&scheduler), 0);
    scheduler.check().unwrap();
}

/// Random lives: every plan is prepared before it is bound, is bound or unbound whole, and devices are
/// in use exactly as long as a pod of a plan is there.
#[test]
fn streams_of_preparations_leave_no_device_behind() {
    let (mut bound, mut undone) = (0, 0);
    let seeds = budget::of(6, 200);
    for seed in 0..seeds {
        let mut dice = Dice(seed);
        let mut scheduler = scheduler(3, settings());
        let (mut open, mut running): (Vec<Ticket>, Vec<String>) = (Vec::new(), Vec::new());
        for step in 0..40 {
            let now = at(step * 7);
            match dice.roll(5) {
                0 | 1 => {
                    let members = 1 + dice.roll(3) as usize;
                    scheduler.handle_group(gang(&format!("g{step}"), members), now).unwrap();
                }
                2 if !open.is_empty() => {
                    let ticket = open.swap_remove(dice.roll(open.len() as u64) as usize);
                    let result = if dice.one_in(3) { Err("fails".to_owned()) } else { Ok(()) };
                    let _ = scheduler.handle_prepared(ticket, result, now);
                }
                3 if !running.is_empty() => {
                    let pod = running.swap_remove(dice.roll(running.len() as u64) as usize);
                    let pod = phalanx::ObjectName::new("default", &pod);
                    scheduler.handle_gone(Gone::Deleted { pod }, now).unwrap();
                }
                _ => {}
            }
            while let Some(decision) = scheduler.poll_decision(now) {
                match decision {
                    Decision::Prepare { ticket, .. } => open.push(ticket),
                    Decision::Bind { ticket, plan, .. } => {
                        assert!(!open.contains(&ticket), "{seed}: bound before it was prepared");
                        running.extend(plan.assignments().map(|own| own.pod().name.clone()));
                        scheduler.handle_bound(ticket, now).unwrap();
                        bound += 1;
                    }
                    Decision::Unbind { pods, .. } => {
                        for own in pods {
                            let gone = Gone::Unbound { pod: own.pod };
                            scheduler.handle_gone(gone, now).unwrap();
                        }
                        undone += 1;
                    }
                    Decision::EvictStale { pods, .. } => {
                        for own in pods {
                            running.retain(|pod| pod != own.pod.name());
                            scheduler.handle_gone(Gone::Deleted { pod: own.pod }, now).unwrap();
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
            scheduler.check().unwrap();
            let pods = scheduler.cluster().pod_count();
            assert_eq!(in_use(&scheduler), pods, "{seed}, step {step}");
        }
    }
    assert!(bound > 2 * seeds && undone > seeds, "{bound} {undone}");
}

#[test]
fn plans_with_devices_or_volumes_are_prepared_and_others_bound_at_once() {
    let mut scheduler = scheduler(1, settings());
    let plain = PodGroup::gang("plain", 1).pods(1, Pod::new().request("cpu", 1));
    scheduler.handle_group(plain, at(0)).unwrap();
    let first = scheduler.poll_decision(at(0));
    let Some(Decision::Bind { ticket, plan, .. }) = first else { panic!("{first:?}") };
    assert_eq!(plan.len(), 1);
    scheduler.handle_bound(ticket, at(0)).unwrap();
    // A volume that is bound when the plan is.
    for object in [
        StorageObject::from(StorageClass::new("local", "")),
        Volume::new("disk", 10).class("local").into(),
        VolumeClaim::new("default", "data").class("local").request(5).into(),
    ] {
        let event = Event::StorageChanged { object, version: 1 };
        scheduler.handle_event(event, at(1)).unwrap();
    }
    let disk = Pod::new().name("disk-0").request("cpu", 1).volume_claim("data");
    scheduler.handle_group(PodGroup::gang("disk", 1).pod(disk), at(1)).unwrap();
    let (ticket, plan) = prepare(&mut scheduler, at(1));
    assert!(plan.assignments().all(|own| own.volumes().is_some_and(|own| !own.is_empty())));
    scheduler.handle_prepared(ticket, Ok(()), at(2)).unwrap();
    let last = scheduler.poll_decision(at(2));
    assert!(matches!(last, Some(Decision::Bind { .. })), "{last:?}");
}
