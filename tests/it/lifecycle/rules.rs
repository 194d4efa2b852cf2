//! The rules of the life of a gang, one by one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::framework::{PermitVerdict, Reach, filter_fn, permit_fn};
use phalanx::plugins::Fit;
use phalanx::queue::{Gate, Gone, GroupChange, GroupState, OnBindFailure, Settings, Waiting};
use phalanx::{Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};

use super::steps::*;

#[test]
fn late_members_join_a_running_group_where_it_is() {
    let mut scheduler = scheduler(gpus(8, 2), |_| ());
    scheduler.handle_group(gang("a", 3).require("rack"), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    for index in 0..5 {
        let pod = gpu().name(format!("late-{index}")).in_group("a");
        scheduler.handle_pod(pod, at(1)).unwrap();
        bind_all(&mut scheduler, at(1));
    }
    let status = scheduler.status("default/a").unwrap();
    assert_eq!((status.bound, status.state), (8, GroupState::Running));
    let racks: Vec<_> = scheduler
        .cluster()
        .group_pods("default/a")
        .map(|pod| pod.node().unwrap().label("rack").map(str::to_owned))
        .collect();
    assert!(racks.iter().all(|rack| *rack == racks[0]));
    assert!(changes(&mut scheduler).contains(&GroupChange::Joined { pods: 1 }));
    // Its rack is full. One more waits for room there, and the others run on.
    scheduler.handle_pod(gpu().name("late-9").in_group("a"), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert!(is_asleep(&scheduler, "default/a"));
    let status = scheduler.status("default/a").unwrap();
    assert!(status.started && status.below_minimum_since.is_none());
    delete(&mut scheduler, "a-0", at(3));
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/a"]);
}

#[test]
fn what_runs_is_kept_when_a_permit_times_out_only_if_the_gang_says_so() {
    for keep in [true, false] {
        let first = permit_fn("only-whole", |cx| {
            if cx.group.all_pods().len() == 4 {
                PermitVerdict::Admit
            } else {
                PermitVerdict::Hold { until: Time::MAX }
            }
        });
        let framework = Framework::builder().filter(Fit).permit(first).build().unwrap();
        let mut scheduler = Scheduler::new(gpus(1, 8), framework, Settings::default());
        let mut group = gang("a", 4).schedule_timeout(Duration::from_secs(20));
        group.keep_running = keep;
        scheduler.handle_group(group, at(0)).unwrap();
        bind_all(&mut scheduler, at(0));
        // One is lost and comes again; the permit holds it until the time is over.
        delete(&mut scheduler, "a-1", at(10));
        scheduler.handle_pod(gpu().name("a-9").in_group("a"), at(10)).unwrap();
        assert_eq!(scheduler.poll_decision(at(10)), None);
        let held = GroupState::Permitting { by: "only-whole".into(), until: at(30) };
        assert_eq!(scheduler.state("default/a"), Some(held));
        scheduler.handle_time(at(30));
        assert_eq!(scheduler.metrics().holds_expired, 1);
        let status = scheduler.status("default/a").unwrap();
        assert_eq!((status.bound, status.planned), (3, 0));
        if keep {
            assert!(!matches!(scheduler.poll_decision(at(30)), Some(Decision::EvictStale { .. })));
            // Not for ever: it is below its minimum since the loss.
            let Some(Decision::EvictStale { pods, since, .. }) = scheduler.poll_decision(at(70))
            else {
                panic!("it is stale")
            };
            assert_eq!((pods.len(), since), (3, at(10)));
        } else {
            let Some(Decision::EvictStale { pods, .. }) = scheduler.poll_decision(at(30)) else {
                panic!("all of it goes")
            };
            assert_eq!(pods.len(), 3);
        }
    }
}

#[test]
fn a_pod_deleted_during_binding_matters_only_to_the_minimum() {
    for minimum in [3, 4] {
        let mut scheduler = scheduler(gpus(1, 8), |_| ());
        let group = PodGroup::gang("a", minimum).pods(4, gpu());
        scheduler.handle_group(group, at(0)).unwrap();
        let (ticket, plan) = plan(&mut scheduler, at(0));
        assert_eq!(plan.len(), 4);
        delete(&mut scheduler, "a-2", at(1));
        let decision = scheduler.poll_decision(at(1));
        if minimum == 3 {
            assert_eq!(decision, None);
            for name in ["a-0", "a-1", "a-3"] {
                scheduler.handle_binding(ticket, "default", name, Ok(()), at(2)).unwrap();
            }
            assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
        } else {
            let Some(Decision::Unbind { pods, .. }) = decision else { panic!("{decision:?}") };
            assert_eq!(pods.len(), 3);
            assert_eq!(scheduler.cluster().pod_count(), 3, "they take room until they are off");
            for pod in pods {
                scheduler.handle_gone(Gone::unbound("default", pod.pod.name()), at(2)).unwrap();
            }
            let gate = Gate::Members { group: "default/a".parse().unwrap(), have: 3, need: 4 };
            assert_eq!(scheduler.state("default/a"), Some(GroupState::Gated(gate)));
            assert_eq!(scheduler.cluster().pod_count(), 0);
        }
    }
}

#[test]
fn results_that_never_come_undo_the_plan() {
    let mut scheduler = scheduler(gpus(1, 8), |s| s.bind_timeout = Duration::from_secs(30));
    scheduler.handle_group(gang("a", 4), at(0)).unwrap();
    let (ticket, _) = plan(&mut scheduler, at(0));
    scheduler.handle_binding(ticket, "default", "a-0", Ok(()), at(1)).unwrap();
    assert_eq!(scheduler.next_wake(), Some(at(30)));
    let Some(Decision::Unbind { pods, .. }) = scheduler.poll_decision(at(30)) else {
        panic!("the time is over")
    };
    assert_eq!(pods.len(), 4);
    // A late word that it is bound is no word that it is off.
    scheduler.handle_binding(ticket, "default", "a-1", Ok(()), at(31)).unwrap();
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Undoing));
    for pod in pods {
        scheduler.handle_gone(Gone::unbound("default", pod.pod.name()), at(32)).unwrap();
    }
    assert_eq!(bind_all(&mut scheduler, at(32)), ["default/a"]);
}

#[test]
fn a_failed_binding_keeps_the_rest_if_the_policy_and_the_minimum_let_it() {
    for (policy, minimum, kept) in [
        (OnBindFailure::KeepMinimum, 3, true),
        (OnBindFailure::KeepMinimum, 4, false),
        (OnBindFailure::UndoAll, 3, false),
        (OnBindFailure::Retry, 3, true),
        (OnBindFailure::Retry, 4, true),
    ] {
        let mut scheduler = scheduler(gpus(1, 8), |s| s.on_bind_failure = policy);
        scheduler.handle_group(PodGroup::gang("a", minimum).pods(4, gpu()), at(0)).unwrap();
        let (ticket, _) = plan(&mut scheduler, at(0));
        scheduler.handle_binding(ticket, "default", "a-0", Err("no".into()), at(1)).unwrap();
        let undone = matches!(scheduler.poll_decision(at(1)), Some(Decision::Unbind { .. }));
        assert_eq!(undone, !kept);
        if kept {
            for name in ["a-1", "a-2", "a-3"] {
                scheduler.handle_binding(ticket, "default", name, Ok(()), at(1)).unwrap();
            }
            let status = scheduler.status("default/a").unwrap();
            assert_eq!((status.started, status.pending), (minimum == 3, 1));
            // The one tries again after its back-off, and joins.
            assert_eq!(status.state, GroupState::BackingOff { until: at(2) });
            assert_eq!(bind_all(&mut scheduler, at(2)), ["default/a"]);
            assert_eq!(scheduler.status("default/a").unwrap().bound, 4);
        }
    }
}

#[test]
fn a_gang_half_bound_is_evicted_in_time_if_that_is_asked_for() {
    for evicts in [false, true] {
        let mut scheduler = scheduler(gpus(1, 8), |s| {
            s.on_bind_failure = OnBindFailure::Retry;
            s.evict_half_bound = evicts;
        });
        scheduler.handle_group(PodGroup::gang("a", 3).pods(3, gpu()), at(0)).unwrap();
        let (ticket, _) = plan(&mut scheduler, at(0));
        scheduler.handle_binding(ticket, "default", "a-0", Ok(()), at(1)).unwrap();
        scheduler.handle_binding(ticket, "default", "a-1", Ok(()), at(1)).unwrap();
        // It is deleted while it is bound; another one may come.
        scheduler.handle_gone(Gone::deleted("default", "a-2"), at(2)).unwrap();
        assert_eq!(scheduler.poll_decision(at(61)), None);
        let decision = scheduler.poll_decision(at(62));
        if !evicts {
            assert_eq!(decision, None);
            continue;
        }
        let Some(Decision::EvictStale { pods, since, .. }) = decision else {
            panic!("{decision:?}")
        };
        assert_eq!((pods.len(), since), (2, at(2)));
        for pod in pods {
            scheduler.handle_gone(Gone::deleted("default", pod.pod.name()), at(63)).unwrap();
        }
        for index in 0..3 {
            let pod = gpu().name(format!("b-{index}")).in_group("a");
            scheduler.handle_pod(pod, at(64)).unwrap();
        }
        let _ = plan(&mut scheduler, at(80));
    }
}

#[test]
fn back_off_doubles_up_to_its_bound_and_ends_with_a_success() {
    // Nodes that have refused are left out for a time: there are enough of them.
    let mut scheduler = scheduler(gpus(7, 8), |_| ());
    scheduler.handle_group(gang("a", 1), at(0)).unwrap();
    let mut now = at(0);
    for wait in [1, 2, 4, 8, 10, 10] {
        let (ticket, _) = plan(&mut scheduler, now);
        scheduler.handle_binding(ticket, "default", "a-0", Err("no".into()), now).unwrap();
        let until = now.after(Duration::from_secs(wait));
        assert_eq!(scheduler.state("default/a"), Some(GroupState::BackingOff { until }));
        assert_eq!(scheduler.poll_decision(now), None);
        now = until;
    }
    assert_eq!(bind_all(&mut scheduler, now), ["default/a"]);
    let counters = scheduler.metrics();
    assert_eq!((counters.bind_failures, counters.started, counters.attempts), (6, 1, 7));
    assert_eq!((counters.tries.count(), counters.tries.sum()), (1, 7));
    assert_eq!((counters.waiting.count(), counters.waiting.sum()), (1, 35_000));
    assert_eq!(scheduler.status("default/a").unwrap().attempts, 0);
}

#[test]
fn a_tree_is_gated_role_by_role_and_as_a_whole() {
    let role = |name: &str, min: u32| PodGroup::gang(name, min);
    let mut job = PodGroup::gang("job", 2)
        .group(role("driver", 1))
        .group(role("workers", 2))
        .group(role("spare", 1));
    job.min_pods = Some(5);
    let mut scheduler = scheduler(gpus(2, 8), |_| ());
    scheduler.handle_group(job, at(0)).unwrap();
    let gate = |scheduler: &Scheduler| match scheduler.state("default/job") {
        Some(GroupState::Gated(Gate::Members { group, have, need })) => (group, have, need),
        other => panic!("{other:?}"),
    };
    let come = |scheduler: &mut Scheduler, name: &str, group: &str| {
        scheduler.handle_pod(gpu().name(name).in_group(group), at(1)).unwrap();
        assert_eq!(scheduler.state("default/job"), scheduler.state(&format!("default/{group}")));
    };
    come(&mut scheduler, "d-0", "driver");
    assert_eq!(gate(&scheduler), ("default/workers".parse().unwrap(), 0, 2));
    come(&mut scheduler, "w-0", "workers");
    assert_eq!(gate(&scheduler), ("default/workers".parse().unwrap(), 1, 2));
    come(&mut scheduler, "w-1", "workers");
    // Two roles would do, but not for the minimum of pods.
    assert_eq!(gate(&scheduler), ("default/job".parse().unwrap(), 3, 5));
    come(&mut scheduler, "w-2", "workers");
    assert_eq!(scheduler.poll_decision(at(1)), None);
    come(&mut scheduler, "w-3", "workers");
    assert_eq!(bind_all(&mut scheduler, at(1)), ["default/job"]);
    assert_eq!(scheduler.status("default/job").unwrap().bound, 5);
    // What has finished counts on; what is lost does not.
    scheduler.handle_gone(Gone::finished("default", "w-3"), at(2)).unwrap();
    assert_eq!(scheduler.state("default/job"), Some(GroupState::Running));
    delete(&mut scheduler, "w-2", at(3));
    assert_eq!(scheduler.state("default/job"), Some(GroupState::BelowMinimum { since: at(3) }));
    come(&mut scheduler, "w-9", "workers");
    bind_all(&mut scheduler, at(4));
    assert_eq!(scheduler.state("default/job"), Some(GroupState::Running));
}

#[test]
fn members_that_are_gated_themselves_do_not_count() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_group(gang("a", 1), at(0)).unwrap();
    let mut group = gang("b", 2);
    group.pods[1].scheduling_gates.push("quota".into());
    scheduler.handle_group(group, at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    let gate = Gate::Members { group: "default/b".parse().unwrap(), have: 1, need: 2 };
    assert_eq!(scheduler.state("default/b"), Some(GroupState::Gated(gate)));
    scheduler.handle_pod(gpu().name("b-1").in_group("b"), at(1)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(1)), ["default/b"]);
}

#[test]
fn who_fails_by_what_only_a_plugin_knows_is_retried_by_the_floor() {
    let late = filter_fn("late", Reach::Cluster, |cx, _| cx.now() >= Time::from_secs(700));
    let framework = Framework::builder().filter(Fit).filter(late).build().unwrap();
    let mut scheduler = Scheduler::new(gpus(1, 8), framework, Settings::default());
    scheduler.handle_group(gang("a", 1), at(0)).unwrap();
    assert_eq!(scheduler.poll_decision(at(0)), None);
    for wake in [300, 600] {
        assert_eq!(scheduler.next_wake(), Some(at(wake)));
        assert_eq!(scheduler.poll_decision(at(wake)), None);
    }
    assert_eq!(bind_all(&mut scheduler, at(900)), ["default/a"]);
    assert_eq!(scheduler.metrics().periodic_retries, 3);
}

#[test]
fn an_event_wakes_only_as_many_as_it_has_room_for() {
    let mut scheduler = scheduler(gpus(1, 1), |_| ());
    for index in 0..300 {
        let priority = i32::from(index % 100 == 0);
        scheduler.handle_group(gang(&format!("g{index:03}"), 4).priority(priority), at(0)).unwrap();
    }
    assert_eq!(scheduler.poll_decision(at(0)), None);
    let (attempts, woken) = (scheduler.metrics().attempts, scheduler.metrics().woken);
    let node = Node::new("big").capacity(GPU, 16);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(1)).unwrap();
    let placed = bind_all(&mut scheduler, at(1));
    assert_eq!(placed, ["default/g000", "default/g100", "default/g200", "default/g001"]);
    assert_eq!(scheduler.metrics().woken - woken, 4);
    assert_eq!(scheduler.metrics().attempts - attempts, 4);
    // One GPU more makes five, which is room for another; three more were not.
    for (second, placed) in [(2, 0), (3, 0), (4, 1)] {
        delete(&mut scheduler, &format!("g000-{}", second - 2), at(second));
        assert_eq!(bind_all(&mut scheduler, at(second)).len(), placed);
    }
    assert_eq!(scheduler.metrics().woken - woken, 5);
}

#[test]
fn those_who_cannot_use_the_room_let_the_next_have_it() {
    let mut cluster = gpus(2, 4);
    cluster.add_node(Node::new("odd").capacity(GPU, 0).label("zone", "z")).unwrap();
    let mut scheduler = scheduler(cluster, |_| ());
    scheduler.handle_group(gang("all", 8), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    // The first two want another zone, more CPU; the third is as any other.
    let with = |name: &str, pod: Pod| PodGroup::gang(name, 2).pods(2, pod);
    let elsewhere = with("elsewhere", gpu().node_selector("zone", "z")).priority(9);
    scheduler.handle_group(elsewhere, at(1)).unwrap();
    scheduler.handle_group(with("heavy", gpu().request("cpu", 1)).priority(8), at(1)).unwrap();
    scheduler.handle_group(with("light", gpu()), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    let attempts = scheduler.metrics().attempts;
    delete(&mut scheduler, "all-0", at(2));
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(scheduler.metrics().attempts, attempts, "nobody is tried for one GPU");
    delete(&mut scheduler, "all-1", at(2));
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/light"]);
    assert_eq!(scheduler.metrics().attempts, attempts + 1);
    // Each is woken by what it lacks, not by more of the rest.
    let node = Node::new("odd").capacity(GPU, 2).label("zone", "z");
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/elsewhere"]);
    let node = Node::new("new").capacity(GPU, 2).capacity("cpu", 4);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(4)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(4)), ["default/heavy"]);
}

#[test]
fn ranks_that_change_count_once_they_are_said_to() {
    let first = Arc::new(Mutex::new("b"));
    let said = Arc::clone(&first);
    let order = move |waiting: &Waiting<'_>| i64::from(waiting.group.name != *said.lock().unwrap());
    let settings = Settings::default();
    let mut scheduler =
        Scheduler::new(gpus(1, 1), Framework::default(), settings).with_order(order);
    for name in ["a", "b", "c"] {
        scheduler.handle_group(gang(name, 1), at(0)).unwrap();
    }
    assert_eq!(bind_all(&mut scheduler, at(0)), ["default/b"]);
    *first.lock().unwrap() = "c";
    scheduler.handle_reorder(at(1));
    scheduler.handle_gone(Gone::finished("default", "b-0"), at(2)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/c"]);
    scheduler.check().unwrap();
}
