//! Scaling down: nodes that can be emptied, by brute force over all places; orders that hold; rules.

use phalanx::autoscale::{Autoscaler, Blocked, ScaleDown, ScaleDownRequest};
use phalanx::model::LabelSelector;
use phalanx::preempt::{DisruptionBudget, KeptBy, RunningWork};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup};

use crate::support::dice::Dice;

const CPU: i64 = 8;

fn cluster(nodes: &[&[i64]]) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (at, pods) in nodes.iter().enumerate() {
        let node =
            Node::new(format!("n{at}")).capacity("cpu", CPU).label("rack", format!("r{}", at / 2));
        cluster.add_node(node).unwrap();
        for (number, cpu) in pods.iter().enumerate() {
            let pod = Pod::new().name(format!("p{at}-{number}")).request("cpu", *cpu);
            cluster.add_pod(pod.on(format!("n{at}"))).unwrap();
        }
    }
    cluster
}

fn down(cluster: &Cluster, running: &RunningWork, request: ScaleDownRequest<'_>) -> ScaleDown {
    Autoscaler::new().scale_down(cluster, &Framework::default(), running, request).unwrap()
}

/// Makes the moves one by one; no node is ever over its capacity, and each node that goes is empty.
fn carry_out(cluster: &Cluster, answer: &ScaleDown) -> Cluster {
    let mut now = cluster.clone();
    for removal in &answer.removals {
        for step in &removal.moves {
            assert!(!step.stops);
            let pod = now.pod(&step.pod.namespace, &step.pod.name).unwrap().to_pod();
            assert_eq!(pod.node.as_deref(), Some(&*step.pod.node));
            now.remove_pod(&step.pod.namespace, &step.pod.name).unwrap();
            now.add_pod(pod.on(&step.to)).unwrap();
            let cpu = now.resource("cpu").unwrap();
            assert!(now.nodes().all(|node| node.free(cpu) >= 0));
        }
        assert_eq!(now.node(&removal.node).unwrap().pods().count(), 0, "{}", removal.node);
        now.remove_node(&removal.node).unwrap();
    }
    now
}

/// Whether pods fit the room that is left, each node by itself.
fn fits(free: &mut [i64], pods: &[i64]) -> bool {
    let Some((first, rest)) = pods.split_first() else { return true };
    (0..free.len()).any(|at| {
        free[at] >= *first && {
            free[at] -= first;
            let found = fits(free, rest);
            free[at] += first;
            found
        }
    })
}

#[test]
fn a_node_can_go_where_its_pods_fit_elsewhere() {
    let (mut gone, mut kept) = (0, 0);
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let nodes: Vec<Vec<i64>> = (0..2 + dice.roll(4))
            .map(|_| {
                let mut left = CPU;
                let mut pods = Vec::new();
                for _ in 0..dice.roll(5) {
                    let cpu = 1 + dice.roll(4) as i64;
                    if cpu <= left {
                        left -= cpu;
                        pods.push(cpu);
                    }
                }
                pods
            })
            .collect();
        let slices: Vec<&[i64]> = nodes.iter().map(|pods| &pods[..]).collect();
        let cluster = cluster(&slices);
        for (at, pods) in nodes.iter().enumerate() {
            let request = ScaleDownRequest::new().candidates([(format!("n{at}"), 5)]);
            let answer = down(&cluster, &RunningWork::new(), request);
            let others = nodes.iter().enumerate().filter(|(other, _)| *other != at);
            let mut free: Vec<i64> =
                others.map(|(_, pods)| CPU - pods.iter().sum::<i64>()).collect();
            let can = fits(&mut free, pods);
            assert_eq!(
                answer.removals.len(),
                usize::from(can),
                "seed {seed}, node {at}: {nodes:?}"
            );
            assert_eq!(answer.price, 5 * u64::from(can));
            carry_out(&cluster, &answer);
            if !can {
                assert!(matches!(answer.kept[0].reason, Blocked::NoRoom { .. }));
            }
            gone += usize::from(can);
            kept += usize::from(!can);
        }
        let all = down(&cluster, &RunningWork::new(), ScaleDownRequest::new());
        let left = carry_out(&cluster, &all);
        assert_eq!(all.removals.len() + all.kept.len(), nodes.len());
        assert_eq!(left.pod_count(), cluster.pod_count());
    }
    assert!(gone > 300 && kept > 150, "{gone} can go, {kept} cannot");
}

#[test]
fn the_node_that_saves_most_for_its_pods_goes_first() {
    let cluster = cluster(&[&[2], &[2, 2], &[]]);
    let request = ScaleDownRequest::new().candidates([("n0", 1), ("n1", 10), ("n2", 1)]);
    let answer = down(&cluster, &RunningWork::new(), request);
    let order: Vec<&str> = answer.removals.iter().map(|removal| &*removal.node).collect();
    assert_eq!(order, ["n2", "n1"]);
    assert_eq!(answer.price, 11);
    assert!(
        matches!(&answer.kept[0].reason, Blocked::Receives { pod } if pod.as_str() == "default/p1-0" || pod.as_str() == "default/p1-1")
    );
}

fn gang(cluster: &mut Cluster, running: &mut RunningWork, group: &PodGroup, nodes: &[&str]) {
    running.set_group(group).unwrap();
    for (at, node) in nodes.iter().enumerate() {
        let pod = Pod::new().name(format!("{}-{at}", group.name)).in_group(&group.name);
        let pod = pod.label("app", "g");
        cluster.add_pod(pod.request("cpu", 3).on(*node)).unwrap();
    }
}

#[test]
fn a_gang_moves_whole_and_into_one_domain() {
    let mut cluster = cluster(&[&[], &[], &[], &[]]);
    let mut running = RunningWork::new();
    let group = PodGroup::gang("g", 2).require("rack").evicted_whole();
    gang(&mut cluster, &mut running, &group, &["n0", "n1"]);
    let request = ScaleDownRequest::new().candidates([("n0", 1)]);
    let answer = down(&cluster, &running, request);
    // Either both pods on n1, or both in the other rack.
    let moves = &answer.removals[0].moves;
    let after = carry_out(&cluster, &answer);
    let racks: Vec<_> =
        after.pods().map(|pod| pod.node().unwrap().label("rack").unwrap().to_string()).collect();
    assert!(racks.windows(2).all(|pair| pair[0] == pair[1]) && !moves.is_empty());
    // With the other rack full and no room beside its sibling there is no place for it.
    for (name, node, cpu) in [("f1", "n1", 3), ("f2", "n2", 7), ("f3", "n3", 7)] {
        cluster.add_pod(Pod::new().name(name).request("cpu", cpu).on(node)).unwrap();
    }
    let request = ScaleDownRequest::new().candidates([("n0", 1)]);
    let answer = down(&cluster, &running, request);
    let pod = "default/g-0".parse().unwrap();
    assert_eq!(answer.kept[0].reason, Blocked::NoRoom { pod });
}

#[test]
fn what_may_not_be_disrupted_keeps_its_node() {
    let mut cluster = cluster(&[&[], &[], &[]]);
    let mut running = RunningWork::new();
    let mut group = PodGroup::gang("g", 1).evicted_whole();
    group.non_preemptible = true;
    gang(&mut cluster, &mut running, &group, &["n0"]);
    let reason = |cluster: &Cluster, running: &RunningWork| {
        let request = ScaleDownRequest::new().candidates([("n0", 1)]);
        down(cluster, running, request).kept.pop().map(|kept| kept.reason)
    };
    let pod: phalanx::ObjectName = "default/g-0".parse().unwrap();
    let kept = Blocked::Unit { pod: pod.clone(), by: KeptBy::NonPreemptible };
    assert_eq!(reason(&cluster, &running), Some(kept));
    group.non_preemptible = false;
    running.set_group(&group).unwrap();
    assert_eq!(reason(&cluster, &running), None);
    running.set_budget(DisruptionBudget::new("b", LabelSelector::label("app", "g"), 0));
    let by = KeptBy::Budget { budget: "default/b".parse().unwrap(), allowed: 0 };
    assert_eq!(reason(&cluster, &running), Some(Blocked::Unit { pod, by }));
}

#[test]
fn pods_that_go_with_their_node_need_no_other() {
    let cluster = cluster(&[&[8], &[8]]);
    let daemon = |pod: phalanx::state::PodView<'_>| pod.name() == "p0-0";
    let request = ScaleDownRequest::new().goes_with_node(&daemon);
    let answer = down(&cluster, &RunningWork::new(), request);
    assert_eq!((answer.removals.len(), &*answer.removals[0].node), (1, "n0"));
    assert!(answer.removals[0].moves.is_empty());
}
