//! Entries of a store: pods, and groups as pods name them.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::event::Kind;
use crate::kubernetes::account;
use crate::kubernetes::devices::{Ask, Asking, predicted};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::groups::QUEUE_NAME;
use crate::kubernetes::membership::WorkloadKind;
use crate::kubernetes::membership::{Application, Family, InlineGang, Membership};
use crate::kubernetes::metadata::{self, Controller};
use crate::kubernetes::pod::{self, Fate, PodRecord};
use crate::model::{ClaimSource, Pod, PodClaim, PodGroup, PreemptionPolicy, ZoneShare};

/// The identity of a group, or of the object that describes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    pub(super) namespace: String,
    pub(super) family: Family,
    pub(super) name: String,
}

/// The prefixes of groups whose names may be those of others.
fn prefixes() -> impl Iterator<Item = (Family, &'static str)> {
    let dialects = [
        (Family::Coscheduling, "coscheduling:"),
        (Family::Volcano, "volcano:"),
        (Family::Workload, "workload:"),
        (Family::Kai, "kai:"),
        (Family::YuniKorn, "yunikorn:"),
        (Family::Composite, "composite:"),
    ];
    let kinds = WorkloadKind::all().map(|kind| (Family::Kind(kind), kind.prefix()));
    dialects.into_iter().chain(kinds)
}

impl GroupKey {
    /// The name of the group in the scheduler.
    pub(super) fn group_name(&self) -> String {
        let prefix = prefixes().find(|(family, _)| *family == self.family);
        format!("{}{}", prefix.map_or("", |(_, prefix)| prefix), self.name)
    }

    /// The group of a name in the scheduler.
    pub(super) fn of_name(namespace: &str, name: &str) -> GroupKey {
        let dialect =
            prefixes().find_map(|(family, prefix)| Some((family, name.strip_prefix(prefix)?)));
        let (family, name) = dialect.unwrap_or((Family::Kubernetes, name));
        GroupKey { namespace: namespace.to_owned(), family, name: name.to_owned() }
    }
}

/// The family of the groups that a kind describes.
pub(super) fn family(kind: Kind) -> Family {
    match kind {
        Kind::Workload => Family::Workload,
        Kind::Coscheduling | Kind::Koordinator => Family::Coscheduling,
        Kind::CompositePodGroup => Family::Composite,
        Kind::Volcano => Family::Volcano,
        Kind::Kai => Family::Kai,
        _ => Family::Kubernetes,
    }
}

/// A group as pods name it.
#[derive(Debug)]
pub(super) struct Instance {
    /// The object that describes it, if it exists.
    pub(super) object: GroupKey,
    /// All pods that name it, by key.
    pub(super) members: BTreeSet<String>,
    /// How many of them name the scheduler of the store.
    pub(super) ours: usize,
    /// How many have each priority.
    pub(super) priorities: BTreeMap<i32, usize>,
    /// The members that describe the gang.
    pub(super) describing: BTreeSet<String>,
    /// The group as the scheduler knows it, without members.
    pub(super) shown: Option<PodGroup>,
    /// The reason to leave the whole group alone.
    pub(super) refusal: Option<String>,
    /// The preemption policy of all members, if the group or its tree states one.
    pub(super) preemption: Option<PreemptionPolicy>,
    /// The composite group at the root of the tree that it is shown in.
    pub(super) root: Option<GroupKey>,
}

impl Instance {
    /// The leaf of a member, if the scheduler knows the group and it has a place for the member.
    pub(super) fn leaf(&self, member: &PodEntry) -> Option<String> {
        let group = self.shown.as_ref()?;
        if group.groups.is_empty() {
            return Some(group.name.clone());
        }
        let leaf = format!("{}-{}", group.name, member.role.as_deref().unwrap_or(""));
        group.groups.iter().any(|inner| inner.name == leaf).then_some(leaf)
    }
}

/// A pod as its last event describes it.
#[derive(Debug)]
pub(super) struct PodEntry {
    pub(super) pod: Pod,
    pub(super) scheduler: Option<String>,
    /// Whether it names the scheduler of the store.
    pub(super) ours: bool,
    pub(super) finished: bool,
    /// The group that it names.
    pub(super) group: Option<GroupKey>,
    /// The object that describes its group.
    pub(super) object: Option<GroupKey>,
    pub(super) role: Option<String>,
    pub(super) inline: Option<InlineGang>,
    /// The application whose task groups it describes.
    pub(super) application: Option<Box<Application>>,
    /// The local queue that its label names.
    pub(super) local_queue: Option<String>,
    /// How long it runs at most, by its own word.
    pub(super) run_time: Option<Duration>,
    /// Kind and name of the controller that made it.
    pub(super) controller: Option<Box<Controller>>,
    /// The reason to leave it alone.
    pub(super) refusal: Option<String>,
    /// Its requests for cards and zones.
    pub(super) asking: Option<Box<Asking>>,
    /// Amounts of zones that its plan predicted, until its node reports them.
    pub(super) predicted: Vec<ZoneShare>,
    /// Whether a container of it runs.
    pub(super) runs: bool,
    /// The reason for which they are not in force.
    pub(super) card_fault: Option<String>,
    pub(super) shown: Shown,
}

/// The scheduler's knowledge of a pod.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) pod: Option<Pod>,
    /// Whether the scheduler was told of it, and not of its end. It may have bound the pod before
    /// the watch says so, and then keeps it when the group goes.
    pub(super) told: bool,
    /// Whether it is a group of one there.
    pub(super) alone: bool,
    /// The terms of that group, if it has any.
    pub(super) terms: Option<Box<Terms>>,
    pub(super) finished: bool,
    pub(super) left_alone: Option<String>,
}

/// Terms of a group of one pod, beside the pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) queue: String,
    pub(super) run_time: Option<Duration>,
}

/// Fields of a pod that are not in force in a watch, with the reasons.
fn unfollowed(record: &PodRecord) -> Vec<String> {
    let mut refused = record.refused.clone();
    if let (Some(wish), None) = (&record.wish, &record.membership) {
        refused.push(wish.fault("no watch follows the topology"));
    }
    refused
}

impl PodEntry {
    /// Reads a pod; `None` if it has failed, or is being deleted before it ran.
    ///
    /// With `claims` a pod that names no group is of the workload that it was made for.
    pub(super) fn read(root: &Field<'_>, claims: bool) -> Fault<Option<PodEntry>> {
        let phase = match root.get("status")? {
            Some(status) => status.text_of("phase")?,
            None => String::new(),
        };
        let succeeded = phase == "Succeeded";
        let mut record = match pod::pod(root)? {
            Fate::Kept(record) => *record,
            Fate::Finished if succeeded => {
                let mut record = pod::template(root, metadata::namespace(root)?)?;
                record.pod.name = metadata::name(root)?;
                record.pod.uid = root.need("metadata")?.text_of("uid")?;
                record.made_by = pod::made_by_of(root)?;
                record
            }
            Fate::Finished | Fate::Abandoned => return Ok(None),
        };
        record.refused = account::refused_of(root.value, root.object.mode);
        if claims && record.membership.is_none() {
            record.membership = record.made_by.first().map(|made| Box::new(made.membership()));
        }
        let mut entry = PodEntry::new(record, succeeded);
        entry.runs = phase == "Running";
        if entry.pod.node.is_some()
            && !succeeded
            && let Some(metadata) = root.get("metadata")?
        {
            entry.predicted = predicted(&metadata)?;
        }
        Ok(Some(entry))
    }

    pub(super) fn new(record: PodRecord, finished: bool) -> PodEntry {
        let refused = unfollowed(&record);
        let PodRecord { mut pod, priority, scheduler, membership, controller, .. } = record;
        let PodRecord { limits, asks, held, parts, application, run_time, .. } = record;
        pod.priority = priority.unwrap_or(0);
        if let Some(limits) = limits {
            pod = pod.in_band(&limits);
        }
        let key = |membership: &Membership, name: &str| GroupKey {
            family: membership.family,
            namespace: pod.namespace().to_owned(),
            name: name.to_owned(),
        };
        let group = membership.as_deref().map(|of| key(of, &of.group));
        let object = membership.as_deref().map(|of| key(of, &of.object));
        let (role, inline) =
            membership.map_or((None, None), |of| (of.role, of.inline.map(|inline| *inline)));
        let refusal = (!refused.is_empty() && pod.node.is_none()).then(|| refused.join("; "));
        let scheduler = scheduler.map(str::into_string);
        let local_queue = pod.shape().labels.get(QUEUE_NAME).cloned();
        let asking = (!asks.is_empty() || !parts.is_empty()).then(|| {
            let (held, shape) = (held.map(|held| *held), pod.shape().clone());
            Box::new(Asking { asks, held, parts, shape })
        });
        let shown = Shown::default();
        PodEntry {
            pod,
            scheduler,
            ours: false,
            finished,
            group,
            object,
            role,
            inline,
            application,
            local_queue,
            run_time,
            controller,
            refusal,
            asking,
            predicted: Vec::new(),
            runs: false,
            card_fault: None,
            shown,
        }
    }

    /// Lets claims that were made for an owner serve the pod, too; whether that is new.
    pub(super) fn claims_are_also_of(&mut self, owner: &str) -> bool {
        let lacks = |claim: &PodClaim| match &claim.source {
            ClaimSource::Made { owners, .. } => !owners.iter().any(|own| own == owner),
            _ => false,
        };
        if owner.is_empty() || !self.pod.shape().claims.iter().any(lacks) {
            return false;
        }
        for claim in &mut self.pod.shape_mut().claims {
            if let ClaimSource::Made { owners, .. } = &mut claim.source
                && !owners.iter().any(|own| own == owner)
            {
                owners.push(owner.to_owned());
            }
        }
        true
    }

    /// Whether it asks for a fraction of a card of KAI's.
    pub(super) fn has_fraction(&self) -> bool {
        self.asking.as_ref().is_some_and(|asking| asking.asks.iter().any(Ask::is_fraction))
    }

    /// Whether it waits for the scheduler of the store.
    pub(super) fn waits(&self) -> bool {
        self.ours && self.pod.node.is_none() && !self.finished
    }

    /// Whether the scheduler counts it as a member now.
    pub(super) fn is_member(&self) -> bool {
        !self.finished && (self.ours || self.pod.node.is_some())
    }

    /// The pod as a member of a leaf, and records that the scheduler knows it so.
    pub(super) fn show_in(
        &mut self,
        leaf: Option<String>,
        refusal: Option<&str>,
        policy: Option<PreemptionPolicy>,
    ) -> Pod {
        let pod = self.in_leaf(leaf, refusal, policy);
        self.shown.pod = Some(pod.clone());
        self.shown.told = true;
        pod
    }

    pub(super) fn in_leaf(
        &self,
        leaf: Option<String>,
        refusal: Option<&str>,
        policy: Option<PreemptionPolicy>,
    ) -> Pod {
        let mut pod = self.pod.clone();
        pod.group = leaf;
        pod.preemption_policy = policy.unwrap_or(pod.preemption_policy);
        let refusal = self.refusal.as_deref().or(refusal);
        if let Some(reason) = refusal.filter(|_| pod.node.is_none()) {
            pod.scheduling_gates.push(reason.to_owned());
        }
        pod
    }

    /// Records that the scheduler has forgotten the group of the pod. A pod that it may have bound
    /// is still told of.
    pub(super) fn hide(&mut self) {
        if self.shown.pod.as_ref().is_some_and(|pod| pod.node.is_none()) {
            self.shown.pod = None;
        }
        self.shown.finished = false;
    }

    pub(super) fn alone_name(&self) -> String {
        format!("pod:{}", self.pod.name)
    }
}
