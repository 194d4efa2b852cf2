//! Group membership as a pod states it, in any of the dialects.

mod kind;
mod made_by;
mod yunikorn;

pub use kind::WorkloadKind;
pub(super) use made_by::{MadeBy, made_by};
pub(super) use yunikorn::{Application, described};

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::duration::go_duration;
use super::field::{Fault, Field};
use super::json::{elements, string};
use super::metadata::unsupported;
use crate::base::ObjectName;
use crate::base::clip::clip;
use crate::model::Problem;

/// Whose groups they are. Groups of two families are never the same, whatever their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Family {
    /// `scheduling.k8s.io` since 1.36.
    Kubernetes,
    /// Groups of groups of `scheduling.k8s.io`, which no pod names.
    Composite,
    /// The groups of a `Workload` of 1.35.
    Workload,
    /// Coscheduling and Koordinator.
    Coscheduling,
    /// Volcano.
    Volcano,
    /// KAI.
    Kai,
    /// The applications of `YuniKorn`.
    YuniKorn,
    /// The groups of a workload of some kind.
    Kind(WorkloadKind),
}

/// A pod's reference to its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Membership {
    pub(super) family: Family,
    /// The object referred to, or the gang that the members describe themselves.
    pub(super) object: String,
    /// The name of the group in the model.
    pub(super) group: String,
    /// The role within it.
    pub(super) role: Option<String>,
    /// The gang as the pod itself describes it.
    pub(super) inline: Option<Box<InlineGang>>,
    /// The field that makes the reference.
    pub(super) field: &'static str,
}

impl Membership {
    /// The membership in a group that has the name of its object.
    pub(super) fn new(family: Family, name: String, field: &'static str) -> Membership {
        Membership { family, object: name.clone(), group: name, role: None, inline: None, field }
    }
}

/// A gang described on its pods instead of by an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct InlineGang {
    pub(super) min: u32,
    pub(super) keep_running: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) gang_group: Vec<ObjectName>,
    /// Described by the label pair alone, whose members must have one priority.
    pub(super) label_pair: bool,
}

/// The prefix of Koordinator's annotations.
const GANG: &str = "gang.scheduling.koordinator.sh";
const PAIR_NAME: &str = "pod-group.scheduling.sigs.k8s.io/name";
const PAIR_MIN: &str = "pod-group.scheduling.sigs.k8s.io/min-available";
/// The label of coscheduling and its older spelling.
const COSCHEDULING: [(&str, &str); 2] = [
    ("scheduling.x-k8s.io/pod-group", "metadata.labels[scheduling.x-k8s.io/pod-group]"),
    ("pod-group.scheduling.sigs.k8s.io", "metadata.labels[pod-group.scheduling.sigs.k8s.io]"),
];
const VOLCANO: [(&str, &str); 2] = [
    ("scheduling.k8s.io/group-name", "metadata.annotations[scheduling.k8s.io/group-name]"),
    ("scheduling.volcano.sh/group-name", "metadata.annotations[scheduling.volcano.sh/group-name]"),
];

/// The group that a pod refers to.
pub(super) fn membership(root: &Field<'_>, spec: &Field<'_>) -> Fault<Option<Membership>> {
    let mut found: Vec<Membership> = Vec::new();
    if let Some(group) = spec.get("schedulingGroup")?
        && let Some(name) = group.name_of("podGroupName")?
    {
        found.push(Membership::new(Family::Kubernetes, name, "spec.schedulingGroup.podGroupName"));
    }
    if let Some(reference) = spec.get("workloadRef")? {
        found.push(workload(&reference)?);
    }
    if let Some(metadata) = root.get("metadata")? {
        found.extend(coscheduling(&metadata)?);
        found.extend(volcano(&metadata)?);
        found.extend(kai(&metadata)?);
        found.extend(task_group(&metadata)?);
    }
    if let [first, second, ..] = found.as_slice()
        && root.strict()
    {
        let text = format!("names a group, and so does {}", first.field);
        let mut error = root.invalid(text);
        error.field = String::from(second.field);
        return Err(error);
    }
    Ok(found.into_iter().next())
}

/// A reference of 1.35: a workload, one of its groups, and which replica of that.
fn workload(reference: &Field<'_>) -> Fault<Membership> {
    for name in ["name", "podGroup"] {
        if reference.text_of(name)?.is_empty() {
            return Err(reference.fail_at(name, Problem::Required));
        }
    }
    let object = format!("{}/{}", reference.text_of("name")?, reference.text_of("podGroup")?);
    let group = match reference.name_of("podGroupReplicaKey")? {
        Some(key) => format!("{object}/{key}"),
        None => object.clone(),
    };
    let family = Family::Workload;
    Ok(Membership { family, object, group, role: None, inline: None, field: "spec.workloadRef" })
}

fn coscheduling(metadata: &Field<'_>) -> Fault<Option<Membership>> {
    if let Some(labels) = metadata.get("labels")? {
        for (label, field) in COSCHEDULING {
            if let Some(name) = labels.name_of(label)? {
                return Ok(Some(Membership::new(Family::Coscheduling, name, field)));
            }
        }
        if let Some(name) = labels.name_of(PAIR_NAME)? {
            let mut membership = Membership::new(
                Family::Coscheduling,
                name,
                "metadata.labels[pod-group.scheduling.sigs.k8s.io/name]",
            );
            if let Some(min) = labels.get(PAIR_MIN)? {
                let annotations = metadata.get("annotations")?;
                let mut gang = annotations.as_ref().map_or(Ok(InlineGang::default()), gang)?;
                gang.label_pair = true;
                membership.inline = with_minimum(gang, &min)?;
            }
            return Ok(Some(membership));
        }
    }
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    let Some(name) = annotations.name_of(&format!("{GANG}/name"))? else { return Ok(None) };
    let field = "metadata.annotations[gang.scheduling.koordinator.sh/name]";
    let mut membership = Membership::new(Family::Coscheduling, name, field);
    if let Some(min) = annotations.get(&format!("{GANG}/min-available"))? {
        membership.inline = with_minimum(gang(&annotations)?, &min)?;
        if let Some(inline) = &membership.inline
            && let Some(total) = annotations.get(&format!("{GANG}/total-number"))?
        {
            check_total(&total, inline.min)?;
        }
    }
    Ok(Some(membership))
}

/// The gang with its minimum. A stored one that is no count describes no gang.
fn with_minimum(mut gang: InlineGang, min: &Field<'_>) -> Fault<Option<Box<InlineGang>>> {
    match count(min) {
        Ok(count) => {
            gang.min = count;
            Ok(Some(Box::new(gang)))
        }
        Err(error) if min.strict() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Refuses a total below the minimum where a person wrote it; Koordinator raises it.
pub(super) fn check_total(total: &Field<'_>, min: u32) -> Fault<()> {
    if !total.strict() {
        return Ok(());
    }
    let value = count(total)?;
    if value < min {
        return Err(total.invalid(format!("{value} is below the minimum {min}")));
    }
    Ok(())
}

/// Koordinator's annotations of a gang, on its object or on its pods.
pub(super) fn gang(annotations: &Field<'_>) -> Fault<InlineGang> {
    let mut gang = InlineGang::default();
    let key = format!("{GANG}/mode");
    if let Some(mode) = annotations.get(&key)? {
        gang.keep_running = match mode.text()? {
            "NonStrict" => true,
            "Strict" | "" => false,
            other if mode.strict() => {
                return Err(unsupported(&mode, other, &["Strict", "NonStrict"]));
            }
            // Koordinator falls back to its default.
            _ => false,
        };
    }
    let key = format!("{GANG}/waiting-time");
    if let Some(time) = annotations.get(&key)? {
        gang.timeout = match go_duration(time.text()?) {
            Some(timeout) if !timeout.is_zero() => Some(timeout),
            _ if time.strict() => {
                let text = format!("{:?} is not a time such as 600s or 10m", clip(time.text()?));
                return Err(time.invalid(text));
            }
            _ => None,
        };
    }
    let key = format!("{GANG}/groups");
    if let Some(groups) = annotations.get(&key)? {
        match names(groups.text()?) {
            Some(names) => gang.gang_group = names,
            None if groups.strict() => {
                return Err(groups.invalid("is not a JSON list of \"namespace/name\""));
            }
            None => {}
        }
    }
    Ok(gang)
}

/// The names in a JSON list of `namespace/name`.
fn names(text: &str) -> Option<Vec<ObjectName>> {
    elements(text, '[', ']')?
        .map(|element| {
            let (namespace, own) = string(element)?.split_once('/')?;
            let sound = !namespace.is_empty() && !own.is_empty();
            sound.then(|| ObjectName::new(namespace, own))
        })
        .collect()
}

/// A count of at least one, written as text.
fn count(field: &Field<'_>) -> Fault<u32> {
    let value = field.spelled_integer()?;
    match u32::try_from(value) {
        Ok(count) if count > 0 && value <= i64::from(i32::MAX) => Ok(count),
        _ => Err(field.fail(Problem::OutOfRange { value, min: 1, max: i64::from(i32::MAX) })),
    }
}

fn volcano(metadata: &Field<'_>) -> Fault<Option<Membership>> {
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    for (annotation, field) in VOLCANO {
        if let Some(name) = annotations.name_of(annotation)? {
            let mut membership = Membership::new(Family::Volcano, name, field);
            membership.role = annotations.name_of("volcano.sh/task-spec")?;
            return Ok(Some(membership));
        }
    }
    Ok(None)
}

/// The application that a pod is in, and its task group there.
fn task_group(metadata: &Field<'_>) -> Fault<Option<Membership>> {
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    let Some(role) = annotations.name_of("yunikorn.apache.org/task-group-name")? else {
        return Ok(None);
    };
    let field = "metadata.annotations[yunikorn.apache.org/task-group-name]";
    let name = yunikorn::application(metadata)?;
    let membership = Membership::new(Family::YuniKorn, name, field);
    Ok(Some(Membership { role: Some(role), ..membership }))
}

/// The group of KAI's that a pod is in, or the one inside it.
fn kai(metadata: &Field<'_>) -> Fault<Option<Membership>> {
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    let Some(name) = annotations.name_of("pod-group-name")? else { return Ok(None) };
    let labels = metadata.get("labels")?;
    let inner = labels.map_or(Ok(None), |labels| labels.name_of("kai.scheduler/subgroup-name"))?;
    let name = inner.map_or(name.clone(), |inner| format!("{name}/{inner}"));
    let field = "metadata.annotations[pod-group-name]";
    Ok(Some(Membership::new(Family::Kai, name, field)))
}

#[cfg(test)]
mod tests;
