//! Controllers of Kubernetes whose pods stand each by itself.

use super::keys::{MINIMUM_ANNOTATION_KEYS, WORKLOAD_LABEL_KEYS};
use super::rule::Rule::{Fields, Holds, Honoured, Metadata, Silent};
use super::rule::{Entry, Kind, Rule};
use super::workloads::{CRON_JOB_SPEC, METADATA, ONCE, TEMPLATE};

const EACH_NODE: &str = "a pod is made for each node that the template allows";

/// So many pods of one template, and what only its controller reads.
macro_rules! replicated {
    ($group:expr, $kind:expr, $($own:expr),* $(,)?) => {
        Kind {
            dialect: "Kubernetes",
            groups: &[$group],
            kind: $kind,
            fields: &[
                ("metadata", METADATA),
                (
                    "spec",
                    Fields(&[
                        ("replicas", Honoured),
                        ("selector", Honoured),
                        ("template", TEMPLATE),
                        ("minReadySeconds", Silent),
                        $($own),*
                    ]),
                ),
            ],
        }
    };
}

/// The metadata of a job that is made of a template.
const JOB_METADATA: Rule = Metadata(&WORKLOAD_LABEL_KEYS, &MINIMUM_ANNOTATION_KEYS);

const JOB: &[Entry] = &[("metadata", JOB_METADATA), ("spec", CRON_JOB_SPEC)];

pub(super) const KINDS: &[Kind] = &[
    replicated!("", "ReplicationController",),
    replicated!("apps", "ReplicaSet",),
    replicated!(
        "apps",
        "Deployment",
        ("strategy", Holds(ONCE)),
        ("paused", Holds("it says when pods are replaced, not how many there are")),
        ("progressDeadlineSeconds", Silent),
        ("revisionHistoryLimit", Silent),
        ("rollbackTo", Silent),
    ),
    Kind {
        dialect: "Kubernetes",
        groups: &["apps"],
        kind: "DaemonSet",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                Fields(&[
                    ("selector", Holds(EACH_NODE)),
                    ("template", TEMPLATE),
                    ("updateStrategy", Holds(ONCE)),
                    ("minReadySeconds", Silent),
                    ("revisionHistoryLimit", Silent),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &["batch"],
        kind: "CronJob",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                Fields(&[
                    ("schedule", Honoured),
                    ("suspend", Honoured),
                    ("jobTemplate", Fields(JOB)),
                    ("timeZone", Silent),
                    ("concurrencyPolicy", Silent),
                    ("startingDeadlineSeconds", Silent),
                    ("successfulJobsHistoryLimit", Silent),
                    ("failedJobsHistoryLimit", Silent),
                ]),
            ),
        ],
    },
];
