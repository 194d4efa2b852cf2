//! One workload, of whichever kind.

use super::submitted::Submitted;
use super::{
    cron_job, daemon_set, job, job_set, kubeflow, leader_worker_set, ray, replicated, spark,
    stateful_set, train_job, volcano_job,
};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;

/// A workload. That of a `TrainJob` has no groups until its runtime is known.
pub(in crate::kubernetes) fn read(kind: WorkloadKind, root: &Field<'_>) -> Fault<Submitted> {
    match kind {
        WorkloadKind::Job => job::job(root),
        WorkloadKind::JobSet => job_set::job_set(root),
        WorkloadKind::StatefulSet => stateful_set::stateful_set(root),
        WorkloadKind::LeaderWorkerSet => leader_worker_set::leader_worker_set(root),
        WorkloadKind::TFJob
        | WorkloadKind::PyTorchJob
        | WorkloadKind::XGBoostJob
        | WorkloadKind::PaddleJob
        | WorkloadKind::JAXJob
        | WorkloadKind::MPIJob => kubeflow::kubeflow(kind, root),
        WorkloadKind::TrainJob => train_job::train_job(root),
        WorkloadKind::RayCluster => ray::ray_cluster(root),
        WorkloadKind::RayJob => ray::ray_job(root),
        WorkloadKind::RayService => ray::ray_service(root),
        WorkloadKind::SparkApplication => spark::spark_application(root),
        WorkloadKind::Deployment
        | WorkloadKind::ReplicaSet
        | WorkloadKind::ReplicationController => replicated::replicated(kind, root),
        WorkloadKind::DaemonSet => daemon_set::daemon_set(root),
        WorkloadKind::CronJob => cron_job::cron_job(root),
        WorkloadKind::VolcanoJob => volcano_job::volcano_job(root),
    }
}
