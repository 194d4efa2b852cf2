//! Mixed gangs that are known to fit: every one of them is placed.
//!
//! The suites are the project's own data: `tight-gangs` cuts the free room of a rack into pods,
//! `planted-gangs` plants larger gangs in one of many racks. A soak takes all of them, other runs a sample.

use std::io::Read;
use std::time::{Duration, Instant};

use phalanx::{Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup};
use serde_json::Value;

use crate::support::budget;
use crate::support::dice::Dice;

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
                phalanx::reference::is_sound(&plan, &case.gang, &case.cluster, &framework).unwrap();
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

/// One case of so many is placed.
fn every() -> usize {
    if budget::is_soak() { 1 } else { 10 }
}

#[test]
fn tight_gangs_are_placed() {
    place_all(include_bytes!("../../data/tight-gangs.jsonl.gz"), every());
}

#[test]
fn planted_gangs_are_placed() {
    place_all(include_bytes!("../../data/planted-gangs.jsonl.gz"), every());
}

const GPU: &str = "nvidia.com/gpu";

/// A gang of up to four roles planted in one of many partly filled racks, so that it takes
/// `percent` of the rack's free GPUs or a little more.
fn planted(seed: u64, nodes: usize, percent: u64) -> Case {
    let mut random = Dice(seed);
    let per_rack = if random.roll(2) == 0 { 8 } else { 16 };
    let mut cluster = Cluster::new();
    let mut free: Vec<(i64, i64)> = Vec::new();
    for number in 0..nodes {
        let name = format!("n{number:04}");
        let node = Node::new(&*name)
            .capacity("cpu", 96)
            .capacity("memory", "1024Gi")
            .capacity("pods", 110)
            .capacity(GPU, 8)
            .label("rack", format!("r{:03}", number / per_rack));
        cluster.add_node(node).unwrap();
        let (mut gpus, mut cpus) = (8, 96);
        for other in 0..random.roll(4) {
            let (gpu, cpu) = ([1, 1, 2, 4][random.roll(4) as usize], 4 << random.roll(4));
            if gpu <= gpus && cpu <= cpus {
                let pod = Pod::new().name(format!("b{number}-{other}")).request(GPU, gpu);
                let pod = pod.request("cpu", cpu).request("memory", "1Gi").on(&*name);
                cluster.add_pod(pod).unwrap();
                (gpus, cpus) = (gpus - gpu, cpus - cpu);
            }
        }
        free.push((gpus, cpus));
    }
    let rack = random.roll((nodes / per_rack) as u64) as usize;
    let mut room: Vec<(i64, i64)> = free[rack * per_rack..(rack + 1) * per_rack].to_vec();
    let total: i64 = room.iter().map(|(gpus, _)| gpus).sum();
    let roles: Vec<(i64, i64)> =
        (0..2 + random.roll(3)).map(|_| (1 + random.roll(5) as i64, 1 << random.roll(5))).collect();
    let mut pods: Vec<(i64, i64)> = Vec::new();
    let mut taken = 0;
    for _ in 0..4_000 {
        if taken * 100 >= total * percent as i64 || pods.len() == 80 {
            break;
        }
        let (gpu, cpu) = roles[random.roll(roles.len() as u64) as usize];
        let node = random.roll(per_rack as u64) as usize;
        if room[node].0 >= gpu && room[node].1 >= cpu {
            room[node] = (room[node].0 - gpu, room[node].1 - cpu);
            pods.push((gpu, cpu));
            taken += gpu;
        }
    }
    if pods.is_empty() {
        return planted(seed + 1_000_003, nodes, percent);
    }
    for place in (1..pods.len()).rev() {
        pods.swap(place, random.roll(place as u64 + 1) as usize);
    }
    let mut gang = PodGroup::gang("gang", pods.len() as u32).require("rack");
    for (number, (gpu, cpu)) in pods.into_iter().enumerate() {
        let pod = Pod::new().name(format!("p{number}")).request(GPU, gpu).request("cpu", cpu);
        gang = gang.pod(pod.request("memory", "1Gi"));
    }
    Case { name: format!("planted-{nodes}-{percent}-{seed}"), cluster, gang }
}

/// A gang cut at random out of the free GPUs of one rack's nodes, all of them, less some pods. Most
/// pods differ.
fn tight(seed: u64, nodes: usize, percent_dropped: u64) -> Case {
    let mut random = Dice(seed);
    let per_rack = [2, 3, 4, 6, 8, 16][random.roll(6) as usize].min(nodes);
    let mut cluster = Cluster::new();
    let mut free: Vec<[i64; 3]> = Vec::new();
    for number in 0..nodes {
        let name = format!("n{number:04}");
        let size = [[16, 32, 64][random.roll(3) as usize], 256, [4, 8][random.roll(2) as usize]];
        let node = Node::new(&*name)
            .capacity("cpu", size[0])
            .capacity("memory", format!("{}Gi", size[1]))
            .capacity("pods", 110)
            .capacity(GPU, size[2])
            .label("rack", format!("r{:03}", number / per_rack));
        cluster.add_node(node).unwrap();
        let mut room = size;
        if random.roll(3) == 0 {
            let taken = [0, 1, 2].map(|at| random.roll(size[at] as u64 / 2 + 1) as i64);
            let pod = Pod::new().name(format!("b{number}")).request("cpu", taken[0]);
            let pod = pod.request("memory", format!("{}Gi", taken[1])).request(GPU, taken[2]);
            cluster.add_pod(pod.on(&*name)).unwrap();
            room = [0, 1, 2].map(|at| size[at] - taken[at]);
        }
        free.push(room);
    }
    let rack = random.roll((nodes / per_rack) as u64) as usize;
    let mut pods: Vec<[i64; 3]> = Vec::new();
    for mut left in free[rack * per_rack..(rack + 1) * per_rack].iter().copied() {
        while left[0] > 0 && left[2] > 0 {
            let cpu = [1, 2, 4, 8, 12, 20, 32][random.roll(7) as usize].min(left[0]);
            let gpu = 1 + random.roll(left[2] as u64) as i64;
            pods.push([cpu, 1, gpu]);
            left = [left[0] - cpu, left[1] - 1, left[2] - gpu];
        }
    }
    for place in (1..pods.len()).rev() {
        pods.swap(place, random.roll(place as u64 + 1) as usize);
    }
    let keep = pods.len() - pods.len() * percent_dropped as usize / 100;
    pods.truncate(keep.max(1));
    let mut gang = PodGroup::gang("gang", pods.len() as u32).require("rack");
    for (number, [cpu, memory, gpu]) in pods.into_iter().enumerate() {
        let pod = Pod::new().name(format!("p{number}")).request("cpu", cpu).request(GPU, gpu);
        gang = gang.pod(pod.request("memory", format!("{memory}Gi")));
    }
    Case { name: format!("tight-{nodes}-{percent_dropped}-{seed}"), cluster, gang }
}

type Make = fn(u64, usize, u64) -> Case;

fn others_are_placed(make: Make, kinds: &[(usize, u64)]) {
    let framework = Framework::default();
    let seeds = 0..budget::of(6, 150);
    let (mut times, mut unplaced) = (Vec::new(), Vec::new());
    for seed in seeds {
        for &(nodes, percent) in kinds {
            let case = make(seed * 31 + nodes as u64 + percent, nodes, percent);
            let start = Instant::now();
            let outcome = Planner::new().place(&case.cluster, &framework, &case.gang).unwrap();
            times.push((start.elapsed(), case.name.clone()));
            assert_ne!(outcome.word(), "infeasible", "{}", case.name);
            match outcome.plan() {
                Some(plan) => {
                    let sound =
                        phalanx::reference::is_sound(plan, &case.gang, &case.cluster, &framework);
                    assert_eq!(sound, Ok(()), "{}", case.name);
                }
                None => unplaced.push(case.name),
            }
        }
    }
    times.sort();
    println!(
        "placed {} of {}, p50 {:?}, p99 {:?}, max {:?}, not placed: {unplaced:?}",
        times.len() - unplaced.len(),
        times.len(),
        times[times.len() / 2].0,
        times[times.len() * 99 / 100].0,
        times[times.len() - 1],
    );
    assert!(unplaced.len() * 100 <= times.len());
}

#[test]
fn gangs_planted_with_other_seeds_are_placed() {
    others_are_placed(planted, &[(96, 70), (400, 95), (1_008, 100)]);
}

#[test]
fn gangs_cut_with_other_seeds_are_placed() {
    others_are_placed(tight, &[(4, 0), (12, 10), (48, 0), (48, 25), (240, 10), (1_008, 0)]);
}
