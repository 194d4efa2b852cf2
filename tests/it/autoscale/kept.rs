//! One autoscaler kept over its life: nodes bought, ended pods, nodes taken away. A fresh one gives the
//! same answers.

use phalanx::autoscale::{Autoscaler, Blocked, NodeTemplate, ScaleDownRequest, ScaleUpRequest};
use phalanx::preempt::RunningWork;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request};

use crate::support::budget;
use crate::support::dice::Dice;

fn cpu(name: &str) -> Node {
    Node::new(name).capacity("cpu", 4)
}

fn life(seed: u64) -> usize {
    let mut dice = Dice(seed);
    let (framework, running) = (Framework::default(), RunningWork::new());
    let mut cluster = Cluster::new();
    let mut kept = Autoscaler::new();
    for number in 0..=dice.roll(3) {
        cluster.add_node(cpu(&format!("old{number}"))).unwrap();
    }
    let salt = dice.roll(2);
    let mut removed = 0;
    for round in 0..4 {
        let pods = 1 + dice.roll(4) as usize;
        let pod = Pod::new().request("cpu", 1 + dice.roll(4) as i64);
        let gang = PodGroup::gang(format!("g{round}"), pods as u32).pods(pods, pod);
        let request = || {
            let request = ScaleUpRequest::new([Request::new(&gang).salt(salt)]);
            request.template(NodeTemplate::new(cpu("t"), 10).limit(6))
        };
        let up = kept.scale_up(&cluster, &framework, request()).unwrap();
        let fresh = Autoscaler::new().scale_up(&cluster, &framework, request()).unwrap();
        let bought = |start: &phalanx::autoscale::ScaleUp| start.nodes().count();
        assert_eq!(up.start().map(bought), fresh.start().map(bought), "seed {seed}");
        let Some(start) = up.start() else { continue };
        for node in start.nodes() {
            cluster.add_node(node.clone()).unwrap();
        }
        for plan in &start.plans {
            cluster.commit(&framework, plan).unwrap();
        }
        let names: Vec<String> = cluster.pods().map(|pod| pod.name().to_owned()).collect();
        for name in names.iter().filter(|_| dice.one_in(2)) {
            cluster.remove_pod("default", name).unwrap();
        }
        let down = |of: &mut Autoscaler| {
            of.scale_down(&cluster, &framework, &running, ScaleDownRequest::new())
        };
        let answer = down(&mut kept).unwrap();
        assert_eq!(answer, down(&mut Autoscaler::new()).unwrap(), "seed {seed}");
        for removal in &answer.removals {
            for step in &removal.moves {
                let pod = cluster.pod("default", &step.pod.name).unwrap().to_pod();
                cluster.remove_pod("default", &step.pod.name).unwrap();
                cluster.add_pod(pod.on(&step.to)).unwrap();
            }
            cluster.remove_node(&removal.node).unwrap();
            removed += 1;
        }
    }
    removed
}

#[test]
fn an_autoscaler_that_is_kept_answers_as_a_fresh_one() {
    let removed: usize = (0..budget::part(300)).map(life).sum();
    assert!(removed > budget::part(200) as usize, "{removed}");
}

/// A gang moves whole when one of its nodes goes, and a member may stay where it is. Its node has
/// received nothing.
#[test]
fn a_node_with_a_member_that_stayed_says_that_the_unit_has_moved() {
    let mut seen = 0;
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let mut cluster = Cluster::new();
        let mut running = RunningWork::new();
        let mut free = [4; 5];
        for number in 0..free.len() {
            cluster.add_node(cpu(&format!("n{number}"))).unwrap();
        }
        for group in ["a", "b", "c", "d"] {
            running.set_group(&PodGroup::gang(group, 2).evicted_whole()).unwrap();
            let own = 1 + dice.roll(3) as i64;
            for member in 0..2 {
                let node = dice.roll(5) as usize;
                if free[node] < own {
                    continue;
                }
                free[node] -= own;
                let pod = Pod::new().name(format!("{group}-{member}")).request("cpu", own);
                cluster.add_pod(pod.in_group(group).on(format!("n{node}"))).unwrap();
            }
        }
        let request = ScaleDownRequest::new();
        let answer = Autoscaler::new()
            .scale_down(&cluster, &Framework::default(), &running, request)
            .unwrap();
        let moves = || answer.removals.iter().flat_map(|removal| &removal.moves);
        for kept in &answer.kept {
            let named = |pod: &phalanx::ObjectName| {
                moves().any(|step| {
                    step.to == kept.node && *pod.as_str() == format!("default/{}", step.pod.name)
                })
            };
            match &kept.reason {
                Blocked::Receives { pod } => assert!(named(pod), "seed {seed}: {answer:?}"),
                Blocked::Moved { pod } => {
                    assert!(moves().any(|step| step.to != kept.node), "seed {seed}: {answer:?}");
                    assert!(
                        cluster
                            .pod("default", pod.as_str().trim_start_matches("default/"))
                            .is_some()
                    );
                    seen += 1;
                }
                _ => {}
            }
        }
    }
    assert!(seen > 5, "{seen}");
}
