//! Topology assignments: the examples of KEP-2724, and odd input.
//!
//! Kueue's own tables are in the program `conformance`.

use phalanx::place::Failure;
use phalanx::reference::kueue::{
    AssignedDomain, BackgroundPod, ClusterError, HOSTNAME_LABEL, KueueAmounts, KueueAssignment,
    KueueCluster, KueueNode, KueueOutcome, KueuePodSet, KueueSnapshot, KueueTopologyRequest,
    KueueUsage, SliceLayer,
};

pub(super) fn host(name: &str, labels: &[(&str, &str)], cpu: i64) -> KueueNode {
    let labels = labels.iter().map(|&(key, value)| (key.into(), value.into()));
    KueueNode {
        name: name.into(),
        labels: labels.chain([(HOSTNAME_LABEL.into(), name.into())]).collect(),
        allocatable: [("cpu".into(), cpu * 1000), ("pods".into(), 110)].into(),
        ready: true,
        ..KueueNode::default()
    }
}

/// Hosts `h0`, `h1` ... with so many cores, and no other level.
fn flat(cpus: &[i64]) -> KueueCluster {
    let nodes = cpus.iter().enumerate().map(|(at, &cpu)| host(&format!("h{at}"), &[], cpu));
    KueueCluster {
        levels: vec![HOSTNAME_LABEL.into()],
        nodes: nodes.collect(),
        ..KueueCluster::default()
    }
}

pub(super) fn pods(count: u32) -> KueuePodSet {
    let requests = [("cpu".into(), 1000)].into();
    KueuePodSet { name: "main".into(), count, requests, ..KueuePodSet::default() }
}

fn preferred(count: u32) -> KueuePodSet {
    let mut pod_set = pods(count);
    pod_set.topology.preferred = Some(HOSTNAME_LABEL.into());
    pod_set
}

fn unconstrained(count: u32) -> KueuePodSet {
    let mut pod_set = pods(count);
    pod_set.topology.unconstrained = true;
    pod_set
}

fn slices_of(size: u32, mut pod_set: KueuePodSet) -> KueuePodSet {
    pod_set.topology.slices = vec![SliceLayer { level: HOSTNAME_LABEL.into(), size: Some(size) }];
    pod_set
}

pub(super) fn assign(cluster: &KueueCluster, pod_sets: &[KueuePodSet]) -> KueueOutcome {
    KueueSnapshot::new(cluster).expect("a cluster").assign(pod_sets)
}

/// Pods on each of the hosts of [`flat`], in their order.
fn on_hosts(cluster: &KueueCluster, pod_set: KueuePodSet) -> Vec<u32> {
    let name = pod_set.name.clone();
    let outcome = assign(cluster, &[pod_set]);
    let assignment = outcome.assignment(&name).expect("an assignment");
    let on = |node: &KueueNode| {
        let domain = assignment.domains.iter().find(|domain| domain.values == [node.name.clone()]);
        domain.map_or(0, |domain| domain.count)
    };
    cluster.nodes.iter().map(on).collect()
}

fn failure(cluster: &KueueCluster, pod_set: KueuePodSet) -> Failure {
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
    let implied = KueuePodSet {
        topology: KueueTopologyRequest { implied: true, ..KueueTopologyRequest::default() },
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

    let usage = KueueUsage {
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

    let mut snapshot = KueueSnapshot::new(&cluster).expect("a cluster");
    assert!(snapshot.charge(&usage));
    assert!(snapshot.assign(&[unconstrained(4)]).failure().is_some());
    assert!(snapshot.release(&usage));
    assert!(snapshot.assign(&[unconstrained(4)]).failure().is_none());
    assert!(!snapshot.charge(&KueueUsage { values: vec!["gone".into()], ..usage }));
}

#[test]
fn elastic_pod_sets_grow_shrink_and_start_over() {
    let mut cluster = flat(&[3, 3, 3]);
    cluster.gates.elastic = true;
    let running = |domains: &[(&str, u32)]| KueueAssignment {
        levels: vec![HOSTNAME_LABEL.into()],
        domains: domains
            .iter()
            .map(|&(name, count)| AssignedDomain { values: vec![name.into()], count })
            .collect(),
    };
    let elastic = |count, previous| KueuePodSet {
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
fn a_leader_whose_node_is_gone_is_placed_afresh_with_its_workers() {
    let rack = |rack| [("rack", rack)];
    let mut cluster = KueueCluster {
        levels: vec!["rack".into(), HOSTNAME_LABEL.into()],
        nodes: vec![
            host("a1", &rack("a"), 4),
            host("a2", &rack("a"), 3),
            host("b1", &rack("b"), 6),
            host("b2", &rack("b"), 2),
        ],
        ..KueueCluster::default()
    };
    cluster.gates.elastic = true;
    let running = |domains: &[(&str, u32)]| {
        let on = |&(name, count): &(&str, u32)| AssignedDomain { values: vec![name.into()], count };
        let domains = domains.iter().map(on).collect();
        Some(KueueAssignment { levels: vec![HOSTNAME_LABEL.into()], domains })
    };
    let set = |name: &str, count, previous| {
        let mut pod_set = KueuePodSet { name: name.into(), elastic: true, previous, ..pods(count) };
        pod_set.group = Some("together".into());
        pod_set.topology.required = Some("rack".into());
        pod_set
    };
    let places = |outcome: &KueueOutcome, name: &str| -> Vec<(String, u32)> {
        let assignment = outcome.assignment(name).expect("an assignment");
        let place = |domain: &AssignedDomain| {
            (domain.values.last().cloned().unwrap_or_default(), domain.count)
        };
        assignment.domains.iter().map(place).collect()
    };
    let workers = running(&[("a1", 4), ("a2", 2)]);
    // The leader's node is there: nothing moves.
    let leader = set("leader", 1, running(&[("a2", 1)]));
    let outcome = assign(&cluster, &[leader, set("workers", 6, workers.clone())]);
    assert_eq!(places(&outcome, "leader"), [("a2".into(), 1)]);
    assert_eq!(places(&outcome, "workers"), [("a1".into(), 4), ("a2".into(), 2)]);
    // It is gone: rack `a` holds the seven pods as if none of them ran there, whether the workers
    // stay as many, shrink or grow.
    for (count, room) in [(6, 7), (5, 7), (7, 8)] {
        let gone = set("leader", 1, running(&[("gone", 1)]));
        let outcome = assign(&cluster, &[gone, set("workers", count, workers.clone())]);
        let fresh = |name, count| set(name, count, None);
        let expected = assign(&cluster, &[fresh("leader", 1), fresh("workers", count)]);
        for name in ["leader", "workers"] {
            assert_eq!(places(&outcome, name), places(&expected, name));
        }
        let hosts = if room == 7 { "a" } else { "b" };
        let all = [places(&outcome, "leader"), places(&outcome, "workers")].concat();
        assert!(all.iter().all(|(host, _)| host.starts_with(hosts)), "{all:?}");
        assert_eq!(all.iter().map(|(_, pods)| pods).sum::<u32>(), count + 1);
    }
    // Nor do the old places of the workers count against others.
    let gone = set("leader", 1, running(&[("gone", 1)]));
    let mut other = pods(8);
    other.name = "other".into();
    other.topology.required = Some("rack".into());
    let outcome = assign(&cluster, &[gone, set("workers", 6, workers), other]);
    assert_eq!(places(&outcome, "other"), [("b1".into(), 6), ("b2".into(), 2)]);
}

#[test]
fn a_replacement_stays_in_the_required_domain() {
    let rack = |rack| [("block", "b"), ("rack", rack)];
    let mut cluster = KueueCluster {
        levels: vec!["block".into(), "rack".into(), HOSTNAME_LABEL.into()],
        nodes: vec![
            host("x1", &rack("r1"), 2),
            host("x2", &rack("r1"), 2),
            host("x3", &rack("r1"), 2),
            host("x4", &rack("r2"), 9),
        ],
        ..KueueCluster::default()
    };
    cluster.nodes[1].ready = false;
    let on = |name: &str| AssignedDomain { values: vec![name.into()], count: 2 };
    let previous =
        KueueAssignment { levels: vec![HOSTNAME_LABEL.into()], domains: vec![on("x1"), on("x2")] };
    let mut pod_set = KueuePodSet {
        replace_node: Some("x2".into()),
        previous: Some(previous.clone()),
        ..pods(4)
    };
    pod_set.topology.required = Some("rack".into());
    // The pods that stay are charged by the caller only.
    assert_eq!(on_hosts(&cluster, pod_set.clone()), [4, 0, 0, 0]);
    let usage = KueueUsage { requests: pods(1).requests, count: 2, ..KueueUsage::default() };
    cluster.usage.push(KueueUsage { values: vec!["x1".into()], ..usage.clone() });
    assert_eq!(on_hosts(&cluster, pod_set.clone()), [2, 0, 2, 0]);

    // Somebody else is on x3, and x4 is in another rack.
    cluster.usage.push(KueueUsage { values: vec!["x3".into()], ..usage });
    let Failure::NoFit(no_fit) = failure(&cluster, pod_set.clone()) else { panic!("it fits") };
    assert_eq!((no_fit.nodes_considered, no_fit.excluded.topology_domain), (3, 1));
    pod_set.topology.required = Some("block".into());
    assert_eq!(on_hosts(&cluster, pod_set.clone()), [2, 0, 0, 2]);

    let lost = KueuePodSet { replace_node: Some("x9".into()), ..pod_set.clone() };
    assert_eq!(failure(&cluster, lost).kind(), "stale-assignment");
    cluster.nodes[1].ready = true;
    let lost = KueuePodSet { replace_node: Some("x9".into()), ..pod_set };
    assert_eq!(failure(&cluster, lost).kind(), "no-replacement");
}

#[test]
fn balanced_placement_spreads_evenly() {
    let rack = |rack| [("rack", rack)];
    let mut cluster = KueueCluster {
        levels: vec!["rack".into(), HOSTNAME_LABEL.into()],
        nodes: vec![
            host("x1", &rack("r1"), 4),
            host("x2", &rack("r1"), 3),
            host("x3", &rack("r1"), 3),
            host("x4", &rack("r2"), 2),
        ],
        ..KueueCluster::default()
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
    assert_eq!(KueueSnapshot::new(&cluster).err(), Some(ClusterError::DuplicateNode("h0".into())));
    let mut cluster = flat(&[1]);
    cluster.levels.push(HOSTNAME_LABEL.into());
    assert!(matches!(KueueSnapshot::new(&cluster), Err(ClusterError::DuplicateLevel(_))));
    cluster.levels.clear();
    assert_eq!(KueueSnapshot::new(&cluster).err(), Some(ClusterError::NoLevels));
}

#[test]
fn requests_that_make_no_sense_are_failures() {
    let cluster = flat(&[4, 4]);
    let kind = |change: fn(&mut KueuePodSet)| {
        let mut pod_set = preferred(4);
        change(&mut pod_set);
        failure(&cluster, pod_set).kind()
    };
    assert_eq!(kind(|one| one.topology = KueueTopologyRequest::default()), "no-level");
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
    let racks = KueueCluster {
        levels: vec!["rack".into(), HOSTNAME_LABEL.into()],
        nodes: vec![host("x1", &rack("r1"), 4), host("x2", &rack("r2"), 4)],
        ..KueueCluster::default()
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

    let in_group = |name: &str, count| KueuePodSet {
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
        let requests: KueueAmounts = [("cpu".into(), requests), ("pods".into(), requests)].into();
        let pod = BackgroundPod { node: Some("h0".into()), terminated: false, requests };
        let usage = KueueUsage {
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
    let mut cluster = KueueCluster { nodes, ..KueueCluster::default() };
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
