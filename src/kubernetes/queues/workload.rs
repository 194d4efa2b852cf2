//! `Workload`. This file and `mod.rs` import each other, as `mod.rs` says.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::field::Note;
use super::super::field::{Fault, Field};
use super::super::timestamp::timestamp;
use super::super::{metadata, pod};
use super::QueuedWorkload;
use super::unread::unread;
use crate::Time;
use crate::model::resources::{PODS, amount_of};
use crate::model::{Amounts, Problem};
use crate::quota::{Claim, PodSet};

/// The class that a workload names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClassRef {
    pub(super) name: String,
    /// A `WorkloadPriorityClass`, not a `PriorityClass`.
    pub(super) of_kueue: bool,
}

pub(super) fn workload(root: &Field<'_>, notes: &mut Vec<Note>) -> Fault<QueuedWorkload> {
    const READ: [&str; 7] = [
        "podSets",
        "queueName",
        "priorityClassRef",
        "priorityClassName",
        "priorityClassSource",
        "priority",
        "active",
    ];
    let (namespace, name) = (metadata::namespace(root)?, metadata::name(root)?);
    let mut claim = Claim::new(format!("{namespace}/{name}"), "");
    let mut boost = None;
    if let Some(metadata) = root.get("metadata")? {
        claim.uid = metadata.text_of("uid")?;
        let created = metadata.get("creationTimestamp")?;
        claim.created = created.map_or(Ok(Time::ZERO), |field| timestamp(&field))?;
        if let Some(annotations) = metadata.get("annotations")? {
            boost = annotations.name_of("kueue.x-k8s.io/priority-boost")?;
        }
    }
    let spec = root.need("spec")?;
    unread(&spec, &READ, notes);
    spec.each("podSets", |set| {
        claim.pod_sets.push(pod_set(&set, &namespace, notes)?);
        Ok(())
    })?;
    let class = match spec.get("priorityClassRef")? {
        Some(class) => Some(ClassRef {
            name: class.need("name")?.text()?.to_owned(),
            of_kueue: class.text_of("kind")? == "WorkloadPriorityClass",
        }),
        None => spec.name_of("priorityClassName")?.map(|name| {
            let source = spec.text_of("priorityClassSource");
            let of_kueue = source.is_ok_and(|source| source.starts_with("kueue."));
            ClassRef { name, of_kueue }
        }),
    };
    let mut workload = QueuedWorkload {
        local_queue: spec.text_of("queueName")?,
        active: spec.get("active")?.is_none_or(|field| field.boolean().unwrap_or(true)),
        priority: spec.get("priority")?.map(|field| field.int32()).transpose()?,
        class,
        boost,
        claim,
        namespace,
        held: Vec::new(),
        reserved: None,
        evicted: false,
    };
    if let Some(status) = root.get("status")? {
        read_status(&status, &mut workload)?;
    }
    Ok(workload)
}

fn pod_set(set: &Field<'_>, namespace: &str, notes: &mut Vec<Note>) -> Fault<PodSet> {
    unread(set, &["name", "template", "count", "minCount"], notes);
    let count = |field: Field<'_>| {
        field.within(0, i64::from(i32::MAX)).map(|count| u32::try_from(count).unwrap_or(0))
    };
    let all = set.get("count")?.map_or(Ok(1), count)?;
    let template = pod::template(&set.need("template")?, namespace.to_owned())?.pod;
    let shape = template.shape();
    let mut requests = Amounts::new();
    for (name, amount) in shape.requests.iter().filter(|(name, _)| *name != PODS) {
        let total = amount.checked_mul(i64::from(all));
        requests.set(name, total.ok_or_else(|| set.fail_at("count", Problem::Overflow))?);
    }
    let name = set.name_of("name")?.unwrap_or_else(|| "main".into());
    let mut pods = PodSet::new(name, all, requests);
    pods.min_count = set.get("minCount")?.map(count).transpose()?;
    pods.node_selector = shape.node_selector.clone();
    let affinity = shape.node_affinity.as_ref();
    pods.affinity = affinity.and_then(|affinity| affinity.required.clone());
    pods.tolerations.clone_from(&shape.tolerations);
    Ok(pods)
}

/// Quota that a workload holds, and the conditions that matter.
fn read_status(status: &Field<'_>, workload: &mut QueuedWorkload) -> Fault<()> {
    status.each("conditions", |condition| {
        let kind = condition.text_of("type")?;
        if condition.text_of("status")? != "True" {
            return Ok(());
        }
        match kind.as_str() {
            "Evicted" => workload.evicted = true,
            "Finished" => workload.active = false,
            "QuotaReserved" => {
                let since = condition.get("lastTransitionTime")?;
                workload.reserved = since.map(|field| timestamp(&field)).transpose()?;
            }
            _ => {}
        }
        Ok(())
    })?;
    let Some(admission) = status.get("admission")? else { return Ok(()) };
    admission.need("clusterQueue")?.text()?.clone_into(&mut workload.claim.queue);
    admission.each("podSetAssignments", |set| {
        let mut flavors: Vec<(String, String)> = Vec::new();
        set.entries("flavors", |resource, flavor| {
            flavors.push((resource.to_owned(), flavor.text()?.to_owned()));
            Ok(())
        })?;
        set.entries("resourceUsage", |resource, field| {
            let Some((_, flavor)) = flavors.iter().find(|(own, _)| own == resource) else {
                return Ok(());
            };
            let amount =
                amount_of(resource, field.quantity()?).map_err(|problem| field.fail(problem))?;
            let same = |held: &&mut (String, String, i64)| held.0 == *flavor && held.1 == resource;
            match workload.held.iter_mut().find(same) {
                Some((_, _, sum)) => *sum = sum.saturating_add(amount),
                None => workload.held.push((flavor.clone(), resource.to_owned(), amount)),
            }
            Ok(())
        })
    })?;
    Ok(())
}
