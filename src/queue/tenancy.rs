//! The tenants of a scheduler: what is charged to which queue, and where quota is short.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::claims::GroupClaim;
use super::ids::{GroupId, QueueKey};
use super::quota_sleepers::{Place, QuotaSleepers, Sleeper};
use super::shortage::QuotaReason;
use crate::base::Time;
use crate::quota::{
    Assignment, Claim, Decision, FlavorChoice, Heads, HolderId, Mode, PodSet, PodSetAssignment,
    QueueId, QueueKind, Tenants, Usage,
};

/// What a group is charged for, by pod, until the pod is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub(super) struct Charge {
    /// The name among the holders of quota.
    pub(super) holder: String,
    pub(super) queue: String,
    pub(super) priority: i64,
    pub(super) created: Time,
    pub(super) since: Time,
    /// Whether it may be evicted; `None`: as the dialect says.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) preemptible: Option<bool>,
    /// By pod: flavor, resource, amount.
    pub(super) pods: BTreeMap<String, Vec<(String, String, i64)>>,
}

/// What is reserved for a group that waits for its victims, beside the amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub(super) struct ReservedClaim {
    /// What the group asked for.
    pub(super) pod_sets: Vec<PodSet>,
    given: Vec<ReservedPodSet>,
}

/// What one pod set is given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
struct ReservedPodSet {
    pod_set: usize,
    count: u32,
    /// Flavor, resource, amount.
    flavors: Vec<(String, String, i64)>,
}

impl ReservedClaim {
    pub(super) fn new(
        claim: &GroupClaim,
        assignment: &Assignment,
        tenants: &Tenants,
    ) -> ReservedClaim {
        let given = assignment.pod_sets.iter().map(|set| {
            let flavors = set.flavors.iter().zip(&set.requests).map(|(choice, amount)| {
                let (flavor, resource) = tenants.tree().names(choice.of);
                (flavor.into(), resource.into(), *amount)
            });
            ReservedPodSet { pod_set: set.pod_set, count: set.count, flavors: flavors.collect() }
        });
        ReservedClaim { pod_sets: claim.claim.pod_sets.clone(), given: given.collect() }
    }

    /// The assignment that it was made of, as one that fits.
    pub(super) fn assignment(&self, usage: Usage, tenants: &Tenants) -> Assignment {
        let mut assignment = Assignment::new(usage, Mode::Fit, 0);
        for own in &self.given {
            let mut set = PodSetAssignment::new(own.pod_set, own.count);
            for (flavor, resource, amount) in &own.flavors {
                if let Some(of) = tenants.tree().flavor_resource(flavor, resource) {
                    set.flavors.push(FlavorChoice { of, mode: Mode::Fit, tried: None });
                    set.requests.push(*amount);
                }
            }
            assignment.pod_sets.push(set);
        }
        assignment
    }
}

/// The tenants of a scheduler.
#[derive(Debug)]
pub(super) struct Tenancy {
    pub(super) tenants: Tenants,
    pub(super) heads: Heads,
    pub(super) charges: BTreeMap<GroupId, Charge>,
    /// Pods that are charged, by full name.
    pub(super) charged: BTreeMap<String, GroupId>,
    pub(super) sleepers: QuotaSleepers,
    /// What groups that were refused request, where requests are divided by: from the first refusal
    /// on, but while they are tried.
    pub(super) asked: BTreeMap<GroupId, (QueueId, Usage)>,
    /// Where quota has become free since groups were last woken.
    pub(super) moved: BTreeSet<Place>,
    /// Queues of which a group was tried since, and the one behind which others may be woken.
    pub(super) tried: BTreeMap<String, Option<QueueKey>>,
    /// The group that quota is put aside for.
    pub(super) aside: Option<GroupId>,
    /// Groups looked at that slept.
    pub(super) looked_at: u64,
    /// What is reserved for groups that wait for their victims.
    pub(super) reserved: BTreeMap<GroupId, ReservedClaim>,
    /// Groups that quota does not name as victims, and until when; `None`: until they change.
    pub(super) kept: BTreeMap<GroupId, Option<Time>>,
    /// Groups that are being evicted whole.
    pub(super) leaving: BTreeSet<GroupId>,
    /// Roots of the trees in which more may be taken back than when claims were last refused.
    pub(super) reclaim_due: BTreeSet<QueueId>,
}

impl Tenancy {
    pub(super) fn new(tenants: Tenants) -> Tenancy {
        Tenancy {
            heads: tenants.heads(),
            tenants,
            charges: BTreeMap::new(),
            charged: BTreeMap::new(),
            sleepers: QuotaSleepers::default(),
            asked: BTreeMap::new(),
            moved: BTreeSet::new(),
            tried: BTreeMap::new(),
            aside: None,
            looked_at: 0,
            reserved: BTreeMap::new(),
            kept: BTreeMap::new(),
            leaving: BTreeSet::new(),
            reclaim_due: BTreeSet::new(),
        }
    }

    pub(super) fn leaf(&self, queue: &str) -> Option<QueueId> {
        self.tenants.tree().queue(QueueKind::Leaf, queue)
    }

    /// Enters a group among those that wait for quota.
    pub(super) fn sleep(&mut self, sleeper: Sleeper) {
        self.wake(sleeper.key.group);
        if let Some((leaf, of, amount)) = sleeper.pending {
            // What no sum can hold is not counted.
            let _ = self.tenants.wait(leaf, of, amount);
        }
        self.sleepers.insert(sleeper);
    }

    /// Takes a group out of those that wait for quota.
    pub(super) fn wake(&mut self, id: GroupId) {
        let sleeper = self.sleepers.remove(id);
        if let Some((leaf, of, amount)) = sleeper.and_then(|sleeper| sleeper.pending) {
            let _ = self.tenants.wait(leaf, of, -amount);
        }
    }

    /// Counts what a group that waits requests.
    pub(super) fn ask(&mut self, id: GroupId, leaf: QueueId, usage: Usage) {
        self.unask(id);
        if usage.is_empty() {
            return;
        }
        for &(of, amount) in &usage {
            // What no sum can hold is not counted.
            let _ = self.tenants.wait(leaf, of, amount);
        }
        self.asked.insert(id, (leaf, usage));
    }

    /// No longer counts it.
    pub(super) fn unask(&mut self, id: GroupId) -> Option<(QueueId, Usage)> {
        let (leaf, usage) = self.asked.remove(&id)?;
        for &(of, amount) in &usage {
            let _ = self.tenants.wait(leaf, of, -amount);
        }
        Some((leaf, usage))
    }

    /// A group waits no longer, though it was given nothing: others may have what it requested.
    pub(super) fn gave_up(&mut self, id: GroupId) {
        if let Some((leaf, usage)) = self.unask(id) {
            self.note_moved(leaf, &usage);
        }
    }

    /// Notes that the sums of a queue have changed: with them its place among the heads, and what
    /// claims of its tree are entitled to.
    pub(super) fn changed(&mut self, queue: &str) {
        if let Some(leaf) = self.leaf(queue) {
            self.heads.changed(&mut self.tenants, leaf);
            self.reclaim_due.extend(self.tenants.tree().path(leaf).last());
        }
    }

    /// The root of a leaf's tree.
    pub(super) fn root_of(&self, queue: &str) -> Option<QueueId> {
        self.tenants.tree().path(self.leaf(queue)?).last()
    }

    /// Notes that a leaf and those above it have more room.
    pub(super) fn note_moved(&mut self, leaf: QueueId, usage: &Usage) {
        let path: Vec<QueueId> = self.tenants.tree().path(leaf).collect();
        for &(of, _) in usage.iter().filter(|(_, amount)| *amount > 0) {
            self.moved.extend(path.iter().map(|&queue| (queue, of)));
        }
        self.reclaim_due.extend(path.last());
    }

    /// The usage of pods, by number.
    fn usage(&mut self, pods: &BTreeMap<String, Vec<(String, String, i64)>>) -> Usage {
        let mut sums: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for (flavor, resource, amount) in pods.values().flatten() {
            let sum = sums.entry((flavor, resource)).or_default();
            *sum = sum.saturating_add(*amount);
        }
        let intern = |((flavor, resource), sum)| (self.tenants.intern(flavor, resource), sum);
        sums.into_iter().map(intern).collect()
    }

    /// Replaces what is charged to a group.
    pub(super) fn charge(&mut self, id: GroupId, mut charge: Charge) {
        if let Some(holder) = self.tenants.find(&charge.holder) {
            if self.charges.get(&id).is_none_or(|own| own.holder != charge.holder) {
                // A group of this name was removed, and its pods still run.
                charge.holder = format!("{}#{id}", charge.holder);
            } else {
                let _ = self.tenants.release(holder);
            }
        }
        if charge.pods.is_empty() {
            self.charges.remove(&id);
            self.kept.remove(&id);
            self.leaving.remove(&id);
        } else {
            let mut claim = Claim::new(charge.holder.clone(), charge.queue.clone());
            (claim.priority, claim.created) = (charge.priority, charge.created);
            claim.preemptible = charge.preemptible;
            let usage = self.usage(&charge.pods);
            // A queue that is gone has nothing to charge.
            if let Ok(holder) = self.tenants.restore(&claim, &usage, charge.since) {
                if self.leaving.contains(&id) {
                    let _ = self.tenants.set_leaving(holder, true);
                }
                if self.kept.contains_key(&id) {
                    let _ = self.tenants.set_kept(holder, true);
                }
            }
            self.charged.extend(charge.pods.keys().map(|pod| (pod.clone(), id)));
            let queue = charge.queue.clone();
            self.charges.insert(id, charge);
            self.changed(&queue);
        }
    }

    /// Records whether a group is being evicted whole.
    pub(super) fn set_leaving(&mut self, id: GroupId, leaving: bool) {
        let Some(charge) = self.charges.get(&id) else { return };
        let Some(holder) = self.tenants.find(&charge.holder) else { return };
        let _ = self.tenants.set_leaving(holder, leaving);
        if leaving {
            self.leaving.insert(id);
        } else {
            self.leaving.remove(&id);
            self.reclaim_due.extend(self.root_of(&charge.queue));
        }
    }

    /// The holder of what a group is charged for.
    pub(super) fn holder_of(&self, id: GroupId) -> Option<HolderId> {
        self.tenants.find(&self.charges.get(&id)?.holder)
    }

    /// Lets a group be named as a victim again.
    pub(super) fn offer(&mut self, id: GroupId) {
        let Some(charge) = self.charges.get(&id) else { return };
        if let Some(holder) = self.tenants.find(&charge.holder) {
            let _ = self.tenants.set_kept(holder, false);
        }
        self.reclaim_due.extend(self.root_of(&charge.queue));
    }

    /// Ends the charge for a pod that is gone.
    pub(super) fn discharge(&mut self, pod: &str) {
        let Some(id) = self.charged.remove(pod) else { return };
        let Some(mut charge) = self.charges.get(&id).cloned() else { return };
        let Some(gone) = charge.pods.remove(pod) else { return };
        let queue = charge.queue.clone();
        let leaf = self.leaf(&queue);
        self.charge(id, charge);
        let pods = BTreeMap::from([(String::new(), gone)]);
        let usage = self.usage(&pods);
        if let Some(leaf) = leaf.filter(|leaf| self.tenants.tree().spec(*leaf).is_some()) {
            self.note_moved(leaf, &usage);
        }
        self.changed(&queue);
    }

    /// Whether a group that waits at a place may have what it needs.
    pub(super) fn has_room(&self, place: Place, queue: &str, needed: i64) -> bool {
        let tree = self.tenants.tree();
        let (at, of) = place;
        if tree.parent(at).is_some() {
            let limit = tree.quota(at, of).and_then(|quota| quota.limit);
            return limit.is_none_or(|limit| needed <= limit - tree.sums(at, of).used)
                || needed <= tree.available(at, of);
        }
        let Some(leaf) = self.leaf(queue) else { return true };
        if let Some(room) = self.tenants.peer_room(leaf, of) {
            return needed <= room;
        }
        // What it asks for is counted among what waits.
        let room = self.tenants.room_for(leaf, of, &Usage::new());
        let aside = self.tenants.aside_usage().map_or(0, |(other, usage)| {
            let sums = tree.sums(leaf, of);
            // The group it is put aside for is of that queue.
            let within = other == leaf || sums.drawn.saturating_add(needed) <= sums.subtree;
            let kept = usage.iter().find(|(own, _)| *own == of).map_or(0, |(_, kept)| *kept);
            if within { 0 } else { kept }
        });
        needed <= room.saturating_sub(aside)
    }

    /// Where a group waits that is short of a resource: at a queue, of each flavor in which its own
    /// queue has the resource; the one that is short comes first.
    pub(super) fn places(
        &self,
        leaf: Option<QueueId>,
        at: QueueId,
        flavor: &str,
        resource: &str,
    ) -> Vec<Place> {
        let tree = self.tenants.tree();
        let groups = leaf.and_then(|leaf| tree.spec(leaf)).map_or(&[][..], |spec| &spec.groups);
        let covers = |own: &String| own == resource;
        let groups = groups.iter().filter(|group| group.covered_resources.iter().any(covers));
        let others = groups.flat_map(|group| &group.flavors).map(|own| own.name.as_str());
        let others = others.filter(|other| *other != flavor);
        let all = core::iter::once(flavor).chain(others);
        all.filter_map(|flavor| Some((at, tree.flavor_resource(flavor, resource)?))).collect()
    }

    /// Where a claim is short that no flavor serves as others use them now; nowhere if none could
    /// ever.
    fn shortage_of_all(&self, leaf: QueueId, claim: &Claim) -> Short {
        let tree = self.tenants.tree();
        let root = tree.path(leaf).last().unwrap_or(leaf);
        let asked = claim.pod_sets.iter().flat_map(|set| set.requests.iter());
        for (resource, needed) in asked.filter(|(_, needed)| *needed > 0) {
            let places = self.places(Some(leaf), root, "", resource);
            let most = places.iter().map(|(_, of)| tree.available(leaf, *of)).max();
            if most.is_some_and(|most| most >= needed) {
                continue;
            }
            let can = |(_, of): &&Place| tree.potential(leaf, *of) >= needed;
            let Some(&(_, of)) = places.iter().find(can) else { break };
            let place = Some((root, of));
            let available = tree.available(leaf, of);
            return Short { place, needed, available, reason: QuotaReason::InUse };
        }
        Short { place: None, needed: 0, available: 0, reason: QuotaReason::Never }
    }

    /// Where a claim is short, by its assignment.
    pub(super) fn shortage(&self, leaf: QueueId, claim: &Claim, decision: &Decision) -> Short {
        let tree = self.tenants.tree();
        if decision.assignment.mode == Mode::NoFit {
            return self.shortage_of_all(leaf, claim);
        }
        let mut usage = decision.assignment.usage.clone();
        usage.sort_unstable();
        let path: Vec<QueueId> = tree.path(leaf).collect();
        let limiting = if self.tenants.checks_parents() { path.len() } else { 1 };
        for &(of, needed) in &usage {
            let bound = path.iter().take(limiting).find_map(|&at| {
                let limit = tree.quota(at, of)?.limit?;
                let left = limit.saturating_sub(tree.sums(at, of).used);
                (needed > left).then_some((at, left))
            });
            if let Some((at, available)) = bound {
                let reason = QuotaReason::Limit {
                    queue: tree.spec(at).map(|spec| spec.name.clone()).unwrap_or_default(),
                };
                return Short { place: Some((at, of)), needed, available, reason };
            }
        }
        let root = path.last().copied().unwrap_or(leaf);
        if let Some(short) = self.shortage_of_peer(leaf, root, decision, &usage) {
            return short;
        }
        for &(of, needed) in &usage {
            let available = self.tenants.room_for(leaf, of, &usage);
            if needed > available {
                let reason = in_use(decision);
                return Short { place: Some((root, of)), needed, available, reason };
            }
        }
        let aside = self.tenants.aside().or_else(|| self.tenants.reserving().next());
        let aside = aside.unwrap_or_default().to_owned();
        let of = usage.first().copied();
        Short {
            place: of.map(|(of, _)| (root, of)),
            needed: of.map_or(0, |(_, needed)| needed),
            available: of.map_or(0, |(of, _)| self.tenants.room_for(leaf, of, &usage)),
            reason: QuotaReason::PutAside { group: aside },
        }
    }

    /// Where a claim is short in the dialect of another scheduler; `None` in others.
    fn shortage_of_peer(
        &self,
        leaf: QueueId,
        root: QueueId,
        decision: &Decision,
        usage: &Usage,
    ) -> Option<Short> {
        let room = |of| self.tenants.peer_room(leaf, of);
        let scarce = usage.iter().find(|(of, needed)| room(*of).is_some_and(|room| *needed > room));
        let &(of, needed) = scarce.or(usage.first())?;
        let (available, reason) = (room(of)?, in_use(decision));
        Some(Short { place: Some((root, of)), needed, available, reason })
    }
}

/// The reason of a claim that others' usage leaves too little for.
fn in_use(decision: &Decision) -> QuotaReason {
    match decision.victims.len() {
        0 => QuotaReason::InUse,
        victims => QuotaReason::Reclaimable { victims },
    }
}

/// Why a claim is not admitted.
pub(super) struct Short {
    pub(super) place: Option<Place>,
    pub(super) needed: i64,
    pub(super) available: i64,
    pub(super) reason: QuotaReason,
}
