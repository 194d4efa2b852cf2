//! Workloads that people submit, and the runtimes that they refer to.

use super::groups::{CONSTRAINTS, NETWORK_TOPOLOGY, POLICY};
use super::keys::{MINIMUM_ANNOTATION_KEYS, WORKLOAD_ANNOTATION_KEYS, WORKLOAD_LABEL_KEYS};
use super::parts::CLAIMS;
use super::pods::{POD_TEMPLATE, RESOURCES};
use super::rule::Rule::{
    Choice as ByChoice, Each, Fields, Holds, Honoured, Ignored, Metadata, Refused, Silent,
    Table as ByTable, Whole,
};
use super::rule::{Entry, Kind, Rule};
use super::storage::VOLUME_CLAIM;

const VOLUME: &str = "claims that this kind makes are not read";
const SCHEDULING: &str = "the scheduling of Kubernetes 1.37 is not read at this level";
const EXACT: &str = "placement is exact: the members needed have room for what they ask";
const SUBGROUPS: &str = "subgroups ask for nothing by themselves";
const OVERRIDES: &str = "overrides of pod templates are not applied";
const PATCHES: &str = "patches of the runtime are not applied";
const SCHEDULER: &str = "the embedder says whose pods it places";
pub(super) const ONCE: &str = "it says when pods are replaced or done, not where they are";
const PROCESSES: &str = "it counts processes within a pod";
const RUNTIME_SUSPENDED: &str = "the job that names the runtime says whether it is suspended";
const MOST: &str = "no more pods are made than the replicas";

pub(super) const TEMPLATE: Rule = ByTable(&POD_TEMPLATE);
/// Claims that each pod has one of.
const CLAIM_TEMPLATES: Rule = ByTable(&VOLUME_CLAIM);
pub(super) const METADATA: Rule = Metadata(&WORKLOAD_LABEL_KEYS, &WORKLOAD_ANNOTATION_KEYS);
const METADATA_WITH_MINIMUM: Rule = Metadata(&WORKLOAD_LABEL_KEYS, &MINIMUM_ANNOTATION_KEYS);

/// The group of a controller's object, as it states it itself.
const CONTROLLED: Rule = Fields(&[
    ("schedulingPolicy", POLICY),
    ("schedulingConstraints", CONSTRAINTS),
    ("disruptionMode", Honoured),
    ("resourceClaims", CLAIMS),
]);

/// The same of a set of jobs, which may be told apart.
const CONTROLLED_SET: Rule = Fields(&[
    ("schedulingPolicy", POLICY),
    ("schedulingConstraints", CONSTRAINTS),
    ("disruptionMode", Honoured),
    ("resourceClaims", CLAIMS),
    ("replicatedJobs", Refused(SCHEDULING)),
    ("job", Refused(SCHEDULING)),
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

/// A job that is made when it is time.
pub(super) const CRON_JOB_SPEC: Rule = job_spec!(
    ("scheduling", CONTROLLED),
    ("completionMode", Holds("no gang is inferred: its scheduling says whether it is one")),
    ("suspend", Holds("its pods wait for their time anyway"))
);

/// A job of a set.
const JOB_TEMPLATE: Rule = Fields(&[
    ("metadata", METADATA),
    (
        "spec",
        job_spec!(
            ("scheduling", Refused(SCHEDULING)),
            ("completionMode", Holds("pods are as many either way")),
            ("suspend", Holds("the set says whether its jobs are suspended"))
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
                    ("groupName", Holds("a group of jobs asks for nothing by itself")),
                    ("replicas", $replicas),
                    ("dependsOn", Honoured),
                    ("template", JOB_TEMPLATE),
                ]),
            ),
            ("startupPolicy", Honoured),
            ("coordinator", Honoured),
            ("volumeClaimPolicies", Refused(VOLUME)),
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

/// Bounds of an elastic job.
const ELASTIC_POLICY: Rule = Fields(&[
    ("minReplicas", Honoured),
    ("maxReplicas", Holds(MOST)),
    ("maxRestarts", Silent),
    ("metrics", Silent),
    ("nProcPerNode", Holds(PROCESSES)),
    ("rdzvBackend", Silent),
    ("rdzvConf", Silent),
    ("rdzvHost", Silent),
    ("rdzvId", Silent),
    ("rdzvPort", Silent),
    ("standalone", Silent),
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
                            ("numProcPerNode", Holds(PROCESSES)),
                            ("sshAuthMountPath", Silent),
                        ]),
                    ),
                    (
                        "torch",
                        Fields(&[
                            ("numProcPerNode", Holds(PROCESSES)),
                            ("elasticPolicy", Refused(ELASTIC)),
                        ]),
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
                        job_set_spec!(
                            Holds("a training job has one of each"),
                            ("suspend", Holds(RUNTIME_SUSPENDED)),
                            ("scheduling", Refused(SCHEDULING))
                        ),
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
                    ("scheduling", CONTROLLED),
                    ("serviceName", Silent),
                    ("updateStrategy", Holds(ONCE)),
                    ("minReadySeconds", Silent),
                    ("revisionHistoryLimit", Silent),
                    ("persistentVolumeClaimRetentionPolicy", Holds(ONCE)),
                ]),
            ),
        ],
    },
    Kind {
        dialect: "JobSet",
        groups: &["jobset.x-k8s.io"],
        kind: "JobSet",
        fields: &[
            ("metadata", METADATA),
            (
                "spec",
                job_set_spec!(Honoured, ("suspend", Honoured), ("scheduling", CONTROLLED_SET)),
            ),
        ],
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
                            ("persistentVolumeClaimRetentionPolicy", Holds(ONCE)),
                            ("restartPolicy", Silent),
                            ("resizePolicy", Silent),
                        ]),
                    ),
                    ("scheduling", ByChoice(&super::levels::SET)),
                    ("rolloutStrategy", Holds(ONCE)),
                    ("networkConfig", Silent),
                ]),
            ),
        ],
    },
    kubeflow!(
        "TFJob",
        ("tfReplicaSpecs", REPLICA_SPECS),
        ("successPolicy", Silent),
        ("enableDynamicWorker", Holds("pods are as many either way"))
    ),
    kubeflow!(
        "PyTorchJob",
        ("pytorchReplicaSpecs", REPLICA_SPECS),
        ("elasticPolicy", ELASTIC_POLICY),
        ("nprocPerNode", Holds(PROCESSES)),
    ),
    kubeflow!("XGBoostJob", ("xgbReplicaSpecs", REPLICA_SPECS)),
    kubeflow!(
        "PaddleJob",
        ("paddleReplicaSpecs", REPLICA_SPECS),
        ("elasticPolicy", ELASTIC_POLICY),
    ),
    kubeflow!("JAXJob", ("jaxReplicaSpecs", REPLICA_SPECS)),
    kubeflow!(
        "MPIJob",
        ("mpiReplicaSpecs", REPLICA_SPECS),
        ("launcherCreationPolicy", Honoured),
        ("slotsPerWorker", Holds(PROCESSES)),
        ("runLauncherAsWorker", Holds("the launcher is a pod either way")),
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
                            ("numProcPerNode", Holds(PROCESSES)),
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
                    ("plugins", Ignored("they write names, keys and services into pods")),
                    ("policies", Silent),
                    ("maxRetry", Silent),
                    ("minSuccess", Holds(ONCE)),
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
