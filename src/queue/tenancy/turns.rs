//! Turns: groups that wait for quota, groups that it wakes, and the heads of queues.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::model::Owner;
use crate::queue::groups::{Groups, Phase};
use crate::queue::line::Line;
use crate::queue::tenancy::claims::claim_of;
use crate::queue::tenancy::shortage::{has_room, places, places_of_limit};
use crate::queue::tenancy::sleepers::{Bound, Sleeper};
use crate::queue::tenancy::{Owners, Tenancy};
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::queue::terms::shortage::{QuotaReason, Shortage};
use crate::queue::terms::wake::WakeCondition;
use crate::quota::{Head, QueueId, QueueKind, QuotaError, Tenants, Usage};

impl Tenancy {
    /// Changes the tenants. Returns the groups that wait for quota: each is to be tried again.
    pub(in crate::queue) fn change(
        &mut self,
        change: impl FnOnce(&mut Tenants) -> Result<(), QuotaError>,
    ) -> Result<Vec<GroupId>, QuotaError> {
        let before = self.tenants.holder_count();
        change(&mut self.tenants)?;
        if self.tenants.holder_count() < before {
            self.leave_names();
        }
        // Shares and levels of all queues may have changed.
        self.heads = self.tenants.heads();
        self.tenants.take_aside();
        self.aside = None;
        Ok(self.sleepers.all())
    }

    /// Enters a group that waits for quota.
    pub(in crate::queue) fn sleep_for_quota(&mut self, groups: &Groups, id: GroupId) {
        let Some(queued) = groups.get(&id) else { return };
        let Some(key) = queued.key() else { return };
        let WakeCondition::Quota { inner, queue, flavor, resource, needed, pooled } =
            queued.wake_on()
        else {
            self.wake(id);
            return;
        };
        let tree = self.tenants.tree();
        let kind = if *inner { QueueKind::Inner } else { QueueKind::Leaf };
        let at = tree.queue(kind, queue);
        let own = self.leaf(&queued.root().queue);
        let place = at.zip(tree.flavor_resource(flavor, resource));
        let bound = at.and_then(|at| bound_of(at, queued.shortage(), *needed));
        let places = match (&bound, own, at) {
            (Some(bound), Some(own), _) => {
                places_of_limit(&self.tenants, own, bound.queue, bound.resource.as_deref())
            }
            (_, _, Some(at)) => places(&self.tenants, own, at, flavor, resource),
            (_, _, None) => Vec::new(),
        };
        let pending = match queued.shortage() {
            // Where requests are divided by, all that the group requests is counted.
            _ if bound.is_some() => None,
            Some(Shortage::Quota { needed, .. }) if !self.tenants.counts_requests() => {
                let own = own.filter(|leaf| !self.tenants.tree().is_draining(*leaf));
                own.zip(place).map(|(leaf, (_, of))| (leaf, of, *needed))
            }
            _ => None,
        };
        self.sleep(Sleeper {
            pending,
            key: key.clone(),
            queue: queued.root().queue.clone(),
            places,
            // At the place of a limit of a user any amount may do.
            needed: if bound.is_some() { i64::MIN } else { *needed },
            bound,
            pooled_since: queued.ready_since().filter(|_| *pooled),
        });
    }

    /// Counts the request of a group that was refused, where requests are divided by.
    pub(in crate::queue) fn ask_for_quota(&mut self, owners: Owners<'_>, id: GroupId) {
        if !self.tenants.counts_requests() {
            return;
        }
        let Some(claim) = self.group_claim(owners, id) else { return };
        if let Some(leaf) = self.leaf(&claim.claim.queue) {
            let usage = self.tenants.requested(leaf, &claim.claim);
            self.ask(id, leaf, usage);
        }
    }

    /// The turn of a group has ended: those behind it in its queue may be woken.
    pub(in crate::queue) fn end_turn(&mut self, queue: &str, key: &QueueKey) {
        match self.ended.get_mut(queue) {
            Some(first) if key < first => first.clone_from(key),
            Some(_) => {}
            None => {
                self.ended.insert(queue.into(), key.clone());
            }
        }
    }

    /// Sorts a group that waits for quota again.
    pub(in crate::queue) fn rekey(&mut self, key: &QueueKey) {
        self.sleepers.rekey(key);
    }

    /// Enters a group among those that wait for quota.
    fn sleep(&mut self, sleeper: Sleeper) {
        self.wake(sleeper.key.group);
        if let Some((leaf, of, amount)) = sleeper.pending {
            // An amount that no sum can hold is not counted.
            let _ = self.tenants.wait(leaf, of, amount);
        }
        self.sleepers.insert(sleeper);
    }

    /// Removes a group from those that wait for quota.
    pub(in crate::queue) fn wake(&mut self, id: GroupId) {
        let sleeper = self.sleepers.remove(id);
        if let Some((leaf, of, amount)) = sleeper.and_then(|sleeper| sleeper.pending) {
            let _ = self.tenants.wait(leaf, of, -amount);
        }
    }

    /// Counts the request of a group that waits; it is no reason for a queue that is being removed to stay.
    pub(super) fn ask(&mut self, id: GroupId, leaf: QueueId, usage: Usage) {
        self.unask(id);
        if usage.is_empty() || self.tenants.tree().is_draining(leaf) {
            return;
        }
        for &(of, amount) in &usage {
            // An amount that no sum can hold is not counted.
            let _ = self.tenants.wait(leaf, of, amount);
        }
        self.asked.insert(id, (leaf, usage));
    }

    /// A group waits no longer, and was given nothing: others may have the quota that it requested.
    pub(in crate::queue) fn gave_up(&mut self, id: GroupId) {
        if let Some((leaf, usage)) = self.asked.get(&id).cloned() {
            self.note_moved(leaf, &usage);
            self.unask(id);
        }
    }

    /// Groups to wake, for which quota has moved: the first of each queue that may fit.
    pub(in crate::queue) fn take_woken(&mut self, owners: Owners<'_>) -> BTreeSet<GroupId> {
        self.update_aside(owners);
        // Groups are woken in the order of arrival: the numbers of places depend on history.
        let mut woken = BTreeSet::new();
        if self.moved.is_empty() && self.ended.is_empty() {
            return woken;
        }
        let ended = core::mem::take(&mut self.ended);
        let mut queues: BTreeMap<String, Option<QueueKey>> =
            ended.into_iter().map(|(queue, key)| (queue, Some(key))).collect();
        for place in core::mem::take(&mut self.moved) {
            let tree = self.tenants.tree();
            let sums = tree.sums(place.0, place.1);
            let limit = tree.quota(place.0, place.1).and_then(|quota| quota.limit);
            let left = limit.map_or(i64::MIN, |limit| limit.saturating_sub(sums.used));
            let room = left.max(sums.subtree.saturating_sub(sums.drawn));
            for queue in self.sleepers.within(place, room) {
                queues.insert(queue, None);
            }
        }
        for (queue, behind) in queues {
            for (place, least) in self.sleepers.places(&queue) {
                self.looked_at += 1;
                if !has_room(&self.tenants, place, &queue, least) {
                    continue;
                }
                let mut looked_at = 0;
                let found = self
                    .sleepers
                    .waiting(place, &queue)
                    .filter(|(key, _)| behind.as_ref().is_none_or(|behind| *key > behind))
                    .inspect(|_| looked_at += 1)
                    .find(|(key, needed)| {
                        has_room(&self.tenants, place, &queue, *needed)
                            && self.sleepers.is_let_in(&self.tenants, key.group)
                    });
                woken.extend(found.map(|(key, _)| key.group));
                self.looked_at += looked_at;
            }
        }
        woken
    }

    /// Puts quota aside for the group that has waited longest for quota that others have.
    fn update_aside(&mut self, owners: Owners<'_>) {
        let Some(patience) = self.tenants.patience() else { return };
        if let Some(id) = self.aside {
            let waits = owners.groups.get(&id).is_some_and(|queued| match queued.phase() {
                Phase::Queued | Phase::BackingOff(_) => true,
                Phase::Unschedulable(_) => matches!(queued.wake_on(), WakeCondition::Quota { .. }),
                _ => false,
            });
            let waits = waits && !self.is_over_limit(owners, id);
            if waits {
                return;
            }
            self.aside = None;
            self.aside_ended = owners.world.now();
            if let Some((leaf, usage)) = self.tenants.aside_usage() {
                let usage = usage.clone();
                self.note_moved(leaf, &usage);
                self.tenants.take_aside();
            }
        }
        let Some((since, id)) = self.sleepers.oldest() else { return };
        let now = owners.world.now();
        // One that is admitted and has no room gives up its turn. In a line that is tried again whole
        // two of them would take turns without end.
        let is_line = owners.world.settings().discipline.backfill().is_some();
        if now.since(since) < patience || is_line && self.aside_ended == now {
            return;
        }
        let Some(claim) = self.group_claim(owners, id) else { return };
        if self.tenants.put_aside(&claim.claim, now).is_ok_and(|put| put) {
            self.aside = Some(id);
        }
    }

    /// Whether a limit of its user or group keeps the group out that quota is put aside for.
    fn is_over_limit(&mut self, owners: Owners<'_>, id: GroupId) -> bool {
        let owner = owners.groups.get(&id).map(|queued| &queued.root().owner);
        if owner.is_none_or(Owner::is_none) {
            return false;
        }
        let usage = self.tenants.aside_usage().map(|(_, usage)| usage.clone());
        let queued = owners.groups.get(&id);
        let claim = queued.map(|queued| claim_of(&self.tenants, owners.world, queued));
        claim
            .zip(usage)
            .is_some_and(|(claim, usage)| self.tenants.over_limit(&claim.claim, &usage).is_some())
    }

    /// The group whose turn it is: the first of the queue whose turn it is. `changed` names the
    /// queues whose first ready group is another than before.
    pub(in crate::queue) fn next_ready(
        &mut self,
        owners: Owners<'_>,
        queues: &Line,
        changed: BTreeSet<String>,
    ) -> Option<QueueKey> {
        if self.tenants.counts_past() && self.heads_at != Some(owners.world.now()) {
            self.heads_at = Some(owners.world.now());
            self.tenants.advance(owners.world.now());
            self.heads.time_passed(&mut self.tenants);
        }
        for queue in changed {
            self.update_head(owners, queues, &queue, None);
        }
        let aside = self.aside.and_then(|id| owners.groups.get(&id));
        if let Some(queued) = aside.filter(|queued| *queued.phase() == Phase::Queued) {
            return queued.key().cloned();
        }
        if let Some(key) = queues.first_ready_of(|queue| self.leaf(queue).is_none()) {
            return Some(key);
        }
        let mut seen = BTreeSet::new();
        loop {
            let (leaf, head) = self.heads.pop(&mut self.tenants)?;
            let spec = self.tenants.tree().spec(leaf);
            let Some(queue) = spec.map(|spec| spec.name.clone()) else { continue };
            // Quota that others were given since may have changed how it stands.
            let before = (!seen.insert(leaf)).then_some(&head);
            let now = self.update_head(owners, queues, &queue, before);
            if before.is_some() || now.as_ref() == Some(&head) {
                return queues.head(&queue).cloned();
            }
        }
    }

    /// Enters the first ready group of a queue among the heads; `known` is how it stands, if that
    /// has been looked at already.
    fn update_head(
        &mut self,
        owners: Owners<'_>,
        queues: &Line,
        queue: &str,
        known: Option<&Head>,
    ) -> Option<Head> {
        let leaf = self.leaf(queue)?;
        let id = queues.head(queue).map(|key| key.group);
        let claim = match known {
            None => id.and_then(|id| self.group_claim(owners, id)),
            Some(_) => None,
        };
        let head = match (known, &claim) {
            (Some(known), _) => Some(known.clone()),
            (None, Some(claim)) => {
                let decision = self.tenants.decide(&claim.claim).ok();
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
            self.heads.set(&mut self.tenants, leaf, head.clone());
        } else {
            self.heads.remove(&mut self.tenants, leaf);
        }
        head
    }

    /// Whether the queue has a leaf without a head.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn lacks_head(&self, queue: &str) -> bool {
        self.leaf(queue).is_some_and(|leaf| self.heads.get(leaf).is_none())
    }
}

/// The limit of a user or group that a group is short of, by its shortage; `needed` would let it in.
fn bound_of(at: QueueId, shortage: Option<&Shortage>, needed: i64) -> Option<Bound> {
    let Some(Shortage::Quota { reason, .. }) = shortage else { return None };
    let QuotaReason::UserLimit { limited, resource, limit, .. } = reason else { return None };
    Some(Bound {
        queue: at,
        limited: limited.clone(),
        resource: resource.clone(),
        most: limit.saturating_sub(needed),
    })
}
