//! Features in pairs: moves beside tenants, backfill and victims, and gangs that start together.

use phalanx::preempt::Move;
use phalanx::queue::{
    Backfill, Gone, GroupState, NoPreemption, PreemptionSettings, PriorityThenTime,
    ReservationPolicy, SavedScheduler, Settings, Ticket,
};
use phalanx::quota::{Flavor, Queue, Quota, Tenants};
use phalanx::{Cluster, Decision, Framework, Node, ObjectName, Pod, PodGroup, Scheduler, Time};

use super::steps::*;

fn moves(settings: &mut Settings) {
    settings.preemption = Some(PreemptionSettings::new().consolidation(4));
}

/// Takes in a group that runs: of each pod the GPUs and the number of its node.
fn runs(scheduler: &mut Scheduler, mut group: PodGroup, pods: &[(i64, usize)]) {
    let (name, own) = (group.full_name(), group.name.clone());
    let pod = |index: usize, (gpus, node): (i64, usize)| {
        let pod = Pod::new().request(GPU, gpus).name(format!("{own}-{index}"));
        pod.on(format!("n{node:04}"))
    };
    group.pods = pods.iter().enumerate().map(|(index, own)| pod(index, *own)).collect();
    scheduler.handle_group(group, at(0)).unwrap();
    assert_eq!(scheduler.state(&name), Some(GroupState::Running));
}

/// A gang of one pod of so many GPUs.
fn wide(name: &str, gpus: i64) -> PodGroup {
    PodGroup::gang(name, 1).pods(1, Pod::new().request(GPU, gpus))
}

fn moved(scheduler: &mut Scheduler, now: Time) -> (Ticket, Vec<Move>) {
    match scheduler.poll_decision(now) {
        Some(Decision::Move { ticket, moves, .. }) => (ticket, moves),
        other => panic!("{other:?}"),
    }
}

fn evicted(scheduler: &mut Scheduler, now: Time) -> (Ticket, Vec<String>) {
    match scheduler.poll_decision(now) {
        Some(Decision::Evict { ticket, victims, .. }) => {
            (ticket, victims.into_iter().map(|victim| victim.name.to_string()).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn text(moves: &[Move]) -> Vec<String> {
    moves.iter().map(|m| format!("{} {} -> {}", m.pod.name, m.pod.node, m.to)).collect()
}

/// The next decisions, which bind: the pods with their nodes, sorted.
fn bound(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
        bind(scheduler, ticket, &plan, now);
        all.extend(plan.assignments().map(|to| format!("{} {}", to.pod().name, to.node())));
    }
    scheduler.check().unwrap();
    all.sort();
    all
}

fn is_held(scheduler: &Scheduler) -> bool {
    let mut pods = scheduler.cluster().pods();
    pods.any(|pod| pod.namespace() == Scheduler::RESERVED_NAMESPACE)
}

/// Queues with so many GPUs each, of one flavor that all nodes are of.
fn queues(own: &[(&str, i64)]) -> Tenants {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, gpus) in own {
        tenants.set_queue(Queue::leaf(*name).quota("all", GPU, Quota::nominal(*gpus))).unwrap();
    }
    tenants
}

fn used(scheduler: &Scheduler, queue: &str) -> i64 {
    scheduler.queue_status(queue).unwrap().report.resources[0].sums.used
}

/// Two nodes of four GPUs with one used on each, and a gang of another queue that wants one whole.
fn one_and_one(tenants: Tenants) -> Scheduler {
    let mut scheduler = scheduler(gpus(2, 4), moves).with_tenants(tenants);
    runs(&mut scheduler, PodGroup::basic("old").queue("a"), &[(1, 0), (1, 1)]);
    scheduler.handle_group(wide("new", 4).queue("b"), at(1)).unwrap();
    scheduler
}

/// A unit that moves keeps its quota: nobody of its queue gets it meanwhile.
#[test]
fn units_of_another_queue_move_and_keep_their_quota() {
    let mut scheduler = one_and_one(queues(&[("a", 2), ("b", 4)]));
    let (_, moves) = moved(&mut scheduler, at(1));
    delete(&mut scheduler, &moves[0].pod.name, at(2));
    assert_eq!(bound(&mut scheduler, at(2)), [format!("new-0 {}", moves[0].pod.node)]);
    assert_eq!(used(&scheduler, "a"), 2);
    scheduler.handle_group(wide("rival", 1).queue("a"), at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(3)), Vec::<String>::new());
    let pod = Pod::new().request(GPU, 1).name("old-x").in_group("old");
    scheduler.handle_pod(pod, at(4)).unwrap();
    assert_eq!(bound(&mut scheduler, at(4)), [format!("old-x {}", moves[0].to)]);
    assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (2, 4));
    assert!(!is_held(&scheduler));
    delete(&mut scheduler, "old-x", at(5));
    assert_eq!(bound(&mut scheduler, at(5)), [format!("rival-0 {}", moves[0].to)]);
    assert_eq!(used(&scheduler, "a"), 2);
}

/// Nobody comes back for the place: its quota is given back with it.
#[test]
fn a_place_that_is_given_back_gives_its_quota_back() {
    let mut scheduler = one_and_one(queues(&[("a", 2), ("b", 4)]));
    let (_, moves) = moved(&mut scheduler, at(1));
    delete(&mut scheduler, &moves[0].pod.name, at(2));
    assert_eq!(bound(&mut scheduler, at(2)).len(), 1);
    assert_eq!(used(&scheduler, "a"), 2);
    assert_eq!(bound(&mut scheduler, at(602)), Vec::<String>::new());
    assert_eq!(used(&scheduler, "a"), 1);
    assert!(!is_held(&scheduler));
}

/// The quota of a queue has shrunk by the time its unit has moved: the unit runs all the same.
#[test]
fn what_moves_needs_no_quota_anew() {
    let mut scheduler = one_and_one(queues(&[("a", 2), ("b", 4)]));
    let (ticket, moves) = moved(&mut scheduler, at(1));
    let less = Queue::leaf("a").quota("all", GPU, Quota::nominal(0));
    scheduler.handle_queue(less, at(2)).unwrap();
    scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(3)).unwrap();
    let all = bound(&mut scheduler, at(3));
    assert!(all.contains(&format!("{} {}", moves[0].pod.name, moves[0].to)), "{all:?}");
    assert_eq!((all.len(), used(&scheduler, "a")), (2, 2));
}

/// A gang without its guarantee: quota names a victim, and what else is in the way moves.
#[test]
fn quota_names_a_victim_and_the_rest_moves() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    tenants.set_queue(Queue::inner("root")).unwrap();
    for (name, own) in [("a", 2), ("b", 6)] {
        let queue = Queue::leaf(name).parent("root").quota("all", GPU, Quota::nominal(own));
        tenants.set_queue(queue).unwrap();
    }
    let mut scheduler = scheduler(gpus(2, 4), moves).with_tenants(tenants);
    runs(&mut scheduler, PodGroup::gang("kept", 1).queue("b"), &[(1, 0)]);
    runs(&mut scheduler, PodGroup::gang("more", 1).queue("b"), &[(1, 1)]);
    runs(&mut scheduler, PodGroup::gang("lent", 1).queue("a"), &[(3, 0)]);
    scheduler.handle_group(wide("new", 4).queue("b"), at(1)).unwrap();
    let (evict, names) = evicted(&mut scheduler, at(1));
    assert_eq!(names, ["default/lent"]);
    // There is room for it on the other node already.
    let (ticket, moves) = moved(&mut scheduler, at(1));
    assert_eq!(text(&moves), ["kept-0 n0000 -> n0001"]);
    assert_eq!(scheduler.poll_decision(at(1)), None);
    scheduler.handle_gone(Gone::evicted(evict, "default/lent"), at(2)).unwrap();
    scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(2)).unwrap();
    let all = bound(&mut scheduler, at(2));
    assert_eq!(all, ["kept-0 n0001", "new-0 n0000"]);
    assert_eq!(used(&scheduler, "b"), 6);
}

/// A unit stays on nodes of the flavor that it is charged with: another's quota was not asked.
#[test]
fn nothing_moves_to_nodes_of_another_flavor() {
    for labelled in [false, true] {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        for (name, kind) in [("n0000", "x"), ("n0001", if labelled { "y" } else { "x" })] {
            let node = Node::new(name).capacity(GPU, 4).label("rack", "r").label("kind", kind);
            cluster.add_node(node).unwrap();
        }
        let mut tenants = Tenants::default();
        for kind in ["x", "y"] {
            tenants.set_flavor(Flavor::new(kind).label("kind", kind));
        }
        for name in ["a", "b"] {
            let queue = Queue::leaf(name).quota("x", GPU, Quota::nominal(4));
            tenants.set_queue(queue.quota("y", GPU, Quota::nominal(4))).unwrap();
        }
        let mut scheduler = scheduler(cluster, moves).with_tenants(tenants);
        runs(&mut scheduler, PodGroup::basic("old").queue("a"), &[(1, 0)]);
        runs(&mut scheduler, PodGroup::basic("also").queue("a"), &[(1, 1)]);
        scheduler.handle_group(wide("new", 4).queue("b"), at(1)).unwrap();
        assert_eq!(scheduler.poll_decision(at(1)).is_some(), !labelled);
    }
}

/// With backfill, units move for the first of the line.
#[test]
fn units_move_for_the_first_of_a_line_with_backfill() {
    for rule in [Backfill::easy(), Backfill::easy_shortest_first(), Backfill::conservative()] {
        let mut scheduler = scheduler(gpus(2, 4), |own| {
            moves(own);
            *own = own.clone().backfill(rule);
        });
        runs(&mut scheduler, PodGroup::basic("old"), &[(1, 0), (1, 1)]);
        scheduler.handle_group(wide("new", 4), at(1)).unwrap();
        let (ticket, moves) = moved(&mut scheduler, at(1));
        scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(2)).unwrap();
        let all = bound(&mut scheduler, at(2));
        let own = format!("{} {}", moves[0].pod.name, moves[0].to);
        let mut expected = [format!("new-0 {}", moves[0].pod.node), own];
        expected.sort();
        assert_eq!(all, expected);
        assert!(!is_held(&scheduler));
        assert_eq!(scheduler.metrics().promises_broken, 0);
    }
}

/// Two units change places: one of them stops meanwhile.
fn exchange() -> Scheduler {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, gpus, rack) in [("n0000", 4, "r0"), ("n0001", 3, "r1")] {
        cluster.add_node(Node::new(name).capacity(GPU, gpus).label("rack", rack)).unwrap();
    }
    let mut scheduler = scheduler(cluster, moves);
    runs(&mut scheduler, PodGroup::gang("p", 1), &[(3, 0)]);
    runs(&mut scheduler, PodGroup::gang("q", 1), &[(2, 1)]);
    let mut new = PodGroup::gang("new", 1);
    new = new.pods(1, Pod::new().request(GPU, 2).node_selector("rack", "r0"));
    scheduler.handle_group(new, at(1)).unwrap();
    scheduler
}

#[test]
fn a_unit_that_stops_meanwhile_starts_when_the_others_have_moved() {
    let mut scheduler = exchange();
    let (ticket, first) = moved(&mut scheduler, at(1));
    assert_eq!(text(&first), ["q-0 n0001 -> n0000"]);
    assert!(first[0].stops);
    assert_eq!(scheduler.poll_decision(at(1)), None);
    scheduler.handle_gone(Gone::evicted(ticket, "default/q-0"), at(2)).unwrap();
    let (_, second) = moved(&mut scheduler, at(2));
    assert_eq!(text(&second), ["p-0 n0000 -> n0001"]);
    assert!(!second[0].stops);
    assert_eq!(scheduler.poll_decision(at(2)), None);
    scheduler.handle_gone(Gone::evicted(ticket, "default/p-0"), at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(3)), ["new-0 n0000", "p-0 n0001", "q-0 n0000"]);
    assert!(!is_held(&scheduler));
}

/// Everything, seed 536,870,913,137. `s` stops and goes to the node that `m` moves to first, while `p` is still
/// there. The place of `s` was in the way of `m`: nobody moved, and `s` waited until the claim was over.
#[test]
fn the_place_of_a_unit_that_has_stopped_is_in_nobodys_way_before_the_others_have_moved() {
    let mut cluster = Cluster::builder().build().unwrap();
    // Where pods may run: `new` on c, `s-0` on c and d, `m` on a and d, the others on a, b and d.
    let nodes: [(&str, i64, &[&str]); 4] = [
        ("a", 4, &["m", "rest"]),
        ("b", 3, &["rest"]),
        ("c", 2, &["new", "s-0"]),
        ("d", 3, &["s-0", "m", "rest"]),
    ];
    for (node, gpus, labels) in nodes {
        let node = Node::new(node).capacity(GPU, gpus);
        let node = labels.iter().fold(node, |node, label| node.label(*label, "yes"));
        cluster.add_node(node).unwrap();
    }
    let mut scheduler = scheduler(cluster, moves);
    let pod = |gpus: i64, label: &str| Pod::new().request(GPU, gpus).node_selector(label, "yes");
    let on = |name: &str, gpus: i64, label: &str, node: &str| pod(gpus, label).name(name).on(node);
    let m = PodGroup::gang("m", 1).pod(on("m-0", 1, "m", "a"));
    let p = PodGroup::gang("p", 2).priority(1);
    let p = p.pod(on("p-0", 2, "rest", "b")).pod(on("p-1", 2, "rest", "d"));
    let s = PodGroup::gang("s", 2).pod(on("s-0", 2, "s-0", "c")).pod(on("s-1", 3, "rest", "a"));
    for group in [m, p, s] {
        scheduler.handle_group(group, at(0)).unwrap();
    }
    scheduler.handle_group(PodGroup::gang("new", 1).pods(1, pod(2, "new")), at(1)).unwrap();
    let mut has_stopped = false;
    while let Some(decision) = scheduler.poll_decision(at(1)) {
        match decision {
            Decision::Move { ticket, moves, .. } => {
                has_stopped |= moves.iter().any(|step| step.stops);
                for step in moves {
                    let name = format!("default/{}", step.pod.name);
                    scheduler.handle_gone(Gone::evicted(ticket, name), at(1)).unwrap();
                }
            }
            Decision::Bind { ticket, plan, .. } => bind(&mut scheduler, ticket, &plan, at(1)),
            other => panic!("{other:?}"),
        }
    }
    assert!(has_stopped);
    for group in ["default/m", "default/p", "default/s", "default/new"] {
        assert_eq!(scheduler.state(group), Some(GroupState::Running), "{group}");
    }
    assert!(!is_held(&scheduler));
}

/// The other unit does not go: what has stopped starts where it was.
#[test]
fn a_unit_that_has_stopped_starts_again_if_the_others_stay() {
    let mut scheduler = exchange();
    let (ticket, _) = moved(&mut scheduler, at(1));
    scheduler.handle_gone(Gone::evicted(ticket, "default/q-0"), at(2)).unwrap();
    let _ = moved(&mut scheduler, at(2));
    scheduler.handle_group_removed("default/new", at(3)).unwrap();
    assert!(matches!(scheduler.poll_decision(at(3)), Some(Decision::CancelEvictions { .. })));
    assert_eq!(bound(&mut scheduler, at(3)), ["q-0 n0001"]);
    assert!(!is_held(&scheduler));
}

/// Two units are in the way: only one may be evicted, and the other has room elsewhere.
#[test]
fn one_claim_evicts_and_moves() {
    let mut scheduler = scheduler(gpus(2, 4), moves);
    runs(&mut scheduler, PodGroup::gang("low", 1).evicted_whole(), &[(3, 0)]);
    runs(&mut scheduler, PodGroup::gang("also", 1).evicted_whole(), &[(1, 0)]);
    let mut fixed = PodGroup::basic("fixed");
    fixed.non_preemptible = true;
    runs(&mut scheduler, fixed, &[(2, 1)]);
    scheduler.handle_group(wide("new", 4).priority(5), at(1)).unwrap();
    let (evict, names) = evicted(&mut scheduler, at(1));
    assert_eq!(names, ["default/low"]);
    let (ticket, moves) = moved(&mut scheduler, at(1));
    assert_eq!(text(&moves), ["also-0 n0000 -> n0001"]);
    scheduler.handle_gone(Gone::evicted(ticket, &moves[0].unit), at(2)).unwrap();
    assert_eq!(bound(&mut scheduler, at(2)), ["also-0 n0001"]);
    scheduler.handle_gone(Gone::evicted(evict, "default/low"), at(3)).unwrap();
    assert_eq!(bound(&mut scheduler, at(3)), ["new-0 n0000"]);
    assert!(!is_held(&scheduler));
}

/// Two nodes of four GPUs, with their names as labels.
fn cluster_by_name() -> Cluster {
    let mut cluster = Cluster::new();
    for name in ["n0000", "n0001"] {
        let node = Node::new(name).capacity(GPU, 4).label("kubernetes.io/hostname", name);
        cluster.add_node(node).unwrap();
    }
    cluster
}

fn reserves(settings: &mut Settings) {
    evicts(settings);
    let policy = ReservationPolicy::new().after(at(10).since(at(0)));
    *settings = settings.clone().reservation(policy);
}

fn evicts(settings: &mut Settings) {
    settings.preemption = Some(PreemptionSettings::new());
}

/// Gangs of one GPU that name each other.
fn pair(scheduler: &mut Scheduler, own: [(&str, i32, &str); 2]) {
    for (index, (name, priority, queue)) in own.iter().enumerate() {
        let partner = ObjectName::new("default", own[1 - index].0);
        let group = gang(name, 1).priority(*priority).queue(*queue).starts_with(partner);
        scheduler.handle_group(group, at(1)).unwrap();
    }
}

/// Gangs that start together claim the room of their victims together, and start in one decision.
#[test]
fn groups_that_start_together_preempt() {
    let mut scheduler = scheduler(gpus(1, 2), evicts);
    runs(&mut scheduler, PodGroup::gang("old", 2).evicted_whole(), &[(1, 0), (1, 0)]);
    pair(&mut scheduler, [("a", 10, ""), ("b", 10, "")]);
    let (ticket, names) = evicted(&mut scheduler, at(1));
    assert_eq!(names, ["default/old"]);
    let held = scheduler.reservations();
    assert_eq!((held.len(), &*held[0].group, held[0].wanted), (1, "default/a", 2));
    assert_eq!(scheduler.poll_decision(at(1)), None);
    scheduler.check().unwrap();
    scheduler.handle_gone(Gone::evicted(ticket, "default/old"), at(2)).unwrap();
    let Some(Decision::Bind { groups, plan, .. }) = scheduler.poll_decision(at(2)) else {
        panic!("there is room for both")
    };
    assert_eq!((groups.len(), plan.len()), (2, 2));
    assert!(!is_held(&scheduler));
    scheduler.check().unwrap();
}

/// A joint claim is saved and restored with all of its groups.
#[test]
fn the_claim_of_groups_that_start_together_survives_a_save() {
    let mut scheduler = scheduler(gpus(1, 2), evicts);
    runs(&mut scheduler, PodGroup::gang("old", 2).evicted_whole(), &[(1, 0), (1, 0)]);
    pair(&mut scheduler, [("a", 10, ""), ("b", 10, "")]);
    let (ticket, _) = evicted(&mut scheduler, at(1));
    let text = serde_json::to_string(&scheduler.save()).unwrap();
    let restored = || {
        let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
        Scheduler::restore(saved, Framework::default(), PriorityThenTime)
    };
    let mut again = restored();
    again.check().unwrap();
    assert_eq!(serde_json::to_string(&again.save()).unwrap(), text);
    assert_eq!(again.poll_decision(at(1)), None);
    again.handle_gone(Gone::evicted(ticket, "default/old"), at(2)).unwrap();
    let Some(Decision::Bind { groups, plan, .. }) = again.poll_decision(at(2)) else {
        panic!("there is room for both")
    };
    assert_eq!((groups.len(), plan.len()), (2, 2));
    again.check().unwrap();
    // The second of the groups knows that the claim is its own.
    let mut again = restored();
    again.handle_pause("default/b", at(2)).unwrap();
    assert!(matches!(again.poll_decision(at(2)), Some(Decision::CancelEvictions { .. })));
    assert!(!is_held(&again));
    again.check().unwrap();
}

/// The claim is of all or none: it ends with any of them, and its evictions are taken back.
#[test]
fn the_claim_of_groups_that_start_together_ends_with_one_of_them() {
    for gone in ["a", "b"] {
        let mut scheduler = scheduler(gpus(1, 2), evicts);
        runs(&mut scheduler, PodGroup::gang("old", 2).evicted_whole(), &[(1, 0), (1, 0)]);
        pair(&mut scheduler, [("a", 10, ""), ("b", 10, "")]);
        let _ = evicted(&mut scheduler, at(1));
        scheduler.handle_pause(&format!("default/{gone}"), at(2)).unwrap();
        assert!(matches!(scheduler.poll_decision(at(2)), Some(Decision::CancelEvictions { .. })));
        assert_eq!(scheduler.poll_decision(at(2)), None);
        assert!(!is_held(&scheduler));
        scheduler.check().unwrap();
        scheduler.handle_resume(&format!("default/{gone}"), at(60)).unwrap();
        assert_eq!(evicted(&mut scheduler, at(60)).1, ["default/old"]);
    }
}

/// They are as important as the least important of them.
#[test]
fn groups_that_start_together_take_what_is_below_them_all() {
    for (least, goes) in [(3, false), (6, true)] {
        let mut scheduler = scheduler(gpus(1, 2), evicts);
        runs(&mut scheduler, PodGroup::gang("old", 2).priority(5), &[(1, 0), (1, 0)]);
        pair(&mut scheduler, [("a", 10, ""), ("b", least, "")]);
        assert_eq!(scheduler.poll_decision(at(1)).is_some(), goes);
    }
}

/// With tenants they preempt in their own queue; of two queues they have none in common.
#[test]
fn groups_of_two_queues_that_start_together_do_not_preempt() {
    for queue in ["a", "b"] {
        let tenants = queues(&[("a", 4), ("b", 4)]);
        let mut scheduler = scheduler(gpus(1, 2), evicts).with_tenants(tenants);
        runs(
            &mut scheduler,
            PodGroup::gang("old", 2).queue("a").evicted_whole(),
            &[(1, 0), (1, 0)],
        );
        pair(&mut scheduler, [("one", 10, "a"), ("two", 10, queue)]);
        let why = scheduler.status("default/one").unwrap().no_preemption;
        if queue == "b" {
            let groups = vec![ObjectName::new("default", "two")];
            assert_eq!(why, Some(NoPreemption::StartsWith { groups }));
            assert_eq!(scheduler.poll_decision(at(1)), None);
            continue;
        }
        assert_eq!(why, None);
        let (ticket, names) = evicted(&mut scheduler, at(1));
        assert_eq!(names, ["default/old"]);
        scheduler.check().unwrap();
        scheduler.handle_gone(Gone::evicted(ticket, "default/old"), at(2)).unwrap();
        assert_eq!(bound(&mut scheduler, at(2)), ["one-0 n0000", "two-0 n0000"]);
        assert_eq!(used(&scheduler, "a"), 2);
    }
}

/// Quota would have to be taken back for several claims at once: nobody goes for them.
#[test]
fn no_quota_is_taken_back_for_groups_that_start_together() {
    for together in [false, true] {
        let mut tenants = Tenants::default();
        tenants.set_flavor(Flavor::new("all"));
        tenants.set_queue(Queue::inner("root")).unwrap();
        for name in ["a", "b"] {
            let queue = Queue::leaf(name).parent("root").quota("all", GPU, Quota::nominal(2));
            tenants.set_queue(queue).unwrap();
        }
        let mut scheduler = scheduler(gpus(1, 4), evicts).with_tenants(tenants);
        runs(&mut scheduler, PodGroup::gang("lent", 4).queue("a"), &[(1, 0); 4]);
        if together {
            pair(&mut scheduler, [("one", 0, "b"), ("two", 0, "b")]);
        } else {
            scheduler.handle_group(gang("one", 2).queue("b"), at(1)).unwrap();
        }
        assert_eq!(scheduler.poll_decision(at(1)).is_some(), !together);
    }
}

/// A reservation gathers what frees on a node, one GPU at a time, while a victim takes its time.
#[test]
fn a_reservation_holds_parts_of_members_beside_a_claim() {
    let mut scheduler = scheduler(cluster_by_name(), reserves);
    runs(&mut scheduler, PodGroup::gang("low", 1), &[(4, 0)]);
    let mut fixed = PodGroup::basic("fixed").priority(9);
    fixed.non_preemptible = true;
    runs(&mut scheduler, fixed, &[(1, 1), (1, 1), (1, 1)]);
    // It can go where its victim is, and nowhere else.
    let pod = Pod::new().request(GPU, 4).node_selector("kubernetes.io/hostname", "n0000");
    scheduler.handle_group(PodGroup::gang("top", 1).pods(1, pod).priority(5), at(1)).unwrap();
    let _ = evicted(&mut scheduler, at(1));
    scheduler.handle_group(wide("large", 4), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(scheduler.poll_decision(at(20)), None);
    let parts = |scheduler: &Scheduler| {
        let held = scheduler.reservations();
        let own = held.iter().find(|own| own.group == "default/large").unwrap();
        own.amounts.get("n0001").map(|held| held.of(GPU))
    };
    assert_eq!((scheduler.reservations().len(), parts(&scheduler)), (2, Some(1)));
    scheduler.handle_group(wide("small", 1), at(21)).unwrap();
    for (index, now) in [22, 23, 24].into_iter().enumerate() {
        assert_eq!(scheduler.poll_decision(at(now)), None);
        delete(&mut scheduler, &format!("fixed-{index}"), at(now));
    }
    // It is gathered; the claim still waits for its victim, and the small one behind both.
    assert_eq!(bound(&mut scheduler, at(25)), ["large-0 n0001"]);
    assert_eq!(scheduler.reservations()[0].group, "default/top");
}

/// Room that a less important reservation gathers is there for the claim of a more important group.
#[test]
fn a_claim_takes_what_a_less_important_reservation_has_gathered() {
    let mut scheduler = scheduler(cluster_by_name(), reserves);
    runs(&mut scheduler, PodGroup::gang("low", 1), &[(4, 0)]);
    let mut fixed = PodGroup::basic("fixed").priority(9);
    fixed.non_preemptible = true;
    runs(&mut scheduler, fixed, &[(1, 1), (1, 1)]);
    scheduler.handle_group(wide("top", 3).priority(5), at(1)).unwrap();
    let (ticket, _) = evicted(&mut scheduler, at(1));
    scheduler.handle_group(wide("large", 4), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(scheduler.poll_decision(at(20)), None);
    assert_eq!(scheduler.reservations().len(), 2);
    delete(&mut scheduler, "fixed-0", at(21));
    match scheduler.poll_decision(at(21)) {
        Some(Decision::CancelEvictions { ticket: same, .. }) => assert_eq!(same, ticket),
        other => panic!("{other:?}"),
    }
    assert_eq!(bound(&mut scheduler, at(21)), ["top-0 n0001"]);
    scheduler.check().unwrap();
}

/// A gang in slices moves whole, each slice to a rack of its own.
#[test]
fn a_gang_in_slices_moves_whole() {
    let mut scheduler = scheduler(gpus(12, 4), moves);
    let mut fixed = PodGroup::basic("fixed");
    fixed.non_preemptible = true;
    runs(
        &mut scheduler,
        fixed,
        &[(3, 1), (3, 2), (3, 3), (2, 4), (2, 5), (4, 6), (4, 7), (2, 8), (2, 9), (4, 10), (4, 11)],
    );
    let sliced = PodGroup::gang("sliced", 2).slice("rack", 2).evicted_whole();
    runs(&mut scheduler, sliced, &[(2, 0), (2, 0)]);
    scheduler.handle_group(wide("new", 4), at(1)).unwrap();
    let (ticket, moves) = moved(&mut scheduler, at(1));
    assert!(moves.iter().all(|step| step.unit == "default/sliced"), "{moves:?}");
    scheduler.handle_gone(Gone::evicted(ticket, "default/sliced"), at(2)).unwrap();
    let all = bound(&mut scheduler, at(2));
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all[0], "new-0 n0000");
    let rack = |line: &String| line[line.len() - 2..].parse::<usize>().unwrap() / 4;
    assert_eq!(rack(&all[1]), rack(&all[2]));
    assert!(!is_held(&scheduler));
}

/// Groups with partners stay where they are: what moves of them would wait for these to start again.
#[test]
fn groups_with_partners_do_not_move() {
    for together in [false, true] {
        let mut scheduler = scheduler(gpus(2, 4), moves);
        for (name, other, node) in [("a", "b", 0), ("b", "a", 1)] {
            let mut group = PodGroup::gang(name, 1);
            if together {
                group = group.starts_with(ObjectName::new("default", other));
            }
            runs(&mut scheduler, group, &[(1, node)]);
        }
        scheduler.handle_group(wide("new", 4), at(1)).unwrap();
        assert_eq!(scheduler.poll_decision(at(1)).is_some(), !together);
    }
}
