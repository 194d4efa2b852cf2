//! Labels and annotations: the keys of each dialect, on pods, groups, workloads and nodes.

use alloc::vec::Vec;

use super::dialects::{
    AGENT, DEVICES, DIALECTS, HOLDS_CONTROLLER, KEY, LABEL_DIALECTS, PRIORITY, QUEUE,
    QUEUE_PREFIXES, TOPOLOGY, WRITTEN,
};
use super::rule::Rule::{Holds, Honoured, Ignored, Refused, Silent};
use super::rule::{Choice, Entry, Keys, Rule, Spot};
use crate::kubernetes::json;
use crate::kubernetes::mode::Mode;
use crate::kubernetes::value::Value;

const GANG: &str = "the gangs of this dialect are not read";
const NUMA: &str = "NUMA nodes of pods are not modelled";
const EXCLUSIVE: &str = "a domain for one group alone is not modelled";
const HOLDS_TOTAL: &str = "it is not below the minimum, and asks for nothing more";
const HOLDS_GANG: &str = "its pods are a gang anyway";
const HOLDS_APPLICATION: &str = "its pods are one group";
const NETWORK: &str = "the network plugin of the node reads it";

/// Gangs that pods name, in the dialects that are read.
const MEMBERSHIP_LABELS: &[Entry] = &[
    ("scheduling.x-k8s.io/pod-group", Honoured),
    ("pod-group.scheduling.sigs.k8s.io", Honoured),
    ("pod-group.scheduling.sigs.k8s.io/name", Honoured),
    ("pod-group.scheduling.sigs.k8s.io/min-available", Honoured),
];

/// Labels by which pods are queued, ranked or counted.
const POD_LABELS: &[Entry] = &[
    ("koordinator.sh/qosClass", Honoured),
    ("koordinator.sh/priority-class", Honoured),
    ("koordinator.sh/priority", Ignored(PRIORITY)),
    ("quota.scheduling.koordinator.sh/name", Honoured),
    ("quota.scheduling.koordinator.sh/preemptible", Ignored(PRIORITY)),
    ("kueue.x-k8s.io/queue-name", Ignored(QUEUE)),
    ("kueue.x-k8s.io/priority-class", Ignored(PRIORITY)),
    ("kueue.x-k8s.io/managed", Honoured),
    ("kueue.x-k8s.io/podset", Honoured),
    ("kueue.x-k8s.io/tas", Honoured),
    ("kueue.x-k8s.io/pod-group-name", Refused(GANG)),
    ("kai.scheduler/queue", Ignored(QUEUE)),
    ("kai.scheduler/preemptibility", Ignored(PRIORITY)),
    ("kai.scheduler/node-pool", Refused("node pools of KAI are not read")),
    ("kai.scheduler/subgroup-name", Honoured),
    ("runai/queue", Ignored(QUEUE)),
    ("runai-gpu-group", Honoured),
    ("runai/node-pool", Refused("node pools of KAI are not read")),
    ("yunikorn.apache.org/queue", Ignored(QUEUE)),
    ("yunikorn.apache.org/username", Ignored(QUEUE)),
    ("volcano.sh/queue-name", Ignored(QUEUE)),
    ("volcano.sh/preemptable", Ignored(PRIORITY)),
    ("volcano.sh/job-name", Honoured),
    ("volcano.sh/job-namespace", Honoured),
    ("volcano.sh/task-spec", Honoured),
    ("volcano.sh/task-index", Honoured),
    ("hami.io/vgpu-node", Honoured),
];

/// Labels that workloads are read by, beside those that bear on nothing.
const WORKLOAD_LABELS: &[Entry] = &[
    ("kueue.x-k8s.io/queue-name", Honoured),
    ("kueue.x-k8s.io/priority-class", Honoured),
    ("kueue.x-k8s.io/max-exec-time-seconds", Ignored(PRIORITY)),
    ("kueue.x-k8s.io/prebuilt-workload-name", Ignored(QUEUE)),
    ("kueue.x-k8s.io/managed", Holds(WRITTEN)),
    ("kai.scheduler/queue", Honoured),
    ("kai.scheduler/preemptibility", Ignored(PRIORITY)),
    ("kai.scheduler/node-pool", Refused("node pools of KAI are not read")),
    ("runai/queue", Ignored(QUEUE)),
    ("runai/node-pool", Refused("node pools of KAI are not read")),
    ("priorityClassName", Honoured),
    ("ray.io/priority-class-name", Honoured),
    ("ray.io/gang-scheduling-enabled", Holds(HOLDS_GANG)),
    ("volcano.sh/queue-name", Ignored(QUEUE)),
    ("volcano.sh/network-topology-mode", Honoured),
    ("volcano.sh/network-topology-highest-tier-allowed", Honoured),
    ("yunikorn.apache.org/queue", Ignored(QUEUE)),
    ("yunikorn.apache.org/app-id", Holds(HOLDS_APPLICATION)),
    ("applicationId", Holds(HOLDS_APPLICATION)),
    ("spark-app-selector", Holds(HOLDS_APPLICATION)),
    ("queue", Ignored(QUEUE)),
    ("ring-controller.atlas", Holds(HOLDS_CONTROLLER)),
    ("yunikorn.apache.org/username", Ignored(QUEUE)),
    ("quota.scheduling.koordinator.sh/name", Ignored(QUEUE)),
    ("quota.scheduling.koordinator.sh/preemptible", Ignored(PRIORITY)),
    ("scheduling.x-k8s.io/pod-group", Refused("a group is named on pods, or on their template")),
];

/// Koordinator's gangs, on their object or on their pods.
const KOORDINATOR_GANG: &[Entry] = &[
    ("gang.scheduling.koordinator.sh/total-number", Holds(HOLDS_TOTAL)),
    ("gang.scheduling.koordinator.sh/mode", Honoured),
    ("gang.scheduling.koordinator.sh/waiting-time", Honoured),
    ("gang.scheduling.koordinator.sh/groups", Honoured),
    ("gang.scheduling.koordinator.sh/timeout", Holds(WRITTEN)),
    ("gang.scheduling.koordinator.sh/match-policy", Rule::Choice(&MATCH_POLICY)),
    ("pod-group.scheduling.sigs.k8s.io/match-policy", Rule::Choice(&MATCH_POLICY)),
    ("gang.scheduling.koordinator.sh/network-topology-spec", Honoured),
    ("gang.scheduling.koordinator.sh/network-topology-index", Refused(TOPOLOGY)),
];

/// Members that count towards the minimum: waiting and running ones, here.
static MATCH_POLICY: Choice = Choice {
    options: &[
        ("waiting-and-running, once-satisfied", Holds("members that run count")),
        ("any other", Refused("members that run count here")),
    ],
    pick: |spot, _| {
        let counts = ["waiting-and-running", "once-satisfied"];
        usize::from(!spot.value.text().is_some_and(|text| counts.contains(&text)))
    },
};

/// Annotations of pods that are read or known to be written.
const POD_ANNOTATIONS: &[Entry] = &[
    ("gang.scheduling.koordinator.sh/name", Honoured),
    ("gang.scheduling.koordinator.sh/min-available", Honoured),
    ("scheduling.k8s.io/group-name", Honoured),
    ("scheduling.volcano.sh/group-name", Honoured),
    ("scheduling.volcano.sh/queue-name", Ignored(QUEUE)),
    ("volcano.sh/task-spec", Honoured),
    ("volcano.sh/job-name", Honoured),
    ("volcano.sh/job-version", Holds(WRITTEN)),
    ("volcano.sh/job-retry-count", Holds(WRITTEN)),
    ("volcano.sh/queue-name", Ignored(QUEUE)),
    ("volcano.sh/template-uid", Holds(WRITTEN)),
    ("volcano.sh/task-index", Holds(WRITTEN)),
    ("volcano.sh/preemptable", Ignored(PRIORITY)),
    ("volcano.sh/cooldown-time", Ignored(PRIORITY)),
    ("volcano.sh/evict-priority", Ignored(PRIORITY)),
    ("volcano.sh/numa-topology-policy", Honoured),
    ("kai.scheduler/staleness-grace-period", Ignored(PRIORITY)),
    ("kai.scheduler/preemption-delay", Ignored(PRIORITY)),
    ("kai.scheduler/last-start-timestamp", Holds(WRITTEN)),
    ("kai.scheduler/numa-placement-predicted", Holds(WRITTEN)),
    ("kai.scheduler/numa-placement-observed", Holds(WRITTEN)),
    ("pod-group-name", Honoured),
    ("gpu-fraction", Honoured),
    ("gpu-memory", Honoured),
    ("gpu-fraction-num-devices", Rule::Choice(&OF_FRACTION)),
    ("gpu-fraction-container-name", Rule::Choice(&OF_FRACTION)),
    ("mps", Rule::Choice(&MPS)),
    ("gang.scheduling.koordinator.sh/network-topology-spec", Refused("it is read of the group")),
    ("received-resource-type", Holds(WRITTEN)),
    ("yunikorn.apache.org/queue", Ignored(QUEUE)),
    ("yunikorn.apache.org/user.info", Ignored(QUEUE)),
    ("yunikorn.apache.org/allow-preemption", Ignored(PRIORITY)),
    ("yunikorn.apache.org/app-id", Honoured),
    ("yunikorn.apache.org/task-groups", Honoured),
    ("yunikorn.apache.org/task-group-name", Honoured),
    ("yunikorn.apache.org/schedulingPolicyParameters", Honoured),
    ("kueue.x-k8s.io/pod-group-total-count", Refused(GANG)),
    ("kueue.x-k8s.io/pod-group-fast-admission", Ignored(QUEUE)),
    ("kueue.x-k8s.io/retriable-in-group", Ignored(PRIORITY)),
    ("kueue.x-k8s.io/role-hash", Holds(WRITTEN)),
    ("kueue.x-k8s.io/workload", Holds(WRITTEN)),
    ("kueue.x-k8s.io/pod-suspending-parent", Holds(WRITTEN)),
    ("kueue.x-k8s.io/podset-required-topology", Honoured),
    ("kueue.x-k8s.io/podset-preferred-topology", Honoured),
    ("kueue.x-k8s.io/podset-unconstrained-topology", Holds("any place will do")),
    ("kueue.x-k8s.io/podset-slice-required-topology", Honoured),
    ("kueue.x-k8s.io/podset-slice-size", Honoured),
    ("kueue.x-k8s.io/podset-slice-required-topology-constraints", Honoured),
    ("kueue.x-k8s.io/podset-group-name", Honoured),
    ("nvidia.com/use-gputype", Honoured),
    ("nvidia.com/nouse-gputype", Honoured),
    ("nvidia.com/use-gpuuuid", Refused(DEVICES)),
    ("nvidia.com/nouse-gpuuuid", Refused(DEVICES)),
    ("nvidia.com/vgpu-mode", Refused(DEVICES)),
    ("nvidia.com/numa-bind", Honoured),
    ("hami.io/vgpu-devices-allocated", Honoured),
    ("volcano.sh/vgpu-ids-new", Honoured),
    ("scheduling.koordinator.sh/device-allocated", Honoured),
    ("scheduling.koordinator.sh/bind-timestamp", Holds(WRITTEN)),
    ("scheduling.koordinator.sh/gpu-minors", Holds(WRITTEN)),
    ("volcano.sh/devices-to-allocate", Holds(WRITTEN)),
    ("volcano.sh/vgpu-node", Holds(WRITTEN)),
    ("volcano.sh/vgpu-time", Holds(WRITTEN)),
    ("volcano.sh/bind-phase", Holds(WRITTEN)),
    ("volcano.sh/bind-time", Holds(WRITTEN)),
    ("hami.io/vgpu-time", Holds(WRITTEN)),
    ("hami.io/vgpu-node", Holds(WRITTEN)),
    ("hami.io/bind-time", Holds(WRITTEN)),
    ("hami.io/bind-phase", Holds(WRITTEN)),
    ("scheduling.koordinator.sh/numa-topology-spec", Rule::Choice(&NUMA_SPEC)),
    ("scheduling.koordinator.sh/device-joint-allocate", Rule::Choice(&JOINT)),
    ("scheduling.koordinator.sh/gpu-partition-spec", Rule::Choice(&PARTITION_SPEC)),
    ("scheduling.koordinator.sh/resource-spec", Refused(NUMA)),
    ("scheduling.koordinator.sh/network-topology-selector", Refused(TOPOLOGY)),
    ("leaderworkerset.sigs.k8s.io/exclusive-topology", Rule::Choice(&ALONE)),
    ("leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology", Rule::Choice(&ALONE)),
    ("alpha.jobset.sigs.k8s.io/exclusive-topology", Rule::Choice(&ALONE)),
    ("alpha.jobset.sigs.k8s.io/node-selector", Rule::Choice(&ALONE)),
    ("kubernetes.io/ingress-bandwidth", Ignored(NETWORK)),
    ("kubernetes.io/egress-bandwidth", Ignored(NETWORK)),
];

/// A domain for one group alone, which its controller writes into pods as affinity.
static ALONE: Choice = Choice {
    options: &[
        ("stored", Holds("its controller has written it into the pod's affinity")),
        ("written", Refused(EXCLUSIVE)),
    ],
    pick: |_, mode| usize::from(mode == Mode::AsWritten),
};

/// KAI's keys of a fraction beside its size.
static OF_FRACTION: Choice = Choice {
    options: &[
        ("beside gpu-fraction or gpu-memory", Honoured),
        ("without", Refused("no fraction of a GPU stands beside it")),
    ],
    pick: |spot, _| usize::from(!beside_fraction(spot)),
};

/// KAI's word that a fraction is shared by MPS, which any card can be.
static MPS: Choice = Choice {
    options: &[
        ("beside gpu-fraction or gpu-memory", Holds("any card serves it")),
        ("without", Refused("no fraction of a GPU stands beside it")),
    ],
    pick: |spot, _| usize::from(!beside_fraction(spot)),
};

fn beside_fraction(spot: &Spot<'_>) -> bool {
    let has = |key: &str| spot.above(1).is_some_and(|all| all.entry(key).is_some());
    has("gpu-fraction") || has("gpu-memory")
}

/// Koordinator's NUMA policy of a pod.
static NUMA_SPEC: Choice = Choice {
    options: &[
        ("numaTopologyPolicy alone", Honoured),
        ("any other", Refused("NUMA nodes that a pod wants for itself are not read")),
    ],
    pick: |spot, _| {
        let only = |name: &str| name == "numaTopologyPolicy";
        usize::from(!has_only(spot, only))
    },
};

/// Koordinator's joint allocation: network cards beside GPUs.
static JOINT: Choice = Choice {
    options: &[
        ("gpu with rdma", Honoured),
        ("any other", Refused("devices of this type are not read")),
    ],
    pick: |spot, _| {
        let spec = json::value(spot.value.text().unwrap_or(""));
        let types = spec.as_ref().and_then(|spec| spec.entry("deviceTypes"));
        let read = match types {
            Some(Value::List(types)) => {
                let types: Vec<Option<&str>> = types.iter().map(Value::text).collect();
                types == [Some("gpu"), Some("rdma")]
            }
            _ => false,
        };
        usize::from(!read)
    },
};

/// Koordinator's terms on partitions.
static PARTITION_SPEC: Choice = Choice {
    options: &[
        ("allocatePolicy alone", Honoured),
        ("any other", Refused("bandwidths of partitions are not read")),
    ],
    pick: |spot, _| usize::from(!has_only(spot, |name| name == "allocatePolicy")),
};

/// Whether a JSON object has no other entries.
fn has_only(spot: &Spot<'_>, allowed: impl Fn(&str) -> bool) -> bool {
    match json::value(spot.value.text().unwrap_or("")) {
        Some(Value::Map(entries)) => entries.iter().all(|(name, _)| allowed(name)),
        _ => false,
    }
}

/// KAI's topology, which is read with the name of one; without it KAI passes the others over.
static KAI: Choice = Choice {
    options: &[
        ("beside kai.scheduler/topology", Honoured),
        ("without", Refused("no kai.scheduler/topology stands beside it")),
    ],
    pick: |spot, _| {
        let named = spot.above(1).and_then(|all| all.entry("kai.scheduler/topology"));
        usize::from(named.is_none())
    },
};

const KAI_TOPOLOGY: &[Entry] = &[
    ("kai.scheduler/topology", Honoured),
    ("kai.scheduler/topology-required-placement", Rule::Choice(&KAI)),
    ("kai.scheduler/topology-preferred-placement", Rule::Choice(&KAI)),
];

/// KAI's segments, on the template of the pods that are cut into them.
const KAI_SEGMENTS: &[Entry] = &[
    ("kai.scheduler/segment-size", Rule::Choice(&KAI)),
    ("kai.scheduler/segment-topology-required-placement", Rule::Choice(&KAI)),
];

/// Annotations that workloads are read by.
const WORKLOAD_ANNOTATIONS: &[Entry] = &[
    ("scheduling.volcano.sh/queue-name", Honoured),
    ("kueue.x-k8s.io/job-completions-equal-parallelism", Ignored(QUEUE)),
    ("kueue.x-k8s.io/queue-name", Ignored(QUEUE)),
    ("kueue.x-k8s.io/elastic-job", Ignored(QUEUE)),
    ("kai.scheduler/staleness-grace-period", Ignored(PRIORITY)),
    ("kai.scheduler/preemption-delay", Ignored(PRIORITY)),
    ("volcano.sh/preemptable", Ignored(PRIORITY)),
    ("volcano.sh/cooldown-time", Ignored(PRIORITY)),
    ("yunikorn.apache.org/queue", Ignored(QUEUE)),
    ("yunikorn.apache.org/user.info", Ignored(QUEUE)),
    ("leaderworkerset.sigs.k8s.io/exclusive-topology", Rule::Choice(&OWN_DOMAIN)),
    ("leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology", Refused(EXCLUSIVE)),
    ("alpha.jobset.sigs.k8s.io/exclusive-topology", Refused(EXCLUSIVE)),
    ("alpha.jobset.sigs.k8s.io/node-selector", Refused(EXCLUSIVE)),
    ("scheduling.k8s.io/group-template-name", Refused(GANG)),
    ("scheduling.k8s.io/parent-composite-podgroup", Refused(GANG)),
    ("scheduling.k8s.io/parent-compositepodgroup", Refused(GANG)),
];

/// A domain for each replica of a set alone.
static OWN_DOMAIN: Choice = Choice {
    options: &[("of a LeaderWorkerSet without scheduling", Honoured), ("else", Refused(EXCLUSIVE))],
    pick: |spot, _| {
        // Above an annotation are the annotations, the metadata and the object.
        let Some(root) = spot.above(3) else { return 1 };
        let is_set = root.entry("kind").and_then(Value::text) == Some("LeaderWorkerSet");
        let own = root.entry("spec").and_then(|spec| spec.entry("scheduling"));
        usize::from(!is_set || own.is_some_and(|own| *own != Value::Null))
    },
};

/// The annotations that some workloads are read by, and others are not.
const MINIMA: &[Entry] = &[
    ("kueue.x-k8s.io/job-min-parallelism", Honoured),
    ("scheduling.volcano.sh/group-min-member", Honoured),
];

/// The labels of a pod: any may be selected.
pub(super) static POD_LABEL_KEYS: Keys = Keys {
    name: "pod labels",
    known: &[MEMBERSHIP_LABELS, POD_LABELS],
    prefixes: &[QUEUE_PREFIXES, LABEL_DIALECTS],
    other: Honoured,
};

/// The annotations of a pod.
pub(super) static POD_ANNOTATION_KEYS: Keys = Keys {
    name: "pod annotations",
    known: &[POD_ANNOTATIONS, KOORDINATOR_GANG, KAI_TOPOLOGY, KAI_SEGMENTS],
    prefixes: &[QUEUE_PREFIXES, DIALECTS],
    other: Silent,
};

/// The labels of a workload, which are not those of its pods.
pub(super) static WORKLOAD_LABEL_KEYS: Keys = Keys {
    name: "workload labels",
    known: &[WORKLOAD_LABELS],
    prefixes: &[QUEUE_PREFIXES, LABEL_DIALECTS],
    other: Silent,
};

/// The annotations of a workload.
pub(super) static WORKLOAD_ANNOTATION_KEYS: Keys = Keys {
    name: "workload annotations",
    known: &[WORKLOAD_ANNOTATIONS, KAI_TOPOLOGY],
    prefixes: &[QUEUE_PREFIXES, DIALECTS],
    other: Silent,
};

/// The annotations of a workload that may state its minimum.
pub(super) static MINIMUM_ANNOTATION_KEYS: Keys = Keys {
    name: "workload annotations with minima",
    known: &[WORKLOAD_ANNOTATIONS, MINIMA, KAI_TOPOLOGY],
    prefixes: &[QUEUE_PREFIXES, DIALECTS],
    other: Silent,
};

/// The labels of a group.
pub(super) static GROUP_LABEL_KEYS: Keys = Keys {
    name: "group labels",
    known: &[&[
        ("kueue.x-k8s.io/queue-name", Ignored(QUEUE)),
        ("kueue.x-k8s.io/priority-class", Ignored(PRIORITY)),
        ("kai.scheduler/queue", Ignored(QUEUE)),
        ("kai.scheduler/preemptibility", Ignored(PRIORITY)),
        ("kai.scheduler/node-pool", Refused("node pools of KAI are not read")),
        ("runai/queue", Ignored(QUEUE)),
        ("volcano.sh/job-type", Holds(WRITTEN)),
        ("volcano.sh/queue-name", Ignored(QUEUE)),
    ]],
    prefixes: &[QUEUE_PREFIXES, LABEL_DIALECTS],
    other: Silent,
};

/// The annotations of a group.
pub(super) static GROUP_ANNOTATION_KEYS: Keys = Keys {
    name: "group annotations",
    known: &[
        &[
            ("scheduling.volcano.sh/queue-name", Ignored(QUEUE)),
            ("scheduling.volcano.sh/queue-allocation-gate", Ignored(QUEUE)),
            ("volcano.sh/preemptable", Ignored(PRIORITY)),
            ("volcano.sh/cooldown-time", Ignored(PRIORITY)),
            ("kai.scheduler/staleness-grace-period", Ignored(PRIORITY)),
            ("kai.scheduler/last-start-timestamp", Holds(WRITTEN)),
            ("kai.scheduler/stale-podgroup-timestamp", Holds(WRITTEN)),
            ("kai.scheduler/top-owner-metadata", Holds(WRITTEN)),
        ],
        KOORDINATOR_GANG,
    ],
    prefixes: &[QUEUE_PREFIXES, DIALECTS],
    other: Silent,
};

/// The annotations of a node.
pub(super) static NODE_ANNOTATION_KEYS: Keys = Keys {
    name: "node annotations",
    known: &[&[
        ("node.koordinator.sh/reservation", Honoured),
        ("hami.io/node-nvidia-score", Holds("it says which cards are close, for no pod asks")),
        ("volcano.sh/node-vgpu-register", Honoured),
        ("hami.io/node-nvidia-register", Honoured),
        ("volcano.sh/node-vgpu-handshake", Holds(WRITTEN)),
        ("hami.io/node-handshake", Holds(WRITTEN)),
        ("hami.io/mutex.lock", Holds(WRITTEN)),
    ]],
    prefixes: &[&[
        (
            "node.koordinator.sh/",
            Holds("the allocatable has it already, or no CPUs are told apart"),
        ),
        ("hami.io/node-handshake", Holds(WRITTEN)),
        ("hami.io/node-", Refused(DEVICES)),
        ("hami.io/", Refused(KEY)),
        ("kai.scheduler/", Holds(WRITTEN)),
        ("volcano.sh/node-", Refused(DEVICES)),
        ("volcano.sh/", Ignored("oversold resources are not read")),
        ("scheduling.koordinator.sh/", Ignored(AGENT)),
        ("koordinator.sh/", Ignored(AGENT)),
        ("yunikorn.apache.org/", Ignored(KEY)),
        ("nfd.node.kubernetes.io/", Silent),
    ]],
    other: Silent,
};

/// The annotations of a namespace.
pub(super) static NAMESPACE_ANNOTATION_KEYS: Keys = Keys {
    name: "namespace annotations",
    known: &[&[("quota.scheduling.koordinator.sh/name", Ignored(QUEUE))]],
    prefixes: &[
        QUEUE_PREFIXES,
        &[
            ("yunikorn.apache.org/", Ignored(QUEUE)),
            ("scheduling.volcano.sh/", Ignored(QUEUE)),
            ("volcano.sh/", Ignored(QUEUE)),
            ("kueue.x-k8s.io/", Ignored(QUEUE)),
            ("kai.scheduler/", Ignored(QUEUE)),
            ("runai/", Ignored(QUEUE)),
            ("scheduler.alpha.kubernetes.io/", Rule::Choice(&OF_NAMESPACE)),
            ("openshift.io/node-selector", Rule::Choice(&OF_NAMESPACE)),
        ],
    ],
    other: Silent,
};

/// Node selectors and tolerations of a namespace.
static OF_NAMESPACE: Choice = Choice {
    options: &[
        ("stored", Holds("the API server has written it into pods")),
        ("written", Refused("what a namespace asks of nodes is not filled in")),
    ],
    pick: |_, mode| usize::from(mode == Mode::AsWritten),
};
