//! The fast way through the sequential strategy: runs of identical pods on kept tables.
//!
//! Everything here returns what [`sequential`](super::sequential) with its plain loop returns.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::board::Board;
use super::classes::{Classes, Log, Site};
use super::domains::{Candidate, partition};
use super::table::{Scratch, Table};
use crate::base::hash::{FixedMap, hash_of};
use crate::framework::Framework;
use crate::framework::device_choice::choose_devices;
use crate::model::PodShape;
use crate::state::journal::{Change, Moment};
use crate::state::{Cluster, Devices, LabelKey, Overlay, Row, Takes};

/// Tables kept at most, and at most so many rows in all tables together.
const TABLES: usize = 4_096;
const TABLE_ROWS: usize = 8_000_000;

/// What a planner keeps between requests: tables by shape, brought up to date from the cluster's
/// journal, and the buffers of a decision under way.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    framework: Option<Framework>,
    moment: Moment,
    rank_epoch: u64,
    tables: Vec<Table>,
    by_shape: FixedMap<u64, Vec<u32>>,
    /// Tables by the address of their shape.
    by_address: FixedMap<usize, u32>,
    /// Rows that changed, oldest first; `log_start` were dropped before the first.
    log: Vec<u32>,
    log_start: u64,
    /// Up to where some table or board has looked at the log.
    seen: u64,
    requests: u64,
    partitions: FixedMap<LabelKey, Arc<[Candidate]>>,
    pub(crate) overlay: Overlay,
    pub(crate) takes: Vec<Takes>,
    /// The shapes of the request, as `takes` has them.
    pub(crate) shapes: Vec<Arc<PodShape>>,
    /// Whether pods with affinity terms are placed: plugins may come to be concerned then.
    pub(crate) affinity: bool,
    classes: Classes,
    scratch: Scratch,
    /// How many threads coarse work may use.
    pub(crate) threads: usize,
    boards: Vec<Board>,
    places: Vec<u32>,
    dirty: Vec<u32>,
    calls: u64,
}

impl Memory {
    /// Takes in what has changed since the last request.
    pub(crate) fn sync(&mut self, cluster: &Cluster, framework: &Framework) {
        self.requests += 1;
        let (log, seen) = (&mut self.log, self.seen - self.log_start);
        self.overlay.clear(cluster.rows(), |row| note(log, seen, row));
        self.classes.events.begin();
        let same = self.framework.as_ref().is_some_and(|known| known.same(framework));
        let now = cluster.moment();
        let known = same && self.rank_epoch == cluster.rank_epoch && self.catch_up(cluster);
        if !known {
            self.framework = Some(framework.clone());
            self.forget();
        }
        self.moment = now;
        self.rank_epoch = cluster.rank_epoch;
        if self.log.len() > 4 * cluster.rows() + 4_096 {
            let keep = self.log.len() / 2;
            self.log_start += keep as u64;
            self.seen = self.seen.max(self.log_start);
            self.log.drain(..keep);
        }
    }

    /// Follows the journal; false if it does not reach back far enough, or nodes have changed.
    fn catch_up(&mut self, cluster: &Cluster) -> bool {
        if cluster.moment() == self.moment {
            return true;
        }
        let Some(changes) = cluster.journal.since(self.moment) else { return false };
        for change in changes {
            match change {
                Change::Pods(row) => {
                    note(&mut self.log, self.seen - self.log_start, row);
                    self.classes.events.changed(cluster, row);
                }
                Change::Nodes | Change::Namespaces => return false,
            }
        }
        true
    }

    fn forget(&mut self) {
        for table in self.tables.drain(..) {
            self.calls += table.all_calls();
        }
        self.classes.forget();
        self.by_shape.clear();
        self.by_address.clear();
        self.partitions.clear();
        self.log.clear();
        self.log_start = 0;
        self.seen = 0;
    }

    /// Evaluations of a node by a plugin, so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls + self.tables.iter().map(Table::all_calls).sum::<u64>()
    }

    /// The table of a shape, judging every row if it is new. `None` if a plugin has to be asked
    /// about every node again and again; `Err` if it is clear that fewer than `wanted` pods fit.
    pub(crate) fn table(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        wanted: usize,
    ) -> Option<Result<usize, TooFew>> {
        let same = |table: &Table| Arc::ptr_eq(&table.shape, shape) || table.shape == *shape;
        let pointer = Arc::as_ptr(shape) as usize;
        // A shape met before, by its address: the table holds the shape, so if it is still the
        // same one the address has not been used again.
        let near = self.by_address.get(&pointer).copied().filter(|&place| {
            self.tables.get(place as usize).is_some_and(|table| Arc::ptr_eq(&table.shape, shape))
        });
        let mut hash = 0;
        let found = near.or_else(|| {
            hash = hash_of(&**shape);
            let places = self.by_shape.get(&hash)?;
            places.iter().copied().find(|&place| same(&self.tables[place as usize]))
        });
        if let Some(place) = found {
            let place = place as usize;
            let behind = self.log_end() - self.tables[place].cursor;
            let reachable = self.tables[place].cursor >= self.log_start;
            let table = &mut self.tables[place];
            table.last_use = self.requests;
            if reachable {
                if !self.ready(cluster, framework, place) {
                    return None;
                }
                let table = &mut self.tables[place];
                if behind == 0 && !table.scored && table.room(framework, cluster) < wanted as i64 {
                    return Some(Err(TooFew));
                }
                // Rows told of more than once are looked at once.
                if table.scored && (behind as usize) < 4 * cluster.rows().max(64) {
                    self.flush(cluster, framework, place);
                    return Some(self.enough(cluster, framework, place, wanted));
                }
            }
            let calls = self.tables[place].all_calls();
            let mut table = Table::prepare(framework, cluster, shape)?;
            core::mem::swap(&mut table.board, &mut self.tables[place].board);
            table.calls = calls;
            self.tables[place] = table;
            if !self.ready(cluster, framework, place) {
                return None;
            }
            return Some(self.build(cluster, framework, place, wanted));
        }
        let mut table = Table::prepare(framework, cluster, shape)?;
        table.concerned = self.affinity;
        if !self.classes.ready(&mut table, framework, cluster, &self.overlay) {
            return None;
        }
        let place = self.make_room(cluster.rows());
        if let Some(place) = place {
            core::mem::swap(&mut table.board, &mut self.tables[place].board);
        }
        let place = self.keep(table, hash, place);
        Some(self.build(cluster, framework, place, wanted))
    }

    /// Prepares the far plugins of a table; false if one of them promises nothing.
    fn ready(&mut self, cluster: &Cluster, framework: &Framework, place: usize) -> bool {
        let table = &mut self.tables[place];
        table.concerned = self.affinity || !table.still_holds(framework, cluster);
        self.classes.ready(table, framework, cluster, &self.overlay)
    }

    /// Keeps a table, in place of another or beside the others.
    fn keep(&mut self, table: Table, hash: u64, place: Option<usize>) -> usize {
        let address = Arc::as_ptr(&table.shape) as usize;
        match place {
            Some(place) => {
                let old = core::mem::replace(&mut self.tables[place], table);
                self.calls += old.all_calls();
                self.by_address.remove(&(Arc::as_ptr(&old.shape) as usize));
                if let Some(places) = self.by_shape.get_mut(&hash_of(&*old.shape)) {
                    places.retain(|&other| other as usize != place);
                }
            }
            None => self.tables.push(table),
        }
        let place = place.unwrap_or(self.tables.len() - 1);
        self.by_shape.entry(hash).or_default().push(place as u32);
        self.by_address.insert(address, place as u32);
        place
    }

    /// Makes the tables of shapes that were not met before, side by side. Worth it from some
    /// ten thousand rows to judge; below that nothing is done here.
    #[cfg(feature = "parallel")]
    pub(crate) fn prebuild(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        shapes: &[Arc<PodShape>],
    ) {
        use rayon::prelude::*;
        const WORTH_IT: usize = 10_000;
        if self.threads < 2 || shapes.len() < 2 {
            return;
        }
        let is_new = |shape: &&Arc<PodShape>| {
            let places = self.by_shape.get(&hash_of(&***shape)).map_or(&[][..], Vec::as_slice);
            !places.iter().any(|&place| self.tables[place as usize].shape == **shape)
        };
        let mut new: Vec<&Arc<PodShape>> = shapes.iter().filter(is_new).collect();
        let most = (TABLE_ROWS / cluster.rows().max(1)).clamp(4, TABLES);
        new.truncate(most);
        if new.len() < 2 || new.len() * cluster.rows() < WORTH_IT {
            return;
        }
        let built: Vec<Option<Table>> = new
            .par_iter()
            .map(|shape| {
                let mut table = Table::prepare(framework, cluster, shape)?;
                table.build(framework, cluster, 0, &mut Scratch::default());
                Some(table)
            })
            .collect();
        self.seen = self.log_end();
        for mut table in built.into_iter().flatten() {
            table.cursor = self.log_end();
            table.last_use = self.requests;
            let (hash, place) = (hash_of(&*table.shape), self.make_room(cluster.rows()));
            self.keep(table, hash, place);
        }
    }

    /// A table to be replaced, if there are enough: the one not asked for the longest.
    fn make_room(&self, rows: usize) -> Option<usize> {
        let most = (TABLE_ROWS / rows.max(1)).clamp(4, TABLES);
        if self.tables.len() < most {
            return None;
        }
        (0..self.tables.len()).min_by_key(|&place| self.tables[place].last_use)
    }

    fn build(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        place: usize,
        wanted: usize,
    ) -> Result<usize, TooFew> {
        let end = self.log_end();
        let table = &mut self.tables[place];
        table.last_use = self.requests;
        // The overlay is empty while tables are made: nothing has been placed yet.
        table.cursor = end;
        self.seen = end;
        if table.build(framework, cluster, wanted, &mut self.scratch) {
            Ok(place)
        } else {
            Err(TooFew)
        }
    }

    fn enough(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        place: usize,
        wanted: usize,
    ) -> Result<usize, TooFew> {
        let table = &mut self.tables[place];
        if wanted > 1 && table.room(framework, cluster) < wanted as i64
            || table.board.best().is_none() && wanted > 0
        {
            return Err(TooFew);
        }
        Ok(place)
    }

    pub(crate) fn log_end(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// Judges the rows again that changed since a table was looked at.
    pub(crate) fn flush(&mut self, cluster: &Cluster, framework: &Framework, place: usize) {
        let table = &mut self.tables[place];
        let from = (table.cursor - self.log_start) as usize;
        table.cursor = self.log_start + self.log.len() as u64;
        self.seen = table.cursor;
        let changed = &self.log[from..];
        if changed.is_empty() {
            return;
        }
        let parts = table.parts(framework);
        if let [row] = *changed {
            table.refresh(framework, cluster, &self.overlay, row as Row, &parts);
            return;
        }
        self.dirty.clear();
        self.dirty.extend(changed);
        self.dirty.sort_unstable();
        self.dirty.dedup();
        for &row in &self.dirty {
            table.refresh(framework, cluster, &self.overlay, row as Row, &parts);
        }
    }

    /// The parts that a label's values make of all nodes, in order of value.
    pub(crate) fn partition(&mut self, cluster: &Cluster, key: LabelKey) -> Arc<[Candidate]> {
        if let Some(parts) = self.partitions.get(&key) {
            return Arc::clone(parts);
        }
        let rows: Vec<Row> =
            cluster.nodes().map(super::super::state::view::NodeView::row).collect();
        let parts: Arc<[Candidate]> = partition(cluster, &rows, key).into();
        self.partitions.insert(key, Arc::clone(&parts));
        parts
    }

    /// Takes back what was placed since a mark.
    pub(crate) fn rollback(&mut self, cluster: &Cluster, mark: usize) {
        let (log, seen) = (&mut self.log, self.seen - self.log_start);
        self.overlay.rollback(cluster, mark, &self.takes, |row| note(log, seen, row));
        self.classes.events.rollback(mark);
    }

    /// Places one pod of a shape on the row found best, with devices if it asks for any. `None`
    /// if the row has none for it, which only happens where no filter looks at devices: the pod
    /// stays unplaced.
    #[inline]
    fn settle(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        pod: &PodShape,
        row: Row,
        shape: u32,
    ) -> Option<Result<Option<Devices>, Overflow>> {
        let takes = &self.takes[shape as usize];
        let devices = if takes.needs.is_empty() {
            None
        } else {
            let node = self.overlay.view(cluster, row);
            choose_devices(framework.device_choice(), cluster, pod, node, &takes.needs).ok()?
        };
        let fits = self.take(cluster, row, shape, devices.clone());
        Some(if fits { Ok(devices) } else { Err(Overflow(row)) })
    }

    /// Places one pod of a shape.
    #[inline]
    pub(crate) fn take(
        &mut self,
        cluster: &Cluster,
        row: Row,
        shape: u32,
        devices: Option<Devices>,
    ) -> bool {
        let takes = &self.takes[shape as usize];
        let fits = self.overlay.take(cluster, row, shape, takes, devices);
        if fits {
            note(&mut self.log, self.seen - self.log_start, row as u32);
            self.classes.events.placed(row as u32, &self.shapes[shape as usize]);
        }
        fits
    }

    /// Places pods of a leaf one after another, each on the best row of `rows` (`None`: of all),
    /// and tells of each: its place among `shapes`, and the row it got.
    ///
    /// `tables` are those of the request's shapes.
    pub(crate) fn fill(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        tables: &[usize],
        rows: Option<&[Row]>,
        shapes: impl Iterator<Item = Option<u32>>,
        mut tell: impl FnMut(usize, Row, Option<Devices>),
    ) -> Result<(), Overflow> {
        match rows {
            None => {
                for (member, shape) in shapes.enumerate() {
                    let Some(shape) = shape else { continue };
                    let place = tables[shape as usize];
                    self.flush(cluster, framework, place);
                    if let Some(row) = self.best(cluster, framework, place) {
                        let pod = Arc::clone(&self.tables[place].shape);
                        if let Some(devices) = self.settle(cluster, framework, &pod, row, shape) {
                            tell(member, row, devices?);
                        }
                    }
                }
                Ok(())
            }
            Some(rows) => {
                let mut boards = core::mem::take(&mut self.boards);
                let filled =
                    self.fill_within(cluster, framework, tables, rows, &mut boards, shapes, tell);
                self.boards = boards;
                filled
            }
        }
    }

    /// The best of all rows; the table is up to date.
    #[inline]
    fn best(&mut self, cluster: &Cluster, framework: &Framework, place: usize) -> Option<Row> {
        let table = &mut self.tables[place];
        if !table.is_far() {
            return table.board.best();
        }
        let log = Log { rows: &self.log, start: self.log_start };
        let site = Site { framework, cluster, overlay: &self.overlay, log };
        self.classes.best_of_all(table, site)
    }

    #[allow(clippy::too_many_arguments)]
    fn fill_within(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        tables: &[usize],
        rows: &[Row],
        boards: &mut Vec<Board>,
        shapes: impl Iterator<Item = Option<u32>>,
        mut tell: impl FnMut(usize, Row, Option<Devices>),
    ) -> Result<(), Overflow> {
        if self.places.len() < cluster.rows() {
            self.places.resize(cluster.rows(), 0);
        }
        for (place, &row) in rows.iter().enumerate() {
            self.places[row] = place as u32 + 1;
        }
        boards.resize_with(tables.len().max(boards.len()), Board::default);
        // Up to where of the log each board is; `None` for boards not made yet.
        let mut cursors: Vec<Option<u64>> = alloc::vec![None; tables.len()];
        let mut outcome = Ok(());
        for (member, shape) in shapes.enumerate() {
            let Some(shape) = shape else { continue };
            let at = shape as usize;
            let place = tables[at];
            let (board, cursor) = (&mut boards[at], &mut cursors[at]);
            let best = if self.tables[place].is_far() {
                self.best_far_within(cluster, framework, (place, at), rows, cursor)
            } else {
                self.best_near_within(cluster, framework, place, rows, board, cursor)
            };
            self.seen = self.log_end();
            let Some(row) = best else { continue };
            let pod = Arc::clone(&self.tables[place].shape);
            match self.settle(cluster, framework, &pod, row, shape) {
                Some(Ok(devices)) => tell(member, row, devices),
                Some(Err(overflow)) => {
                    outcome = Err(overflow);
                    break;
                }
                None => {}
            }
        }
        for &row in rows {
            self.places[row] = 0;
        }
        outcome
    }

    /// The best of some rows, on a board of their own that is made at a shape's first member.
    fn best_near_within(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        place: usize,
        rows: &[Row],
        board: &mut Board,
        cursor: &mut Option<u64>,
    ) -> Option<Row> {
        let table = &mut self.tables[place];
        let parts = table.parts(framework);
        let from = cursor.unwrap_or_else(|| {
            table.board.subset(board, rows.iter().copied(), &parts);
            table.cursor
        });
        for &row in &self.log[(from - self.log_start) as usize..] {
            let row = row as Row;
            if self.places[row] != 0 {
                let place = self.places[row] as usize - 1;
                let judgement = table.judge(framework, cluster, &self.overlay, row);
                board.set(place, cluster.columns.rank[row], judgement.as_ref(), &parts);
            }
        }
        *cursor = Some(self.log_end());
        board.best().map(|place| rows[place])
    }

    /// The same where plugins read beyond the node; the shape comes with its number in the gang.
    fn best_far_within(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        (place, number): (usize, usize),
        rows: &[Row],
        cursor: &mut Option<u64>,
    ) -> Option<Row> {
        let log = Log { rows: &self.log, start: self.log_start };
        let site = Site { framework, cluster, overlay: &self.overlay, log };
        let seats = &self.places;
        let table = &mut self.tables[place];
        self.classes.best_within(table, site, rows, seats, number, cursor)
    }

    /// How many rows of `rows` a shape can go to, as its table has them.
    pub(crate) fn feasible_within(&self, table: usize, rows: &[Row]) -> usize {
        let board = &self.tables[table].board;
        rows.iter().filter(|&&row| board.is_feasible(row)).count()
    }

    /// Whether a plugin of the table reads more of a node than its sums.
    pub(crate) fn reads_pods(&self, table: usize) -> bool {
        self.tables[table].reads_pods
    }
}

/// Adds a row to the log, unless it is the last one there and nobody has looked since.
fn note(log: &mut Vec<u32>, seen: u64, row: u32) {
    if log.len() as u64 == seen || log.last() != Some(&row) {
        log.push(row);
    }
}

/// It is clear that not enough pods fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooFew;

/// A sum of this row does not fit 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overflow(pub(crate) Row);
