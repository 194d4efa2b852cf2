//! Holders of quota, and an index of those that may have to give it back.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::amount::MOST;
use super::cells::NONE;
use super::claim::{Claim, HolderId, Usage};
use super::error::QuotaError;
use super::flavor::Flavor;
use super::queue::{Queue, QueueKind};
use super::share::{ShareValue, borrowed_share};
use super::tree::{FlavorResource, QueueId, QueueTree, Removal};
use crate::Time;
use crate::base::hash::FixedMap;

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
    /// Whether no search names it as a victim; see [`Tenants::set_kept`](super::Tenants::set_kept).
    pub kept: bool,
    /// Its usage.
    pub usage: Usage,
    pub(super) key: VictimKey,
}

impl Holder {
    /// Whether no search names it as a victim, in any dialect: it is kept, or says that it may not be
    /// evicted.
    pub(super) fn stays(&self) -> bool {
        self.kept || self.preemptible == Some(false)
    }
}

/// The place of a holder in the order of victims: those that are leaving first, then lower priority,
/// the most recent, uid, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VictimKey {
    pub(super) staying: bool,
    pub(super) priority: i64,
    reserved: Reverse<Time>,
    /// Uid and name.
    identity: Arc<(Box<str>, Box<str>)>,
    pub(super) holder: u32,
}

/// The holders of one leaf, in the order of victims.
#[derive(Debug, Clone, Default)]
struct LeafHolders {
    all: BTreeSet<VictimKey>,
    by_pair: Vec<(u32, BTreeSet<VictimKey>)>,
}

/// A leaf among its borrowing siblings: highest share first, then by its first victim.
pub(super) type FairLeaf = (Reverse<ShareValue>, VictimKey, u32);

/// Holders in the order of victims, without a pass over queues.
///
/// It is made anew when the tree has changed its shape, and kept up to date otherwise: O(depth · log)
/// for a holder that comes or goes.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    leaves: Vec<LeafHolders>,
    /// By cell of an inner queue: children that draw beyond their guarantees, by their first victim
    /// of any resource.
    over: Vec<BTreeSet<(VictimKey, u32)>>,
    /// By cell: what stands in `over` of the parent.
    entered: Vec<Option<VictimKey>>,
    /// By inner queue: leaves that borrow, and inner queues that do.
    fair_leaves: Vec<BTreeSet<FairLeaf>>,
    fair_inner: Vec<BTreeSet<FairInner>>,
    /// By queue: what stands in the sets of the parent.
    entered_fair: Vec<Option<(ShareValue, Option<VictimKey>)>>,
    shape: Option<u64>,
}

/// An inner queue among its borrowing siblings: highest share first.
pub(super) type FairInner = (Reverse<ShareValue>, u32);

static NO_LEAVES: BTreeSet<FairLeaf> = BTreeSet::new();
static NO_INNER: BTreeSet<FairInner> = BTreeSet::new();
static NO_HOLDERS: BTreeSet<VictimKey> = BTreeSet::new();
static NO_CHILDREN: BTreeSet<(VictimKey, u32)> = BTreeSet::new();

impl Index {
    /// All holders of a leaf.
    pub(super) fn holders(&self, leaf: u32) -> &BTreeSet<VictimKey> {
        self.leaves.get(leaf as usize).map_or(&NO_HOLDERS, |leaf| &leaf.all)
    }

    /// The holders of a leaf that use a resource in a flavor.
    pub(super) fn users(&self, leaf: u32, pair: u32) -> &BTreeSet<VictimKey> {
        let leaf = self.leaves.get(leaf as usize);
        let users = leaf.and_then(|leaf| leaf.by_pair.iter().find(|(own, _)| *own == pair));
        users.map_or(&NO_HOLDERS, |(_, users)| users)
    }

    /// The children of an inner queue's cell that draw beyond their guarantees.
    pub(super) fn over(&self, cell: u32) -> &BTreeSet<(VictimKey, u32)> {
        self.over.get(cell as usize).unwrap_or(&NO_CHILDREN)
    }

    /// The leaves below an inner queue that borrow.
    pub(super) fn fair_leaves(&self, at: u32) -> &BTreeSet<FairLeaf> {
        self.fair_leaves.get(at as usize).unwrap_or(&NO_LEAVES)
    }

    /// The inner queues below an inner queue that borrow.
    pub(super) fn fair_inner(&self, at: u32) -> &BTreeSet<FairInner> {
        self.fair_inner.get(at as usize).unwrap_or(&NO_INNER)
    }

    fn insert(&mut self, leaf_at: u32, key: &VictimKey, usage: &Usage) {
        if self.leaves.len() <= leaf_at as usize {
            self.leaves.resize_with(leaf_at as usize + 1, LeafHolders::default);
        }
        let leaf = &mut self.leaves[leaf_at as usize];
        leaf.all.insert(key.clone());
        self.offer(leaf_at, key, usage);
    }

    /// Takes a holder in among those that may give back.
    fn offer(&mut self, leaf: u32, key: &VictimKey, usage: &Usage) {
        let Some(leaf) = self.leaves.get_mut(leaf as usize) else { return };
        for (of, amount) in usage {
            if *amount == 0 {
                continue;
            }
            match leaf.by_pair.iter_mut().find(|(pair, _)| *pair == of.0) {
                Some((_, users)) => drop(users.insert(key.clone())),
                None => leaf.by_pair.push((of.0, BTreeSet::from([key.clone()]))),
            }
        }
    }

    fn remove(&mut self, leaf: u32, key: &VictimKey, usage: &Usage) {
        let Some(own) = self.leaves.get_mut(leaf as usize) else { return };
        own.all.remove(key);
        self.withhold(leaf, key, usage);
    }

    /// Takes a holder out of those that may give back.
    fn withhold(&mut self, leaf: u32, key: &VictimKey, usage: &Usage) {
        let Some(leaf) = self.leaves.get_mut(leaf as usize) else { return };
        for (of, _) in usage {
            if let Some((_, users)) = leaf.by_pair.iter_mut().find(|(pair, _)| *pair == of.0) {
                users.remove(key);
            }
        }
    }

    /// The first victim below a queue that could come into question.
    fn best(&self, tree: &QueueTree, at: u32) -> Option<VictimKey> {
        let slot = &tree.slots[at as usize];
        if slot.spec.kind == QueueKind::Leaf {
            return self.holders(at).first().cloned();
        }
        let firsts = slot.cells.iter().filter_map(|(_, cell)| self.over(*cell).first());
        firsts.map(|(key, _)| key).min().cloned()
    }

    /// Brings what stands of a queue, and of those above, in line with the sums.
    fn refresh(&mut self, tree: &QueueTree, mut at: u32, fair: bool) {
        while tree.slots[at as usize].parent != NONE {
            let slot = &tree.slots[at as usize];
            let parent = slot.parent as usize;
            let best = self.best(tree, at);
            if fair {
                self.refresh_fair(tree, at, parent, best);
            } else {
                for (_, own) in &slot.cells {
                    let cell = &tree.cells[*own];
                    let key = if cell.drawn > cell.subtree { best.clone() } else { None };
                    let entered = &mut self.entered[*own as usize];
                    if *entered != key {
                        let over = &mut self.over[cell.parent as usize];
                        if let Some(old) = entered.take() {
                            over.remove(&(old, at));
                        }
                        if let Some(key) = &key {
                            over.insert((key.clone(), at));
                        }
                        *entered = key;
                    }
                }
            }
            at = slot.parent;
        }
    }

    fn refresh_fair(&mut self, tree: &QueueTree, at: u32, parent: usize, best: Option<VictimKey>) {
        let leaf = tree.slots[at as usize].spec.kind == QueueKind::Leaf;
        let share = borrowed_share(tree, &tree.cells, at, &[]);
        let stands = share.borrowing && (!leaf || best.is_some());
        let now = stands.then_some((share, best.filter(|_| leaf)));
        let entered = &mut self.entered_fair[at as usize];
        if *entered == now {
            return;
        }
        match entered.take() {
            Some((share, Some(key))) => {
                self.fair_leaves[parent].remove(&(Reverse(share), key, at));
            }
            Some((share, None)) => drop(self.fair_inner[parent].remove(&(Reverse(share), at))),
            None => {}
        }
        match now.clone() {
            Some((share, Some(key))) => {
                self.fair_leaves[parent].insert((Reverse(share), key, at));
            }
            Some((share, None)) => drop(self.fair_inner[parent].insert((Reverse(share), at))),
            None => {}
        }
        *entered = now;
    }

    /// Makes the index anew if the tree has changed its shape.
    fn sync(&mut self, tree: &QueueTree, fair: bool) {
        if self.shape == Some(tree.shape()) {
            return;
        }
        self.shape = Some(tree.shape());
        self.over.clear();
        self.over.resize_with(tree.cells.len(), BTreeSet::new);
        self.entered.clear();
        self.entered.resize_with(tree.cells.len(), || None);
        self.fair_leaves.clear();
        self.fair_leaves.resize_with(tree.slots.len(), BTreeSet::new);
        self.fair_inner.clear();
        self.fair_inner.resize_with(tree.slots.len(), BTreeSet::new);
        self.entered_fair.clear();
        self.entered_fair.resize_with(tree.slots.len(), || None);
        for leaf in tree.queues(QueueKind::Leaf) {
            self.refresh(tree, leaf.slot, fair);
        }
    }
}

/// The tree, the flavors, and the holders.
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    pub(super) tree: QueueTree,
    flavors: BTreeMap<String, Flavor>,
    holders: Vec<(u32, Option<Holder>)>,
    free: Vec<u32>,
    by_name: FixedMap<Box<str>, u32>,
    pub(super) index: Index,
    /// Whether the index is by shares.
    pub(super) fair: bool,
}

impl Books {
    pub(super) fn set_queue(&mut self, queue: Queue) -> Result<QueueId, QuotaError> {
        self.tree.set_queue(queue)
    }

    pub(super) fn remove_queue(&mut self, queue: QueueId) -> Result<Removal, QuotaError> {
        let removal = self.tree.remove_queue(queue)?;
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
        let leaf = self.index.leaves.get_mut(queue.slot as usize);
        let Some(leaf) = leaf.filter(|_| self.tree.slot(queue).is_err()) else { return };
        for key in core::mem::take(leaf).all {
            self.drop_holder(key.holder);
        }
    }

    /// Frees the number of a holder.
    fn drop_holder(&mut self, at: u32) -> Option<Holder> {
        let holder = self.holders.get_mut(at as usize)?.1.take()?;
        self.by_name.remove(holder.name.as_str());
        self.free.push(at);
        Some(holder)
    }

    pub(super) fn set_flavor(&mut self, flavor: Flavor) {
        self.flavors.insert(flavor.name.clone(), flavor);
    }

    pub(super) fn remove_flavor(&mut self, name: &str) -> Option<Flavor> {
        self.flavors.remove(name)
    }

    #[cfg(feature = "serde")]
    pub(super) fn flavors(&self) -> impl Iterator<Item = &Flavor> {
        self.flavors.values()
    }

    pub(super) fn flavor(&self, name: &str) -> Option<&Flavor> {
        self.flavors.get(name)
    }

    /// The index, in line with the tree.
    pub(super) fn sync(&mut self) {
        self.index.sync(&self.tree, self.fair);
    }

    /// Another kind of index.
    pub(super) fn set_fair(&mut self, fair: bool) {
        self.fair = fair;
        self.index.shape = None;
    }

    pub(super) fn holder(&self, id: HolderId) -> Option<&Holder> {
        let (generation, holder) = self.holders.get(id.at as usize)?;
        holder.as_ref().filter(|_| *generation == id.generation)
    }

    pub(super) fn holder_at(&self, at: u32) -> Option<&Holder> {
        self.holders.get(at as usize)?.1.as_ref()
    }

    pub(super) fn holder_id(&self, at: u32) -> HolderId {
        HolderId { at, generation: self.holders[at as usize].0 }
    }

    pub(super) fn find(&self, name: &str) -> Option<HolderId> {
        self.by_name.get(name).map(|&at| self.holder_id(at))
    }

    pub(super) fn holders(&self, queue: QueueId) -> impl Iterator<Item = HolderId> {
        let known = self.tree.slot(queue).is_ok();
        let holders = self.index.holders(queue.slot).iter().filter(move |_| known);
        holders.map(|key| self.holder_id(key.holder))
    }

    /// Charges a leaf, whole or not at all. One that drains is gone if nothing is used in it then.
    pub(super) fn charge(
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
    pub(super) fn wait(
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
        for (done, (of, each)) in usage.iter().enumerate() {
            if let Err(error) = self.tree.count(queue, *of, sign * each) {
                for (of, each) in &usage[..done] {
                    // What was added can be taken again.
                    let _ = self.tree.count(queue, *of, -sign * each);
                }
                return Err(match error {
                    QuotaError::Amount { resource, .. } => amount(*each, &resource),
                    error => error,
                });
            }
        }
        // An index that is behind is made anew when it is asked.
        if self.index.shape == Some(self.tree.shape()) {
            self.index.refresh(&self.tree, queue.slot, self.fair);
        }
        Ok(())
    }

    /// Takes a claim among the holders.
    pub(super) fn hold(
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
        let key = VictimKey {
            staying: true,
            priority: claim.priority,
            reserved: Reverse(reserved),
            identity: Arc::new((claim.uid.as_str().into(), claim.name.as_str().into())),
            holder: at,
        };
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
            key,
        };
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
    pub(super) fn release(&mut self, id: HolderId) -> Result<Holder, QuotaError> {
        let holder = self.let_go(id)?;
        self.drop_drained(holder.queue);
        Ok(holder)
    }

    /// Holds a claim in place of a holder, whose queue stays meanwhile if it drains. If that fails,
    /// the holder is released all the same.
    pub(super) fn renew(
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
        self.drop_holder(id.at).ok_or(QuotaError::NotHeld(name))
    }

    /// Notes that a holder is being evicted, or is not any more.
    pub(super) fn set_leaving(&mut self, id: HolderId, leaving: bool) -> Result<(), QuotaError> {
        let holder = self.holder(id).ok_or_else(|| QuotaError::NotHeld(String::new()))?;
        let (slot, usage, key) = (holder.queue.slot, holder.usage.clone(), holder.key.clone());
        let stays = holder.stays();
        self.index.remove(slot, &key, &usage);
        let key = VictimKey { staying: !leaving, ..key };
        self.index.insert(slot, &key, &usage);
        if stays {
            self.index.withhold(slot, &key, &usage);
        }
        if let Some(holder) = &mut self.holders[id.at as usize].1 {
            (holder.leaving, holder.key) = (leaving, key);
        }
        if self.index.shape == Some(self.tree.shape()) {
            self.index.refresh(&self.tree, slot, self.fair);
        }
        Ok(())
    }

    /// Notes that a holder is no victim, or may be one again.
    pub(super) fn set_kept(&mut self, id: HolderId, kept: bool) -> Result<(), QuotaError> {
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
