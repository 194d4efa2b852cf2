//! Devices of nodes and their NUMA zones, as agents report them.

use super::dialects::PLAIN;
use super::rule::Rule::{
    Choice as ByChoice, Each, Fields, Holds, Honoured, Ignored, Metadata, Part, Refused, Silent,
    Whole,
};
use super::rule::{Choice, Entry, Keys, Kind, Rule};
use crate::kubernetes::value::Value;

/// A device of Koordinator's, by its type.
static DEVICE: Choice = Choice {
    options: &[
        ("gpu, rdma", Whole(DEVICE_FIELDS)),
        ("any other", Refused("devices of this type are not read")),
    ],
    pick: |spot, _| {
        let sort = spot.value.entry("type").and_then(Value::text);
        usize::from(!matches!(sort, Some("gpu" | "rdma")))
    },
};

const DEVICE_FIELDS: &[Entry] = &[
    ("type", Part),
    ("id", Part),
    ("minor", Part),
    ("moduleID", Silent),
    ("health", Part),
    ("resources", Each(&Part)),
    (
        "topology",
        Fields(&[("nodeID", Part), ("socketID", Silent), ("pcieID", Part), ("busID", Silent)]),
    ),
    ("labels", Silent),
    ("conditions", Silent),
    ("vfGroups", Refused("virtual functions are not read")),
];

const CPUS: &str = "pods that bind single CPUs are refused";

/// Koordinator's keys on a `NodeResourceTopology`.
static TOPOLOGY_ANNOTATIONS: Keys = Keys {
    name: "node topology annotations",
    known: &[&[("node.koordinator.sh/reservation", Holds("it is read of the node"))]],
    prefixes: &[
        &[("node.koordinator.sh/", Holds(CPUS))],
        &[("kubelet.koordinator.sh/", Holds(CPUS))],
    ],
    other: Silent,
};

/// Keys of a `Device`.
static DEVICE_LABELS: Keys = Keys {
    name: "device labels",
    known: &[&[
        ("node.koordinator.sh/gpu-model", Honoured),
        ("node.koordinator.sh/gpu-vendor", Holds("no pod asks for a vendor")),
        ("node.koordinator.sh/gpu-partition-policy", Honoured),
    ]],
    prefixes: &[&[("node.koordinator.sh/", Holds("no pod asks for it"))]],
    other: Silent,
};
static DEVICE_ANNOTATIONS: Keys = Keys {
    name: "device annotations",
    known: &[&[("scheduling.koordinator.sh/gpu-partitions", Honoured)]],
    prefixes: &[&[
        ("scheduling.koordinator.sh/", Refused(PARTITIONS)),
        ("node.koordinator.sh/", Ignored("agents of the node write it for themselves")),
    ]],
    other: Silent,
};
const PARTITIONS: &str = "no key that is read: none of these cards is given away";

/// NUMA zones of a node.
const ZONES: Rule = Whole(&[
    ("name", Part),
    ("type", Part),
    ("parent", Silent),
    ("costs", Holds("of sets of as many zones the first is taken, whatever their distance")),
    (
        "resources",
        Fields(&[("name", Part), ("capacity", Part), ("allocatable", Part), ("available", Part)]),
    ),
    ("attributes", Silent),
]);

/// A zone of a node: of another type it says nothing of NUMA.
static ZONE: Choice = Choice {
    options: &[
        ("of type Node", ZONES),
        ("of another type", Holds("it is no NUMA node, and says nothing of one")),
    ],
    pick: |spot, _| {
        let is_node = spot.value.entry("type").and_then(Value::text) == Some("Node");
        usize::from(!is_node)
    },
};

/// An attribute of a node's topology.
static ATTRIBUTE: Choice = Choice {
    options: &[
        ("topologyManagerPolicy, topologyManagerScope", Honoured),
        ("any other", Holds("it bears on no admission")),
    ],
    pick: |spot, _| {
        let name = spot.value.entry("name").and_then(Value::text);
        let read = matches!(name, Some("topologyManagerPolicy" | "topologyManagerScope"));
        usize::from(!read)
    },
};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        dialect: "NodeResourceTopology",
        groups: &["topology.node.k8s.io"],
        kind: "NodeResourceTopology",
        fields: &[
            ("metadata", Metadata(&PLAIN, &TOPOLOGY_ANNOTATIONS)),
            ("topologyPolicies", Honoured),
            ("zones", ByChoice(&ZONE)),
            ("attributes", ByChoice(&ATTRIBUTE)),
        ],
    },
    Kind {
        dialect: "Koordinator",
        groups: &["scheduling.koordinator.sh"],
        kind: "Device",
        fields: &[
            ("metadata", Metadata(&DEVICE_LABELS, &DEVICE_ANNOTATIONS)),
            ("spec", Fields(&[("devices", ByChoice(&DEVICE))])),
        ],
    },
];
