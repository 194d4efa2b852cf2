//! Moves in the queue, rule by rule: what moves for a gang, in which order, and where it ends up.

use phalanx::model::LabelSelector;
use phalanx::preempt::{DisruptionBudget, Move, SameQueue};
use phalanx::queue::{
    Gone, GroupChange, GroupState, PreemptionSettings, PriorityThenTime, SavedScheduler, Settings,
    Ticket,
};
use phalanx::{Decision, Event, Framework, Node, Pod, PodGroup, QueueError, Scheduler, Time};

use super::steps::*;

fn moves(settings: &mut Settings) {
    settings.preemption = Some(PreemptionSettings::new().consolidation(4));
}

/// Nodes of four GPUs.
fn cluster_of(nodes: usize) -> Scheduler {
    scheduler(gpus(nodes, 4), moves)
}

/// Takes in a group that runs: of each pod the GPUs and the number of its node.
fn runs(scheduler: &mut Scheduler, mut group: PodGroup, pods: &[(i64, usize)]) {
    let name = group.full_name();
    let own = group.name.clone();
    let pod = |index: usize, (gpus, node): (i64, usize)| {
        let name = format!("{own}-{index}");
        let pod = Pod::new().request(GPU, gpus).label("app", &own);
        pod.name(name).on(format!("n{node:04}"))
    };
    group.pods = pods.iter().enumerate().map(|(index, own)| pod(index, *own)).collect();
    scheduler.handle_group(group, at(0)).unwrap();
    assert_eq!(scheduler.state(&name), Some(GroupState::Running));
}

/// A gang of one pod of so many GPUs.
pub(super) fn wide(name: &str, gpus: i64) -> PodGroup {
    PodGroup::gang(name, 1).pods(1, Pod::new().request(GPU, gpus))
}

/// The next decision, which is to move: the ticket and the moves.
pub(super) fn moved(scheduler: &mut Scheduler, now: Time) -> (Ticket, Vec<Move>) {
    match scheduler.poll_decision(now) {
        Some(Decision::Move { ticket, moves, .. }) => (ticket, moves),
        other => panic!("{other:?}"),
    }
}

/// Moves as text: `pod from -> to`.
fn text(moves: &[Move]) -> Vec<String> {
    moves.iter().map(|m| format!("{} {} -> {}", m.pod.name, m.pod.node, m.to)).collect()
}

/// The next decisions, which bind: names of the groups and the nodes of the pods.
fn bound(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
        bind(scheduler, ticket, &plan, now);
        all.extend(plan.assignments().map(|to| format!("{} {}", to.pod().name, to.node())));
    }
    all
}

fn node_of(scheduler: &Scheduler, pod: &str) -> Option<String> {
    let pod = scheduler.cluster().pod("default", pod)?;
    pod.node().map(|node| node.name().to_string())
}

/// Whether room is held for anybody.
fn is_held(scheduler: &Scheduler) -> bool {
    let mut pods = scheduler.cluster().pods();
    pods.any(|pod| pod.namespace() == Scheduler::RESERVED_NAMESPACE)
}

/// Two nodes with a GPU used on each, and a gang that wants one whole.
fn one_and_one() -> Scheduler {
    let mut scheduler = cluster_of(2);
    runs(&mut scheduler, PodGroup::basic("old"), &[(1, 0), (1, 1)]);
    scheduler.handle_group(wide("new", 4), at(1)).unwrap();
    scheduler
}

#[test]
fn nothing_moves_unless_the_settings_say_so() {
    let mut scheduler =
        scheduler(gpus(2, 4), |own| own.preemption = Some(PreemptionSettings::new()));
    runs(&mut scheduler, PodGroup::basic("old"), &[(1, 0), (1, 1)]);
    scheduler.handle_group(wide("new", 4), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
}

/// A pod moves, of equal priority: it starts at its new node, and the gang on its old one.
#[test]
fn a_pod_moves_and_the_gang_starts() {
    let mut scheduler = one_and_one();
    let (_, moves) = moved(&mut scheduler, at(1));
    let [step] = &moves[..] else { panic!("{moves:?}") };
    assert_ne!(step.to, step.pod.node);
    assert_eq!(step.unit, format!("default/{}", step.pod.name));
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
}

#[test]
fn an_evicted_pod_is_bound_where_it_was_to_go() {
    let mut scheduler = one_and_one();
    let (ticket, moves) = moved(&mut scheduler, at(1));
    assert_eq!(scheduler.poll_decision(at(1)), None);
    scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(2)).unwrap();
    let bound = bound(&mut scheduler, at(2));
    assert!(bound.contains(&format!("{} {}", moves[0].pod.name, moves[0].to)), "{bound:?}");
    assert!(bound.contains(&format!("new-0 {}", moves[0].pod.node)), "{bound:?}");
    assert!(!is_held(&scheduler));
    let metrics = scheduler.metrics();
    assert_eq!((metrics.moves, metrics.preemptions, metrics.victims), (1, 1, 0));
    assert_eq!(scheduler.poll_decision(at(1_000)), None);
    let again = scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(1_001));
    assert_eq!(again, Err(QueueError::StaleTicket));
}

/// A controller makes another pod in place of the one that is deleted.
#[test]
fn a_pod_in_place_of_the_one_that_was_deleted_goes_to_its_place() {
    let mut scheduler = one_and_one();
    let (_, moves) = moved(&mut scheduler, at(1));
    delete(&mut scheduler, &moves[0].pod.name, at(2));
    assert_eq!(bound(&mut scheduler, at(2)), [format!("new-0 {}", moves[0].pod.node)]);
    // Its place is held until then.
    scheduler.handle_group(wide("small", 3), at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(3)), Vec::<String>::new());
    let pod = Pod::new().request(GPU, 1).name("old-x").in_group("old").label("hash", "x");
    scheduler.handle_pod(pod, at(4)).unwrap();
    assert_eq!(bound(&mut scheduler, at(4)), [format!("old-x {}", moves[0].to)]);
    assert!(!is_held(&scheduler));
}

/// An embedder that moves pods itself says so by the event of the pod on its new node.
#[test]
fn a_pod_that_is_seen_on_its_new_node_has_moved() {
    let mut scheduler = one_and_one();
    let (_, moves) = moved(&mut scheduler, at(1));
    let mut pod = scheduler.cluster().pod("default", &moves[0].pod.name).unwrap().to_pod();
    pod.node = Some(moves[0].to.clone());
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(2)).unwrap();
    assert_eq!(bound(&mut scheduler, at(2)), [format!("new-0 {}", moves[0].pod.node)]);
    assert_eq!(node_of(&scheduler, &moves[0].pod.name), Some(moves[0].to.clone()));
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
    assert!(!is_held(&scheduler));
}

/// A gang that goes whole moves whole, whichever way the embedder does it.
#[test]
fn a_small_gang_moves_whole() {
    for way in 0..3 {
        let mut scheduler = cluster_of(3);
        runs(&mut scheduler, PodGroup::gang("pair", 2).evicted_whole(), &[(1, 0), (1, 1)]);
        runs(&mut scheduler, PodGroup::gang("rest", 1), &[(2, 2)]);
        scheduler
            .handle_group(PodGroup::gang("new", 2).pods(2, Pod::new().request(GPU, 4)), at(1))
            .unwrap();
        let (ticket, moves) = moved(&mut scheduler, at(1));
        assert_eq!(text(&moves), ["pair-0 n0000 -> n0002", "pair-1 n0001 -> n0002"]);
        assert!(moves.iter().all(|step| step.unit == "default/pair"));
        match way {
            0 => scheduler.handle_gone(Gone::evicted(ticket, "default/pair"), at(2)).unwrap(),
            1 => {
                for (old, new) in [("pair-0", "pair-a"), ("pair-1", "pair-b")] {
                    delete(&mut scheduler, old, at(2));
                    let pod = Pod::new().request(GPU, 1).name(new).in_group("pair");
                    scheduler.handle_pod(pod, at(2)).unwrap();
                }
            }
            _ => {
                for step in &moves {
                    let name = &step.pod.name;
                    let mut pod = scheduler.cluster().pod("default", name).unwrap().to_pod();
                    (pod.node, pod.deleting) = (Some(step.to.clone()), false);
                    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(2)).unwrap();
                }
            }
        }
        let bound = bound(&mut scheduler, at(2));
        assert_eq!(bound.len(), if way == 2 { 2 } else { 4 }, "{bound:?}");
        let node = scheduler.cluster().node("n0002").unwrap();
        assert_eq!(node.pods().filter(|pod| pod.name().starts_with("pair")).count(), 2);
        assert_eq!(scheduler.state("default/pair"), Some(GroupState::Running), "way {way}");
        assert_eq!(scheduler.state("default/new"), Some(GroupState::Running));
        assert!(!is_held(&scheduler));
        assert_eq!(scheduler.poll_decision(at(900)), None);
    }
}

/// A gang that wants n0000 whole: a leaves it for n0001, once b has made room there by going to n0002.
fn chain() -> Scheduler {
    let mut scheduler = cluster_of(3);
    for (name, pods) in [("f", [(2, 1)]), ("g", [(3, 2)])] {
        let mut fixed = PodGroup::basic(name);
        fixed.non_preemptible = true;
        runs(&mut scheduler, fixed, &pods);
    }
    runs(&mut scheduler, PodGroup::basic("a"), &[(2, 0)]);
    runs(&mut scheduler, PodGroup::basic("b"), &[(1, 1)]);
    scheduler.handle_group(wide("new", 4), at(1)).unwrap();
    scheduler
}

/// Each is asked for once the one before has left.
#[test]
fn moves_that_depend_on_others_are_asked_for_after_them() {
    let mut scheduler = chain();
    let (ticket, first) = moved(&mut scheduler, at(1));
    assert_eq!(text(&first), ["b-0 n0001 -> n0002"]);
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
    scheduler.handle_gone(Gone::evicted(ticket, "default/b-0"), at(2)).unwrap();
    let (same, second) = moved(&mut scheduler, at(2));
    assert_eq!((same, text(&second)), (ticket, vec!["a-0 n0000 -> n0001".into()]));
    assert_eq!(bound(&mut scheduler, at(2)), ["b-0 n0002"]);
    scheduler.handle_gone(Gone::evicted(ticket, "default/a-0"), at(3)).unwrap();
    let mut all = bound(&mut scheduler, at(3));
    all.sort();
    assert_eq!(all, ["a-0 n0001", "new-0 n0000"]);
    assert!(!is_held(&scheduler));
    assert_eq!(scheduler.metrics().moves, 2);
}

/// The streams of everything, seed 8828. A budget came, or allows less, when a unit had not been asked
/// to move yet: it stays, and the claim ends.
#[test]
fn a_move_behind_others_breaks_no_budget_that_came_meanwhile() {
    let budget = |allowed| DisruptionBudget::new("a", LabelSelector::label("app", "a"), allowed);
    for before in [None, Some(budget(1))] {
        let mut scheduler = chain();
        if let Some(before) = before {
            scheduler.handle_budget(before, at(1));
        }
        let (ticket, first) = moved(&mut scheduler, at(1));
        assert_eq!(text(&first), ["b-0 n0001 -> n0002"]);
        scheduler.handle_budget(budget(0), at(2));
        scheduler.handle_gone(Gone::evicted(ticket, "default/b-0"), at(2)).unwrap();
        assert_eq!(bound(&mut scheduler, at(2)).len(), 1);
        assert!(!is_held(&scheduler));
        assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
        assert!(is_asleep(&scheduler, "default/new"));
        scheduler.check().unwrap();
    }
}

/// The claim ends in the middle: what was not asked for yet stays, without a word.
#[test]
fn moves_behind_are_dropped_when_the_claim_ends() {
    let mut scheduler = chain();
    let (ticket, _) = moved(&mut scheduler, at(1));
    scheduler.handle_group_removed("default/new", at(2)).unwrap();
    assert!(matches!(scheduler.poll_decision(at(2)), Some(Decision::CancelEvictions { .. })));
    // It goes all the same.
    let late = scheduler.handle_gone(Gone::evicted(ticket, "default/b-0"), at(3));
    assert_eq!(late, Err(QueueError::StaleTicket));
    scheduler.handle_gone(Gone::unbound("default", "b-0"), at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(3)).len(), 1);
    assert!(!is_held(&scheduler));
    // Once it has begun it goes where it was to go.
    let mut scheduler = chain();
    let (ticket, _) = moved(&mut scheduler, at(1));
    let mut pod = scheduler.cluster().pod("default", "b-0").unwrap().to_pod();
    pod.deleting = true;
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(2)).unwrap();
    scheduler.handle_group_removed("default/new", at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    scheduler.handle_gone(Gone::evicted(ticket, "default/b-0"), at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(3)), ["b-0 n0002"]);
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
    assert!(!is_held(&scheduler));
}

/// A unit that is still to move goes by itself: nothing is asked for in vain, and the gang starts.
#[test]
fn what_goes_by_itself_need_not_move() {
    let mut scheduler = chain();
    let (ticket, moves) = moved(&mut scheduler, at(1));
    delete(&mut scheduler, "a-0", at(2));
    match scheduler.poll_decision(at(2)) {
        Some(Decision::CancelEvictions { ticket: same, victims }) => {
            assert_eq!((same, &victims[0].name), (ticket, &moves[0].unit));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bound(&mut scheduler, at(2)), ["new-0 n0000"]);
    assert!(!is_held(&scheduler));
}

/// A move that cannot be made leaves nothing behind: another pod moves in its stead.
#[test]
fn another_unit_moves_where_one_cannot() {
    let mut scheduler = one_and_one();
    let (ticket, moves) = moved(&mut scheduler, at(1));
    let first = moves[0].unit.clone();
    scheduler.handle_eviction_failed(ticket, &first, None, at(2)).unwrap();
    let (again, moves) = moved(&mut scheduler, at(2));
    assert_ne!((again, &moves[0].unit), (ticket, &first));
    scheduler.handle_gone(Gone::evicted(again, &moves[0].unit), at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(3)).len(), 2);
    assert!(!is_held(&scheduler));
}

/// Where nothing else may move either, the claim ends, and is made again later.
#[test]
fn a_claim_ends_with_its_last_move() {
    let mut scheduler = one_and_one();
    for _ in 0..2 {
        let (ticket, moves) = moved(&mut scheduler, at(1));
        scheduler.handle_eviction_failed(ticket, &moves[0].unit, Some(at(60)), at(1)).unwrap();
    }
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert!(!is_held(&scheduler));
    assert!(is_asleep(&scheduler, "default/new"));
    let mut now = at(1);
    let decision = loop {
        now = scheduler.next_wake().unwrap().max(now);
        if let Some(decision) = scheduler.poll_decision(now) {
            break decision;
        }
    };
    assert!(matches!(decision, Decision::Move { .. }), "{decision:?}");
    assert_eq!(now, at(60));
}

/// A unit that does not begin to move in time has failed; so has one that does not get away.
#[test]
fn a_move_that_takes_too_long_has_failed() {
    let mut scheduler = one_and_one();
    let (_, first) = moved(&mut scheduler, at(1));
    let back = scheduler.poll_decision(at(121));
    assert!(matches!(back, Some(Decision::CancelEvictions { .. })), "{back:?}");
    let (ticket, second) = moved(&mut scheduler, at(121));
    assert_ne!(first[0].unit, second[0].unit);
    // It terminates and does not end: it is asked for again, and its place is held.
    let name = &second[0].pod.name;
    let mut pod = scheduler.cluster().pod("default", name).unwrap().to_pod();
    pod.deleting = true;
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(130)).unwrap();
    assert_eq!(scheduler.poll_decision(at(130)), None);
    let mut now = at(130);
    let (same, again) = loop {
        now = scheduler.next_wake().unwrap().max(now);
        match scheduler.poll_decision(now) {
            Some(Decision::Move { ticket, moves, .. }) => break (ticket, moves),
            Some(other) => panic!("{other:?}"),
            None => assert!(now < at(500)),
        }
    };
    assert_eq!((same, text(&again)), (ticket, text(&second)));
    scheduler.handle_gone(Gone::evicted(ticket, &second[0].unit), now).unwrap();
    assert_eq!(bound(&mut scheduler, now).len(), 2);
    assert!(!is_held(&scheduler));
}

/// Room appears elsewhere: what has not begun to move stays, what has runs at its new place.
#[test]
fn moves_are_taken_back_when_room_appears() {
    for begun in [false, true] {
        let mut scheduler = one_and_one();
        let (ticket, moves) = moved(&mut scheduler, at(1));
        let name = &moves[0].pod.name;
        if begun {
            let mut pod = scheduler.cluster().pod("default", name).unwrap().to_pod();
            pod.deleting = true;
            scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(2)).unwrap();
        }
        let node = Node::new("more").capacity(GPU, 4);
        scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(3)).unwrap();
        if !begun {
            let Some(Decision::CancelEvictions { ticket: same, victims }) =
                scheduler.poll_decision(at(3))
            else {
                panic!("the move is needed no more")
            };
            assert_eq!((same, &victims[0].name), (ticket, &moves[0].unit));
        }
        assert_eq!(bound(&mut scheduler, at(3)), ["new-0 more"]);
        if begun {
            scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(4)).unwrap();
            assert_eq!(bound(&mut scheduler, at(4)), [format!("{name} {}", moves[0].to)]);
        }
        assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
        assert!(!is_held(&scheduler));
    }
}

/// A more important gang takes over the room of the gang, not the place of what moves.
#[test]
fn what_moves_keeps_its_place_when_a_more_important_gang_comes() {
    let mut scheduler = one_and_one();
    let (ticket, moves) = moved(&mut scheduler, at(1));
    delete(&mut scheduler, &moves[0].pod.name, at(2));
    let (bind_new, plan) = plan(&mut scheduler, at(2));
    // The gang's binding is refused, and one that is more important comes.
    scheduler.handle_group(wide("rival", 4).priority(10), at(2)).unwrap();
    scheduler.handle_conflict(bind_new, "the node is cordoned", at(2)).unwrap();
    assert_eq!(plan.len(), 1);
    assert_eq!(bound(&mut scheduler, at(2)), [format!("rival-0 {}", moves[0].pod.node)]);
    let pod = Pod::new().request(GPU, 1).name("old-x").in_group("old");
    scheduler.handle_pod(pod, at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(3)), [format!("old-x {}", moves[0].to)]);
    let _ = ticket;
}

/// A claim that gives way to a more important one takes its moves back.
#[test]
fn a_claim_to_moves_gives_way() {
    let mut scheduler = one_and_one();
    let (ticket, moves) = moved(&mut scheduler, at(1));
    scheduler.handle_group(wide("rival", 4).priority(10), at(2)).unwrap();
    match scheduler.poll_decision(at(2)) {
        Some(Decision::CancelEvictions { ticket: same, victims }) => {
            assert_eq!((same, &victims[0].name), (ticket, &moves[0].unit));
        }
        other => panic!("{other:?}"),
    }
    let (ticket, moves) = moved(&mut scheduler, at(2));
    scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(3)).unwrap();
    let bound = bound(&mut scheduler, at(3));
    assert!(bound.contains(&format!("rival-0 {}", moves[0].pod.node)), "{bound:?}");
    assert!(bound.contains(&format!("{} {}", moves[0].pod.name, moves[0].to)), "{bound:?}");
    assert!(is_asleep(&scheduler, "default/new"));
}

/// A place is held for a while, and no longer.
#[test]
fn a_place_that_nobody_comes_for_is_given_back() {
    let mut scheduler = one_and_one();
    let (_, moves) = moved(&mut scheduler, at(1));
    delete(&mut scheduler, &moves[0].pod.name, at(2));
    assert_eq!(bound(&mut scheduler, at(2)).len(), 1);
    scheduler.handle_group(wide("small", 3), at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(601)), Vec::<String>::new());
    assert!(is_held(&scheduler));
    assert_eq!(bound(&mut scheduler, at(602)), [format!("small-0 {}", moves[0].to)]);
    assert!(!is_held(&scheduler));
}

/// A unit that a budget, a minimum run time or the embedder's own rule protects does not move.
#[test]
fn what_is_protected_does_not_move() {
    let asks = |scheduler: &mut Scheduler| {
        scheduler.handle_group(wide("new", 4), at(1)).unwrap();
        scheduler.poll_decision(at(1)).is_some()
    };
    let mut scheduler = cluster_of(2);
    runs(&mut scheduler, PodGroup::basic("old"), &[(1, 0), (1, 1)]);
    let none = DisruptionBudget::new("none", LabelSelector::label("app", "old"), 0);
    scheduler.handle_budget(none, at(0));
    assert!(!asks(&mut scheduler));
    let mut group = PodGroup::basic("old");
    group.min_run_time = Some(std::time::Duration::from_secs(60));
    let mut scheduler = cluster_of(2);
    runs(&mut scheduler, group, &[(1, 0), (1, 1)]);
    assert!(!asks(&mut scheduler));
    let mut scheduler = cluster_of(2).with_move_policy(SameQueue);
    runs(&mut scheduler, PodGroup::basic("old").queue("other"), &[(1, 0), (1, 1)]);
    assert!(!asks(&mut scheduler));
}

/// A gang that would be below its minimum moves whole; one of its pods may come back to its node.
#[test]
fn a_gang_without_members_to_spare_moves_whole() {
    for moves_itself in [false, true] {
        let mut scheduler = cluster_of(2);
        runs(&mut scheduler, PodGroup::gang("old", 2), &[(3, 0), (1, 1)]);
        scheduler.handle_group(wide("new", 4), at(1)).unwrap();
        let (ticket, moves) = moved(&mut scheduler, at(1));
        let mut lines = text(&moves);
        lines.sort();
        assert_eq!(lines, ["old-0 n0000 -> n0001", "old-1 n0001 -> n0001"]);
        assert!(moves.iter().all(|step| step.unit == "default/old"));
        if moves_itself {
            let mut pod = scheduler.cluster().pod("default", "old-0").unwrap().to_pod();
            pod.node = Some("n0001".into());
            scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(2)).unwrap();
            assert_eq!(bound(&mut scheduler, at(2)), ["new-0 n0000"]);
        } else {
            scheduler.handle_gone(Gone::evicted(ticket, "default/old-1"), at(2)).unwrap();
            scheduler.handle_gone(Gone::evicted(ticket, "default/old-0"), at(3)).unwrap();
            assert_eq!(bound(&mut scheduler, at(3)).len(), 3);
        }
        assert_eq!(node_of(&scheduler, "old-0"), Some("n0001".into()));
        assert_eq!(node_of(&scheduler, "old-1"), Some("n0001".into()));
        for group in ["default/old", "default/new"] {
            assert_eq!(scheduler.state(group), Some(GroupState::Running));
        }
        assert!(!scheduler.cluster().pod("default", "old-1").unwrap().deleting());
        assert!(!is_held(&scheduler));
    }
}

/// Where moves do not help, victims go as ever.
#[test]
fn victims_go_where_moves_do_not_help() {
    let mut scheduler = cluster_of(1);
    runs(&mut scheduler, PodGroup::basic("old"), &[(1, 0)]);
    scheduler.handle_group(wide("new", 4).priority(1), at(1)).unwrap();
    let decision = scheduler.poll_decision(at(1));
    let Some(Decision::Evict { victims, .. }) = decision else { panic!("{decision:?}") };
    assert_eq!(victims[0].name, "default/old-0");
}

/// A save in the middle of a move goes on from there.
#[test]
fn a_save_in_the_middle_of_a_move_goes_on() {
    for step in 0..3 {
        let mut scheduler = one_and_one();
        let (ticket, moves) = moved(&mut scheduler, at(1));
        if step > 0 {
            delete(&mut scheduler, &moves[0].pod.name, at(2));
        }
        if step > 1 {
            let pod = Pod::new().request(GPU, 1).name("old-x").in_group("old");
            scheduler.handle_pod(pod, at(2)).unwrap();
        }
        let text = serde_json::to_string(&scheduler.save()).unwrap();
        let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
        let mut twin = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
        assert_eq!(serde_json::to_string(&twin.save()).unwrap(), text);
        for scheduler in [&mut scheduler, &mut twin] {
            if step == 0 {
                scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(3)).unwrap();
            }
            if step == 1 {
                let pod = Pod::new().request(GPU, 1).name("old-x").in_group("old");
                scheduler.handle_pod(pod, at(3)).unwrap();
            }
        }
        let own = bound(&mut scheduler, at(3));
        assert_eq!(own, bound(&mut twin, at(3)));
        assert!(own.iter().any(|line| line.ends_with(&moves[0].to)), "{own:?}");
        assert!(!is_held(&scheduler) && !is_held(&twin));
        let saves = [&scheduler, &twin].map(|own| serde_json::to_string(&own.save()).unwrap());
        assert_eq!(saves[0], saves[1]);
    }
}

/// Events say what happens.
#[test]
fn events_tell_of_moves() {
    let mut scheduler = one_and_one();
    let _ = moved(&mut scheduler, at(1));
    let changes = changes(&mut scheduler);
    let is_told = |is: &dyn Fn(&GroupChange) -> bool| changes.iter().filter(|own| is(own)).count();
    let asks = |change: &GroupChange| {
        matches!(change, GroupChange::Preempting { victims: 0, moves: 1, pods: 1, .. })
    };
    assert_eq!(is_told(&asks), 1);
    let moves = |change: &GroupChange| matches!(change, GroupChange::Moving { by, pods: 1 } if by == "default/new");
    assert_eq!(is_told(&moves), 1);
}
