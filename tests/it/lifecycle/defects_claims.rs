//! Claims to the room of victims whose quota, group or queue changes before the victims have gone.

use phalanx::queue::{GroupState, PreemptionSettings, Shortage};
use phalanx::quota::{Flavor, Queue, QueueKind, Quota, Tenants};
use phalanx::{Decision, PodGroup, Scheduler};

use super::steps::*;

/// A queue that is guaranteed so many GPUs of the one flavor.
fn queue(name: &str, guaranteed: i64) -> Queue {
    Queue::leaf(name).parent("root").quota("all", GPU, Quota::nominal(guaranteed))
}

/// Two GPUs, on which a gang of one queue runs; another queue, or the same one, wants them back.
fn claimed(borrower: &str, priority: i32) -> Scheduler {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    tenants.set_queue(queue("idle", 0)).unwrap();
    tenants.set_queue(queue("own", 2)).unwrap();
    let mut scheduler = scheduler(gpus(1, 2), |settings| {
        settings.preemption = Some(PreemptionSettings::default());
    });
    scheduler = scheduler.with_tenants(tenants);
    scheduler.handle_group(gang("old", 2).evicted_whole().queue(borrower), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    let new: PodGroup = gang("new", 2).priority(priority).queue("own");
    scheduler.handle_group(new, at(1)).unwrap();
    let Some(Decision::Evict { victims, .. }) = scheduler.poll_decision(at(1)) else {
        panic!("the room is taken back")
    };
    assert_eq!(victims[0].name, "default/old");
    scheduler
}

/// The evictions of a claim are cancelled, and nothing starts.
fn is_given_up(scheduler: &mut Scheduler) {
    let Some(Decision::CancelEvictions { victims, .. }) = scheduler.poll_decision(at(2)) else {
        panic!("the eviction has no use any more")
    };
    assert_eq!(victims[0].name, "default/old");
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert!(scheduler.reservations().is_empty());
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
    scheduler.check().unwrap();
}

#[test]
fn a_claim_ends_with_its_queue() {
    for (borrower, priority) in [("idle", 0), ("own", 5)] {
        let mut scheduler = claimed(borrower, priority);
        scheduler.handle_queue_removed(QueueKind::Leaf, "own", at(2)).unwrap();
        is_given_up(&mut scheduler);
        let status = scheduler.status("default/new").unwrap();
        assert!(matches!(status.shortage, Some(Shortage::Quota { .. })), "{status:?}");
        // A queue that is stated again admits again.
        scheduler.handle_queue(queue("own", 2), at(10)).unwrap();
        assert!(matches!(scheduler.poll_decision(at(10)), Some(Decision::Evict { .. })));
    }
}

#[test]
fn a_claim_ends_when_its_queue_is_stopped() {
    let mut scheduler = claimed("idle", 0);
    let mut stopped = queue("own", 2);
    stopped.stopped = true;
    scheduler.handle_queue(stopped, at(2)).unwrap();
    is_given_up(&mut scheduler);
}

#[test]
fn a_claim_ends_with_the_quota_that_it_counts_on() {
    let mut scheduler = claimed("idle", 0);
    let limited = Queue::leaf("own").parent("root").quota("all", GPU, Quota::nominal(1).limit(1));
    scheduler.handle_queue(limited, at(2)).unwrap();
    is_given_up(&mut scheduler);
}

/// Queues `a` and `b` are guaranteed 8 and 4 GPUs, all that there are, and their leaves none. A claim
/// to the room of a victim takes `b` beyond its own, through another leaf than the one of `runs`.
#[test]
fn quota_that_a_neighbouring_leaf_reserves_goes_before_running_groups() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, guaranteed) in [("a", 8), ("b", 4)] {
        let queue = Queue::inner(name).parent("root");
        tenants.set_queue(queue.quota("all", GPU, Quota::nominal(guaranteed))).unwrap();
    }
    for (name, parent) in [("a0", "a"), ("b0", "b"), ("b1", "b")] {
        let queue = Queue::leaf(name).parent(parent);
        tenants.set_queue(queue.quota("all", GPU, Quota::nominal(0))).unwrap();
    }
    let mut scheduler = scheduler(gpus(12, 1), |settings| {
        settings.preemption = Some(PreemptionSettings::default());
    });
    scheduler = scheduler.with_tenants(tenants);
    let running = [("runs", 2, "b1", 0), ("low", 4, "b0", -1), ("entitled", 6, "a0", 0)];
    for (name, count, queue, priority) in running {
        let group = gang(name, count).evicted_whole().queue(queue).priority(priority);
        scheduler.handle_group(group, at(0)).unwrap();
    }
    assert_eq!(bind_all(&mut scheduler, at(0)).len(), 3);
    let victims = |scheduler: &mut Scheduler, now| match scheduler.poll_decision(now) {
        Some(Decision::Evict { victims, plan, .. }) => {
            let names: Vec<_> = victims.iter().map(|victim| victim.name.to_string()).collect();
            (plan.group().to_string(), names)
        }
        other => panic!("{other:?}"),
    };
    let named = |by: &str| (format!("default/{by}"), vec!["default/low".to_string()]);
    scheduler.handle_group(gang("claims", 4).queue("b0"), at(1)).unwrap();
    assert_eq!(victims(&mut scheduler, at(1)), named("claims"));
    scheduler.handle_group(gang("more", 2).queue("a0").priority(5), at(2)).unwrap();
    // The claim ends and its victim goes for the other: what runs is within the guarantee of `b`.
    let taken_back = scheduler.poll_decision(at(2));
    assert!(matches!(taken_back, Some(Decision::CancelEvictions { .. })), "{taken_back:?}");
    assert_eq!(victims(&mut scheduler, at(2)), named("more"));
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(scheduler.state("default/runs"), Some(GroupState::Running));
    assert_eq!(scheduler.reservations().len(), 1);
    scheduler.check().unwrap();
}
