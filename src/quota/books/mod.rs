//! The books: queues with their sums, flavors, the holders of quota, and quota that is held for claims.

pub(in crate::quota) mod cells;
pub(in crate::quota) mod holds;
pub(in crate::quota) mod index;
pub(in crate::quota) mod owners;
pub(in crate::quota) mod past;
pub(in crate::quota) mod share;
pub(in crate::quota) mod tree;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use self::cells::Cells;
use self::holds::{Hold, Holds};
use self::index::{Index, VictimKey};
use self::owners::{OverLimit, Owned, Tallies};
use self::past::Past;
use self::share::{ShareOf, ShareValue};
use self::tree::{QueueId, QueueTree, Removal};
use crate::Time;
use crate::base::hash::FixedMap;
use crate::model::Owner;
use crate::quota::model::amount::MOST;
use crate::quota::model::claim::{Claim, FlavorResource, HolderId, Usage};
use crate::quota::model::error::QuotaError;
use crate::quota::model::flavor::Flavor;
use crate::quota::model::queue::{Queue, QueueKind};

/// A claim that holds quota.
#[derive(Debug, Clone)]
pub struct Holder {
    /// The name of the claim.
    pub name: String,
    /// The leaf.
    pub queue: QueueId,
    /// The priority.
    pub priority: i64,
    /// Since when it waited.
    pub created: Time,
    /// Since when it holds quota.
    pub reserved: Time,
    /// Whether it may be evicted; `None`: as the dialect says.
    pub preemptible: Option<bool>,
    /// Whether it is being evicted: it is charged until it is gone.
    pub leaving: bool,
    /// Whether no search names it as a victim; see [`Tenants::set_kept`](crate::quota::Tenants::set_kept).
    pub kept: bool,
    /// Its usage.
    pub usage: Usage,
    /// The user that it is of.
    pub owner: Owner,
    pub(in crate::quota) key: VictimKey,
}

impl Holder {
    /// Whether no search names it as a victim, in any dialect: it is kept, or says that it may not be
    /// evicted.
    pub(in crate::quota) fn stays(&self) -> bool {
        self.kept || self.preemptible == Some(false)
    }

    /// Its work, as limits of users count it.
    pub(in crate::quota) fn owned(&self) -> Owned<'_> {
        let Holder { name, owner, queue, usage, .. } = self;
        Owned { name, owner, leaf: *queue, usage }
    }
}

/// The tree, the flavors, and the holders.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Books {
    pub(in crate::quota) tree: QueueTree,
    flavors: BTreeMap<String, Flavor>,
    holders: Vec<(u32, Option<Holder>)>,
    free: Vec<u32>,
    by_name: FixedMap<Box<str>, u32>,
    pub(in crate::quota) index: Index,
    /// Whether the index is by shares.
    pub(in crate::quota) fair: bool,
    /// The share of a queue.
    pub(in crate::quota) share: ShareOf,
    /// Quota that is held for claims which do not hold it yet.
    pub(in crate::quota) holds: Holds,
    /// Usage by user and group.
    pub(in crate::quota) tallies: Tallies,
    /// Averages of past usage.
    pub(in crate::quota) past: Past,
    /// The share of a queue by its past usage, added to its share in the order of turns.
    pub(in crate::quota) past_share: PastShareOf,
    /// Claims that are given quota, and hold none yet: name, owner, leaf, usage.
    given: Vec<Given>,
}

/// The share of a queue by its past usage, with sums that may stand apart.
pub(in crate::quota) type PastShareOf = fn(&Books, &Cells, QueueId) -> ShareValue;

/// Quota that a claim is given before it is a holder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    name: String,
    owner: Owner,
    leaf: QueueId,
    usage: Usage,
}

impl Given {
    fn owned(&self) -> Owned<'_> {
        let Given { name, owner, leaf, usage } = self;
        Owned { name, owner, leaf: *leaf, usage }
    }
}

impl Books {
    /// Empty books, with the share of a queue. `fair`: victims are found by shares.
    pub(in crate::quota) fn new(share: ShareOf, fair: bool) -> Books {
        Books {
            tree: QueueTree::new(),
            flavors: BTreeMap::new(),
            holders: Vec::new(),
            free: Vec::new(),
            by_name: FixedMap::default(),
            index: Index::new(fair.then_some(share)),
            fair,
            share,
            holds: Holds::default(),
            tallies: Tallies::default(),
            past: Past::default(),
            past_share: |_, _, _| ShareValue::NONE,
            given: Vec::new(),
        }
    }

    /// Whether a queue admits anything: it is not stopped nor being removed, stands where it was put,
    /// and all of its flavors are there.
    pub(in crate::quota) fn is_active(&self, queue: QueueId) -> bool {
        let Some(spec) = self.tree.spec(queue) else { return false };
        let mut flavors = spec.groups.iter().flat_map(|group| &group.flavors);
        !spec.stopped
            && !self.tree.is_draining(queue)
            && self.tree.is_linked(queue)
            && flavors.all(|flavor| self.flavor(&flavor.name).is_some())
    }

    /// The share of a queue if so much more were drawn from it; none of a queue that is gone.
    pub(in crate::quota) fn share_with(
        &self,
        queue: QueueId,
        more: &[(FlavorResource, i64)],
    ) -> ShareValue {
        let share = |at| (self.share)(&self.tree, &self.tree.cells, at, more);
        self.tree.slot(queue).map_or(ShareValue::NONE, share)
    }

    /// Reads the books, with sums to try things on, which are left as they were.
    pub(in crate::quota) fn with_cells<R>(
        &mut self,
        run: impl FnOnce(&Books, &mut Cells) -> R,
    ) -> R {
        let mut cells = core::mem::take(&mut self.tree.cells);
        let result = run(self, &mut cells);
        self.tree.cells = cells;
        result
    }

    /// Runs something with the quota charged that is reserved for all claims but one. Nothing happens
    /// to the books if nothing is reserved.
    pub(in crate::quota) fn beside_reserved<R>(
        &mut self,
        claim: &str,
        run: impl FnOnce(&mut Books) -> R,
    ) -> R {
        let mut charged = self.holds.all_but(claim);
        let was_paused = core::mem::replace(&mut self.past.is_paused, true);
        // An amount that no sum can hold, or of a queue that is gone, is left out.
        charged.retain(|(_, own)| self.charge("", own.queue, &own.usage, 1).is_ok());
        self.count_reserved(&charged, 1);
        let result = run(self);
        self.count_reserved(&charged, -1);
        for (_, own) in charged.iter().rev() {
            let _ = self.charge("", own.queue, &own.usage, -1);
        }
        self.past.is_paused = was_paused;
        result
    }

    /// Counts reserved quota for its users.
    fn count_reserved(&mut self, all: &[(String, Hold)], sign: i64) {
        self.sync_tallies();
        for (name, Hold { queue, usage, owner }) in all {
            let own = Owned { name, owner, leaf: *queue, usage };
            self.tallies.count(&self.tree, own, sign);
        }
    }

    /// Brings the tallies of users in line with the queues.
    pub(in crate::quota) fn sync_tallies(&mut self) {
        if self.tallies.is_stale() {
            let holders = self.holders.iter().filter_map(|(_, holder)| holder.as_ref());
            let all = holders.map(Holder::owned).chain(self.given.iter().map(Given::owned));
            self.tallies.count_anew(&self.tree, all);
        }
    }

    /// Charges a leaf for a claim that is given quota and is no holder yet, or takes that back.
    pub(in crate::quota) fn give(
        &mut self,
        claim: &Claim,
        leaf: QueueId,
        usage: &Usage,
        sign: i64,
    ) -> Result<(), QuotaError> {
        self.charge("", leaf, usage, sign)?;
        let (name, owner) = (claim.name.clone(), claim.owner.clone());
        let given = Given { name, owner, leaf, usage: usage.clone() };
        self.tallies.count(&self.tree, given.owned(), sign);
        if sign > 0 {
            self.given.push(given);
        } else if let Some(at) = self.given.iter().rposition(|own| *own == given) {
            self.given.remove(at);
        }
        Ok(())
    }

    /// The limit of a user or group that keeps a claim with a usage out, once some holders have given
    /// back.
    pub(in crate::quota) fn over_limit(
        &mut self,
        own: Owned<'_>,
        without: &[HolderId],
    ) -> Option<OverLimit> {
        if own.owner.is_none() {
            return None;
        }
        self.sync_tallies();
        let gone = without.iter().filter_map(|id| self.holder(*id)).map(Holder::owned);
        self.tallies.over(&self.tree, own, &gone)
    }

    pub(in crate::quota) fn set_queue(&mut self, queue: Queue) -> Result<QueueId, QuotaError> {
        self.tallies.set_stale();
        self.past.settle_all(&self.tree);
        let id = self.tree.set_queue(queue)?;
        self.past.begin(&self.tree, id);
        Ok(id)
    }

    pub(in crate::quota) fn remove_queue(
        &mut self,
        queue: QueueId,
        above: Option<&str>,
    ) -> Result<Removal, QuotaError> {
        self.past.settle_all(&self.tree);
        let removal = self.tree.remove_below(queue, above)?;
        self.tallies.set_stale();
        self.forget_holders(queue);
        Ok(removal)
    }

    /// Drops a leaf that drains and in which nothing is counted.
    fn drop_drained(&mut self, queue: QueueId) {
        if self.tree.drop_drained(queue) {
            self.forget_holders(queue);
        }
    }

    /// The holders of a leaf that is gone are gone with it: holders of nothing do not keep a queue.
    fn forget_holders(&mut self, queue: QueueId) {
        if self.tree.slot(queue).is_err() {
            self.tallies.set_stale();
            for key in self.index.forget(queue.slot) {
                self.drop_holder(key.holder);
            }
        }
    }

    /// Frees the number of a holder.
    fn drop_holder(&mut self, at: u32) -> Option<Holder> {
        let holder = self.holders.get_mut(at as usize)?.1.take()?;
        self.by_name.remove(holder.name.as_str());
        self.free.push(at);
        Some(holder)
    }

    pub(in crate::quota) fn set_flavor(&mut self, flavor: Flavor) {
        self.flavors.insert(flavor.name.clone(), flavor);
    }

    pub(in crate::quota) fn remove_flavor(&mut self, name: &str) -> Option<Flavor> {
        self.flavors.remove(name)
    }

    #[cfg(feature = "serde")]
    pub(in crate::quota) fn flavors(&self) -> impl Iterator<Item = &Flavor> {
        self.flavors.values()
    }

    pub(in crate::quota) fn flavor(&self, name: &str) -> Option<&Flavor> {
        self.flavors.get(name)
    }

    /// The index, in line with the tree.
    pub(in crate::quota) fn sync(&mut self) {
        self.index.sync(&self.tree);
    }

    pub(in crate::quota) fn holder(&self, id: HolderId) -> Option<&Holder> {
        let (generation, holder) = self.holders.get(id.at as usize)?;
        holder.as_ref().filter(|_| *generation == id.generation)
    }

    pub(in crate::quota) fn holder_at(&self, at: u32) -> Option<&Holder> {
        self.holders.get(at as usize)?.1.as_ref()
    }

    pub(in crate::quota) fn holder_id(&self, at: u32) -> HolderId {
        HolderId { at, generation: self.holders[at as usize].0 }
    }

    pub(in crate::quota) fn find(&self, name: &str) -> Option<HolderId> {
        self.by_name.get(name).map(|&at| self.holder_id(at))
    }

    pub(in crate::quota) fn holder_count(&self) -> usize {
        self.by_name.len()
    }

    pub(in crate::quota) fn holders(&self, queue: QueueId) -> impl Iterator<Item = HolderId> {
        let known = self.tree.slot(queue).is_ok();
        let holders = self.index.holders(queue.slot).iter().filter(move |_| known);
        holders.map(|key| self.holder_id(key.holder))
    }

    /// Charges a leaf, whole or not at all. One that drains is gone if nothing is used in it then.
    pub(in crate::quota) fn charge(
        &mut self,
        name: &str,
        queue: QueueId,
        usage: &Usage,
        sign: i64,
    ) -> Result<(), QuotaError> {
        self.count(name, queue, usage, sign)?;
        self.drop_drained(queue);
        Ok(())
    }

    /// Adds to what waits in a leaf; a negative amount takes away.
    pub(in crate::quota) fn wait(
        &mut self,
        queue: QueueId,
        of: FlavorResource,
        amount: i64,
    ) -> Result<(), QuotaError> {
        self.tree.wait(queue, of, amount)?;
        self.forget_holders(queue);
        Ok(())
    }

    fn count(
        &mut self,
        name: &str,
        queue: QueueId,
        usage: &Usage,
        sign: i64,
    ) -> Result<(), QuotaError> {
        let amount = |amount: i64, resource: &str| QuotaError::Amount {
            claim: name.into(),
            resource: resource.into(),
            amount,
        };
        if let Some((of, wrong)) = usage.iter().find(|(_, wrong)| !(0..=MOST).contains(wrong)) {
            return Err(amount(*wrong, self.tree.names(*of).1));
        }
        if self.past.is_counted() {
            for (of, _) in usage {
                self.past.settle(&self.tree, queue, *of);
            }
        }
        for (done, (of, each)) in usage.iter().enumerate() {
            if let Err(error) = self.tree.count(queue, *of, sign * each) {
                for (of, each) in &usage[..done] {
                    // Amounts that were added can be taken again.
                    let _ = self.tree.count(queue, *of, -sign * each);
                }
                return Err(match error {
                    QuotaError::Amount { resource, .. } => amount(*each, &resource),
                    error => error,
                });
            }
        }
        self.index.refresh(&self.tree, queue.slot);
        Ok(())
    }

    /// Takes a claim among the holders.
    pub(in crate::quota) fn hold(
        &mut self,
        claim: &Claim,
        usage: &Usage,
        reserved: Time,
    ) -> Result<HolderId, QuotaError> {
        if self.by_name.contains_key(claim.name.as_str()) {
            return Err(QuotaError::Held(claim.name.clone()));
        }
        let queue = self.tree.queue(QueueKind::Leaf, &claim.queue);
        let queue = queue.ok_or_else(|| QuotaError::UnknownQueue(claim.queue.clone()))?;
        let at = self.free.last().copied().unwrap_or(self.holders.len() as u32);
        let key = VictimKey::new(claim, reserved, at);
        self.index.insert(queue.slot, &key, usage);
        if claim.preemptible == Some(false) {
            self.index.withhold(queue.slot, &key, usage);
        }
        if let Err(error) = self.count(&claim.name, queue, usage, 1) {
            self.index.remove(queue.slot, &key, usage);
            return Err(error);
        }
        let holder = Holder {
            name: claim.name.clone(),
            queue,
            priority: claim.priority,
            created: claim.created,
            reserved,
            preemptible: claim.preemptible,
            leaving: false,
            kept: false,
            usage: usage.clone(),
            owner: claim.owner.clone(),
            key,
        };
        self.tallies.count(&self.tree, holder.owned(), 1);
        if self.free.pop().is_some() {
            let (generation, place) = &mut self.holders[at as usize];
            *generation = generation.wrapping_add(1);
            *place = Some(holder);
        } else {
            self.holders.push((0, Some(holder)));
        }
        self.by_name.insert(claim.name.as_str().into(), at);
        Ok(self.holder_id(at))
    }

    /// Takes back what a holder holds.
    pub(in crate::quota) fn release(&mut self, id: HolderId) -> Result<Holder, QuotaError> {
        let holder = self.let_go(id)?;
        self.drop_drained(holder.queue);
        Ok(holder)
    }

    /// Holds a claim in place of a holder, whose queue stays meanwhile if it drains. If that fails,
    /// the holder is released all the same.
    pub(in crate::quota) fn renew(
        &mut self,
        id: HolderId,
        claim: &Claim,
        usage: &Usage,
        reserved: Time,
    ) -> Result<(Holder, Result<HolderId, QuotaError>), QuotaError> {
        let before = self.let_go(id)?;
        let held = self.hold(claim, usage, reserved);
        self.drop_drained(before.queue);
        Ok((before, held))
    }

    /// Takes back what a holder holds. Its queue stays if it drains.
    fn let_go(&mut self, id: HolderId) -> Result<Holder, QuotaError> {
        let holder = self.holder(id).ok_or_else(|| QuotaError::NotHeld(String::new()))?;
        let (name, queue, usage) = (holder.name.clone(), holder.queue, holder.usage.clone());
        self.index.remove(queue.slot, &holder.key.clone(), &usage);
        self.count(&name, queue, &usage, -1)?;
        let holder = self.drop_holder(id.at).ok_or(QuotaError::NotHeld(name))?;
        self.tallies.count(&self.tree, holder.owned(), -1);
        Ok(holder)
    }

    /// Notes that a holder is being evicted, or is not any more.
    pub(in crate::quota) fn set_leaving(
        &mut self,
        id: HolderId,
        leaving: bool,
    ) -> Result<(), QuotaError> {
        let holder = self.holder(id).ok_or_else(|| QuotaError::NotHeld(String::new()))?;
        let (slot, usage, key) = (holder.queue.slot, holder.usage.clone(), holder.key.clone());
        let stays = holder.stays();
        self.index.remove(slot, &key, &usage);
        let mut key = key;
        key.staying = !leaving;
        self.index.insert(slot, &key, &usage);
        if stays {
            self.index.withhold(slot, &key, &usage);
        }
        if let Some(holder) = &mut self.holders[id.at as usize].1 {
            (holder.leaving, holder.key) = (leaving, key);
        }
        self.index.refresh(&self.tree, slot);
        Ok(())
    }

    /// Notes that a holder is no victim, or may be one again.
    pub(in crate::quota) fn set_kept(
        &mut self,
        id: HolderId,
        kept: bool,
    ) -> Result<(), QuotaError> {
        let holder = self.holder(id).ok_or_else(|| QuotaError::NotHeld(String::new()))?;
        let (slot, usage, key) = (holder.queue.slot, holder.usage.clone(), holder.key.clone());
        if kept || holder.preemptible == Some(false) {
            self.index.withhold(slot, &key, &usage);
        } else {
            self.index.offer(slot, &key, &usage);
        }
        if let Some(holder) = &mut self.holders[id.at as usize].1 {
            holder.kept = kept;
        }
        Ok(())
    }
}
