//! Workloads of a store, and their groups.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::entries::{GroupKey, PodEntry};
use super::event::Object;
use super::store::Store;
use super::update::Update;
use super::workload_state::{Made, WorkloadPods};
use crate::kubernetes::kinds::{RuntimeName, Submitted};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::value::Value;
use crate::model::ModelError;

impl Store {
    /// Reads workloads of other kinds as groups of their own, their pods from where it says.
    ///
    /// Without this, objects of those kinds change nothing, and a pod that names no group is a
    /// group of one.
    #[must_use]
    pub fn with_workloads(mut self, pods: WorkloadPods) -> Store {
        self.workloads.pods = Some(pods);
        self
    }

    /// Takes a workload that appeared or changed. Its groups change in place: pods that stay are
    /// as they were, placed or not.
    pub(super) fn put_workload(
        &mut self,
        kind: WorkloadKind,
        key: &str,
        object: &Object,
        job: Option<Submitted>,
        updates: &mut Vec<Update>,
    ) {
        let Some(mut job) = job else {
            self.remove_workload(kind, key, updates);
            return;
        };
        if let Some(train) = &job.train {
            let train_job = (train.runtime.clone(), object.0.clone());
            self.workloads.train_jobs.insert(key.to_owned(), train_job);
        }
        let from_templates = self.workloads.pods == Some(WorkloadPods::FromTemplates);
        let mut made = Made::default();
        let pods = if from_templates && !job.workload.suspended && !job.ended {
            self.entries(&mut job)
        } else {
            BTreeMap::new()
        };
        made.pods = pods.keys().cloned().collect();
        for group in &job.groups {
            let (namespace, name) = (group.namespace.clone(), group.name.clone());
            made.groups.insert(GroupKey { namespace, family: group.family, name });
        }
        let identity = (kind, key.to_owned());
        let old = self.workloads.made.remove(&identity).unwrap_or_default();
        // Groups first, so that none is below a minimum that it has no longer.
        for group in core::mem::take(&mut job.groups) {
            self.put_object(group, updates);
        }
        for pod in old.pods.difference(&made.pods) {
            self.remove_pod(pod, updates);
        }
        for (pod, entry) in pods {
            self.put_made_pod(&pod, entry, updates);
        }
        for group in old.groups.difference(&made.groups) {
            self.remove_object(group, updates);
        }
        self.workloads.made.insert(identity, made);
    }

    /// Removes a workload with its groups and the pods that were made of it.
    pub(super) fn remove_workload(
        &mut self,
        kind: WorkloadKind,
        key: &str,
        updates: &mut Vec<Update>,
    ) {
        if kind == WorkloadKind::TrainJob {
            self.workloads.train_jobs.remove(key);
        }
        let Some(made) = self.workloads.made.remove(&(kind, key.to_owned())) else { return };
        for pod in &made.pods {
            self.remove_pod(pod, updates);
        }
        for group in &made.groups {
            self.remove_object(group, updates);
        }
    }

    /// Takes a training runtime, or forgets it; the training jobs that name it follow.
    ///
    /// # Errors
    /// Its templates cannot be taken; it stays as it was.
    pub(super) fn put_runtime(
        &mut self,
        name: &RuntimeName,
        runtime: Option<Value>,
        updates: &mut Vec<Update>,
    ) -> Result<(), ModelError> {
        let jobs = self.workloads.train_jobs.iter().filter(|(_, (runtime, _))| runtime == name);
        let jobs: Vec<(String, Value)> =
            jobs.map(|(key, (_, job))| (key.clone(), job.clone())).collect();
        let old = match runtime {
            Some(runtime) => self.workloads.runtimes.insert(name.clone(), runtime),
            None => self.workloads.runtimes.remove(name),
        };
        let mut changed = Vec::new();
        for (key, value) in jobs {
            match self.workloads.read(WorkloadKind::TrainJob, &value) {
                Ok(job) => changed.push((key, value, job)),
                Err(error) => {
                    match old {
                        Some(old) => self.workloads.runtimes.insert(name.clone(), old),
                        None => self.workloads.runtimes.remove(name),
                    };
                    return Err(error);
                }
            }
        }
        for (key, value, job) in changed {
            self.put_workload(WorkloadKind::TrainJob, &key, &Object(value), job, updates);
        }
        Ok(())
    }

    /// The pods of a workload as entries, by key.
    fn entries(&mut self, job: &mut Submitted) -> BTreeMap<String, PodEntry> {
        for set in &mut job.sets {
            let pod = core::mem::take(&mut set.template.pod);
            let pod = self.profiled(set.template.scheduler.as_deref(), pod);
            set.template.pod = self.interned(pod);
        }
        let entries = job.pods().map(|record| {
            let key = format!("{}/{}", record.pod.namespace(), record.pod.name);
            let mut entry = PodEntry::new(record, false);
            entry.ours = self.places(entry.scheduler.as_deref());
            (key, entry)
        });
        entries.collect()
    }

    /// Takes a pod made of a template. One that was not gated may be placed: if it changes it is
    /// another pod.
    fn put_made_pod(&mut self, key: &str, entry: PodEntry, updates: &mut Vec<Update>) {
        if let Some(old) = self.pods.get(key)
            && old.pod != entry.pod
            && old.pod.scheduling_gates.is_empty()
        {
            self.remove_pod(key, updates);
        }
        self.put_pod(key, entry, updates);
    }
}
