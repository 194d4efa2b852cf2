//! Topologies of the dialects: a group goes where its constraint says, or nowhere, by name.

use std::collections::BTreeSet;
use std::fmt::Write;

use phalanx::kubernetes::Manifests;
use phalanx::{Cluster, Framework, Outcome, place_gang, reference};

use super::reading::{stored, written};

/// Two blocks of two racks of two nodes, four GPUs each.
fn nodes() -> String {
    let mut text = String::new();
    for index in 0..8 {
        let (block, rack) = (index / 4, index / 2);
        let _ = write!(
            text,
            "---
apiVersion: v1
kind: Node
metadata: {{name: n{index}, labels: {{block: b{block}, rack: r{rack}, kubernetes.io/hostname: n{index}}}}}
status: {{allocatable: {{cpu: 32, pods: 10, nvidia.com/gpu: 4}}}}
"
        );
    }
    text
}

const GPUS: &str = "containers: [{name: c, resources: {limits: {cpu: 1, nvidia.com/gpu: 4}}}]";

fn cluster(manifests: &Manifests) -> Cluster {
    let mut cluster = Cluster::builder().levels(manifests.levels.clone()).build().unwrap();
    for node in &manifests.nodes {
        cluster.add_node(node.clone()).unwrap();
    }
    cluster
}

/// Places all groups of manifests: the domains of each that was placed, by label, or why not.
fn placed(text: &str, label: &str) -> Vec<Result<BTreeSet<String>, String>> {
    let manifests = written(text).unwrap_or_else(|error| panic!("{error}"));
    let mut cluster = cluster(&manifests);
    let framework = Framework::default();
    let mut answers = Vec::new();
    for group in &manifests.groups {
        let outcome = place_gang(&cluster, &framework, group).unwrap();
        let Outcome::Placed(plan) = &outcome else {
            let pods = group.all_pods();
            let gates = pods.iter().flat_map(|pod| pod.scheduling_gates.clone());
            let gates = gates.collect::<BTreeSet<_>>();
            let proof = match &outcome {
                Outcome::Unplaced(unplaced) => {
                    unplaced.certificate.as_ref().map_or(String::new(), ToString::to_string)
                }
                _ => String::new(),
            };
            answers.push(Err(format!("{outcome} {gates:?} {proof}")));
            continue;
        };
        reference::is_sound(plan, group, &cluster, &framework).unwrap();
        let domain = |node: &str| cluster.node(node).unwrap().label(label).unwrap().to_owned();
        answers.push(Ok(plan.assignments().map(|at| domain(at.node())).collect()));
        cluster.commit(&framework, plan).unwrap();
    }
    answers
}

/// A group that is placed in one domain of a label, and the same with more members than any domain
/// has room for: not placed, and the answer names the level.
fn holds(manifest: impl Fn(usize) -> String, label: &str, fits: usize, level: &str) {
    let placed_whole = placed(&format!("{}{}", nodes(), manifest(fits)), label);
    assert_eq!(placed_whole.len(), 1);
    assert_eq!(placed_whole[0].as_ref().map(BTreeSet::len), Ok(1), "{placed_whole:?}");
    let refused = placed(&format!("{}{}", nodes(), manifest(fits + 1)), label);
    let why = refused[0].as_ref().expect_err("more than any domain has room for");
    assert!(why.contains(level), "{why}");
}

fn kueue_job(pods: usize, annotations: &str) -> String {
    format!(
        "---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {{name: default}}
spec: {{levels: [{{nodeLabel: block}}, {{nodeLabel: rack}}, {{nodeLabel: kubernetes.io/hostname}}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: tas, labels: {{kueue.x-k8s.io/queue-name: q}}}}
spec:
  parallelism: {pods}
  completions: {pods}
  template:
    metadata: {{annotations: {{{annotations}}}}}
    spec: {{{GPUS}}}
"
    )
}

#[test]
fn kueues_annotations_are_in_force() {
    let required = "kueue.x-k8s.io/podset-required-topology: rack";
    holds(|pods| kueue_job(pods, required), "rack", 2, "rack");
    // Preferred: two racks of one block rather than nothing.
    let preferred = "kueue.x-k8s.io/podset-preferred-topology: rack";
    let text = format!("{}{}", nodes(), kueue_job(3, preferred));
    assert_eq!(placed(&text, "block")[0].as_ref().map(BTreeSet::len), Ok(1));
    // Four slices of two fill the racks; slices of three fit none.
    let slices = |size: usize, pods: usize| {
        let annotations = format!(
            "kueue.x-k8s.io/podset-slice-required-topology: rack, kueue.x-k8s.io/podset-slice-size: \"{size}\""
        );
        placed(&format!("{}{}", nodes(), kueue_job(pods, &annotations)), "rack").remove(0)
    };
    assert_eq!(slices(2, 8).map(|racks| racks.len()), Ok(4));
    let why = slices(3, 6).expect_err("no rack takes three");
    assert!(why.contains("rack"), "{why}");
    // A level that the topology does not have.
    let unknown = kueue_job(2, "kueue.x-k8s.io/podset-required-topology: row");
    let why = placed(&format!("{}{unknown}", nodes()), "rack").remove(0).unwrap_err();
    assert!(
        why.contains("podset-topology is not in force: the level \\\"row\\\" is not there"),
        "{why}"
    );
}

fn hyper_nodes() -> String {
    let mut text = String::new();
    for rack in 0..4 {
        let (first, second) = (rack * 2, rack * 2 + 1);
        let members = match rack {
            0 => format!(
                "[{{type: Node, selector: {{exactMatch: {{name: n{first}}}}}}}, {{type: Node, selector: {{exactMatch: {{name: n{second}}}}}}}]"
            ),
            1 => format!(
                "[{{type: Node, selector: {{labelMatch: {{matchLabels: {{rack: r{rack}}}}}}}}}]"
            ),
            _ => format!(
                "[{{type: Node, selector: {{regexMatch: {{pattern: \"^n[{first}{second}]$\"}}}}}}]"
            ),
        };
        let _ = write!(
            text,
            "---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {{name: s{rack}}}
spec: {{tier: 1, members: {members}}}
"
        );
    }
    for (block, pattern) in [("s4", "^s[01]$"), ("s5", "^s[23]$")] {
        let _ = write!(
            text,
            "---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {{name: {block}}}
spec:
  tier: 2
  tierName: spine
  members: [{{type: HyperNode, selector: {{regexMatch: {{pattern: \"{pattern}\"}}}}}}]
"
        );
    }
    text
}

fn volcano_job(pods: usize, topology: &str) -> String {
    format!(
        "{}---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: mpi}}
spec:
  minAvailable: {pods}
  schedulerName: volcano
  networkTopology: {topology}
  tasks: [{{name: worker, replicas: {pods}, template: {{spec: {{{GPUS}}}}}}}]
",
        hyper_nodes()
    )
}

#[test]
fn volcanos_tiers_are_in_force() {
    let tier = |tier: usize| format!("{{mode: hard, highestTierAllowed: {tier}}}");
    holds(|pods| volcano_job(pods, &tier(1)), "rack", 2, "tier-1");
    holds(|pods| volcano_job(pods, &tier(2)), "block", 4, "tier-2");
    holds(|pods| volcano_job(pods, "{highestTierName: spine}"), "block", 4, "tier-2");
    // Soft, and hard without a tier: the closest that will do.
    for topology in ["{mode: soft}", "{mode: hard}"] {
        let text = |pods| format!("{}{}", nodes(), volcano_job(pods, topology));
        assert_eq!(placed(&text(2), "rack")[0].as_ref().map(BTreeSet::len), Ok(1));
        assert_eq!(placed(&text(4), "block")[0].as_ref().map(BTreeSet::len), Ok(1));
        assert_eq!(placed(&text(6), "block")[0].as_ref().map(BTreeSet::len), Ok(2));
    }
    let unknown = volcano_job(2, "{highestTierName: leaf}");
    let why = placed(&format!("{}{unknown}", nodes()), "rack").remove(0).unwrap_err();
    assert!(
        why.contains("spec.networkTopology is not in force: the level \\\"leaf\\\" is not there"),
        "{why}"
    );
}

/// A group of Volcano's with two subgroups of so many pods each, and the pods.
fn subgroups(size: usize, policy: &str) -> String {
    let mut text = format!(
        "{}---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: parts}}
spec:
  minMember: {}
  networkTopology: {{mode: hard, highestTierAllowed: 2}}
  subGroupPolicy:
  - name: part
    labelSelector: {{matchLabels: {{role: worker}}}}
    matchLabelKeys: [part]
    subGroupSize: {size}
    minSubGroups: 2
    networkTopology: {policy}
",
        hyper_nodes(),
        2 * size
    );
    for at in 0..2 * size {
        let _ = write!(
            text,
            "---
apiVersion: v1
kind: Pod
metadata: {{name: w{at}, labels: {{role: worker, part: \"{}\"}}, annotations: {{scheduling.k8s.io/group-name: parts}}}}
spec: {{{GPUS}}}
",
            at % 2
        );
    }
    text
}

#[test]
fn subgroups_of_volcano_are_each_in_their_tier() {
    let hard = "{mode: hard, highestTierAllowed: 1}";
    let manifests = written(&format!("{}{}", nodes(), subgroups(2, hard))).unwrap();
    let group = &manifests.groups[0];
    let (cluster, framework) = (cluster(&manifests), Framework::default());
    let Outcome::Placed(plan) = place_gang(&cluster, &framework, group).unwrap() else {
        panic!("two racks of a block take it");
    };
    reference::is_sound(&plan, group, &cluster, &framework).unwrap();
    let label = |node: &str, key: &str| cluster.node(node).unwrap().label(key).unwrap().to_owned();
    let racks = |part: &str| -> BTreeSet<String> {
        let own = plan.assignments().filter(|at| at.pod().shape().labels["part"] == part);
        own.map(|at| label(at.node(), "rack")).collect()
    };
    assert_eq!((racks("0").len(), racks("1").len()), (1, 1));
    assert_ne!(racks("0"), racks("1"));
    let blocks: BTreeSet<String> = plan.assignments().map(|at| label(at.node(), "block")).collect();
    assert_eq!(blocks.len(), 1);
    // Three pods of four GPUs have no rack; without the tier the block still has no room for six.
    let why = placed(&format!("{}{}", nodes(), subgroups(3, hard)), "rack").remove(0).unwrap_err();
    assert!(why.contains("tier"), "{why}");
    // A pod that is in no subgroup, and a policy too many, are refused by name.
    let lost = subgroups(2, hard)
        .replace("name: w3, labels: {role: worker", "name: w3, labels: {role: none");
    let why = placed(&format!("{}{lost}", nodes()), "rack").remove(0).unwrap_err();
    assert!(why.contains("in none of its subgroups"), "{why}");
    let twice =
        subgroups(2, hard).replace("  - name: part\n", "  - {name: other}\n  - name: part\n");
    let why = placed(&format!("{}{twice}", nodes()), "rack").remove(0).unwrap_err();
    assert!(why.contains("/spec/subGroupPolicy/0"), "{why}");
}

#[test]
fn enough_subgroups_of_volcano_may_start() {
    let soft = "{mode: soft}";
    let text = subgroups(2, soft).replace("minSubGroups: 2", "minSubGroups: 1");
    let text = text.replace("minMember: 4", "minMember: 2");
    let manifests = written(&format!("{}{text}", nodes())).unwrap();
    let group = &manifests.groups[0];
    assert_eq!(group.policy.minimum(), 1);
    assert_eq!((group.min_pods, group.groups.len()), (Some(2), 2));
    assert!(group.groups.iter().all(|inner| inner.policy.minimum() == 2));
    let names: Vec<&str> = group.groups.iter().map(|inner| inner.name.as_str()).collect();
    assert_eq!(names, ["parts-part-0", "parts-part-1"]);
}

#[test]
fn partitions_of_volcanos_tasks_are_each_in_their_tier() {
    let job = |size: usize| {
        let text = format!(
            "{}---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: parts}}
spec:
  tasks:
    - name: worker
      replicas: {}
      partitionPolicy:
        totalPartitions: 2
        partitionSize: {size}
        minPartitions: 2
        networkTopology: {{mode: hard, highestTierAllowed: 1}}
      template: {{spec: {{{GPUS}}}}}
",
            hyper_nodes(),
            2 * size
        );
        placed(&format!("{}{text}", nodes()), "rack").remove(0)
    };
    assert_eq!(job(2).map(|racks| racks.len()), Ok(2));
    let why = job(3).expect_err("no tier takes three");
    assert!(why.contains("tier-1"), "{why}");
}

const KAI_TOPOLOGY: &str = "---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: tree}
spec: {levels: [{nodeLabel: block, alias: hall}, {nodeLabel: rack}]}
";

fn kai_group(pods: usize, topology: &str) -> String {
    let mut text = format!(
        "{KAI_TOPOLOGY}---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {{name: pg}}
spec:
  minSubGroup: 2
  queue: team
  topologyConstraint: {{topology: {topology}, requiredTopologyLevel: hall}}
  subGroups:
    - {{name: a, minMember: {pods}, topologyConstraint: {{topology: tree, requiredTopologyLevel: rack}}}}
    - {{name: b, minMember: 1}}
"
    );
    for (group, count) in [("a", pods), ("b", 1)] {
        for index in 0..count {
            let _ = write!(
                text,
                "---
apiVersion: v1
kind: Pod
metadata: {{name: {group}{index}, annotations: {{pod-group-name: pg}}, labels: {{kai.scheduler/subgroup-name: {group}}}}}
spec: {{schedulerName: kai-scheduler, {GPUS}}}
"
            );
        }
    }
    text
}

#[test]
fn kais_groups_and_levels_are_in_force() {
    holds(|pods| kai_group(pods, "tree"), "block", 2, "rack");
    let why =
        placed(&format!("{}{}", nodes(), kai_group(2, "none")), "rack").remove(0).unwrap_err();
    assert!(why.contains("spec.topologyConstraint is not in force"), "{why}");
    assert!(why.contains("the topology \\\"none\\\" is not there"), "{why}");
    // By annotation, on a workload; segments on the template.
    let job = |workers: usize, size: usize| {
        let text = format!(
            "{}{KAI_TOPOLOGY}---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: torch}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: {workers}
      template:
        metadata:
          annotations:
            kai.scheduler/topology: tree
            kai.scheduler/segment-size: \"{size}\"
            kai.scheduler/segment-topology-required-placement: rack
        spec: {{{GPUS}}}
",
            nodes()
        );
        placed(&text, "rack").remove(0)
    };
    assert_eq!(job(6, 2).map(|racks| racks.len()), Ok(3));
    assert!(job(6, 3).unwrap_err().contains("rack"));
}

#[test]
fn koordinators_layers_are_in_force() {
    let group = |pods: usize| {
        let mut text = format!(
            "---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {{name: default}}
spec:
  networkTopologySpec:
    - {{topologyLayer: BlockLayer, parentTopologyLayer: ClusterTopologyLayer, labelKey: [block]}}
    - {{topologyLayer: RackLayer, parentTopologyLayer: BlockLayer, labelKey: [rack]}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: gang
  annotations:
    gang.scheduling.koordinator.sh/network-topology-spec: >-
      {{\"gatherStrategy\": [{{\"layer\": \"BlockLayer\", \"strategy\": \"MustGather\"}}, {{\"layer\": \"RackLayer\", \"strategy\": \"PreferGather\"}}]}}
spec: {{minMember: {pods}}}
"
        );
        for index in 0..pods {
            let _ = write!(
                text,
                "---
apiVersion: v1
kind: Pod
metadata: {{name: p{index}, labels: {{pod-group.scheduling.sigs.k8s.io: gang}}}}
spec: {{{GPUS}}}
"
            );
        }
        text
    };
    holds(group, "block", 4, "block");
    assert_eq!(
        placed(&format!("{}{}", nodes(), group(2)), "rack")[0].as_ref().map(BTreeSet::len),
        Ok(1)
    );
}

#[test]
fn yunikorns_task_groups_are_placed_together_or_not_at_all() {
    let application = |workers: usize| {
        let mut text = String::new();
        for index in 0..=workers {
            let group = if index == 0 { "driver" } else { "worker" };
            let groups = format!(
                ", yunikorn.apache.org/task-groups: '[{{\"name\": \"driver\", \"minMember\": 1, \"minResource\": {{}}}}, {{\"name\": \"worker\", \"minMember\": {workers}, \"minResource\": {{}}}}]'"
            );
            let groups = if index == 0 { groups.as_str() } else { "" };
            let _ = write!(
                text,
                "---
apiVersion: v1
kind: Pod
metadata:
  name: p{index}
  labels: {{applicationId: app-1, queue: root.sandbox}}
  annotations: {{yunikorn.apache.org/task-group-name: {group}{groups}}}
spec: {{schedulerName: yunikorn, {GPUS}}}
"
            );
        }
        text
    };
    let all = placed(&format!("{}{}", nodes(), application(7)), "rack");
    assert_eq!(all.len(), 1, "one gang");
    assert_eq!(all[0].as_ref().map(BTreeSet::len), Ok(4));
    let none = placed(&format!("{}{}", nodes(), application(8)), "rack");
    assert!(none[0].is_err(), "{none:?}");
}

#[test]
fn what_is_malformed_is_an_error_with_its_field() {
    for (text, error) in [
        (
            kueue_job(2, "kueue.x-k8s.io/podset-slice-size: \"2\""),
            "stands without podset-slice-required-topology",
        ),
        (
            kueue_job(
                2,
                "kueue.x-k8s.io/podset-required-topology: rack, kueue.x-k8s.io/podset-preferred-topology: rack",
            ),
            "stands beside podset-required-topology",
        ),
        (volcano_job(2, "{mode: firm}"), "\"firm\" is not one of hard, soft"),
        (
            volcano_job(2, "{highestTierAllowed: 1, highestTierName: spine}"),
            "has both highestTierAllowed and highestTierName",
        ),
        (hyper_nodes().replace("^s[01]$", "("), "is no regular expression that is read"),
    ] {
        let found = written(&text).unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
    assert!(stored(&volcano_job(2, "{mode: firm}")).is_err());
}
