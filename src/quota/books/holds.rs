//! Quota held for claims that do not hold it yet: reserved while their victims go, or put aside.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::model::Owner;
use crate::quota::books::tree::QueueId;
use crate::quota::model::claim::Usage;

/// Usage held in a leaf.
#[derive(Debug, Clone)]
pub(in crate::quota) struct Hold {
    pub(in crate::quota) queue: QueueId,
    pub(in crate::quota) usage: Usage,
    /// The user that the claim is of.
    pub(in crate::quota) owner: Owner,
}

/// All quota that is held. No sum shows it.
#[derive(Debug, Clone, Default)]
pub(in crate::quota) struct Holds {
    /// By claim.
    reserved: BTreeMap<String, Hold>,
    aside: Option<(String, Hold)>,
}

impl Holds {
    /// Reserves usage for a claim, in place of any before.
    pub(in crate::quota) fn reserve(&mut self, claim: &str, hold: Hold) {
        self.reserved.insert(claim.into(), hold);
    }

    /// Gives up the reservation of a claim.
    pub(in crate::quota) fn unreserve(&mut self, claim: &str) -> Option<Hold> {
        self.reserved.remove(claim)
    }

    /// The reservation of a claim.
    pub(in crate::quota) fn reserved(&self, claim: &str) -> Option<&Hold> {
        self.reserved.get(claim)
    }

    /// All reservations, by claim.
    pub(in crate::quota) fn reservations(&self) -> impl Iterator<Item = (&str, &Hold)> {
        self.reserved.iter().map(|(claim, hold)| (claim.as_str(), hold))
    }

    /// The reservations of all claims but one.
    pub(in crate::quota) fn all_but(&self, claim: &str) -> Vec<(String, Hold)> {
        let others = self.reserved.iter().filter(|(name, _)| *name != claim);
        others.map(|(name, hold)| (name.clone(), hold.clone())).collect()
    }

    /// Takes the reservations of some claims out.
    pub(in crate::quota) fn take_out(&mut self, claims: &BTreeSet<&str>) -> BTreeMap<String, Hold> {
        claims.iter().filter_map(|claim| self.reserved.remove_entry(*claim)).collect()
    }

    /// Puts reservations back.
    pub(in crate::quota) fn put_back(&mut self, holds: BTreeMap<String, Hold>) {
        self.reserved.extend(holds);
    }

    /// Puts usage aside for a claim, in place of any before; or gives it up.
    pub(in crate::quota) fn set_aside(&mut self, aside: Option<(String, Hold)>) {
        self.aside = aside;
    }

    /// The claim for which usage is put aside, and the usage.
    pub(in crate::quota) fn aside(&self) -> Option<(&str, &Hold)> {
        self.aside.as_ref().map(|(claim, hold)| (claim.as_str(), hold))
    }
}
