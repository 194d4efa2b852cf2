//! The scheduler's queue with claims: devices of victims, of bookings and of promises are kept, and
//! groups that wait for devices are woken.

use core::time::Duration;

use phalanx::claims::Cel;
use phalanx::model::{
    ClaimSpec, DeviceClass, DeviceDemand, ResourceClaim, ResourceSlice, SliceDevice,
};
use phalanx::plugins::DynamicResources;
use phalanx::queue::{
    Backfill, Booking, BookingOwner, Gone, GroupState, PreemptionSettings, ReservationPolicy,
    Settings,
};
use phalanx::simulate::{Job, Simulation};
use phalanx::state::ClaimObject;
use phalanx::{
    Cluster, Decision, Event, Framework, Node, ObjectName, Pod, PodGroup, Scheduler, Time,
};

const DRIVER: &str = "gpu.example.com";

fn framework() -> Framework {
    DynamicResources::add_to(Framework::default().to_builder(), Cel).build().unwrap()
}

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn slice(node: &str) -> ResourceSlice {
    let gpus = (0..2).map(|gpu| SliceDevice::new(format!("gpu-{gpu}")));
    gpus.fold(ResourceSlice::on(node, DRIVER), ResourceSlice::device)
}

/// Nodes of two devices each.
fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for at in 0..nodes {
        let name = format!("n{at}");
        cluster.add_node(Node::new(&name).capacity("cpu", 64)).unwrap();
        cluster.set_resource_slice(slice(&name));
    }
    cluster
}

fn scheduler(nodes: usize, settings: Settings) -> Scheduler {
    Scheduler::new(cluster(nodes), framework(), settings)
}

fn spec(devices: u64) -> ClaimSpec {
    ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", devices))
}

fn gang(name: &str, members: usize, devices: u64) -> PodGroup {
    let pod = |at: usize| {
        let pod = Pod::new().name(format!("{name}-{at}")).request("cpu", 1);
        pod.own_claim("gpus", spec(devices))
    };
    (0..members).fold(PodGroup::gang(name, members as u32), |gang, at| gang.pod(pod(at)))
}

/// Binds what is decided until nothing is. Returns the groups bound.
fn bind_all(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut bound = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, groups, .. } => {
                bound.extend(groups.into_iter().map(String::from));
                scheduler.handle_bound(ticket, now).unwrap();
            }
            Decision::Booking { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    scheduler.check().unwrap();
    bound
}

fn finish(scheduler: &mut Scheduler, group: &str, now: Time) {
    let pods: Vec<String> =
        scheduler.cluster().group_pods(group).map(|pod| pod.name().to_owned()).collect();
    scheduler.handle_group_removed(group, now).unwrap();
    for pod in pods {
        let pod = ObjectName::new("default", &pod);
        scheduler.handle_gone(Gone::Deleted { pod }, now).unwrap();
    }
}

fn in_use(cluster: &Cluster) -> usize {
    let book = cluster.claims();
    let devices = book.slices().flat_map(|slice| slice.devices.iter().map(move |own| (slice, own)));
    devices
        .filter(|(slice, own)| book.usage(&slice.driver, &slice.pool, &own.name).is_some())
        .count()
}

#[test]
fn devices_of_victims_are_kept_until_all_of_them_are_gone() {
    for is_shared in [false, true] {
        let settings = Settings::new().preemption(PreemptionSettings::new());
        let mut scheduler = scheduler(2, settings);
        for name in ["a", "b"] {
            scheduler.handle_group(gang(name, 1, 2).evicted_whole(), at(0)).unwrap();
        }
        assert_eq!(bind_all(&mut scheduler, at(0)), ["default/a", "default/b"]);
        let mut new = gang("new", 2, 2).priority(100);
        if is_shared {
            // Two members share one claim; the third has one for itself.
            let event = ClaimObject::Claim(ResourceClaim::new("shared", spec(2)));
            let event = Event::ClaimsChanged { object: event, version: 1 };
            scheduler.handle_event(event, at(0)).unwrap();
            let pod = |at: usize| Pod::new().name(format!("new-{at}")).request("cpu", 1);
            new = PodGroup::gang("new", 3).priority(100);
            new = new.pod(pod(0).claim("shared")).pod(pod(1).claim("shared"));
            new = new.pod(pod(2).own_claim("gpus", spec(2)));
        }
        scheduler.handle_group(new, at(1)).unwrap();
        let Some(Decision::Evict { ticket, victims, .. }) = scheduler.poll_decision(at(1)) else {
            panic!("nobody is evicted")
        };
        assert_eq!(victims.len(), 2);
        scheduler.handle_gone(Gone::evicted(ticket, "default/a"), at(2)).unwrap();
        // The devices of the first victim are there, and another gang would take them.
        scheduler.handle_group(gang("late", 1, 1), at(3)).unwrap();
        assert!(bind_all(&mut scheduler, at(3)).is_empty(), "{is_shared}");
        scheduler.handle_gone(Gone::evicted(ticket, "default/b"), at(4)).unwrap();
        assert_eq!(bind_all(&mut scheduler, at(4)), ["default/new"]);
        assert_eq!(in_use(scheduler.cluster()), 4);
        finish(&mut scheduler, "default/new", at(5));
        assert!(bind_all(&mut scheduler, at(600)).contains(&"default/late".to_owned()));
    }
}

#[test]
fn devices_that_are_booked_are_kept_for_the_owner() {
    let mut scheduler = scheduler(2, Settings::new());
    let window = (at(0), at(1_000));
    let booking = Booking::new("b", gang("room", 2, 1), window)
        .owner(BookingOwner::Group(ObjectName::new("default", "own")));
    scheduler.handle_booking(booking, at(0)).unwrap();
    assert!(bind_all(&mut scheduler, at(0)).is_empty());
    assert_eq!(in_use(scheduler.cluster()), 2);
    scheduler.handle_group(gang("other", 3, 1), at(1)).unwrap();
    scheduler.handle_group(gang("small", 2, 1), at(1)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(1)), ["default/small"]);
    scheduler.handle_group(gang("own", 1, 1), at(2)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/own"]);
    // One device is the owner's, the other is still kept.
    assert_eq!(in_use(scheduler.cluster()), 4);
    finish(&mut scheduler, "default/own", at(3));
    assert!(bind_all(&mut scheduler, at(3)).is_empty());
    assert_eq!(in_use(scheduler.cluster()), 4);
    scheduler.handle_group(gang("own", 2, 1), at(4)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(4)), ["default/own"]);
    finish(&mut scheduler, "default/own", at(5));
    scheduler.handle_booking_removed("b", at(6)).unwrap();
    finish(&mut scheduler, "default/small", at(6));
    assert_eq!(bind_all(&mut scheduler, at(600)), ["default/other"]);
}

#[test]
fn room_that_is_reserved_has_devices() {
    let mut policy = ReservationPolicy::default();
    policy.after = Duration::ZERO;
    let mut scheduler = scheduler(2, Settings::new().reservation(policy));
    scheduler.handle_group(gang("a", 1, 2), at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)), ["default/a"]);
    scheduler.handle_group(gang("wide", 2, 2), at(1)).unwrap();
    assert!(bind_all(&mut scheduler, at(1)).is_empty());
    // The devices of the other node are reserved for its first member.
    assert!(bind_all(&mut scheduler, at(2)).is_empty());
    scheduler.handle_group(gang("small", 1, 1), at(3)).unwrap();
    assert!(bind_all(&mut scheduler, at(3)).is_empty());
    finish(&mut scheduler, "default/a", at(4));
    assert_eq!(bind_all(&mut scheduler, at(4)), ["default/wide"]);
}

#[test]
fn groups_that_wait_for_devices_are_woken_when_there_are_some() {
    let claim = || ResourceClaim::new("data", spec(1));
    let object = ClaimObject::from(slice("n0"));
    let mut bare = Cluster::new();
    bare.add_node(Node::new("n0").capacity("cpu", 64)).unwrap();
    let mut scheduler = Scheduler::new(bare, framework(), Settings::new());
    let pod = Pod::new().name("a-0").request("cpu", 1).claim("data");
    scheduler.handle_group(PodGroup::gang("a", 1).pod(pod), at(0)).unwrap();
    assert!(bind_all(&mut scheduler, at(0)).is_empty());
    let objects =
        [ClaimObject::Class(DeviceClass::new("gpu")), object, ClaimObject::Claim(claim())];
    for (number, object) in objects.into_iter().enumerate() {
        assert!(bind_all(&mut scheduler, at(1_000 * number as u64 + 900)).is_empty());
        let state = scheduler.state("default/a");
        assert!(matches!(state, Some(GroupState::Unschedulable { .. })), "{state:?}");
        let now = at(1_000 * (1 + number as u64));
        let event = Event::ClaimsChanged { object, version: 1 };
        scheduler.handle_event(event, now).unwrap();
        let bound = bind_all(&mut scheduler, now);
        assert_eq!(bound.len(), usize::from(number == 2), "{number}");
    }
}

#[test]
fn a_simulation_gives_devices_out_and_takes_them_back() {
    // Two nodes of two devices: the second job has to wait for the first, and the third, which is
    // short, fits beside it.
    let job = |name: &str, submit, members, devices, run| {
        let estimate = Duration::from_secs(run);
        let group = gang(name, members, devices).run_time_estimate(estimate);
        Job::new(group, at(submit), estimate)
    };
    let jobs = [job("a", 0, 1, 2, 100), job("b", 10, 2, 2, 50), job("c", 20, 2, 1, 10)];
    for (settings, starts) in [
        (Settings::new().backfill(Backfill::easy()), [0, 100, 20]),
        (Settings::new().prepare_within(Duration::from_secs(9)), [0, 100, 20]),
        (Settings::new().head_of_line(phalanx::queue::HeadOfLine::StrictFifo), [0, 100, 150]),
    ] {
        let results =
            Simulation::new(scheduler(2, settings), "cpu").run(jobs.clone(), |_, _| ()).unwrap();
        let found: Vec<u64> = results.jobs.iter().map(|job| job.start.unwrap().as_secs()).collect();
        assert_eq!(found, starts);
        assert_eq!(results.summary().finished, 3);
    }
    // A job too long for the gap is held back, since it would have a device that is promised.
    let long = [job("a", 0, 1, 2, 100), job("b", 10, 2, 2, 50), job("c", 20, 2, 1, 90)];
    let easy = Settings::new().backfill(Backfill::easy());
    let results = Simulation::new(scheduler(2, easy), "cpu").run(long, |_, _| ()).unwrap();
    let found: Vec<u64> = results.jobs.iter().map(|job| job.start.unwrap().as_secs()).collect();
    assert_eq!(found, [0, 100, 150]);
}
