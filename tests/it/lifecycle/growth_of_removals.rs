//! Growth of running work: budgets, groups of others, evictions that fail or are late, plans that are
//! prepared. Ten times as many cost less than twenty-five times as much, as in
//! [`super::growth_of_inputs`].

use std::time::Duration;

use phalanx::model::LabelSelector;
use phalanx::preempt::{DisruptionBudget, Victim};
use phalanx::queue::{PreemptionSettings, Settings, Ticket};
use phalanx::{Decision, Event, PodGroup, Scheduler, Time};

use super::defects_growth::timed;
use super::growth_of_inputs::grows_evenly;
use super::steps::*;

fn preempts(settings: &mut Settings) {
    settings.event_capacity = 16;
    settings.preemption = Some(PreemptionSettings::new());
}

/// Pods of others fill the nodes: each alone, or all of some groups with so many pods each. One of ours wants
/// all of the room.
fn evicting(count: usize, each: Option<usize>) -> (Scheduler, Ticket, Vec<Victim>) {
    let mut scheduler = scheduler(gpus(count.div_ceil(4), 4), preempts);
    for n in 0..count {
        let mut pod = gpu().name(format!("p{n}")).label("app", "a").on(format!("n{:04}", n / 4));
        if let Some(each) = each {
            pod = pod.in_group(format!("r{}", n / each));
        }
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
    }
    for n in 0..each.map_or(0, |each| count.div_ceil(each)) {
        let each = each.unwrap_or(1) as u32;
        let group = PodGroup::gang(format!("r{n}"), each).evicted_whole();
        scheduler.handle_running_group(&group, at(0)).unwrap();
    }
    scheduler.handle_group(gang("new", count).priority(10), at(1)).unwrap();
    let decision = scheduler.poll_decision(at(1));
    let Some(Decision::Evict { ticket, victims, .. }) = decision else { panic!("{decision:?}") };
    assert_eq!(victims.iter().map(|own| own.pods.len()).sum::<usize>(), count);
    (scheduler, ticket, victims)
}

fn budget(n: usize, allowed: i64) -> DisruptionBudget {
    DisruptionBudget::new(format!("b{n}"), LabelSelector::label("app", format!("a{n}")), allowed)
}

#[test]
fn budgets_come_change_and_go() {
    grows_evenly(|count| {
        let mut scheduler = scheduler(gpus(1, 8), preempts);
        timed(|| {
            for allowed in [1, 2] {
                (0..count).for_each(|n| scheduler.handle_budget(budget(n, allowed), at(0)));
            }
            for n in 0..count {
                scheduler.handle_budget_removed("default", &format!("b{n}"), at(1));
            }
        })
    });
}

#[test]
fn budgets_change_while_evictions_are_out() {
    grows_evenly(|count| {
        let (mut scheduler, ..) = evicting(count, None);
        timed(|| (0..count).for_each(|n| scheduler.handle_budget(budget(n, 1), at(2))))
    });
}

#[test]
fn groups_of_others_come_and_go() {
    grows_evenly(|count| {
        let mut scheduler = scheduler(gpus(1, 8), preempts);
        timed(|| {
            for n in 0..count {
                let inner = PodGroup::gang(format!("r{n}-a"), 1);
                let group = PodGroup::gang(format!("r{n}"), 1).group(inner);
                scheduler.handle_running_group(&group, at(0)).unwrap();
            }
            for n in 0..count {
                scheduler.handle_running_group_removed("default", &format!("r{n}"), at(1));
            }
        })
    });
}

/// Fails each unit of a decision.
fn fail(scheduler: &mut Scheduler, ticket: Ticket, units: &[Victim], retry: Option<Time>) {
    for unit in units {
        // Units that stay with one that failed are out already.
        let _ = scheduler.handle_eviction_failed(ticket, &unit.name, retry, at(2));
    }
}

#[test]
fn evictions_fail_one_by_one() {
    for retry in [None, Some(at(60))] {
        for each in [None, Some(4)] {
            grows_evenly(|count| {
                let (mut scheduler, ticket, units) = evicting(count, each);
                timed(|| fail(&mut scheduler, ticket, &units, retry))
            });
        }
    }
}

/// Each is asked for again at a time of its own.
#[test]
fn evictions_that_failed_are_asked_for_again_one_by_one() {
    grows_evenly(|count| {
        let (mut scheduler, ticket, units) = evicting(count, None);
        let later = |n: usize| Time::from_millis(60_000 + n as u64);
        for (n, unit) in units.iter().enumerate() {
            scheduler.handle_eviction_failed(ticket, &unit.name, Some(later(n)), at(2)).unwrap();
        }
        timed(|| {
            for n in 0..count {
                let decision = scheduler.poll_decision(later(n));
                let is_one = |victims: &[Victim]| victims.len() == 1;
                let is_asked =
                    matches!(&decision, Some(Decision::Evict { victims, .. }) if is_one(victims));
                assert!(is_asked, "{decision:?}");
            }
        })
    });
}

#[test]
fn evictions_are_late_all_at_once() {
    grows_evenly(|count| {
        let (mut scheduler, ..) = evicting(count, None);
        timed(|| scheduler.handle_time(at(10_000)))
    });
}

/// A gang of ours with devices to prepare for each member.
#[test]
fn plans_are_prepared_one_by_one() {
    use phalanx::claims::NoSelectors;
    use phalanx::model::{ClaimSpec, DeviceClass, DeviceDemand, ResourceSlice, SliceDevice};
    use phalanx::plugins::DynamicResources;
    use phalanx::{Cluster, Framework, Node, Pod};
    grows_evenly(|count| {
        let mut cluster = Cluster::new();
        cluster.set_device_class(DeviceClass::new("gpu"));
        let nodes = count.div_ceil(8);
        for n in 0..nodes {
            let name = format!("n{n:04}");
            cluster.add_node(Node::new(&name).capacity("cpu", 8)).unwrap();
            let device = |at: usize| SliceDevice::new(format!("gpu-{at}"));
            let slice = ResourceSlice::on(name.as_str(), "d");
            cluster.set_resource_slice((0..8).map(device).fold(slice, ResourceSlice::device));
        }
        let builder = Framework::default().to_builder();
        let framework = DynamicResources::add_to(builder, NoSelectors).build().unwrap();
        let settings = Settings::new().prepare_within(Duration::from_secs(60)).event_capacity(16);
        let mut scheduler = Scheduler::new(cluster, framework, settings);
        for n in 0..count {
            let claim = ClaimSpec::new().request("gpu", DeviceDemand::of("gpu", 1));
            let pod = Pod::new().name(format!("p{n}")).request("cpu", 1).own_claim("gpu", claim);
            scheduler.handle_group(PodGroup::gang(format!("g{n}"), 1).pod(pod), at(0)).unwrap();
        }
        let mut tickets = Vec::new();
        while let Some(Decision::Prepare { ticket, .. }) = scheduler.poll_decision(at(0)) {
            tickets.push(ticket);
        }
        assert_eq!(tickets.len(), count);
        timed(|| {
            for (n, ticket) in tickets.iter().enumerate() {
                let result = if n % 2 == 0 { Ok(()) } else { Err("no driver".to_owned()) };
                scheduler.handle_prepared(*ticket, result, at(1)).unwrap();
            }
        })
    });
}
