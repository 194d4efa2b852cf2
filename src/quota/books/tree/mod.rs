//! The tree of queues, with sums kept up to date.

mod links;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::hash::FixedMap;
use crate::base::intern::Interner;
use crate::quota::books::cells::{Cells, NONE};
use crate::quota::model::amount::MOST;
use crate::quota::model::claim::FlavorResource;
use crate::quota::model::error::QuotaError;
use crate::quota::model::queue::{Queue, QueueKind, Quota};

/// A queue of a tree. Ids of queues that are gone are known as such, also after their places are
/// taken by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    pub(in crate::quota) slot: u32,
    generation: u32,
}

/// The fate of a queue that was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// Claims are counted in it: it admits nothing more, keeps its quota, and is gone with the last
    /// of them. [`QueueTree::set_queue`] takes the removal back.
    Draining,
    /// Queues stand in it: it has lost its quota and its parent, and is gone with the last of them.
    Implicit,
}

/// Promise, limits and usage of one resource in one flavor, at one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Sums {
    /// The queue's own guarantee.
    pub nominal: i64,
    /// The guarantees of the subtree, less what its parts keep for themselves.
    pub subtree: i64,
    /// Part of `subtree` that no one outside may use.
    pub local: i64,
    /// Amount drawn from `subtree`: the usage of a leaf; elsewhere the usage of the children beyond
    /// what they keep for themselves. Kueue's usage.
    pub drawn: i64,
    /// Usage of the subtree.
    pub used: i64,
    /// Waiting requests of the subtree.
    pub pending: i64,
}

impl Sums {
    /// Usage and waiting requests.
    pub fn requested(&self) -> i64 {
        self.used.saturating_add(self.pending)
    }

    /// Amount drawn beyond the guarantees of the subtree.
    pub fn borrowed(&self) -> i64 {
        crate::quota::model::amount::minus(self.drawn, self.subtree).max(0)
    }
}

/// One resource group, by number.
#[derive(Debug, Clone, Default)]
pub(in crate::quota) struct Group {
    /// By name.
    pub(in crate::quota) resources: Vec<u32>,
    pub(in crate::quota) flavors: Vec<GroupFlavor>,
}

#[derive(Debug, Clone)]
pub(in crate::quota) struct GroupFlavor {
    pub(in crate::quota) flavor: u32,
    /// A cell for each resource of the group.
    pub(in crate::quota) cells: Vec<u32>,
}

/// One queue.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Slot {
    pub(in crate::quota) spec: Queue,
    generation: u32,
    /// [`NONE`] for a root.
    pub(in crate::quota) parent: u32,
    pub(in crate::quota) leaves: Vec<u32>,
    pub(in crate::quota) inner: Vec<u32>,
    /// Place among the parent's `leaves` or `inner`.
    place: u32,
    /// 0 without children, 1 with leaves alone, otherwise one more than the highest inner child.
    pub(in crate::quota) height: u32,
    /// Pair and cell, in order of pairs.
    pub(in crate::quota) cells: Vec<(u32, u32)>,
    pub(in crate::quota) groups: Vec<Group>,
    /// Only named by others, or removed with queues in it.
    implicit: bool,
    pub(in crate::quota) draining: bool,
    gone: bool,
}

impl Slot {
    pub(in crate::quota) fn cell(&self, pair: u32) -> Option<u32> {
        if self.cells.len() < 8 {
            return self.cells.iter().find(|(own, _)| *own == pair).map(|(_, cell)| *cell);
        }
        let at = self.cells.binary_search_by_key(&pair, |(pair, _)| *pair).ok()?;
        Some(self.cells[at].1)
    }
}

/// Queues in trees, each with its quota and with what is used and waits in it and below.
///
/// Pure data: it decides nothing. A change of used or waiting amounts costs the depth of the queue.
/// A change of quota costs the depth for each resource and flavor; a move the same, however large
/// the subtree.
///
/// ```
/// use phalanx::quota::{Queue, QueueKind, QueueTree, Quota};
///
/// let mut tree = QueueTree::new();
/// for team in ["vision", "speech"] {
///     tree.set_queue(Queue::leaf(team).parent("labs").quota("spot", "gpu", Quota::nominal(8)))?;
/// }
/// let vision = tree.queue(QueueKind::Leaf, "vision").unwrap();
/// let gpu = tree.flavor_resource("spot", "gpu").unwrap();
/// tree.charge(vision, gpu, 10)?;
/// let labs = tree.queue(QueueKind::Inner, "labs").unwrap();
/// assert_eq!((tree.sums(labs, gpu).used, tree.sums(labs, gpu).subtree), (10, 16));
/// assert_eq!(tree.available(vision, gpu), 6);
/// # Ok::<(), phalanx::quota::QuotaError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct QueueTree {
    pub(in crate::quota) slots: Vec<Slot>,
    free: Vec<u32>,
    leaves: BTreeMap<Box<str>, u32>,
    inner: BTreeMap<Box<str>, u32>,
    index: FixedMap<Box<str>, u32>,
    flavors: Interner,
    resources: Interner,
    /// Flavor and resource.
    pairs: Vec<(u32, u32)>,
    pair_index: FixedMap<(u32, u32), u32>,
    pub(in crate::quota) cells: Cells,
    /// Queues that name a parent that they cannot stand in.
    unlinked: Vec<u32>,
    /// Grows with every change of quota or place.
    shape: u64,
}

impl QueueTree {
    /// Levels that a tree may have. A queue that would be deeper is not linked; see
    /// [`QueueTree::is_linked`].
    pub const MAX_DEPTH: u32 = 64;

    /// A tree without queues.
    pub fn new() -> QueueTree {
        QueueTree::default()
    }

    /// Adds a queue, or gives one of this name another quota, parent, weight or policy. What is used
    /// and waits stays counted, at the new place.
    ///
    /// A parent that does not exist is made. A parent that would close a circle, or make the tree
    /// deeper than [`QueueTree::MAX_DEPTH`], is remembered and the queue stays a root until the parent can be
    /// taken: see [`QueueTree::is_linked`].
    ///
    /// O(depth) for each resource and flavor.
    ///
    /// # Errors
    /// An amount is negative, or a resource or flavor stands twice.
    pub fn set_queue(&mut self, queue: Queue) -> Result<QueueId, QuotaError> {
        queue.check()?;
        let at = self.slot_of(queue.kind, &queue.name);
        self.shape += 1;
        let slot = &mut self.slots[at as usize];
        (slot.implicit, slot.draining) = (false, false);
        let moved = slot.spec.parent != queue.parent;
        let old = core::mem::replace(&mut slot.spec, queue);
        self.set_cells(at);
        if moved {
            self.settle(at);
            if let Some(parent) = old.parent {
                self.drop_unused_parent(&parent);
            }
        }
        Ok(self.id(at))
    }

    /// Removes a queue. O(1) children aside.
    ///
    /// # Errors
    /// There is no such queue.
    pub fn remove_queue(&mut self, queue: QueueId) -> Result<Removal, QuotaError> {
        self.remove_below(queue, None)
    }

    /// [`QueueTree::remove_queue`]; an inner queue that stays stands below another.
    pub(in crate::quota) fn remove_below(
        &mut self,
        queue: QueueId,
        above: Option<&str>,
    ) -> Result<Removal, QuotaError> {
        let at = self.slot(queue)?;
        self.shape += 1;
        let slot = &mut self.slots[at as usize];
        if slot.spec.kind == QueueKind::Leaf {
            slot.draining = true;
            return Ok(if self.drop_drained(queue) { Removal::Removed } else { Removal::Draining });
        }
        slot.implicit = true;
        let parent = slot.spec.parent.take();
        let name = core::mem::take(&mut slot.spec.name);
        let above = above.filter(|above| *above != name);
        slot.spec = Queue { parent: above.map(Into::into), ..Queue::inner(name) };
        self.set_cells(at);
        self.settle(at);
        let name = self.slots[at as usize].spec.name.clone();
        self.drop_unused_parent(&name);
        for parent in parent.as_deref().into_iter().chain(above) {
            self.drop_unused_parent(parent);
        }
        Ok(if self.slots[at as usize].gone { Removal::Removed } else { Removal::Implicit })
    }

    /// Adds to what a leaf uses; a negative amount gives back. O(depth). A queue that drains is gone
    /// when nothing is used and nothing waits in it.
    ///
    /// # Errors
    /// The queue is not known or no leaf; less would be used than nothing, or more than
    /// [`MOST`] somewhere above.
    pub fn charge(
        &mut self,
        queue: QueueId,
        of: FlavorResource,
        amount: i64,
    ) -> Result<(), QuotaError> {
        self.count(queue, of, amount)?;
        self.drop_drained(queue);
        Ok(())
    }

    /// [`QueueTree::charge`], but for a queue that drains, which stays.
    pub(in crate::quota) fn count(
        &mut self,
        queue: QueueId,
        of: FlavorResource,
        amount: i64,
    ) -> Result<(), QuotaError> {
        let cell = self.checked_cell(queue, of, amount, |cell| cell.used)?;
        self.cells.charge(cell, amount);
        Ok(())
    }

    /// Adds to what waits in a leaf; a negative amount takes away. O(depth).
    ///
    /// # Errors
    /// As those of [`QueueTree::charge`].
    pub fn wait(
        &mut self,
        queue: QueueId,
        of: FlavorResource,
        amount: i64,
    ) -> Result<(), QuotaError> {
        let cell = self.checked_cell(queue, of, amount, |cell| cell.pending)?;
        self.cells.wait(cell, amount);
        self.drop_drained(queue);
        Ok(())
    }

    fn checked_cell(
        &mut self,
        queue: QueueId,
        of: FlavorResource,
        amount: i64,
        sum: impl Fn(&crate::quota::books::cells::Cell) -> i64,
    ) -> Result<u32, QuotaError> {
        let slot = self.slot(queue)?;
        let wrong = |tree: &QueueTree| QuotaError::Amount {
            claim: tree.slots[slot as usize].spec.name.clone(),
            resource: tree.names(of).1.into(),
            amount,
        };
        if self.slots[slot as usize].spec.kind != QueueKind::Leaf {
            return Err(QuotaError::NotALeaf(self.slots[slot as usize].spec.name.clone()));
        }
        if of.0 as usize >= self.pairs.len() {
            return Err(wrong(self));
        }
        let cell = self.cell_or_new(slot, of.0);
        let mut at = cell;
        while at != NONE {
            let in_range = |sum: i64| (0..=MOST).contains(&sum);
            let after = sum(&self.cells[at]).checked_add(amount);
            if !after.is_some_and(in_range) {
                return Err(wrong(self));
            }
            at = self.cells[at].parent;
        }
        Ok(cell)
    }

    /// The queue of a name.
    pub fn queue(&self, kind: QueueKind, name: &str) -> Option<QueueId> {
        let at = match kind {
            QueueKind::Leaf => self.index.get(name),
            QueueKind::Inner => self.inner.get(name),
        };
        at.map(|&at| self.id(at))
    }

    /// All queues of a kind, by name.
    pub fn queues(&self, kind: QueueKind) -> impl Iterator<Item = QueueId> {
        let queues = if kind == QueueKind::Leaf { &self.leaves } else { &self.inner };
        queues.values().map(|&at| self.id(at))
    }

    /// The stated queue; `None` if it is gone.
    pub fn spec(&self, queue: QueueId) -> Option<&Queue> {
        self.slot(queue).ok().map(|at| &self.slots[at as usize].spec)
    }

    /// The parent; `None` for a root.
    pub fn parent(&self, queue: QueueId) -> Option<QueueId> {
        let at = self.slot(queue).ok()?;
        let parent = self.slots[at as usize].parent;
        (parent != NONE).then(|| self.id(parent))
    }

    /// The queue and what stands above it, the root last. O(depth).
    pub fn path(&self, queue: QueueId) -> impl Iterator<Item = QueueId> {
        let known = self.slot(queue).ok().map(|_| queue);
        core::iter::successors(known, |&queue| self.parent(queue))
    }

    /// The queues right below one, leaves first, in no order that means anything.
    pub fn children(&self, queue: QueueId) -> impl Iterator<Item = QueueId> {
        let slot = self.slot(queue).ok().map(|at| &self.slots[at as usize]);
        slot.into_iter()
            .flat_map(|slot| slot.leaves.iter().chain(&slot.inner))
            .map(|&at| self.id(at))
    }

    /// Inner levels below a queue: 0 without children, 1 with leaves alone.
    pub fn height(&self, queue: QueueId) -> u32 {
        self.slot(queue).map_or(0, |at| self.slots[at as usize].height)
    }

    /// Whether a queue stands where it was put, as do all above it. A queue that does not (its
    /// parents go in a circle, or are too many) admits nothing. O(depth).
    pub fn is_linked(&self, queue: QueueId) -> bool {
        let Ok(mut at) = self.slot(queue) else { return false };
        loop {
            let slot = &self.slots[at as usize];
            if slot.parent == NONE {
                return slot.spec.parent.is_none();
            }
            at = slot.parent;
        }
    }

    /// Whether a queue has been removed and waits for the last of its claims.
    pub fn is_draining(&self, queue: QueueId) -> bool {
        self.slot(queue).is_ok_and(|at| self.slots[at as usize].draining)
    }

    /// The number of a resource in a flavor, if any queue has or had quota of it.
    pub fn flavor_resource(&self, flavor: &str, resource: &str) -> Option<FlavorResource> {
        let pair = (self.flavors.find(flavor)?, self.resources.find(resource)?);
        self.pair_index.get(&pair).map(|&pair| FlavorResource(pair))
    }

    /// The number of a resource in a flavor, given now if it has none.
    pub fn intern(&mut self, flavor: &str, resource: &str) -> FlavorResource {
        let pair = (self.flavors.intern(flavor), self.resources.intern(resource));
        FlavorResource(self.pair(pair))
    }

    /// All numbers of resources in flavors.
    pub(in crate::quota) fn numbers(&self) -> impl Iterator<Item = FlavorResource> {
        (0..self.pairs.len() as u32).map(FlavorResource)
    }

    /// Amounts of a usage with the names of their resources; a resource may be named more than once.
    pub(in crate::quota) fn named<'a>(
        &'a self,
        usage: &'a [(FlavorResource, i64)],
    ) -> impl Iterator<Item = (&'a str, i64)> {
        usage.iter().map(|&(of, amount)| (self.names(of).1, amount))
    }

    /// Checks that no queue of the other kind has a queue's name.
    pub(in crate::quota) fn check_name(&self, queue: &Queue) -> Result<(), QuotaError> {
        let other = match queue.kind {
            QueueKind::Leaf => QueueKind::Inner,
            QueueKind::Inner => QueueKind::Leaf,
        };
        match self.queue(other, &queue.name) {
            Some(_) => {
                Err(QuotaError::Twice { queue: queue.name.clone(), name: queue.name.clone() })
            }
            None => Ok(()),
        }
    }

    /// The children of the lowest queue above both leaves, on each side.
    pub(in crate::quota) fn sides(&self, a: QueueId, b: QueueId) -> (QueueId, QueueId) {
        let (one, other): (Vec<_>, Vec<_>) = (self.path(a).collect(), self.path(b).collect());
        let common = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        let side = |path: &[QueueId], leaf| {
            path.len().checked_sub(common + 1).and_then(|at| path.get(at).copied()).unwrap_or(leaf)
        };
        (side(&one, a), side(&other, b))
    }

    /// Whether a queue is stated, and not only named by others or removed with queues in it.
    pub(in crate::quota) fn is_stated(&self, queue: QueueId) -> bool {
        self.slot(queue).is_ok_and(|at| !self.slots[at as usize].implicit)
    }

    /// Whether a leaf stays within its guarantees with so much more.
    pub(in crate::quota) fn is_within(
        &self,
        queue: QueueId,
        usage: &[(FlavorResource, i64)],
    ) -> bool {
        usage.iter().all(|&(of, amount)| {
            let sums = self.sums(queue, of);
            amount == 0 || sums.drawn.saturating_add(amount) <= sums.subtree
        })
    }

    /// Whether any queue has or had quota of a resource.
    pub fn knows(&self, resource: &str) -> bool {
        self.resources.find(resource).is_some()
    }

    /// Flavor and resource of a number; empty for one of another tree.
    pub fn names(&self, of: FlavorResource) -> (&str, &str) {
        let pair = self.pairs.get(of.0 as usize);
        pair.map_or(("", ""), |&(flavor, name)| {
            (self.flavors.text(flavor), self.resources.text(name))
        })
    }

    /// The resources in flavors that a queue has books of, in no order that means anything, and
    /// whether its quota states each.
    pub fn books(&self, queue: QueueId) -> impl Iterator<Item = (FlavorResource, bool)> {
        let slot = self.slot(queue).ok().map(|at| &self.slots[at as usize]);
        let cells = slot.into_iter().flat_map(|slot| &slot.cells);
        cells.map(|&(pair, cell)| (FlavorResource(pair), self.cells[cell].stated))
    }

    /// The sums of a queue; zeros where it has none. O(resources and flavors of the queue).
    pub fn sums(&self, queue: QueueId, of: FlavorResource) -> Sums {
        let slot = self.slot(queue).ok().map(|at| &self.slots[at as usize]);
        let Some(cell) = slot.and_then(|slot| slot.cell(of.0)) else { return Sums::default() };
        let cell = &self.cells[cell];
        Sums {
            nominal: cell.nominal,
            subtree: cell.subtree,
            local: cell.local,
            drawn: cell.drawn,
            used: cell.used,
            pending: cell.pending,
        }
    }

    /// The quota stated of a resource in a flavor. O(resources and flavors of the queue).
    pub fn quota(&self, queue: QueueId, of: FlavorResource) -> Option<&Quota> {
        let (flavor, resource) = self.names(of);
        let mut flavors = self.spec(queue)?.groups.iter().flat_map(|group| &group.flavors);
        flavors.find_map(|quotas| {
            let named = quotas.name == flavor;
            quotas.resources.iter().find(|(name, _)| named && name == resource).map(|(_, q)| q)
        })
    }

    /// The amount that a queue may still use, by guarantees and by borrowing: Kueue's available
    /// amount. Negative where more is used than may be.
    ///
    /// With `kept` what a queue keeps for itself and has not used, and `stored` what it lends:
    /// `kept + min(available of the parent, stored − what is taken from the parent + borrowing
    /// limit)`; at a root, guarantees less what is drawn. O(depth).
    pub fn available(&self, queue: QueueId, of: FlavorResource) -> i64 {
        self.above(queue, of).map_or(0, |cell| self.cells.available(cell))
    }

    /// The amount that a queue could use if nothing else were in use: Kueue's potential amount.
    /// O(depth).
    pub fn potential(&self, queue: QueueId, of: FlavorResource) -> i64 {
        self.above(queue, of).map_or(0, |cell| self.cells.potential(cell))
    }

    /// The amount that the tree of a queue could lend to its children, of all flavors of a
    /// resource. O(depth) for each flavor.
    pub fn lendable(&self, queue: QueueId, resource: &str) -> i64 {
        let number = self.resources.find(resource);
        match (self.slot(queue), number) {
            (Ok(at), Some(number)) => self.lendable_at(&self.cells, at, number),
            _ => 0,
        }
    }

    /// [`QueueTree::lendable`] by number, with sums that may stand apart.
    pub(in crate::quota) fn lendable_at(&self, cells: &Cells, at: u32, resource: u32) -> i64 {
        let root = self.root_of(at);
        let pairs = self.slots[root as usize].cells.iter();
        let pairs = pairs.filter(|(pair, _)| self.pairs[*pair as usize].1 == resource);
        pairs.fold(0, |sum, &(pair, _)| {
            let cell = self.cell_above(at, pair);
            crate::quota::model::amount::plus(sum, cell.map_or(0, |cell| cells.potential(cell)))
        })
    }

    /// Grows with every change of quota or place.
    pub(in crate::quota) fn shape(&self) -> u64 {
        self.shape
    }

    pub(in crate::quota) fn root_of(&self, mut at: u32) -> u32 {
        while self.slots[at as usize].parent != NONE {
            at = self.slots[at as usize].parent;
        }
        at
    }

    /// The resource of a pair, by number.
    #[inline]
    pub(in crate::quota) fn resource_of(&self, pair: u32) -> u32 {
        self.pairs[pair as usize].1
    }

    pub(in crate::quota) fn resource_name(&self, resource: u32) -> &str {
        self.resources.text(resource)
    }

    pub(in crate::quota) fn resource_number(&self, resource: &str) -> Option<u32> {
        self.resources.find(resource)
    }

    pub(in crate::quota) fn flavor_name(&self, flavor: u32) -> &str {
        self.flavors.text(flavor)
    }

    pub(in crate::quota) fn id(&self, at: u32) -> QueueId {
        QueueId { slot: at, generation: self.slots[at as usize].generation }
    }

    /// The slot of a queue that is there.
    pub(in crate::quota) fn slot(&self, queue: QueueId) -> Result<u32, QuotaError> {
        match self.slots.get(queue.slot as usize) {
            Some(slot) if slot.generation == queue.generation && !slot.gone => Ok(queue.slot),
            Some(slot) => Err(QuotaError::UnknownQueue(slot.spec.name.clone())),
            None => Err(QuotaError::UnknownQueue(String::new())),
        }
    }

    /// The cell of a queue, or of the next above that has one.
    fn above(&self, queue: QueueId, of: FlavorResource) -> Option<u32> {
        self.cell_above(self.slot(queue).ok()?, of.0)
    }

    pub(in crate::quota) fn cell_above(&self, mut at: u32, pair: u32) -> Option<u32> {
        while at != NONE {
            let slot = &self.slots[at as usize];
            if let Some(cell) = slot.cell(pair) {
                return Some(cell);
            }
            at = slot.parent;
        }
        None
    }

    fn pair(&mut self, pair: (u32, u32)) -> u32 {
        let next = self.pairs.len() as u32;
        let number = *self.pair_index.entry(pair).or_insert(next);
        if number == next {
            self.pairs.push(pair);
        }
        number
    }
}
