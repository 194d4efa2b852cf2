//! Queues, quotas and their flavours: fields that bear on nodes; another reader has the others.

use super::rule::Rule::{Each, Fields, Holds, Ignored, Metadata, Refused, Silent};
use super::rule::{Entry, Keys, Kind, Rule};

/// Queues are read elsewhere.
pub(super) const ELSEWHERE: &str = super::dialects::QUEUE;
const NODES: &str = "nodes of queues are not read: groups of such a queue are left alone";
const SHARD: &str = "node pools of KAI are not read: groups of such a queue are left alone";
const TREE: &str = "the profile of a tree of quotas writes the labels of its nodes";
const TOPOLOGY: &str = "topologies of queues are not read: groups of such a queue are left alone";

static QUOTA_KEYS: Keys = Keys {
    name: "queue keys",
    known: &[],
    prefixes: &[&[
        ("quota.scheduling.koordinator.sh/", Ignored(ELSEWHERE)),
        ("kube-queue/", Ignored(ELSEWHERE)),
        ("kueue.x-k8s.io/", Ignored(ELSEWHERE)),
        ("kai.scheduler/", Ignored(ELSEWHERE)),
        ("volcano.sh/", Ignored(ELSEWHERE)),
        ("scheduling.volcano.sh/", Ignored(ELSEWHERE)),
        ("scheduling.koordinator.sh/", Ignored(ELSEWHERE)),
        ("yunikorn.apache.org/", Ignored(ELSEWHERE)),
        ("runai/", Ignored(ELSEWHERE)),
        ("run.ai/", Ignored(ELSEWHERE)),
        ("topology.kubernetes.io/", Holds(TREE)),
        ("kubernetes.io/", Holds(TREE)),
        ("node.kubernetes.io/", Holds(TREE)),
    ]],
    other: Silent,
};

/// Labels of KAI's queues: a shard has nodes of its own.
static SHARD_KEYS: Keys = Keys {
    name: "queue labels",
    known: &[&[("kai.scheduler/node-pool", Refused(SHARD)), ("runai/node-pool", Refused(SHARD))]],
    prefixes: QUOTA_KEYS.prefixes,
    other: Silent,
};

const METADATA: Rule = Metadata(&QUOTA_KEYS, &QUOTA_KEYS);
const FIELDS: &[Entry] = &[("metadata", METADATA), ("spec", Each(&Ignored(ELSEWHERE)))];

/// A kind that the reader of queues takes.
macro_rules! elsewhere {
    ($dialect:expr, $groups:expr, $kind:expr) => {
        Kind { dialect: $dialect, groups: $groups, kind: $kind, fields: FIELDS }
    };
}

const KUEUE: &[&str] = &["kueue.x-k8s.io"];

pub(super) const KINDS: &[Kind] = &[
    elsewhere!("Kueue", KUEUE, "ClusterQueue"),
    elsewhere!("Kueue", KUEUE, "LocalQueue"),
    elsewhere!("Kueue", KUEUE, "Cohort"),
    elsewhere!("Kueue", KUEUE, "AdmissionCheck"),
    elsewhere!("Kueue", KUEUE, "ProvisioningRequestConfig"),
    Kind {
        dialect: "Kueue",
        groups: KUEUE,
        kind: "ResourceFlavor",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                Fields(&[
                    ("nodeLabels", Each(&Refused(NODES))),
                    ("nodeTaints", Refused(NODES)),
                    ("tolerations", Refused(NODES)),
                    ("topologyName", Refused(TOPOLOGY)),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Volcano",
        groups: &["scheduling.volcano.sh"],
        kind: "Queue",
        fields: &[("metadata", METADATA), ("spec", Fields(VOLCANO_QUEUE))],
    },
    Kind {
        dialect: "KAI",
        groups: &["scheduling.run.ai"],
        kind: "Queue",
        fields: &[
            ("metadata", Metadata(&SHARD_KEYS, &QUOTA_KEYS)),
            ("spec", Each(&Ignored(ELSEWHERE))),
        ],
    },
    elsewhere!(
        "coscheduling, Koordinator",
        &["scheduling.sigs.k8s.io", "scheduling.x-k8s.io"],
        "ElasticQuota"
    ),
    elsewhere!("Kube-queue", &["scheduling.x-k8s.io"], "Queue"),
];

const VOLCANO_QUEUE: &[Entry] = &[
    ("affinity", Refused(NODES)),
    ("weight", Ignored(ELSEWHERE)),
    ("capability", Ignored(ELSEWHERE)),
    ("deserved", Ignored(ELSEWHERE)),
    ("guarantee", Ignored(ELSEWHERE)),
    ("reclaimable", Ignored(ELSEWHERE)),
    ("parent", Ignored(ELSEWHERE)),
    ("priority", Ignored(ELSEWHERE)),
    ("dequeueStrategy", Ignored(ELSEWHERE)),
    ("state", Ignored(ELSEWHERE)),
    ("type", Ignored(ELSEWHERE)),
    ("extendClusters", Refused(NODES)),
];
