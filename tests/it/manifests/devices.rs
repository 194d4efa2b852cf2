//! Parts of cards: what is granted, of which card, and how it is written back.

use std::collections::BTreeMap;

use phalanx::kubernetes::Manifests;
use phalanx::{Cluster, Framework, Outcome, explain, place_gang, reference};

use super::reading::written;

/// A dialect: a node with two cards of 16 GiB by what each has in use, and a pod that asks.
pub(super) struct Dialect {
    pub(super) node: fn() -> String,
    /// A pod that runs with a share of a card, in hundredths.
    pub(super) runs: fn(card: usize, share: usize) -> String,
    /// A pod that asks for a share of a card, or for a whole one.
    pub(super) asks: fn(share: usize) -> String,
    /// The annotation written back, for a share of a card.
    written: fn(card: usize, share: usize) -> (&'static str, String),
}

pub(super) fn pod(name: &str, annotations: &str, more: &str, limits: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{{annotations}}}}}
spec:
  {more}
  containers:
    - {{name: sidecar}}
    - {{name: main, resources: {{limits: {{{limits}}}}}}}
"
    )
}

const MIB: usize = 16_384;

fn per_card(prefix: [&str; 3], share: usize) -> String {
    let [count, memory, cores] = prefix;
    match share {
        100 => format!("{count}: 1"),
        _ => format!("{count}: 1, {memory}: {}, {cores}: {share}", MIB * share / 100),
    }
}

fn text(card: usize, share: usize) -> String {
    format!("GPU-{card},NVIDIA,{},{share}:", MIB * share / 100)
}

const HAMI: [&str; 3] = ["nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"];
const VOLCANO: [&str; 3] =
    ["volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"];

fn koordinator_limits(share: usize) -> String {
    format!("koordinator.sh/gpu-core: {share}, koordinator.sh/gpu-memory-ratio: {share}")
}

pub(super) const DIALECTS: [Dialect; 3] = [
    Dialect {
        node: || {
            let card = |at: usize| {
                format!(
                    "{{\"id\":\"GPU-{at}\",\"count\":10,\"devmem\":{MIB},\"devcore\":100,\"type\":\"NVIDIA-V100\",\"numa\":0,\"health\":true,\"index\":{at}}}"
                )
            };
            node(
                &format!("hami.io/node-nvidia-register: '[{},{}]'", card(0), card(1)),
                "nvidia.com/gpu: 20",
            )
        },
        runs: |card, share| {
            let held = format!("hami.io/vgpu-devices-allocated: ';{};'", text(card, share));
            pod(&format!("on{card}"), &held, "nodeName: n1", &per_card(HAMI, share))
        },
        asks: |share| pod("new", "", "restartPolicy: Never", &per_card(HAMI, share)),
        written: |card, share| {
            ("hami.io/vgpu-devices-allocated", format!(";{};", text(card, share)))
        },
    },
    Dialect {
        node: || {
            let card = |at: usize| format!("GPU-{at},10,{MIB},NVIDIA-V100,true,hami-core:");
            let cards = format!("volcano.sh/node-vgpu-register: '{}{}'", card(0), card(1));
            node(&cards, "volcano.sh/vgpu-number: 20")
        },
        runs: |card, share| {
            let held = format!("volcano.sh/vgpu-ids-new: ';{}'", text(card, share));
            pod(&format!("on{card}"), &held, "nodeName: n1", &per_card(VOLCANO, share))
        },
        asks: |share| pod("new", "", "restartPolicy: Never", &per_card(VOLCANO, share)),
        written: |card, share| ("volcano.sh/vgpu-ids-new", format!(";{}", text(card, share))),
    },
    Dialect {
        node: || {
            let card = |at: usize| {
                format!(
                    "{{type: gpu, id: GPU-{at}, minor: {at}, health: true, resources: {{koordinator.sh/gpu-core: 100, koordinator.sh/gpu-memory-ratio: 100, koordinator.sh/gpu-memory: 16Gi}}}}"
                )
            };
            format!(
                "{}---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Device
metadata: {{name: n1}}
spec: {{devices: [{}, {}]}}
",
                node("", "cpu: 8"),
                card(0),
                card(1)
            )
        },
        runs: |card, share| {
            let held = format!(
                "scheduling.koordinator.sh/device-allocated: '{{\"gpu\":[{{\"minor\":{card},\"resources\":{{}}}}]}}'"
            );
            pod(&format!("on{card}"), &held, "nodeName: n1", &koordinator_limits(share))
        },
        asks: |share| pod("new", "", "restartPolicy: Never", &koordinator_limits(share)),
        written: |card, share| {
            let (card_memory, share) = (16_u64 << 30, share as u64);
            let memory = card_memory / 100 * share + card_memory % 100 * share / 100;
            let ratio = memory * 100 / card_memory;
            (
                "scheduling.koordinator.sh/device-allocated",
                format!(
                    "{{\"gpu\":[{{\"minor\":{card},\"resources\":{{\"koordinator.sh/gpu-core\":\"{share}\",\"koordinator.sh/gpu-memory\":\"{memory}\",\"koordinator.sh/gpu-memory-ratio\":\"{ratio}\"}}}}]}}"
                ),
            )
        },
    },
];

pub(super) fn node(annotations: &str, more: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Node
metadata: {{name: n1, annotations: {{{annotations}}}}}
status: {{allocatable: {{pods: 10, {more}}}}}
"
    )
}

pub(super) fn place(
    manifests: &Manifests,
) -> Result<(Vec<Vec<u32>>, BTreeMap<String, String>), String> {
    let mut cluster = Cluster::new();
    for node in &manifests.nodes {
        cluster.add_node(node.clone()).unwrap();
    }
    for pod in &manifests.bound {
        cluster.add_pod(pod.clone()).unwrap();
    }
    let framework = Framework::default();
    let group = &manifests.groups[0];
    let outcome = place_gang(&cluster, &framework, group).unwrap();
    let Outcome::Placed(plan) = &outcome else {
        let gates = &group.pods[0].scheduling_gates;
        let why = explain(&cluster, &framework, group, None).unwrap();
        return Err(format!("{why} {gates:?}"));
    };
    reference::is_sound(plan, group, &cluster, &framework).unwrap();
    let at = plan.assignments().next().unwrap();
    let devices: Vec<Vec<u32>> = at.devices().to_vec();
    // A node whose plugin only counts has no cards that are known.
    let cards = manifests.devices.get("n1");
    let annotations = cards.map(|cards| cards.annotations(at.node(), at.pod(), &devices));
    let annotations = annotations.unwrap_or_default();
    Ok((devices, annotations))
}

#[test]
fn cards_are_given_as_their_shares_allow_and_written_as_their_plugins_read_them() {
    for dialect in &DIALECTS {
        // What is in use of the two cards; what is asked; the card that serves it.
        for (used, asked, card) in [
            ([50, 0], 50, Some(0)), // Half is left of one: the tightest fit.
            ([50, 0], 60, Some(1)),
            ([0, 50], 100, Some(0)), // A whole one where none of it is in use.
            ([50, 50], 50, Some(0)),
            ([50, 50], 60, None), // Two halves are no whole.
            ([50, 50], 100, None),
            ([100, 60], 40, Some(1)),
            ([100, 60], 50, None),
        ] {
            let mut text = (dialect.node)();
            for (at, share) in used.into_iter().enumerate().filter(|(_, share)| *share > 0) {
                text.push_str(&(dialect.runs)(at, share));
            }
            text.push_str(&(dialect.asks)(asked));
            let manifests = written(&text).unwrap_or_else(|error| panic!("{error}"));
            assert!(!manifests.nodes[0].unschedulable, "{:?}", manifests.notes);
            let found = place(&manifests);
            let case = format!("{used:?} {asked}: {found:?}");
            match card {
                None => assert!(found.is_err(), "{case}"),
                Some(card) => {
                    let (devices, annotations) = found.unwrap_or_else(|_| panic!("{case}"));
                    assert_eq!(devices, [[card as u32]], "{case}");
                    let (key, value) = (dialect.written)(card, asked);
                    assert_eq!(annotations[key], value, "{case}");
                }
            }
        }
    }
}

#[test]
fn cards_that_nobody_tells_of_close_their_node() {
    let [hami, ..] = &DIALECTS;
    let runs = (hami.runs)(0, 50).replace("vgpu-devices-allocated", "vgpu-devices-unknown");
    let manifests = written(&format!("{}{runs}", (hami.node)())).unwrap();
    assert!(manifests.nodes[0].unschedulable);
    assert!(manifests.notes.iter().any(|note| note.text.contains("which cards its pods hold")));
}

#[test]
fn a_part_of_cards_that_differ_is_refused_by_name() {
    let text = (DIALECTS[0].node)().replacen("16384", "8192", 1);
    let asks = pod(
        "new",
        "",
        "restartPolicy: Never",
        "nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50",
    );
    let manifests = written(&format!("{text}{asks}")).unwrap();
    let gates = &manifests.groups[0].pods[0].scheduling_gates;
    assert!(gates[0].contains("differ in memory"), "{gates:?}");
}

#[test]
fn dialects_of_devices_that_are_not_read_are_refused() {
    for (annotations, limits, path) in [
        ("mps: \"true\"", "cpu: 1", "/metadata/annotations/mps"),
        ("", "hygon.com/dcunum: 1, hygon.com/dcumem: 100", "/limits/hygon.com~1dcumem"),
        ("nvidia.com/use-gputype: A100", "nvidia.com/gpu: 1", "nvidia.com~1use-gputype"),
        ("", "koordinator.sh/fpga: 100", "koordinator.sh~1fpga"),
    ] {
        let manifests = written(&pod("new", annotations, "restartPolicy: Never", limits)).unwrap();
        let gates = &manifests.groups[0].pods[0].scheduling_gates;
        assert!(gates.iter().any(|gate| gate.contains(path)), "{path}: {gates:?}");
    }
}

/// A node with two GPUs that KAI gives away in fractions.
pub(super) fn kai_node() -> String {
    node("", "cpu: 8, nvidia.com/gpu: 2").replace(
        "metadata: {name: n1,",
        "metadata: {name: n1, labels: {nvidia.com/gpu.memory: \"16384\"},",
    )
}

pub(super) fn kai_pod(name: &str, group: Option<&str>, annotations: &str, limits: &str) -> String {
    let Some(group) = group else {
        return pod(name, annotations, "restartPolicy: Never", limits);
    };
    pod(name, annotations, "nodeName: n1", limits)
        .replace("annotations:", &format!("labels: {{runai-gpu-group: {group}}}, annotations:"))
}

pub(super) fn labels(manifests: &Manifests, devices: &[Vec<u32>]) -> Vec<(String, String)> {
    let group = &manifests.groups[0];
    manifests.devices["n1"].labels(&group.pods[0], devices).into_iter().collect()
}

#[test]
fn fractions_of_kai_share_cards_by_group() {
    let label = |group: &str| vec![("runai-gpu-group".to_owned(), group.to_owned())];
    // Groups that run with their fractions; what is asked; the card that serves it, with its group.
    type Case =
        (&'static [(&'static str, &'static str)], &'static str, Option<(u32, &'static str)>);
    let cases: [Case; 8] = [
        (&[("b", "0.5")], "gpu-fraction: \"0.5\"", Some((0, "b"))),
        (&[("b", "0.5")], "gpu-fraction: \"0.6\"", Some((1, "n1-1"))),
        (&[("a", "0.5"), ("b", "0.5")], "gpu-fraction: \"0.5\"", Some((0, "a"))),
        (&[("a", "0.75"), ("b", "0.5")], "gpu-fraction: \"0.5\"", Some((1, "b"))),
        (&[("a", "0.5"), ("b", "0.5")], "gpu-fraction: \"0.6\"", None),
        (&[("a", "0.5")], "gpu-memory: \"8192\"", Some((0, "a"))),
        (&[("a", "0.5")], "gpu-memory: \"8193\"", Some((1, "n1-1"))),
        (&[("a", "0.5"), ("b", "0.6")], "gpu-memory: \"8193\"", None),
    ];
    for (runs, asked, expected) in cases {
        let mut text = kai_node();
        for (group, fraction) in runs {
            let fraction = format!("gpu-fraction: \"{fraction}\"");
            text.push_str(&kai_pod(&format!("on-{group}"), Some(group), &fraction, "cpu: 1"));
        }
        text.push_str(&kai_pod("new", None, asked, "cpu: 1"));
        let manifests = written(&text).unwrap();
        let found = place(&manifests);
        match expected {
            None => assert!(found.is_err(), "{runs:?} {asked}: {found:?}"),
            Some((card, group)) => {
                let (devices, annotations) = found.unwrap();
                assert_eq!(devices, [[card]], "{runs:?} {asked}");
                assert_eq!(annotations["received-resource-type"], "Fraction");
                assert_eq!(labels(&manifests, &devices), label(group));
            }
        }
    }
}

#[test]
fn fractions_of_kai_and_whole_gpus_keep_out_of_each_others_way() {
    let half = "gpu-fraction: \"0.5\"";
    let whole = "nvidia.com/gpu: 1";
    let place_beside = |runs: &[String], new: String| {
        let manifests = written(&format!("{}{}{new}", kai_node(), runs.concat())).unwrap();
        place(&manifests).map(|(devices, _)| (labels(&manifests, &devices), devices))
    };
    let on = |name: &str| pod(name, "", "nodeName: n1", whole);
    let fraction = |name: &str, group: &str| kai_pod(name, Some(group), half, "cpu: 1");
    // A whole card where no fraction is, and none where two cards have one.
    let new = || kai_pod("new", None, "", whole);
    assert_eq!(place_beside(&[fraction("a", "a")], new()).unwrap().1, [[1]]);
    assert!(place_beside(&[fraction("a", "a"), fraction("b", "b")], new()).is_err());
    // Fractions of two cards, of which one has room beside a group, and the other is whole.
    let two =
        || kai_pod("new", None, &format!("{half}, gpu-fraction-num-devices: \"2\""), "cpu: 1");
    let (labels, devices) = place_beside(&[fraction("a", "a")], two()).unwrap();
    assert_eq!(devices, [[0, 1]]);
    let several = [("runai-gpu-group/a", "a"), ("runai-gpu-group/n1-1", "n1-1")];
    assert_eq!(labels, several.map(|(key, id)| (key.to_owned(), id.to_owned())));
    assert!(place_beside(&[on("w")], two()).is_err());
    // The pod that holds the card for the group is not counted beside it.
    let reserved = on("r").replace("name: r,", "name: r, namespace: kai-resource-reservation,");
    let another = kai_pod("new", None, half, "cpu: 1");
    let runs = [fraction("a", "a"), reserved, on("w")];
    assert_eq!(place_beside(&runs, another).unwrap().1, [[0]]);
}

#[test]
fn fractions_of_kai_that_make_no_sense_are_refused_by_name() {
    let memory_unknown = kai_node().replace("nvidia.com/gpu.memory", "unknown");
    for (node, annotations, limits, words) in [
        (kai_node(), "gpu-fraction: \"1.5\"", "cpu: 1", "between 0 and 1"),
        (kai_node(), "gpu-fraction: \"half\"", "cpu: 1", "between 0 and 1"),
        (kai_node(), "gpu-memory: \"-1\"", "cpu: 1", "no number of MiB"),
        (kai_node(), "gpu-fraction: \"0.5\", gpu-memory: \"1\"", "cpu: 1", "beside gpu-memory"),
        (kai_node(), "gpu-fraction: \"0.5\"", "nvidia.com/gpu: 1", "beside nvidia.com/gpu"),
        (
            kai_node(),
            "gpu-fraction: \"0.5\", gpu-fraction-num-devices: \"0\"",
            "cpu: 1",
            "gpu-fraction-num-devices",
        ),
        (
            kai_node(),
            "gpu-fraction: \"0.5\", gpu-fraction-container-name: other",
            "cpu: 1",
            "gpu-fraction-container-name",
        ),
        (memory_unknown, "gpu-memory: \"1\"", "cpu: 1", "is not known"),
        ((DIALECTS[0].node)(), "gpu-fraction: \"0.5\"", "cpu: 1", "registered by HAMi"),
    ] {
        let text = format!("{node}{}", kai_pod("new", None, annotations, limits));
        let manifests = written(&text).unwrap();
        let gates = &manifests.groups[0].pods[0].scheduling_gates;
        assert!(gates.iter().any(|gate| gate.contains(words)), "{annotations}: {gates:?}");
    }
}

/// Four GPUs and two network cards of Koordinator's on two PCIe switches, with a partition table.
fn linked(policy: &str) -> String {
    let card = |at: usize| {
        format!(
            "{{type: gpu, id: GPU-{at}, minor: {at}, health: true, topology: {{nodeID: {0}, pcieID: pci{0}}}, resources: {{koordinator.sh/gpu-core: 100, koordinator.sh/gpu-memory-ratio: 100, koordinator.sh/gpu-memory: 16Gi}}}}",
            at / 2
        )
    };
    let nic = |at: usize| {
        format!(
            "{{type: rdma, id: nic-{at}, minor: {at}, health: true, topology: {{nodeID: {at}, pcieID: pci{at}}}, resources: {{koordinator.sh/rdma: 100}}}}"
        )
    };
    let cards: Vec<String> = (0..4).map(card).chain((0..2).map(nic)).collect();
    format!(
        "{}---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Device
metadata:
  name: n1
  labels: {{node.koordinator.sh/gpu-partition-policy: {policy}}}
  annotations:
    scheduling.koordinator.sh/gpu-partitions: |
      {{\"1\": [{{\"minors\": [0]}}, {{\"minors\": [1]}}, {{\"minors\": [2]}}, {{\"minors\": [3]}}],
        \"2\": [{{\"minors\": [0, 1], \"allocationScore\": \"1\"}}, {{\"minors\": [2, 3], \"allocationScore\": 2}}]}}
spec: {{devices: [{}]}}
",
        node("", "cpu: 8"),
        cards.join(", ")
    )
}

fn holding(minor: usize) -> String {
    let held = format!(
        "scheduling.koordinator.sh/device-allocated: '{{\"gpu\":[{{\"minor\":{minor},\"resources\":{{}}}}]}}'"
    );
    pod(&format!("on{minor}"), &held, "nodeName: n1", "koordinator.sh/gpu: 100")
}

#[test]
fn partitions_of_koordinator_bind_where_its_policy_says_so() {
    let restricted =
        "scheduling.koordinator.sh/gpu-partition-spec: '{\"allocatePolicy\": \"Restricted\"}'";
    type Case = (&'static str, &'static [usize], &'static str, usize, Option<&'static [u32]>);
    let cases: [Case; 10] = [
        ("Honor", &[], "", 200, Some(&[2, 3])),
        ("Honor", &[3], "", 200, Some(&[0, 1])),
        ("Honor", &[0, 3], "", 200, None),
        ("Prefer", &[0, 3], "", 200, Some(&[1, 2])),
        ("Prefer", &[3], "", 200, Some(&[0, 1])),
        ("Honor", &[3], restricted, 200, None),
        ("Honor", &[], restricted, 200, Some(&[2, 3])),
        ("Honor", &[], "", 300, None),
        // One GPU, so that the better pair stays whole.
        ("Honor", &[], "", 100, Some(&[0])),
        ("Honor", &[0], "", 100, Some(&[1])),
    ];
    for (policy, held, annotations, asked, expected) in cases {
        let mut text = linked(policy);
        held.iter().for_each(|minor| text.push_str(&holding(*minor)));
        let limits = format!("koordinator.sh/gpu: {asked}");
        text.push_str(&pod("new", annotations, "restartPolicy: Never", &limits));
        let found = place(&written(&text).unwrap());
        let case = format!("{policy} {held:?} {asked}: {found:?}");
        let devices = found.ok().map(|(devices, _)| devices[0].clone());
        assert_eq!(devices.as_deref(), expected, "{case}");
    }
}

#[test]
fn network_cards_of_koordinator_are_on_the_switches_of_the_gpus() {
    let joint = |scope: &str| {
        format!(
            "scheduling.koordinator.sh/device-joint-allocate: '{{\"deviceTypes\": [\"gpu\", \"rdma\"]{scope}}}'"
        )
    };
    let same = joint(", \"requiredScope\": \"SamePCIe\"");
    let limits =
        |gpus: u32, nics: u32| format!("koordinator.sh/gpu: {gpus}, koordinator.sh/rdma: {nics}");
    type Case = (&'static [usize], String, String, Option<&'static str>);
    let cases: [Case; 6] = [
        (&[], joint(""), limits(100, 100), Some("[[0], [4]]")),
        (&[0, 1], joint(""), limits(100, 50), Some("[[2], [5]]")),
        (&[], same.clone(), limits(400, 200), Some("[[0, 1, 2, 3], [4, 5]]")),
        (&[], same.clone(), limits(200, 200), Some("[[0, 2], [4, 5]]")),
        // Three GPUs are on both switches, and one card is on one.
        (&[0], same, limits(300, 100), None),
        (&[0], joint(""), limits(300, 100), Some("[[1, 2, 3], [4]]")),
    ];
    for (held, annotations, limits, expected) in cases {
        let mut text = linked("Prefer").replace("gpu-partitions", "no-partitions-at-all");
        text = text.replace("scheduling.koordinator.sh/no-", "example.com/no-");
        held.iter().for_each(|minor| text.push_str(&holding(*minor)));
        text.push_str(&pod("new", &annotations, "restartPolicy: Never", &limits));
        let found = place(&written(&text).unwrap());
        let case = format!("{held:?} {limits}: {found:?}");
        let devices = found.as_ref().ok().map(|(devices, _)| format!("{devices:?}"));
        assert_eq!(devices.as_deref(), expected, "{case}");
        if let (Ok((_, annotations)), true) = (&found, limits.ends_with(": 50")) {
            let written = &annotations["scheduling.koordinator.sh/device-allocated"];
            let nic = "\"rdma\":[{\"minor\":1,\"resources\":{\"koordinator.sh/rdma\":\"50\"}}]";
            assert!(written.ends_with(&format!("{nic}}}")), "{written}");
            assert_eq!(annotations["scheduling.koordinator.sh/gpu-minors"], "2");
        }
    }
}

#[test]
fn cards_of_hami_and_volcano_are_chosen_by_type() {
    let types = |one: &str, other: &str| {
        let node = (DIALECTS[0].node)().replacen("NVIDIA-V100", "one", 1);
        node.replace("NVIDIA-V100", other).replace("\"one\"", &format!("\"{one}\""))
    };
    let asks =
        |annotations: &str| pod("new", annotations, "restartPolicy: Never", &per_card(HAMI, 50));
    let cases: [(&str, Result<u32, &str>); 7] = [
        ("nvidia.com/use-gputype: a100", Ok(1)),
        ("nvidia.com/use-gputype: \"T4, V100\"", Ok(0)),
        ("nvidia.com/nouse-gputype: V100", Ok(1)),
        ("nvidia.com/use-gputype: NVIDIA, nvidia.com/nouse-gputype: a100", Ok(0)),
        ("nvidia.com/use-gputype: H200", Err("nvidia.com~1use-gputype is not in force: no card")),
        ("nvidia.com/nouse-gputype: NVIDIA", Err("nvidia.com~1nouse-gputype is not in force")),
        ("nvidia.com/use-gputype: \"\"", Ok(0)),
    ];
    for (annotations, expected) in cases {
        let text = format!("{}{}", types("NVIDIA-V100", "NVIDIA-A100"), asks(annotations));
        let found = place(&written(&text).unwrap());
        match expected {
            Ok(card) => assert_eq!(found.unwrap().0, [[card]], "{annotations}"),
            Err(words) => {
                let why = found.unwrap_err();
                assert!(why.contains(words), "{annotations}: {why}");
            }
        }
    }
    // A part of a card needs cards of equal memory among those that it may have, and no others.
    let uneven = types("NVIDIA-V100", "NVIDIA-A100").replacen("16384", "8192", 1);
    let percent = |annotations: &str| {
        let limits = "nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50";
        format!("{uneven}{}", pod("new", annotations, "restartPolicy: Never", limits))
    };
    assert!(place(&written(&percent("")).unwrap()).unwrap_err().contains("differ in memory"));
    let chosen = written(&percent("nvidia.com/use-gputype: A100")).unwrap();
    assert_eq!(place(&chosen).unwrap().0, [[1]]);
    // Where nobody registers cards, nothing is known of their types.
    let none = format!(
        "{}{}",
        node("", "nvidia.com/gpu: 2"),
        pod("new", "nvidia.com/use-gputype: A100", "restartPolicy: Never", "nvidia.com/gpu: 1")
    );
    let why = place(&written(&none).unwrap()).unwrap_err();
    assert!(why.contains("no cards are registered"), "{why}");
}

#[test]
fn cards_of_hami_are_of_one_numa_node_where_a_pod_says_so() {
    let node = (DIALECTS[0].node)();
    let apart = node.replacen("\"numa\":0", "\"numa\":1", 1);
    let asks = |bind: &str| {
        let annotations = format!("nvidia.com/numa-bind: \"{bind}\"");
        pod("new", &annotations, "restartPolicy: Never", "nvidia.com/gpu: 2")
    };
    for (node, bind, fits) in
        [(&node, "true", true), (&apart, "false", true), (&apart, "true", false)]
    {
        let found = place(&written(&format!("{node}{}", asks(bind))).unwrap());
        assert_eq!(found.is_ok(), fits, "{bind}: {found:?}");
    }
}
