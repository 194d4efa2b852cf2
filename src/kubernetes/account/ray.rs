//! Clusters, jobs and services of Ray's operator.

use super::rule::Rule::{
    Choice as ByChoice, Fields, Holds, Honoured, Refused, Silent, Table as ByTable,
};
use super::rule::{Choice, Entry, Kind, Table};
use super::workloads::{METADATA, TEMPLATE};
use crate::kubernetes::value::Value;

const AUTOSCALER: &str = "the autoscaler's container in the head is not read";
const RAY_OWN: &str = "Ray counts it for its tasks: pods ask by their template";

/// Whether the head of a Ray cluster has the autoscaler beside it.
static AUTOSCALING: Choice = Choice {
    options: &[("true", Refused(AUTOSCALER)), ("false", Silent)],
    pick: |spot, _| usize::from(*spot.value != Value::Bool(true)),
};

const RAY_CLUSTER_FIELDS: &[Entry] = &[
    (
        "headGroupSpec",
        Fields(&[
            ("template", TEMPLATE),
            ("rayStartParams", Holds(RAY_OWN)),
            ("serviceType", Silent),
            ("headService", Silent),
            ("enableIngress", Silent),
            ("labels", Holds(RAY_OWN)),
            ("resources", Holds(RAY_OWN)),
            ("replicas", Holds("a cluster has one head")),
        ]),
    ),
    (
        "workerGroupSpecs",
        Fields(&[
            ("groupName", Silent),
            ("replicas", Honoured),
            ("minReplicas", Honoured),
            ("maxReplicas", Honoured),
            ("numOfHosts", Honoured),
            ("suspend", Honoured),
            ("template", TEMPLATE),
            ("rayStartParams", Holds(RAY_OWN)),
            ("scaleStrategy", Silent),
            ("idleTimeoutSeconds", Silent),
            ("labels", Holds(RAY_OWN)),
            ("resources", Holds(RAY_OWN)),
        ]),
    ),
    ("suspend", Honoured),
    ("enableInTreeAutoscaling", ByChoice(&AUTOSCALING)),
    ("autoscalerOptions", Refused(AUTOSCALER)),
    ("authOptions", Silent),
    ("gcsFaultToleranceOptions", Silent),
    ("headServiceAnnotations", Silent),
    ("managedBy", Silent),
    ("networkPolicy", Silent),
    ("rayVersion", Silent),
    ("upgradeStrategy", Silent),
];

/// The cluster that a Ray job or service makes.
static RAY_CLUSTER: Table = Table { name: "Ray cluster", rule: Fields(RAY_CLUSTER_FIELDS) };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        dialect: "Ray",
        groups: &["ray.io"],
        kind: "RayCluster",
        fields: &[("metadata", METADATA), ("spec", ByTable(&RAY_CLUSTER))],
    },
    Kind {
        dialect: "Ray",
        groups: &["ray.io"],
        kind: "RayService",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                Fields(&[
                    ("rayClusterConfig", ByTable(&RAY_CLUSTER)),
                    ("suspend", Honoured),
                    ("upgradeStrategy", Holds("a second cluster is an object of its own")),
                    ("deploymentUnhealthySecondThreshold", Silent),
                    ("excludeHeadPodFromServeSvc", Silent),
                    ("managedBy", Silent),
                    ("rayClusterDeletionDelaySeconds", Silent),
                    ("serveConfigV2", Silent),
                    ("serveService", Silent),
                    ("serviceUnhealthySecondThreshold", Silent),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Ray",
        groups: &["ray.io"],
        kind: "RayJob",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                Fields(&[
                    ("rayClusterSpec", ByTable(&RAY_CLUSTER)),
                    ("clusterSelector", Holds("the cluster is there, and is read by itself")),
                    ("submissionMode", Honoured),
                    ("submitterPodTemplate", TEMPLATE),
                    ("suspend", Honoured),
                    ("activeDeadlineSeconds", Silent),
                    ("backoffLimit", Silent),
                    ("deletionPolicy", Silent),
                    ("deletionStrategy", Silent),
                    ("entrypoint", Silent),
                    ("entrypointNumCpus", Holds(RAY_OWN)),
                    ("entrypointNumGpus", Holds(RAY_OWN)),
                    ("entrypointResources", Holds(RAY_OWN)),
                    ("jobId", Silent),
                    ("managedBy", Silent),
                    ("metadata", Silent),
                    ("preRunningDeadlineSeconds", Silent),
                    ("runtimeEnv", Silent),
                    ("runtimeEnvYAML", Silent),
                    ("shutdownAfterJobFinishes", Silent),
                    ("submitterConfig", Silent),
                    ("ttlSecondsAfterFinished", Silent),
                ]),
            ),
        ],
    },
];
