//! Faults that the random streams with everything on found, each by its smallest case.

use std::collections::BTreeSet;

use phalanx::preempt::Victim;
use phalanx::queue::{Gone, GroupState, PreemptionSettings, PriorityThenTime, SavedScheduler};
use phalanx::state::Applied;
use phalanx::{Cluster, Decision, Event, Framework, Node, ObjectName, Pod, PodGroup, Scheduler};

use super::moves::{moved, wide};
use super::steps::*;

/// A group of two roles, of which each needs its only pod: both run on a node.
fn pair(scheduler: &mut Scheduler, node: &str) {
    let role = |name: &str| {
        let pod = gpu().name(format!("{name}-0")).on(node);
        PodGroup::gang(name, 1).pod(pod)
    };
    let pair = PodGroup::gang("pair", 2).group(role("pair-a")).group(role("pair-b"));
    scheduler.handle_group(pair, at(0)).unwrap();
    assert_eq!(scheduler.state("default/pair"), Some(GroupState::Running));
}

/// Two nodes of four GPUs with moves, and a group on the second that neither goes nor moves.
fn beside(taken: i64) -> Scheduler {
    let mut scheduler = scheduler(gpus(2, 4), |own| {
        own.preemption = Some(PreemptionSettings::new().consolidation(4));
    });
    let rest = Pod::new().request(GPU, taken).name("rest-0").on("n0001");
    let rest = PodGroup::gang("rest", 1).pod(rest).priority(9).non_preemptible();
    scheduler.handle_group(rest, at(0)).unwrap();
    scheduler
}

/// Each role of a pair needs its only pod, and the pair both roles: one unit, though only one of the pods
/// is in the way.
#[test]
fn a_pod_of_a_tree_has_no_unit_of_its_own_in_moves() {
    let mut scheduler = beside(2);
    pair(&mut scheduler, "n0000");
    scheduler.handle_group(wide("new", 3).priority(5), at(1)).unwrap();
    let (_, moves) = moved(&mut scheduler, at(1));
    let units: Vec<&str> = moves.iter().map(|step| step.unit.as_str()).collect();
    assert_eq!(units, ["default/pair", "default/pair"], "{moves:?}");
}

/// A pod of a gang moves for another, which alone leaves its gang enough. The others are not all that runs of
/// it: they may not go together.
#[test]
fn the_others_of_a_pod_that_moves_do_not_go_as_all_of_their_gang() {
    let mut scheduler = scheduler(gpus(3, 4), |own| {
        own.preemption = Some(PreemptionSettings::new().consolidation(4));
    });
    let rest = |name: &str, gpus, node: &str| {
        let pod = Pod::new().request(GPU, gpus).name(format!("{name}-0")).on(node);
        PodGroup::gang(name, 1).pod(pod).priority(9)
    };
    scheduler.handle_group(rest("wide", 3, "n0001"), at(0)).unwrap();
    scheduler.handle_group(rest("slim", 1, "n0002"), at(0)).unwrap();
    let old = |number: usize, node: &str| gpu().name(format!("old-{number}")).on(node);
    let gang = PodGroup::gang("old", 2).pod(old(0, "n0000"));
    let gang = (1..4).fold(gang, |gang, number| gang.pod(old(number, "n0002")));
    scheduler.handle_group(gang, at(0)).unwrap();
    scheduler.handle_group(wide("new", 4).priority(5), at(1)).unwrap();
    let (_, moves) = moved(&mut scheduler, at(1));
    assert_eq!(moves.iter().map(|step| &*step.to).collect::<Vec<_>>(), ["n0001"]);
    // Without three of them one would be left, of two.
    scheduler.handle_group(wide("mid", 3).priority(3), at(2)).unwrap();
    let next = scheduler.poll_decision(at(2));
    assert!(!matches!(next, Some(Decision::Evict { .. })), "{next:?}");
    assert!(is_asleep(&scheduler, "default/mid"));
    // One of them may go.
    scheduler.handle_group(wide("low", 1).priority(2), at(3)).unwrap();
    let Some(Decision::Evict { victims, .. }) = scheduler.poll_decision(at(3)) else { panic!() };
    assert_eq!(victims.len(), 1);
}

/// A pod that moves for one gang runs again. So another gang may not take what it leaves behind: the
/// group would be left in part.
#[test]
fn what_stays_behind_a_pod_that_moves_is_no_victim() {
    let mut scheduler = beside(2);
    let pod = |index: usize, node: &str| gpu().name(format!("g-{index}")).on(node);
    let pods = [pod(0, "n0000"), pod(1, "n0000"), pod(2, "n0001")];
    let group = pods.into_iter().fold(PodGroup::gang("g", 2), PodGroup::pod);
    scheduler.handle_group(group, at(0)).unwrap();
    scheduler.handle_group(wide("new", 3).priority(5), at(1)).unwrap();
    let (_, moves) = moved(&mut scheduler, at(1));
    assert_eq!(moves.len(), 1, "{moves:?}");
    assert_eq!(moves[0].to, "n0001");
    scheduler.handle_group(wide("mid", 1).priority(3), at(2)).unwrap();
    let next = scheduler.poll_decision(at(2));
    assert!(!matches!(next, Some(Decision::Evict { .. })), "{next:?}");
    assert!(is_asleep(&scheduler, "default/mid"));
}

/// A group that finished before it had started has nothing to start: its partner is tried alone, and gets
/// the room of its victims. Before, the victims got it back: the pair was less important than they.
#[test]
fn a_group_that_has_finished_is_no_partner() {
    let mut scheduler = scheduler(gpus(1, 2), |own| {
        own.preemption = Some(PreemptionSettings::new());
    });
    let running = wide("mid", 2).priority(4);
    scheduler.handle_group(running, at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)), ["default/mid"]);
    scheduler.handle_group(gang("old", 1), at(1)).unwrap();
    assert!(scheduler.poll_decision(at(1)).is_none());
    scheduler.handle_gone(Gone::finished("default", "old-0"), at(1)).unwrap();
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Finished));
    let new = wide("new", 2).priority(5).starts_with(ObjectName::new("default", "old"));
    scheduler.handle_group(new, at(2)).unwrap();
    let next = scheduler.poll_decision(at(2));
    let Some(Decision::Evict { ticket, victims, .. }) = next else { panic!("{next:?}") };
    let victim = victims[0].name.as_str();
    scheduler.handle_gone(Gone::evicted(ticket, victim), at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/new"]);
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Finished));
}

/// Everything, seed 6909. A node takes a pod of three groups, of which the first and the last are
/// partners. The scheduler that went on from a save looked at these together, the one that was saved at
/// each in its turn.
#[test]
fn groups_that_lose_a_node_change_in_the_same_order_after_a_restart() {
    let mut scheduler = scheduler(gpus(1, 3), |_| {});
    for (name, partner) in [("a", None), ("b", None), ("c", Some("a"))] {
        let mut group = gang(name, 1).keep_running();
        group.gang_group.extend(partner.map(|name| ObjectName::new("default", name)));
        scheduler.handle_group(group, at(0)).unwrap();
        assert_eq!(bind_all(&mut scheduler, at(0)).len(), 1);
    }
    while scheduler.poll_event().is_some() {}
    let text = serde_json::to_string(&scheduler.save()).unwrap();
    let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
    let mut again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    let [one, other] = [&mut scheduler, &mut again].map(|scheduler| {
        let event = Event::NodeRemoved { name: "n0000".into(), version: 0 };
        scheduler.handle_event(event, at(1)).unwrap();
        std::iter::from_fn(|| scheduler.poll_event()).collect::<Vec<_>>()
    });
    assert!(one.len() >= 3, "{one:?}");
    assert_eq!(one, other);
}

/// Everything, seed 13128. A group was removed while its pods were being unbound. They were named as
/// victims, one by one, as they were of no group any more. They leave anyway, so their room is waited for.
#[test]
fn pods_that_are_being_unbound_are_no_victims_after_their_group() {
    let mut scheduler = scheduler(gpus(1, 2), |own| {
        own.preemption = Some(PreemptionSettings::new());
    });
    scheduler.handle_group(gang("old", 2).priority(1), at(0)).unwrap();
    assert!(matches!(scheduler.poll_decision(at(0)), Some(Decision::Bind { .. })));
    scheduler.handle_group_removed("default/old", at(1)).unwrap();
    scheduler.handle_group(gang("new", 2).priority(5), at(1)).unwrap();
    let next = scheduler.poll_decision(at(1));
    let Some(Decision::Unbind { pods, .. }) = next else { panic!("{next:?}") };
    assert_eq!(pods.len(), 2);
    let next = scheduler.poll_decision(at(1));
    assert!(next.is_none(), "{next:?}");
    for pod in ["old-0", "old-1"] {
        scheduler.handle_gone(Gone::unbound("default", pod), at(2)).unwrap();
    }
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/new"]);
}

/// A pending member of a gang is told, and then that it runs on a node: it is to be unbound.
fn bound_from_outside(scheduler: &mut Scheduler, name: &str, node: &str) {
    let pod = gpu().name(name).in_group("g");
    scheduler.handle_pod(pod.clone(), at(61)).unwrap();
    let pod = pod.on(node);
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(61)).unwrap();
    let next = scheduler.poll_decision(at(61));
    let Some(Decision::Unbind { pods, .. }) = next else { panic!("{next:?}") };
    assert_eq!(pods.len(), 1, "{pods:?}");
}

/// Everything, seed 644245094713. A member is bound from outside while its gang is evicted, and is
/// unbound. Until then the planner counts it: the gang started in part once the others had left.
#[test]
fn a_gang_that_is_evicted_starts_anew_once_all_of_it_has_left() {
    let mut scheduler = scheduler(gpus(3, 1), |_| {});
    let on = |number: usize| gpu().name(format!("g-{number}")).on(format!("n{number:04}"));
    let group = PodGroup::gang("g", 2).pod(on(0)).pod(on(1));
    scheduler.handle_group(group, at(0)).unwrap();
    let event = Event::NodeRemoved { name: "n0001".into(), version: 0 };
    scheduler.handle_event(event, at(1)).unwrap();
    delete(&mut scheduler, "g-1", at(1));
    let next = scheduler.poll_decision(at(61));
    assert!(matches!(next, Some(Decision::EvictStale { .. })), "{next:?}");
    scheduler.handle_pod(gpu().name("g-2").in_group("g"), at(61)).unwrap();
    bound_from_outside(&mut scheduler, "g-3", "n0002");
    scheduler.handle_gone(Gone::unbound("default", "g-0"), at(62)).unwrap();
    let next = scheduler.poll_decision(at(62));
    assert!(next.is_none(), "{next:?}");
    scheduler.handle_gone(Gone::unbound("default", "g-3"), at(63)).unwrap();
    assert_eq!(plan(&mut scheduler, at(63)).1.len(), 2);
}

/// As before, and the gang stays after all. It lost two members meanwhile, and got one back.
#[test]
fn a_gang_that_stays_gets_no_members_before_others_are_unbound() {
    let mut cluster = gpus(2, 2);
    cluster.add_node(Node::new("n0002").capacity(GPU, 1)).unwrap();
    let mut scheduler = scheduler(cluster, |own| {
        own.preemption = Some(PreemptionSettings::new());
    });
    let on = |(number, node): (usize, &str)| gpu().name(format!("g-{number}")).on(node);
    let pods = [(0, "n0000"), (1, "n0001"), (2, "n0001")].map(on);
    let group = pods.into_iter().fold(PodGroup::gang("g", 3), PodGroup::pod);
    scheduler.handle_group(group, at(0)).unwrap();
    let new = PodGroup::gang("new", 2).pods(2, Pod::new().request(GPU, 2)).priority(5);
    scheduler.handle_group(new, at(60)).unwrap();
    let next = scheduler.poll_decision(at(60));
    assert!(matches!(next, Some(Decision::Evict { .. })), "{next:?}");
    bound_from_outside(&mut scheduler, "g-3", "n0002");
    scheduler.handle_group_removed("default/new", at(62)).unwrap();
    let next = scheduler.poll_decision(at(62));
    assert!(matches!(next, Some(Decision::CancelEvictions { .. })), "{next:?}");
    let event = Event::NodeRemoved { name: "n0001".into(), version: 0 };
    scheduler.handle_event(event, at(63)).unwrap();
    for (old, new) in [("g-1", "g-4"), ("g-2", "g-5")] {
        delete(&mut scheduler, old, at(63));
        scheduler.handle_pod(gpu().name(new).in_group("g"), at(63)).unwrap();
    }
    let next = scheduler.poll_decision(at(63));
    assert!(next.is_none(), "{next:?}");
    scheduler.handle_gone(Gone::unbound("default", "g-3"), at(64)).unwrap();
    assert_eq!(plan(&mut scheduler, at(64)).1.len(), 2);
}

/// Everything, seed 14672. Two pods of another scheduler's gang are to go, and a third is bound. One of
/// the two does not go, and is asked for again later. Until then two run, which is the minimum: a claim
/// that took one of them counted on all that are to go, and left one.
#[test]
fn an_eviction_that_is_put_off_leaves_nobody_else_in_part() {
    let mut scheduler = scheduler(gpus(2, 2), |own| {
        own.preemption = Some(PreemptionSettings::new());
    });
    let on = |name: &str, node: &str| gpu().name(name).on(node);
    let theirs = PodGroup::gang("theirs", 2).priority(1);
    scheduler.handle_running_group(&theirs, at(0)).unwrap();
    let rest = on("rest-0", "n0000");
    let rest = PodGroup::gang("rest", 1).pod(rest).priority(9).non_preemptible();
    scheduler.handle_group(rest, at(0)).unwrap();
    let see = |scheduler: &mut Scheduler, pod: &str, node: &str| {
        let pod = on(pod, node).in_group("theirs");
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
    };
    see(&mut scheduler, "t-1", "n0001");
    see(&mut scheduler, "t-2", "n0001");
    scheduler.handle_group(wide("a", 2).priority(5), at(0)).unwrap();
    let next = scheduler.poll_decision(at(0));
    let Some(Decision::Evict { ticket, victims, .. }) = next else { panic!("{next:?}") };
    assert_eq!(victims.len(), 2, "{victims:?}");
    see(&mut scheduler, "t-0", "n0000");
    scheduler.handle_eviction_failed(ticket, "default/t-1", Some(at(9)), at(1)).unwrap();
    scheduler.handle_group(wide("b", 1).priority(7), at(1)).unwrap();
    let mut stay: BTreeSet<String> = ["t-0", "t-1", "t-2"].map(String::from).into();
    stay.remove("t-2");
    while let Some(decision) = scheduler.poll_decision(at(1)) {
        let pods = |victims: &[Victim]| -> Vec<String> {
            victims.iter().flat_map(|own| &own.pods).map(|pod| pod.name.clone()).collect()
        };
        match decision {
            Decision::Evict { victims, .. } => {
                stay.retain(|pod| !pods(&victims).contains(pod));
            }
            Decision::CancelEvictions { victims, .. } => stay.extend(pods(&victims)),
            other => panic!("{other:?}"),
        }
    }
    assert!(stay.len() != 1, "{stay:?} stays");
}

/// Everything, seed 536,870,913,037. All that runs of a gang is to go: one pod for `a`, one for `b`. Then `c`
/// outranks `b` and names the pod of `b` anew. Before, its eviction was cancelled first, and that of the other
/// with it, as one pod alone would have stayed. The new decision left just that one.
#[test]
fn a_victim_that_is_named_anew_leaves_the_others_of_its_gang_to_their_claims() {
    let mut scheduler = scheduler(gpus(2, 4), |own| {
        own.preemption = Some(PreemptionSettings::new());
    });
    let on = |name: &str, gpus: i64, node: &str| Pod::new().request(GPU, gpus).name(name).on(node);
    let old = (0..4).map(|number| on(&format!("old-{number}"), 1, "n0000"));
    scheduler.handle_group(old.fold(PodGroup::gang("old", 2), PodGroup::pod), at(0)).unwrap();
    let pod = on("f", 4, "n0001");
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
    let evicted = |scheduler: &mut Scheduler| {
        let next = scheduler.poll_decision(at(1));
        let Some(Decision::Evict { ticket, victims, .. }) = next else { panic!("{next:?}") };
        let names = victims.iter().map(|own| own.name.to_string());
        (ticket, names.filter(|name| name.contains("old")).collect::<Vec<_>>())
    };
    // The claims wait for more: `a` for the pod `f`, `b` for its second victim.
    let pod = |name: &str, gpus: i64| Pod::new().request(GPU, gpus).name(name);
    let a = PodGroup::gang("a", 2).pod(pod("a-0", 4)).pod(pod("a-1", 2)).priority(5);
    scheduler.handle_group(a, at(1)).unwrap();
    let (ticket, of_a) = evicted(&mut scheduler);
    assert_eq!(of_a.len(), 2, "{of_a:?}");
    scheduler.handle_gone(Gone::evicted(ticket, of_a[0].as_str()), at(1)).unwrap();
    scheduler.handle_group(gang("b", 2).priority(3), at(1)).unwrap();
    let (ticket, of_b) = evicted(&mut scheduler);
    assert_eq!(of_b.len(), 2, "{of_b:?}");
    scheduler.handle_gone(Gone::evicted(ticket, of_b[0].as_str()), at(1)).unwrap();
    scheduler.handle_group(gang("c", 2).priority(5), at(1)).unwrap();
    let next = scheduler.poll_decision(at(1));
    let Some(Decision::CancelEvictions { victims, .. }) = next else { panic!("{next:?}") };
    assert_eq!(victims.len(), 1);
    assert_eq!(victims[0].name, *of_b[1]);
    assert_eq!(evicted(&mut scheduler).1, [of_b[1].clone()]);
    let next = scheduler.poll_decision(at(1));
    assert!(next.is_none(), "{next:?}");
}

/// Everything, seed 785,979,016,006. Two pods of a gang are to go while a third has lost its node, and one of
/// them terminates. The node comes back, and both are late. The gang has its minimum without the one that
/// terminates: that goes on, and the other is cancelled. Before, both were forgotten, and asked for once more.
#[test]
fn a_pod_that_terminates_goes_on_though_the_rest_of_its_gang_stays() {
    for goes_whole in [false, true] {
        let mut scheduler = scheduler(gpus(2, 2), |own| {
            own.preemption = Some(PreemptionSettings::new());
        });
        let on = |number: usize, node: &str| gpu().name(format!("old-{number}")).on(node);
        let old = [on(0, "n0000"), on(1, "n0000"), on(2, "n0001")];
        let old = old.into_iter().fold(PodGroup::gang("old", 2), PodGroup::pod);
        let old = if goes_whole { old.evicted_whole() } else { old };
        scheduler.handle_group(old, at(0)).unwrap();
        let node = scheduler.cluster().node("n0001").unwrap().to_node();
        let lost = Event::NodeRemoved { name: "n0001".into(), version: 0 };
        scheduler.handle_event(lost, at(0)).unwrap();
        scheduler.handle_group(wide("new", 2).priority(5), at(1)).unwrap();
        let next = scheduler.poll_decision(at(1));
        let Some(Decision::Evict { ticket, .. }) = next else { panic!("{next:?}") };
        let mut pod = scheduler.cluster().pod("default", "old-0").unwrap().to_pod();
        pod.deleting = true;
        let event = Event::PodChanged { pod, version: 0 };
        scheduler.handle_event(event, at(2)).unwrap();
        assert!(scheduler.poll_decision(at(2)).is_none());
        scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(3)).unwrap();
        let next = scheduler.poll_decision(at(122));
        assert!(next.is_none(), "{next:?}");
        let pods = |victims: Vec<Victim>| -> Vec<String> {
            victims.into_iter().flat_map(|own| own.pods).map(|pod| pod.name).collect()
        };
        let next = scheduler.poll_decision(at(242));
        let Some(Decision::CancelEvictions { victims, .. }) = next else { panic!("{next:?}") };
        assert_eq!(pods(victims), ["old-1"]);
        let next = scheduler.poll_decision(at(242));
        let Some(Decision::Evict { ticket: again, victims, .. }) = next else { panic!("{next:?}") };
        assert_eq!((again, pods(victims)), (ticket, vec!["old-0".to_owned()]));
        // The claim looks for others, and there is just the rest.
        let next = scheduler.poll_decision(at(242));
        let Some(Decision::Evict { victims, .. }) = next else { panic!("{next:?}") };
        assert_eq!(pods(victims), ["old-1", "old-2"]);
        scheduler.check().unwrap();
    }
}

/// A node is told later than the pods that run on it. The gang was tried meanwhile, when it lacked
/// more than what is pending. It is tried again once the node is there.
#[test]
fn a_gang_whose_members_wait_for_their_node_is_tried_again_once_it_is_told() {
    let mut scheduler = scheduler(gpus(1, 16), |_| {});
    let pods = (0..14).map(|number| {
        let pod = gpu().name(format!("g-{number}"));
        match number {
            0..6 => pod.on("n0000"),
            6..11 => pod.on("n0001"),
            _ => pod,
        }
    });
    let group = pods.fold(PodGroup::gang("g", 14), PodGroup::pod);
    scheduler.handle_group(group, at(0)).unwrap();
    let next = scheduler.poll_decision(at(0));
    assert!(next.is_none(), "{next:?}");
    let node = Node::new("n0001").capacity(GPU, 5);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(1)).unwrap();
    let (_, plan) = plan(&mut scheduler, at(1));
    assert_eq!(plan.len(), 3);
}

/// Some pods are listed before their group: they run as pods of no group until that comes with all of its
/// members. The gang lacks just what is pending then, whether their node is listed first or last.
#[test]
fn pods_that_are_told_before_their_group_count_once_it_is_told_with_them() {
    for node_comes_last in [false, true] {
        let nodes = if node_comes_last { 0 } else { 2 };
        let mut scheduler = scheduler(gpus(nodes, 16), |_| {});
        let on = |number: usize| gpu().name(format!("g-{number}")).on("n0000");
        for pod in (0..7).map(on) {
            scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
        }
        let group = (0..11).map(on).fold(PodGroup::gang("g", 32), PodGroup::pod);
        let pending = (11..32).map(|number| gpu().name(format!("g-{number}")));
        let group = pending.fold(group, PodGroup::pod);
        if node_comes_last {
            // The tree has the members that are known, and the rest follow.
            let mut begun = group.clone();
            begun.pods.drain(7..11);
            scheduler.handle_group(begun, at(1)).unwrap();
            for mut pod in group.pods.iter().take(11).skip(7).cloned() {
                pod.group = Some("g".to_owned());
                scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(1)).unwrap();
            }
            for name in ["n0000", "n0001"] {
                let node = Node::new(name).capacity(GPU, 16);
                scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(1)).unwrap();
            }
        } else {
            scheduler.handle_group(group, at(1)).unwrap();
        }
        let (_, plan) = plan(&mut scheduler, at(1));
        assert_eq!(plan.len(), 21, "the node comes last: {node_comes_last}");
        assert!(scheduler.check().is_ok());
    }
}

/// A watch that is late shows a finished pod on its node once more: it stays finished, and takes no room.
/// A new pod of its name takes its place, on a node or before it has one. Fuzzing found the first.
#[test]
fn news_of_a_finished_pod_are_late() {
    let pod = |uid: &str| {
        let mut pod = gpu().name("g-0").in_group("g");
        pod.uid = uid.into();
        pod
    };
    let changed = |pod: Pod| Event::PodChanged { pod, version: 0 };
    for node in [None, Some("n0000")] {
        let mut scheduler = scheduler(gpus(1, 1), |_| {});
        let group = PodGroup::gang("g", 1).pod(pod("one").on("n0000"));
        scheduler.handle_group(group, at(0)).unwrap();
        let gone = Gone::finished("default", "g-0");
        scheduler.handle_gone(gone, at(1)).unwrap();
        let late = scheduler.handle_event(changed(pod("one").on("n0000")), at(2)).unwrap();
        assert_eq!(late, Applied::Stale);
        scheduler.check().unwrap();
        assert_eq!(scheduler.state("default/g"), Some(GroupState::Finished));
        assert!(scheduler.cluster().pod("default", "g-0").is_none());
        let new = match node {
            Some(node) => pod("two").on(node),
            None => pod("two"),
        };
        scheduler.handle_event(changed(new), at(3)).unwrap();
        scheduler.check().unwrap();
        if node.is_none() {
            let decision = scheduler.poll_decision(at(3));
            assert!(matches!(decision, Some(Decision::Bind { .. })), "{decision:?}");
        }
        assert!(scheduler.cluster().pod("default", "g-0").is_some());
        assert_ne!(scheduler.state("default/g"), Some(GroupState::Finished));
    }
}

/// No node has both a GPU and a core free, so groups of that shape are counted by themselves. A node that is
/// uncordoned then has both. Before, the first of them was woken for it and refused without end.
#[test]
fn a_node_that_is_uncordoned_is_found_by_groups_that_are_counted_by_themselves() {
    let node = |name: &str, gpu| Node::new(name).capacity(GPU, gpu).capacity("cpu", 1);
    let mut cluster = Cluster::new();
    cluster.add_node(node("back", 1).unschedulable()).unwrap();
    cluster.add_node(node("gpu", 1)).unwrap();
    cluster.add_node(node("core", 0)).unwrap();
    let mut scheduler = scheduler(cluster, |_| {});
    let bound = |pod: Pod| Event::PodChanged { pod, version: 0 };
    let core = Pod::new().name("takes-the-core").request("cpu", 1).on("gpu");
    scheduler.handle_event(bound(core), at(0)).unwrap();
    scheduler.handle_event(bound(gpu().name("takes-the-gpu").on("gpu")), at(0)).unwrap();
    let both = gpu().request("cpu", 1);
    for name in ["first", "second"] {
        let group = PodGroup::gang(name, 1).pods(1, both.clone());
        scheduler.handle_group(group, at(1)).unwrap();
        assert_eq!(scheduler.poll_decision(at(1)), None);
    }
    delete(&mut scheduler, "takes-the-gpu", at(2));
    assert_eq!(scheduler.poll_decision(at(2)), None, "the core is taken there");
    let back = Event::NodeChanged { node: node("back", 1), version: 0 };
    scheduler.handle_event(back, at(3)).unwrap();
    let (_, plan) = plan(&mut scheduler, at(3));
    assert_eq!(plan.len(), 1);
    assert_eq!(scheduler.poll_decision(at(3)), None, "there is room for one");
    assert!(scheduler.check().is_ok());
}
