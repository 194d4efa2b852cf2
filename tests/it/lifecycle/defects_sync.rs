//! Defect Q1: a restart is one instant, however long the initial lists take to come.
//!
//! Written against an interface to come: [`Scheduler::begin_sync`] and [`Scheduler::end_sync`].
//! Between them no timer fires, no decision is returned, and time stands still for the groups.

use std::time::Duration;

use phalanx::queue::{GroupState, Settings};
use phalanx::{Decision, Event, PodGroup, Scheduler, Time};

use super::steps::*;

const STALE: u64 = 30;

fn new_scheduler() -> Scheduler {
    scheduler(gpus(4, 1), |settings: &mut Settings| {
        settings.stale_after = Duration::from_secs(STALE);
        settings.evict_half_bound = true;
    })
}

/// The initial list shows a bound member of `old`.
fn list(scheduler: &mut Scheduler, member: usize, now: Time) {
    let pod = gpu().name(format!("old-{member}")).in_group("old").on(format!("n000{member}"));
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
}

#[test]
fn lists_that_come_in_for_longer_than_a_gang_may_be_below_its_minimum_evict_nobody() {
    let mut scheduler = new_scheduler();
    scheduler.begin_sync(at(0));
    scheduler.handle_group(PodGroup::gang("old", 4), at(0)).unwrap();
    for member in 0..4 {
        list(&mut scheduler, member, at(100 * member as u64));
        assert_eq!(scheduler.poll_decision(at(100 * member as u64)), None);
    }
    scheduler.end_sync(at(400));
    assert_eq!(scheduler.poll_decision(at(500)), None);
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
}

/// A gang that the lists have left below its minimum has its whole time from their end on.
#[test]
fn a_gang_that_is_below_its_minimum_after_the_lists_is_evicted_in_its_time() {
    let mut scheduler = new_scheduler();
    scheduler.begin_sync(at(0));
    scheduler.handle_group(PodGroup::gang("old", 4), at(0)).unwrap();
    list(&mut scheduler, 0, at(1));
    scheduler.end_sync(at(400));
    assert_eq!(scheduler.next_wake(), Some(at(400 + STALE)));
    assert_eq!(scheduler.poll_decision(at(400 + STALE - 1)), None);
    let evicted = scheduler.poll_decision(at(400 + STALE));
    let Some(Decision::EvictStale { since, pods, .. }) = evicted else { panic!("{evicted:?}") };
    assert_eq!((since, pods.len()), (at(400), 1));
}

/// A group could start on nodes whose pods are not listed yet.
#[test]
fn nothing_is_placed_before_the_lists_have_ended() {
    let mut scheduler = new_scheduler();
    scheduler.begin_sync(at(0));
    scheduler.handle_group(gang("new", 4), at(0)).unwrap();
    assert_eq!((scheduler.poll_decision(at(1)), scheduler.next_wake()), (None, None));
    scheduler.handle_group(PodGroup::gang("old", 1), at(2)).unwrap();
    list(&mut scheduler, 0, at(2));
    scheduler.end_sync(at(3));
    assert_eq!(scheduler.poll_decision(at(3)), None);
    assert!(is_asleep(&scheduler, "default/new"));
}

/// Watches are listed anew in the middle of a binding that takes longer than it may, and the lists show
/// that it went well.
#[test]
fn a_binding_whose_time_ends_while_lists_come_in_is_judged_by_the_lists() {
    let mut scheduler = new_scheduler();
    scheduler.handle_group(gang("old", 4), at(0)).unwrap();
    let (_, plan) = plan(&mut scheduler, at(0));
    assert_eq!(plan.len(), 4);
    scheduler.begin_sync(at(1));
    let late = at(1).after(2 * Settings::default().bind_timeout);
    for assignment in plan.assignments() {
        let pod = assignment.pod().clone().on(assignment.node());
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, late).unwrap();
    }
    scheduler.end_sync(late);
    assert_eq!(scheduler.poll_decision(late), None);
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
}

/// A gang fell below its minimum before the lists and is whole in them.
#[test]
fn a_time_that_ends_while_lists_come_in_is_looked_at_when_they_have_ended() {
    let mut scheduler = new_scheduler();
    scheduler.handle_group(gang("old", 4), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    delete(&mut scheduler, "old-3", at(1));
    scheduler.begin_sync(at(2));
    list(&mut scheduler, 3, at(2 + 2 * STALE));
    scheduler.end_sync(at(2 + 2 * STALE));
    assert_eq!(scheduler.poll_decision(at(3 + 2 * STALE)), None);
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
}
