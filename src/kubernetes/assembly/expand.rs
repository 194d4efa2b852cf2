//! Workloads of an input as groups and pods, once everything is read.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Located;
use crate::base::ObjectName;
use crate::kubernetes::field::Note;
use crate::kubernetes::groups::{GroupObject, Nature};
use crate::kubernetes::kinds::{
    self, Decision, Existing, OrdinaryReason, Submitted, SubmittedWorkload,
};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::membership::{Family, Membership};
use crate::kubernetes::mode::Mode;
use crate::kubernetes::objects::Objects;
use crate::model::{GroupPolicy, Problem};

/// The most pods that all workloads together are expanded to.
const MAX_PODS_IN_ALL: usize = 1_000_000;

/// Kind, namespace, name.
type Identity<'a> = (WorkloadKind, &'a str, &'a str);

/// Makes the groups of workloads, and the pods of those that have none; puts pods that are there
/// into the groups of the workloads they were made for.
pub(in crate::kubernetes) fn expand(objects: &mut Objects) -> Located<Vec<SubmittedWorkload>> {
    let mut submitted = Vec::new();
    for job in core::mem::take(&mut objects.submitted) {
        let source = job.source;
        let runtime = job.train.as_ref().and_then(|train| objects.runtimes.get(&train.runtime));
        let job = kinds::resolve(job, runtime, objects.mode);
        submitted.push(job.map_err(|error| (source, error))?);
    }
    without_parts(objects, &mut submitted);
    take_others(objects, &mut submitted)?;
    for job in &mut submitted {
        if job.workload.kind == WorkloadKind::DaemonSet {
            kinds::on_nodes(job, &objects.nodes).map_err(|error| (job.source, error))?;
        }
    }
    tell_apart(objects, &mut submitted);
    claim_pods(objects, &submitted);
    let mut room = MAX_PODS_IN_ALL;
    let mut workloads = Vec::new();
    for mut job in submitted {
        if !job.begun {
            let notes = core::mem::take(&mut job.notes).into_iter();
            objects.notes.extend(notes.map(|text| Note { object: job.label.clone(), text }));
        }
        for group in &mut job.groups {
            (group.source, group.order) = (job.source, job.order);
            if job.begun {
                group.nature = Nature::BegunJob;
            }
            if let (true, Some(local)) = (group.queue.is_empty(), &group.local_queue) {
                group.queue.clone_from(local);
            }
        }
        if !job.begun {
            make_pods(objects, &job, &mut room)?;
        }
        objects.groups.append(&mut job.groups);
        workloads.push(job.workload);
    }
    Ok(workloads)
}

fn identity(job: &Submitted) -> Identity<'_> {
    (job.workload.kind, &job.workload.namespace, &job.workload.name)
}

/// Takes out workloads that are part of another in the input, or holds back that other. Pods name
/// the workload that made their job, and the cluster that their Ray job made.
fn without_parts(objects: &mut Objects, submitted: &mut Vec<Submitted>) {
    let index: BTreeMap<Identity<'_>, usize> =
        submitted.iter().enumerate().map(|(at, job)| (identity(job), at)).collect();
    let mut part_of: Vec<Option<String>> = Vec::new();
    let mut made_others: Vec<usize> = Vec::new();
    for job in submitted.iter() {
        let mut part = None;
        if let Some((word, name)) = &job.controller {
            let kind = WorkloadKind::of_controller(word);
            let owner = kind.and_then(|kind| index.get(&(kind, &*job.workload.namespace, &**name)));
            let is_inner =
                matches!(job.workload.kind, WorkloadKind::Job | WorkloadKind::StatefulSet)
                    && kind != Some(WorkloadKind::CronJob);
            match owner {
                Some(at) if is_inner => part = submitted.get(*at).map(|owner| owner.label.clone()),
                Some(at) => made_others.push(*at),
                // The workers of a group of a LeaderWorkerSet belong to their leader.
                None if is_inner && word == "Pod" => part = Some(format!("pod {name}")),
                None => {}
            }
        }
        part_of.push(part);
    }
    for at in made_others {
        if let Some(owner) = submitted.get_mut(at) {
            owner.begun = true;
        }
    }
    let mut parts = part_of.into_iter();
    submitted.retain(|job| {
        let Some(owner) = parts.next().flatten() else { return true };
        let text = format!("is part of {owner}");
        objects.notes.push(Note { object: job.label.clone(), text });
        false
    });
}

/// Takes into account what other objects say of each workload: its pods, its gang, its class.
fn take_others(objects: &Objects, submitted: &mut [Submitted]) -> Located<()> {
    let existing = Existing::new(&objects.workloads, &objects.pod_groups);
    for job in submitted {
        let (kind, namespace, name) = identity(job);
        let made = objects.made.get(&(kind, namespace.into(), name.into()));
        let made = made.copied().unwrap_or(0);
        job.begun |= made > 0 && !job.workload.suspended;
        apply_rule(&existing, job, made);
        take_class(objects, job)?;
    }
    Ok(())
}

/// Applies Kubernetes' own rule to a job that is a candidate for it.
fn apply_rule(existing: &Existing<'_>, job: &mut Submitted, pods: usize) {
    let Some(scheduling) = job.scheduling.take() else { return };
    match scheduling.decide(existing, pods) {
        Decision::NewWorkload => {
            if let Some(name) = scheduling.new_group_name() {
                rename(job, 0, &name);
            }
        }
        Decision::NewPodGroup(workload, template, policy) => {
            rename(job, 0, &workload.group_name(template));
            job.groups.iter_mut().for_each(|group| group.policy = policy);
        }
        Decision::Reuse(name) => {
            job.groups.clear();
            job.workload.groups = alloc::vec![ObjectName::new(&job.workload.namespace, name)];
            for set in &mut job.sets {
                let membership = Membership::new(Family::Kubernetes, name.into(), "spec");
                set.template.membership = Some(Box::new(membership));
            }
        }
        Decision::Ordinary(reason) => {
            // Pods of a job that runs as it is say nothing new.
            if reason != OrdinaryReason::NotNew {
                job.notes.push(format!("its pods are scheduled one by one: {reason}"));
            }
            for group in job.groups.iter_mut().filter(|group| group.local_queue.is_none()) {
                group.policy = GroupPolicy::Basic {};
            }
        }
    }
}

/// Names one of the groups of a workload anew.
fn rename(job: &mut Submitted, at: usize, name: &str) {
    if let (Some(group), Some(full)) = (job.groups.get_mut(at), job.workload.groups.get_mut(at)) {
        group.name = name.into();
        *full = ObjectName::new(&job.workload.namespace, name);
    }
}

/// Puts the kind before the names of groups that others have already: a pod that waits alone, a
/// group of another dialect or of a workload of another kind.
fn tell_apart(objects: &Objects, submitted: &mut [Submitted]) {
    let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
    for group in &objects.groups {
        taken.extend(names(group));
    }
    for record in objects.pods.iter().filter(|record| {
        record.membership.is_none() && record.made_by.is_empty() && record.pod.node.is_none()
    }) {
        taken.insert((record.pod.namespace().to_string(), record.pod.name.clone()));
    }
    for job in submitted {
        for at in 0..job.groups.len() {
            let Some(group) = job.groups.get(at) else { continue };
            if names(group).iter().any(|name| taken.contains(name)) {
                let name = format!("{}{}", job.workload.kind.prefix(), group.name);
                rename(job, at, &name);
            }
            taken.extend(job.groups.get(at).into_iter().flat_map(names));
        }
    }
}

/// The names of a group and of those inside it.
fn names(group: &GroupObject) -> Vec<(String, String)> {
    let roles = group.roles.keys().map(|role| format!("{}-{role}", group.name));
    let all = core::iter::once(group.name.clone()).chain(roles);
    all.map(|name| (group.namespace.clone(), name)).collect()
}

/// Gives groups the priority of the class of Kueue that their workload names.
fn take_class(objects: &Objects, job: &mut Submitted) -> Located<()> {
    let Some(class) = &job.workload_class else { return Ok(()) };
    let priority = objects.workload_classes.own_value(class);
    if priority.is_none() && objects.mode == Mode::AsWritten {
        let field = "metadata.labels[kueue.x-k8s.io/priority-class]";
        return Err((job.source, job.fail(field, Problem::Unknown(class.clone()))));
    }
    job.groups.iter_mut().for_each(|group| group.priority = priority);
    Ok(())
}

/// Puts pods of the input that name no group into those of the workload they were made for.
fn claim_pods(objects: &mut Objects, submitted: &[Submitted]) {
    let index: BTreeMap<Identity<'_>, &Submitted> =
        submitted.iter().map(|job| (identity(job), job)).collect();
    for record in &mut objects.pods {
        if record.membership.is_some() {
            continue;
        }
        let namespace = record.pod.namespace();
        let found = record.made_by.iter().find_map(|made| {
            let job = index.get(&(made.kind, namespace, made.name.as_str()))?;
            Some((job, made))
        });
        let Some((job, made)) = found else { continue };
        if let Some((group, role)) = job.group_of(made.index.as_deref(), made.role.as_deref()) {
            let membership = Membership::new(group.family, group.name.clone(), "metadata");
            record.membership = Some(Box::new(Membership { role, ..membership }));
        }
    }
}

/// Makes the pods of a workload that has none.
fn make_pods(objects: &mut Objects, job: &Submitted, room: &mut usize) -> Located<()> {
    for mut record in job.pods() {
        record.pod.scheduling_gates.extend(record.refused.iter().cloned());
        let full = format!("{}/{}", record.pod.namespace(), record.pod.name);
        if objects.pod_index.contains_key(&full) {
            if objects.mode == Mode::AsWritten {
                let problem = Problem::Duplicate(format!("pod {full}"));
                return Err((job.source, job.fail("spec", problem)));
            }
            let text = format!("pod {full} exists already: not made");
            objects.notes.push(Note { object: job.label.clone(), text });
            continue;
        }
        if *room == 0 {
            let text = format!("workloads are expanded to {MAX_PODS_IN_ALL} pods at most");
            return Err((job.source, job.fail("spec", Problem::Invalid(text))));
        }
        *room -= 1;
        objects.pod_index.insert(full, objects.pods.len());
        objects.pods.push(record);
    }
    Ok(())
}
