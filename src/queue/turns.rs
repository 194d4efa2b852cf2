//! Whose turn it is: queues and flavors as inputs, heads of queues, and groups that quota wakes.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::QueueError;
use super::ids::{GroupId, QueueKey};
use super::observe::GroupChange;
use super::queued_group::Phase;
use super::scheduler::Scheduler;
use super::shortage::Shortage;
use super::tenancy::Tenancy;
use super::wake::hints::WakeCondition;
use crate::base::{ObjectName, Time};
use crate::quota::{Flavor, Head, Queue, QueueKind, QueueReport, QuotaError, Tenants};

/// What a queue has, from whom it could take, and why its first group waits.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct QueueStatus {
    /// Its quota, what it uses and borrows, and from whom it could take.
    pub report: QueueReport,
    /// Full name of the first group that waits.
    pub first: Option<ObjectName>,
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
    /// use phalanx::queue::Settings;
    /// use phalanx::quota::{Flavor, Queue, Quota, Tenants};
    /// use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
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
            self.emit(id, GroupChange::Queued);
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
        // Woken in the order of arrival: places are numbered as it happens.
        let mut woken = BTreeSet::new();
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
        let Some(claim) = self.group_claim(id) else { return };
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
            None => id.and_then(|id| self.group_claim(id)),
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
        if let (Some(head), Some(_)) = (&head, id) {
            tenancy.heads.set(&mut tenancy.tenants, leaf, head.clone());
        } else {
            tenancy.heads.remove(&mut tenancy.tenants, leaf);
        }
        head
    }
}
