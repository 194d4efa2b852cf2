//! The workload that a pod was made for, by the labels and owner references that controllers put on
//! pods.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::kind::WorkloadKind;
use super::{Family, Membership};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::metadata::Controller;

/// A workload that a pod was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct MadeBy {
    pub(in crate::kubernetes) kind: WorkloadKind,
    pub(in crate::kubernetes) name: String,
    /// The one of its groups, where it has several.
    pub(in crate::kubernetes) index: Option<String>,
    pub(in crate::kubernetes) role: Option<String>,
}

impl MadeBy {
    /// The membership of the pod, where nothing is known yet of the workload.
    pub(in crate::kubernetes) fn membership(&self) -> Membership {
        let name = match &self.index {
            Some(index) => format!("{}-{index}", self.name),
            None => self.name.clone(),
        };
        let membership = Membership::new(Family::Kind(self.kind), name, "metadata");
        Membership { role: self.role.clone(), ..membership }
    }

    fn new(kind: WorkloadKind, name: String) -> MadeBy {
        MadeBy { kind, name, index: None, role: None }
    }
}

/// The workloads that a pod may be of, the outermost first: its labels name the workload whose
/// controller made its controller.
pub(in crate::kubernetes) fn made_by(
    metadata: &Field<'_>,
    controller: Option<&Controller>,
) -> Fault<Vec<MadeBy>> {
    let mut found = Vec::new();
    if let Some(labels) = metadata.get("labels")? {
        if let Some(name) = labels.name_of("leaderworkerset.sigs.k8s.io/name")? {
            let mut made = MadeBy::new(WorkloadKind::LeaderWorkerSet, name);
            made.index = labels.name_of("leaderworkerset.sigs.k8s.io/group-index")?;
            let worker = labels.text_of("leaderworkerset.sigs.k8s.io/worker-index")?;
            made.role = Some(if worker == "0" { "leader" } else { "workers" }.to_string());
            // Without its group it cannot be told which of them it is in.
            found.extend(Some(made).filter(|made| made.index.is_some()));
        }
        if let Some(name) = labels.name_of("jobset.sigs.k8s.io/jobset-name")? {
            let mut made = MadeBy::new(WorkloadKind::JobSet, name);
            made.role = labels.name_of("jobset.sigs.k8s.io/replicatedjob-name")?;
            found.push(made);
        }
        if let Some(name) = labels.name_of("ray.io/cluster")? {
            let mut made = MadeBy::new(WorkloadKind::RayCluster, name);
            let is_head = labels.text_of("ray.io/node-type")? == "head";
            made.role =
                if is_head { Some("head".to_string()) } else { labels.name_of("ray.io/group")? };
            found.push(made);
        }
        if let Some(name) = labels.name_of("sparkoperator.k8s.io/app-name")? {
            let mut made = MadeBy::new(WorkloadKind::SparkApplication, name);
            made.role = labels.name_of("spark-role")?;
            found.push(made);
        }
        if let Some(name) = labels.name_of("training.kubeflow.org/job-name")? {
            let kind = match controller.and_then(|(kind, _)| WorkloadKind::of_controller(kind)) {
                // The launcher of an MPI job is made by a job of its own.
                None | Some(WorkloadKind::Job) => WorkloadKind::MPIJob,
                Some(kind) => kind,
            };
            let mut made = MadeBy::new(kind, name);
            for key in ["training.kubeflow.org/replica-type", "training.kubeflow.org/job-role"] {
                if made.role.is_none() {
                    made.role = labels.name_of(key)?.map(|role| role.to_lowercase());
                }
            }
            found.push(made);
        }
    }
    if let Some((kind, name)) = controller
        && let Some(kind @ (WorkloadKind::Job | WorkloadKind::StatefulSet)) =
            WorkloadKind::of_controller(kind)
    {
        found.push(MadeBy::new(kind, name.clone()));
    }
    Ok(found)
}
