//! Packing: how many pods of each demand go into each bin, exactly.
//!
//! First quick fills in several orders. Then bins are filled one after another, each with every
//! maximal choice of the remaining pods, best first. Sums and counts prune, and states that failed
//! are remembered. To fill maximally loses nothing: a pod that still fits can be moved here from a
//! later bin. So the search is complete.
//!
//! Source: bin completion after Gent and Korf (2002, 2003), here for several resources, bins of
//! different sizes and pods that not every bin takes.

mod complete;
mod instance;
mod quick;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use self::complete::Search;
pub(crate) use self::instance::{Demand, Packing};

/// The result of a packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packed {
    /// Demand, bin, number of pods.
    Fits(Vec<(usize, usize, u32)>),
    /// There is no way.
    Never,
    /// The steps ran out.
    Unknown,
}

impl Packing {
    /// The result by sums and quick fills alone; `None` if those do not decide.
    pub(crate) fn easily(&self) -> Option<Packed> {
        let scales = self.scales();
        if scales.iter().any(|scale| scale.need > scale.free) {
            return Some(Packed::Never);
        }
        self.fill_quickly(&scales).map(Packed::Fits)
    }

    /// Solves the problem, in at most so many steps; steps taken are subtracted.
    pub(crate) fn complete(&self, steps: &mut u64) -> Packed {
        let mut search = Search::new(self, &self.scales());
        match search.run(steps) {
            Some(true) => Packed::Fits(search.answer()),
            Some(false) => Packed::Never,
            None => Packed::Unknown,
        }
    }
}
