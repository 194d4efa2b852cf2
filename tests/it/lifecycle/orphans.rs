//! Pods that come before their group: each is a member of one group, the last that it named.

use phalanx::queue::GroupState;
use phalanx::{Event, Pod, PodGroup, QueueError, Scheduler};

use super::steps::*;

fn pod(name: &str) -> Pod {
    gpu().name(name)
}

fn pending(scheduler: &Scheduler, name: &str) -> usize {
    scheduler.status(&format!("default/{name}")).map_or(0, |status| status.pending)
}

#[test]
fn a_pod_that_changed_its_group_while_neither_was_known_is_a_member_of_one() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    for name in ["p", "q"] {
        scheduler.handle_pod(pod(name).in_group("a"), at(0)).unwrap();
        scheduler.handle_pod(pod(name).in_group("b"), at(0)).unwrap();
    }
    scheduler.handle_group(PodGroup::gang("a", 2), at(0)).unwrap();
    scheduler.handle_group(PodGroup::gang("b", 2), at(0)).unwrap();
    assert_eq!((pending(&scheduler, "a"), pending(&scheduler, "b")), (0, 2));
    // They are members in the order in which they came.
    let (_, plan) = plan(&mut scheduler, at(0));
    let names: Vec<_> = plan.assignments().map(|a| a.pod().name.clone()).collect();
    assert_eq!(names, ["p", "q"]);
}

/// As with a second group that is known: the pod belongs to the first.
#[test]
fn a_member_that_names_a_group_to_come_is_refused() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    let group = PodGroup::gang("a", 3).pod(pod("p")).pod(pod("q"));
    scheduler.handle_group(group, at(0)).unwrap();
    let taken = QueueError::PodTaken {
        pod: "default/p".parse().unwrap(),
        group: "default/a".parse().unwrap(),
    };
    assert_eq!(scheduler.handle_pod(pod("p").in_group("b"), at(0)), Err(taken.clone()));
    let event = Event::PodChanged { pod: pod("p").in_group("b").on("n0000"), version: 1 };
    assert_eq!(scheduler.handle_event(event, at(0)), Err(taken));
    assert_eq!(scheduler.cluster().pod_count(), 0);
    scheduler.handle_group(PodGroup::gang("b", 2), at(0)).unwrap();
    assert_eq!((pending(&scheduler, "a"), pending(&scheduler, "b")), (2, 0));
}

/// A group lists a pod that waits for another group.
#[test]
fn a_pod_that_a_group_lists_waits_for_no_other() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_pod(pod("p").in_group("b"), at(0)).unwrap();
    scheduler.handle_group(PodGroup::gang("a", 1).pod(pod("p")), at(0)).unwrap();
    scheduler.handle_group(PodGroup::gang("b", 1), at(0)).unwrap();
    assert_eq!((pending(&scheduler, "a"), pending(&scheduler, "b")), (1, 0));
    assert_eq!(bind_all(&mut scheduler, at(0)), ["default/a"]);
}

#[test]
fn no_group_fails_because_a_pod_is_in_two() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_pod(pod("p").in_group("a"), at(0)).unwrap();
    scheduler.handle_pod(pod("p").in_group("b"), at(0)).unwrap();
    scheduler.handle_group(PodGroup::gang("a", 1), at(0)).unwrap();
    scheduler.handle_group(PodGroup::gang("b", 1), at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)), ["default/b"]);
    let state = scheduler.state("default/a");
    assert!(matches!(state, Some(GroupState::Gated(_))), "{state:?}");
}

#[test]
fn a_deleted_orphan_is_no_member_of_the_group_that_comes() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    for name in ["p", "q"] {
        scheduler.handle_pod(pod(name).in_group("a"), at(0)).unwrap();
    }
    delete(&mut scheduler, "p", at(0));
    scheduler.handle_group(PodGroup::gang("a", 1), at(0)).unwrap();
    assert_eq!(pending(&scheduler, "a"), 1);
    let (_, plan) = plan(&mut scheduler, at(0));
    assert_eq!(plan.assignments().next().unwrap().pod().name, "q");
}
