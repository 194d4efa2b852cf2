//! The published experiment on lists of our own, against plain code that reads the tables alone.
//!
//! The arithmetic is float64 in the published order, so that a score next to a whole number falls on
//! the side it fell on there.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::common::dice::Dice;
use crate::run::{Policy, run};
use crate::trace::{Source, Trace};

const MODELS: [&str; 3] = ["A", "B", "C"];
/// Lists of models, of which some mean the same.
const SPECS: [&str; 6] = ["", "", "A", "A|B", "A|B|B", "B|A"];

#[derive(Clone)]
struct PlainNode {
    cpu: i64,
    gpus: Vec<i64>,
    model: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PlainPod {
    cpu: i64,
    milli: i64,
    count: i64,
    spec: &'static str,
}

impl PlainPod {
    fn allows(&self, model: &str) -> bool {
        self.spec.is_empty() || self.spec.split('|').any(|allowed| allowed == model)
    }

    /// The node with the pod on it; for a share of one device, on one of those open.
    fn on(&self, node: &PlainNode, device: Option<usize>) -> PlainNode {
        let mut after = node.clone();
        after.cpu -= self.cpu;
        if let Some(device) = device {
            after.gpus[device] -= self.milli;
            return after;
        }
        let mut order: Vec<usize> =
            (0..node.gpus.len()).filter(|at| node.gpus[*at] >= self.milli).collect();
        order.sort_by_key(|at| (node.gpus[*at], *at));
        for at in order.into_iter().take(self.count as usize) {
            after.gpus[at] -= self.milli;
        }
        after
    }

    fn fits(&self, node: &PlainNode) -> bool {
        let enough = node.gpus.iter().filter(|left| **left >= self.milli).count() as i64;
        node.cpu >= self.cpu && (self.count == 0 || enough >= self.count && self.allows(node.model))
    }
}

/// The most frequent sorts, with the published chances.
fn typical(pods: &[PlainPod]) -> Vec<(PlainPod, f64)> {
    let mut counts: BTreeMap<PlainPod, u64> = BTreeMap::new();
    for pod in pods {
        *counts.entry(*pod).or_default() += 1;
    }
    let mut sorts: Vec<(u64, PlainPod)> = counts.iter().map(|(pod, n)| (*n, *pod)).collect();
    sorts.sort_unstable();
    sorts.reverse();
    let all = pods.len() as f64;
    let mut kept = 0;
    let mut typical = Vec::new();
    for (count, pod) in sorts {
        kept += count;
        typical.push((pod, count as f64 / all));
        if kept as f64 >= 0.95 * all {
            break;
        }
    }
    typical.into_iter().map(|(pod, share)| (pod, share / (kept as f64 / all))).collect()
}

fn fragmentation(node: &PlainNode, typical: &[(PlainPod, f64)]) -> f64 {
    let left = node.gpus.iter().sum::<i64>() as f64;
    let [mut both, mut devices, mut cpu, mut none, mut none_cpu, mut model] = [0.0; 6];
    for (pod, chance) in typical {
        let has_cpu = node.cpu >= pod.cpu;
        let enough = node.gpus.iter().filter(|left| **left >= pod.milli).count() as i64;
        let unusable = node.gpus.iter().filter(|left| **left < pod.milli).sum::<i64>() as f64;
        match (pod.count > 0, pod.allows(node.model), enough >= pod.count, has_cpu) {
            (false, _, _, true) => none += chance * left,
            (false, _, _, false) => none_cpu += chance * left,
            (_, false, ..) => model += chance * left,
            (_, _, true, true) => devices += chance * unusable,
            (_, _, true, false) => cpu += chance * left,
            (_, _, false, true) => devices += chance * left,
            (_, _, false, false) => both += chance * left,
        }
    }
    both + devices + cpu + none + none_cpu + model
}

fn score(before: f64, after: f64) -> i64 {
    (1.0 / (1.0 + (-((before - after) / 1000.0)).exp()) * 100.0) as i64
}

/// A list of nodes and pods as files, with the order of both.
struct Experiment {
    nodes: Vec<PlainNode>,
    pods: Vec<PlainPod>,
    arrivals: Vec<usize>,
}

impl Experiment {
    fn new(seed: u64) -> Experiment {
        let mut dice = Dice(seed);
        let nodes = (0..24).map(|_| PlainNode {
            cpu: [8_000, 32_000, 64_000, 96_000][dice.below(4) as usize],
            gpus: vec![1_000; [1, 2, 4, 8][dice.below(4) as usize]],
            model: MODELS[dice.below(3) as usize],
        });
        let nodes: Vec<PlainNode> = nodes.collect();
        let sorts: Vec<PlainPod> = (0..30)
            .map(|_| {
                let count = [0, 0, 1, 1, 1, 1, 1, 2, 4][dice.below(9) as usize];
                let milli = match count {
                    0 => 0,
                    1 if dice.below(3) > 0 => 10 * (1 + dice.below(99) as i64),
                    _ => 1_000,
                };
                let spec = if count > 0 { SPECS[dice.below(6) as usize] } else { "" };
                PlainPod { cpu: 1_000 * (1 + dice.below(16) as i64), milli, count, spec }
            })
            .collect();
        let pods: Vec<PlainPod> =
            (0..200).map(|_| sorts[(dice.below(30).min(dice.below(30))) as usize]).collect();
        let arrivals = (0..260).map(|_| dice.below(200) as usize).collect();
        Experiment { nodes, pods, arrivals }
    }

    fn trace(&self) -> Trace {
        let mut nodes = String::from("sn,cpu_milli,memory_mib,gpu,model\n");
        for (at, node) in self.nodes.iter().enumerate() {
            let _ =
                writeln!(nodes, "n{at},{},1000000,{},{}", node.cpu, node.gpus.len(), node.model);
        }
        let mut pods = String::from("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n");
        for (at, pod) in self.pods.iter().enumerate() {
            let _ = writeln!(pods, "p{at},{},1,{},{},{}", pod.cpu, pod.count, pod.milli, pod.spec);
        }
        let list = |rows: &mut dyn Iterator<Item = usize>| {
            rows.fold(String::new(), |text, row| format!("{text} {row}"))
        };
        let orders = format!(
            "1 N{}\n1 P{}\n",
            list(&mut (0..self.nodes.len())),
            list(&mut self.arrivals.iter().copied())
        );
        let source = |name: &str, text: &str| Source::from_bytes(name, text.as_bytes()).unwrap();
        let (nodes, pods) = (source("nodes", &nodes), source("pods", &pods));
        Trace::read(&nodes, &pods, &source("orders", &orders)).unwrap_or_else(|bad| panic!("{bad}"))
    }

    /// By arrived load in percent, the means of what is taken and what is fragmented; and how many
    /// scores would have been others by exact sums.
    fn outcome(&self) -> (BTreeMap<i64, (f64, f64)>, usize) {
        let typical = typical(&self.pods);
        let mut nodes = self.nodes.clone();
        let total: i64 = nodes.iter().flat_map(|node| &node.gpus).sum();
        let (mut arrived, mut used, mut others) = (0, 0, 0);
        let mut sums: BTreeMap<i64, (f64, f64, f64)> = BTreeMap::new();
        for pod in self.arrivals.iter().map(|row| self.pods[*row]) {
            let mut best: Option<(i64, PlainNode, usize)> = None;
            for (at, node) in nodes.iter().enumerate().filter(|(_, node)| pod.fits(node)) {
                let before = fragmentation(node, &typical);
                let open = |device: &usize| node.gpus[*device] >= pod.milli;
                let devices: Vec<Option<usize>> = if pod.count == 1 && pod.milli < 1_000 {
                    (0..node.gpus.len()).filter(open).map(Some).collect()
                } else {
                    vec![None]
                };
                for device in devices {
                    let after = pod.on(node, device);
                    let fall = fragmentation(&after, &typical);
                    let own = score(before, fall);
                    // Sums that differ by rounding alone are moved apart.
                    others += usize::from(own != score(before + 1e-9, fall))
                        + usize::from(own != score(before - 1e-9, fall));
                    if best.as_ref().is_none_or(|(most, ..)| own > *most) {
                        best = Some((own, after, at));
                    }
                }
            }
            arrived += pod.count * pod.milli;
            if let Some((_, after, at)) = best {
                nodes[at] = after;
                used += pod.count * pod.milli;
            }
            let lost: f64 = nodes.iter().map(|node| fragmentation(node, &typical)).sum();
            // No arrived load of these lists stands on a half.
            let percent = (100.0 * arrived as f64 / total as f64).round_ties_even() as i64;
            let sum = sums.entry(percent).or_default();
            sum.0 += 1.0;
            sum.1 += 100.0 * used as f64 / total as f64;
            sum.2 += 100.0 * lost / total as f64;
        }
        let mean = |(percent, (count, used, lost)): (i64, (f64, f64, f64))| {
            (percent, (used / count, lost / count))
        };
        (sums.into_iter().map(mean).collect(), others)
    }
}

#[test]
fn scores_next_to_a_whole_number_fall_on_the_published_side() {
    let rounds = if std::env::var_os("PHALANX_SOAK").is_some() { 200 } else { 12 };
    let mut near = 0;
    for seed in 0..rounds {
        let experiment = Experiment::new(seed);
        let run = run(&experiment.trace(), Policy::Fgd, 1, true).unwrap();
        let (points, others) = experiment.outcome();
        near += others;
        assert_eq!(run.curve.len(), points.len());
        for point in &run.curve {
            let (used, lost) = points[&point.arrived];
            let off = (point.allocated - used).abs().max((point.fragmentation - lost).abs());
            assert!(off < 1e-6, "seed {seed}: off by {off} at {}", point.arrived);
        }
    }
    // Otherwise the order of the sums would not matter here.
    assert!(near > 100, "only {near} scores stand next to a whole number");
}
