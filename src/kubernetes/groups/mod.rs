//! Objects that describe groups, in any of the dialects.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

mod application;
mod kai;
mod subgroups;

pub(super) use application::application;
pub(super) use kai::kai;
pub(super) use subgroups::SubGroups;

use super::account;
use super::claims::{ClaimEntry, claim_entries};
use super::field::{Fault, Field};
use super::membership::{Family, InlineGang, check_total, gang};
use super::metadata::{self, check_label_name, unsupported};
use super::topologies::{self, Topologies, Wish};
use crate::base::ObjectName;
use crate::model::selector::check_key;
use crate::model::{
    DisruptionMode, GroupPolicy, ModelError, PodGroup, PreemptionPolicy, Problem, TopologyRequest,
};

/// The nature of a group, beside its dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// A group of pods.
    Pods,
    /// A group of groups.
    Groups,
    /// A group of pods, described by the label pair on them.
    LabelPair,
    /// A job that has begun or ended: its pods, if any are left, are in the input.
    BegunJob,
}

/// A group as one object describes it.
#[derive(Debug, Clone)]
pub(super) struct GroupObject {
    pub(super) family: Family,
    pub(super) nature: Nature,
    /// How errors name it.
    pub(super) label: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) policy: GroupPolicy,
    pub(super) topology: TopologyRequest,
    /// Topology request of its dialect, by names that other objects explain.
    pub(super) wish: Option<Wish>,
    /// The same of roles.
    pub(super) role_wishes: BTreeMap<String, Wish>,
    pub(super) role_topologies: BTreeMap<String, TopologyRequest>,
    pub(super) disruption: DisruptionMode,
    pub(super) priority: Option<i32>,
    pub(super) priority_class: Option<String>,
    /// The preemption policy of all its members, if it states one.
    pub(super) preemption: Option<PreemptionPolicy>,
    /// The field that names the class, for errors.
    pub(super) class_field: &'static str,
    pub(super) parent: Option<String>,
    pub(super) queue: String,
    /// The local queue that its label names.
    pub(super) local_queue: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) keep_running: bool,
    pub(super) gang_group: Vec<ObjectName>,
    /// Minimum by role, in order of role.
    pub(super) roles: BTreeMap<String, u32>,
    /// Groups inside it, by labels of its pods.
    pub(super) subgroups: Option<Box<SubGroups>>,
    /// Roles that start after others, and are not waited for.
    pub(super) later: BTreeSet<String>,
    /// The role of one pod that leads the others.
    pub(super) leader: Option<String>,
    /// The identity of the object, where it exists.
    pub(super) uid: String,
    /// Claims that its members may share.
    pub(super) claims: Vec<ClaimEntry>,
    /// Fields that are written and not in force, with the reason: the pods of such a group are not
    /// placed.
    pub(super) refused: Vec<String>,
    pub(super) source: u32,
    pub(super) order: u64,
}

impl GroupObject {
    pub(super) fn new(family: Family, namespace: String, name: String, label: String) -> Self {
        GroupObject {
            family,
            nature: Nature::Pods,
            label,
            namespace,
            name,
            policy: GroupPolicy::Basic {},
            topology: TopologyRequest::default(),
            wish: None,
            role_wishes: BTreeMap::new(),
            role_topologies: BTreeMap::new(),
            disruption: DisruptionMode::Single,
            priority: None,
            priority_class: None,
            preemption: None,
            class_field: "spec.priorityClassName",
            parent: None,
            queue: String::new(),
            local_queue: None,
            timeout: None,
            keep_running: false,
            gang_group: Vec::new(),
            roles: BTreeMap::new(),
            subgroups: None,
            later: BTreeSet::new(),
            leader: None,
            uid: String::new(),
            claims: Vec::new(),
            refused: Vec::new(),
            source: 0,
            order: 0,
        }
    }

    /// Whether it is a group of groups.
    pub(super) fn composite(&self) -> bool {
        self.nature == Nature::Groups
    }

    /// How many roles have a minimum, and the sum of those; roles that start later left out.
    pub(super) fn required_roles(&self) -> (u32, u32) {
        let minima =
            self.roles.iter().filter(|(role, min)| **min > 0 && !self.later.contains(*role));
        minima.fold((0, 0), |(count, sum), (_, min)| (count + 1, sum.saturating_add(*min)))
    }

    /// Whether members may differ in priority.
    pub(super) fn may_differ(&self) -> bool {
        matches!(self.family, Family::Volcano | Family::Kai | Family::YuniKorn | Family::Kind(_))
    }

    /// Whether the minima of roles are in force: Volcano ignores them if together they are more
    /// than the minimum of the whole.
    pub(super) fn has_roles(&self) -> bool {
        let (required, sum) = self.required_roles();
        required > 0 && sum <= self.policy.minimum()
    }

    /// Puts what is asked of the topology into the keys of node labels; what cannot be is refused.
    pub(super) fn settle(&mut self, topologies: &Topologies) {
        if let Some(wish) = &self.wish {
            match topologies.request(wish) {
                Ok(request) => self.topology = request,
                Err(reason) => self.refused.push(reason),
            }
        }
        if let Some(own) = &mut self.subgroups
            && let Some(wish) = &own.wish
        {
            match topologies.request(wish) {
                Ok(request) => own.topology = request,
                Err(reason) => self.refused.push(reason),
            }
        }
        for (role, wish) in &self.role_wishes {
            match topologies.request(wish) {
                Ok(_) if !self.has_roles() => {
                    self.refused.push(wish.fault("its role has no minimum of its own"));
                }
                Ok(request) => {
                    self.role_topologies.insert(role.clone(), request);
                }
                Err(reason) => self.refused.push(reason),
            }
        }
    }

    /// A group without members, with what the object says.
    pub(super) fn frame(&self) -> PodGroup {
        let mut group = PodGroup::basic(self.name.clone()).in_namespace(&*self.namespace);
        group.policy = self.policy;
        group.topology.clone_from(&self.topology);
        group.disruption = self.disruption;
        group.queue.clone_from(&self.queue);
        group.schedule_timeout = self.timeout;
        group.keep_running = self.keep_running;
        group.gang_group.clone_from(&self.gang_group);
        group
    }

    /// Takes over what a pod says of the gang.
    pub(super) fn describe(&mut self, gang: &InlineGang) {
        self.policy = GroupPolicy::Gang { min_count: gang.min };
        self.keep_running = gang.keep_running;
        self.timeout = gang.timeout;
        self.gang_group.clone_from(&gang.gang_group);
        if gang.label_pair {
            self.nature = Nature::LabelPair;
        }
    }

    /// Whether a pod describes the gang otherwise.
    pub(super) fn differs_from(&self, gang: &InlineGang) -> bool {
        self.policy != (GroupPolicy::Gang { min_count: gang.min })
            || self.keep_running != gang.keep_running
            || self.timeout != gang.timeout
            || self.gang_group != gang.gang_group
    }

    /// An error about a field of the object.
    pub(super) fn fail(&self, field: &str, problem: impl Into<Problem>) -> ModelError {
        ModelError::new(self.label.clone(), field, problem)
    }
}

/// The label by which an object names its local queue.
pub(super) const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";

fn object(root: &Field<'_>, family: Family) -> Fault<GroupObject> {
    let (name, namespace) = (metadata::name(root)?, metadata::namespace(root)?);
    let mut group = GroupObject::new(family, namespace, name, root.object.name.clone());
    group.refused = account::refused_of(root.value, root.object.mode);
    if let Some(metadata) = root.get("metadata")? {
        group.uid = metadata.text_of("uid")?;
        if let Some(labels) = metadata.get("labels")? {
            group.local_queue = labels.name_of(QUEUE_NAME)?;
        }
    }
    Ok(group)
}

/// A count of at least one.
fn count(field: &Field<'_>) -> Fault<u32> {
    field.within(1, i32::MAX.into()).map(|count| count as u32)
}

/// The groups of a `Workload` of 1.35. Later ones are templates, of which the scheduler reads
/// nothing.
pub(super) fn workload(root: &Field<'_>) -> Fault<Vec<GroupObject>> {
    let mut groups: Vec<GroupObject> = Vec::new();
    let mut names = BTreeSet::new();
    let whole = object(root, Family::Workload)?;
    let Some(spec) = root.get("spec")? else { return Ok(groups) };
    spec.each("podGroups", |field| {
        let at = field.need("name")?;
        let name = at.text()?;
        if field.strict() {
            check_label_name(&at, name)?;
        }
        let full = format!("{}/{name}", whole.name);
        if !names.insert(full.clone()) {
            return Err(at.fail(Problem::Duplicate(name.into())));
        }
        let mut group = GroupObject { name: full, ..whole.clone() };
        group.policy = match field.get("policy")? {
            Some(policy) => self::policy(&policy, "minCount")?,
            None if field.strict() => return Err(field.fail_at("policy", Problem::Required)),
            None => GroupPolicy::Basic {},
        };
        groups.push(group);
        Ok(())
    })?;
    Ok(groups)
}

/// Basic, or gang with a minimum.
pub(super) fn policy(field: &Field<'_>, minimum: &str) -> Fault<GroupPolicy> {
    let (basic, gang) = (field.get("basic")?, field.get("gang")?);
    match (basic, gang) {
        (Some(_), Some(gang)) if field.strict() => {
            Err(gang.invalid("stands beside basic; only one policy is allowed"))
        }
        (_, Some(gang)) => Ok(GroupPolicy::Gang { min_count: count(&gang.need(minimum)?)? }),
        (None, None) if field.strict() => Err(field.invalid("must be one of basic, gang")),
        (_, None) => Ok(GroupPolicy::Basic {}),
    }
}

/// A `PodGroup` or `CompositePodGroup` of `scheduling.k8s.io`.
pub(super) fn pod_group(root: &Field<'_>, composite: bool) -> Fault<GroupObject> {
    let mut group = object(root, Family::Kubernetes)?;
    if composite {
        group.nature = Nature::Groups;
    }
    let spec = root.need("spec")?;
    let minimum = if composite { "minGroupCount" } else { "minCount" };
    group.policy = match spec.get("schedulingPolicy")? {
        Some(policy) => self::policy(&policy, minimum)?,
        None if spec.strict() => return Err(spec.fail_at("schedulingPolicy", Problem::Required)),
        None => GroupPolicy::Basic {},
    };
    constraints(&spec, &mut group)?;
    if !composite {
        group.claims = claim_entries(&spec)?;
    }
    group.disruption = disruption(&spec)?;
    let basic = group.policy == GroupPolicy::Basic {};
    if spec.strict() && basic && group.disruption == DisruptionMode::All {
        let text = "all needs the gang policy".to_string();
        return Err(spec.fail_at("disruptionMode", Problem::Invalid(text)));
    }
    if let Some(priority) = spec.get("priority")? {
        group.priority = Some(priority.int32()?);
        if spec.strict() {
            priority.within(i32::MIN.into(), 1_000_000_000)?;
        }
    }
    group.priority_class = spec.name_of("priorityClassName")?;
    group.preemption = preemption(&spec)?;
    group.parent = spec.name_of("parentCompositePodGroupName")?;
    Ok(group)
}

/// The preemption policy of a group. The API server fills it in from the class.
fn preemption(spec: &Field<'_>) -> Fault<Option<PreemptionPolicy>> {
    let Some(field) = spec.get("preemptionPolicy")? else { return Ok(None) };
    match field.text()? {
        "Never" => Ok(Some(PreemptionPolicy::Never)),
        "PreemptLowerPriority" => Ok(Some(PreemptionPolicy::PreemptLowerPriority)),
        other if field.strict() => {
            Err(unsupported(&field, other, &["Never", "PreemptLowerPriority"]))
        }
        _ => Ok(None),
    }
}

/// The topology that a group is confined to.
fn constraints(spec: &Field<'_>, group: &mut GroupObject) -> Fault<()> {
    if let Some(constraints) = spec.get("schedulingConstraints")? {
        constraints.each("topology", |constraint| {
            if group.topology.require.is_some() {
                if constraint.strict() {
                    return Err(constraint.invalid("only one topology constraint is allowed"));
                }
                return Ok(()); // The scheduler reads the first one only.
            }
            let key = constraint.need("key")?;
            let text = key.text()?;
            if key.strict() {
                check_key(text).map_err(|error| key.selector_error(&error))?;
            }
            group.topology.require = Some(text.into());
            Ok(())
        })?;
    }
    Ok(())
}

/// `spec.scheduling` of a controller's object, for so many pods: the minimum of a gang; `None` for a
/// basic group. What else it says goes into the group.
pub(super) fn controlled(
    field: &Field<'_>,
    pods: i64,
    group: &mut GroupObject,
) -> Fault<Option<i64>> {
    constraints(field, group)?;
    group.disruption = disruption(field)?;
    group.claims = claim_entries(field)?;
    let Some(policy) = field.get("schedulingPolicy")? else { return Ok(None) };
    let Some(gang) = policy.get("gang")? else { return Ok(None) };
    let Some(min) = gang.get("minCount")? else { return Ok(Some(pods)) };
    let most = if min.strict() { pods.max(1) } else { i32::MAX.into() };
    min.within(1, most).map(Some)
}

/// `single` or `all`, as the variant of an object or as a word; 1.36 wrote `Pod` and `PodGroup`.
fn disruption(spec: &Field<'_>) -> Fault<DisruptionMode> {
    let Some(field) = spec.get("disruptionMode")? else { return Ok(DisruptionMode::Single) };
    if let Ok(word) = field.text() {
        return match word {
            "Pod" | "Single" => Ok(DisruptionMode::Single),
            "PodGroup" | "All" => Ok(DisruptionMode::All),
            other if field.strict() => {
                Err(unsupported(&field, other, &["Single", "All", "Pod", "PodGroup"]))
            }
            _ => Ok(DisruptionMode::Single),
        };
    }
    match (field.get("single")?.is_some(), field.get("all")?.is_some()) {
        (false, true) => Ok(DisruptionMode::All),
        (true, false) => Ok(DisruptionMode::Single),
        _ if field.strict() => Err(field.invalid("must be one of single, all")),
        (_, all) => Ok(if all { DisruptionMode::All } else { DisruptionMode::Single }),
    }
}

/// A `PodGroup` of coscheduling, with or without Koordinator's annotations.
pub(super) fn coscheduling(root: &Field<'_>) -> Fault<GroupObject> {
    let mut group = object(root, Family::Coscheduling)?;
    let spec = root.need("spec")?;
    let min_count = match spec.get("minMember")? {
        Some(min) => count(&min)?,
        None if spec.strict() => return Err(spec.fail_at("minMember", Problem::Required)),
        None => 1,
    };
    group.policy = GroupPolicy::Gang { min_count };
    check_quantities(&spec, "minResources")?;
    let metadata = root.need("metadata")?;
    if let Some(annotations) = metadata.get("annotations")? {
        let gang = gang(&annotations)?;
        group.keep_running = gang.keep_running;
        group.timeout = gang.timeout;
        group.gang_group = gang.gang_group;
        group.wish = topologies::koordinator(&annotations)?;
        if let Some(total) = annotations.get("gang.scheduling.koordinator.sh/total-number")? {
            check_total(&total, min_count)?;
        }
    }
    if let Some(seconds) = spec.get("scheduleTimeoutSeconds")? {
        let seconds = if spec.strict() {
            seconds.within(0, i32::MAX.into())?
        } else {
            seconds.int32()?.into()
        };
        // Zero and less mean the scheduler's own default.
        if seconds > 0 {
            group.timeout = Some(Duration::from_secs(seconds as u64));
        }
    }
    Ok(group)
}

/// Refuses quantities that are none; what they ask for is not read.
pub(super) fn check_quantities(spec: &Field<'_>, name: &str) -> Fault<()> {
    spec.entries(name, |_, field| {
        let quantity = field.quantity()?;
        if quantity.is_negative() { Err(field.fail(Problem::Negative)) } else { Ok(()) }
    })
}

/// A `PodGroup` of Volcano.
pub(super) fn volcano(root: &Field<'_>) -> Fault<GroupObject> {
    let mut group = object(root, Family::Volcano)?;
    let spec = root.need("spec")?;
    // Without a minimum Volcano asks for none, and members start one by one.
    if let Some(min) = spec.get("minMember")? {
        let min =
            if min.strict() { count(&min)? } else { u32::try_from(min.int32()?).unwrap_or(0) };
        if min > 0 {
            group.policy = GroupPolicy::Gang { min_count: min };
        }
    }
    spec.entries("minTaskMember", |role, min| {
        let min = min.within(0, i32::MAX.into())?;
        group.roles.insert(role.into(), min as u32);
        Ok(())
    })?;
    check_quantities(&spec, "minResources")?;
    group.queue = spec.text_of("queue")?;
    group.priority_class = spec.name_of("priorityClassName")?;
    group.wish = topologies::volcano(&spec)?;
    group.subgroups = SubGroups::read(&spec)?.map(Box::new);
    Ok(group)
}
