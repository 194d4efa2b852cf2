//! Objects that describe groups of pods.

use super::dialects::PLAIN;
use super::keys::{GROUP_ANNOTATION_KEYS, GROUP_LABEL_KEYS};
use super::parts::{CLAIMS, SELECTOR};
use super::rule::Rule::{
    Choice as ByChoice, Each, Fields, Holds, Honoured, Ignored, Metadata, Part, Refused, Silent,
    Whole,
};
use super::rule::{Choice, Entry, Kind, Rule};
use crate::kubernetes::value::Value;

const EXACT: &str = "placement is exact: the members needed have room for what they ask";
const TEMPLATE: &str = "of a template its policy alone is taken";
const COPY: &str = "the group is a copy of its template";
const LEVEL: &str = "the served type has `key` in its place";

/// The topology that a group is confined to.
pub(super) const CONSTRAINTS: Rule =
    Fields(&[("topology", Fields(&[("key", Honoured), ("level", Refused(LEVEL))]))]);

pub(super) const POLICY: Rule =
    Fields(&[("basic", Honoured), ("gang", Whole(&[("minCount", Honoured)]))]);

const COMPOSITE_POLICY: Rule =
    Fields(&[("basic", Honoured), ("gang", Whole(&[("minGroupCount", Honoured)]))]);

/// A template of groups: a controller takes its policy.
const GROUP_TEMPLATE: Rule = Fields(&[
    ("name", Silent),
    ("schedulingPolicy", POLICY),
    ("schedulingConstraints", Refused(TEMPLATE)),
    ("resourceClaims", Refused(TEMPLATE)),
    ("disruptionMode", Ignored(TEMPLATE)),
    ("priorityClassName", Ignored(TEMPLATE)),
    ("priority", Ignored(TEMPLATE)),
    ("preemptionPolicy", Ignored(TEMPLATE)),
]);

const COMPOSITE: &str = "templates of composite groups are not read";

/// Fields that pod groups and composite ones share.
macro_rules! group_spec {
    ($policy:expr, $($own:expr),* $(,)?) => {
        Fields(&[
            ("schedulingPolicy", $policy),
            ("schedulingConstraints", CONSTRAINTS),
            ("disruptionMode", Honoured),
            ("priorityClassName", Honoured),
            ("priority", Honoured),
            ("preemptionPolicy", Honoured),
            ("parentCompositePodGroupName", Honoured),
            $($own),*
        ])
    };
}

/// Volcano's tiers, as a group, a job or partitions ask for them.
pub(super) const NETWORK_TOPOLOGY: Rule =
    Whole(&[("mode", Part), ("highestTierAllowed", Part), ("highestTierName", Part)]);

/// KAI's levels, as a group or one inside it asks for them.
const KAI_CONSTRAINT: Rule =
    Whole(&[("topology", Part), ("requiredTopologyLevel", Part), ("preferredTopologyLevel", Part)]);

/// Levels of Kueue's and KAI's topologies.
const LEVELS: &[Entry] = &[
    ("metadata", Metadata(&PLAIN, &PLAIN)),
    ("spec", Fields(&[("levels", Whole(&[("nodeLabel", Part), ("alias", Part)]))])),
];

/// Coscheduling's group, with Koordinator's annotations.
const COSCHEDULING: &[Entry] = &[
    ("metadata", Metadata(&GROUP_LABEL_KEYS, &GROUP_ANNOTATION_KEYS)),
    (
        "spec",
        Fields(&[
            ("minMember", Honoured),
            ("minResources", Holds(EXACT)),
            ("scheduleTimeoutSeconds", Honoured),
        ]),
    ),
];

pub(super) const KINDS: &[Kind] = &[
    Kind { dialect: "Kueue", groups: &["kueue.x-k8s.io"], kind: "Topology", fields: LEVELS },
    Kind { dialect: "KAI", groups: &["kai.scheduler"], kind: "Topology", fields: LEVELS },
    Kind {
        dialect: "Koordinator",
        groups: &["scheduling.koordinator.sh"],
        kind: "ClusterNetworkTopology",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            (
                "spec",
                Fields(&[(
                    "networkTopologySpec",
                    Whole(&[
                        ("topologyLayer", Part),
                        ("parentTopologyLayer", Part),
                        ("labelKey", Part),
                    ]),
                )]),
            ),
        ],
    },
    Kind {
        dialect: "Volcano",
        groups: &["topology.volcano.sh"],
        kind: "HyperNode",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            (
                "spec",
                Fields(&[
                    ("tier", Honoured),
                    ("tierName", Honoured),
                    ("members", Whole(&[("type", Part), ("selector", Fields(MEMBER))])),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "KAI",
        groups: &["scheduling.run.ai"],
        kind: "PodGroup",
        fields: &[
            ("metadata", Metadata(&GROUP_LABEL_KEYS, &GROUP_ANNOTATION_KEYS)),
            (
                "spec",
                Fields(&[
                    ("minMember", Honoured),
                    ("minSubGroup", Honoured),
                    ("queue", Honoured),
                    ("priorityClassName", Honoured),
                    ("topologyConstraint", KAI_CONSTRAINT),
                    (
                        "subGroups",
                        Fields(&[
                            ("name", Silent),
                            ("parent", Honoured),
                            ("minMember", Honoured),
                            ("minSubGroup", Honoured),
                            ("topologyConstraint", KAI_CONSTRAINT),
                        ]),
                    ),
                    ("preemptibility", Ignored(TIMES)),
                    ("preemptionDelay", Ignored(TIMES)),
                    ("stalenessGracePeriod", Ignored(TIMES)),
                    ("markUnschedulable", Ignored(TIMES)),
                    ("schedulingBackoff", Ignored(TIMES)),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &["scheduling.k8s.io"],
        kind: "Workload",
        fields: &[
            ("metadata", Metadata(&GROUP_LABEL_KEYS, &GROUP_ANNOTATION_KEYS)),
            (
                "spec",
                Fields(&[
                    ("controllerRef", Honoured),
                    ("podGroups", Fields(&[("name", Honoured), ("policy", POLICY)])),
                    ("podGroupTemplates", GROUP_TEMPLATE),
                    ("compositePodGroupTemplates", Refused(COMPOSITE)),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &["scheduling.k8s.io"],
        kind: "PodGroup",
        fields: &[
            ("metadata", Metadata(&GROUP_LABEL_KEYS, &GROUP_ANNOTATION_KEYS)),
            (
                "spec",
                group_spec!(
                    POLICY,
                    ("podGroupTemplateRef", Honoured),
                    ("workloadRef", Honoured),
                    ("resourceClaims", CLAIMS),
                ),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &["scheduling.k8s.io"],
        kind: "CompositePodGroup",
        fields: &[
            ("metadata", Metadata(&GROUP_LABEL_KEYS, &GROUP_ANNOTATION_KEYS)),
            ("spec", group_spec!(COMPOSITE_POLICY, ("workloadRef", Holds(COPY)))),
        ],
    },
    Kind {
        dialect: "coscheduling, Koordinator",
        groups: &["scheduling.sigs.k8s.io", "scheduling.x-k8s.io"],
        kind: "PodGroup",
        fields: COSCHEDULING,
    },
    Kind {
        dialect: "Volcano",
        groups: &["scheduling.volcano.sh"],
        kind: "PodGroup",
        fields: &[
            ("metadata", Metadata(&GROUP_LABEL_KEYS, &GROUP_ANNOTATION_KEYS)),
            (
                "spec",
                Fields(&[
                    ("minMember", Honoured),
                    ("minTaskMember", Each(&Honoured)),
                    ("minResources", Holds(EXACT)),
                    ("queue", Honoured),
                    ("priorityClassName", Honoured),
                    ("networkTopology", NETWORK_TOPOLOGY),
                    ("subGroupPolicy", ByChoice(&SUBGROUPS)),
                ]),
            ),
        ],
    },
];

/// Groups inside a group, by labels of its pods.
static SUBGROUPS: Choice = Choice {
    options: &[
        (
            "one",
            Whole(&[
                ("name", Part),
                ("labelSelector", SELECTOR),
                ("matchLabelKeys", Part),
                ("subGroupSize", Part),
                ("minSubGroups", Part),
                ("networkTopology", NETWORK_TOPOLOGY),
            ]),
        ),
        ("several", Refused("several policies for subgroups of one group are not read")),
    ],
    pick: |spot, _| match spot.above(1) {
        Some(Value::List(policies)) => usize::from(policies.len() != 1),
        _ => 1,
    },
};

const TIMES: &str = "it says when pods start or stop, not where";

const MEMBER: &[Entry] = &[
    ("exactMatch", Fields(&[("name", Part)])),
    ("regexMatch", Fields(&[("pattern", Part)])),
    (
        "labelMatch",
        Fields(&[
            ("matchLabels", Each(&Part)),
            ("matchExpressions", Fields(&[("key", Part), ("operator", Part), ("values", Part)])),
        ]),
    ),
];
