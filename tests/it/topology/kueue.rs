//! Topology assignments: the examples of KEP-2724, odd input, and what holds of any of them.
//!
//! Kueue's own tables are in the program `conformance`.

#[path = "../../../examples/common/kueue_strategy.rs"]
mod through_planner;

use std::collections::BTreeMap;

use phalanx::place::kueue::{
    Amounts, AssignedDomain, Assignment, BackgroundPod, Cluster, ClusterError, Expression, Failure,
    Gates, HOSTNAME_LABEL, Node, Outcome, PodSet, PreferredTerm, SliceLayer, Snapshot,
    TopologyRequest, Usage,
};
use proptest::prelude::*;

fn host(name: &str, labels: &[(&str, &str)], cpu: i64) -> Node {
    let labels = labels.iter().map(|&(key, value)| (key.into(), value.into()));
    Node {
        name: name.into(),
        labels: labels.chain([(HOSTNAME_LABEL.into(), name.into())]).collect(),
        allocatable: [("cpu".into(), cpu * 1000), ("pods".into(), 110)].into(),
        ready: true,
        ..Node::default()
    }
}

/// Hosts `h0`, `h1` ... with so many cores, and no other level.
fn flat(cpus: &[i64]) -> Cluster {
    let nodes = cpus.iter().enumerate().map(|(at, &cpu)| host(&format!("h{at}"), &[], cpu));
    Cluster { levels: vec![HOSTNAME_LABEL.into()], nodes: nodes.collect(), ..Cluster::default() }
}

fn pods(count: u32) -> PodSet {
    let requests = [("cpu".into(), 1000)].into();
    PodSet { name: "main".into(), count, requests, ..PodSet::default() }
}

fn preferred(count: u32) -> PodSet {
    let mut pod_set = pods(count);
    pod_set.topology.preferred = Some(HOSTNAME_LABEL.into());
    pod_set
}

fn unconstrained(count: u32) -> PodSet {
    let mut pod_set = pods(count);
    pod_set.topology.unconstrained = true;
    pod_set
}

fn slices_of(size: u32, mut pod_set: PodSet) -> PodSet {
    pod_set.topology.slices = vec![SliceLayer { level: HOSTNAME_LABEL.into(), size: Some(size) }];
    pod_set
}

fn assign(cluster: &Cluster, pod_sets: &[PodSet]) -> Outcome {
    Snapshot::new(cluster).expect("a cluster").assign(pod_sets)
}

/// Pods on each of the hosts of [`flat`], in their order.
fn on_hosts(cluster: &Cluster, pod_set: PodSet) -> Vec<u32> {
    let name = pod_set.name.clone();
    let outcome = assign(cluster, &[pod_set]);
    let assignment = outcome.assignment(&name).expect("an assignment");
    let on = |node: &Node| {
        let domain = assignment.domains.iter().find(|domain| domain.values == [node.name.clone()]);
        domain.map_or(0, |domain| domain.count)
    };
    cluster.nodes.iter().map(on).collect()
}

fn failure(cluster: &Cluster, pod_set: PodSet) -> Failure {
    assign(cluster, &[pod_set]).failure().expect("a failure").clone()
}

#[test]
fn kep_2724_best_fit() {
    assert_eq!(on_hosts(&flat(&[3, 3, 2, 1]), preferred(7)), [3, 3, 0, 1]);
}

#[test]
fn kep_2724_least_free_capacity() {
    let cluster = flat(&[3, 3, 2, 1]);
    assert_eq!(on_hosts(&cluster, unconstrained(7)), [3, 1, 2, 1]);
    // Whoever holds everything comes first, the smallest of them.
    assert_eq!(on_hosts(&cluster, unconstrained(2)), [0, 0, 2, 0]);
    let implied = PodSet {
        topology: TopologyRequest { implied: true, ..TopologyRequest::default() },
        ..pods(7)
    };
    assert_eq!(on_hosts(&cluster, implied), [3, 1, 2, 1]);
}

#[test]
fn without_the_mixed_profile_unconstrained_is_best_fit() {
    let mut cluster = flat(&[3, 3, 2, 1]);
    cluster.gates.profile_mixed = false;
    assert_eq!(on_hosts(&cluster, unconstrained(7)), [3, 3, 0, 1]);
}

#[test]
fn kep_2724_slices() {
    let cluster = flat(&[6, 5, 4, 3, 2]);
    assert_eq!(on_hosts(&cluster, slices_of(2, preferred(12))), [6, 0, 4, 0, 2]);
    assert_eq!(on_hosts(&cluster, slices_of(2, unconstrained(10))), [0, 2, 4, 2, 2]);
    assert_eq!(on_hosts(&cluster, slices_of(2, pods(10))), [0, 2, 4, 2, 2]);
}

#[test]
fn later_pod_sets_see_earlier_ones_and_usage() {
    let mut cluster = flat(&[2, 2]);
    let mut second = unconstrained(2);
    second.name = "second".into();
    let outcome = assign(&cluster, &[unconstrained(2), second.clone()]);
    assert_eq!(outcome.assignment("main").expect("placed").domains[0].values, ["h0"]);
    assert_eq!(outcome.assignment("second").expect("placed").domains[0].values, ["h1"]);

    let usage = Usage {
        values: vec!["h0".into()],
        requests: pods(1).requests,
        count: 2,
        other_flavor: true,
    };
    cluster.usage = vec![usage.clone()];
    let outcome = assign(&cluster, &[unconstrained(2), second.clone()]);
    assert_eq!(outcome.assignment("main").expect("placed").domains[0].values, ["h1"]);
    assert!(outcome.assignment("second").is_none());
    cluster.gates.overlapping_flavors = false;
    assert!(assign(&cluster, &[unconstrained(4)]).failure().is_none());

    let mut snapshot = Snapshot::new(&cluster).expect("a cluster");
    assert!(snapshot.charge(&usage));
    assert!(snapshot.assign(&[unconstrained(4)]).failure().is_some());
    assert!(snapshot.release(&usage));
    assert!(snapshot.assign(&[unconstrained(4)]).failure().is_none());
    assert!(!snapshot.charge(&Usage { values: vec!["gone".into()], ..usage }));
}

#[test]
fn elastic_pod_sets_grow_shrink_and_start_over() {
    let mut cluster = flat(&[3, 3, 3]);
    cluster.gates.elastic = true;
    let running = |domains: &[(&str, u32)]| Assignment {
        levels: vec![HOSTNAME_LABEL.into()],
        domains: domains
            .iter()
            .map(|&(name, count)| AssignedDomain { values: vec![name.into()], count })
            .collect(),
    };
    let elastic = |count, previous| PodSet {
        elastic: true,
        previous: Some(running(previous)),
        ..unconstrained(count)
    };
    let from = [("h1", 2), ("h2", 2)];
    assert_eq!(on_hosts(&cluster, elastic(6, &from)), [2, 2, 2]);
    assert_eq!(on_hosts(&cluster, elastic(5, &from)), [0, 3, 2]);
    assert_eq!(on_hosts(&cluster, elastic(4, &from)), [0, 2, 2]);
    assert_eq!(on_hosts(&cluster, elastic(3, &from)), [0, 2, 1]);
    assert_eq!(on_hosts(&cluster, elastic(0, &from)), [0, 0, 0]);
    assert_eq!(on_hosts(&cluster, elastic(3, &[("gone", 1)])), [3, 0, 0]);
    assert!(matches!(failure(&cluster, elastic(10, &from)), Failure::NoFit(_)));
    cluster.gates.elastic = false;
    assert_eq!(on_hosts(&cluster, elastic(3, &from)), [3, 0, 0]);
}

#[test]
fn a_replacement_stays_in_the_required_domain() {
    let rack = |rack| [("block", "b"), ("rack", rack)];
    let mut cluster = Cluster {
        levels: vec!["block".into(), "rack".into(), HOSTNAME_LABEL.into()],
        nodes: vec![
            host("x1", &rack("r1"), 2),
            host("x2", &rack("r1"), 2),
            host("x3", &rack("r1"), 2),
            host("x4", &rack("r2"), 9),
        ],
        ..Cluster::default()
    };
    cluster.nodes[1].ready = false;
    let on = |name: &str| AssignedDomain { values: vec![name.into()], count: 2 };
    let previous =
        Assignment { levels: vec![HOSTNAME_LABEL.into()], domains: vec![on("x1"), on("x2")] };
    let mut pod_set =
        PodSet { replace_node: Some("x2".into()), previous: Some(previous.clone()), ..pods(4) };
    pod_set.topology.required = Some("rack".into());
    // The pods that stay are charged by the caller only.
    assert_eq!(on_hosts(&cluster, pod_set.clone()), [4, 0, 0, 0]);
    let usage = Usage { requests: pods(1).requests, count: 2, ..Usage::default() };
    cluster.usage.push(Usage { values: vec!["x1".into()], ..usage.clone() });
    assert_eq!(on_hosts(&cluster, pod_set.clone()), [2, 0, 2, 0]);

    // Somebody else is on x3, and x4 is in another rack.
    cluster.usage.push(Usage { values: vec!["x3".into()], ..usage });
    let Failure::NoFit(no_fit) = failure(&cluster, pod_set.clone()) else { panic!("it fits") };
    assert_eq!((no_fit.nodes_considered, no_fit.excluded.topology_domain), (3, 1));
    pod_set.topology.required = Some("block".into());
    assert_eq!(on_hosts(&cluster, pod_set.clone()), [2, 0, 0, 2]);

    let lost = PodSet { replace_node: Some("x9".into()), ..pod_set.clone() };
    assert_eq!(failure(&cluster, lost).kind(), "stale-assignment");
    cluster.nodes[1].ready = true;
    let lost = PodSet { replace_node: Some("x9".into()), ..pod_set };
    assert_eq!(failure(&cluster, lost).kind(), "no-replacement");
}

#[test]
fn balanced_placement_spreads_evenly() {
    let rack = |rack| [("rack", rack)];
    let mut cluster = Cluster {
        levels: vec!["rack".into(), HOSTNAME_LABEL.into()],
        nodes: vec![
            host("x1", &rack("r1"), 4),
            host("x2", &rack("r1"), 3),
            host("x3", &rack("r1"), 3),
            host("x4", &rack("r2"), 2),
        ],
        ..Cluster::default()
    };
    let mut pod_set = pods(8);
    pod_set.topology.preferred = Some("rack".into());
    assert_eq!(on_hosts(&cluster, pod_set.clone()), [4, 3, 1, 0]);
    cluster.gates.balanced_placement = true;
    // Two for everyone, the rest to the roomiest.
    assert_eq!(on_hosts(&cluster, pod_set), [4, 2, 2, 0]);
}

#[test]
fn clusters_that_make_no_sense_are_errors() {
    let mut cluster = flat(&[1, 1]);
    cluster.nodes[1].name = "h0".into();
    assert_eq!(Snapshot::new(&cluster).err(), Some(ClusterError::DuplicateNode("h0".into())));
    let mut cluster = flat(&[1]);
    cluster.levels.push(HOSTNAME_LABEL.into());
    assert!(matches!(Snapshot::new(&cluster), Err(ClusterError::DuplicateLevel(_))));
    cluster.levels.clear();
    assert_eq!(Snapshot::new(&cluster).err(), Some(ClusterError::NoLevels));
}

#[test]
fn requests_that_make_no_sense_are_failures() {
    let cluster = flat(&[4, 4]);
    let kind = |change: fn(&mut PodSet)| {
        let mut pod_set = preferred(4);
        change(&mut pod_set);
        failure(&cluster, pod_set).kind()
    };
    assert_eq!(kind(|one| one.topology = TopologyRequest::default()), "no-level");
    assert_eq!(kind(|one| one.topology.required = Some("zone".into())), "unknown-level");
    assert_eq!(kind(|one| *one = slices_of(0, one.clone())), "no-slice-size");
    assert_eq!(kind(|one| *one = slices_of(3, one.clone())), "count-not-divisible");
    assert_eq!(
        kind(|one| {
            *one = slices_of(2, one.clone());
            one.topology.slices[0].size = None;
        }),
        "no-slice-size"
    );
    assert_eq!(
        kind(|one| {
            *one = slices_of(2, one.clone());
            one.topology.slices[0].level = "zone".into();
        }),
        "unknown-slice-level"
    );
    assert_eq!(
        kind(|one| {
            *one = slices_of(2, one.clone());
            one.topology.slices.push(one.topology.slices[0].clone());
        }),
        "slice-layer-not-finer"
    );

    let rack = |rack| [("rack", rack)];
    let racks = Cluster {
        levels: vec!["rack".into(), HOSTNAME_LABEL.into()],
        nodes: vec![host("x1", &rack("r1"), 4), host("x2", &rack("r2"), 4)],
        ..Cluster::default()
    };
    let mut inner = slices_of(3, preferred(4));
    inner.topology.preferred = Some("rack".into());
    let outer = SliceLayer { level: "rack".into(), size: Some(4) };
    inner.topology.slices.insert(0, outer);
    assert_eq!(failure(&racks, inner.clone()).kind(), "slice-layer-size");
    inner.topology.slices[1].size = Some(0);
    assert_eq!(failure(&racks, inner.clone()).kind(), "no-slice-size");
    inner.topology.slices.pop();
    inner.topology.preferred = Some(HOSTNAME_LABEL.into());
    assert_eq!(failure(&racks, inner).kind(), "slice-level-above-request");

    let in_group = |name: &str, count| PodSet {
        name: name.into(),
        group: Some("g".into()),
        ..preferred(count)
    };
    for group in [vec![in_group("a", 2), in_group("b", 2)], vec![in_group("a", 1); 3]] {
        let outcome = assign(&cluster, &group);
        assert_eq!(outcome.failure().map(Failure::kind), Some("group-shape"));
        assert_eq!(outcome.pod_sets.len(), group.len());
    }
}

#[test]
fn odd_amounts_are_harmless() {
    assert_eq!(on_hosts(&flat(&[1, 1]), preferred(0)), [0, 0]);
    assert_eq!(on_hosts(&flat(&[-5, 1]), preferred(1)), [0, 1]);
    assert!(matches!(failure(&flat(&[]), preferred(1)), Failure::NoDomains { .. }));

    let mut unlabelled = flat(&[3, 3]);
    unlabelled.nodes[0].labels.clear();
    unlabelled.nodes[1].unschedulable = true;
    assert!(matches!(failure(&unlabelled, preferred(1)), Failure::NoDomains { .. }));

    let mut vast = flat(&[1, 1, 1]);
    for node in &mut vast.nodes {
        node.allocatable = [("cpu".into(), i64::MAX), ("pods".into(), i64::MAX)].into();
    }
    vast.gates.balanced_placement = true;
    let mut many = preferred(u32::MAX);
    many.requests = [("cpu".into(), 1)].into();
    assert_eq!(
        on_hosts(&vast, many.clone()).iter().map(|&n| u64::from(n)).sum::<u64>(),
        u64::from(u32::MAX)
    );
    many.requests = [("cpu".into(), 0), ("memory".into(), i64::MIN)].into();
    many.count = 5;
    assert_eq!(on_hosts(&vast, many.clone()), [5, 0, 0]);
    many.requests = [("cpu".into(), i64::MAX), ("pods".into(), i64::MAX)].into();
    assert!(assign(&vast, &[many]).failure().is_some());

    for requests in [i64::MIN, -1, i64::MAX] {
        let mut cluster = flat(&[3, 3]);
        let requests: Amounts = [("cpu".into(), requests), ("pods".into(), requests)].into();
        let pod = BackgroundPod { node: Some("h0".into()), terminated: false, requests };
        let usage = Usage {
            values: vec!["h1".into()],
            requests: pod.requests.clone(),
            count: u32::MAX,
            other_flavor: false,
        };
        cluster.pods = vec![pod.clone(), pod];
        cluster.usage = vec![usage];
        let _ = assign(&cluster, &[preferred(4), unconstrained(4)]);
    }
}

#[test]
fn domains_are_paths_and_hosts_are_their_label() {
    let place = |name: &str, block: &str, rack: &str| {
        let mut node = host(name, &[("block", block), ("rack", rack)], 2);
        node.labels.insert(HOSTNAME_LABEL.into(), format!("{block}{rack}"));
        node
    };
    let nodes = vec![
        place("n1", "b1", "r1"),
        place("n2", "b2", "r1"),
        place("n3", "b2", "r1"),
        place("n4", "b2", "r2"),
    ];
    let mut cluster = Cluster { nodes, ..Cluster::default() };
    let mut pod_set = pods(4);
    pod_set.topology.required = Some("rack".into());

    // Racks of the same name in two blocks are two domains, and the sum over nodes counts.
    cluster.levels = vec!["block".into(), "rack".into()];
    let outcome = assign(&cluster, std::slice::from_ref(&pod_set));
    let assignment = outcome.assignment("main").expect("placed");
    assert_eq!(assignment.levels, ["block", "rack"]);
    assert_eq!(
        assignment.domains,
        [AssignedDomain { values: vec!["b2".into(), "r1".into()], count: 4 }]
    );

    // Nodes with one host label are one host.
    cluster.levels.push(HOSTNAME_LABEL.into());
    let outcome = assign(&cluster, std::slice::from_ref(&pod_set));
    let assignment = outcome.assignment("main").expect("placed");
    assert_eq!(assignment.domains, [AssignedDomain { values: vec!["b2r1".into()], count: 4 }]);
}

/// What a random problem is made of: racks of hosts, by cores; a request.
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
    fn cluster(&self) -> Cluster {
        let mut nodes = Vec::new();
        for (rack, hosts) in self.racks.iter().enumerate() {
            let (block, rack) = (format!("b{}", rack / 2), format!("r{rack}"));
            for (at, &(cpu, liked)) in hosts.iter().enumerate() {
                let liked = if liked { "yes" } else { "no" };
                let labels = [("block", &*block), ("rack", &*rack), ("liked", liked)];
                nodes.push(host(&format!("{rack}-h{at}"), &labels, cpu));
            }
        }
        let gates = Gates {
            profile_mixed: self.gates.0,
            balanced_placement: self.gates.1,
            preferred_affinity: self.gates.2,
            ..Gates::default()
        };
        let levels = vec!["block".into(), "rack".into(), HOSTNAME_LABEL.into()];
        Cluster { levels, nodes, gates, ..Cluster::default() }
    }

    fn pod_sets(&self) -> Vec<PodSet> {
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
