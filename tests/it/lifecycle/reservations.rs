//! Reservations: what they hold, for how long, and before whom.

use std::time::Duration;

use phalanx::model::{Device, DeviceRequest};
use phalanx::plugins::{DeviceFit, Fit};
use phalanx::queue::{GroupState, ReservationPolicy, Settings, Shortage};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler};

use super::steps::*;

fn reserving(at_most: usize) -> impl Fn(&mut Settings) {
    move |settings| {
        let after = Duration::from_secs(10);
        settings.reservation = Some(ReservationPolicy::new().after(after).at_most(at_most));
    }
}

#[test]
fn reservations_are_bounded_visible_and_outranked() {
    let mut scheduler = scheduler(gpus(4, 4), reserving(2));
    scheduler.handle_group(gang("all", 14), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    for name in ["a", "b", "c"] {
        scheduler.handle_group(gang(name, 12), at(1)).unwrap();
    }
    bind_all(&mut scheduler, at(1));
    bind_all(&mut scheduler, at(20));
    let names = |scheduler: &Scheduler| {
        scheduler.reservations().into_iter().map(|r| r.group).collect::<Vec<_>>()
    };
    assert_eq!(names(&scheduler), ["default/a", "default/b"]);
    let reserved = &scheduler.reservations()[0];
    assert_eq!((reserved.pods.values().sum::<usize>(), reserved.wanted), (2, 12));
    assert_eq!(scheduler.cluster().pod_count(), 16, "others see what is put aside");
    // Who is more important and has waited as long takes the place of the last.
    scheduler.handle_group(gang("urgent", 12).priority(5), at(21)).unwrap();
    bind_all(&mut scheduler, at(21));
    assert_eq!(names(&scheduler), ["default/a", "default/b"]);
    bind_all(&mut scheduler, at(40));
    assert_eq!(names(&scheduler), ["default/a", "default/urgent"]);
    let reserved: usize = scheduler.reservations()[1].pods.values().sum();
    assert_eq!(reserved, 0, "what a has put aside is a's");
    delete(&mut scheduler, "all-0", at(41));
    bind_all(&mut scheduler, at(41));
    assert_eq!(scheduler.cluster().pod_count(), 16);
}

#[test]
fn reservations_hold_devices_by_model_and_share() {
    let card = |model: &str| Device::new("card", model).capacity("milli", 1_000);
    let mut cluster = Cluster::new();
    for (name, model) in [("old", "A"), ("new", "B")] {
        let node = Node::new(name).capacity("cpu", 64).device(card(model)).device(card(model));
        cluster.add_node(node).unwrap();
    }
    let framework = Framework::builder().filter(Fit).filter(DeviceFit).build().unwrap();
    let mut settings = Settings::default();
    reserving(1)(&mut settings);
    let mut scheduler = Scheduler::new(cluster, framework, settings);
    let whole = |model: &str| Pod::new().device(DeviceRequest::whole("card", 1).model(model));
    let share = |milli| Pod::new().device(DeviceRequest::share("card", "milli", milli));
    for name in ["x", "y"] {
        scheduler.handle_group(PodGroup::gang(name, 1).pods(1, whole("B")), at(0)).unwrap();
    }
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(PodGroup::gang("large", 2).pods(2, whole("B")), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    bind_all(&mut scheduler, at(20));
    assert_eq!(scheduler.reservations()[0].pods.len(), 0);
    delete(&mut scheduler, "x-0", at(21));
    bind_all(&mut scheduler, at(21));
    assert_eq!(scheduler.reservations()[0].pods["new"], 1);
    // The device is put aside: who wants any part of a card of that model waits.
    let thief = Pod::new().device(DeviceRequest::share("card", "milli", 100).model("B"));
    scheduler.handle_group(PodGroup::gang("thief", 1).pods(1, thief), at(22)).unwrap();
    scheduler.handle_group(PodGroup::gang("other", 3).pods(3, share(600)), at(22)).unwrap();
    scheduler.handle_group(PodGroup::gang("fits", 2).pods(2, share(600)), at(22)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(22)), ["default/fits"]);
    assert!(is_asleep(&scheduler, "default/thief") && is_asleep(&scheduler, "default/other"));
    delete(&mut scheduler, "y-0", at(23));
    assert_eq!(bind_all(&mut scheduler, at(23)), ["default/large"]);
    assert!(scheduler.reservations().is_empty());
}

#[test]
fn a_gang_with_a_reservation_does_not_start_without_its_partner() {
    let mut scheduler = scheduler(gpus(1, 8), reserving(1));
    scheduler.handle_group(gang("all", 8), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("a", 4), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    delete(&mut scheduler, "all-0", at(20));
    bind_all(&mut scheduler, at(20));
    assert_eq!(scheduler.reservations().len(), 1);
    let mut partner = gang("b", 4);
    partner.gang_group.push("default/a".parse().unwrap());
    scheduler.handle_group(partner, at(21)).unwrap();
    for index in 1..8 {
        delete(&mut scheduler, &format!("all-{index}"), at(21 + index));
        let started = bind_all(&mut scheduler, at(21 + index));
        assert_eq!(started.len(), if index == 7 { 2 } else { 0 }, "{index}: {started:?}");
    }
    assert_eq!(scheduler.state("default/b"), Some(GroupState::Running));
}

#[test]
fn a_paused_group_lets_go_of_what_is_held_and_reserved() {
    let mut scheduler = scheduler(gpus(1, 8), reserving(1));
    scheduler.handle_group(gang("all", 6), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("large", 8), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    bind_all(&mut scheduler, at(20));
    scheduler.handle_group(gang("small", 2), at(21)).unwrap();
    assert!(bind_all(&mut scheduler, at(21)).is_empty());
    assert!(is_asleep(&scheduler, "default/small"));
    scheduler.handle_pause("default/large", at(22)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(22)), ["default/small"]);
    assert!(scheduler.reservations().is_empty());
    scheduler.handle_resume("default/large", at(23)).unwrap();
    bind_all(&mut scheduler, at(23));
    let Some(GroupState::Unschedulable { shortage: Some(shortage), .. }) =
        scheduler.state("default/large")
    else {
        panic!("it waits again")
    };
    assert!(matches!(shortage, Shortage::Capacity { needed: 8, available: 0, .. }));
}

#[test]
fn a_reservation_does_not_pass_by_the_back_off() {
    let mut scheduler = scheduler(gpus(1, 4), reserving(1));
    scheduler.handle_group(gang("all", 4), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("a", 4), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    for index in 0..4 {
        delete(&mut scheduler, &format!("all-{index}"), at(20));
    }
    let mut now = at(20);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let (ticket, _) = plan(&mut scheduler, now);
        scheduler.handle_conflict(ticket, "moved", now).unwrap();
        if let Some(GroupState::BackingOff { until }) = scheduler.state("default/a") {
            assert_eq!(scheduler.poll_decision(now), None);
            waits.push(until.since(now).as_secs());
            now = until;
        }
    }
    assert_eq!(waits, [1, 2, 4, 8]);
}
