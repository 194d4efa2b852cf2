//! Searches for what may be taken back, again: after which changes, and with what asked for already.

use phalanx::queue::Gone;
use phalanx::{PodGroup, Scheduler};

use super::reclaim::{ask, dialects, full, names, poll, preempting, start};
use super::scheduler::{at, cluster, finish, gang, used};

fn with_priority(mut gang: PodGroup, priority: i32) -> PodGroup {
    gang.priority = priority;
    gang
}

fn kept(mut gang: PodGroup) -> PodGroup {
    gang.non_preemptible = true;
    gang
}

/// Polls and binds, and gives the groups that are to be evicted.
fn asked(scheduler: &mut Scheduler, seconds: u64) -> Vec<String> {
    let found = poll(scheduler, at(seconds));
    names(&found).into_iter().map(Into::into).collect()
}

/// A group takes back what is guaranteed to its queue as soon as the queue is within its guarantee,
/// though what came free is too little for it.
#[test]
fn a_queue_that_comes_within_its_guarantee_takes_back_the_rest() {
    for tenants in dialects() {
        let mut scheduler = preempting(cluster(2, 8), tenants);
        let running = [("a1", 4), ("b1", 5), ("b2", 2), ("c1", 2), ("c2", 3)];
        start(&mut scheduler, running.map(|(name, gpus)| gang(name, &name[..1], gpus, 1)));
        let found = ask(&mut scheduler, gang("b3", "b", 6, 1), at(10));
        assert!(found.asked.is_empty() && found.started.is_empty(), "7 + 6 of 8: {found:?}");
        finish(&mut scheduler, "b1", 5, at(60));
        // 5 are free of 6, and 2 + 6 of 8 are guaranteed.
        assert_eq!(asked(&mut scheduler, 60), ["default/c2"]);
    }
}

/// An amount given to another queue may put it above its guarantee, and with it the amounts it had
/// before.
#[test]
fn a_queue_that_begins_to_borrow_may_be_taken_from() {
    for tenants in dialects() {
        let mut scheduler = preempting(cluster(2, 8), tenants);
        let running = [with_priority(gang("a1", "a", 8, 1), -1), kept(gang("c1", "c", 3, 1))];
        start(&mut scheduler, running);
        let found = ask(&mut scheduler, gang("b1", "b", 8, 1), at(10));
        assert!(found.asked.is_empty() && found.started.is_empty(), "{found:?}");
        let found = ask(&mut scheduler, gang("a2", "a", 3, 1), at(60));
        // With it `a` has 11 of 8, and the first of its victims is the other group.
        assert_eq!(found.started, ["default/a2"]);
        assert_eq!(names(&found), ["default/a1"]);
    }
}

/// Trees are looked at one by one: what moves in one is no reason to search in another.
#[test]
fn what_moves_in_another_tree_is_no_reason_to_search() {
    use phalanx::quota::{Flavor, Queue, Quota, Tenants};
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, root) in [("a", "one"), ("b", "one"), ("other", "two")] {
        let queue = Queue::leaf(name).parent(root).quota("all", "gpu", Quota::nominal(4));
        tenants.set_queue(queue).expect("sound");
    }
    let mut scheduler = preempting(cluster(2, 8), tenants);
    let running = [kept(gang("a1", "a", 5, 1)), kept(gang("a2", "a", 1, 1))];
    start(&mut scheduler, running);
    start(&mut scheduler, [gang("o1", "other", 1, 1)]);
    // `b` is entitled to it, and finds no victim.
    let found = ask(&mut scheduler, gang("b1", "b", 4, 1), at(10));
    assert!(found.asked.is_empty() && found.started.is_empty(), "{found:?}");
    poll(&mut scheduler, at(60));
    let steps = |scheduler: &Scheduler| scheduler.tenants().expect("there").steps();
    let mut searched = |group: &str, seconds| {
        let before = steps(&scheduler);
        finish(&mut scheduler, group, 1, at(seconds));
        let after_event = steps(&scheduler);
        poll(&mut scheduler, at(seconds));
        (after_event - before, steps(&scheduler) - after_event)
    };
    let (moved, other) = searched("o1", 120);
    assert!(moved > 0, "the sums of the other tree have moved");
    assert_eq!(other, 0, "nothing is decided on anew");
    // 3 are free of 4.
    let (_, own) = searched("a2", 180);
    assert!(own > 0, "in its own tree it is");
}

/// Where one of several victims does not go, another is named, and the others are not taken back.
#[test]
fn a_victim_named_in_anothers_place_leaves_the_rest_as_they_were() {
    for tenants in dialects() {
        let mut scheduler = preempting(cluster(2, 8), tenants);
        let groups = ["a1", "a2", "a3", "a4", "a5", "a6"].map(|name| gang(name, "a", 1, 2));
        start(&mut scheduler, groups);
        start(&mut scheduler, [gang("b1", "b", 2, 2)]);
        let found = ask(&mut scheduler, gang("b2", "b", 2, 2), at(10));
        assert_eq!(names(&found), ["default/a5", "default/a6"]);
        let (ticket, victim) = &found.asked[0];
        scheduler.handle_eviction_failed(*ticket, victim, None, at(11)).expect("known");
        let later = poll(&mut scheduler, at(11));
        let later = if later.asked.is_empty() { poll(&mut scheduler, at(22)) } else { later };
        assert_eq!(names(&later), ["default/a4"]);
        assert!(later.back.is_empty(), "{later:?}");
        for (ticket, victim) in [&found.asked[1], &later.asked[0]] {
            scheduler.handle_gone(Gone::evicted(*ticket, victim), at(30)).expect("asked for");
        }
        assert_eq!(poll(&mut scheduler, at(30)).started, ["default/b2"]);
        assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (8, 8));
    }
}

/// A group that has gone by the time at which its eviction would be taken back is not named.
#[test]
fn an_eviction_that_has_happened_is_not_taken_back() {
    for (tenants, goes) in
        dialects().into_iter().flat_map(|own| [(own.clone(), true), (own, false)])
    {
        let mut scheduler = full(tenants);
        let found = ask(&mut scheduler, gang("b2", "b", 2, 2), at(10));
        assert_eq!(names(&found), ["default/a3"]);
        scheduler.handle_group_removed("default/b2", at(11)).expect("known");
        if goes {
            for pod in ["a3-0", "a3-1"] {
                scheduler.handle_gone(Gone::unbound("default", pod), at(11)).expect("known");
            }
        }
        let found = poll(&mut scheduler, at(11));
        assert_eq!(found.back.is_empty(), goes, "{found:?}");
    }
}
