//! Gangs with claims, over score tables of their pods without claims.
//!
//! The filter for claims is asked last, and only on the row that is best by all other plugins. If the
//! row has no devices for the pod, it is closed to pods of this lane, and the next best one is asked.
//! The outcome is that of the plain loop, since no score depends on which nodes are feasible. Where
//! one does, each row is asked once, and again when something is placed on it: see [`ranked`].

mod lanes;
mod ranked;

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use self::lanes::{Gift, Lane, Lanes};
use self::ranked::{Asking, Ranked};
use super::engine::{Confinement, Engine};
use super::tables::open_tables;
use crate::framework::{Framework, ScorePlugin};
use crate::model::{PodGroup, PodShape};
use crate::place::cache::Caches;
use crate::place::cache::offers::{Guests, Offers};
use crate::place::cache::tables::PlannerCache;
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::Member;
use crate::place::request::Task;
use crate::place::scoring::scratch::Overflow;
use crate::place::topology::partition::{Candidate, partition};
use crate::state::{Cluster, Devices, LabelKey, Overlay, Row};

/// The filter that is asked last, and the score that reads its answers.
const FILTER: &str = "DynamicResources";

/// A gang with claims that is being placed, over the tables of its shapes without claims.
pub(super) struct ClaimedEngine<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    gang: &'a Gang,
    cache: &'a mut PlannerCache,
    offers: &'a mut Offers,
    /// The index of each table in the cache.
    tables: SmallVec<[usize; 4]>,
    lanes: Lanes<'a>,
    guests: Guests,
    /// By table.
    closed: SmallVec<[Closed; 4]>,
    /// By lane; none for lanes that do without.
    ranked: SmallVec<[Option<Ranked>; 4]>,
    placed: Vec<Placed>,
}

/// A pod that was placed.
struct Placed {
    row: Row,
    lane: u32,
    is_guest: bool,
    /// The claims that members share which it was the first to get devices for.
    gifts: Gift,
}

/// The rows of a table that are closed, and to whom: a lane, as its claims were.
#[derive(Debug, Default)]
struct Closed {
    lane: (u32, u64),
    rows: Vec<Row>,
}

impl<'a> ClaimedEngine<'a> {
    /// An engine for a gang, some of whose pods have claims. `None` if it has to be placed another way.
    pub(super) fn open(caches: &'a mut Caches, task: Task<'a>) -> Option<ClaimedEngine<'a>> {
        let Task { cluster, framework, gang, request } = task;
        let bare = gang.bare()?;
        if gang.group().any(&PodGroup::wants_island) {
            return None;
        }
        let reads_claims = |shape: &Arc<PodShape>| {
            let mut filters = framework.filters().iter().filter(|own| own.name() != FILTER);
            let mut scores = framework.scores().iter().filter(|(_, own)| own.name() != FILTER);
            filters.any(|own| own.declare(shape).reads_claims)
                || scores.any(|(_, own)| own.declare(shape).reads_claims)
        };
        if !framework.filters().iter().any(|own| own.name() == FILTER)
            || bare.shapes.iter().any(reads_claims)
        {
            return None;
        }
        let Caches { tables: cache, offers, .. } = caches;
        if !offers.sync(cluster, framework) {
            return None;
        }
        let lanes = Lanes::of(cluster, gang, bare)?;
        let pods = (&bare.shapes[..], gang.members());
        let tables = open_tables(cache, (cluster, framework), request.salt, pods, 0)?.ok()?;
        if core::mem::take(&mut cache.has_non_local) {
            return None;
        }
        let is_scored = score_of(framework).is_some();
        let ranked = lanes.all.iter().map(|lane| {
            let is_plain = cache.tables[tables[lane.table]].prepared.is_plain();
            (lane.is_ranked && is_scored || !is_plain).then(Ranked::default)
        });
        Some(ClaimedEngine {
            cluster,
            framework,
            gang,
            ranked: ranked.collect(),
            closed: tables.iter().map(|_| Closed::default()).collect(),
            cache,
            guests: offers.take_guests(),
            offers,
            tables,
            lanes,
            placed: Vec::with_capacity(gang.members()),
        })
    }

    /// The best row for a pod of a lane, with its devices. `cursor` is `None` at the lane's first
    /// member in a domain.
    fn best(
        &mut self,
        number: u32,
        rows: Option<&[Row]>,
        cursor: &mut Option<(u64, u64)>,
    ) -> Option<(Row, Option<Devices>)> {
        let (cluster, framework) = (self.cluster, self.framework);
        self.lanes.update(number, cluster, framework, self.offers);
        let lane = &self.lanes.all[number as usize];
        if lane.is_refused {
            return None;
        }
        if let Some(home) = lane.home {
            return self.at_home(number, home, rows);
        }
        let index = self.tables[lane.table];
        if let Some(ranked) = &mut self.ranked[number as usize] {
            let asking = Asking {
                cluster,
                framework,
                table: &self.cache.tables[index],
                scratch: &self.cache.scratch,
                lane,
                shared: &self.lanes.shared,
                score: score_of(framework),
            };
            let (offers, guests, calls) = (&mut *self.offers, &self.guests, &mut 0);
            if cursor.is_none_or(|(_, version)| version != lane.version) {
                ranked.forget();
                *cursor = Some((0, lane.version));
            }
            let row = ranked.best(&asking, rows, (offers, guests), calls);
            let end = self.cache.scratch.changes.end();
            self.cache.scratch.calls += *calls;
            self.cache.scratch.changes.look();
            ranked.cursor = end;
            let row = row?;
            return Some((row, self.devices(number, row)?));
        }
        match rows {
            None => self.best_of_all(number, index),
            Some(rows) => self.best_within(number, index, rows, cursor),
        }
    }

    /// The best of all rows.
    fn best_of_all(&mut self, number: u32, index: usize) -> Option<(Row, Option<Devices>)> {
        let Lane { table, version, .. } = self.lanes.all[number as usize];
        if self.closed[table].lane != (number, version) {
            self.reopen(table);
            self.closed[table].lane = (number, version);
        }
        self.cache.flush(self.cluster, self.framework, index);
        loop {
            let row = Row::new(self.cache.tables[index].ranking.best()?);
            if let Some(devices) = self.devices(number, row) {
                return Some((row, devices));
            }
            self.cache.tables[index].ranking.set_plain(row.index(), 0);
            self.closed[table].rows.push(row);
        }
    }

    /// The best of the rows of a domain, whose positions are noted.
    fn best_within(
        &mut self,
        number: u32,
        index: usize,
        rows: &[Row],
        cursor: &mut Option<(u64, u64)>,
    ) -> Option<(Row, Option<Devices>)> {
        let version = self.lanes.all[number as usize].version;
        let mut known = cursor.and_then(|(end, seen)| (seen == version).then_some(end));
        if known.is_none() {
            // The ranking of a domain is made from the table's own, in which no row is closed then.
            self.reopen(self.lanes.all[number as usize].table);
            self.cache.flush(self.cluster, self.framework, index);
        }
        let found = loop {
            let PlannerCache { tables, scratch, .. } = &mut *self.cache;
            let table = &tables[index];
            let (framework, cluster) = (self.framework, self.cluster);
            let best = scratch.best_within(framework, cluster, table, rows, number, &mut known);
            scratch.changes.look();
            let Some(row) = best else { break None };
            if let Some(devices) = self.devices(number, row) {
                break Some((row, devices));
            }
            self.cache.scratch.close_within(number, row);
        };
        *cursor = known.map(|end| (end, version));
        found
    }

    /// The only row that a pod may go to, if it can.
    fn at_home(
        &mut self,
        number: u32,
        home: Option<Row>,
        rows: Option<&[Row]>,
    ) -> Option<(Row, Option<Devices>)> {
        let row = home?;
        if rows.is_some_and(|rows| !rows.contains(&row)) {
            return None;
        }
        let index = self.tables[self.lanes.all[number as usize].table];
        let PlannerCache { tables, scratch, .. } = &mut *self.cache;
        let node = scratch.overlay.view(self.cluster, row)?;
        let prepared = &tables[index].prepared;
        prepared.judge(self.framework, self.cluster, node, &mut scratch.calls)?;
        Some((row, self.devices(number, row)?))
    }

    /// The devices of a pod of a lane on a row; `None` if it cannot have them.
    #[allow(clippy::option_option, reason = "no devices needed, and none to be had")]
    fn devices(&mut self, number: u32, row: Row) -> Option<Option<Devices>> {
        let lane = &self.lanes.all[number as usize];
        let (cluster, guests) = (self.cluster, &self.guests);
        lane.devices(cluster, &self.lanes.shared, row, (&mut *self.offers, guests))
    }

    /// Places a pod of a lane.
    fn place(&mut self, row: Row, lane: u32, devices: Option<&Devices>) -> Result<(), Overflow> {
        let Lane { table, kind, .. } = self.lanes.all[lane as usize];
        if !self.cache.scratch.take(self.cluster, row, table as u32, None) {
            return Err(Overflow(row, 0));
        }
        let is_guest = match (devices, kind) {
            (Some(devices), Some(kind)) => {
                self.guests.add(row, kind, devices.clone());
                true
            }
            _ => false,
        };
        let gifts = self.lanes.give(lane, devices);
        self.placed.push(Placed { row, lane, is_guest, gifts });
        Ok(())
    }

    /// The error of a sum of a member that would not fit.
    fn overflow(&self, Overflow(row, _): Overflow, number: u32) -> PlaceError {
        let shape = self.gang.shape_of()[number as usize];
        self.cache.scratch.overflow(self.cluster, Overflow(row, shape), self.gang)
    }

    /// Opens the closed rows of a table: they are judged again.
    fn reopen(&mut self, table: usize) {
        for row in self.closed[table].rows.drain(..) {
            self.cache.scratch.changes.note(row.as_u32());
        }
    }
}

impl Drop for ClaimedEngine<'_> {
    /// Tables outlive the gang, and what is closed is closed to it alone.
    fn drop(&mut self) {
        (0..self.closed.len()).for_each(|table| self.reopen(table));
        self.offers.give_back(core::mem::take(&mut self.guests));
    }
}

/// The score that reads the answers of the filter, with its weight.
fn score_of(framework: &Framework) -> Option<(i64, &dyn ScorePlugin)> {
    let own = framework.scores().iter().find(|(_, own)| own.name() == FILTER);
    own.map(|(weight, score)| (*weight, &**score))
}

impl Engine for ClaimedEngine<'_> {
    #[cfg(feature = "parallel")]
    type Fork<'f>
        = super::reference::ReferenceEngine<'f>
    where
        Self: 'f;

    fn state(&self) -> (&Cluster, Option<&Overlay>) {
        (self.cluster, Some(&self.cache.scratch.overlay))
    }

    fn mark(&self) -> usize {
        self.placed.len()
    }

    fn rollback(&mut self, mark: usize) -> Result<(), PlaceError> {
        if self.placed.len() <= mark {
            return Ok(());
        }
        self.cache.scratch.rollback(self.cluster, mark);
        while self.placed.len() > mark
            && let Some(Placed { row, lane, is_guest, gifts }) = self.placed.pop()
        {
            if is_guest {
                self.guests.remove_last(row);
            }
            self.lanes.take_back(lane, &gifts);
        }
        // Devices are free again. The log that was cut short must not lose the rows.
        (0..self.closed.len()).for_each(|table| self.reopen(table));
        Ok(())
    }

    fn take(&mut self, member: &Member) -> Result<(), PlaceError> {
        let shape = self.gang.shape_of()[member.number as usize];
        let lane = self.lanes.of_shape[shape as usize];
        self.lanes.update(lane, self.cluster, self.framework, self.offers);
        let placed = self.place(member.row, lane, member.devices.as_ref());
        placed.map_err(|overflow| self.overflow(overflow, member.number))
    }

    fn fill(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        within: Confinement<'_>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        placed.reserve(leaf.pods.len());
        let gang = self.gang;
        let rows = within.rows;
        if let Some(rows) = rows {
            self.cache.scratch.note_positions(self.cluster, rows);
        }
        // Knowledge of each lane in these rows: how much of the log, and of its claims.
        let mut cursors: SmallVec<[Option<(u64, u64)>; 4]> = SmallVec::new();
        cursors.resize(self.lanes.all.len(), None);
        let mut filled = Ok(());
        for (at, shape) in gang.shapes_of(leaf, first).enumerate() {
            let Some(shape) = shape else { continue };
            let number = (first + at) as u32;
            let lane = self.lanes.of_shape[shape as usize];
            let best = self.best(lane, rows, &mut cursors[lane as usize]);
            let Some((row, devices)) = best else { continue };
            if let Err(overflow) = self.place(row, lane, devices.as_ref()) {
                filled = Err(self.overflow(overflow, number));
                break;
            }
            placed.push(Member { number, row, devices });
        }
        if let Some(rows) = rows {
            self.cache.scratch.forget_positions(rows);
        }
        filled
    }

    fn partition(&mut self, rows: Option<&[Row]>, keys: &[LabelKey]) -> Arc<[Candidate]> {
        match rows {
            Some(rows) => partition(self.cluster, rows, keys),
            None => self.cache.partition(self.cluster, keys),
        }
    }

    #[cfg(feature = "parallel")]
    fn fork(&self) -> Option<super::reference::ReferenceEngine<'_>> {
        None
    }

    #[cfg(feature = "parallel")]
    fn count_calls(&mut self, more: u64) -> u64 {
        self.cache.scratch.calls += more;
        self.cache.scratch.calls
    }
}
