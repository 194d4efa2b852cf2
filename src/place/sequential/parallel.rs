//! Trying candidate domains side by side.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rayon::prelude::*;

use super::tables::TableEngine;
use super::{Engine, Sequential};
use crate::framework::Framework;
use crate::model::PodGroup;
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::{Layout, Member};
use crate::place::scoring::scratch::{Scratch, is_hopeless};
use crate::place::scoring::table::ScoreTable;
use crate::place::topology::candidates::{Candidate, all_rows, partition};
use crate::state::{Cluster, Devices, LabelKey, Overlay, Row};

/// A ground with a scratch of its own, over tables that others read, too. Nothing is placed on it but
/// within domains.
struct ForkedEngine<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    gang: &'a Gang,
    /// By shape.
    tables: &'a [&'a ScoreTable],
    scratch: Scratch,
}

/// Pods placed in trials from which another thread is worth its while.
const WORTH_IT: usize = 1_000;

impl TableEngine<'_> {
    /// What comes of each candidate, tried on the ground as it is; `None` if that is not worth
    /// more than one thread, or something is placed already.
    pub(crate) fn side_by_side(
        &mut self,
        (group, first): (&PodGroup, usize),
        (candidates, rows): (&[Candidate], Option<&[Row]>),
        prune: bool,
    ) -> Option<Result<Vec<Option<Layout>>, PlaceError>> {
        let threads = self.memory.threads.min(candidates.len());
        if threads < 2
            || self.memory.far
            || group.pod_count() * candidates.len() < WORTH_IT
            || self.memory.scratch.overlay.mark() > 0
        {
            return None;
        }
        let end = self.memory.scratch.log_end();
        let tables: Vec<&ScoreTable> =
            self.tables.iter().map(|table| &self.memory.tables[*table]).collect();
        if tables.iter().any(|table| table.cursor != end) {
            return None;
        }
        let scratch = &self.memory.scratch;
        let trials: Vec<_> = candidates
            .par_chunks(candidates.len().div_ceil(threads))
            .map(|candidates| {
                let (cluster, framework, gang) = (self.cluster, self.framework, self.gang);
                let scratch = scratch.fork();
                let ground = ForkedEngine { cluster, framework, gang, tables: &tables, scratch };
                let mut strategy = Sequential { framework, ground, prune };
                let trials: Result<Vec<_>, _> = candidates
                    .iter()
                    .map(|candidate| {
                        if prune && strategy.is_hopeless(group, first, candidate.rows(rows)) {
                            return Ok(None);
                        }
                        let mut trial = Layout::default();
                        let within = (candidate, rows);
                        let fits =
                            strategy.try_candidate(gang, group, first, within, &mut trial)?;
                        strategy.ground.rollback(0)?;
                        Ok(fits.then_some(trial))
                    })
                    .collect();
                (trials, strategy.ground.scratch.calls)
            })
            .collect();
        let mut all = Vec::with_capacity(candidates.len());
        for (trials, calls) in trials {
            self.memory.scratch.calls += calls;
            match trials {
                Ok(trials) => all.extend(trials),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(all))
    }
}

impl ForkedEngine<'_> {
    fn rows<'r>(&self, rows: Option<&'r [Row]>) -> Cow<'r, [Row]> {
        rows.map_or_else(|| Cow::Owned(all_rows(self.cluster)), Cow::Borrowed)
    }
}

impl Engine for ForkedEngine<'_> {
    fn cluster(&self) -> &Cluster {
        self.cluster
    }

    fn state(&self) -> &Cluster {
        self.cluster
    }

    fn overlay(&self) -> Option<&Overlay> {
        Some(&self.scratch.overlay)
    }

    fn mark(&self) -> usize {
        self.scratch.overlay.mark()
    }

    fn rollback(&mut self, mark: usize) -> Result<(), PlaceError> {
        self.scratch.rollback(self.cluster, mark);
        Ok(())
    }

    fn take(&mut self, member: &Member) -> Result<(), PlaceError> {
        self.scratch.take_member(self.cluster, self.gang, member)
    }

    fn fill(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        rows: Option<&[Row]>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        let rows = self.rows(rows);
        let tables = self.tables;
        let filled = self.scratch.fill_within(
            (self.cluster, self.framework),
            |shape| (tables[shape as usize], 0),
            &rows,
            self.gang.shapes_of(leaf, first),
            |index: usize, row: Row, devices: Option<Devices>| {
                placed.push(Member { number: (first + index) as u32, row, devices });
            },
        );
        filled.map_err(|overflow| self.scratch.overflow(self.cluster, overflow, self.gang))
    }

    fn is_hopeless(
        &self,
        first: usize,
        members: usize,
        wanted: usize,
        rows: Option<&[Row]>,
    ) -> bool {
        let shapes = &self.gang.shape_of()[first..first + members];
        is_hopeless(shapes, wanted, rows, |shape, rows| {
            self.tables[shape as usize].is_closed(rows, &self.scratch.overlay)
        })
    }

    fn partition(&mut self, rows: Option<&[Row]>, key: LabelKey) -> Arc<[Candidate]> {
        partition(self.cluster, &self.rows(rows), key).into()
    }
}
