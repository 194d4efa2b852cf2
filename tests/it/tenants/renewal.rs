//! Reclaim under way when something else changes: what is asked for again, and who keeps what room.

use phalanx::queue::Gone;
use phalanx::quota::{Flavor, Queue, Quota, Tenants};
use phalanx::{PodGroup, Scheduler};

use super::reclaim::{ask, dialects, names, poll, preempting, start};
use super::scheduler::{at, cluster, gang, used};

fn urgent(mut group: PodGroup) -> PodGroup {
    group.priority = 1;
    group
}

/// `b` uses 7 of its 4, `a` and a third queue have 4 and 3; `a` asks for one beyond, for which a
/// gang of `b` is named that cannot go before 20 s have passed.
fn put_off() -> Scheduler {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, guaranteed) in [("a", 4), ("b", 4), ("c", 3)] {
        let quota = Quota::nominal(guaranteed);
        tenants
            .set_queue(Queue::leaf(name).parent("labs").quota("all", "gpu", quota))
            .expect("sound");
    }
    let mut scheduler = preempting(cluster(1, 11), tenants);
    start(&mut scheduler, [gang("b1", "b", 6, 1), gang("a1", "a", 4, 1), gang("b2", "b", 1, 1)]);
    let found = ask(&mut scheduler, gang("a2", "a", 1, 1), at(10));
    assert_eq!(names(&found), ["default/b2"]);
    let (ticket, victim) = &found.asked[0];
    scheduler.handle_eviction_failed(*ticket, victim, Some(at(30)), at(11)).expect("known");
    assert_eq!(names(&poll(&mut scheduler, at(11))).len(), 0);
    scheduler
}

#[test]
fn a_victim_that_could_not_go_is_asked_for_again() {
    let mut scheduler = put_off();
    let found = poll(&mut scheduler, at(30));
    assert_eq!(names(&found), ["default/b2"]);
    let (ticket, victim) = &found.asked[0];
    scheduler.handle_gone(Gone::evicted(*ticket, victim), at(31)).expect("known");
    assert_eq!(poll(&mut scheduler, at(31)).started, ["default/a2"]);
}

#[test]
fn a_victim_is_not_asked_for_again_that_its_queue_is_guaranteed_meanwhile() {
    let mut scheduler = put_off();
    // `b` gives up six for one of its own: with the other that is less than its guarantee.
    let found = ask(&mut scheduler, urgent(gang("b3", "b", 1, 1)), at(20));
    assert_eq!(names(&found), ["default/b1"]);
    let (ticket, victim) = &found.asked[0];
    let later = poll(&mut scheduler, at(30));
    assert_eq!((names(&later).len(), later.back.len()), (0, 0), "{later:?}");
    scheduler.handle_gone(Gone::evicted(*ticket, victim), at(31)).expect("known");
    let mut started = poll(&mut scheduler, at(31)).started;
    started.sort();
    // What `b` gives up serves both.
    assert_eq!(started, ["default/a2", "default/b3"]);
    assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (5, 2));
}

#[test]
fn a_more_important_claim_of_the_queue_takes_back_beside_the_one_before() {
    for tenants in dialects() {
        let mut scheduler = preempting(cluster(1, 16), tenants);
        let groups = (1..=8).map(|number| gang(&format!("c{number}"), "c", 1, 2));
        start(&mut scheduler, groups);
        let first = ask(&mut scheduler, gang("a1", "a", 2, 2), at(10));
        assert_eq!(names(&first), ["default/c7", "default/c8"]);
        let (ticket, _) = first.asked[0];
        scheduler.handle_gone(Gone::evicted(ticket, "default/c8"), at(11)).expect("known");
        // It has victims of its own, and leaves the first its room: none of them goes in vain.
        let second = ask(&mut scheduler, urgent(gang("a2", "a", 1, 2)), at(12));
        assert_eq!(names(&second), ["default/c6"]);
        assert_eq!((second.started.len(), second.back.len()), (0, 0), "{second:?}");
        scheduler.handle_gone(Gone::evicted(ticket, "default/c7"), at(13)).expect("known");
        scheduler
            .handle_gone(Gone::evicted(second.asked[0].0, "default/c6"), at(14))
            .expect("known");
        let mut started = poll(&mut scheduler, at(14)).started;
        started.sort();
        assert_eq!(started, ["default/a1", "default/a2"]);
    }
}
