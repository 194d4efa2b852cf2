//! Trials of candidate domains on several threads.

use alloc::vec::Vec;

use rayon::prelude::*;

use super::Sequential;
use super::engine::{Confinement, Engine};
use crate::model::PodGroup;
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::Layout;
use crate::place::topology::partition::Candidate;

/// Runs of equal pods in trials from which another thread is worth its while.
const WORTH_IT: usize = 1_000;

impl<E: Engine> Sequential<'_, E> {
    /// The trial of each candidate on the state as it is, `None` for one that the group does not
    /// fit. `None` altogether if the trials have to be made one after another, or are too few to be
    /// worth more than one thread.
    pub(super) fn try_side_by_side(
        &mut self,
        gang: &Gang,
        (group, first): (&PodGroup, usize),
        within: Confinement<'_>,
        candidates: &[Candidate],
    ) -> Result<Option<Vec<Option<Layout>>>, PlaceError> {
        let threads = self.threads.min(candidates.len());
        let members = gang.shape_of().get(first..first + group.pod_count()).unwrap_or(&[]);
        let runs = || members.chunk_by(PartialEq::eq).count();
        if threads < 2
            || self.framework.domain_scores().is_empty()
            || runs() * candidates.len() < WORTH_IT
        {
            return Ok(None);
        }
        let shares = candidates.chunks(candidates.len().div_ceil(threads));
        let forks = shares.map(|share| Some((self.engine.fork()?, share)));
        let Some(forks) = forks.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let (cluster, framework, prune) = (self.cluster, self.framework, self.prune);
        let sense = self.sense;
        let tried: Vec<_> = forks
            .into_par_iter()
            .map(|(engine, share)| {
                let mut fork = Sequential { cluster, framework, engine, sense, prune, threads: 1 };
                let trials = fork.try_one_by_one(gang, (group, first), within, share);
                (trials, fork.engine.count_calls(0))
            })
            .collect();
        let mut all = Vec::with_capacity(candidates.len());
        for (trials, calls) in tried {
            self.engine.count_calls(calls);
            all.extend(trials?);
        }
        Ok(Some(all))
    }

    /// The trial of each candidate, with nothing placed before and after.
    fn try_one_by_one(
        &mut self,
        gang: &Gang,
        (group, first): (&PodGroup, usize),
        within: Confinement<'_>,
        candidates: &[Candidate],
    ) -> Result<Vec<Option<Layout>>, PlaceError> {
        let trial = |candidate: &Candidate| {
            let inside = within.candidate(candidate);
            if self.prune && self.is_hopeless(group, first, inside.rows) {
                return Ok(None);
            }
            let mut trial = Layout::default();
            let fits = self.fill_group(gang, group, first, inside, &mut trial)?;
            self.engine.rollback(0)?;
            Ok(fits.then_some(trial))
        };
        candidates.iter().map(trial).collect()
    }
}
