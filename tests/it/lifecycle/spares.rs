//! Spares: nodes and devices that are kept for repairs.

use phalanx::queue::{RepairWay, SpareAmount, Spares};
use phalanx::{PodGroup, Scheduler};

use super::repair::{fail, racks, repairs, settle, start};
use super::steps::*;

/// One node of each rack is kept for repairs.
fn with_spares(queue: Option<&str>) -> Scheduler {
    let mut scheduler = super::steps::scheduler(gpus(8, 2), repairs(3_600));
    let spares = Spares::new("spare", gpu().request(GPU, 2), SpareAmount::Count(1)).per("rack");
    let spares = match queue {
        Some(queue) => spares.queue(queue),
        None => spares,
    };
    scheduler.handle_spares(spares, at(0)).unwrap();
    settle(&mut scheduler, at(0));
    scheduler
}

fn kept(scheduler: &Scheduler) -> Vec<(String, usize, usize)> {
    let all = scheduler.bookings().into_iter();
    all.map(|own| (own.booking.name.clone(), own.kept.values().sum(), own.taken)).collect()
}

#[test]
fn spares_are_used_by_repairs_alone_and_kept_again() {
    let mut scheduler = with_spares(None);
    let names = ["spare/r0/0", "spare/r1/0"];
    assert_eq!(kept(&scheduler), names.map(|name| (name.to_owned(), 1, 0)));
    start(&mut scheduler, gang("own", 6).require("rack"), at(1));
    start(&mut scheduler, gang("other", 6).require("rack"), at(1));
    scheduler.handle_group(gang("small", 1), at(2)).unwrap();
    assert!(settle(&mut scheduler, at(2)).bound.is_empty(), "all the rest is spare");
    let before = racks(&scheduler, "own");
    fail(&mut scheduler, "own", at(10));
    let seen = settle(&mut scheduler, at(10));
    assert_eq!(seen.bound, [("default/own".to_owned(), 2)]);
    assert!(seen.said.is_empty() && seen.evicted.is_empty());
    assert_eq!(racks(&scheduler, "own"), before);
    assert_eq!(kept(&scheduler).iter().map(|own| own.2).sum::<usize>(), 1);
    // It is kept again when the gang has ended.
    scheduler.handle_group_removed("default/own", at(20)).unwrap();
    for pod in 0..6 {
        delete(&mut scheduler, &format!("own-{pod}"), at(20));
    }
    settle(&mut scheduler, at(20));
    assert_eq!(kept(&scheduler), names.map(|name| (name.to_owned(), 1, 0)));
}

#[test]
fn spares_of_one_queue_are_for_its_groups_alone() {
    for queue in ["vision", "speech"] {
        let mut scheduler = with_spares(Some("vision"));
        let mut own = PodGroup::gang("own", 4).pods(6, gpu()).require("rack");
        own.queue = queue.into();
        start(&mut scheduler, own, at(1));
        start(&mut scheduler, gang("other", 6).require("rack"), at(1));
        fail(&mut scheduler, "own", at(10));
        let seen = settle(&mut scheduler, at(10));
        if queue == "vision" {
            assert_eq!(seen.bound, [("default/own".to_owned(), 2)]);
        } else {
            assert!(seen.bound.is_empty());
            assert_eq!(seen.said[0].1, RepairWay::Stay);
        }
    }
}

#[test]
fn a_share_of_the_nodes_is_rounded_up_and_spares_are_restated() {
    let mut scheduler = super::steps::scheduler(gpus(8, 2), repairs(1));
    let share = |permille| Spares::new("s", gpu().request(GPU, 2), SpareAmount::Permille(permille));
    for (permille, count) in [(1, 1), (250, 2), (251, 3), (1_000, 8), (2_000, 8), (0, 0)] {
        scheduler.handle_spares(share(permille), at(1)).unwrap();
        settle(&mut scheduler, at(1));
        let kept = kept(&scheduler);
        assert_eq!((kept.len(), kept.iter().all(|own| own.1 == 1)), (count, true), "{permille}");
    }
    // Devices one by one, of each rack.
    let each = Spares::new("s", gpu(), SpareAmount::Permille(500)).per("rack");
    scheduler.handle_spares(each, at(2)).unwrap();
    assert_eq!(scheduler.bookings().len(), 8);
    scheduler.handle_spares_removed("s", at(3)).unwrap();
    assert!(scheduler.bookings().is_empty());
    assert!(scheduler.handle_spares_removed("s", at(3)).is_err());
    assert!(scheduler.handle_spares(Spares::new("n", gpu(), SpareAmount::Count(2)), at(4)).is_ok());
    assert_eq!(scheduler.bookings().len(), 2, "a number waits for its room");
}
