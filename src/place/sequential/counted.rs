//! Choosing among domains from counts, before anything is placed.
//!
//! How many identical pods a domain takes is known without placing them, and most domain-level
//! scores read no more than that. Then only the domain with the best score is filled.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::engine::{Confinement, Engine};
use super::{Proposal, Sequential};
use crate::model::PodGroup;
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::Layout;
use crate::place::topology::partition::Candidate;
use crate::place::topology::pinned::running;

impl<E: Engine> Sequential<'_, E> {
    /// Places a leaf in the best of its candidates, if counts tell which that is. `None`, with
    /// nothing placed, where they do not, or no candidate will do.
    pub(crate) fn place_counted<'c>(
        &mut self,
        gang: &Gang,
        group: &PodGroup,
        first: usize,
        within: Confinement<'_>,
        candidates: &'c [Candidate],
    ) -> Result<Option<(&'c Candidate, Layout)>, PlaceError> {
        let scores = self.framework.domain_scores();
        if !self.prune
            || candidates.len() < 2
            || !group.groups.is_empty()
            || scores.iter().any(|(_, score)| score.reads_places())
        {
            return Ok(None);
        }
        let Some(counts) = self.engine.counts(group, first, candidates) else { return Ok(None) };
        let running = running(self.cluster, group);
        let minimum = group.policy.minimum() as usize;
        let suits = |at: &usize| counts[*at] + running >= minimum;
        let fitting: Vec<usize> = (0..candidates.len()).filter(suits).collect();
        let totals = self.counted_totals(gang, (group, first), candidates, &counts, &fitting);
        // Candidates are in order of name, so the first of the best is the one to take.
        let best = (0..fitting.len()).min_by_key(|&at| (Reverse(totals[at]), at));
        let Some(best) = best.map(|at| fitting[at]) else { return Ok(None) };
        let mark = self.engine.mark();
        let mut trial = Layout::default();
        let candidate = &candidates[best];
        let fits = self.fill_group(gang, group, first, within.candidate(candidate), &mut trial)?;
        if fits && trial.members.len() == counts[best] {
            return Ok(Some((candidate, trial)));
        }
        // A filter's room is wrong. Trials of all candidates do not rely on it.
        self.engine.rollback(mark)?;
        Ok(None)
    }

    /// The sums of domain-level scores, normalised and weighted, of those candidates that suit.
    fn counted_totals(
        &self,
        gang: &Gang,
        (group, first): (&PodGroup, usize),
        candidates: &[Candidate],
        counts: &[usize],
        fitting: &[usize],
    ) -> Vec<i64> {
        let (Some(&shape), true) = (gang.shape_of().get(first), fitting.len() > 1) else {
            return alloc::vec![0; fitting.len()];
        };
        let counted: Vec<_> = counts.iter().map(|&count| [(&**gang.shape(shape), count)]).collect();
        let proposals: Vec<Proposal<'_>> = fitting
            .iter()
            .map(|&at| {
                let rows = candidates[at].rows(None).unwrap_or(&[]);
                Proposal { rows, proposed: &[], counted: &counted[at] }
            })
            .collect();
        let mut totals = alloc::vec![0; fitting.len()];
        self.score_proposals(group, &proposals, |domain, score| totals[domain] += score);
        totals
    }
}
