//! The rules of moves, one by one.

use std::time::Duration;

use phalanx::model::{Device, DeviceRequest, LabelSelector};
use phalanx::place::Proof;
use phalanx::plugins::{DeviceFit, Fit, NodeUnschedulable};
use phalanx::preempt::{
    Consolidation, DisruptionBudget, MoveClaim, NoVictims, Preempt, PreemptingPlanner, Preemption,
    PreemptionRequest, RunningWork, SameQueue,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Strategy, Time};

use super::simulate::carry_out;

const GPU: &str = "example.com/gpu";

/// Nodes with their rack and GPUs, and pods with their node and GPUs.
fn cluster(nodes: &[(&str, &str, i64)], pods: &[(&str, &str, i64)]) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack, gpus) in nodes {
        let node = Node::new(*name).capacity(GPU, *gpus).label("rack", *rack);
        cluster.add_node(node).unwrap();
    }
    for pod in pods {
        cluster.add_pod(running(*pod)).unwrap();
    }
    cluster
}

fn running((name, node, gpus): (&str, &str, i64)) -> Pod {
    let pod = Pod::new().name(name).request(GPU, gpus).label("app", name).on(node);
    let group = name.split_once('-').map(|(group, _)| group.to_string());
    let mut pod = pod.since(Time::from_secs(10));
    pod.group = group;
    pod
}

fn gang(members: usize, gpus: i64) -> PodGroup {
    PodGroup::gang("new", members as u32).pods(members, Pod::new().request(GPU, gpus)).priority(1)
}

fn in_rack_a(gpus: i64) -> PodGroup {
    let pod = Pod::new().request(GPU, gpus).node_selector("rack", "a");
    PodGroup::gang("new", 1).pods(1, pod).priority(1)
}

fn ask<'a>(gang: &'a PodGroup, settings: Consolidation<'a>) -> PreemptionRequest<'a> {
    PreemptionRequest::new(Request::new(gang).now(Time::from_secs(100))).consolidation(settings)
}

fn place(
    cluster: &Cluster,
    known: &RunningWork,
    gang: &PodGroup,
    settings: Consolidation<'_>,
) -> Preemption {
    let framework = Framework::default();
    let asked = ask(gang, settings);
    let answer = PreemptingPlanner::new().place(cluster, &framework, known, asked).unwrap();
    if let Some(preempt) = answer.preempt() {
        carry_out(cluster, known, &framework, preempt).unwrap();
    }
    answer
}

/// The moves: pod, node it goes to, and whether it stops.
fn steps(preempt: &Preempt) -> Vec<(&str, &str, bool)> {
    preempt.moves.iter().map(|step| (&*step.pod.name, &*step.to, step.stops)).collect()
}

#[test]
fn one_pod_moves_out_of_the_way() {
    let cluster = cluster(&[("n1", "a", 8), ("n2", "a", 8)], &[("p", "n1", 4), ("q", "n2", 2)]);
    let answer = place(&cluster, &RunningWork::new(), &gang(1, 8), Consolidation::new(1));
    let preempt = answer.preempt().unwrap();
    assert_eq!(steps(preempt).len(), 1);
    assert_eq!(preempt.move_claim, Some(MoveClaim::Least));
    // Without leave to move nothing does.
    let (known, framework) = (RunningWork::new(), Framework::default());
    let answer = PreemptingPlanner::new().place(&cluster, &framework, &known, gang(1, 8)).unwrap();
    assert!(answer.preempt().is_none_or(|preempt| preempt.moves.is_empty()));
}

#[test]
fn a_move_waits_for_the_room_that_another_leaves() {
    // `p` fits on n2 once `q` has gone to n3.
    let cluster = cluster(
        &[("n1", "a", 4), ("n2", "b", 4), ("n3", "b", 3)],
        &[("p", "n1", 4), ("q", "n2", 3)],
    );
    let free = gang(1, 4);
    let known = RunningWork::new();
    let answer = place(&cluster, &known, &free, Consolidation::new(1));
    // One move is enough: n2 is as good as n1.
    assert_eq!(steps(answer.preempt().unwrap()), [("q", "n3", false)]);
    // With one node in the only rack that will do, both move, and in this order.
    let gang = in_rack_a(4);
    let answer = place(&cluster, &known, &gang, Consolidation::new(2));
    assert_eq!(steps(answer.preempt().unwrap()), [("q", "n3", false), ("p", "n2", false)]);
    let answer = place(&cluster, &known, &gang, Consolidation::new(1));
    assert_eq!(answer.word(), "no-victims-help", "{answer}");
}

#[test]
fn where_two_must_change_places_the_cheaper_stops() {
    let nodes = [("n1", "a", 4), ("n2", "b", 3)];
    let mut cluster = cluster(&nodes, &[("p", "n1", 3), ("q", "n2", 2)]);
    let gang = in_rack_a(2);
    let answer = place(&cluster, &RunningWork::new(), &gang, Consolidation::new(2));
    let preempt = answer.preempt().unwrap();
    // Both have run as long; of equal ones that which makes a smaller set comes first by name.
    assert_eq!(preempt.move_cost.stopped.pods, 1);
    assert_eq!(preempt.moves.len(), 2);
    // What has run for less stops.
    for (short, long) in [("p", "q"), ("q", "p")] {
        for (name, start) in [(short, 90), (long, 5)] {
            let mut pod = cluster.pod("default", name).unwrap().to_pod();
            pod.start = Some(Time::from_secs(start));
            cluster.remove_pod("default", name).unwrap();
            cluster.add_pod(pod).unwrap();
        }
        let answer = place(&cluster, &RunningWork::new(), &gang, Consolidation::new(2));
        let preempt = answer.preempt().unwrap();
        let last = steps(preempt)[1];
        assert_eq!((last.0, last.2), (short, true));
        assert_eq!(preempt.move_cost.stopped.work_lost, 10_000);
    }
}

#[test]
fn a_gang_moves_whole_and_stays_in_one_rack() {
    // The gang `g` has to leave rack a; rack b has room for one of it, rack c for both.
    let nodes = [("n1", "a", 4), ("n2", "a", 4), ("n3", "b", 2), ("n4", "c", 2), ("n5", "c", 2)];
    let cluster = cluster(&nodes, &[("g-0", "n1", 2), ("g-1", "n2", 2)]);
    let mut known = RunningWork::new();
    known.set_group(&PodGroup::gang("g", 2).require("rack").evicted_whole()).unwrap();
    let gang = gang(2, 4).require("rack");
    let answer = place(&cluster, &known, &gang, Consolidation::new(1));
    let mut to: Vec<_> = steps(answer.preempt().unwrap()).iter().map(|step| step.1).collect();
    to.sort_unstable();
    assert_eq!(to, ["n4", "n5"]);
    assert_eq!(answer.preempt().unwrap().move_cost.units, 1);
    // Of a group that is known by name alone, each pod goes where it can.
    let answer = place(&cluster, &RunningWork::new(), &gang, Consolidation::new(2));
    assert_eq!(answer.preempt().unwrap().move_cost.units, 2);
}

#[test]
fn a_member_that_moves_alone_stays_in_the_rack_of_the_others() {
    let nodes = [("n1", "a", 4), ("n2", "a", 4), ("n3", "b", 4)];
    let cluster = cluster(&nodes, &[("g-0", "n1", 2), ("g-1", "n2", 2), ("x", "n3", 3)]);
    let mut known = RunningWork::new();
    known.set_group(&PodGroup::gang("g", 1).require("rack")).unwrap();
    let answer = place(&cluster, &known, &gang(1, 4), Consolidation::new(1));
    let steps = steps(answer.preempt().unwrap());
    assert!(steps == [("g-0", "n2", false)] || steps == [("g-1", "n1", false)], "{steps:?}");
}

#[test]
fn a_group_stays_in_the_domain_that_the_group_around_it_requires() {
    // Of the tree `t` all is in rack a: `u-0` goes to z1, though m1 comes first.
    let nodes = [("n1", "a", 4), ("n2", "a", 4), ("z1", "a", 2), ("m1", "b", 2)];
    let pods = [("u-0", "n1", 2), ("u-1", "n2", 2), ("v-0", "n2", 2)];
    let cluster = cluster(&nodes, &pods);
    let mut known = RunningWork::new();
    let tree = PodGroup::basic("t").group(PodGroup::basic("u")).group(PodGroup::basic("v"));
    known.set_group(&tree.clone().require("rack")).unwrap();
    let answer = place(&cluster, &known, &in_rack_a(4), Consolidation::new(1));
    let preempt = answer.preempt().unwrap();
    assert_eq!(steps(preempt), [("u-0", "z1", false)]);
    assert_eq!(preempt.move_claim, Some(MoveClaim::Least));
    // Also where all of `u` moves, and `v` alone says where the tree is.
    let pods = [("u-0", "n1", 2), ("v-0", "n2", 2), ("x", "n2", 2)];
    let cluster = self::cluster(&nodes, &pods);
    let mut known = RunningWork::new();
    let tree = PodGroup::basic("t").group(PodGroup::basic("u").evicted_whole());
    let tree = tree.group(PodGroup::basic("v"));
    known.set_group(&tree.clone().require("rack")).unwrap();
    let answer = place(&cluster, &known, &in_rack_a(4), Consolidation::new(1));
    assert_eq!(steps(answer.preempt().unwrap()), [("u-0", "z1", false)]);
    known.set_group(&tree).unwrap();
    let answer = place(&cluster, &known, &in_rack_a(4), Consolidation::new(1));
    assert_eq!(steps(answer.preempt().unwrap()), [("u-0", "m1", false)]);
}

#[test]
fn what_is_protected_does_not_move() {
    let cluster = cluster(&[("n1", "a", 4), ("n2", "a", 4)], &[("g-0", "n1", 2), ("h-0", "n2", 2)]);
    let mut known = RunningWork::new();
    let set = |known: &mut RunningWork, name: &str, change: &dyn Fn(&mut PodGroup)| {
        let mut group = PodGroup::gang(name, 1).queue(name);
        change(&mut group);
        known.set_group(&group).unwrap();
    };
    let kept = |group: &mut PodGroup| group.non_preemptible = true;
    let fresh = |group: &mut PodGroup| group.min_run_time = Some(Duration::from_secs(91));
    let moved = |known: &RunningWork, settings| {
        let answer = place(&cluster, known, &gang(1, 4).queue("h"), settings);
        answer.preempt().map(|preempt| preempt.moves[0].pod.name.clone())
    };
    set(&mut known, "g", &kept);
    set(&mut known, "h", &|_| {});
    assert_eq!(moved(&known, Consolidation::new(1)).as_deref(), Some("h-0"));
    set(&mut known, "g", &|_| {});
    set(&mut known, "h", &fresh);
    assert_eq!(moved(&known, Consolidation::new(1)).as_deref(), Some("g-0"));
    // The policy of the moves is another than that of victims.
    assert_eq!(moved(&known, Consolidation::new(1).policy(&SameQueue)), None);
    set(&mut known, "h", &|_| {});
    assert_eq!(moved(&known, Consolidation::new(1).policy(&SameQueue)).as_deref(), Some("h-0"));
    assert_eq!(moved(&known, Consolidation::new(0)), None);
    // Budgets count: one that is not broken comes first.
    let budget = |app: &str| DisruptionBudget::new(app, LabelSelector::label("app", app), 0);
    for (guarded, free) in [("g-0", "h-0"), ("h-0", "g-0")] {
        known.set_budget(budget(guarded));
        assert_eq!(moved(&known, Consolidation::new(1)).as_deref(), Some(free));
        known.remove_budget("default", guarded);
    }
    known.set_budget(budget("g-0"));
    known.set_budget(budget("h-0"));
    let answer = place(&cluster, &known, &gang(1, 4), Consolidation::new(1));
    assert_eq!(answer.preempt().unwrap().move_cost.budgets_broken, 1);
    set(&mut known, "g", &kept);
    set(&mut known, "h", &kept);
    let answer = place(&cluster, &known, &gang(1, 4), Consolidation::new(1));
    let Preemption::NoVictimsHelp(help) = answer else { panic!("{answer}") };
    assert_eq!(help.reason, NoVictims::NoMoves);
}

#[test]
fn that_no_moves_help_is_proved_with_what_may_move() {
    let cluster = cluster(&[("n1", "a", 4), ("n2", "a", 4)], &[("p", "n1", 3), ("q", "n2", 3)]);
    let gang = gang(1, 3);
    let answer = place(&cluster, &RunningWork::new(), &gang, Consolidation::new(2));
    let Preemption::NoVictimsHelp(help) = answer else { panic!("{answer}") };
    let (together, certificate) = (help.together.unwrap(), help.certificate.unwrap());
    let mut txn = cluster.txn();
    for name in ["p", "q"] {
        txn.evict("default", name).unwrap();
    }
    // The pods of the tree are still known by name in the transaction, so it is asked for as a gang
    // made beforehand.
    let whole = phalanx::place::Gang::new(*together).unwrap();
    let proof = certificate.verify(&txn, &Framework::default(), &whole).unwrap();
    assert!(matches!(proof, Proof::Counted | Proof::Searched));
}

#[test]
fn devices_are_chosen_anew_and_held_by_one_pod_at_a_time() {
    let framework = Framework::builder().filter(Fit).filter(DeviceFit).build().unwrap();
    let node =
        |name: &str| (0..4).fold(Node::new(name), |n, _| n.device(Device::new("gpu", "H100")));
    let mut cluster = Cluster::new();
    cluster.add_node(node("n1")).unwrap();
    cluster.add_node(node("n2")).unwrap();
    let pod =
        |name: &str, count: u32| Pod::new().name(name).device(DeviceRequest::whole("gpu", count));
    let bound = |name: &str, node: &str, held: &[u32]| {
        let mut pod = pod(name, held.len() as u32).on(node);
        pod.device_indexes = vec![held.to_vec()];
        pod
    };
    cluster.add_pod(bound("p", "n1", &[1, 3])).unwrap();
    cluster.add_pod(bound("q", "n2", &[0])).unwrap();
    let gang = PodGroup::gang("new", 1).pods(1, pod("", 4));
    for strategy in [Strategy::Search, Strategy::Kubernetes] {
        let request = Request::new(&gang).strategy(strategy);
        let request = PreemptionRequest::new(request).consolidation(Consolidation::new(1));
        let known = RunningWork::new();
        let answer = PreemptingPlanner::new().place(&cluster, &framework, &known, request).unwrap();
        let preempt = answer.preempt().unwrap();
        assert_eq!(preempt.moves.len(), 1);
        assert_eq!((preempt.moves[0].devices.len(), preempt.moves[0].stops), (1, false));
        carry_out(&cluster, &known, &framework, preempt).unwrap();
    }
}

#[test]
fn what_moves_need_not_be_evicted() {
    // Nothing has room for the 5 of `p`, so it goes; `q` moves.
    let nodes = [("n1", "a", 8), ("n2", "b", 4)];
    let cluster = cluster(&nodes, &[("p", "n1", 5), ("q", "n1", 2), ("r", "n2", 1)]);
    let gang = gang(1, 8);
    let answer = place(&cluster, &RunningWork::new(), &gang, Consolidation::new(2));
    assert_eq!(answer.word(), "no-victims-help", "{answer}");
    let answer = place(&cluster, &RunningWork::new(), &gang, Consolidation::new(2).or_evict());
    let preempt = answer.preempt().unwrap();
    let victims: Vec<&str> = preempt.victims.iter().map(|victim| &*victim.name).collect();
    assert_eq!((victims, steps(preempt)), (vec!["default/p"], vec![("q", "n2", false)]));
    assert_eq!((preempt.cost.pods, preempt.move_cost.pods), (1, 1));
    // Where moves alone help, nothing is evicted.
    let small = PodGroup::gang("new", 1).pods(1, Pod::new().request(GPU, 4)).priority(1);
    let answer = place(&cluster, &RunningWork::new(), &small, Consolidation::new(2).or_evict());
    let preempt = answer.preempt().unwrap();
    assert!(preempt.victims.is_empty() && preempt.moves.len() == 1, "{answer}");
}

#[test]
fn a_budget_that_runs_out_claims_nothing() {
    let nodes: Vec<(String, i64)> = (0..40).map(|n| (format!("n{n}"), 8)).collect();
    let mut cluster = Cluster::new();
    for (number, (name, gpus)) in nodes.iter().enumerate() {
        cluster.add_node(Node::new(name).capacity(GPU, *gpus)).unwrap();
        for pod in 0..4 {
            let gpus = if pod == 3 { 1 } else { 2 };
            cluster.add_pod(running((&format!("p{number}x{pod}"), name, gpus))).unwrap();
        }
    }
    let gang = gang(1, 8);
    let asked = |steps| ask(&gang, Consolidation::new(8)).budget(steps);
    let known = RunningWork::new();
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let answer = planner.place(&cluster, &framework, &known, asked(3)).unwrap();
    assert_eq!(answer.word(), "exhausted", "{answer}");
    // The free GPUs are single ones: only single ones can move, and none of them helps.
    let answer = planner.place(&cluster, &framework, &known, asked(20_000)).unwrap();
    assert_eq!(answer.word(), "exhausted", "{answer}");
}

/// A unit on a cordoned node has no other place. That is no proof that nobody else may move.
#[test]
fn a_layout_of_all_that_fails_where_somebody_may_not_return_proves_nothing() {
    let nodes = [("old", "a", 8), ("n1", "a", 8), ("n2", "a", 8), ("n3", "a", 8)];
    let pods = [("u", "old", 8), ("p", "n1", 1), ("q", "n2", 4), ("r", "n3", 4), ("s", "n3", 2)];
    let mut cluster = cluster(&nodes, &pods);
    let cordoned = cluster.node("old").unwrap().to_node().unschedulable();
    cluster.update_node(&cordoned).unwrap();
    let (known, gang) = (RunningWork::new(), gang(1, 8));
    let framework = Framework::builder().filter(Fit).filter(NodeUnschedulable).build().unwrap();
    let mut planner = PreemptingPlanner::new();
    let mut words = Vec::new();
    for steps in [1, 3, 20, 40, 70, 100, 20_000] {
        let asked = ask(&gang, Consolidation::new(4)).budget(steps);
        words.push(planner.place(&cluster, &framework, &known, asked).unwrap().word());
    }
    assert_eq!(words.last(), Some(&"preempt"), "{words:?}");
    assert!(!words.contains(&"no-victims-help"), "{words:?}");
}

#[test]
fn a_domain_is_freed_and_the_room_is_counted() {
    let nodes = [("n1", "a", 8), ("n2", "a", 8), ("n3", "b", 8), ("n4", "b", 8)];
    let pods = [("p", "n1", 2), ("q", "n2", 1), ("r", "n3", 3), ("s", "n4", 3), ("t", "n4", 2)];
    let cluster = cluster(&nodes, &pods);
    let shape = gang(2, 8).require("rack");
    let (known, framework) = (RunningWork::new(), Framework::default());
    let mut planner = PreemptingPlanner::new();
    let freed = planner
        .defragment(&cluster, &framework, &known, ask(&shape, Consolidation::new(4)))
        .unwrap();
    let preempt = freed.answer.preempt().unwrap();
    carry_out(&cluster, &known, &framework, preempt).unwrap();
    assert_eq!((preempt.moves.len(), preempt.move_claim), (2, Some(MoveClaim::Least)));
    assert_eq!(freed.nodes, ["n1", "n2"]);
    assert_eq!((freed.room[0].need, freed.room[0].before, freed.room[0].after), (2, 0, 2));
    // Room that is there already is not won.
    let small = gang(1, 4);
    let freed = planner.defragment(&cluster, &framework, &known, &small).unwrap();
    assert_eq!((freed.answer.word(), freed.room.len()), ("placed", 0));
}

#[test]
fn all_but_one_member_terminating_is_waited_for() {
    let mut cluster = cluster(&[("n1", "a", 4), ("n2", "a", 4)], &[("q", "n2", 2)]);
    let mut going = running(("p", "n1", 4));
    going.deleting = true;
    cluster.add_pod(going).unwrap();
    let answer = place(&cluster, &RunningWork::new(), &gang(1, 4), Consolidation::new(2));
    let preempt = answer.preempt().unwrap();
    assert!(preempt.victims.is_empty() && preempt.moves.is_empty());
    // Two members want both nodes: what terminates is waited for, and the other pod has nowhere.
    let answer = place(&cluster, &RunningWork::new(), &gang(2, 4), Consolidation::new(2));
    assert_eq!(answer.word(), "no-victims-help");
    let answer = place(&cluster, &RunningWork::new(), &gang(2, 3), Consolidation::new(2));
    assert_eq!(answer.word(), "no-victims-help");
}
