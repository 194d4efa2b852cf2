//! The cache of score tables of the sequential strategy, by pod shape.
//!
//! Answers from it equal those of the plain loop of [`sequential`](crate::place::sequential).

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::domains::Domains;
use super::negative::NegativeCache;
use crate::base::RowSet;
use crate::base::hash::{FixedMap, hash_of};
use crate::framework::{Framework, Gathered};
use crate::model::PodShape;
use crate::place::scoring::classes::NodeClasses;
use crate::place::scoring::scratch::Scratch;
use crate::place::scoring::table::{BuildBuffers, FEW, ScoreTable};
use crate::place::scoring::tie_order::{OrderStamp, Ranks, SaltedOrder};
use crate::place::scoring::view::View;
use crate::place::topology::partition::{Candidate, partition_all};
use crate::place::topology::tiers::Keys;
use crate::state::journal::{Moment, NodeChange};
use crate::state::{Cluster, LabelKey, Row};

/// Tables kept at most, and at most so many rows in all tables together. A request that has more
/// shapes has a table for each of them, and then all are given up.
const TABLES: usize = 4_096;
const TABLE_ROWS: usize = 8_000_000;
/// Rows from which on all are judged again where these are half of them.
const MANY: usize = 32;
/// Salted orders kept at most.
const ORDERS: usize = 4;

/// The tables of a planner by shape, brought up to date from the cluster's journal, and the buffers
/// of a decision under way.
#[derive(Debug, Default)]
pub(crate) struct PlannerCache {
    framework: Option<Framework>,
    /// The order of nodes with equal totals in the request under way.
    ranks: (Ranks, OrderStamp),
    orders: Vec<SaltedOrder>,
    /// Orders made so far.
    epochs: u64,
    pub(crate) tables: Vec<ScoreTable>,
    by_shape: FixedMap<u64, Vec<u32>>,
    /// Tables by the address of their shape.
    by_address: FixedMap<usize, u32>,
    pub(crate) requests: u64,
    /// Tables made so far.
    made: u64,
    pub(crate) partitions: Vec<Domains>,
    pub(crate) scratch: Scratch,
    /// Whether pods with affinity terms are placed: plugins may come to be concerned then.
    pub(crate) affinity: bool,
    /// Whether plugins read beyond the node for a shape of the request.
    pub(crate) has_non_local: bool,
    pub(crate) classes: NodeClasses,
    build_buffers: BuildBuffers,
    /// How many threads coarse work may use.
    pub(crate) threads: usize,
    dirty: Vec<u32>,
    marks: RowSet,
    /// Buffers for rows that are judged side by side.
    gathered: Gathered,
    keys: Vec<u64>,
    pub(crate) refusals: NegativeCache,
    calls: u64,
}

impl PlannerCache {
    /// An update by the changes since the last request.
    pub(crate) fn sync(&mut self, cluster: &Cluster, framework: &Framework, salt: u64) {
        self.requests += 1;
        self.scratch.clear();
        let nodes = self.scratch.changes.nodes_end();
        let known = self.scratch.changes.sync(cluster)
            && self.framework.as_ref().is_some_and(|known| known.same(framework))
            && self.tables.len() <= most_tables(cluster.rows());
        if !known {
            self.framework = Some(framework.clone());
            self.forget();
        }
        self.nodes_changed(nodes);
        self.ranks = self.order_of(cluster, salt);
    }

    /// Takes a cluster for what it was at another moment; see
    /// [`Planner::rebase`](crate::place::Planner::rebase).
    pub(crate) fn rebase(&mut self, visited: &Cluster, moment: Moment) {
        let nodes = self.scratch.changes.nodes_end();
        self.scratch.changes.rebase(visited, moment);
        self.nodes_changed(nodes);
    }

    /// Drops what changes of nodes void, from a place in the log on.
    fn nodes_changed(&mut self, since: u64) {
        let Some(events) = self.scratch.changes.nodes_since(since) else {
            self.classes.forget();
            self.partitions.clear();
            return;
        };
        self.classes.nodes_changed(events);
        for event in events {
            let moves = NodeChange::ADDED.and(NodeChange::REMOVED, true);
            if event.change.has(moves.and(NodeChange::TIE_RANK, true)) {
                self.partitions.clear();
            } else {
                let same = |keys: &Keys| !keys.iter().any(|key| event.change.label(*key));
                self.partitions.retain(|domains| same(&domains.keys));
            }
        }
    }

    fn forget(&mut self) {
        for table in self.tables.drain(..) {
            self.calls += table.all_calls();
        }
        self.classes.forget();
        self.by_shape.clear();
        self.by_address.clear();
        self.partitions.clear();
        self.orders.clear();
        self.scratch.changes.forget();
    }

    /// The ranks under a salt.
    fn order_of(&mut self, cluster: &Cluster, salt: u64) -> (Ranks, OrderStamp) {
        if salt == 0 {
            return (Ranks::default(), OrderStamp { salt, epoch: cluster.rank_epoch });
        }
        let (changes, requests) = (&self.scratch.changes, self.requests);
        let known = self.orders.iter_mut().find(|order| order.salt == salt);
        if let Some(order) = known
            && let Some(events) = changes.nodes_since(order.cursor)
        {
            order.follow(cluster, events);
            order.last_use = requests;
            return order.ranks();
        }
        self.orders.retain(|order| order.salt != salt);
        if self.orders.len() >= ORDERS
            && let Some(oldest) = (0..ORDERS).min_by_key(|&at| self.orders[at].last_use)
        {
            self.orders.swap_remove(oldest);
        }
        // Ranks that a salted order gives anew are fewer than its nodes' changes.
        self.epochs += 1 << 32;
        let mut order =
            SaltedOrder::new(cluster, salt, (self.scratch.changes.nodes_end(), self.epochs));
        order.last_use = self.requests;
        self.orders.push(order);
        self.orders[self.orders.len() - 1].ranks()
    }

    /// Evaluations of a node by a plugin, so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls + self.scratch.calls + self.tables.iter().map(ScoreTable::all_calls).sum::<u64>()
    }

    /// The table of a shape, evaluating every row if it is new. `None` if a plugin has to be
    /// evaluated for every node again and again; `Err` if it is clear that fewer than `wanted` pods fit.
    pub(crate) fn table(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        wanted: usize,
    ) -> Option<Result<usize, TooFew>> {
        let same = |table: &ScoreTable| table.prepared.shape == *shape;
        let pointer = Arc::as_ptr(shape) as usize;
        // A shape met before, by its address: the table holds the shape, so if it is still the
        // same one the address has not been used again.
        let near = self.by_address.get(&pointer).copied().filter(|&place| {
            self.tables
                .get(place as usize)
                .is_some_and(|table| Arc::ptr_eq(&table.prepared.shape, shape))
        });
        let mut hash = 0;
        let found = near.or_else(|| {
            hash = hash_of(&**shape);
            let places = self.by_shape.get(&hash)?;
            places.iter().copied().find(|&place| same(&self.tables[place as usize]))
        });
        if let Some(place) = found {
            let place = place as usize;
            let (table, changes) = (&mut self.tables[place], &self.scratch.changes);
            let behind = changes.end() - table.cursor;
            table.last_use = self.requests;
            if changes.reaches(table.cursor)
                && let Some(events) = changes.nodes_since(table.nodes)
                && (events.is_empty()
                    || table.follow_nodes(framework, cluster, (events, &self.ranks.0))?)
            {
                table.set_ranks(framework, cluster, (&self.ranks.0, self.ranks.1));
                if !self.ready(cluster, framework, place) {
                    return None;
                }
                let table = &mut self.tables[place];
                if behind == 0 && !table.scored && table.room(cluster) < wanted as i64 {
                    return Some(Err(TooFew));
                }
                // Rows that changed more than once are evaluated once.
                if table.scored && (behind as usize) < 4 * cluster.rows().max(64) {
                    self.flush(cluster, framework, place);
                    return Some(self.enough(cluster, place, wanted));
                }
            }
            let calls = self.tables[place].all_calls();
            // The shape that it was made for, whose address is known.
            let kept = Arc::clone(&self.tables[place].prepared.shape);
            let mut table = self.fresh(cluster, framework, &kept)?;
            core::mem::swap(&mut table.ranking, &mut self.tables[place].ranking);
            table.calls = calls;
            self.tables[place] = table;
            if !self.ready(cluster, framework, place) {
                return None;
            }
            return Some(self.build(cluster, framework, place, wanted));
        }
        let mut table = self.fresh(cluster, framework, shape)?;
        table.concerned = self.affinity;
        let Scratch { overlay, changes, .. } = &mut self.scratch;
        let view = View { framework, cluster, overlay };
        if !table.prepare_non_local(&mut self.classes, view, changes) {
            return None;
        }
        let place = self.make_room(cluster.rows());
        if let Some(place) = place {
            core::mem::swap(&mut table.ranking, &mut self.tables[place].ranking);
        }
        let place = self.keep(table, hash, place);
        Some(self.build(cluster, framework, place, wanted))
    }

    /// Prepares the non-local plugins of a table; false if one of them promises no classes.
    fn ready(&mut self, cluster: &Cluster, framework: &Framework, place: usize) -> bool {
        let table = &mut self.tables[place];
        table.concerned = self.affinity || !table.prepared.still_holds(framework, cluster);
        let Scratch { overlay, changes, .. } = &mut self.scratch;
        let view = View { framework, cluster, overlay };
        table.prepare_non_local(&mut self.classes, view, changes)
    }

    /// A table that is not built yet.
    fn fresh(
        &self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
    ) -> Option<ScoreTable> {
        let nodes = self.scratch.changes.nodes_end();
        ScoreTable::prepare(framework, cluster, shape, &self.ranks, nodes)
    }

    /// Keeps a table, in place of another or beside the others.
    fn keep(&mut self, table: ScoreTable, hash: u64, place: Option<usize>) -> usize {
        let address = Arc::as_ptr(&table.prepared.shape) as usize;
        match place {
            Some(place) => {
                let old = core::mem::replace(&mut self.tables[place], table);
                self.calls += old.all_calls();
                self.by_address.remove(&(Arc::as_ptr(&old.prepared.shape) as usize));
                if let Some(places) = self.by_shape.get_mut(&hash_of(&*old.prepared.shape)) {
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
            !places.iter().any(|&place| self.tables[place as usize].prepared.shape == **shape)
        };
        let mut new: Vec<&Arc<PodShape>> = shapes.iter().filter(is_new).collect();
        new.truncate(most_tables(cluster.rows()));
        if new.len() < 2 || new.len() * cluster.rows() < WORTH_IT {
            return;
        }
        let (ranks, nodes) = (&self.ranks, self.scratch.changes.nodes_end());
        let built: Vec<Option<ScoreTable>> = new
            .par_iter()
            .map(|shape| {
                let mut table = ScoreTable::prepare(framework, cluster, shape, ranks, nodes)?;
                table.build(framework, cluster, 0, &mut BuildBuffers::default());
                Some(table)
            })
            .collect();
        for table in built.into_iter().flatten() {
            let (hash, place) = (hash_of(&*table.prepared.shape), self.make_room(cluster.rows()));
            let place = self.keep(table, hash, place);
            self.number(place);
        }
    }

    /// The table to be replaced, if there are enough: the one least recently used, but none that
    /// the request at hand has used.
    fn make_room(&self, rows: usize) -> Option<usize> {
        if self.tables.len() < most_tables(rows) {
            return None;
        }
        let last_use = |place: &usize| self.tables[*place].last_use;
        let oldest = (0..self.tables.len()).min_by_key(last_use);
        oldest.filter(|place| last_use(place) < self.requests)
    }

    /// Numbers a table whose rows are all judged now. The overlay is empty while tables are made: nothing
    /// has been placed yet.
    fn number(&mut self, place: usize) {
        self.made += 1;
        let table = &mut self.tables[place];
        (table.made, table.last_use) = (self.made, self.requests);
        table.cursor = self.scratch.changes.end();
        self.scratch.changes.look_to_keep();
    }

    fn build(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        place: usize,
        wanted: usize,
    ) -> Result<usize, TooFew> {
        self.number(place);
        let table = &mut self.tables[place];
        if table.build(framework, cluster, wanted, &mut self.build_buffers) {
            Ok(place)
        } else {
            Err(TooFew)
        }
    }

    fn enough(&mut self, cluster: &Cluster, place: usize, wanted: usize) -> Result<usize, TooFew> {
        let table = &mut self.tables[place];
        // Every feasible row takes one; only beyond that is there something to count.
        let enough = table.ranking.feasible() >= wanted
            || table.ranking.feasible() > 0 && table.room(cluster) >= wanted as i64;
        if enough { Ok(place) } else { Err(TooFew) }
    }

    /// Evaluates the rows again that changed since a table was looked at.
    pub(crate) fn flush(&mut self, cluster: &Cluster, framework: &Framework, place: usize) {
        self.scratch.changes.look_to_keep();
        let (table, scratch) = (&mut self.tables[place], &self.scratch);
        let changed = scratch.changes.since(table.cursor);
        table.cursor = scratch.changes.end();
        if changed.is_empty() {
            return;
        }
        let parts = table.prepared.parts(framework);
        let view = scratch.view(framework, cluster);
        if let [row] = *changed {
            table.refresh_own(view, Row::from(row), &parts);
            return;
        }
        self.marks.sort(changed, cluster.rows(), &mut self.dirty);
        // Neighbours are judged in less than half the time of scattered rows.
        let most = self.dirty.len() >= MANY && 2 * self.dirty.len() >= cluster.rows();
        if most && table.prepared.is_plain() && scratch.overlay.is_untouched() {
            table.judge_all(framework, cluster);
            return;
        }
        if self.dirty.len() > FEW && table.prepared.is_plain() && !scratch.overlay.has_devices() {
            table.refresh_all(view, &self.dirty, &mut self.gathered, &mut self.keys);
            return;
        }
        for &row in &self.dirty {
            table.refresh_own(view, Row::from(row), &parts);
        }
    }

    /// The domains that keys make of all nodes, in order of name.
    pub(crate) fn partition(&mut self, cluster: &Cluster, keys: &[LabelKey]) -> Arc<[Candidate]> {
        if let Some(known) = self.partitions.iter().find(|known| *known.keys == *keys) {
            return Arc::clone(&known.candidates);
        }
        let parts = partition_all(cluster, keys);
        self.partitions.push(Domains::new(Keys::from_slice(keys), Arc::clone(&parts)));
        parts
    }

    /// Whether a plugin of the table reads more of a node than its sums.
    pub(crate) fn reads_pods(&self, table: usize) -> bool {
        self.tables[table].prepared.reads_pods
    }
}

/// How many tables of so many rows are kept.
fn most_tables(rows: usize) -> usize {
    (TABLE_ROWS / rows.max(1)).clamp(4, TABLES)
}

/// It is clear that not enough pods fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooFew;

#[cfg(test)]
mod tests;
