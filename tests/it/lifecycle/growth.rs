//! Growth: what an input costs depends on what it changes, not on what there is. Counted in groups
//! looked at.

use phalanx::queue::{Gone, GroupState, PreemptionSettings, Settings};
use phalanx::{Decision, Event, ObjectName, Pod, PodGroup, Scheduler};

use super::steps::*;

fn checked(scheduler: &Scheduler) -> u64 {
    scheduler.wake_stats().groups_checked
}

/// Groups that start together by what each names, in the order in which they come.
fn together(count: usize, names: impl Fn(usize) -> Vec<usize>) -> Scheduler {
    let mut scheduler = scheduler(gpus(count.div_ceil(8), 8), |_| ());
    for n in 0..count {
        let mut group = gang(&format!("g{n}"), 1);
        group.gang_group =
            names(n).into_iter().map(|n| ObjectName::new("default", &format!("g{n}"))).collect();
        scheduler.handle_group(group, at(1)).unwrap();
    }
    scheduler
}

/// Four times as many groups cost less than six times as much, and all start at once.
fn grows_evenly(names: impl Fn(usize, usize) -> Vec<usize>) {
    let few = checked(&together(60, |n| names(n, 60)));
    let mut scheduler = together(240, |n| names(n, 240));
    let many = checked(&scheduler);
    assert!(many >= 240 && many < 6 * few, "60 groups: {few}, 240: {many}");
    assert_eq!(bind_all(&mut scheduler, at(2)).len(), 240);
}

#[test]
fn groups_that_name_one_partner_are_added_in_even_time() {
    grows_evenly(|_, _| vec![0]);
    // The one that all name comes last.
    grows_evenly(|_, count| vec![count - 1]);
}

#[test]
fn groups_that_name_each_other_are_added_in_even_time() {
    grows_evenly(|n, count| (0..count).filter(|other| *other != n).collect());
}

#[test]
fn groups_in_a_chain_are_added_in_even_time() {
    grows_evenly(|n, _| vec![n.saturating_sub(1)]);
    grows_evenly(|n, count| vec![(n + 1).min(count - 1)]);
}

/// Members that come one by one, after their groups.
#[test]
fn members_of_groups_that_start_together_are_added_in_even_time() {
    let run = |count: usize| {
        let mut scheduler = scheduler(gpus(count.div_ceil(8), 8), |_| ());
        for n in 0..count {
            let mut group = PodGroup::gang(format!("g{n}"), 1);
            group.gang_group = vec!["default/g0".parse().unwrap()];
            scheduler.handle_group(group, at(1)).unwrap();
        }
        for n in 0..count {
            let pod = gpu().name(format!("p{n}")).in_group(format!("g{n}"));
            scheduler.handle_pod(pod, at(1)).unwrap();
            // Each waits for the first that has no pod yet.
            let state = scheduler.state("default/g0").unwrap();
            let is_last = n + 1 == count;
            match state {
                GroupState::Queued => assert!(is_last),
                GroupState::Gated(gate) => {
                    assert_eq!(
                        gate.group(),
                        Some(&ObjectName::new("default", &format!("g{}", n + 1)))
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        checked(&scheduler)
    };
    let (few, many) = (run(60), run(240));
    assert!(many < 6 * few, "60 groups: {few}, 240: {many}");
}

/// A removal looks at those that hang together by the group, not at all; and who is left alone is
/// tried alone.
#[test]
fn groups_that_start_together_are_removed_in_even_time() {
    let run = |count: usize| {
        let mut scheduler = together(count, |_| vec![0]);
        let before = checked(&scheduler);
        for n in 1..count {
            scheduler.handle_group_removed(&format!("default/g{n}"), at(1)).unwrap();
        }
        assert_eq!(bind_all(&mut scheduler, at(1)), ["default/g0"]);
        checked(&scheduler) - before
    };
    let (few, many) = (run(60), run(240));
    assert!(many < 6 * few, "60 groups: {few}, 240: {many}");
}

#[test]
fn a_gang_group_that_is_split_starts_part_by_part() {
    // Two chains over a bridge: 0-1-2 and 4-5-6 over 3.
    let mut scheduler = together(7, |n| vec![(n + 1).min(6)]);
    let pause = |scheduler: &mut Scheduler| scheduler.handle_pause("default/g6", at(1)).unwrap();
    pause(&mut scheduler);
    assert_eq!(scheduler.poll_decision(at(1)), None, "all wait for one");
    // The bridge goes: g2 names it, and waits for it; when g2 names no more, three start.
    scheduler.handle_group_removed("default/g3", at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    scheduler.handle_group(gang("g2", 1), at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/g0", "default/g1", "default/g2"]);
    assert_eq!(scheduler.poll_decision(at(4)), None);
    scheduler.handle_resume("default/g6", at(5)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(5)), ["default/g4", "default/g5", "default/g6"]);
}

/// A partner that drops out is waited for no longer.
#[test]
fn a_group_that_no_longer_names_its_partner_lets_it_start() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    let mut group = PodGroup::gang("b", 1);
    group.gang_group.push("default/a".parse().unwrap());
    scheduler.handle_group(gang("a", 1), at(1)).unwrap();
    scheduler.handle_group(group.clone(), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    group.gang_group.clear();
    scheduler.handle_group(group, at(2)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/a"]);
}

/// Each attempt compares one head, whatever the number of queues.
#[test]
fn attempts_do_not_look_at_all_queues() {
    let run = |count: usize| {
        let mut scheduler = scheduler(gpus(1, 8), |_| ());
        for n in 0..count {
            let mut group = gang(&format!("g{n}"), 9);
            group.queue = format!("q{n}");
            scheduler.handle_group(group, at(1)).unwrap();
        }
        assert_eq!(scheduler.poll_decision(at(1)), None);
        assert_eq!(scheduler.metrics().attempts, count as u64);
        checked(&scheduler)
    };
    let (few, many) = (run(50), run(200));
    assert!(many < 6 * few, "50 queues: {few}, 200: {many}");
}

/// A claim to the room of victims is no reason to try the groups that wait for others' room.
#[test]
fn groups_that_find_victims_do_not_try_each_other_again() {
    let run = |count: usize| {
        let preempts = |settings: &mut Settings| {
            settings.preemption = Some(PreemptionSettings::default());
        };
        let mut scheduler = scheduler(gpus(count, 4), preempts);
        for n in 0..count {
            let old = Pod::new().request(GPU, 4).name(format!("old{n}")).on(format!("n{n:04}"));
            let event = Event::PodChanged { pod: old, version: 0 };
            scheduler.handle_event(event, at(0)).unwrap();
            let new = Pod::new().request(GPU, 4).priority(10);
            let new = PodGroup::gang(format!("new{n}"), 1).pods(1, new).priority(10);
            scheduler.handle_group(new, at(1)).unwrap();
        }
        let mut gone = Vec::new();
        while let Some(decision) = scheduler.poll_decision(at(1)) {
            let Decision::Evict { ticket, victims, .. } = decision else { panic!("{decision:?}") };
            gone.extend(victims.into_iter().map(|victim| (ticket, victim.name)));
        }
        assert_eq!(gone.len(), count, "each has a victim of its own");
        let attempts = scheduler.metrics().attempts;
        for (ticket, name) in gone {
            scheduler.handle_gone(Gone::evicted(ticket, name.as_str()), at(2)).unwrap();
        }
        assert_eq!(bind_all(&mut scheduler, at(2)).len(), count, "each has its room");
        attempts
    };
    let (few, many) = (run(10), run(40));
    assert!(many >= 40 && many < 6 * few, "10 groups: {few}, 40: {many}");
}
