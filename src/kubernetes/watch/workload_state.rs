//! Groups, pods and training jobs of the workloads of a store.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use super::entries::GroupKey;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::kinds::{self, RuntimeName, Submitted};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::value::Value;
use crate::kubernetes::{Mode, metadata};

/// Where the pods of workloads come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkloadPods {
    /// Controllers make them, and a watch of pods reports them. A pod that names no group is a
    /// member of the workload that it was made for, and waits until that is known. So the embedder
    /// watches every kind that is served. A `TrainJob`, a `RayJob` and a `RayService` are known by the
    /// objects that their controllers make of them, a `JobSet` and a `RayCluster`. The pods of a
    /// `Deployment`, a `ReplicaSet`, a `ReplicationController` or a `DaemonSet` are groups of one.
    Watched,
    /// The store makes them of the templates: for embedders that decide before pods exist. A
    /// workload has pods while it is neither suspended nor ended. Nothing is made of a `ReplicaSet`, a
    /// `ReplicationController`, a `DaemonSet` or a `CronJob`.
    FromTemplates,
}

/// Groups, pods and training jobs of the workloads of a store.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    pub(super) pods: Option<WorkloadPods>,
    /// The groups and the pods of each, by kind and key.
    pub(super) made: BTreeMap<(WorkloadKind, String), Made>,
    /// Training jobs as they were last seen, by key, each with its runtime, which may change.
    pub(super) train_jobs: BTreeMap<String, (RuntimeName, Value)>,
    pub(super) runtimes: BTreeMap<RuntimeName, Value>,
}

/// Groups and pods made of a workload.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) groups: BTreeSet<GroupKey>,
    pub(super) pods: BTreeSet<String>,
}

impl Workloads {
    /// Whether pods that name no group are of the workload they were made for.
    pub(super) fn claim_pods(&self) -> bool {
        self.pods == Some(WorkloadPods::Watched)
    }

    /// Reads a workload; `None` where another object stands for it.
    pub(super) fn read(&self, kind: WorkloadKind, value: &Value) -> Fault<Option<Submitted>> {
        let Some(pods) = self.pods else { return Ok(None) };
        let is_known_by_others = matches!(
            kind,
            WorkloadKind::TrainJob
                | WorkloadKind::RayJob
                | WorkloadKind::RayService
                | WorkloadKind::Deployment
        );
        if kind.is_of_others() || pods == WorkloadPods::Watched && is_known_by_others {
            return Ok(None);
        }
        let object = metadata::object(kind.word(), true, value, Mode::AsStored);
        let job = kinds::read(kind, &Field::root(&object, value))?;
        let runtime = job.train.as_ref().and_then(|train| self.runtimes.get(&train.runtime));
        let job = kinds::resolve(job, runtime, Mode::AsStored)?;
        let owner = job.controller.as_ref().map(|(kind, _)| kind.as_str());
        let is_part = owner.is_some_and(|owner| {
            let kind = WorkloadKind::of_controller(owner);
            owner == "Pod" || kind.is_some_and(|kind| !kind.is_of_others())
        });
        let is_part = is_part && pods == WorkloadPods::FromTemplates;
        Ok(Some(job).filter(|_| !is_part))
    }
}
