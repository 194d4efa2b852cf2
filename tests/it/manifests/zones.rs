//! NUMA zones of nodes as agents report them: the policies of kubelet.

use phalanx::kubernetes::Manifests;
use phalanx::model::{ZonePolicy, ZoneScope};
use phalanx::{Cluster, Framework, Outcome, place_gang, reference};

use super::reading::written;

/// A node with two zones of eight CPUs, 16 GiB and a GPU, of which `available` CPUs are left.
pub(super) fn node(policy: &str, scope: &str, available: [u32; 2]) -> String {
    let zone = |number: usize| {
        format!(
            "  - name: node-{number}
    type: Node
    costs: [{{name: node-0, value: 10}}]
    resources:
      - {{name: cpu, capacity: \"8\", allocatable: \"8\", available: \"{}\"}}
      - {{name: memory, capacity: 16Gi, allocatable: 16Gi, available: 16Gi}}
      - {{name: example.com/gpu, capacity: \"1\", allocatable: \"1\", available: \"1\"}}
",
            available[number]
        )
    };
    format!(
        "---
apiVersion: v1
kind: Node
metadata: {{name: n1}}
status: {{allocatable: {{pods: 10, cpu: 16, memory: 32Gi, example.com/gpu: 2}}}}
---
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {{name: n1}}
attributes:
  - {{name: topologyManagerPolicy, value: {policy}}}
  - {{name: topologyManagerScope, value: {scope}}}
zones:
{}{}",
        zone(0),
        zone(1)
    )
}

/// A guaranteed pod with these CPUs and GPUs by container.
pub(super) fn pod(annotations: &str, containers: &[(&str, u32)]) -> String {
    let container = |(at, (cpu, gpus)): (usize, &(&str, u32))| {
        let gpus = if *gpus > 0 { format!(", example.com/gpu: {gpus}") } else { String::new() };
        // Memory is aligned, too: as many zones as CPUs need.
        let memory = if *cpu == "10" { "20Gi" } else { "1Gi" };
        format!(
            "{{name: c{at}, resources: {{limits: {{cpu: \"{cpu}\", memory: {memory}{gpus}}}}}}}"
        )
    };
    let containers: Vec<String> = containers.iter().enumerate().map(container).collect();
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: new, annotations: {{{annotations}}}}}
spec: {{containers: [{}]}}
",
        containers.join(", ")
    )
}

/// CPUs that a pod gets by zone; the answer, if it is not placed.
pub(super) fn place(manifests: &Manifests) -> Result<Vec<(u32, i64)>, String> {
    let mut cluster = Cluster::new();
    for node in &manifests.nodes {
        cluster.add_node(node.clone()).unwrap();
    }
    for pod in &manifests.bound {
        cluster.add_pod(pod.clone()).unwrap();
    }
    let (framework, group) = (Framework::default(), &manifests.groups[0]);
    assert!(group.pods[0].scheduling_gates.is_empty(), "{:?}", group.pods[0].scheduling_gates);
    let outcome = place_gang(&cluster, &framework, group).unwrap();
    let Outcome::Placed(plan) = &outcome else {
        return Err(phalanx::explain(&cluster, &framework, group, None).unwrap().to_string());
    };
    reference::is_sound(plan, group, &cluster, &framework).unwrap();
    let at = plan.assignments().next().unwrap();
    Ok(at.zone_shares().iter().map(|share| (share.zone, share.amounts.of("cpu") / 1_000)).collect())
}

#[test]
fn each_policy_admits_as_kubelet_does() {
    // CPUs available by zone; CPUs and GPUs asked; by policy the CPUs by zone, or nothing.
    let no: Option<&[(u32, i64)]> = None;
    type Case = ([u32; 2], &'static [(&'static str, u32)], [Option<&'static [(u32, i64)]>; 4]);
    let cases: [Case; 7] = [
        ([8, 8], &[("4", 1)], [Some(&[]), Some(&[(0, 4)]), Some(&[(0, 4)]), Some(&[(0, 4)])]),
        ([3, 8], &[("4", 1)], [Some(&[]), Some(&[(1, 4)]), Some(&[(1, 4)]), Some(&[(1, 4)])]),
        // It would fit one zone of an empty node, and fits none now.
        ([3, 3], &[("4", 0)], [Some(&[]), Some(&[(0, 3), (1, 1)]), no, no]),
        // Two zones for CPUs, one for the GPU: the sets differ.
        ([8, 8], &[("10", 1)], [Some(&[]), Some(&[(0, 8), (1, 2)]), no, no]),
        ([8, 8], &[("10", 2)], [Some(&[]), Some(&[(0, 8), (1, 2)]), Some(&[(0, 8), (1, 2)]), no]),
        // By container each has a zone; as a whole they have none.
        (
            [6, 6],
            &[("5", 0), ("5", 0)],
            [Some(&[]), Some(&[(0, 5), (1, 5)]), Some(&[(0, 5), (1, 5)]), Some(&[(0, 5), (1, 5)])],
        ),
        // Parts of CPUs are not aligned, memory is.
        ([0, 0], &[("1500m", 0)], [Some(&[]), Some(&[(0, 0)]), Some(&[(0, 0)]), Some(&[(0, 0)])]),
    ];
    let policies = ["none", "best-effort", "restricted", "single-numa-node"];
    for (available, containers, expected) in cases {
        for (policy, expected) in policies.into_iter().zip(expected) {
            let text = format!("{}{}", node(policy, "container", available), pod("", containers));
            let found = place(&written(&text).unwrap());
            let case = format!("{policy} {available:?} {containers:?}: {found:?}");
            match expected {
                Some(expected) => assert_eq!(found.as_deref(), Ok(expected), "{case}"),
                None => assert!(found.unwrap_err().contains("ZoneFit"), "{case}"),
            }
        }
    }
    let text = |scope| {
        format!("{}{}", node("single-numa-node", scope, [6, 6]), pod("", &[("5", 0), ("5", 0)]))
    };
    assert!(place(&written(&text("pod")).unwrap()).is_err());
}

#[test]
fn pods_that_are_not_guaranteed_are_aligned_by_their_devices_alone() {
    let burstable = pod("", &[("4", 1)]).replace("cpu: \"4\", memory: 1Gi,", "");
    let text =
        |available| format!("{}{burstable}", node("single-numa-node", "container", available));
    assert_eq!(place(&written(&text([0, 0])).unwrap()), Ok(vec![(0, 0)]));
}

#[test]
fn a_pod_names_the_policy_that_it_wants() {
    let volcano = "volcano.sh/numa-topology-policy: restricted";
    let koordinator =
        "scheduling.koordinator.sh/numa-topology-spec: '{\"numaTopologyPolicy\": \"Restricted\"}'";
    for wanted in [volcano, koordinator] {
        for (policy, fits) in [
            ("none", false),
            ("best-effort", false),
            ("restricted", true),
            ("single-numa-node", true),
        ] {
            let text = format!("{}{}", node(policy, "pod", [8, 8]), pod(wanted, &[("4", 1)]));
            assert_eq!(place(&written(&text).unwrap()).is_ok(), fits, "{wanted} on {policy}");
        }
    }
    let unknown = pod("volcano.sh/numa-topology-policy: close", &[("4", 1)]);
    assert!(written(&unknown).unwrap_err().to_string().contains("names no policy"));
}

#[test]
fn old_policies_and_zones_that_are_none_are_read() {
    let text = "
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {pods: 1, cpu: 4}}
---
apiVersion: topology.node.k8s.io/v1alpha1
kind: NodeResourceTopology
metadata: {name: n1}
topologyPolicies: [SingleNUMANodePodLevel]
zones:
  - {name: socket-0, type: Socket}
  - {name: node-1, type: Node, resources: [{name: cpu, capacity: 4}]}
  - {name: node-0, type: Node, resources: [{name: cpu, capacity: 2, allocatable: 1}]}
";
    let zones = written(text).unwrap().nodes[0].zones.clone();
    assert_eq!((zones.policy, zones.scope), (ZonePolicy::SingleNumaNode, ZoneScope::Pod));
    let found: Vec<(u32, i64)> =
        zones.list.iter().map(|zone| (zone.number, zone.capacity.of("cpu"))).collect();
    assert_eq!(found, [(0, 1_000), (1, 4_000)]);
    for (from, to, words) in [
        ("node-1", "node-0", "occurs twice"),
        ("SingleNUMANodePodLevel", "Close", "is not one of"),
        ("name: node-1", "name: left", "ends with no number"),
    ] {
        let error = written(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
