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
