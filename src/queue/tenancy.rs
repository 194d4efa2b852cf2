//! The tenants of a scheduler: what is charged to whom, and where quota is short.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::ids::{GroupId, QueueKey};
use super::quota_sleepers::{Place, QuotaSleepers, Sleeper};
use super::shortage::QuotaReason;
use crate::base::Time;
use crate::quota::{Claim, Decision, Heads, Mode, QueueId, QueueKind, Tenants, Usage};

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

/// The tenants of a scheduler.
#[derive(Debug)]
pub(super) struct Tenancy {
    pub(super) tenants: Tenants,
    pub(super) heads: Heads,
    /// By queue: the group that stands among the heads.
    pub(super) standing: BTreeMap<String, GroupId>,
    pub(super) charges: BTreeMap<GroupId, Charge>,
    /// Pods that are charged, by full name.
    pub(super) charged: BTreeMap<String, GroupId>,
    pub(super) sleepers: QuotaSleepers,
    /// Where quota has become free since groups were last woken.
    pub(super) moved: BTreeSet<Place>,
    /// Queues of which a group was tried since, and the one behind which others may be woken.
    pub(super) tried: BTreeMap<String, Option<QueueKey>>,
    /// The group that quota is put aside for.
    pub(super) aside: Option<GroupId>,
    /// Groups looked at that slept.
    pub(super) looked_at: u64,
}

impl Tenancy {
    pub(super) fn new(tenants: Tenants) -> Tenancy {
        Tenancy {
            heads: tenants.heads(),
            tenants,
            standing: BTreeMap::new(),
            charges: BTreeMap::new(),
            charged: BTreeMap::new(),
            sleepers: QuotaSleepers::default(),
            moved: BTreeSet::new(),
            tried: BTreeMap::new(),
            aside: None,
            looked_at: 0,
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

    pub(super) fn changed(&mut self, queue: &str) {
        if let Some(leaf) = self.leaf(queue) {
            self.heads.changed(&mut self.tenants, leaf);
        }
    }

    /// Notes that a leaf and those above it have more room.
    pub(super) fn note_moved(&mut self, leaf: QueueId, usage: &Usage) {
        let path: Vec<QueueId> = self.tenants.tree().path(leaf).collect();
        for &(of, _) in usage.iter().filter(|(_, amount)| *amount > 0) {
            self.moved.extend(path.iter().map(|&queue| (queue, of)));
        }
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
        } else {
            let mut claim = Claim::new(charge.holder.clone(), charge.queue.clone());
            (claim.priority, claim.created) = (charge.priority, charge.created);
            claim.preemptible = charge.preemptible;
            let usage = self.usage(&charge.pods);
            // A queue that is gone has nothing to charge.
            let _ = self.tenants.restore(&claim, &usage, charge.since);
            self.charged.extend(charge.pods.keys().map(|pod| (pod.clone(), id)));
            let queue = charge.queue.clone();
            self.charges.insert(id, charge);
            self.changed(&queue);
        }
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
        let room = tree.available(leaf, of);
        let aside = self.tenants.aside_usage().map_or(0, |(other, usage)| {
            let sums = tree.sums(leaf, of);
            // The group it is put aside for is of that queue.
            let within = other == leaf || sums.drawn.saturating_add(needed) <= sums.subtree;
            let kept = usage.iter().find(|(own, _)| *own == of).map_or(0, |(_, kept)| *kept);
            if within { 0 } else { kept }
        });
        needed <= room.saturating_sub(aside)
    }

    /// Where a claim is short, by its assignment.
    pub(super) fn shortage(&self, leaf: QueueId, decision: &Decision) -> Short {
        let tree = self.tenants.tree();
        let unknown = Short { place: None, needed: 0, available: 0, reason: QuotaReason::Never };
        if decision.assignment.mode == Mode::NoFit {
            return unknown;
        }
        let mut usage = decision.assignment.usage.clone();
        usage.sort_unstable();
        let path: Vec<QueueId> = tree.path(leaf).collect();
        for &(of, needed) in &usage {
            let bound = path.iter().find_map(|&at| {
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
            let available = tree.available(leaf, of);
            if needed > available {
                let reason = if decision.victims.is_empty() {
                    QuotaReason::InUse
                } else {
                    QuotaReason::Reclaimable { victims: decision.victims.len() }
                };
                return Short { place: Some((root, of)), needed, available, reason };
            }
        }
        let aside = self.tenants.aside().unwrap_or_default().to_owned();
        let of = usage.first().copied();
        Short {
            place: of.map(|(of, _)| (root, of)),
            needed: of.map_or(0, |(_, needed)| needed),
            available: of.map_or(0, |(of, _)| tree.available(leaf, of)),
            reason: QuotaReason::PutAside { group: aside },
        }
    }
}

impl Tenancy {
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
        let reason = if decision.victims.is_empty() {
            QuotaReason::InUse
        } else {
            QuotaReason::Reclaimable { victims: decision.victims.len() }
        };
        Some(Short { place: Some((root, of)), needed, available: room(of)?, reason })
    }
}

/// Why a claim is not admitted.
pub(super) struct Short {
    pub(super) place: Option<Place>,
    pub(super) needed: i64,
    pub(super) available: i64,
    pub(super) reason: QuotaReason,
}
