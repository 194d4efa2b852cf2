//! The sets of holders that may yield for one claim.

use alloc::vec::Vec;
use core::fmt;
use core::slice::from_ref;

use crate::quota::books::Books;
use crate::quota::model::claim::Usage;

/// The sets of holders that a dialect lets yield for one claim. Holders are named by place; none of
/// them is leaving.
pub(in crate::quota) trait Sets: fmt::Debug {
    /// The books.
    fn books(&self) -> &Books;

    /// The resources that are short for the claim, with how much: a set that gives back less of one
    /// does not suffice.
    fn lacks(&self) -> &Usage;

    /// The holders of the tree, among them all that some set contains.
    fn holders(&self) -> &[u32];

    /// The holders that some set contains, those that leave anyway among them. O(holders · depth).
    fn candidates(&self) -> Vec<u32> {
        let leaves = |at| self.books().holder_at(at).is_some_and(|own| own.leaving);
        let is_one = |at: &u32| self.may_begin(if leaves(*at) { &[] } else { from_ref(at) });
        self.holders().iter().copied().filter(is_one).collect()
    }

    /// The holders of the claim's own queue that some set contains.
    fn own(&self) -> &[u32];

    /// Whether a set is part of one that may yield. Each part of such a set is one.
    fn may_begin(&self, holders: &[u32]) -> bool;

    /// Whether a set may yield, whole.
    fn may_yield(&self, holders: &[u32]) -> bool;

    /// Whether the claim has its quota once a set has given back.
    fn suffices(&self, holders: &[u32]) -> bool;

    /// Whether a set that may not yield may do so together with a holder.
    fn eases(&self, holder: u32) -> bool;
}
