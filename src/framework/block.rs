//! Blocks: rows side by side, as slices of columns.

pub mod math;

use alloc::vec::Vec;
use core::cell::{OnceCell, RefCell};
use core::iter;
use core::ops::Range;

use crate::base::chunks::CHUNK;
use crate::state::columns::{Columns, ZEROS};
use crate::state::{Cluster, NodeView, Overlay, ResourceId, Row, RowSet, RowUsage, Takes};

/// Up to 256 rows of a cluster, column by column.
///
/// All slices have [`Block::len`] elements. Rows that are not in use read as nodes without
/// anything, and [`Block::node`] is `None` for them.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    cluster: &'a Cluster,
    rows: Rows<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Rows<'a> {
    /// All rows of a chunk.
    Chunk(usize, usize),
    Gathered(Laid<'a>),
}

/// Scattered rows, side by side, with what is placed on them, or would be.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    rows: Vec<u32>,
    /// The places of rows in their chunks.
    at: Vec<u8>,
    spans: Vec<Span>,
    /// How many pods more are on each row, where not all have the same, and on the row that has most
    /// of them.
    more: Vec<u32>,
    most: u32,
    /// Amounts that such a pod takes, by resource number.
    takes: Vec<i64>,
    takes_scored: [i64; 2],
    rank: Vec<u32>,
    /// The amounts that were requested.
    pod_count: Column,
    pod_limit: Column,
    scored: [Column; 2],
    used: Vec<Column>,
    allocatable: Vec<Column>,
    /// For plugins that look at nodes one by one.
    usages: OnceCell<Vec<OnceCell<RowUsage>>>,
}

/// Rows that were gathered, and what is placed on them.
#[derive(Debug, Clone, Copy)]
struct Laid<'a> {
    rows: &'a Gathered,
    columns: &'a Columns,
    overlay: Option<&'a Overlay>,
}

/// Places whose rows are in the same chunk.
#[derive(Debug, Clone)]
struct Span {
    chunk: usize,
    places: Range<usize>,
    /// Whether the rows follow each other without gaps.
    straight: bool,
}

/// A column that is made on first use, in memory that is used again.
#[derive(Debug, Default)]
struct Column {
    made: OnceCell<Vec<i64>>,
    spare: RefCell<Vec<i64>>,
}

impl Column {
    #[inline]
    fn get(&self, make: impl FnOnce(&mut Vec<i64>)) -> &[i64] {
        self.made.get_or_init(|| {
            let mut column = self.spare.take();
            column.clear();
            make(&mut column);
            column
        })
    }

    fn clear(&mut self) {
        if let Some(column) = self.made.take() {
            *self.spare.get_mut() = column;
        }
    }
}

impl Gathered {
    /// Rows with so many pods more on each, every row with each number in turn. Sums must not
    /// overflow.
    pub(crate) fn ahead(
        &mut self,
        cluster: &Cluster,
        takes: &Takes,
        rows: impl Iterator<Item = u32>,
        pods: Range<u32>,
    ) {
        self.clear(cluster);
        if pods.len() == 1 {
            self.rows.extend(rows);
        } else {
            for row in rows {
                self.rows.extend(pods.clone().map(|_| row));
                self.more.extend(pods.clone());
            }
        }
        self.most = pods.end.saturating_sub(1);
        for &(resource, amount) in &takes.requests {
            self.takes[resource.index()] = amount;
        }
        self.takes_scored = takes.scored;
        self.lay_out(cluster);
    }

    /// Whether these rows were gathered last, in this order, all with the same number of pods more.
    pub(crate) fn are(&self, rows: impl Iterator<Item = u32>) -> bool {
        self.more.is_empty() && self.rows.iter().copied().eq(rows)
    }

    /// No rows.
    pub(crate) fn forget(&mut self) {
        self.rows.clear();
    }

    /// The same rows with so many pods more on each, all of which had the same before.
    pub(crate) fn advance(&mut self, pods: u32) {
        let step = i64::from(pods - self.most);
        let sums = self.used.iter_mut().zip(self.takes.iter().copied());
        let sums = sums.chain(self.scored.iter_mut().zip(self.takes_scored));
        for (column, each) in sums.chain([(&mut self.pod_count, 1)]) {
            if let Some(column) = column.made.get_mut() {
                for sum in column {
                    *sum += each * step;
                }
            }
        }
        self.most = pods;
        self.usages.take();
    }

    /// Rows as they are.
    pub(crate) fn are_now(&mut self, cluster: &Cluster, rows: &[u32]) {
        self.clear(cluster);
        self.rows.extend_from_slice(rows);
        self.lay_out(cluster);
    }

    fn clear(&mut self, cluster: &Cluster) {
        let resources = cluster.resources.len();
        let columns = self.used.iter_mut().chain(&mut self.allocatable).chain(&mut self.scored);
        columns.chain([&mut self.pod_count, &mut self.pod_limit]).for_each(Column::clear);
        if self.used.len() != resources {
            self.used.resize_with(resources, Column::default);
            self.allocatable.resize_with(resources, Column::default);
        }
        self.takes.clear();
        self.takes.resize(resources, 0);
        self.takes_scored = [0; 2];
        self.rows.clear();
        self.at.clear();
        self.spans.clear();
        self.more.clear();
        self.most = 0;
        self.rank.clear();
        self.usages.take();
    }

    fn lay_out(&mut self, cluster: &Cluster) {
        self.at.extend(self.rows.iter().map(|row| (*row as usize % CHUNK) as u8));
        for (place, &row) in self.rows.iter().enumerate() {
            let chunk = row as usize / CHUNK;
            match self.spans.last_mut() {
                Some(span) if span.chunk == chunk => {
                    span.straight &= row == self.rows[place - 1] + 1;
                    span.places.end = place + 1;
                }
                _ => self.spans.push(Span { chunk, places: place..place + 1, straight: true }),
            }
        }
        let (spans, at) = (&self.spans, &self.at);
        let rank = &cluster.columns.rank;
        pick(spans, at, &mut self.rank, |chunk| rank.chunk(chunk).unwrap_or(&[]));
    }

    /// The rows' part of a column that is given by chunks.
    fn pick<'c>(&self, into: &mut Vec<i64>, column: impl Fn(usize) -> &'c [i64]) {
        pick(&self.spans, &self.at, into, column);
    }
}

impl<'a> Laid<'a> {
    /// The rows' part of a column that counts pods, each of them so much.
    fn pick_sum<'c>(
        self,
        into: &mut Vec<i64>,
        column: impl Fn(usize) -> &'c [i64],
        each: i64,
        placed: impl Fn(&RowUsage) -> i64,
    ) {
        let rows = self.rows;
        rows.pick(into, column);
        if each != 0 && rows.most > 0 {
            if rows.more.is_empty() {
                let more = each * i64::from(rows.most);
                for sum in into.iter_mut() {
                    *sum += more;
                }
            } else {
                for (sum, &pods) in into.iter_mut().zip(&rows.more) {
                    *sum += each * i64::from(pods);
                }
            }
        }
        if let Some(overlay) = self.overlay {
            for (sum, &row) in into.iter_mut().zip(&rows.rows) {
                if let Some(usage) = overlay.usage(Row::from(row)) {
                    *sum = placed(usage);
                }
            }
        }
    }

    /// The bits of the capacities beside the amounts of the cluster.
    fn bits(self) -> u64 {
        let rows = self.rows;
        let takes = rows.takes.iter().chain(&rows.takes_scored);
        let bits = takes.fold(0, |bits, each| bits | (each * i64::from(rows.most)) as u64);
        self.overlay.map_or(bits, |overlay| bits | overlay.bits())
    }

    fn used(self, resource: ResourceId) -> &'a [i64] {
        let rows = self.rows;
        let Some(column) = rows.used.get(resource.index()) else { return zeros(rows.rows.len()) };
        column.get(|into| {
            let each = rows.takes[resource.index()];
            let placed = |usage: &RowUsage| usage.used_of(resource);
            let chunks = |chunk| self.columns.used_chunk(resource, chunk, CHUNK);
            self.pick_sum(into, chunks, each, placed);
        })
    }

    fn allocatable(self, resource: ResourceId) -> &'a [i64] {
        let rows = self.rows;
        let Some(column) = rows.allocatable.get(resource.index()) else {
            return zeros(rows.rows.len());
        };
        let chunks = |chunk| self.columns.allocatable_chunk(resource, chunk, CHUNK);
        column.get(|into| rows.pick(into, chunks))
    }

    fn scored(self, at: usize) -> &'a [i64] {
        self.rows.scored[at].get(|into| {
            let chunks = |chunk| self.columns.scored_chunk(at, chunk);
            self.pick_sum(into, chunks, self.rows.takes_scored[at], |usage| usage.scored[at]);
        })
    }

    fn pod_count(self) -> &'a [i64] {
        self.rows.pod_count.get(|into| {
            let chunks = |chunk| self.columns.pod_count_chunk(chunk);
            self.pick_sum(into, chunks, 1, |usage| usage.pod_count);
        })
    }

    fn pod_limit(self) -> &'a [i64] {
        let chunks = |chunk| pod_limit(self.columns, chunk);
        self.rows.pod_limit.get(|into| self.rows.pick(into, chunks))
    }

    /// Amounts that the pods of one row take.
    fn usage(self, at: usize) -> &'a RowUsage {
        let rows = self.rows;
        let row = Row::from(rows.rows[at]);
        if let Some(usage) = self.overlay.and_then(|overlay| overlay.usage(row)) {
            return usage;
        }
        let usages = rows.usages.get_or_init(|| alloc::vec![OnceCell::new(); rows.rows.len()]);
        usages[at].get_or_init(|| {
            let sums = self.columns.sums(row);
            let pods = i64::from(rows.more.get(at).copied().unwrap_or(rows.most));
            let [cpu, memory] = sums.scored();
            let used = sums.used().chain(iter::repeat(0)).zip(&rows.takes);
            RowUsage {
                pod_count: sums.pod_count() + pods,
                scored: [cpu + pods * rows.takes_scored[0], memory + pods * rows.takes_scored[1]],
                used: used.map(|(now, each)| now + pods * each).collect(),
            }
        })
    }
}

/// The elements of a column, given by chunks, at places of chunks.
fn pick<'c, T: Copy + Default + 'c>(
    spans: &[Span],
    at: &[u8],
    into: &mut Vec<T>,
    column: impl Fn(usize) -> &'c [T],
) {
    into.reserve(at.len());
    for Span { chunk, places, straight } in spans {
        let (column, at) = (column(*chunk), &at[places.clone()]);
        let first = usize::from(at[0]);
        if let (true, Some(rows)) = (*straight, column.get(first..first + at.len())) {
            into.extend_from_slice(rows);
        } else if let Ok(column) = <&[T; CHUNK]>::try_from(column) {
            into.extend(at.iter().map(|at| column[usize::from(*at)]));
        } else {
            let element = |at: &u8| column.get(usize::from(*at)).copied().unwrap_or_default();
            into.extend(at.iter().map(element));
        }
    }
}

fn zeros(len: usize) -> &'static [i64] {
    &ZEROS[..len.min(CHUNK)]
}

fn pod_limit(columns: &Columns, chunk: usize) -> &[i64] {
    columns.pod_limit.chunk(chunk).unwrap_or(&[])
}

impl<'a> Block<'a> {
    /// The most rows a block has.
    pub const MOST: usize = CHUNK;

    /// The blocks of a cluster, in order of rows.
    pub fn all(cluster: &'a Cluster) -> impl Iterator<Item = Block<'a>> {
        let rows = cluster.rows();
        let block = move |chunk: usize| Rows::Chunk(chunk, CHUNK.min(rows - chunk * CHUNK));
        (0..rows.div_ceil(CHUNK)).map(move |chunk| Block { cluster, rows: block(chunk) })
    }

    /// Rows that were gathered from the same cluster, with what is placed on them but for devices.
    /// Nothing may be placed where pods are looked ahead to.
    pub(crate) fn gathered(
        cluster: &'a Cluster,
        rows: &'a Gathered,
        overlay: Option<&'a Overlay>,
    ) -> Block<'a> {
        let overlay = overlay.filter(|overlay| !overlay.is_untouched());
        Block { cluster, rows: Rows::Gathered(Laid { rows, columns: &cluster.columns, overlay }) }
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self.rows {
            Rows::Chunk(_, len) => len,
            Rows::Gathered(laid) => laid.rows.rows.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row at a place. The same row can be at several.
    #[inline]
    pub fn row(&self, at: usize) -> Row {
        match self.rows {
            Rows::Chunk(chunk, _) => Row::new(chunk * CHUNK + at),
            Rows::Gathered(laid) => Row::from(laid.rows.rows[at]),
        }
    }

    /// The rows, in order of places.
    pub fn rows(self) -> impl Iterator<Item = Row> + 'a {
        (0..self.len()).map(move |at| self.row(at))
    }

    /// The places of the rows that are in a set, ascending: O(rows in both) if the block is of
    /// neighbours, else O(rows of the block).
    pub(crate) fn places_of(&self, set: &'a RowSet) -> impl Iterator<Item = usize> + 'a {
        let (neighbours, others) = match self.rows {
            Rows::Chunk(chunk, len) => (Some((chunk * CHUNK, len)), None),
            Rows::Gathered(laid) => (None, Some(&laid.rows.rows)),
        };
        let first = neighbours.map_or(0, |(first, _)| first);
        let neighbours = neighbours
            .into_iter()
            .flat_map(move |(first, len)| set.between(first, first + len))
            .map(move |row| row.index() - first);
        let others = others.into_iter().flatten().enumerate();
        neighbours.chain(others.filter(|(_, row)| set.contains(Row::from(**row))).map(|(at, _)| at))
    }

    /// Calls `visit` for the place of each row that is not in use.
    pub(crate) fn each_unused(&self, mut visit: impl FnMut(usize)) {
        let unused = self.cluster.unused_rows();
        if unused.is_empty() {
            return;
        }
        if let (Rows::Chunk(chunk, len), true) = (self.rows, unused.len() < CHUNK / 8) {
            let first = chunk * CHUNK;
            let places = unused.iter().filter_map(|row| (*row as usize).checked_sub(first));
            places.filter(|at| *at < len).for_each(visit);
            return;
        }
        let is_used = |at: &usize| self.cluster.view(self.row(*at)).is_some();
        (0..self.len()).filter(|at| !is_used(at)).for_each(&mut visit);
    }

    /// One node of the block.
    #[inline]
    pub fn node(&self, at: usize) -> Option<NodeView<'a>> {
        let mut node = self.cluster.view(self.row(at))?;
        if let Rows::Gathered(laid) = self.rows {
            node.usage = Some(laid.usage(at));
        }
        Some(node)
    }

    /// Writes the value of `of` for each node; 0 for rows that are not in use.
    pub(crate) fn each(&self, out: &mut [i64], of: impl Fn(NodeView<'a>) -> i64) {
        for (at, out) in out.iter_mut().enumerate() {
            *out = self.node(at).map_or(0, &of);
        }
    }

    /// Whether every amount in the columns is below 2⁶⁰, so that sums and differences of a few
    /// cannot overflow.
    #[inline]
    pub fn is_narrow(&self) -> bool {
        const BITS: u32 = 60;
        self.cluster.columns.is_narrow() && self.own_bits() >> BITS == 0
    }

    /// The bits of the capacities beside the amounts of the cluster.
    #[inline]
    fn own_bits(&self) -> u64 {
        match self.rows {
            Rows::Chunk(..) => 0,
            Rows::Gathered(laid) => laid.bits(),
        }
    }

    /// Whether every amount in the columns is from 0 to below 2⁴⁴, limits of pods apart: 17 trillion
    /// bytes. Amounts that are can be multiplied by 100 and are exact in floats. A node that has ever
    /// been larger makes this false for all.
    #[inline]
    pub fn is_small(&self) -> bool {
        const BITS: u32 = 44;
        (self.cluster.columns.bits() | self.own_bits()) >> BITS == 0
    }

    /// Amount of a resource that pods may use, by row.
    pub fn allocatable(&self, resource: ResourceId) -> &'a [i64] {
        let columns = &self.cluster.columns;
        match self.rows {
            Rows::Chunk(chunk, len) => columns.allocatable_chunk(resource, chunk, len),
            Rows::Gathered(laid) => laid.allocatable(resource),
        }
    }

    /// Amount of a resource that pods take, by row.
    pub fn used(&self, resource: ResourceId) -> &'a [i64] {
        let columns = &self.cluster.columns;
        match self.rows {
            Rows::Chunk(chunk, len) => columns.used_chunk(resource, chunk, len),
            Rows::Gathered(laid) => laid.used(resource),
        }
    }

    /// CPU that scores count as used.
    pub fn scored_cpu(&self) -> &'a [i64] {
        self.scored(0)
    }

    /// Memory that scores count as used.
    pub fn scored_memory(&self) -> &'a [i64] {
        self.scored(1)
    }

    fn scored(&self, at: usize) -> &'a [i64] {
        let columns = &self.cluster.columns;
        match self.rows {
            Rows::Chunk(chunk, _) => columns.scored_chunk(at, chunk),
            Rows::Gathered(laid) => laid.scored(at),
        }
    }

    /// How many pods there are.
    pub fn pod_count(&self) -> &'a [i64] {
        let columns = &self.cluster.columns;
        match self.rows {
            Rows::Chunk(chunk, _) => columns.pod_count_chunk(chunk),
            Rows::Gathered(laid) => laid.pod_count(),
        }
    }

    /// How many pods there may be; `i64::MAX` where no limit is stated.
    pub fn pod_limit(&self) -> &'a [i64] {
        let columns = &self.cluster.columns;
        match self.rows {
            Rows::Chunk(chunk, _) => pod_limit(columns, chunk),
            Rows::Gathered(laid) => laid.pod_limit(),
        }
    }

    /// The places in the order of ties.
    pub(crate) fn rank(&self) -> &'a [u32] {
        match self.rows {
            Rows::Chunk(chunk, _) => self.cluster.columns.rank.chunk(chunk).unwrap_or(&[]),
            Rows::Gathered(laid) => &laid.rows.rank,
        }
    }
}

#[cfg(test)]
mod tests;
