//! Who may yield for a claim: every set of holders that a dialect's order of victims allows, not
//! only the one that its own search takes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::quota::books::Holder;
use crate::quota::engine::sets::Sets;
use crate::quota::model::claim::{HolderId, Usage};

/// The sets of holders that may yield for one claim, in books that stand still.
///
/// A set may yield if its holders can give back one after another, each allowed by the dialect as
/// the sums stand at its turn. Holders that are leaving have given back before, and may be in any
/// set. A holder of another queue that waits for more is in no set: what is reserved for it counts as
/// used by its queue, and would go with it. Holders of the claim's own queue make the first two rows
/// milder, and come first there. So do those of queues beside it, for queues further off. Else the rules
/// only get stricter as queues give back: without these, each part of a set that may yield may yield too.
///
/// | dialect | own queue | other queues |
/// |---|---|---|
/// | this crate's own | lower priority | queues that borrow, up to the inner queue in common. A claim beyond its queue's guarantee leaves the other leaf its guarantee, and takes from a side whose share is larger than its own will be and stays no smaller |
/// | Kueue, fair | `withinClusterQueue` | the same by `reclaimWithinCohort`; beyond the nominal quota the first strategy holds in place of guarantees |
/// | Kueue, classical | `withinClusterQueue` | `reclaimWithinCohort`, from queues beyond their nominal quota; where the claim borrows in the end, only by `borrowWithinCohort` or by the hierarchy |
/// | Volcano `proportion`, `capacity` | lower priority, alone | alone, if the queue may reclaim: queues beyond the deserved amount, which keep their guarantee |
/// | Volcano `drf` | lower priority | queues whose share stays above the claim's |
/// | KAI | lower priority, alone | alone, if the queue may reclaim: sides beyond their fair share, or beyond what they deserve; in the end the claim's side is no better served than a side that gave |
///
/// ```
/// use phalanx::Time;
/// use phalanx::quota::{Claim, Flavor, PodSet, Queue, Quota, Tenants};
///
/// let mut tenants = Tenants::default();
/// tenants.set_flavor(Flavor::new("all"));
/// for team in ["vision", "speech"] {
///     tenants.set_queue(Queue::leaf(team).parent("labs").quota("all", "gpu", Quota::nominal(8)))?;
/// }
/// let gang = |name: &str, queue: &str| {
///     Claim::new(name, queue).pods(PodSet::new("main", 1, [("gpu", 4)]))
/// };
/// let mut holders = Vec::new();
/// for name in ["one", "two", "three", "four"] {
///     let claim = gang(name, "vision");
///     let assignment = tenants.decide(&claim)?.assignment;
///     holders.push(tenants.admit(&claim, &assignment, Time::ZERO)?);
/// }
/// let claim = gang("own", "speech");
/// let assignment = tenants.decide(&claim)?.assignment;
/// let yields = tenants.yields(&claim, &assignment)?.expect("the dialect says");
/// // Two of the four are borrowed: any two may yield, and no three.
/// assert!(yields.may_yield(&holders[1..3]) && !yields.may_yield(&holders[1..]));
/// // One is enough.
/// assert!(yields.suffices(&holders[3..]) && !yields.suffices(&[]));
/// # Ok::<(), phalanx::quota::QuotaError>(())
/// ```
pub struct Yields<'t> {
    /// The claim's leaf.
    leaf: u32,
    sets: Box<dyn Sets + 't>,
}

impl fmt::Debug for Yields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yields").field("sets", &self.sets).finish_non_exhaustive()
    }
}

impl<'t> Yields<'t> {
    pub(super) fn new(leaf: u32, sets: Box<dyn Sets + 't>) -> Yields<'t> {
        Yields { leaf, sets }
    }

    /// Whether a holder of another queue waits for more, which is reserved for it. That counts as used
    /// by its queue, and goes with the holder: the queue would keep less than the rules are asked about.
    fn waits_for_more(&self, holder: &Holder) -> bool {
        let is_other = holder.queue.slot != self.leaf && !holder.leaving;
        is_other && self.sets.books().holds.reserved(&holder.name).is_some()
    }

    /// The places of holders that do not leave anyway; `None` if one is gone, or waits for more.
    fn staying(&self, holders: &[HolderId]) -> Option<Vec<u32>> {
        let known = |id: &HolderId| {
            let own = self.sets.books().holder(*id).filter(|own| !self.waits_for_more(own))?;
            Some((id.at, own.leaving))
        };
        let all: Option<Vec<(u32, bool)>> = holders.iter().map(known).collect();
        Some(all?.into_iter().filter(|(_, leaving)| !leaving).map(|(at, _)| at).collect())
    }

    /// The resources that are short for the claim now, with how much. Empty if quota suffices.
    pub fn lacks(&self) -> &Usage {
        self.sets.lacks()
    }

    /// The amount of [`Yields::lacks`] that a holder gives back, by place there.
    pub fn gives(&self, holder: HolderId) -> Vec<i64> {
        let own = self.sets.books().holder(holder).filter(|own| !own.leaving);
        let usage = own.map(|own| &own.usage);
        let of = |pair: u32| {
            let own = usage.and_then(|usage| usage.iter().find(|(own, _)| own.0 == pair));
            own.map_or(0, |(_, amount)| *amount)
        };
        self.sets.lacks().iter().map(|(pair, _)| of(pair.0)).collect()
    }

    /// The holders that some set contains, ascending. O(holders of the tree · depth).
    pub fn candidates(&self) -> Vec<HolderId> {
        let books = self.sets.books();
        let may = |at: &u32| books.holder_at(*at).is_some_and(|own| !self.waits_for_more(own));
        let all = self.sets.candidates().into_iter().filter(may);
        let mut all: Vec<HolderId> = all.map(|holder| books.holder_id(holder)).collect();
        all.sort_unstable();
        all
    }

    /// The holder of a name.
    pub fn find(&self, name: &str) -> Option<HolderId> {
        self.sets.books().find(name)
    }

    /// The names of the holders of the claim's own queue that may yield.
    pub fn own_names(&self) -> impl Iterator<Item = &str> {
        self.sets
            .own()
            .iter()
            .filter_map(|&own| Some(self.sets.books().holder_at(own)?.name.as_str()))
    }

    /// Whether a set is part of one that may yield, with as much of the own queue and of those beside it as
    /// may go.
    /// O(holders² · depth) at most, O(holders · depth) where each could go last; where shares decide and it is
    /// not, also O(holders of queues beside · depth).
    pub fn may_begin(&self, holders: &[HolderId]) -> bool {
        self.staying(holders).is_some_and(|places| self.sets.may_begin(&places))
    }

    /// Whether a set may yield, whole. It need not suffice. O as [`Yields::may_begin`].
    pub fn may_yield(&self, holders: &[HolderId]) -> bool {
        self.staying(holders).is_some_and(|places| self.sets.may_yield(&places))
    }

    /// Whether the claim has its quota once a set has given back. O(holders · depth).
    pub fn suffices(&self, holders: &[HolderId]) -> bool {
        self.staying(holders).is_some_and(|places| self.sets.suffices(&places))
    }

    /// Whether holders may matter that make no room: for the quota that is short, or because others may
    /// yield only beside them.
    pub fn matters_without_room(&self, holder: HolderId) -> bool {
        self.gives(holder).iter().any(|amount| *amount > 0) || self.sets.eases(holder.at)
    }

    /// Whether a holder is of the claim's own queue.
    pub fn is_of_own_queue(&self, holder: HolderId) -> bool {
        self.sets.books().holder_at(holder.at).is_some_and(|own| own.queue.slot == self.leaf)
    }
}
