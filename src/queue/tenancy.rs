//! Tenants in the scheduler: the next queue's turn, admission before placement, what is charged.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::claims::{GroupClaim, amounts_of, restrict};
use super::error::QueueError;
use super::ids::{GroupId, QueueKey};
use super::queued_group::{MemberState, Phase};
use super::quota_sleepers::{Place, QuotaSleepers, Sleeper};
use super::scheduler::Scheduler;
use super::shortage::{QuotaReason, Shortage};
use super::wake::hints::WakeCondition;
use crate::base::Time;
use crate::model::{Pod, PodGroup};
use crate::quota::{
    Assignment, Claim, Decision, Flavor, Head, Heads, Mode, Queue, QueueId, QueueKind,
    QueueReport, QuotaError, Tenants, Usage,
};
use crate::state::{NodeView, Plan};

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
    /// By pod: flavor, resource, amount.
    pub(super) pods: BTreeMap<String, Vec<(String, String, i64)>>,
}

/// The tenants of a scheduler.
#[derive(Debug)]
pub(super) struct Tenancy {
    pub(super) tenants: Tenants,
    heads: Heads,
    /// By queue: the group that stands among the heads.
    standing: BTreeMap<String, GroupId>,
    pub(super) charges: BTreeMap<GroupId, Charge>,
    /// Pods that are charged, by full name.
    charged: BTreeMap<String, GroupId>,
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
    fn sleep(&mut self, sleeper: Sleeper) {
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

    fn changed(&mut self, queue: &str) {
        if let Some(leaf) = self.leaf(queue) {
            self.heads.changed(&mut self.tenants, leaf);
        }
    }

    /// Notes that a leaf and those above it have more room.
    fn note_moved(&mut self, leaf: QueueId, usage: &Usage) {
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
    fn discharge(&mut self, pod: &str) {
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
    fn has_room(&self, place: Place, queue: &str, needed: i64) -> bool {
        let tree = self.tenants.tree();
        let (at, of) = place;
        if tree.parent(at).is_some() {
            let limit = tree.quota(at, of).and_then(|quota| quota.limit);
            return limit.is_none_or(|limit| needed <= limit - tree.sums(at, of).used)
                || needed <= tree.available(at, of);
        }
        let Some(leaf) = self.leaf(queue) else { return true };
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
    fn shortage(&self, leaf: QueueId, decision: &Decision) -> Short {
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

/// Why a claim is not admitted.
struct Short {
    place: Option<Place>,
    needed: i64,
    available: i64,
    reason: QuotaReason,
}

/// What a group has been admitted with, until its pods are placed.
pub(super) struct Admitted {
    id: GroupId,
    leaf: QueueId,
    claim: GroupClaim,
    assignment: Assignment,
}

/// What a queue has, from whom it could take, and why its first group waits.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct QueueStatus {
    /// Its quota, what it uses and borrows, and from whom it could take.
    pub report: QueueReport,
    /// Full name of the first group that waits.
    pub first: Option<String>,
    /// Why that group waits, if it has been tried.
    pub shortage: Option<Shortage>,
}

impl Scheduler {
    /// Puts tenants in charge: whose turn it is, and who may have how much. A group's
    /// [`queue`](crate::model::PodGroup::queue) is the leaf of its claim; a group of a leaf that is
    /// not known waits for it. Members that run already are charged.
    ///
    /// A gang is admitted to quota whole before it is placed, on nodes of the flavors that it is
    /// given, and charged for each pod until that pod is gone. Without tenants nothing is charged.
    ///
    /// Devices are charged under their kind, in thousandths of a device: a whole one is 1,000, a share
    /// what it takes of `compute`; other units of shares under `kind/unit`.
    ///
    /// ```
    /// use phalanx::model::{Node, Pod, PodGroup};
    /// use phalanx::queue::{Decision, Scheduler, Settings};
    /// use phalanx::quota::{Flavor, Queue, Quota, Tenants};
    /// use phalanx::{Cluster, Framework, Time};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n1").capacity("gpu", 8))?;
    /// let mut tenants = Tenants::default();
    /// tenants.set_flavor(Flavor::new("all"));
    /// tenants.set_queue(Queue::leaf("vision").quota("all", "gpu", Quota::nominal(4)))?;
    /// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default())
    ///     .with_tenants(tenants);
    /// let gang = |name| {
    ///     let mut gang = PodGroup::gang(name, 2).pods(2, Pod::new().request("gpu", 2));
    ///     gang.queue = "vision".into();
    ///     gang
    /// };
    /// scheduler.handle_group(gang("one"), Time::ZERO)?;
    /// scheduler.handle_group(gang("two"), Time::ZERO)?;
    /// assert!(matches!(scheduler.poll_decision(Time::ZERO), Some(Decision::Bind { .. })));
    /// assert_eq!(scheduler.poll_decision(Time::ZERO), None);
    /// let status = scheduler.queue_status("vision").expect("known");
    /// assert_eq!(status.report.resources[0].sums.used, 4);
    /// assert_eq!(status.first.as_deref(), Some("default/two"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_tenants(mut self, tenants: Tenants) -> Scheduler {
        self.tenancy = Some(Tenancy::new(tenants));
        self.queues.track();
        let members: Vec<(GroupId, u64)> = self.pods.values().copied().collect();
        for (id, seq) in members {
            self.charge_bound(id, seq);
        }
        self
    }

    /// The tenants, if there are any.
    pub fn tenants(&self) -> Option<&Tenants> {
        self.tenancy.as_ref().map(|tenancy| &tenancy.tenants)
    }

    /// A queue that appeared or changed. Groups that wait for quota are tried again.
    ///
    /// # Errors
    /// There are no tenants, or the queue makes no sense.
    pub fn handle_queue(&mut self, queue: Queue, now: Time) -> Result<(), QueueError> {
        self.change_tenants(now, |tenants| tenants.set_queue(queue).map(drop))
    }

    /// The removal of a queue; see [`Tenants::remove_queue`].
    ///
    /// # Errors
    /// There are no tenants, or no such queue.
    pub fn handle_queue_removed(
        &mut self,
        kind: QueueKind,
        name: &str,
        now: Time,
    ) -> Result<(), QueueError> {
        self.change_tenants(now, |tenants| {
            let queue = tenants.tree().queue(kind, name);
            let queue = queue.ok_or_else(|| QuotaError::UnknownQueue(name.to_owned()))?;
            tenants.remove_queue(queue).map(drop)
        })
    }

    /// A flavor that appeared or changed.
    ///
    /// # Errors
    /// There are no tenants.
    pub fn handle_flavor(&mut self, flavor: Flavor, now: Time) -> Result<(), QueueError> {
        self.change_tenants(now, |tenants| {
            tenants.set_flavor(flavor);
            Ok(())
        })
    }

    /// The removal of a flavor; see [`Tenants::remove_flavor`].
    ///
    /// # Errors
    /// There are no tenants.
    pub fn handle_flavor_removed(&mut self, name: &str, now: Time) -> Result<(), QueueError> {
        self.change_tenants(now, |tenants| {
            tenants.remove_flavor(name);
            Ok(())
        })
    }

    /// What a queue has, from whom it could take, and why its first group waits; `None` if it is not
    /// known. O(queues · depth).
    pub fn queue_status(&self, queue: &str) -> Option<QueueStatus> {
        let tenancy = self.tenancy.as_ref()?;
        let report = tenancy.tenants.report(tenancy.leaf(queue)?)?;
        let first = self.queues.waiting(queue).next();
        let first = first.and_then(|key| self.groups.get(&key.group));
        Some(QueueStatus {
            report,
            first: first.map(|queued| queued.name.clone()),
            shortage: first.and_then(|queued| queued.shortage.clone()),
        })
    }

    fn change_tenants(
        &mut self,
        now: Time,
        change: impl FnOnce(&mut Tenants) -> Result<(), QuotaError>,
    ) -> Result<(), QueueError> {
        self.expire(now, false);
        let Some(tenancy) = &mut self.tenancy else { return Err(QueueError::NoTenants) };
        change(&mut tenancy.tenants)?;
        // Shares and levels of all queues may have changed.
        tenancy.heads = tenancy.tenants.heads();
        tenancy.standing.clear();
        tenancy.tenants.take_aside();
        tenancy.aside = None;
        for id in tenancy.sleepers.all() {
            self.wake_for_quota(id);
        }
        self.queues.touch_all();
        Ok(())
    }

    fn wake_for_quota(&mut self, id: GroupId) {
        let until = self.groups.get(&id).map(|queued| queued.phase.clone());
        if matches!(until, Some(Phase::Unschedulable(_))) {
            self.metrics.add_one(|metrics| &mut metrics.woken);
            self.set_phase(id, Phase::Queued);
            self.emit(id, super::observe::GroupChange::Queued);
        }
    }

    /// Wakes groups for which quota has moved: the first of each queue that may fit.
    pub(super) fn wake_sleepers(&mut self) {
        self.update_aside();
        let Some(tenancy) = &mut self.tenancy else { return };
        if tenancy.moved.is_empty() && tenancy.tried.is_empty() {
            return;
        }
        let mut queues = core::mem::take(&mut tenancy.tried);
        for place in core::mem::take(&mut tenancy.moved) {
            let tree = tenancy.tenants.tree();
            let sums = tree.sums(place.0, place.1);
            let limit = tree.quota(place.0, place.1).and_then(|quota| quota.limit);
            let left = limit.map_or(i64::MIN, |limit| limit.saturating_sub(sums.used));
            let room = left.max(sums.subtree.saturating_sub(sums.drawn));
            for queue in tenancy.sleepers.within(place, room) {
                queues.insert(queue, None);
            }
        }
        let mut woken = Vec::new();
        for (queue, behind) in queues {
            for (place, least) in tenancy.sleepers.places(&queue) {
                tenancy.looked_at += 1;
                if !tenancy.has_room(place, &queue, least) {
                    continue;
                }
                let mut looked_at = 0;
                let found = tenancy
                    .sleepers
                    .waiting(place, &queue)
                    .filter(|(key, _)| behind.as_ref().is_none_or(|behind| *key > behind))
                    .inspect(|_| looked_at += 1)
                    .find(|(_, needed)| tenancy.has_room(place, &queue, *needed));
                woken.extend(found.map(|(key, _)| key.group));
                tenancy.looked_at += looked_at;
            }
        }
        for id in woken {
            self.wake_for_quota(id);
        }
    }

    /// Puts quota aside for the group that has waited longest for what others have.
    fn update_aside(&mut self) {
        let Some(tenancy) = &mut self.tenancy else { return };
        if tenancy.tenants.patience().is_none() {
            return;
        }
        if let Some(id) = tenancy.aside {
            let waits = self.groups.get(&id).is_some_and(|queued| match &queued.phase {
                Phase::Queued | Phase::BackingOff(_) => true,
                Phase::Unschedulable(_) => matches!(queued.wake_on, WakeCondition::Quota { .. }),
                _ => false,
            });
            if waits {
                return;
            }
            tenancy.aside = None;
            if let Some((leaf, usage)) = tenancy.tenants.aside_usage() {
                let usage = usage.clone();
                tenancy.tenants.take_aside();
                tenancy.note_moved(leaf, &usage);
            }
        }
        let Some((since, id)) = tenancy.sleepers.oldest() else { return };
        let patience = tenancy.tenants.patience().unwrap_or_default();
        if self.now.since(since) < patience {
            return;
        }
        let Some(claim) = self.claim(id) else { return };
        let Some(tenancy) = &mut self.tenancy else { return };
        if tenancy.tenants.put_aside(&claim.claim, self.now).is_ok_and(|put| put) {
            tenancy.aside = Some(id);
        }
    }

    /// The group whose turn it is: the first of the queue whose turn it is.
    pub(super) fn next_ready(&mut self) -> Option<QueueKey> {
        if self.tenancy.is_none() {
            return self.queues.first_ready().cloned();
        }
        self.wake_sleepers();
        for queue in self.queues.take_changed() {
            self.update_head(&queue, None);
        }
        let aside = self.tenancy.as_ref().and_then(|tenancy| tenancy.aside);
        let aside = aside.and_then(|id| self.groups.get(&id));
        if let Some(queued) = aside.filter(|queued| queued.phase == Phase::Queued) {
            return queued.key.clone();
        }
        if let Some(key) = self.queues.first_ready_of(|queue| {
            self.tenancy.as_ref().is_some_and(|tenancy| tenancy.leaf(queue).is_none())
        }) {
            return Some(key);
        }
        let mut seen = BTreeSet::new();
        loop {
            let tenancy = self.tenancy.as_mut()?;
            let (leaf, head) = tenancy.heads.pop(&mut tenancy.tenants)?;
            let spec = tenancy.tenants.tree().spec(leaf);
            let Some(queue) = spec.map(|spec| spec.name.clone()) else { continue };
            tenancy.standing.remove(&queue);
            // What others have been given since may have changed how it stands.
            let before = (!seen.insert(leaf)).then_some(&head);
            let now = self.update_head(&queue, before);
            if before.is_some() || now.as_ref() == Some(&head) {
                return self.queues.head(&queue).cloned();
            }
        }
    }

    /// Puts the first ready group of a queue among the heads; `known` is how it stands, if that has
    /// been looked at already.
    fn update_head(&mut self, queue: &str, known: Option<&Head>) -> Option<Head> {
        let leaf = self.tenancy.as_ref()?.leaf(queue)?;
        let id = self.queues.head(queue).map(|key| key.group);
        let claim = match known {
            None => id.and_then(|id| self.claim(id)),
            Some(_) => None,
        };
        let tenancy = self.tenancy.as_mut()?;
        let head = match (known, &claim) {
            (Some(known), _) => Some(known.clone()),
            (None, Some(claim)) => {
                let decision = tenancy.tenants.decide(&claim.claim).ok();
                Some(Head {
                    name: claim.claim.name.clone(),
                    uid: String::new(),
                    priority: claim.claim.priority,
                    since: claim.claim.created,
                    level: decision.as_ref().map_or(0, |found| found.assignment.level),
                    preempts: decision.as_ref().is_some_and(|found| !found.victims.is_empty()),
                    usage: decision.map(|found| found.assignment.usage).unwrap_or_default(),
                })
            }
            (None, None) => None,
        };
        match (&head, id) {
            (Some(head), Some(id)) => {
                tenancy.standing.insert(queue.to_owned(), id);
                tenancy.heads.set(&mut tenancy.tenants, leaf, head.clone());
            }
            _ => {
                tenancy.standing.remove(queue);
                tenancy.heads.remove(&mut tenancy.tenants, leaf);
            }
        }
        head
    }

    /// The claim of a group's pending members.
    pub(super) fn claim(&self, id: GroupId) -> Option<GroupClaim> {
        let queued = self.groups.get(&id)?;
        let tenancy = self.tenancy.as_ref()?;
        let tree = tenancy.tenants.tree();
        let counted = tenancy.tenants.patience().is_some();
        let known = |resource: &str| !counted || tree.knows(resource);
        Some(GroupClaim::new(queued, &self.cluster, self.now, &known))
    }

    /// Admits groups to quota, all or none, and keeps the tree on the nodes of their flavors. What
    /// they are given is kept for them until [`Scheduler::charge_plan`] or [`Scheduler::withdraw`].
    pub(super) fn admit(
        &mut self,
        gang: &[GroupId],
        tree: &mut PodGroup,
    ) -> Result<Vec<Admitted>, (Shortage, WakeCondition)> {
        let mut admitted: Vec<Admitted> = Vec::new();
        for &id in gang {
            let Some(claim) = self.claim(id).filter(|claim| !claim.claim.pod_sets.is_empty())
            else {
                continue;
            };
            let Some(tenancy) = &mut self.tenancy else { return Ok(admitted) };
            let leaf = tenancy.leaf(&claim.claim.queue);
            let decision = tenancy.tenants.decide(&claim.claim);
            let (leaf, decision) = match (leaf, decision) {
                (Some(leaf), Ok(decision)) => (leaf, decision),
                (_, error) => {
                    let reason = error.err().map(|error| error.to_string()).unwrap_or_default();
                    let place = (None, 0, 0, QuotaReason::Refused { reason });
                    self.withdraw(admitted);
                    return Err(refusal(self, &claim, place));
                }
            };
            let kept = decision.assignment.mode == Mode::Fit
                && tenancy.tenants.keep(leaf, &decision.assignment.usage, 1).is_ok();
            if !kept {
                let short = if tenancy.tenants.is_active(leaf) {
                    let short = tenancy.shortage(leaf, &decision);
                    (short.place, short.needed, short.available, short.reason)
                } else {
                    (None, 0, 0, QuotaReason::Inactive)
                };
                let pooled = short.0.is_some_and(|(at, _)| tenancy.tenants.tree().parent(at).is_none());
                if pooled {
                    // Partners beyond the first wait with it.
                    tenancy.looked_at += 1;
                }
                self.withdraw(admitted);
                return Err(refusal(self, &claim, short));
            }
            admitted.push(Admitted { id, leaf, claim, assignment: decision.assignment });
        }
        if let Some(tenancy) = &self.tenancy {
            for given in &admitted {
                restrict(tree, &given.claim, &given.assignment, &tenancy.tenants, &self.cluster);
            }
        }
        Ok(admitted)
    }

    /// Takes back what groups were admitted with.
    pub(super) fn withdraw(&mut self, admitted: Vec<Admitted>) {
        let Some(tenancy) = &mut self.tenancy else { return };
        for given in admitted {
            let _ = tenancy.tenants.keep(given.leaf, &given.assignment.usage, -1);
        }
    }

    /// Charges the groups of a plan for the pods that are placed.
    pub(super) fn charge_plan(&mut self, admitted: Vec<Admitted>, plan: &Plan) {
        let placed: BTreeSet<String> = plan
            .assignments()
            .map(|assignment| super::queued_group::full_name(assignment.pod()))
            .collect();
        let now = self.now;
        let Some(tenancy) = &mut self.tenancy else { return };
        for given in admitted {
            let _ = tenancy.tenants.keep(given.leaf, &given.assignment.usage, -1);
            let pods = given.claim.charges(&given.assignment, &tenancy.tenants);
            let pods = pods.into_iter().filter(|(pod, _)| placed.contains(pod));
            let mut charge = tenancy.charges.get(&given.id).cloned().unwrap_or_else(|| Charge {
                holder: given.claim.claim.name.clone(),
                queue: given.claim.claim.queue.clone(),
                priority: given.claim.claim.priority,
                created: given.claim.claim.created,
                since: now,
                pods: BTreeMap::new(),
            });
            charge.pods.extend(pods);
            tenancy.charge(given.id, charge);
        }
    }

    /// Ends the charge for a pod that is gone.
    pub(super) fn discharge(&mut self, pod: &str) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.discharge(pod);
        }
    }

    /// Charges a member that was found bound, for the flavor of its node.
    pub(super) fn charge_bound(&mut self, id: GroupId, seq: u64) {
        let Some(tenancy) = &self.tenancy else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(member) = queued.members.get(&seq) else { return };
        let in_cluster = !matches!(member.state, MemberState::Pending | MemberState::Done);
        let pod = super::queued_group::full_name(&member.pod);
        if !in_cluster || tenancy.charged.contains_key(&pod) {
            return;
        }
        let node = self.cluster.pod(member.pod.namespace(), &member.pod.name);
        let node = node.and_then(|pod| pod.node());
        let charged = flavors_on(&tenancy.tenants, &queued.root.queue, node, &member.pod);
        let mut charge = tenancy.charges.get(&id).cloned().unwrap_or_else(|| Charge {
            holder: queued.name.clone(),
            queue: queued.root.queue.clone(),
            priority: i64::from(queued.root.priority),
            created: queued.since,
            since: self.now,
            pods: BTreeMap::new(),
        });
        charge.pods.insert(pod, charged);
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.charge(id, charge);
        }
    }

    /// Enters a group that waits for quota.
    pub(super) fn sleep_for_quota(&mut self, id: GroupId) {
        let Some(tenancy) = &mut self.tenancy else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(key) = &queued.key else { return };
        let WakeCondition::Quota { inner, queue, flavor, resource, needed, pooled } =
            &queued.wake_on
        else {
            tenancy.wake(id);
            return;
        };
        let tree = tenancy.tenants.tree();
        let kind = if *inner { QueueKind::Inner } else { QueueKind::Leaf };
        let at = tree.queue(kind, queue);
        let place = at.zip(tree.flavor_resource(flavor, resource));
        let own = tenancy.leaf(&queued.root.queue);
        let pending = match &queued.shortage {
            Some(Shortage::Quota { needed, .. }) => own.zip(place).map(|(leaf, (_, of))| (leaf, of, *needed)),
            _ => None,
        };
        tenancy.sleep(Sleeper {
            pending,
            key: key.clone(),
            queue: queued.root.queue.clone(),
            place,
            needed: *needed,
            pooled_since: queued.ready_since.filter(|_| *pooled),
        });
    }

    /// Notes that a group has been tried, so that the next of its queue may be woken.
    pub(super) fn tried(&mut self, id: GroupId, refused: bool) {
        let Some(tenancy) = &mut self.tenancy else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        let behind = queued.key.clone().filter(|_| refused);
        tenancy.tried.insert(queued.root.queue.clone(), behind);
    }
}

/// The shortage of a claim, and what wakes its group.
fn refusal(
    scheduler: &Scheduler,
    claim: &GroupClaim,
    (place, needed, available, reason): (Option<Place>, i64, i64, QuotaReason),
) -> (Shortage, WakeCondition) {
    let tree = scheduler.tenants().map(Tenants::tree);
    let names = place.and_then(|(_, of)| Some(tree?.names(of)));
    let (flavor, resource) = names.unwrap_or_default();
    let at = place.and_then(|(at, _)| tree?.spec(at));
    let pooled = place.is_some_and(|(at, _)| tree.is_some_and(|tree| tree.parent(at).is_none()))
        && !matches!(reason, QuotaReason::Limit { .. });
    let lends = tree.zip(place).is_some_and(|(tree, (_, of))| {
        let leaf = tree.queue(QueueKind::Leaf, &claim.claim.queue);
        leaf.is_some_and(|leaf| tree.path(leaf).any(|at| tree.sums(at, of).local > 0))
    });
    let wake_on = WakeCondition::Quota {
        inner: at.is_some_and(|spec| spec.kind == QueueKind::Inner),
        queue: at.map(|spec| spec.name.clone()).unwrap_or_default(),
        flavor: flavor.to_owned(),
        resource: resource.to_owned(),
        // What the root has left says nothing of what a queue keeps for itself.
        needed: if pooled && lends { i64::MIN } else { needed },
        pooled,
    };
    let shortage = Shortage::Quota {
        queue: claim.claim.queue.clone(),
        flavor: flavor.to_owned(),
        resource: resource.to_owned(),
        needed,
        available,
        reason,
    };
    (shortage, wake_on)
}

/// What a pod that runs is charged for: of each resource that its queue has quota of, the first
/// flavor that its node is of, else the first.
fn flavors_on(
    tenants: &Tenants,
    queue: &str,
    node: Option<NodeView<'_>>,
    pod: &Pod,
) -> Vec<(String, String, i64)> {
    let tree = tenants.tree();
    let leaf = tree.queue(QueueKind::Leaf, queue);
    let Some(spec) = leaf.and_then(|leaf| tree.spec(leaf)) else { return Vec::new() };
    let amounts = amounts_of(pod.shape());
    let mut charged = Vec::new();
    for (resource, amount) in amounts.iter().filter(|(_, amount)| *amount > 0) {
        let covers = |group: &&crate::quota::ResourceGroup| {
            group.covered_resources.iter().any(|own| own == resource)
        };
        let Some(group) = spec.groups.iter().find(covers) else { continue };
        let is_of = |name: &str| {
            let (Some(flavor), Some(node)) = (tenants.flavor(name), node) else { return false };
            super::claims::is_node_of(flavor, node)
        };
        let own = group.flavors.iter().find(|flavor| is_of(&flavor.name));
        if let Some(flavor) = own.or(group.flavors.first()) {
            charged.push((flavor.name.clone(), resource.to_owned(), amount));
        }
    }
    charged
}

