//! Properties of any topology assignment, through the planner too.

use std::collections::BTreeMap;

use phalanx::framework::KueueGates;
use phalanx::place::Failure;
use phalanx::reference::kueue::{
    Expression, HOSTNAME_LABEL, KueueCluster, KueuePodSet, PreferredTerm, SliceLayer,
};
use proptest::prelude::*;

use super::kueue::{assign, host, pods};

#[path = "../../../examples/conformance/src/kueue_strategy.rs"]
mod through_planner;

/// A random problem: racks of hosts, by cores; a request.
#[derive(Debug, Clone)]
struct Problem {
    racks: Vec<Vec<(i64, bool)>>,
    count: u32,
    mode: u8,
    slice: u32,
    inner: bool,
    leader: Option<i64>,
    gates: (bool, bool, bool),
}

fn problem() -> impl Strategy<Value = Problem> {
    let rack = prop::collection::vec((0_i64..9, any::<bool>()), 1..5);
    let gates = (any::<bool>(), any::<bool>(), any::<bool>());
    let leader = prop::option::of(1_i64..6);
    (prop::collection::vec(rack, 1..6), 1_u32..24, 0_u8..6, 1_u32..4, any::<bool>(), leader, gates)
        .prop_map(|(racks, count, mode, slice, inner, leader, gates)| Problem {
            racks,
            count,
            mode,
            slice,
            inner,
            leader,
            gates,
        })
}

impl Problem {
    fn cluster(&self) -> KueueCluster {
        let mut nodes = Vec::new();
        for (rack, hosts) in self.racks.iter().enumerate() {
            let (block, rack) = (format!("b{}", rack / 2), format!("r{rack}"));
            for (at, &(cpu, liked)) in hosts.iter().enumerate() {
                let liked = if liked { "yes" } else { "no" };
                let labels = [("block", &*block), ("rack", &*rack), ("liked", liked)];
                nodes.push(host(&format!("{rack}-h{at}"), &labels, cpu));
            }
        }
        let gates = KueueGates {
            profile_mixed: self.gates.0,
            balanced_placement: self.gates.1,
            preferred_affinity: self.gates.2,
            ..KueueGates::default()
        };
        let levels = vec!["block".into(), "rack".into(), HOSTNAME_LABEL.into()];
        KueueCluster { levels, nodes, gates, ..KueueCluster::default() }
    }

    fn pod_sets(&self) -> Vec<KueuePodSet> {
        let size = self.slice * if self.inner { 2 } else { 1 };
        let mut workers = pods(self.count * size);
        workers.group = self.leader.map(|_| "g".into());
        let level = if self.mode.is_multiple_of(2) { "block" } else { "rack" };
        match self.mode / 2 {
            0 => workers.topology.required = Some(level.into()),
            1 => workers.topology.preferred = Some(level.into()),
            _ => workers.topology.unconstrained = true,
        }
        if size > 1 {
            workers.topology.slices.push(SliceLayer { level: "rack".into(), size: Some(size) });
            if self.inner {
                let layer = SliceLayer { level: HOSTNAME_LABEL.into(), size: Some(self.slice) };
                workers.topology.slices.push(layer);
            }
        }
        let liked =
            Expression { key: "liked".into(), values: vec!["yes".into()], ..Expression::default() };
        workers.affinity.preferred = vec![PreferredTerm { weight: 3, expressions: vec![liked] }];
        let Some(cpu) = self.leader.filter(|_| workers.count > 1) else {
            workers.group = None;
            return vec![workers];
        };
        let mut leader = workers.clone();
        (leader.name, leader.count) = ("leader".into(), 1);
        leader.requests = [("cpu".into(), cpu * 1000)].into();
        vec![leader, workers]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn assignments_keep_what_was_asked_for(problem in problem()) {
        let (cluster, pod_sets) = (problem.cluster(), problem.pod_sets());
        let outcome = assign(&cluster, &pod_sets);
        // The planner's strategy answers the same; its slices count whole groups, not sets.
        let placed = through_planner::assign(&cluster, &pod_sets).expect("sound");
        if let Some(mut placed) = placed {
            placed.pod_sets.sort_by_key(|one| one.name.clone());
            let mut expected = outcome.clone();
            expected.pod_sets.sort_by_key(|one| one.name.clone());
            prop_assert_eq!(placed, expected);
        }
        let rack_of = |host: &str| host.split('-').next().unwrap_or_default().to_owned();
        if let Some(failure) = outcome.failure() {
            prop_assert!(matches!(failure, Failure::NoFit(_)), "{failure}");
            // A required domain with room is always found, if pods come one by one.
            let racks = problem.racks.iter().map(|hosts| hosts.iter().map(|host| host.0).sum::<i64>());
            if problem.mode == 1 && pod_sets.len() == 1 && pod_sets[0].topology.slices.is_empty() {
                prop_assert!(racks.clone().all(|cpu| cpu < i64::from(problem.count)));
            }
            return Ok(());
        }
        let mut cpu: BTreeMap<String, i64> = BTreeMap::new();
        let mut racks: BTreeMap<String, u32> = BTreeMap::new();
        for pod_set in &pod_sets {
            let assignment = outcome.assignment(&pod_set.name).expect("placed");
            prop_assert_eq!(assignment.pods(), u64::from(pod_set.count));
            for domain in &assignment.domains {
                let host = &domain.values[0];
                *cpu.entry(host.clone()).or_default() += pod_set.requests["cpu"] * i64::from(domain.count);
                let is_workers = pod_set.name == "main";
                *racks.entry(rack_of(host)).or_default() += if is_workers { domain.count } else { 0 };
                if let (true, Some(inner)) = (is_workers, pod_set.topology.slices.get(1)) {
                    prop_assert_eq!(domain.count % inner.size.unwrap_or(1), 0);
                }
            }
        }
        for node in &cluster.nodes {
            let used = cpu.get(&node.name).copied().unwrap_or(0);
            prop_assert!(used <= node.allocatable["cpu"], "{} of {:?}", used, node);
        }
        let workers = pod_sets.last().expect("workers");
        let whole = workers.topology.slices.first().and_then(|layer| layer.size).unwrap_or(1);
        prop_assert!(racks.values().all(|pods| pods % whole == 0), "{racks:?}");
        if problem.mode == 1 {
            prop_assert_eq!(racks.len(), 1);
        }
    }
}
