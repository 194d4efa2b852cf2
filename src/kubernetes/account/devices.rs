//! Devices by claim: classes, slices, claims, templates and taints by rule.

use super::dialects::PLAIN;
use super::parts::NODE_TERM;
use super::rule::Rule::{
    Each, Fields, Holds, Honoured, Metadata, Part, Refused, Silent, Table as ByTable, Whole,
};
use super::rule::{Entry, Kind, Rule, Table};

const DRIVER: &str = "its driver reads it, not the scheduler";
const RULE: &str = "devices of a rule are named by driver, pool and device only: none of the \
                    driver's devices is given away";

const SELECTORS: Rule = Whole(&[("cel", Fields(&[("expression", Part)]))]);

/// Demand of a request, or of one of several alternatives.
macro_rules! demand {
    ($($own:expr),* $(,)?) => {
        &[
            ("deviceClassName", Part),
            ("selectors", Fields(&[("cel", Fields(&[("expression", Part)]))])),
            ("allocationMode", Part),
            ("count", Part),
            ("adminAccess", Part),
            ("tolerations", Fields(&[
                ("key", Part),
                ("operator", Part),
                ("value", Part),
                ("effect", Part),
                ("tolerationSeconds", Silent),
            ])),
            ("capacity", Fields(&[("requests", Each(&Part))])),
            $($own),*
        ]
    };
}

const DEMAND: &[Entry] = demand!();
const SUB_REQUEST: &[Entry] = demand!(("name", Part));
/// A request of v1, or of v1beta1, which has the demand in the request.
const REQUEST: &[Entry] =
    demand!(("name", Part), ("exactly", Fields(DEMAND)), ("firstAvailable", Fields(SUB_REQUEST)),);

/// Specification of a claim.
static CLAIM: Table = Table {
    name: "device claim",
    rule: Fields(&[(
        "devices",
        Fields(&[
            ("requests", Whole(REQUEST)),
            (
                "constraints",
                Whole(&[("requests", Part), ("matchAttribute", Part), ("distinctAttribute", Part)]),
            ),
            ("config", Holds(DRIVER)),
        ]),
    )]),
};

const DEVICE: &[Entry] = &[
    ("name", Part),
    ("attributes", Each(&Each(&Part))),
    ("capacity", Each(&Fields(&[("value", Part), ("requestPolicy", POLICY)]))),
    ("consumesCounters", Fields(&[("counterSet", Part), ("counters", Each(&Fields(VALUE)))])),
    ("nodeName", Part),
    ("nodeSelector", Fields(&[("nodeSelectorTerms", Fields(NODE_TERM))])),
    ("allNodes", Part),
    ("taints", Fields(&[("key", Part), ("value", Part), ("effect", Part), ("timeAdded", Silent)])),
    ("bindsToNode", Part),
    ("bindingConditions", Refused(CONDITIONS)),
    ("bindingFailureConditions", Refused(CONDITIONS)),
    ("allowMultipleAllocations", Part),
    ("nodeAllocatableResourceMappings", Refused("cpu and memory by claim are not modelled")),
];

const CONDITIONS: &str = "nobody waits for conditions of devices: none of these is given away";
const VALUE: &[Entry] = &[("value", Part)];
const POLICY: Rule = Fields(&[
    ("default", Part),
    ("validValues", Part),
    ("validRange", Fields(&[("min", Part), ("max", Part), ("step", Part)])),
]);

/// A device of v1, or of v1beta1, which has all but the name one level down.
const DEVICES: Rule = Whole(&EITHER);
const EITHER: [Entry; DEVICE.len() + 1] = {
    let mut all = [("basic", Fields(DEVICE)); DEVICE.len() + 1];
    all[0] = DEVICE[0];
    let mut at = 1;
    while at < DEVICE.len() {
        all[at + 1] = DEVICE[at];
        at += 1;
    }
    all
};

const GROUPS: &[&str] = &["resource.k8s.io"];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        dialect: "Kubernetes",
        groups: GROUPS,
        kind: "DeviceClass",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            (
                "spec",
                Fields(&[
                    ("selectors", SELECTORS),
                    ("extendedResourceName", Honoured),
                    ("config", Holds(DRIVER)),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: GROUPS,
        kind: "ResourceSlice",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            (
                "spec",
                Fields(&[
                    ("driver", Honoured),
                    (
                        "pool",
                        Fields(&[
                            ("name", Honoured),
                            ("generation", Honoured),
                            ("resourceSliceCount", Honoured),
                        ]),
                    ),
                    ("nodeName", Honoured),
                    ("nodeSelector", Whole(&[("nodeSelectorTerms", Fields(NODE_TERM))])),
                    ("allNodes", Honoured),
                    ("perDeviceNodeSelection", Honoured),
                    (
                        "sharedCounters",
                        Whole(&[("name", Part), ("counters", Each(&Fields(VALUE)))]),
                    ),
                    ("devices", DEVICES),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: GROUPS,
        kind: "ResourceClaim",
        fields: &[("metadata", Metadata(&PLAIN, &PLAIN)), ("spec", ByTable(&CLAIM))],
    },
    Kind {
        dialect: "Kubernetes",
        groups: GROUPS,
        kind: "ResourceClaimTemplate",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            ("spec", Fields(&[("metadata", Metadata(&PLAIN, &PLAIN)), ("spec", ByTable(&CLAIM))])),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: GROUPS,
        kind: "DeviceTaintRule",
        fields: &[
            ("metadata", Metadata(&PLAIN, &PLAIN)),
            (
                "spec",
                Fields(&[
                    (
                        "deviceSelector",
                        Fields(&[
                            ("driver", Honoured),
                            ("pool", Honoured),
                            ("device", Honoured),
                            ("deviceClassName", Refused(RULE)),
                            ("selectors", Refused(RULE)),
                        ]),
                    ),
                    (
                        "taint",
                        Whole(&[
                            ("key", Part),
                            ("value", Part),
                            ("effect", Part),
                            ("timeAdded", Silent),
                        ]),
                    ),
                ]),
            ),
        ],
    },
];
