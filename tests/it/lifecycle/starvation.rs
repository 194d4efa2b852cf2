//! Deadlocks and starvation as reported of other schedulers, each as a test of its own.

use std::time::Duration;

use phalanx::framework::{PermitVerdict, permit_fn};
use phalanx::plugins::Fit;
use phalanx::queue::{
    Discipline, Gate, Gone, GroupChange, GroupState, HeadOfLine, OnBindFailure, ReservationPolicy,
    Settings, Shortage, Waiting,
};
use phalanx::{Cluster, Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};

use super::steps::{GPU, at, bind, gang, gpus};

fn scheduler(cluster: Cluster, settings: Settings) -> Scheduler {
    Scheduler::new(cluster, Framework::default(), settings)
}

fn settings(change: impl Fn(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

/// Binds what is to be bound, and gives back everything else.
fn bind_all(scheduler: &mut Scheduler, now: Time) -> Vec<Decision> {
    let mut others = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, plan, .. } => bind(scheduler, ticket, &plan, now),
            other => others.push(other),
        }
    }
    others
}

fn delete_all(scheduler: &mut Scheduler, group: &PodGroup, now: Time) {
    for pod in group.all_pods() {
        scheduler.handle_gone(Gone::deleted("default", &pod.name), now).unwrap();
    }
    scheduler.handle_group_removed(&group.full_name(), now).unwrap();
}

/// Coscheduling 114, `YuniKorn`: each holds a part and waits for the rest until a timeout.
#[test]
fn two_gangs_of_5_that_each_hold_3_of_8_gpus() {
    let mut scheduler = scheduler(gpus(1, 8), Settings::default());
    let (a, b) = (gang("a", 5), gang("b", 5));
    // Members come in turns; three of each are there, and nobody may hold anything.
    for group in [&a, &b] {
        let mut early = group.clone();
        early.pods.truncate(3);
        scheduler.handle_group(early, at(0)).unwrap();
    }
    assert_eq!(scheduler.poll_decision(at(0)), None);
    assert_eq!(scheduler.cluster().pod_count(), 0);
    let gate = Gate::Members { group: "default/a".parse().unwrap(), have: 3, need: 5 };
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Gated(gate)));
    for index in 3..5 {
        for group in [&a, &b] {
            let pod = group.pods[index].clone().in_group(group.name.clone());
            scheduler.handle_pod(pod, at(1)).unwrap();
        }
    }
    assert!(bind_all(&mut scheduler, at(1)).is_empty());
    // One runs whole; the other holds nothing, and knows what it lacks.
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
    assert_eq!(scheduler.cluster().pod_count(), 5);
    let Some(GroupState::Unschedulable { shortage: Some(shortage), .. }) =
        scheduler.state("default/b")
    else {
        panic!("b waits")
    };
    assert!(matches!(shortage, Shortage::Capacity { needed: 5, available: 3, .. }));
    // One GPU more is not enough to try it again; two are.
    let attempts = scheduler.metrics().attempts;
    scheduler.handle_gone(Gone::finished("default", "a-0"), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(scheduler.metrics().attempts, attempts);
    scheduler.handle_gone(Gone::finished("default", "a-1"), at(2)).unwrap();
    assert!(bind_all(&mut scheduler, at(2)).is_empty());
    assert_eq!(scheduler.state("default/b"), Some(GroupState::Running));
}

fn held(wants: usize) -> Framework {
    let all_here = permit_fn("all-here", move |cx| {
        let running = cx.cluster.group_pods(&cx.group.full_name()).count();
        if running + cx.group.all_pods().len() >= wants {
            PermitVerdict::Admit
        } else {
            PermitVerdict::Hold { until: Time::MAX }
        }
    });
    Framework::builder().filter(Fit).permit(all_here).build().unwrap()
}

/// Koordinator 872: the gang stays permitted with a member less than its minimum.
#[test]
fn a_member_deleted_while_the_gang_is_permitted() {
    let mut scheduler = Scheduler::new(gpus(1, 8), held(5), Settings::default());
    scheduler.handle_group(gang("a", 4), at(0)).unwrap();
    assert_eq!(scheduler.poll_decision(at(0)), None);
    assert!(matches!(scheduler.state("default/a"), Some(GroupState::Permitting { .. })));
    assert_eq!(scheduler.cluster().pod_count(), 4, "what is held is seen by all");

    scheduler.handle_gone(Gone::deleted("default", "a-2"), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert!(matches!(scheduler.state("default/a"), Some(GroupState::Gated(_))));
    assert_eq!(scheduler.cluster().pod_count(), 0, "nothing is held for a gang that cannot start");

    // Its replacement brings the gang back, held again.
    let pod = Pod::new().name("a-9").request(GPU, 1).in_group("a");
    scheduler.handle_pod(pod, at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert!(matches!(scheduler.state("default/a"), Some(GroupState::Permitting { .. })));
    assert_eq!(scheduler.cluster().pod_count(), 4);
}

/// The last member and the timeout at the same instant: whoever is told first wins, and nobody is
/// lost.
#[test]
fn a_permit_timeout_racing_the_last_member() {
    for member_first in [true, false] {
        let mut scheduler = Scheduler::new(gpus(1, 8), held(5), Settings::default());
        let group = gang("a", 4).schedule_timeout(Duration::from_secs(30));
        scheduler.handle_group(group, at(0)).unwrap();
        assert_eq!(scheduler.poll_decision(at(0)), None);
        assert_eq!(scheduler.next_wake(), Some(at(30)));
        let last = Pod::new().name("a-last").request(GPU, 1).in_group("a");
        if !member_first {
            scheduler.handle_time(at(30));
            assert_eq!(scheduler.cluster().pod_count(), 0);
            assert_eq!(scheduler.metrics().holds_expired, 1);
        }
        scheduler.handle_pod(last, at(30)).unwrap();
        if member_first {
            let Some(Decision::Bind { ticket, plan, .. }) = scheduler.poll_decision(at(30)) else {
                panic!("it came in time")
            };
            assert_eq!(plan.len(), 4);
            assert_eq!(scheduler.metrics().holds_expired, 0);
            bind(&mut scheduler, ticket, &plan, at(30));
        }
        // Either way it runs whole in the end, all five.
        let mut now = at(30);
        for _ in 0..4 {
            bind_all(&mut scheduler, now);
            now = scheduler.next_wake().unwrap_or(now);
        }
        assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
        assert_eq!(scheduler.status("default/a").unwrap().bound, 5);
    }
}

/// Koordinator 1701: 255 pods, one fails, all start over, for ever, and nobody else gets a turn.
#[test]
fn one_of_255_pods_failing_again_and_again() {
    for (keep, minimum) in [(false, 255), (true, 254)] {
        let options = settings(|s| {
            s.demote_after = Some(2);
            if keep {
                s.on_bind_failure = OnBindFailure::KeepMinimum;
            } else {
                s.discipline = Discipline::StrictFifo;
            }
        });
        let mut scheduler = scheduler(gpus(32, 8), options);
        let big = PodGroup::gang("big", minimum).pods(255, Pod::new().request(GPU, 1));
        scheduler.handle_group(big, at(0)).unwrap();
        scheduler.handle_group(gang("small", 200), at(1)).unwrap();
        let mut now = at(1);
        let mut tries = 0;
        for _ in 0..200 {
            while let Some(decision) = scheduler.poll_decision(now) {
                match decision {
                    Decision::Bind { ticket, plan, groups } => {
                        for assignment in plan.assignments() {
                            let name = &assignment.pod().name;
                            tries += usize::from(name == "big-77");
                            let result = if name == "big-77" { Err("no".into()) } else { Ok(()) };
                            scheduler.handle_binding(ticket, "default", name, result, now).unwrap();
                        }
                        if groups == ["default/small"] {
                            assert_eq!(scheduler.state("default/small"), Some(GroupState::Running));
                        }
                    }
                    Decision::Unbind { pods, .. } => {
                        assert_eq!(pods.len(), 254);
                        for pod in pods {
                            scheduler
                                .handle_gone(Gone::unbound("default", pod.pod.name()), now)
                                .unwrap();
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
            if tries >= 5 {
                break;
            }
            let Some(wake) = scheduler.next_wake() else { break };
            now = wake.max(now);
        }
        if keep {
            // The other 254 run on, and the one tries alone, ever more seldom.
            assert_eq!(scheduler.status("default/big").unwrap().bound, 254);
            assert!(now >= at(1 + 1 + 2 + 4), "{now:?}");
        } else {
            // After two failures it makes way.
            assert_eq!(scheduler.state("default/small"), Some(GroupState::Running));
            assert_eq!(scheduler.status("default/big").unwrap().bound, 0);
            assert_eq!(scheduler.cluster().pod_count(), 200);
        }
    }
}

/// Volcano 13, KAI 1969: small work goes past a large gang for ever, unless it may reserve.
#[test]
fn a_large_gang_behind_an_endless_stream_of_small_pods() {
    let run = |reservation: Option<ReservationPolicy>| {
        let options =
            settings(|s| s.discipline = Discipline::in_order(HeadOfLine::BestEffort, reservation));
        let mut scheduler = scheduler(gpus(4, 8), options);
        let mut running: Vec<(u64, PodGroup)> = Vec::new();
        for index in 0..32 {
            let group = gang(&format!("first-{index}"), 1);
            scheduler.handle_group(group.clone(), at(0)).unwrap();
            running.push((10 + index, group));
        }
        bind_all(&mut scheduler, at(0));
        scheduler.handle_group(gang("large", 24), at(1)).unwrap();
        for second in 2..600 {
            // Two small ones come for each that ends.
            for index in 0..2 {
                let group = gang(&format!("small-{second}-{index}"), 1);
                scheduler.handle_group(group, at(second)).unwrap();
            }
            while running.first().is_some_and(|(end, _)| *end <= second) {
                let (_, group) = running.remove(0);
                delete_all(&mut scheduler, &group, at(second));
            }
            while let Some(decision) = scheduler.poll_decision(at(second)) {
                let Decision::Bind { ticket, plan, .. } = decision else { continue };
                bind(&mut scheduler, ticket, &plan, at(second));
                let name = plan.group().split_once('/').unwrap().1.to_owned();
                if name == "large" {
                    return Some(second);
                }
                running.push((second + 40, gang(&name, 1)));
                running.sort_by_key(|(end, _)| *end);
            }
            let reserved = scheduler.reservations();
            assert!(reserved.iter().all(|r| r.group == "default/large" && r.wanted == 24));
        }
        None
    };
    assert_eq!(run(None), None, "without a reservation it starves");
    let policy = ReservationPolicy::new().after(Duration::from_secs(30));
    let started = run(Some(policy)).expect("with one it starts");
    // 30 s of waiting, then at most one life of the small ones.
    assert!(started <= 1 + 30 + 42, "{started}");
}

#[test]
fn a_reservation_is_given_up_at_its_timeout() {
    let policy = ReservationPolicy::new()
        .after(Duration::from_secs(10))
        .timeout(Duration::from_secs(50))
        .at_most(1);
    let mut scheduler = scheduler(gpus(2, 8), Settings::new().reservation(policy));
    scheduler.handle_group(gang("eternal", 9), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("large", 12), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    scheduler.handle_time(at(11));
    bind_all(&mut scheduler, at(11));
    let reservations = scheduler.reservations();
    assert_eq!(reservations.len(), 1);
    assert_eq!(reservations[0].pods.values().sum::<usize>(), 7);
    scheduler.handle_group(gang("small", 1), at(12)).unwrap();
    bind_all(&mut scheduler, at(12));
    assert!(matches!(scheduler.state("default/small"), Some(GroupState::Unschedulable { .. })));
    bind_all(&mut scheduler, at(61));
    assert!(scheduler.reservations().is_empty());
    assert_eq!(scheduler.state("default/small"), Some(GroupState::Running));
    assert_eq!(scheduler.metrics().reservation_timeouts, 1);
}

#[test]
fn gangs_of_a_gang_group_start_together_or_not_at_all() {
    let mut scheduler = scheduler(gpus(1, 8), Settings::default());
    let mut a = gang("a", 4);
    a.gang_group.push("default/b".parse().unwrap());
    scheduler.handle_group(a, at(0)).unwrap();
    assert_eq!(scheduler.poll_decision(at(0)), None);
    let gate = Gate::Partner { group: "default/b".parse().unwrap() };
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Gated(gate)));
    let blocker = gang("blocker", 2);
    scheduler.handle_group(blocker.clone().priority(1), at(1)).unwrap();
    bind_all(&mut scheduler, at(1));
    // Six GPUs are left: room for either, not for both.
    scheduler.handle_group(gang("b", 4), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert_eq!(scheduler.cluster().pod_count(), 2);
    delete_all(&mut scheduler, &blocker, at(2));
    let Some(Decision::Bind { ticket, groups, plan }) = scheduler.poll_decision(at(2)) else {
        panic!("there is room for both")
    };
    assert_eq!((groups.len(), plan.len()), (2, 8));
    // One pod fails: both are undone.
    scheduler.handle_binding(ticket, "default", "a-0", Err("no".into()), at(3)).unwrap();
    let Some(Decision::Unbind { groups, pods, .. }) = scheduler.poll_decision(at(3)) else {
        panic!("all are undone")
    };
    assert_eq!((groups.len(), pods.len()), (2, 7));
}

/// A partner that runs starts no second time, whatever it was doing while the other arrived.
#[test]
fn a_gang_whose_partner_has_started_is_planned_alone() {
    let mut scheduler = scheduler(gpus(1, 8), Settings::default());
    scheduler.handle_group(gang("a", 2), at(0)).unwrap();
    let Some(Decision::Bind { ticket, plan, .. }) = scheduler.poll_decision(at(0)) else {
        panic!()
    };
    let mut b = gang("b", 2);
    b.gang_group.push("default/a".parse().unwrap());
    scheduler.handle_group(b, at(0)).unwrap();
    assert_eq!(scheduler.poll_decision(at(0)), None);
    bind(&mut scheduler, ticket, &plan, at(1));
    let Some(Decision::Bind { groups, .. }) = scheduler.poll_decision(at(1)) else { panic!() };
    assert_eq!(groups, ["default/b"]);
}

/// A gang that has lost all of its members is a partner again, also while it is paused.
#[test]
fn a_gang_waits_for_a_paused_partner_that_runs_no_more() {
    let mut scheduler = scheduler(gpus(1, 8), Settings::default());
    let a = gang("a", 2);
    scheduler.handle_group(a.clone(), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    let mut b = gang("b", 9);
    b.gang_group.push("default/a".parse().unwrap());
    scheduler.handle_group(b, at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    // A late member that has no room: the gang has something to be paused for.
    scheduler.handle_pod(Pod::new().name("late").request(GPU, 9).in_group("a"), at(1)).unwrap();
    scheduler.handle_pause("default/a", at(1)).unwrap();
    delete_all(&mut scheduler, &a, at(2));
    let gate = Gate::Partner { group: "default/a".parse().unwrap() };
    assert_eq!(scheduler.state("default/b"), Some(GroupState::Gated(gate)));
}

/// Volcano 5805: a gang is stranded below its minimum after a node is lost.
#[test]
fn a_gang_below_its_minimum_is_repaired_or_reported() {
    for repaired in [true, false] {
        let mut scheduler = scheduler(gpus(3, 2), Settings::default());
        scheduler.handle_group(gang("a", 4), at(0)).unwrap();
        bind_all(&mut scheduler, at(0));
        let lost = scheduler.cluster().pod("default", "a-3").unwrap().node().unwrap();
        let lost = lost.name().to_owned();
        let event = Event::NodeRemoved { name: lost.clone(), version: 0 };
        scheduler.handle_event(event, at(10)).unwrap();
        assert_eq!(scheduler.state("default/a"), Some(GroupState::BelowMinimum { since: at(10) }));
        assert_eq!(scheduler.next_wake(), Some(at(70)));
        if repaired {
            for index in [2, 3] {
                scheduler
                    .handle_gone(Gone::deleted("default", &format!("a-{index}")), at(20))
                    .unwrap();
                let pod = Pod::new().name(format!("b-{index}")).request(GPU, 1).in_group("a");
                scheduler.handle_pod(pod, at(20)).unwrap();
            }
            assert!(bind_all(&mut scheduler, at(20)).is_empty());
            assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
            assert_eq!(scheduler.next_wake(), None);
        } else {
            let decisions = bind_all(&mut scheduler, at(70));
            let [Decision::EvictStale { pods, since, .. }] = &decisions[..] else {
                panic!("{decisions:?}")
            };
            assert_eq!((pods.len(), *since), (4, at(10)));
            assert_eq!(scheduler.state("default/a"), Some(GroupState::Gated(Gate::Evicting)));
        }
    }
}

#[test]
fn a_node_lost_during_binding_undoes_the_gang_and_a_late_result_is_harmless() {
    let mut scheduler = scheduler(gpus(3, 2), Settings::default());
    scheduler.handle_group(gang("a", 4), at(0)).unwrap();
    let Some(Decision::Bind { ticket, plan, .. }) = scheduler.poll_decision(at(0)) else {
        panic!()
    };
    let first = plan.assignments().next().unwrap();
    let (name, node) = (first.pod().name.clone(), first.node().to_owned());
    let event = Event::NodeRemoved { name: node, version: 0 };
    scheduler.handle_event(event, at(1)).unwrap();
    let Some(Decision::Unbind { pods, .. }) = scheduler.poll_decision(at(1)) else { panic!() };
    assert!(pods.iter().all(|pod| pod.pod.name() != name));
    scheduler.handle_binding(ticket, "default", &name, Ok(()), at(1)).unwrap();
    for pod in pods {
        scheduler.handle_gone(Gone::unbound("default", pod.pod.name()), at(1)).unwrap();
    }
    assert_eq!(scheduler.state("default/a"), Some(GroupState::BackingOff { until: at(2) }));
    bind_all(&mut scheduler, at(2));
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
}

#[test]
fn an_order_of_the_embedders_own_comes_before_priority() {
    let shortest = |waiting: &Waiting<'_>| waiting.pending as i64;
    let mut scheduler = scheduler(gpus(1, 8), Settings::default()).with_order(shortest);
    for (name, size, priority) in [("a", 6, 9), ("b", 3, 5), ("c", 2, 0)] {
        scheduler.handle_group(gang(name, size).priority(priority), at(0)).unwrap();
    }
    assert_eq!(scheduler.queue("").collect::<Vec<_>>(), ["default/c", "default/b", "default/a"]);
    bind_all(&mut scheduler, at(0));
    assert!(matches!(scheduler.state("default/a"), Some(GroupState::Unschedulable { .. })));
}

#[test]
fn strict_fifo_waits_for_the_head_and_pausing_it_lets_others_by() {
    let mut scheduler = scheduler(gpus(1, 8), settings(|s| s.discipline = Discipline::StrictFifo));
    scheduler.handle_group(gang("large", 9), at(0)).unwrap();
    scheduler.handle_group(gang("small", 1), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert_eq!(scheduler.state("default/small"), Some(GroupState::Queued));
    scheduler.handle_pause("default/large", at(2)).unwrap();
    bind_all(&mut scheduler, at(2));
    assert_eq!(scheduler.state("default/small"), Some(GroupState::Running));
    scheduler.handle_resume("default/large", at(3)).unwrap();
    assert_eq!(scheduler.poll_decision(at(3)), None);
    assert!(matches!(scheduler.state("default/large"), Some(GroupState::Unschedulable { .. })));
}

#[test]
fn a_nomination_keeps_its_room_until_victims_are_gone() {
    let mut scheduler = scheduler(gpus(1, 4), Settings::default());
    let victim = gang("victim", 4);
    scheduler.handle_group(victim.clone(), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("urgent", 3).priority(9), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    // As preemption would plan it: the cluster without the victims.
    let mut without = scheduler.cluster().txn();
    for index in 0..4 {
        without.evict("default", &format!("victim-{index}")).unwrap();
    }
    let urgent = gang("urgent", 3);
    let outcome = phalanx::place_gang(&without, scheduler.framework(), &urgent).unwrap();
    scheduler.handle_nomination(outcome.plan().unwrap().clone(), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    // What frees is not taken by those who come now.
    scheduler.handle_group(gang("thief", 2), at(3)).unwrap();
    for index in 0..3 {
        scheduler.handle_gone(Gone::deleted("default", &format!("victim-{index}")), at(4)).unwrap();
        bind_all(&mut scheduler, at(4));
    }
    assert_eq!(scheduler.state("default/urgent"), Some(GroupState::Running));
    assert!(matches!(scheduler.state("default/thief"), Some(GroupState::Unschedulable { .. })));
}

#[test]
fn a_conflict_retries_the_whole_gang_and_goes_on_with_back_off() {
    let mut scheduler = scheduler(gpus(2, 4), Settings::default());
    scheduler.handle_group(gang("a", 4), at(0)).unwrap();
    for round in 0..3_u64 {
        let now = at(round * 10);
        let Some(Decision::Bind { ticket, plan, .. }) = scheduler.poll_decision(now) else {
            panic!("round {round}")
        };
        assert_eq!(plan.len(), 4);
        scheduler.handle_conflict(ticket, "moved", now).unwrap();
        assert_eq!(scheduler.cluster().pod_count(), 0);
        assert!(scheduler.handle_conflict(ticket, "moved", now).is_err());
        let state = scheduler.state("default/a").unwrap();
        assert_eq!(state == GroupState::Queued, round == 0, "{state:?}");
    }
}

#[test]
fn events_tell_the_whole_story() {
    let mut scheduler = scheduler(gpus(1, 2), Settings::default());
    scheduler.handle_group(gang("a", 3), at(0)).unwrap();
    assert_eq!(scheduler.poll_decision(at(0)), None);
    let node = Node::new("n9").capacity(GPU, 1);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(5)).unwrap();
    bind_all(&mut scheduler, at(5));
    let mut story = Vec::new();
    while let Some(event) = scheduler.poll_event() {
        story.push(match event.change {
            GroupChange::Unschedulable(Shortage::Capacity { needed, available, .. }) => {
                format!("lacks {needed}/{available}")
            }
            GroupChange::Binding { pods } => format!("binds {pods}"),
            GroupChange::Started { waited } => format!("started after {waited:?}"),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(story, ["Added", "Queued", "lacks 3/2", "Queued", "binds 3", "started after 5s"]);
    assert_eq!(scheduler.metrics().waiting.count(), 1);
}
