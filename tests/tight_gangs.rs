//! Mixed gangs that are known to fit: every one of them is placed.
//!
//! The suites are the project's own data: `tight-gangs` cuts the free room of a rack into pods,
//! `planted-gangs` plants larger gangs in one of many racks. Debug builds take a sample.

use std::io::Read;
use std::time::{Duration, Instant};

use phalanx::model::{Node, Pod, PodGroup};
use phalanx::{Cluster, Framework, Outcome, Planner};
use serde_json::Value;

struct Case {
    name: String,
    cluster: Cluster,
    gang: PodGroup,
}

fn cases(data: &[u8], every: usize) -> impl Iterator<Item = Case> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(data).read_to_string(&mut text).unwrap();
    let lines: Vec<String> = text.lines().step_by(every).map(String::from).collect();
    lines.into_iter().map(|line| {
        let case: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(case["expect"]["feasible"], true);
        let scenario = &case["scenario"];
        let mut cluster = Cluster::new();
        for (rank, object) in scenario["nodes"].as_array().unwrap().iter().enumerate() {
            cluster.add_node(node(object).tie_rank(rank as i64)).unwrap();
        }
        for object in scenario["bound"].as_array().unwrap() {
            let node = object["spec"]["nodeName"].as_str().unwrap();
            cluster.add_pod(pod(object).on(node)).unwrap();
        }
        let gang = &scenario["gang"];
        let mut group = PodGroup::gang("gang", gang["minCount"].as_u64().unwrap() as u32);
        for object in scenario["pending"].as_array().unwrap() {
            group = group.pod(pod(object));
        }
        if let Some(key) = gang["topologyKey"].as_str() {
            group = group.require(key);
        }
        Case { name: case["name"].as_str().unwrap().into(), cluster, gang: group }
    })
}

fn node(object: &Value) -> Node {
    let mut node = Node::new(object["metadata"]["name"].as_str().unwrap());
    for (key, value) in object["metadata"]["labels"].as_object().unwrap() {
        node = node.label(key, value.as_str().unwrap());
    }
    for (resource, amount) in object["status"]["allocatable"].as_object().unwrap() {
        node = node.capacity(resource, amount.as_str().unwrap());
    }
    node
}

fn pod(object: &Value) -> Pod {
    let mut pod = Pod::new().name(object["metadata"]["name"].as_str().unwrap());
    let containers = object["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    for (resource, amount) in containers[0]["resources"]["requests"].as_object().unwrap() {
        pod = pod.request(resource, amount.as_str().unwrap());
    }
    pod
}

/// Places every case with a fresh planner and commits the plan.
fn place_all(data: &[u8], every: usize) {
    let framework = Framework::default();
    let (mut times, mut unplaced): (Vec<(Duration, String)>, Vec<String>) = Default::default();
    for mut case in cases(data, every) {
        let start = Instant::now();
        let outcome = Planner::new().place(&case.cluster, &framework, &case.gang).unwrap();
        times.push((start.elapsed(), case.name.clone()));
        match outcome {
            Outcome::Placed(plan) => {
                assert_eq!(plan.len(), case.gang.pods.len(), "{}", case.name);
                let racks: std::collections::BTreeSet<_> = plan
                    .assignments()
                    .map(|a| case.cluster.node(a.node()).unwrap().label("rack").unwrap())
                    .collect();
                assert_eq!(racks.len(), 1, "{}", case.name);
                let framework = Framework::default();
                let bound = case.cluster.pod_count();
                // Every filter again, against a cluster that has moved on.
                case.cluster.add_node(Node::new("moved")).unwrap();
                case.cluster.commit(&framework, &plan).unwrap();
                assert_eq!(case.cluster.pod_count(), bound + plan.len());
            }
            other => unplaced.push(format!("{}: {}", case.name, other.word())),
        }
    }
    times.sort();
    println!(
        "placed {} of {}, p50 {:?}, max {:?}",
        times.len() - unplaced.len(),
        times.len(),
        times[times.len() / 2].0,
        times[times.len() - 1],
    );
    assert_eq!(unplaced, Vec::<String>::new());
}

const EVERY: usize = if cfg!(debug_assertions) { 10 } else { 1 };

#[test]
fn tight_gangs_are_placed() {
    place_all(include_bytes!("data/tight-gangs.jsonl.gz"), EVERY);
}

#[test]
fn planted_gangs_are_placed() {
    place_all(include_bytes!("data/planted-gangs.jsonl.gz"), EVERY);
}
