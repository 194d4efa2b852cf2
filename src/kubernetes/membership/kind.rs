//! The kinds of workload that are read.

/// A kind of object that stands for pods: what people submit.
///
/// ```
/// use phalanx::kubernetes::WorkloadKind;
///
/// assert_eq!(WorkloadKind::JobSet.to_string(), "jobset.x-k8s.io/JobSet");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[non_exhaustive]
pub enum WorkloadKind {
    /// `Job` of `batch`.
    Job,
    /// `JobSet` of `jobset.x-k8s.io`.
    JobSet,
    /// `StatefulSet` of `apps`.
    StatefulSet,
    /// `LeaderWorkerSet` of `leaderworkerset.x-k8s.io`.
    LeaderWorkerSet,
    /// `TFJob` of `kubeflow.org`.
    TFJob,
    /// `PyTorchJob` of `kubeflow.org`.
    PyTorchJob,
    /// `XGBoostJob` of `kubeflow.org`.
    XGBoostJob,
    /// `MPIJob` of `kubeflow.org`, `v1` and `v2beta1`.
    MPIJob,
    /// `TrainJob` of `trainer.kubeflow.org`.
    TrainJob,
    /// `RayCluster` of `ray.io`.
    RayCluster,
    /// `RayJob` of `ray.io`.
    RayJob,
    /// `Job` of `batch.volcano.sh`.
    VolcanoJob,
    /// `PaddleJob` of `kubeflow.org`.
    PaddleJob,
    /// `JAXJob` of `kubeflow.org`.
    JAXJob,
    /// `RayService` of `ray.io`.
    RayService,
    /// `SparkApplication` of `sparkoperator.k8s.io`.
    SparkApplication,
    /// `Deployment` of `apps`.
    Deployment,
    /// `ReplicaSet` of `apps`.
    ReplicaSet,
    /// `ReplicationController` of the core group.
    ReplicationController,
    /// `DaemonSet` of `apps`.
    DaemonSet,
    /// `CronJob` of `batch`.
    CronJob,
}

/// API group, kind, and the prefix of groups of the kind where names of several kinds meet.
const NAMES: [(WorkloadKind, &str, &str, &str); WorkloadKind::COUNT] = [
    (WorkloadKind::Job, "batch", "Job", "job:"),
    (WorkloadKind::JobSet, "jobset.x-k8s.io", "JobSet", "jobset:"),
    (WorkloadKind::StatefulSet, "apps", "StatefulSet", "statefulset:"),
    (
        WorkloadKind::LeaderWorkerSet,
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        "leaderworkerset:",
    ),
    (WorkloadKind::TFJob, "kubeflow.org", "TFJob", "tfjob:"),
    (WorkloadKind::PyTorchJob, "kubeflow.org", "PyTorchJob", "pytorchjob:"),
    (WorkloadKind::XGBoostJob, "kubeflow.org", "XGBoostJob", "xgboostjob:"),
    (WorkloadKind::MPIJob, "kubeflow.org", "MPIJob", "mpijob:"),
    (WorkloadKind::TrainJob, "trainer.kubeflow.org", "TrainJob", "trainjob:"),
    (WorkloadKind::RayCluster, "ray.io", "RayCluster", "raycluster:"),
    (WorkloadKind::RayJob, "ray.io", "RayJob", "rayjob:"),
    (WorkloadKind::VolcanoJob, "batch.volcano.sh", "Job", "volcano:"),
    (WorkloadKind::PaddleJob, "kubeflow.org", "PaddleJob", "paddlejob:"),
    (WorkloadKind::JAXJob, "kubeflow.org", "JAXJob", "jaxjob:"),
    (WorkloadKind::RayService, "ray.io", "RayService", "rayservice:"),
    (WorkloadKind::SparkApplication, "sparkoperator.k8s.io", "SparkApplication", "spark:"),
    (WorkloadKind::Deployment, "apps", "Deployment", "deployment:"),
    (WorkloadKind::ReplicaSet, "apps", "ReplicaSet", "replicaset:"),
    (WorkloadKind::ReplicationController, "", "ReplicationController", "replicationcontroller:"),
    (WorkloadKind::DaemonSet, "apps", "DaemonSet", "daemonset:"),
    (WorkloadKind::CronJob, "batch", "CronJob", "cronjob:"),
];

impl WorkloadKind {
    /// Number of kinds.
    pub(in crate::kubernetes) const COUNT: usize = WorkloadKind::CronJob as usize + 1;

    /// The kind of an API group and a word.
    pub(in crate::kubernetes) fn of(group: &str, kind: &str) -> Option<WorkloadKind> {
        let found = NAMES.iter().find(|(_, own, word, _)| *own == group && *word == kind);
        found.map(|(kind, ..)| *kind)
    }

    /// The kind of a controller, whose API group its pods do not always state.
    pub(in crate::kubernetes) fn of_controller(kind: &str) -> Option<WorkloadKind> {
        let found = NAMES.iter().find(|(_, _, word, _)| *word == kind);
        found.map(|(kind, ..)| *kind)
    }

    /// The word of the kind.
    pub(in crate::kubernetes) fn word(self) -> &'static str {
        NAMES[self as usize].2
    }

    /// The prefix of its groups where names of several kinds meet.
    pub(in crate::kubernetes) fn prefix(self) -> &'static str {
        NAMES[self as usize].3
    }

    /// Whether its pods are known by other objects alone: those that its controller makes of it, one
    /// by one, or on each node.
    pub(in crate::kubernetes) fn is_of_others(self) -> bool {
        matches!(
            self,
            WorkloadKind::ReplicaSet
                | WorkloadKind::ReplicationController
                | WorkloadKind::DaemonSet
                | WorkloadKind::CronJob
        )
    }

    /// Whether pods of this controller are as many as it keeps, each by itself.
    pub(in crate::kubernetes) fn is_of_single_pods(self) -> bool {
        matches!(
            self,
            WorkloadKind::ReplicaSet
                | WorkloadKind::ReplicationController
                | WorkloadKind::DaemonSet
        )
    }

    /// All kinds.
    pub(in crate::kubernetes) fn all() -> impl Iterator<Item = WorkloadKind> {
        NAMES.iter().map(|(kind, ..)| *kind)
    }
}

impl core::fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match NAMES[*self as usize].1 {
            "" => f.write_str(self.word()),
            group => write!(f, "{group}/{}", self.word()),
        }
    }
}

#[cfg(test)]
mod tests;
