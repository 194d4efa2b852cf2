//! Workloads that people submit, and the runtimes that they refer to.

use super::groups::{CONSTRAINTS, NETWORK_TOPOLOGY, POLICY};
use super::keys::{MINIMUM_ANNOTATION_KEYS, WORKLOAD_ANNOTATION_KEYS, WORKLOAD_LABEL_KEYS};
use super::parts::CLAIMS;
use super::pods::{POD_TEMPLATE, RESOURCES};
use super::rule::Rule::{
    Choice as ByChoice, Each, Fields, Holds, Honoured, Ignored, Metadata, Refused, Silent,
    Table as ByTable, Whole,
};
use super::rule::{Choice, Entry, Kind, Rule, Table};
use super::storage::VOLUME_CLAIM;
use crate::kubernetes::value::Value;

const VOLUME: &str = "claims that this kind makes are not read";
const SCHEDULING: &str = "the scheduling of Kubernetes 1.37 is not read in this kind";
const EXACT: &str = "placement is exact: the members needed have room for what they ask";
const SUBGROUPS: &str = "subgroups ask for nothing by themselves";
const OVERRIDES: &str = "overrides of pod templates are not applied";
const PATCHES: &str = "patches of the runtime are not applied";
const AUTOSCALER: &str = "the autoscaler's container in the head is not read";
const SCHEDULER: &str = "the embedder says whose pods it places";
const MOST: &str = "no more pods are made than the replicas";

const TEMPLATE: Rule = ByTable(&POD_TEMPLATE);
/// Claims that each pod has one of.
const CLAIM_TEMPLATES: Rule = ByTable(&VOLUME_CLAIM);
const METADATA: Rule = Metadata(&WORKLOAD_LABEL_KEYS, &WORKLOAD_ANNOTATION_KEYS);
const METADATA_WITH_MINIMUM: Rule = Metadata(&WORKLOAD_LABEL_KEYS, &MINIMUM_ANNOTATION_KEYS);

/// The group of a controller's object, as it states it itself.
const CONTROLLED: Rule = Fields(&[
    ("schedulingPolicy", POLICY),
    ("schedulingConstraints", CONSTRAINTS),
    ("disruptionMode", Honoured),
    ("resourceClaims", CLAIMS),
]);

/// Fields of a job that only its controller reads.
macro_rules! job_spec {
    ($($own:expr),* $(,)?) => {
        Fields(&[
            ("parallelism", Honoured),
            ("completions", Honoured),
            ("template", TEMPLATE),
            ("activeDeadlineSeconds", Silent),
            ("backoffLimit", Silent),
            ("backoffLimitPerIndex", Silent),
            ("managedBy", Silent),
            ("manualSelector", Silent),
            ("maxFailedIndexes", Silent),
            ("podFailurePolicy", Silent),
            ("podReplacementPolicy", Silent),
            ("selector", Silent),
            ("successPolicy", Silent),
            ("ttlSecondsAfterFinished", Silent),
            $($own),*
        ])
    };
}

/// A job of a set.
const JOB_TEMPLATE: Rule = Fields(&[
    ("metadata", METADATA),
    (
        "spec",
        job_spec!(
            ("scheduling", Refused(SCHEDULING)),
            ("completionMode", Silent),
            ("suspend", Silent)
        ),
    ),
]);

/// A job set, whose replicas may count or not.
macro_rules! job_set_spec {
    ($replicas:expr, $($own:expr),* $(,)?) => {
        Fields(&[
            (
                "replicatedJobs",
                Fields(&[
                    ("name", Silent),
                    ("groupName", Silent),
                    ("replicas", $replicas),
                    ("dependsOn", Honoured),
                    ("template", JOB_TEMPLATE),
                ]),
            ),
            ("startupPolicy", Honoured),
            ("coordinator", Honoured),
            ("volumeClaimPolicies", Refused(VOLUME)),
            ("scheduling", Refused(SCHEDULING)),
            ("network", Silent),
            ("successPolicy", Silent),
            ("failurePolicy", Silent),
            ("managedBy", Silent),
            ("ttlSecondsAfterFinished", Silent),
            $($own),*
        ])
    };
}

/// The replicas of Kubeflow's jobs.
const REPLICA_SPECS: Rule =
    Each(&Fields(&[("replicas", Honoured), ("template", TEMPLATE), ("restartPolicy", Silent)]));

const RUN_POLICY: Rule = Fields(&[
    ("suspend", Honoured),
    (
        "schedulingPolicy",
        Fields(&[
            ("minAvailable", Honoured),
            ("queue", Honoured),
            ("priorityClass", Honoured),
            ("scheduleTimeoutSeconds", Honoured),
            ("minResources", Holds(EXACT)),
        ]),
    ),
    ("cleanPodPolicy", Silent),
    ("ttlSecondsAfterFinished", Silent),
    ("activeDeadlineSeconds", Silent),
    ("backoffLimit", Silent),
    ("managedBy", Silent),
]);

/// Fields of a Kubeflow training job beside its replicas.
macro_rules! kubeflow {
    ($kind:expr, $($own:expr),* $(,)?) => {
        Kind {
            dialect: "Kubeflow",
            groups: &["kubeflow.org"],
            kind: $kind,
            fields: &[
                ("metadata", METADATA),
                ("spec", Fields(&[("runPolicy", RUN_POLICY), $($own),*])),
            ],
        }
    };
}

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
            ("rayStartParams", Silent),
            ("serviceType", Silent),
            ("headService", Silent),
            ("enableIngress", Silent),
            ("labels", Silent),
            ("resources", Silent),
            ("replicas", Silent),
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
            ("rayStartParams", Silent),
            ("scaleStrategy", Silent),
            ("idleTimeoutSeconds", Silent),
            ("labels", Silent),
            ("resources", Silent),
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

/// The cluster that a Ray job makes.
static RAY_CLUSTER: Table = Table { name: "Ray cluster", rule: Fields(RAY_CLUSTER_FIELDS) };

/// The runtime of training jobs.
const RUNTIME: &[Entry] = &[
    ("metadata", METADATA),
    (
        "spec",
        Fields(&[
            (
                "mlPolicy",
                Fields(&[
                    ("numNodes", Honoured),
                    (
                        "mpi",
                        Fields(&[
                            ("runLauncherAsNode", Honoured),
                            ("mpiImplementation", Silent),
                            ("numProcPerNode", Silent),
                            ("sshAuthMountPath", Silent),
                        ]),
                    ),
                    (
                        "torch",
                        Fields(&[("numProcPerNode", Silent), ("elasticPolicy", Refused(ELASTIC))]),
                    ),
                    ("jax", Silent),
                    ("plainML", Silent),
                    ("flux", Silent),
                    ("xgboost", Silent),
                ]),
            ),
            (
                "podGroupPolicy",
                Fields(&[
                    ("coscheduling", Whole(&[("scheduleTimeoutSeconds", Honoured)])),
                    ("volcano", Whole(&[("networkTopology", NETWORK_TOPOLOGY)])),
                ]),
            ),
            (
                "template",
                Fields(&[
                    ("metadata", METADATA),
                    (
                        "spec",
                        job_set_spec!(Holds("a training job has one of each"), ("suspend", Silent)),
                    ),
                ]),
            ),
        ]),
    ),
];

const ELASTIC: &str = "elastic training of runtimes is not read";

pub(super) const KINDS: &[Kind] = &[
    Kind {
        dialect: "Kubernetes",
        groups: &["batch"],
        kind: "Job",
        fields: &[
            ("metadata", METADATA_WITH_MINIMUM),
            (
                "spec",
                job_spec!(
                    ("scheduling", CONTROLLED),
                    ("completionMode", Honoured),
                    ("suspend", Honoured)
                ),
            ),
        ],
    },
    Kind {
        dialect: "Kubernetes",
        groups: &["apps"],
        kind: "StatefulSet",
        fields: &[
            ("metadata", METADATA_WITH_MINIMUM),
            (
                "spec",
                Fields(&[
                    ("replicas", Honoured),
                    ("podManagementPolicy", Honoured),
                    ("ordinals", Fields(&[("start", Honoured)])),
                    ("selector", Honoured),
                    ("template", TEMPLATE),
                    ("volumeClaimTemplates", CLAIM_TEMPLATES),
                    ("scheduling", Refused(SCHEDULING)),
                    ("serviceName", Silent),
                    ("updateStrategy", Silent),
                    ("minReadySeconds", Silent),
                    ("revisionHistoryLimit", Silent),
                    ("persistentVolumeClaimRetentionPolicy", Silent),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "JobSet",
        groups: &["jobset.x-k8s.io"],
        kind: "JobSet",
        fields: &[("metadata", METADATA), ("spec", job_set_spec!(Honoured, ("suspend", Honoured)))],
    },
    Kind {
        dialect: "LeaderWorkerSet",
        groups: &["leaderworkerset.x-k8s.io"],
        kind: "LeaderWorkerSet",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                Fields(&[
                    ("replicas", Honoured),
                    ("startupPolicy", Honoured),
                    (
                        "leaderWorkerTemplate",
                        Fields(&[
                            ("size", Honoured),
                            ("leaderTemplate", TEMPLATE),
                            ("workerTemplate", TEMPLATE),
                            (
                                "subGroupPolicy",
                                Fields(&[
                                    ("subGroupSize", Holds(SUBGROUPS)),
                                    ("subGroupPolicyType", Holds(SUBGROUPS)),
                                    ("type", Holds(SUBGROUPS)),
                                ]),
                            ),
                            ("volumeClaimTemplates", CLAIM_TEMPLATES),
                            ("persistentVolumeClaimRetentionPolicy", Silent),
                            ("restartPolicy", Silent),
                            ("resizePolicy", Silent),
                        ]),
                    ),
                    ("scheduling", Refused(SCHEDULING)),
                    ("rolloutStrategy", Silent),
                    ("networkConfig", Silent),
                ]),
            ),
        ],
    },
    kubeflow!(
        "TFJob",
        ("tfReplicaSpecs", REPLICA_SPECS),
        ("successPolicy", Silent),
        ("enableDynamicWorker", Silent)
    ),
    kubeflow!(
        "PyTorchJob",
        ("pytorchReplicaSpecs", REPLICA_SPECS),
        (
            "elasticPolicy",
            Fields(&[
                ("minReplicas", Honoured),
                ("maxReplicas", Holds(MOST)),
                ("maxRestarts", Silent),
                ("metrics", Silent),
                ("nProcPerNode", Silent),
                ("rdzvBackend", Silent),
                ("rdzvConf", Silent),
                ("rdzvHost", Silent),
                ("rdzvId", Silent),
                ("rdzvPort", Silent),
                ("standalone", Silent),
            ])
        ),
        ("nprocPerNode", Silent),
    ),
    kubeflow!("XGBoostJob", ("xgbReplicaSpecs", REPLICA_SPECS)),
    kubeflow!(
        "MPIJob",
        ("mpiReplicaSpecs", REPLICA_SPECS),
        ("launcherCreationPolicy", Honoured),
        ("slotsPerWorker", Silent),
        ("runLauncherAsWorker", Silent),
        ("mainContainer", Silent),
        ("cleanPodPolicy", Silent),
        ("sshAuthMountPath", Silent),
        ("mpiImplementation", Silent),
    ),
    Kind {
        dialect: "Kubeflow Trainer",
        groups: &["trainer.kubeflow.org"],
        kind: "TrainJob",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                Fields(&[
                    ("runtimeRef", Honoured),
                    (
                        "trainer",
                        Fields(&[
                            ("numNodes", Honoured),
                            ("resourcesPerNode", RESOURCES),
                            ("numProcPerNode", Silent),
                            ("image", Silent),
                            ("command", Silent),
                            ("args", Silent),
                            ("env", Silent),
                        ]),
                    ),
                    ("suspend", Honoured),
                    ("labels", Refused(OVERRIDES)),
                    ("annotations", Refused(OVERRIDES)),
                    ("podTemplateOverrides", Refused(OVERRIDES)),
                    ("podSpecOverrides", Refused(OVERRIDES)),
                    ("runtimePatches", Refused(PATCHES)),
                    ("initializer", Silent),
                    ("datasetConfig", Silent),
                    ("modelConfig", Silent),
                    ("managedBy", Silent),
                    ("activeDeadlineSeconds", Silent),
                    ("ttlSecondsAfterFinished", Silent),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "Kubeflow Trainer",
        groups: &["trainer.kubeflow.org"],
        kind: "TrainingRuntime",
        fields: RUNTIME,
    },
    Kind {
        dialect: "Kubeflow Trainer",
        groups: &["trainer.kubeflow.org"],
        kind: "ClusterTrainingRuntime",
        fields: RUNTIME,
    },
    Kind {
        dialect: "Ray",
        groups: &["ray.io"],
        kind: "RayCluster",
        fields: &[("metadata", METADATA), ("spec", ByTable(&RAY_CLUSTER))],
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
                    ("entrypointNumCpus", Silent),
                    ("entrypointNumGpus", Silent),
                    ("entrypointResources", Silent),
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
    Kind {
        dialect: "Volcano",
        groups: &["batch.volcano.sh"],
        kind: "Job",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                Fields(&[
                    ("minAvailable", Honoured),
                    ("queue", Honoured),
                    ("priorityClassName", Honoured),
                    ("schedulerName", Ignored(SCHEDULER)),
                    ("networkTopology", NETWORK_TOPOLOGY),
                    (
                        "tasks",
                        Fields(&[
                            ("name", Silent),
                            ("replicas", Honoured),
                            ("minAvailable", Honoured),
                            (
                                "dependsOn",
                                Fields(&[("name", Honoured), ("iteration", Holds(ITERATION))]),
                            ),
                            ("partitionPolicy", PARTITIONS),
                            ("topologyPolicy", Honoured),
                            ("template", TEMPLATE),
                            ("policies", Silent),
                            ("maxRetry", Silent),
                        ]),
                    ),
                    ("volumes", Refused(VOLUME)),
                    ("plugins", Silent),
                    ("policies", Silent),
                    ("maxRetry", Silent),
                    ("minSuccess", Silent),
                    ("runningEstimate", Ignored("no estimate is read from this dialect")),
                    ("ttlSecondsAfterFinished", Silent),
                ]),
            ),
        ],
    },
];

const ITERATION: &str = "tasks wait for all that they name, which any allows";
const PARTITIONS: Rule = Fields(&[
    ("totalPartitions", Holds("replicas are partitions times their size")),
    ("partitionSize", Honoured),
    ("minPartitions", Honoured),
    ("networkTopology", NETWORK_TOPOLOGY),
]);
