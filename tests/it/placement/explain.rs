//! Counterfactuals hold: with the change the gang is placed, with one step less it is not.

use phalanx::model::GroupPolicy;
use phalanx::place::Remedy;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, explain, place_gang};

const GPU: &str = "nvidia.com/gpu";

/// Two zones of three racks of up to four nodes; half of the GPUs hold pods like the gang's.
fn cluster(seed: u64, each: i64) -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    let mut bits = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |end: u64| {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        bits % end
    };
    for rack in 0..6 {
        for number in 0..=below(4) {
            let name = format!("r{rack}n{number}");
            let size = 4 + below(5) as i64;
            let node = Node::new(&*name)
                .capacity(GPU, size)
                .label("zone", format!("z{}", rack / 3))
                .label("rack", format!("r{rack}"));
            cluster.add_node(node).unwrap();
            for taken in 0..below((size / each) as u64 + 1) {
                let pod = Pod::new().request(GPU, each).name(format!("{name}-{taken}"));
                cluster.add_pod(pod.on(name.clone())).unwrap();
            }
        }
    }
    cluster
}

fn fits(cluster: &Cluster, group: &PodGroup) -> bool {
    place_gang(cluster, &Framework::default(), group).unwrap().is_placed()
}

#[test]
fn every_remedy_does_and_one_step_less_does_not() {
    let mut seen = [0; 4];
    for seed in 1..60 {
        let each = 1 + (seed % 3) as i64;
        let cluster = cluster(seed, each);
        let pods = 4 + (seed % 11) as usize;
        let group = PodGroup::gang("g", pods as u32)
            .pods(pods, Pod::new().request(GPU, each))
            .require("rack");
        let template = Node::new("new").capacity(GPU, 8);
        let why = explain(&cluster, &Framework::default(), &group, Some(&template)).unwrap();
        assert_eq!(why.outcome.is_placed(), fits(&cluster, &group));
        assert_eq!(why.outcome.is_placed(), why.remedies.is_empty(), "seed {seed}\n{why}");
        for remedy in &why.remedies {
            let mut changed = group.clone();
            match remedy {
                Remedy::LevelUp { to } => {
                    seen[0] += 1;
                    changed.topology.require.clone_from(to);
                    assert!(fits(&cluster, &changed));
                    if to.is_none() {
                        changed.topology.require = Some("zone".into());
                        assert!(!fits(&cluster, &changed));
                    }
                }
                Remedy::LowerMinimum { to, .. } => {
                    seen[1] += 1;
                    changed.policy = GroupPolicy::Gang { min_count: *to };
                    assert!(fits(&cluster, &changed));
                    changed.policy = GroupPolicy::Gang { min_count: to + 1 };
                    assert!(!fits(&cluster, &changed));
                }
                Remedy::Free { value, members, .. } => {
                    let bound: Vec<String> = cluster
                        .pods()
                        .filter(|pod| pod.node().unwrap().has_label("rack", value))
                        .map(|pod| pod.name().to_string())
                        .collect();
                    if bound.len() < *members as usize {
                        continue;
                    }
                    seen[2] += 1;
                    let mut freed = cluster.clone();
                    for (count, name) in bound.iter().take(*members as usize).enumerate() {
                        assert!(!fits(&freed, &group), "seed {seed}: {count} do already");
                        freed.remove_pod("default", name).unwrap();
                    }
                    assert!(fits(&freed, &group));
                }
                Remedy::AddNodes { count, template, .. } => {
                    seen[3] += 1;
                    let mut txn = cluster.txn();
                    txn.add_nodes(template, count - 1).unwrap();
                    assert!(!fits(&txn, &group));
                    txn.add_nodes(template, 1).unwrap();
                    assert!(fits(&txn, &group));
                }
                other => panic!("{other}"),
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
}

#[test]
fn an_explanation_names_filters_domains_and_what_blocks() {
    let mut cluster = cluster(3, 1);
    cluster.add_node(Node::new("cordoned").capacity(GPU, 8).unschedulable()).unwrap();
    let small = PodGroup::gang("small", 1).pods(1, Pod::new().request(GPU, 1));
    let large = PodGroup::gang("large", 2).pods(2, Pod::new().request(GPU, 9)).require("rack");
    let group = PodGroup::gang("w", 2).group(small).group(large);
    let why = explain(&cluster, &Framework::default(), &group, None).unwrap();
    assert_eq!(why.blocked.as_deref(), Some("large-0"));
    let text = why.to_string();
    for part in [
        "NodeResourcesFit rejects",
        "NodeUnschedulable rejects 1",
        "rack (6 domains)",
        "blocked by",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
