//! Properties of preemption on random clusters.

use phalanx::preempt::RunningWork;
use phalanx::preempt::kubernetes::{
    PreemptionSnapshot, preempt_group, preempt_pod, schedule_group, schedule_pod,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Time};

use crate::support::dice::Dice;

const NOW: Time = Time::from_secs(1_000);

/// Nodes and pods; the order in which pods are added is `turned` or not.
fn cluster(dice: &mut Dice, turned: bool) -> Cluster {
    let mut cluster = Cluster::new();
    let nodes = 2 + dice.roll(5);
    for number in 0..nodes {
        let node = Node::new(format!("n{number}")).capacity("cpu", 4 + dice.roll(5) as i64);
        cluster.add_node(node.capacity("pods", 12)).unwrap();
    }
    let mut pods = Vec::new();
    for number in 0..nodes * 4 {
        let pod = Pod::new().name(format!("b{number}")).priority(dice.roll(4) as i32);
        let pod = pod.request("cpu", 1 + dice.roll(3) as i64).since(Time::from_secs(dice.roll(3)));
        pods.push(pod.on(format!("n{}", dice.roll(nodes))));
    }
    if turned {
        pods.reverse();
    }
    for pod in pods {
        cluster.add_pod(pod).unwrap();
    }
    cluster
}

#[test]
fn victims_make_room_and_none_of_them_could_stay() {
    let (framework, running) = (Framework::kubernetes(), RunningWork::new());
    let mut helped = 0;
    for seed in 0..400 {
        let cluster = cluster(&mut Dice(seed), false);
        let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
        let pod = Pod::new().name("p").priority(3).request("cpu", 1 + (seed % 4) as i64);
        let attempt = schedule_pod(&snapshot, &pod).unwrap();
        if !attempt.feasible().is_empty() {
            continue;
        }
        for candidate in preempt_pod(&snapshot, &pod, &attempt).unwrap().candidates() {
            helped += 1;
            let fits = |spared: Option<&str>| {
                let mut after = snapshot.clone();
                for victim in candidate.victims() {
                    if spared != Some(&*victim.pod.name) {
                        after.remove("default", &victim.pod.name).unwrap();
                    }
                }
                let attempt = schedule_pod(&after, &pod).unwrap();
                attempt.feasible().iter().any(|node| node == candidate.node())
            };
            assert!(fits(None), "seed {seed}");
            // Requests only: what did not fit when it was tried does not fit in the end.
            for victim in candidate.victims() {
                assert!(!fits(Some(&victim.pod.name)), "seed {seed}: {}", &victim.pod.name);
            }
            let priorities = candidate.victims().iter().map(|victim| {
                snapshot.cluster().pod("default", &victim.pod.name).unwrap().priority()
            });
            assert!(priorities.is_sorted_by(|a, b| a >= b), "seed {seed}");
        }
    }
    assert!(helped > 200, "{helped}");
}

#[test]
fn the_order_in_which_pods_came_changes_nothing() {
    let (framework, running) = (Framework::kubernetes(), RunningWork::new());
    for seed in 0..150 {
        let answers = [false, true].map(|turned| {
            let cluster = cluster(&mut Dice(seed), turned);
            let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
            let pod = Pod::new().name("p").priority(2).request("cpu", 3);
            let attempt = schedule_pod(&snapshot, &pod).unwrap();
            let gang = PodGroup::gang("g", 3).priority(3).pods(4, pod.clone());
            let group = preempt_group(&snapshot, &gang).unwrap();
            (preempt_pod(&snapshot, &pod, &attempt).unwrap(), group)
        });
        assert_eq!(answers[0], answers[1], "seed {seed}");
    }
}

#[test]
fn a_group_fits_once_its_victims_are_gone() {
    let (framework, running) = (Framework::kubernetes(), RunningWork::new());
    let mut helped = 0;
    for seed in 0..150 {
        let cluster = cluster(&mut Dice(seed), false);
        let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
        let size = 2 + (seed % 4) as u32;
        let member = Pod::new().request("cpu", 1 + (seed % 3) as i64);
        let gang = PodGroup::gang("g", size).priority(3).pods(size as usize, member);
        let before = schedule_group(&snapshot, &gang).unwrap();
        let answer = preempt_group(&snapshot, &gang).unwrap();
        if before.is_feasible() {
            assert!(answer.victims().is_empty(), "seed {seed}: all could stay");
            continue;
        }
        if answer.refusal().is_some() {
            continue;
        }
        helped += 1;
        let mut after = snapshot.clone();
        for victim in answer.victims() {
            after.remove("default", &victim.pod.name).unwrap();
        }
        assert!(schedule_group(&after, &gang).unwrap().is_feasible(), "seed {seed}");
    }
    assert!(helped > 30, "{helped}");
}
