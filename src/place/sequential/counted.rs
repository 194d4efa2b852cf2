//! Choosing among domains from counts, before anything is placed.
//!
//! How many identical pods a domain takes is known without placing them, and most domain-level
//! scores read no more than that. Then only the domain with the best score is filled.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::engine::{Confinement, Engine};
use super::{Proposal, Sequential, weighed};
use crate::model::PodGroup;
use crate::place::cache::domains::Raws;
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
        &mut self,
        gang: &Gang,
        (group, first): (&PodGroup, usize),
        candidates: &[Candidate],
        counts: &[usize],
        fitting: &[usize],
    ) -> Vec<i64> {
        let mut totals = vec![0; fitting.len()];
        let (Some(&shape), true) = (gang.shape_of().get(first), fitting.len() > 1) else {
            return totals;
        };
        let plugins = self.framework.domain_scores();
        let running = running(self.cluster, group);
        let keeps = !plugins.iter().any(|(_, plugin)| plugin.reads_beyond());
        let kept = |engine: &mut E, raws: &mut Vec<Raws>| {
            let kept = keeps.then(|| engine.kept_scores(group, first, candidates, running));
            if let Some(kept) = kept.flatten() {
                core::mem::swap(kept, raws);
            }
        };
        let mut raws = Vec::new();
        kept(&mut self.engine, &mut raws);
        raws.resize_with(plugins.len(), || vec![None; candidates.len()]);
        let is_new = |at: &usize| raws.iter().any(|raws| raws[*at].is_none());
        let new: Vec<usize> = fitting.iter().copied().filter(is_new).collect();
        let counted: Vec<_> = new.iter().map(|&at| [(&**gang.shape(shape), counts[at])]).collect();
        let proposals: Vec<Proposal<'_>> = new
            .iter()
            .zip(&counted)
            .map(|(&at, counted)| {
                let rows = candidates[at].rows(None).unwrap_or(&[]);
                Proposal { rows, proposed: &[], counted }
            })
            .collect();
        self.score_proposals(group, &proposals, |plugin, domain, raw| {
            raws[plugin][new[domain]] = Some(raw);
        });
        for ((weight, plugin), raws) in plugins.iter().zip(&raws) {
            let raws = fitting.iter().map(|&at| raws[at].unwrap_or(0)).collect();
            let own = weighed(*weight, plugin.normalization(), raws);
            totals.iter_mut().zip(own).for_each(|(total, score)| *total += score);
        }
        kept(&mut self.engine, &mut raws);
        totals
    }
}
