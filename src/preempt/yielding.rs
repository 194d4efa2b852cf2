//! Rules over sets: which holders of something beside room may yield together.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use super::policy::Candidate;
use super::unit::NONE;

/// Who may yield together: a rule over sets of units, beside the [`Policy`](super::Policy) that looks
/// at one unit after another. Quota is such a rule.
///
/// Units belong to *holders*. Units of one that yields whole go together. Of another some units may
/// stay: then it gives nothing back, and counts all the same as one that yields. Holders come in
/// ascending order, each once.
pub trait Yielding: fmt::Debug {
    /// The number of the holder that a unit belongs to; `None` if the unit may not be taken.
    fn holder_of(&self, unit: &Candidate<'_>) -> Option<u32>;

    /// Whether a set is part of one that may yield. Every part of such a set is such a set.
    fn may_begin(&self, holders: &[u32]) -> bool;

    /// Whether a set may yield, whole.
    fn may_yield(&self, holders: &[u32]) -> bool;

    /// Whether the sums suffice once a set has given back. More holders never make them too small.
    fn suffices(&self, holders: &[u32]) -> bool;

    /// The amounts that are short now; empty if there is enough.
    fn lacks(&self) -> &[i64];

    /// The part of a lack that a holder gives back at most, by place in [`Yielding::lacks`].
    fn gives(&self, holder: u32, lack: usize) -> i64;

    /// Whether a holder may matter that makes no room for the group.
    fn matters_without_room(&self, holder: u32) -> bool;

    /// Whether the units of a holder go together.
    fn yields_whole(&self, holder: u32) -> bool;
}

/// A rule with the holders of all atoms.
#[derive(Debug)]
pub(crate) struct Rule<'a> {
    yielding: &'a dyn Yielding,
    of_atom: Vec<u32>,
    /// The atoms of each holder, ascending.
    atoms: BTreeMap<u32, Vec<u32>>,
}

impl<'a> Rule<'a> {
    pub(crate) fn new(
        yielding: &'a dyn Yielding,
        holders: impl Iterator<Item = Option<u32>>,
    ) -> Rule<'a> {
        let of_atom: Vec<u32> = holders.map(|holder| holder.unwrap_or(NONE)).collect();
        let mut atoms: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (atom, &holder) in of_atom.iter().enumerate().filter(|(_, holder)| **holder != NONE) {
            atoms.entry(holder).or_default().push(atom as u32);
        }
        Rule { yielding, of_atom, atoms }
    }

    /// Whether an atom belongs to a holder that some set contains.
    pub(crate) fn admits(&self, atom: usize) -> bool {
        let holder = self.of_atom[atom];
        holder != NONE && self.yielding.may_begin(&[holder])
    }

    /// The holders of atoms, ascending.
    fn holders(&self, atoms: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut holders: Vec<u32> = atoms.map(|atom| self.of_atom[atom as usize]).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    /// The holders of which all atoms are among some, which are each there once.
    fn whole(&self, atoms: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut holders: Vec<u32> = atoms.map(|atom| self.of_atom[atom as usize]).collect();
        holders.sort_unstable();
        let is_whole =
            |run: &&[u32]| self.atoms.get(&run[0]).is_some_and(|atoms| atoms.len() == run.len());
        holders.chunk_by(|a, b| a == b).filter(is_whole).map(|run| run[0]).collect()
    }

    /// The atoms that go with an atom, itself among them, ascending; `None` if it goes alone.
    pub(crate) fn together(&self, atom: u32) -> Option<&[u32]> {
        let holder = self.of_atom[atom as usize];
        let atoms = self.atoms.get(&holder).filter(|atoms| atoms.len() > 1)?;
        self.yielding.yields_whole(holder).then_some(atoms)
    }

    /// Whether atoms are part of a set that may yield.
    pub(crate) fn may_begin(&self, atoms: &[u32]) -> bool {
        let holders = self.holders(atoms.iter().copied());
        holders.last() != Some(&NONE) && self.yielding.may_begin(&holders)
    }

    /// Whether something beside room is short.
    pub(crate) fn has_lacks(&self) -> bool {
        !self.yielding.lacks().is_empty()
    }

    /// Whether there is enough without atoms.
    pub(crate) fn suffices(&self, atoms: impl Iterator<Item = u32>) -> bool {
        self.yielding.lacks().is_empty() || self.yielding.suffices(&self.whole(atoms))
    }

    /// Whether atoms may yield, and there is enough without them.
    pub(crate) fn permits(&self, atoms: &[u32]) -> bool {
        let holders = self.holders(atoms.iter().copied());
        self.suffices(atoms.iter().copied())
            && holders.last() != Some(&NONE)
            && self.yielding.may_yield(&holders)
    }

    /// Whether an atom may matter that makes no room.
    pub(crate) fn matters_without_room(&self, atom: u32) -> bool {
        let holder = self.of_atom[atom as usize];
        holder != NONE && self.yielding.matters_without_room(holder)
    }

    /// The least work that must be lost for each lack, if holders could yield in parts: atoms of some
    /// work in turn, those that are gone already with none. `None` if there is too little of one.
    pub(crate) fn least_work(
        &self,
        gone: &[u32],
        open: impl Iterator<Item = (u32, u64)>,
    ) -> Option<u64> {
        let lacks = self.yielding.lacks();
        if lacks.is_empty() {
            return Some(0);
        }
        let mut left = lacks.to_vec();
        for &atom in gone {
            // A holder may be whole yet: each of its atoms counts as all of it.
            for (at, left) in left.iter_mut().enumerate() {
                *left -= self.yielding.gives(self.of_atom[atom as usize], at);
            }
        }
        let open: Vec<(u32, u64)> = open.collect();
        let mut rates: Vec<(u128, i64, u64)> = Vec::new();
        let mut most = 0;
        for (at, &left) in left.iter().enumerate().filter(|(_, left)| **left > 0) {
            rates.clear();
            for &(atom, work) in &open {
                let amount = self.yielding.gives(self.of_atom[atom as usize], at);
                if amount > 0 {
                    rates.push(((u128::from(work) << 32) / amount as u128, amount, work));
                }
            }
            rates.sort_unstable();
            let (mut left, mut least) = (left, 0_u64);
            for &(_, amount, work) in &rates {
                let part = amount.min(left);
                let share = u128::from(work) * part as u128 / amount as u128;
                least = least.saturating_add(share as u64);
                left -= part;
                if left == 0 {
                    break;
                }
            }
            if left > 0 {
                return None;
            }
            most = most.max(least);
        }
        Some(most)
    }

    /// The rate at which an atom frees the short amounts, in 2⁻³² of work; the last rate if it
    /// frees nothing.
    pub(crate) fn rate(&self, atom: u32, work: u64) -> u128 {
        let holder = self.of_atom[atom as usize];
        let lacks = 0..self.yielding.lacks().len();
        let rate = |lack: usize| {
            let amount = self.yielding.gives(holder, lack);
            if amount > 0 { (u128::from(work) << 32) / amount as u128 } else { u128::MAX }
        };
        lacks.map(rate).min().unwrap_or(u128::MAX)
    }
}
