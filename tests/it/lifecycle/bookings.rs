//! Bookings: room under a name, for owners, in a window, lent until it begins.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::queue::{Booking, BookingChange, BookingOwner, EvictionCause, Gone, PriorityThenTime};
use phalanx::simulate::Random;
use phalanx::{Decision, Framework, ObjectName, PodGroup, QueueError, Scheduler, Time};

use super::steps::*;
use crate::support::budget;

fn booking(name: &str, pods: usize, from: u64, until: u64) -> Booking {
    Booking::new(name, gang("room", pods), (at(from), at(until)))
        .owner(BookingOwner::Group(ObjectName::new("default", "own")))
}

fn bounded(name: &str, size: usize, secs: u64) -> PodGroup {
    gang(name, size).max_run_time(Duration::from_secs(secs))
}

/// Carries out what is decided: binds, notes changes of bookings, and returns who is evicted.
#[derive(Debug, Default)]
struct Seen {
    bound: Vec<String>,
    booked: Vec<(String, BookingChange)>,
    evicted: Vec<(String, EvictionCause)>,
}

fn settle(scheduler: &mut Scheduler, now: Time) -> Seen {
    let mut seen = Seen::default();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, plan, groups } => {
                bind(scheduler, ticket, &plan, now);
                seen.bound.extend(groups.into_iter().map(String::from));
            }
            Decision::Booking { name, change } => seen.booked.push((name, change)),
            Decision::EvictDue { group, pods, cause, .. } => {
                for pod in pods {
                    scheduler.handle_gone(Gone::Unbound { pod: pod.pod }, now).unwrap();
                }
                seen.evicted.push((group.into(), cause));
            }
            other => panic!("{other:?}"),
        }
    }
    scheduler.check().unwrap();
    seen
}

fn counts(scheduler: &Scheduler) -> (usize, usize, usize) {
    let own = &scheduler.bookings()[0];
    (own.kept.values().sum(), own.taken, own.missing)
}

fn finish(scheduler: &mut Scheduler, group: &str, now: Time) {
    let all = scheduler.cluster().group_pods(group);
    let pods: Vec<String> = all.map(|pod| pod.name().to_owned()).collect();
    scheduler.handle_group_removed(group, now).unwrap();
    for pod in pods {
        delete(scheduler, &pod, now);
    }
}

#[test]
fn room_is_kept_for_its_owner_and_kept_again_when_the_owner_is_gone() {
    let mut scheduler = scheduler(gpus(2, 4), |_| ());
    scheduler.handle_booking(booking("b", 4, 0, 100), at(0)).unwrap();
    let seen = settle(&mut scheduler, at(0));
    let BookingChange::Placed { nodes } = &seen.booked[1].1 else { panic!("{seen:?}") };
    assert_eq!((&seen.booked[0].1, nodes.len()), (&BookingChange::Began, 4));
    scheduler.handle_group(gang("other", 5), at(1)).unwrap();
    assert_eq!(settle(&mut scheduler, at(1)).bound.len(), 0);
    scheduler.handle_group(gang("own", 3), at(2)).unwrap();
    assert_eq!(settle(&mut scheduler, at(2)).bound, ["default/own"]);
    assert_eq!(counts(&scheduler), (1, 3, 0));
    finish(&mut scheduler, "default/own", at(3));
    assert_eq!(settle(&mut scheduler, at(3)).bound.len(), 0);
    assert_eq!(counts(&scheduler), (4, 0, 0));
    // It ends by itself, and others have the room.
    assert_eq!(scheduler.next_wake().map(|wake| wake <= at(100)), Some(true));
    let seen = settle(&mut scheduler, at(100));
    assert_eq!(seen.booked, [("b".into(), BookingChange::Ended { used: false })]);
    assert_eq!(seen.bound, ["default/other"]);
    assert!(scheduler.bookings().is_empty());
}

#[test]
fn an_owner_that_needs_more_than_its_room_takes_free_room_too() {
    let mut scheduler = scheduler(gpus(2, 4), |_| ());
    scheduler.handle_booking(booking("b", 4, 0, 100), at(0)).unwrap();
    scheduler.handle_group(gang("small", 3), at(0)).unwrap();
    settle(&mut scheduler, at(0));
    scheduler.handle_group(gang("own", 6), at(1)).unwrap();
    assert_eq!(settle(&mut scheduler, at(1)).bound.len(), 0);
    // One pod of another ends: two are free beside the four of the booking.
    delete(&mut scheduler, "small-0", at(2));
    assert_eq!(settle(&mut scheduler, at(2)).bound, ["default/own"]);
    assert_eq!(counts(&scheduler), (0, 4, 0));
}

#[test]
fn a_booking_for_one_use_ends_with_it_and_gives_the_rest_back() {
    let mut scheduler = scheduler(gpus(1, 4), |_| ());
    let own = Booking::new("b", gang("room", 4), (at(0), at(100)));
    let own = own.owner(BookingOwner::Queue("vision".into())).once();
    scheduler.handle_booking(own, at(0)).unwrap();
    settle(&mut scheduler, at(0));
    let mut group = gang("own", 3);
    group.queue = "vision".into();
    scheduler.handle_group(gang("other", 1), at(1)).unwrap();
    scheduler.handle_group(group, at(1)).unwrap();
    let seen = settle(&mut scheduler, at(1));
    assert_eq!(seen.booked, [("b".into(), BookingChange::Ended { used: true })]);
    assert_eq!(seen.bound, ["default/own", "default/other"]);
}

#[test]
fn groups_that_end_before_the_window_use_its_room_and_others_do_not() {
    let mut scheduler = scheduler(gpus(1, 4), |_| ());
    scheduler.handle_booking(booking("b", 4, 100, 200), at(0)).unwrap();
    assert!(matches!(
        settle(&mut scheduler, at(0)).booked[..],
        [(_, BookingChange::Placed { .. })]
    ));
    for (name, secs) in [("late", 101), ("early", 100)] {
        scheduler.handle_group(bounded(name, 2, secs), at(0)).unwrap();
    }
    scheduler.handle_group(gang("endless", 1), at(0)).unwrap();
    assert_eq!(settle(&mut scheduler, at(0)).bound, ["default/early"]);
    assert_eq!(counts(&scheduler), (2, 0, 2));
    // An owner waits for the window as others do.
    scheduler.handle_group(gang("own", 4), at(50)).unwrap();
    assert!(settle(&mut scheduler, at(50)).bound.is_empty());
    let seen = settle(&mut scheduler, at(100));
    assert_eq!(seen.evicted, [("default/early".into(), EvictionCause::RunTime)]);
    assert_eq!(
        (seen.booked[0].1.clone(), seen.bound),
        (BookingChange::Began, vec!["default/own".into()])
    );
}

#[test]
fn a_borrower_that_is_late_leaves_when_the_window_begins_and_waits_on() {
    // Its estimate was too low; or the room is lent to all that may be evicted.
    for lends in [false, true] {
        let mut scheduler = scheduler(gpus(1, 4), |_| ());
        let own = booking("b", 4, 100, 200);
        scheduler.handle_booking(if lends { own.lends() } else { own }, at(0)).unwrap();
        settle(&mut scheduler, at(0));
        let guest = gang("guest", 3);
        let guest = if lends { guest } else { guest.run_time_estimate(Duration::from_secs(50)) };
        scheduler.handle_group(guest, at(0)).unwrap();
        scheduler.handle_group(gang("kept", 1).non_preemptible(), at(0)).unwrap();
        assert_eq!(settle(&mut scheduler, at(0)).bound, ["default/guest"]);
        assert!(settle(&mut scheduler, at(99)).evicted.is_empty());
        let cause = EvictionCause::Booking { name: "b".into() };
        let seen = settle(&mut scheduler, at(100));
        assert_eq!(seen.evicted, [("default/guest".into(), cause)]);
        assert_eq!((counts(&scheduler), seen.bound.len()), ((4, 0, 0), 0));
        // It is not paused: it starts where there is room.
        scheduler.handle_booking_removed("b", at(101)).unwrap();
        assert_eq!(settle(&mut scheduler, at(101)).bound.len(), 2);
        assert_eq!(
            scheduler.handle_booking_removed("b", at(102)),
            Err(QueueError::Booking { name: "b".into(), reason: "is not known" })
        );
    }
}

#[test]
fn a_booking_waits_for_its_room_and_takes_it_from_nobody() {
    let mut scheduler = scheduler(gpus(8, 4), |_| ());
    for index in 0..8 {
        scheduler.handle_group(gang(&format!("g{index}"), 4), at(0)).unwrap();
    }
    settle(&mut scheduler, at(0));
    let mut own = booking("b", 16, 0, 1_000);
    own.room = own.room.require("rack");
    scheduler.handle_booking(own, at(1)).unwrap();
    assert_eq!(settle(&mut scheduler, at(1)).booked, [("b".into(), BookingChange::Began)]);
    assert_eq!(counts(&scheduler), (0, 0, 16));
    // One rack of four nodes must be free.
    let racks: Vec<bool> = (0..8)
        .map(|index| {
            let group = format!("default/g{index}");
            let mut pods = scheduler.cluster().group_pods(&group);
            pods.next().unwrap().node().unwrap().label("rack") == Some("r0")
        })
        .collect();
    for (index, _) in racks.iter().enumerate().filter(|(_, is_first)| **is_first) {
        finish(&mut scheduler, &format!("default/g{index}"), at(2));
    }
    let wake = scheduler.next_wake().unwrap();
    let seen = settle(&mut scheduler, wake.max(at(2)));
    let BookingChange::Placed { nodes } = &seen.booked[0].1 else { panic!("{seen:?}") };
    assert_eq!(nodes.len(), 16);
}

#[test]
fn a_booking_that_makes_no_sense_is_refused_and_a_name_is_replaced() {
    let mut scheduler = scheduler(gpus(1, 4), |_| ());
    for wrong in [booking("b", 0, 0, 100), booking("b", 1, 100, 100)] {
        assert!(scheduler.handle_booking(wrong, at(0)).is_err());
        assert!(scheduler.bookings().is_empty());
    }
    scheduler.handle_booking(booking("b", 4, 0, 100), at(0)).unwrap();
    settle(&mut scheduler, at(0));
    scheduler.handle_booking(booking("b", 2, 0, 100), at(1)).unwrap();
    settle(&mut scheduler, at(1));
    assert_eq!(counts(&scheduler), (2, 0, 0));
    scheduler.handle_group(gang("other", 2), at(1)).unwrap();
    assert_eq!(settle(&mut scheduler, at(1)).bound, ["default/other"]);
}

#[test]
fn an_owner_that_came_early_stays_when_the_window_begins() {
    let mut scheduler = scheduler(gpus(1, 4), |_| ());
    scheduler.handle_booking(booking("b", 4, 100, 200).lends(), at(0)).unwrap();
    settle(&mut scheduler, at(0));
    scheduler.handle_group(gang("own", 3), at(0)).unwrap();
    assert_eq!(settle(&mut scheduler, at(0)).bound, ["default/own"]);
    let seen = settle(&mut scheduler, at(100));
    assert_eq!(seen.booked, [("b".into(), BookingChange::Began)]);
    assert!(seen.evicted.is_empty());
    assert_eq!(counts(&scheduler), (1, 3, 0));
}

#[test]
fn room_that_an_owner_gives_up_is_kept_again_before_another_booking_finds_it() {
    let mut scheduler = scheduler(gpus(1, 4), |_| ());
    for (name, size) in [("first", 3), ("other", 1)] {
        scheduler.handle_group(gang(name, size), at(0)).unwrap();
    }
    settle(&mut scheduler, at(0));
    // The older booking finds no room, and tries again later; the younger has its room at once.
    scheduler.handle_booking(booking("waits", 1, 0, 200), at(1)).unwrap();
    settle(&mut scheduler, at(1));
    finish(&mut scheduler, "default/other", at(1));
    scheduler.handle_booking(booking("has", 1, 0, 200), at(1)).unwrap();
    scheduler.handle_group(gang("own", 1), at(1)).unwrap();
    assert_eq!(settle(&mut scheduler, at(1)).bound, ["default/own"]);
    finish(&mut scheduler, "default/own", at(60));
    settle(&mut scheduler, at(60));
    let missing: Vec<usize> = scheduler.bookings().iter().map(|own| own.missing).collect();
    assert_eq!(missing, [1, 0]);
}

/// Groups and bookings come and go. No node is used twice over; room that is lent goes to groups that
/// end before or may be evicted; once a window has begun, all of its room is kept or with owners.
#[test]
fn a_random_stream_keeps_what_is_booked() {
    let (mut taken, mut lent, mut evicted) = (0, 0, 0);
    for seed in 0..budget::of(6, 1_500) {
        let mut random = Random::new(seed);
        let mut scheduler = scheduler(gpus(3, 4), |_| ());
        let mut groups: BTreeMap<String, bool> = BTreeMap::new();
        let mut placed: BTreeMap<String, bool> = BTreeMap::new();
        let mut now = 0;
        for step in 0..100 {
            let wake = scheduler.next_wake().map(Time::as_secs);
            let next = now + random.below(15);
            now = wake.map_or(next, |wake| wake.clamp(now, next.max(now)));
            match random.below(8) {
                0..=2 => {
                    let name = if random.below(3) == 0 { "own".into() } else { format!("g{step}") };
                    let mut group = gang(&name, 1 + random.below(5) as usize);
                    if random.below(2) == 0 {
                        group = group.run_time_estimate(Duration::from_secs(5 + random.below(60)));
                    }
                    group.non_preemptible = random.below(3) == 0;
                    let known = groups.contains_key(&format!("default/{name}"));
                    if !known && scheduler.handle_group(group, at(now)).is_ok() {
                        groups.insert(format!("default/{name}"), true);
                    }
                }
                3 => {
                    let (from, name) = (now + random.below(60), format!("b{}", random.below(2)));
                    let own = booking(&name, 1 + random.below(6) as usize, from, from + 40);
                    let own = if random.below(2) == 0 { own.lends() } else { own };
                    let own = if random.below(3) == 0 { own.once() } else { own };
                    placed.insert(name, false);
                    scheduler.handle_booking(own, at(now)).unwrap();
                }
                4 | 5 => {
                    let names: Vec<String> = groups.keys().cloned().collect();
                    if !names.is_empty() {
                        let name = &names[random.below(names.len() as u64) as usize];
                        finish(&mut scheduler, name, at(now));
                        groups.remove(name);
                    }
                }
                6 => {
                    let text = serde_json::to_string(&scheduler.save()).unwrap();
                    let saved = serde_json::from_str(&text).unwrap();
                    scheduler = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
                    assert_eq!(serde_json::to_string(&scheduler.save()).unwrap(), text);
                }
                _ => {}
            }
            let seen = settle(&mut scheduler, at(now));
            evicted += seen.evicted.len();
            for (name, change) in seen.booked {
                if let BookingChange::Placed { .. } = change {
                    placed.insert(name, true);
                }
            }
            let gpu = scheduler.cluster().resource(GPU).unwrap();
            for node in scheduler.cluster().nodes() {
                assert!(node.free(gpu) >= 0, "seed {seed}, step {step}: {}", node.name());
            }
            for own in scheduler.bookings() {
                let name = &own.booking.name;
                let all = own.kept.values().sum::<usize>() + own.taken + own.missing;
                assert_eq!(all, own.booking.room.pods.len(), "seed {seed}, step {step}: {name}");
                taken += own.taken;
                if placed[name] && own.begun {
                    assert_eq!(own.missing, 0, "seed {seed}, step {step}: {name}");
                } else if placed[name] {
                    lent += own.missing;
                }
            }
        }
    }
    assert!(
        taken > budget::of(10, 50) as usize
            && lent > budget::of(10, 50) as usize
            && evicted > budget::of(1, 5) as usize,
        "{taken} taken, {lent} lent, {evicted} evicted"
    );
}

#[test]
fn owners_by_their_pods_are_groups_of_such_pods_alone() {
    use phalanx::model::LabelSelector;
    let pods = || BookingOwner::Pods {
        namespace: Some("default".into()),
        selector: LabelSelector::label("app", "own"),
    };
    let pod = || BookingOwner::Pod(ObjectName::new("default", "own-0"));
    for (owner, label, elsewhere) in [(pods(), "own", "other"), (pod(), "any", "any")] {
        let mut scheduler = scheduler(gpus(1, 4), |_| ());
        let own = Booking::new("b", gang("room", 4), (at(0), at(100))).owner(owner);
        scheduler.handle_booking(own, at(0)).unwrap();
        settle(&mut scheduler, at(0));
        let group =
            |name: &str, label: &str| PodGroup::gang(name, 1).pods(1, gpu().label("app", label));
        scheduler.handle_group(group("guest", elsewhere), at(1)).unwrap();
        assert!(settle(&mut scheduler, at(1)).bound.is_empty());
        scheduler.handle_group(group("own", label), at(2)).unwrap();
        assert_eq!(settle(&mut scheduler, at(2)).bound, ["default/own"]);
        assert_eq!(counts(&scheduler), (3, 1, 0));
    }
}
