//! The placement backend under the sequential strategy.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::model::PodGroup;
use crate::place::cache::domains::Raws;
use crate::place::error::PlaceError;
use crate::place::layout::Member;
use crate::place::topology::partition::Candidate;
use crate::state::{Cluster, DeviceTerm, LabelKey, Overlay, Row};

/// The confinement of what is placed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Confinement<'a> {
    /// The rows that pods may go to; `None` for all.
    pub(crate) rows: Option<&'a [Row]>,
    /// The island that their devices are chosen from, if any.
    pub(crate) island: Option<DeviceTerm>,
}

impl<'a> Confinement<'a> {
    /// Confined to some rows; `None` for all.
    pub(crate) fn rows(rows: Option<&'a [Row]>) -> Confinement<'a> {
        Confinement { rows, island: None }
    }

    /// Confined to a candidate domain, within what is confined already.
    pub(crate) fn candidate(self, candidate: &'a Candidate) -> Confinement<'a> {
        Confinement { rows: candidate.rows(self.rows), island: candidate.island.or(self.island) }
    }
}

/// Places members one by one, and takes them back.
pub(crate) trait Engine {
    /// An engine that tries candidate domains on another thread.
    #[cfg(feature = "parallel")]
    type Fork<'f>: Engine + Send
    where
        Self: 'f;

    /// The cluster with what was placed, or the cluster as it was and an overlay with what was.
    fn state(&self) -> (&Cluster, Option<&Overlay>);

    /// The number of members placed, to roll back to.
    fn mark(&self) -> usize;

    /// Takes back what was placed since a mark.
    fn rollback(&mut self, mark: usize) -> Result<(), PlaceError>;

    /// Places one member on a row.
    fn take(&mut self, member: &Member) -> Result<(), PlaceError>;

    /// Places the members of a leaf in order, each on its best row within the confinement, and
    /// skips those that do not fit. `first` is the number of the first member.
    fn fill(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        within: Confinement<'_>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError>;

    /// Whether it is clear, without placing, that fewer than `wanted` of `members` members fit. False
    /// where the engine keeps no counts; so are [`Engine::counts`] none.
    fn is_hopeless(
        &self,
        _first: usize,
        _members: usize,
        _wanted: usize,
        _rows: Option<&[Row]>,
    ) -> bool {
        false
    }

    /// The number of members of a leaf that would be placed in each candidate, if counts tell.
    fn counts(
        &mut self,
        _leaf: &PodGroup,
        _first: usize,
        _candidates: &[Candidate],
    ) -> Option<Vec<usize>> {
        None
    }

    /// Raw scores by plugin that are kept for the counts told last of candidates, where so many
    /// members run; `None` if the engine keeps none.
    fn kept_scores(
        &mut self,
        _leaf: &PodGroup,
        _first: usize,
        _candidates: &[Candidate],
        _running: usize,
    ) -> Option<&mut Vec<Raws>> {
        None
    }

    /// The domains that keys make of `rows`, in order of name.
    fn partition(&mut self, rows: Option<&[Row]>, keys: &[LabelKey]) -> Arc<[Candidate]>;

    /// An engine over the same state with nothing placed; `None` if something is placed, or what is
    /// placed changes more than its row.
    #[cfg(feature = "parallel")]
    fn fork(&self) -> Option<Self::Fork<'_>>;

    /// Adds to the counted evaluations of a node by a plugin, and returns their number.
    #[cfg(feature = "parallel")]
    fn count_calls(&mut self, more: u64) -> u64;
}
