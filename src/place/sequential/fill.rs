//! Filling a leaf: the best row for each member, one after another.

use alloc::vec::Vec;

use crate::framework::Framework;
use crate::place::cache::tables::PlannerCache;
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::Member;
use crate::place::scoring::classes::{Log, Site};
use crate::place::scoring::scratch::Overflow;
use crate::place::topology::candidates::Candidate;
use crate::state::{Cluster, Devices, Row};

impl PlannerCache {
    /// Places one member of a gang.
    pub(crate) fn take(
        &mut self,
        cluster: &Cluster,
        gang: &Gang,
        member: &Member,
    ) -> Result<(), PlaceError> {
        self.scratch.take_member(cluster, gang, member)?;
        self.tell_far(true, member.row, gang.shape_of()[member.number as usize]);
        Ok(())
    }

    /// Takes back what was placed since a mark.
    pub(crate) fn rollback(&mut self, cluster: &Cluster, mark: usize) {
        self.scratch.rollback(cluster, mark);
        self.classes.events.rollback(mark);
    }

    #[inline]
    fn settle(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        table: usize,
        row: Row,
        shape: u32,
    ) -> Option<Result<Option<Devices>, Overflow>> {
        let settled = self.scratch.settle(cluster, framework, &self.tables[table], row, shape);
        self.tell_far(matches!(settled, Some(Ok(_))), row, shape);
        settled
    }

    /// Tells plugins that read beyond the node of a pod that was placed, if there are any.
    #[inline]
    fn tell_far(&mut self, placed: bool, row: Row, shape: u32) {
        if placed && self.far {
            self.classes.events.placed(row as u32, &self.scratch.shapes[shape as usize]);
        }
    }

    /// Places pods of a leaf one after another, each on the best row of `rows` (`None`: of all),
    /// and tells of each: its place among `shapes`, and the row it got.
    ///
    /// `tables` are those of the request's shapes.
    pub(crate) fn fill(
        &mut self,
        (cluster, framework): (&Cluster, &Framework),
        tables: &[usize],
        rows: Option<&[Row]>,
        shapes: impl Iterator<Item = Option<u32>>,
        mut tell: impl FnMut(usize, Row, Option<Devices>),
    ) -> Result<(), Overflow> {
        if let Some(rows) = rows {
            if self.far {
                return self.fill_far((cluster, framework), tables, rows, shapes, tell);
            }
            let table_of = |shape: u32| {
                let table = &self.tables[tables[shape as usize]];
                (table, table.cursor)
            };
            return self.scratch.fill_within((cluster, framework), table_of, rows, shapes, tell);
        }
        for (member, shape) in shapes.enumerate() {
            let Some(shape) = shape else { continue };
            let place = tables[shape as usize];
            self.flush(cluster, framework, place);
            if let Some(row) = self.best(cluster, framework, place)
                && let Some(devices) = self.settle(cluster, framework, place, row, shape)
            {
                tell(member, row, devices?);
            }
        }
        Ok(())
    }

    /// How many of so many pods of a shape, among all of a request, go to each candidate, if
    /// counts tell.
    pub(crate) fn counts(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        (table, shape): (usize, u32),
        (pods, all): (usize, usize),
        candidates: &[Candidate],
    ) -> Option<Vec<usize>> {
        if self.far
            || !self.tables[table].prepared.counts
            || !self.scratch.takes[shape as usize].needs.is_empty()
            || !self.scratch.cannot_overflow(cluster, all)
        {
            return None;
        }
        self.flush(cluster, framework, table);
        let table = &self.tables[table];
        let mut rooms = Vec::new();
        let count = |candidate: &Candidate| {
            let rows = candidate.rows(None).unwrap_or(&[]);
            let feasible = || rows.iter().filter(|row| table.ranking.is_feasible(**row));
            if rows.len() >= pods && feasible().take(pods).count() == pods {
                return pods;
            }
            let mut room = 0;
            for &row in feasible() {
                if rooms.is_empty() {
                    table.prepared.rooms(framework, cluster, &self.scratch.overlay, &mut rooms);
                }
                room += rooms[row].clamp(1, pods as i64) as usize;
                if room >= pods {
                    return pods;
                }
            }
            room
        };
        Some(candidates.iter().map(count).collect())
    }

    /// The best of all rows; the table is up to date.
    #[inline]
    fn best(&mut self, cluster: &Cluster, framework: &Framework, place: usize) -> Option<Row> {
        let table = &mut self.tables[place];
        if !table.is_far() {
            return table.ranking.best();
        }
        let log = Log { rows: &self.scratch.log, start: self.scratch.log_start };
        let site = Site { framework, cluster, overlay: &self.scratch.overlay, log };
        self.classes.best_of_all(table, site)
    }

    /// [`PlannerCache::fill`] within rows, where plugins read beyond the node for some shape.
    fn fill_far(
        &mut self,
        (cluster, framework): (&Cluster, &Framework),
        tables: &[usize],
        rows: &[Row],
        shapes: impl Iterator<Item = Option<u32>>,
        mut tell: impl FnMut(usize, Row, Option<Devices>),
    ) -> Result<(), Overflow> {
        self.scratch.note_positions(cluster, rows);
        // Up to where of the log each ranking is; `None` for rankings not made yet.
        let mut cursors: Vec<Option<u64>> = alloc::vec![None; tables.len()];
        let mut outcome = Ok(());
        for (member, shape) in shapes.enumerate() {
            let Some(shape) = shape else { continue };
            let (at, place) = (shape as usize, tables[shape as usize]);
            let (table, cursor) = (&mut self.tables[place], &mut cursors[at]);
            let best = if table.is_far() {
                let log = Log { rows: &self.scratch.log, start: self.scratch.log_start };
                let site = Site { framework, cluster, overlay: &self.scratch.overlay, log };
                self.classes.best_within(table, site, rows, self.scratch.positions(), at, cursor)
            } else {
                let start = (&*table, table.cursor);
                self.scratch.best_within((cluster, framework), start, rows, shape, cursor)
            };
            self.scratch.look();
            let Some(row) = best else { continue };
            match self.settle(cluster, framework, place, row, shape) {
                Some(Ok(devices)) => tell(member, row, devices),
                Some(Err(overflow)) => {
                    outcome = Err(overflow);
                    break;
                }
                None => {}
            }
        }
        self.scratch.forget_positions(rows);
        outcome
    }
}
