//! Holders in the order of victims, without a pass over queues.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::Time;
use crate::quota::books::cells::NONE;
use crate::quota::books::share::{ShareOf, ShareValue};
use crate::quota::books::tree::QueueTree;
use crate::quota::model::claim::{Claim, Usage};
use crate::quota::model::queue::QueueKind;

/// The place of a holder in the order of victims: those that are leaving first, then lower priority,
/// the most recent, uid, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::quota) struct VictimKey {
    pub(in crate::quota) staying: bool,
    pub(in crate::quota) priority: i64,
    reserved: Reverse<Time>,
    /// Uid and name.
    identity: Arc<(Box<str>, Box<str>)>,
    pub(in crate::quota) holder: u32,
}

/// The holders of one leaf, in the order of victims.
#[derive(Debug, Clone, Default)]
struct LeafHolders {
    all: BTreeSet<VictimKey>,
    by_pair: Vec<(u32, BTreeSet<VictimKey>)>,
}

/// A leaf among its borrowing siblings: highest share first, then by its first victim.
pub(in crate::quota) type FairLeaf = (Reverse<ShareValue>, VictimKey, u32);

/// Holders in the order of victims, without a pass over queues.
///
/// It is made anew when the tree has changed its shape, and kept up to date otherwise: O(depth · log)
/// for a holder that comes or goes.
#[derive(Debug, Clone, Default)]
pub(in crate::quota) struct Index {
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
    /// The share by which leaves stand; `None`: by guarantees.
    by_share: Option<ShareOf>,
}

/// An inner queue among its borrowing siblings: highest share first.
pub(in crate::quota) type FairInner = (Reverse<ShareValue>, u32);

static NO_LEAVES: BTreeSet<FairLeaf> = BTreeSet::new();
static NO_INNER: BTreeSet<FairInner> = BTreeSet::new();
static NO_HOLDERS: BTreeSet<VictimKey> = BTreeSet::new();
static NO_CHILDREN: BTreeSet<(VictimKey, u32)> = BTreeSet::new();

impl VictimKey {
    /// The key of a claim that holds quota since some time.
    pub(in crate::quota) fn new(claim: &Claim, reserved: Time, holder: u32) -> VictimKey {
        VictimKey {
            staying: true,
            priority: claim.priority,
            reserved: Reverse(reserved),
            identity: Arc::new((claim.uid.as_str().into(), claim.name.as_str().into())),
            holder,
        }
    }
}

impl Index {
    /// An index by shares, or by guarantees.
    pub(in crate::quota) fn new(by_share: Option<ShareOf>) -> Index {
        Index { by_share, ..Index::default() }
    }

    /// Takes the holders of a leaf that is gone out.
    pub(in crate::quota) fn forget(&mut self, leaf: u32) -> BTreeSet<VictimKey> {
        let leaf = self.leaves.get_mut(leaf as usize);
        leaf.map(core::mem::take).unwrap_or_default().all
    }

    /// All holders of a leaf.
    pub(in crate::quota) fn holders(&self, leaf: u32) -> &BTreeSet<VictimKey> {
        self.leaves.get(leaf as usize).map_or(&NO_HOLDERS, |leaf| &leaf.all)
    }

    /// The holders of a leaf that use a resource in a flavor.
    pub(in crate::quota) fn users(&self, leaf: u32, pair: u32) -> &BTreeSet<VictimKey> {
        let leaf = self.leaves.get(leaf as usize);
        let users = leaf.and_then(|leaf| leaf.by_pair.iter().find(|(own, _)| *own == pair));
        users.map_or(&NO_HOLDERS, |(_, users)| users)
    }

    /// The children of an inner queue's cell that draw beyond their guarantees.
    pub(in crate::quota) fn over(&self, cell: u32) -> &BTreeSet<(VictimKey, u32)> {
        self.over.get(cell as usize).unwrap_or(&NO_CHILDREN)
    }

    /// The leaves below an inner queue that borrow.
    pub(in crate::quota) fn fair_leaves(&self, at: u32) -> &BTreeSet<FairLeaf> {
        self.fair_leaves.get(at as usize).unwrap_or(&NO_LEAVES)
    }

    /// The inner queues below an inner queue that borrow.
    pub(in crate::quota) fn fair_inner(&self, at: u32) -> &BTreeSet<FairInner> {
        self.fair_inner.get(at as usize).unwrap_or(&NO_INNER)
    }

    pub(in crate::quota) fn insert(&mut self, leaf_at: u32, key: &VictimKey, usage: &Usage) {
        if self.leaves.len() <= leaf_at as usize {
            self.leaves.resize_with(leaf_at as usize + 1, LeafHolders::default);
        }
        let leaf = &mut self.leaves[leaf_at as usize];
        leaf.all.insert(key.clone());
        self.offer(leaf_at, key, usage);
    }

    /// Takes a holder in among those that may give back.
    pub(in crate::quota) fn offer(&mut self, leaf: u32, key: &VictimKey, usage: &Usage) {
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

    pub(in crate::quota) fn remove(&mut self, leaf: u32, key: &VictimKey, usage: &Usage) {
        let Some(own) = self.leaves.get_mut(leaf as usize) else { return };
        own.all.remove(key);
        self.withhold(leaf, key, usage);
    }

    /// Takes a holder out of those that may give back.
    pub(in crate::quota) fn withhold(&mut self, leaf: u32, key: &VictimKey, usage: &Usage) {
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

    /// Brings the entries of a queue, and of those above, in line with the sums. An index that is
    /// behind is made anew when it is asked.
    pub(in crate::quota) fn refresh(&mut self, tree: &QueueTree, at: u32) {
        if self.shape == Some(tree.shape()) {
            self.enter(tree, at);
        }
    }

    fn enter(&mut self, tree: &QueueTree, mut at: u32) {
        while tree.slots[at as usize].parent != NONE {
            let slot = &tree.slots[at as usize];
            let parent = slot.parent as usize;
            let best = self.best(tree, at);
            if let Some(share) = self.by_share {
                self.refresh_fair(tree, at, parent, best, share);
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

    fn refresh_fair(
        &mut self,
        tree: &QueueTree,
        at: u32,
        parent: usize,
        best: Option<VictimKey>,
        share: ShareOf,
    ) {
        let leaf = tree.slots[at as usize].spec.kind == QueueKind::Leaf;
        let share = share(tree, &tree.cells, at, &[]);
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
    pub(in crate::quota) fn sync(&mut self, tree: &QueueTree) {
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
            self.enter(tree, leaf.slot);
        }
    }
}
