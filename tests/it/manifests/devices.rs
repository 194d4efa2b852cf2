//! Parts of cards: what is granted, of which card, and how it is written back.

use std::collections::BTreeMap;

use phalanx::kubernetes::Manifests;
use phalanx::{Cluster, Framework, Outcome, place_gang, reference};

use super::reading::written;

/// A dialect: a node with two cards of 16 GiB by what each has in use, and a pod that asks.
struct Dialect {
    node: fn() -> String,
    /// A pod that runs with a share of a card, in hundredths.
    runs: fn(card: usize, share: usize) -> String,
    /// A pod that asks for a share of a card, or for a whole one.
    asks: fn(share: usize) -> String,
    /// The annotation written back, for a share of a card.
    written: fn(card: usize, share: usize) -> (&'static str, String),
}

fn pod(name: &str, annotations: &str, more: &str, limits: &str) -> String {
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

const DIALECTS: [Dialect; 3] = [
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
            let memory = (16_usize << 30) / 100 * share + (16_usize << 30) % 100 * share / 100;
            let ratio = memory * 100 / (16 << 30);
            (
                "scheduling.koordinator.sh/device-allocated",
                format!(
                    "{{\"gpu\":[{{\"minor\":{card},\"resources\":{{\"koordinator.sh/gpu-core\":\"{share}\",\"koordinator.sh/gpu-memory\":\"{memory}\",\"koordinator.sh/gpu-memory-ratio\":\"{ratio}\"}}}}]}}"
                ),
            )
        },
    },
];

fn node(annotations: &str, more: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Node
metadata: {{name: n1, annotations: {{{annotations}}}}}
status: {{allocatable: {{pods: 10, {more}}}}}
"
    )
}

fn place(manifests: &Manifests) -> Result<(Vec<Vec<u32>>, BTreeMap<String, String>), String> {
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
        return Err(format!("{outcome} {gates:?}"));
    };
    reference::is_sound(plan, group, &cluster, &framework).unwrap();
    let at = plan.assignments().next().unwrap();
    let devices: Vec<Vec<u32>> = at.devices().to_vec();
    let annotations = manifests.devices["n1"].annotations(at.node(), at.pod(), &devices);
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
        ("gpu-fraction: \"0.5\"", "cpu: 1", "/metadata/annotations/gpu-fraction"),
        ("", "hygon.com/dcunum: 1, hygon.com/dcumem: 100", "/limits/hygon.com~1dcumem"),
        ("nvidia.com/use-gputype: A100", "nvidia.com/gpu: 1", "nvidia.com~1use-gputype"),
        ("", "koordinator.sh/rdma: 100", "koordinator.sh~1rdma"),
    ] {
        let manifests = written(&pod("new", annotations, "restartPolicy: Never", limits)).unwrap();
        let gates = &manifests.groups[0].pods[0].scheduling_gates;
        assert!(gates.iter().any(|gate| gate.contains(path)), "{path}: {gates:?}");
    }
}
