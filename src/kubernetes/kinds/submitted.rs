//! A workload as it is read: its groups, and the pods to make of its templates.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::begun;
use super::training_runtime::TrainJob;
use super::workload::{StartAfter, StartCondition, SubmittedWorkload, WorkloadRole};
use super::workload_with_job::JobScheduling;
use crate::base::ObjectName;
use crate::kubernetes::account;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::groups::{GroupObject, QUEUE_NAME};
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::membership::{Family, Membership};
use crate::kubernetes::metadata::{self, Controller};
use crate::kubernetes::pod::{self, PodRecord};
use crate::kubernetes::topologies;
use crate::model::{GroupPolicy, ModelError, Problem};

/// The most pods that one object is expanded to.
pub(super) const MAX_PODS: i64 = 100_000;

/// A workload: its groups, and the pods to make unless they are in the input themselves.
#[derive(Debug)]
pub(in crate::kubernetes) struct Submitted {
    pub(in crate::kubernetes) workload: SubmittedWorkload,
    /// How errors name it.
    pub(in crate::kubernetes) label: String,
    pub(in crate::kubernetes) groups: Vec<GroupObject>,
    pub(in crate::kubernetes) sets: Vec<PodSet>,
    /// Whether it has begun or ended by what its status says.
    pub(in crate::kubernetes) begun: bool,
    /// Whether it has ended, so.
    pub(in crate::kubernetes) ended: bool,
    /// Kind and name of what made it.
    pub(in crate::kubernetes) controller: Option<Controller>,
    /// The class of Kueue that its label names.
    pub(in crate::kubernetes) workload_class: Option<String>,
    /// The facts of this job that Kubernetes' own rule for jobs asks for.
    pub(in crate::kubernetes) scheduling: Option<Box<JobScheduling>>,
    /// A job whose templates are in its runtime.
    pub(in crate::kubernetes) train: Option<Box<TrainJob>>,
    pub(in crate::kubernetes) notes: Vec<String>,
    pub(in crate::kubernetes) source: u32,
    pub(in crate::kubernetes) order: u64,
    /// The part that the groups have in common.
    pub(super) frame: GroupObject,
    total: i64,
}

/// Pods of one template.
#[derive(Debug, Clone)]
pub(in crate::kubernetes) struct PodSet {
    names: Names,
    count: u32,
    pub(in crate::kubernetes) template: PodRecord,
    /// The group of the workload that they are in, by its number, and their role there.
    group: Option<(usize, String)>,
    /// Why they do not exist yet.
    gate: Option<String>,
}

/// The names of the pods of a set.
#[derive(Debug, Clone)]
pub(super) enum Names {
    /// A set of one pod.
    One(String),
    /// `<prefix>-<number>`, from a first number on.
    From(String, u32),
    /// `<prefix>-<number>-<number>`, so many of each first number.
    Pairs(String, u32),
}

impl PodSet {
    /// Names the one pod of the set.
    pub(super) fn name(&mut self, name: String) {
        self.names = Names::One(name);
    }
}

impl Names {
    fn name(&self, index: u32) -> String {
        match self {
            Names::One(name) => name.clone(),
            Names::From(prefix, first) => format!("{prefix}-{}", first.saturating_add(index)),
            Names::Pairs(prefix, each) => {
                format!("{prefix}-{}-{}", index / (*each).max(1), index % (*each).max(1))
            }
        }
    }
}

/// A role of a group, before the group is made.
pub(super) struct Role {
    pub(super) name: String,
    pub(super) count: i64,
    pub(super) min: i64,
    pub(super) leader: bool,
    pub(super) after: Vec<StartAfter>,
    /// Whether what it waits for is so.
    pub(super) open: bool,
    pub(super) names: Names,
    pub(super) template: PodRecord,
}

impl Role {
    /// A role that needs all of its pods.
    pub(super) fn new(name: &str, count: i64, prefix: String, template: PodRecord) -> Role {
        Role {
            name: name.into(),
            count,
            min: count,
            leader: false,
            after: Vec::new(),
            open: false,
            names: Names::From(prefix, 0),
            template,
        }
    }
}

/// The least members with which a group starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Minimum {
    /// Any one pod.
    Any,
    /// The minimum of each role, and of each at least its own.
    Roles,
    /// So many pods, of whichever role.
    Whole(i64),
    /// So many pods, and of each role at least its own.
    WholeAndRoles(i64),
}

impl Submitted {
    /// A workload without groups, with what its metadata says.
    pub(super) fn new(kind: WorkloadKind, root: &Field<'_>) -> Fault<Submitted> {
        let (name, namespace) = (metadata::name(root)?, metadata::namespace(root)?);
        let label = root.object.name.clone();
        let family =
            if kind == WorkloadKind::VolcanoJob { Family::Volcano } else { Family::Kind(kind) };
        let mut frame = GroupObject::new(family, namespace.clone(), name.clone(), label.clone());
        frame.refused = account::refused_of(root.value, root.object.mode);
        let (begun, ended) = (begun::begun(root)?, begun::ended(root)?);
        let (mut controller, mut workload_class) = (None, None);
        if let Some(metadata) = root.get("metadata")? {
            controller = metadata::controller(&metadata)?;
            if let Some(annotations) = metadata.get("annotations")? {
                frame.wish = topologies::kai(&annotations)?;
            }
            if let Some(labels) = metadata.get("labels")? {
                frame.wish = frame.wish.or(topologies::volcano_labels(&labels)?);
                frame.local_queue = labels.name_of(QUEUE_NAME)?;
                workload_class = labels.name_of("kueue.x-k8s.io/priority-class")?;
                for (key, field) in CLASS_LABELS {
                    if frame.priority_class.is_none()
                        && let Some(class) = labels.name_of(key)?
                    {
                        frame.priority_class = Some(class);
                        frame.class_field = field;
                    }
                }
            }
            frame.queue = queue_of(&metadata)?;
        }
        Ok(Submitted {
            workload: SubmittedWorkload {
                kind,
                namespace,
                name,
                queue: String::new(),
                priority_class: None,
                suspended: false,
                groups: Vec::new(),
                roles: Vec::new(),
            },
            label,
            groups: Vec::new(),
            sets: Vec::new(),
            begun,
            ended,
            controller,
            workload_class,
            scheduling: None,
            train: None,
            notes: Vec::new(),
            source: 0,
            order: 0,
            frame,
            total: 0,
        })
    }

    /// The template of pods at a place. A queue that it names is the workload's, if that has none.
    pub(super) fn template(&mut self, at: &Field<'_>) -> Fault<PodRecord> {
        let template = pod::template(at, self.workload.namespace.clone())?;
        if let Some(metadata) = at.get("metadata")?
            && self.frame.queue.is_empty()
        {
            self.frame.queue = queue_of(&metadata)?;
        }
        Ok(template)
    }

    /// Takes the queue that metadata of its jobs names, if it has none itself.
    pub(super) fn queue_in(&mut self, metadata: &Field<'_>) -> Fault<()> {
        if self.frame.queue.is_empty() {
            self.frame.queue = queue_of(metadata)?;
        }
        if let (None, Some(labels)) = (&self.frame.local_queue, metadata.get("labels")?) {
            self.frame.local_queue = labels.name_of(QUEUE_NAME)?;
        }
        Ok(())
    }

    /// Holds back all pods made so far, for a reason.
    pub(super) fn hold(&mut self, reason: &str) {
        for set in &mut self.sets {
            set.gate = Some(reason.to_string());
        }
        self.notes.push(reason.to_string());
    }

    /// Ends the reading of an object that has no pods, which is nothing to say.
    pub(super) fn without_pods(mut self) -> Submitted {
        self.begun = true;
        self.finish()
    }

    /// Counts pods, and refuses more than are expanded.
    pub(super) fn count_pods(&mut self, count: i64, at: &Field<'_>, name: &str) -> Fault<()> {
        self.total = self.total.saturating_add(count);
        if self.total > MAX_PODS {
            let problem = Problem::OutOfRange { value: self.total, min: 0, max: MAX_PODS };
            return Err(at.fail_at(name, problem));
        }
        Ok(())
    }

    /// Adds a group of roles. Roles without pods are left out; a group without pods is not made.
    pub(super) fn add_group(&mut self, name: String, mut roles: Vec<Role>, minimum: Minimum) {
        if self.workload.roles.is_empty() {
            let own = |min: i64| match minimum {
                Minimum::Roles | Minimum::WholeAndRoles(_) => number(min),
                Minimum::Any | Minimum::Whole(_) => 0,
            };
            self.workload.roles = roles.iter().map(|role| summary(role, own(role.min))).collect();
        }
        // By what is declared: a role that is scaled up from nothing changes no other.
        let declared = roles.len();
        roles.retain(|role| role.count > 0);
        // A template that names a group itself puts its pods there.
        let is_elsewhere = |role: &Role| role.template.membership.is_some();
        let (elsewhere, roles): (Vec<Role>, Vec<Role>) = roles.into_iter().partition(is_elsewhere);
        for role in elsewhere {
            self.add_pods(None, role);
        }
        if roles.is_empty() {
            return;
        }
        let mut group = GroupObject { name, ..self.frame.clone() };
        let waits = |role: &&Role| !role.after.is_empty();
        let later: i64 = roles.iter().filter(waits).map(|role| role.count).sum();
        let wanted = match minimum {
            Minimum::Any => 0,
            Minimum::Roles => sum_of_minima(roles.iter().filter(|role| role.after.is_empty())),
            // Pods that cannot exist yet are not waited for.
            Minimum::Whole(min) => min.saturating_sub(later).max(i64::from(min > 0)),
            Minimum::WholeAndRoles(min) => {
                let later = sum_of_minima(roles.iter().filter(waits));
                min.saturating_sub(later).max(i64::from(min > 0))
            }
        };
        if let Ok(min_count @ 1..) = u32::try_from(wanted) {
            group.policy = GroupPolicy::Gang { min_count };
        }
        let by_role = matches!(minimum, Minimum::Roles | Minimum::WholeAndRoles(_));
        let is_volcano = group.family == Family::Volcano;
        if by_role && (declared > 1 || is_volcano) {
            for role in &roles {
                group.roles.insert(role.name.clone(), number(role.min));
                if !role.after.is_empty() {
                    group.later.insert(role.name.clone());
                }
            }
        }
        take_wishes(&mut group, &roles);
        self.workload.groups.push(ObjectName::new(&group.namespace, &group.name));
        self.groups.push(group);
        let at = self.groups.len() - 1;
        for role in roles {
            self.add_pods(Some(at), role);
        }
    }

    fn add_pods(&mut self, group: Option<usize>, role: Role) {
        let Role { name, count, names, template, after, open, .. } = role;
        let gate = after.first().filter(|_| !open).map(|first| {
            let how = match first.until {
                StartCondition::Ready => "is ready",
                StartCondition::Complete => "is complete",
            };
            format!("starts after {} {how}", first.role)
        });
        let count = number(count);
        if let Some(gate) = &gate {
            let text = format!("{count} pods of {name} wait: {gate}");
            if self.notes.last() != Some(&text) {
                self.notes.push(text);
            }
        }
        let group = group.map(|at| (at, name));
        self.sets.push(PodSet { names, count, template, group, gate });
    }

    /// The pods of the workload, in order of role.
    pub(in crate::kubernetes) fn pods(&self) -> impl Iterator<Item = PodRecord> {
        self.sets.iter().flat_map(move |set| {
            let membership = set.group.as_ref().and_then(|(at, role)| {
                let group = self.groups.get(*at)?;
                let membership = Membership::new(group.family, group.name.clone(), "spec");
                Some(Box::new(Membership { role: Some(role.clone()), ..membership }))
            });
            (0..set.count).map(move |index| {
                let mut record = set.template.clone();
                record.membership = membership.clone().or(record.membership);
                record.pod.name = set.names.name(index);
                if self.workload.suspended {
                    record.pod.scheduling_gates.push("suspended".to_string());
                }
                record.pod.scheduling_gates.extend(set.gate.clone());
                record.source = self.source;
                record.order = self.order;
                record
            })
        })
    }

    /// Ends the reading: what all groups have in common is complete.
    pub(super) fn finish(mut self) -> Submitted {
        if let Some(class) = &self.workload_class {
            self.frame.priority_class = None;
            self.workload.priority_class = Some(class.clone());
        } else {
            self.workload.priority_class.clone_from(&self.frame.priority_class);
        }
        self.workload.queue.clone_from(&self.frame.queue);
        if let Some(local) = &self.frame.local_queue
            && self.frame.queue.is_empty()
        {
            self.workload.queue.clone_from(local);
        }
        for group in &mut self.groups {
            group.queue.clone_from(&self.frame.queue);
            group.priority_class.clone_from(&self.frame.priority_class);
            group.class_field = self.frame.class_field;
            group.timeout = self.frame.timeout;
        }
        // A suspended workload has no pods, whatever it had before.
        self.begun &= !self.workload.suspended;
        let controller = (self.workload.kind.word().to_string(), self.workload.name.clone());
        for group in &mut self.groups {
            group.refused.extend(self.frame.refused.iter().cloned());
        }
        for set in &mut self.sets {
            set.template.refused.clone_from(&self.frame.refused);
            set.template.controller = Some(Box::new(controller.clone()));
        }
        if self.workload.suspended {
            self.notes.push("is suspended".to_string());
        }
        if self.sets.is_empty() {
            self.notes.push("has no pods".to_string());
        }
        self
    }

    /// The group of a pod that a controller has made for this workload, and its role there.
    pub(in crate::kubernetes) fn group_of(
        &self,
        index: Option<&str>,
        role: Option<&str>,
    ) -> Option<(&GroupObject, Option<String>)> {
        let at = index.map_or(Some(0), |index| index.parse().ok());
        let group = self.groups.get::<usize>(at?)?;
        // A set may have one group of all its replicas, or several of each.
        if index.is_some_and(|index| !group.name.ends_with(&format!("-{index}"))) {
            return None;
        }
        let role = role.map(ToString::to_string);
        if group.has_roles() && !role.as_ref().is_some_and(|role| group.roles.contains_key(role)) {
            return None;
        }
        Some((group, role))
    }

    /// An error about a field.
    pub(in crate::kubernetes) fn fail(
        &self,
        field: &str,
        problem: impl Into<Problem>,
    ) -> ModelError {
        ModelError::new(self.label.clone(), field, problem)
    }
}

/// Takes the topology requests of the templates of roles. A request is of each role, or of the
/// whole where there is one role, or where two are to be placed as one.
fn take_wishes(group: &mut GroupObject, roles: &[Role]) {
    let wishes = || roles.iter().filter_map(|role| Some((role, role.template.wish.as_deref()?)));
    let Some((_, first)) = wishes().next() else { return };
    let as_one = first.pod_set_group().is_some()
        && wishes().count() == roles.len()
        && wishes().all(|(_, wish)| wish.pod_set_group() == first.pod_set_group());
    if roles.len() == 1 && group.roles.is_empty() || as_one {
        group.wish = Some(match group.wish.take() {
            Some(own) => own.with(first),
            None => first.of_whole(),
        });
        return;
    }
    for (role, wish) in wishes() {
        if wish.pod_set_group().is_some() {
            group.refused.push(wish.fault("only pod sets of a whole group are placed as one"));
        }
        if group.roles.is_empty() {
            group.refused.push(wish.fault("its role has no minimum of its own"));
        }
        group.role_wishes.insert(role.name.clone(), wish.clone());
    }
}

/// Labels that name a priority class, and where errors say that they stand.
const CLASS_LABELS: [(&str, &str); 2] = [
    ("priorityClassName", "metadata.labels[priorityClassName]"),
    ("ray.io/priority-class-name", "metadata.labels[ray.io/priority-class-name]"),
];

/// The annotation by which a workload or its pods name a queue of Volcano.
const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";

/// The queue that metadata names, by KAI's label or else by Volcano's annotation; empty without.
fn queue_of(metadata: &Field<'_>) -> Fault<String> {
    if let Some(labels) = metadata.get("labels")?
        && let Some(queue) = labels.name_of("kai.scheduler/queue")?
    {
        return Ok(queue);
    }
    let annotations = metadata.get("annotations")?;
    annotations.map_or(Ok(String::new()), |annotations| annotations.text_of(VOLCANO_QUEUE))
}

fn number(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(if count < 0 { 0 } else { u32::MAX })
}

/// How many pods roles need together. As stored a minimum may be any number.
pub(super) fn sum_of_minima<'a>(roles: impl IntoIterator<Item = &'a Role>) -> i64 {
    roles.into_iter().fold(0, |sum, role| sum.saturating_add(role.min))
}

/// A role as a workload tells of it.
pub(super) fn summary(role: &Role, min_count: u32) -> WorkloadRole {
    WorkloadRole {
        name: role.name.clone(),
        count: number(role.count),
        min_count,
        leader: role.leader,
        starts_after: role.after.clone(),
    }
}

/// A count of pods, and what it is if it is absent.
pub(super) fn count(at: &Field<'_>, name: &str, default: i64) -> Fault<i64> {
    at.get(name)?.map_or(Ok(default), |field| field.within(0, i32::MAX.into()))
}

/// A count of at least one, and what it is if it is absent.
pub(super) fn positive(at: &Field<'_>, name: &str, default: i64) -> Fault<i64> {
    at.get(name)?.map_or(Ok(default), |field| field.within(1, i32::MAX.into()))
}

/// The minimum that an annotation states, from 1 to `most`. As stored, anything else is none;
/// as written it is an error, which says that a larger one is more than `all`.
pub(super) fn annotated_minimum(
    root: &Field<'_>,
    annotation: &str,
    most: i64,
    all: fmt::Arguments<'_>,
) -> Fault<Option<i64>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    let Some(field) = annotations.get(annotation)? else { return Ok(None) };
    // A value that is no text is an error as stored, too.
    field.text()?;
    match field.spelled_integer() {
        Ok(min) if (1..=most).contains(&min) => Ok(Some(min)),
        _ if !field.strict() => Ok(None),
        Ok(min) if min >= 1 => Err(field.invalid(format!("{min} is more than {all}"))),
        Ok(value) => Err(field.fail(Problem::OutOfRange { value, min: 1, max: i32::MAX.into() })),
        Err(error) => Err(error),
    }
}

/// A name that must differ from those before it in a list.
pub(super) fn unique(seen: &mut BTreeSet<String>, at: &Field<'_>, key: &str) -> Fault<String> {
    let field = at.need(key)?;
    let name = field.text()?;
    if name.is_empty() {
        return Err(field.fail(Problem::Required));
    }
    if field.strict() {
        metadata::check_label_name(&field, name)?;
    }
    if !seen.insert(name.into()) {
        return Err(field.fail(Problem::Duplicate(name.into())));
    }
    Ok(name.into())
}

/// One of the words that a field may have; the first where it is absent, empty or, as stored,
/// unknown.
pub(super) fn word(at: &Field<'_>, name: &str, words: &[&'static str]) -> Fault<&'static str> {
    let first = words.first().copied().unwrap_or("");
    let Some(field) = at.get(name)? else { return Ok(first) };
    let text = field.text()?;
    match words.iter().find(|word| **word == text) {
        Some(word) => Ok(word),
        None if text.is_empty() || !field.strict() => Ok(first),
        None => Err(metadata::unsupported(&field, text, words)),
    }
}
