//! Node columns: one column a fact, in chunks of rows.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::{NonZeroI64, NonZeroU32, NonZeroU64};

use super::devices::{DeviceSpecs, DeviceState};
use super::ids::{LabelKey, LabelValue, NONE, ResourceId};
use super::shapes::ShapeEntry;
use super::table::Table;
use crate::base::Row;
use crate::base::chunks::{CHUNK, Chunked};
use crate::base::sparse::Sparse;
use crate::model::{Amounts, Device, Image, NodeUsage, NodeZones, Partitions, Taint};

/// The fields of a node that pods do not change.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeSpec {
    pub(crate) name: Box<str>,
    /// In order of key number.
    pub(crate) labels: Box<[(LabelKey, LabelValue)]>,
    /// [`NodeSpec::rare`] reads it, [`Rare::packed`] makes it.
    pub(crate) packed: Option<Box<Rare>>,
}

/// The specs of all nodes by row; `None` where a row is not in use.
pub(crate) type NodeSpecs = Chunked<Option<Arc<NodeSpec>>>;

/// Fields of a node that most nodes leave empty, apart from its spec.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rare {
    pub(crate) taints: Vec<Taint>,
    pub(crate) images: Vec<Image>,
    pub(crate) devices: Vec<Device>,
    pub(crate) partitions: Partitions,
    pub(crate) zones: NodeZones,
    /// `devices`, `partitions` and `zones` in the numbers of the cluster.
    pub(crate) device_specs: Option<Arc<DeviceSpecs>>,
    /// Where it differs from what is allocatable.
    pub(crate) capacity: Option<Amounts>,
    /// Allocatable resources that are listed with zero; the columns hold the others.
    pub(crate) listed_zero: Vec<ResourceId>,
    pub(crate) unschedulable: bool,
}

/// The fields of a node that leaves all of them empty.
pub(crate) static PLAIN: Rare = Rare {
    taints: Vec::new(),
    images: Vec::new(),
    devices: Vec::new(),
    partitions: Partitions::NONE,
    zones: NodeZones::NONE,
    device_specs: None,
    capacity: None,
    listed_zero: Vec::new(),
    unschedulable: false,
};

impl NodeSpec {
    #[inline]
    pub(crate) fn label(&self, key: LabelKey) -> Option<LabelValue> {
        let at = self.labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(self.labels[at].1)
    }

    #[inline]
    pub(crate) fn rare(&self) -> &Rare {
        self.packed.as_deref().unwrap_or(&PLAIN)
    }
}

impl Rare {
    /// Takes no room if there is nothing.
    pub(crate) fn packed(self) -> Option<Box<Rare>> {
        (self != PLAIN).then(|| Box::new(self))
    }
}

/// A row without a limit on its number of pods.
pub(crate) const NO_POD_LIMIT: i64 = i64::MAX;

/// The columns. All have the same length and the same chunks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    /// Shared whole with the plans made from it; they keep it as it was.
    pub(crate) spec: Arc<NodeSpecs>,
    /// Number of the row's use, where it is not the first.
    use_counts: Sparse<NonZeroU32>,
    /// Numbers of the embedder's own, and places among equals, where they are not 0.
    keys: Sparse<NonZeroU64>,
    tie_ranks: Sparse<NonZeroI64>,
    /// The versions of nodes, apart from their specs: a version that grows changes no spec.
    versions: Sparse<NonZeroU64>,
    /// The place in the order among equals: lower first. Not dense.
    pub(crate) rank: Chunked<u32>,
    pub(crate) pod_limit: Chunked<i64>,
    /// Allocatable amounts of each resource, by chunk.
    allocatable: Vec<Arc<Table>>,
    /// How many resources a node may have, by number.
    offered: usize,
    /// Devices left, on nodes that have devices.
    pub(crate) device_state: Sparse<Arc<DeviceState>>,
    /// Last measurements of nodes, with their versions.
    pub(crate) measured: Sparse<Arc<(NodeUsage, u64)>>,
    /// The columns that change with pods, together, so that a pod copies one chunk.
    usage: Vec<Arc<Usage>>,
    /// Whether an amount has been too large for careless arithmetic.
    wide: bool,
    /// The bits of all amounts there have been.
    bits: u64,
}

/// The columns of a chunk that change with pods.
#[derive(Debug, Clone, Default)]
struct Usage {
    /// The first pod on a row; the others are linked from there.
    first_pod: Vec<u32>,
    /// The change that touched a row last.
    generation: Vec<u64>,
    /// Sums over the pods of a row: their number, CPU and memory that scores count as used, then
    /// the used amount of each resource.
    sums: Table,
}

/// The sums before those of resources.
const COMMON: usize = 3;

/// A column of nothing.
pub(crate) static ZEROS: [i64; CHUNK] = [0; CHUNK];

impl Usage {
    fn push_row(&mut self, sums: usize, room: usize) {
        self.sums.push_row(sums, room);
        let more = self.sums.room() - self.first_pod.len();
        self.first_pod.reserve_exact(more);
        self.generation.reserve_exact(more);
        self.first_pod.push(NONE);
        self.generation.push(0);
    }
}

/// The sums of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sums<'a> {
    table: &'a Table,
    at: usize,
}

impl<'a> Sums<'a> {
    #[inline]
    fn of(self, sum: usize) -> i64 {
        self.table.get(sum, self.at)
    }

    #[inline]
    pub(crate) fn pod_count(self) -> i64 {
        self.of(0)
    }

    #[inline]
    pub(crate) fn scored(self) -> [i64; 2] {
        [self.of(1), self.of(2)]
    }

    #[inline]
    pub(crate) fn used_of(self, resource: ResourceId) -> i64 {
        self.of(COMMON + resource.index())
    }

    /// Used amounts of each resource, in order of number, without zeros at the end that are not
    /// stored.
    #[inline]
    pub(crate) fn used(self) -> impl Iterator<Item = i64> + 'a {
        (COMMON..self.table.end()).map(move |sum| self.of(sum))
    }
}

/// The fields of a row that a pod changes when it comes or goes, beside sums.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) first_pod: &'a mut u32,
    pub(crate) generation: &'a mut u64,
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.spec.len()
    }

    pub(crate) fn push_row(&mut self) {
        let row = self.len();
        Arc::make_mut(&mut self.spec).push(None);
        self.rank.push(0);
        self.pod_limit.push(0);
        if row.is_multiple_of(CHUNK) {
            self.allocatable.push(Arc::default());
            self.usage.push(Arc::default());
        }
        let room = if row < CHUNK { 0 } else { CHUNK };
        Arc::make_mut(&mut self.allocatable[row / CHUNK]).push_row(self.offered, room);
        Arc::make_mut(&mut self.usage[row / CHUNK]).push_row(COMMON + self.offered, room);
    }

    pub(crate) fn set_spec(&mut self, row: Row, spec: Option<Arc<NodeSpec>>) {
        *Arc::make_mut(&mut self.spec).get_mut(row.index()) = spec;
    }

    /// Sets the embedder's own number of a row, and its place among equals.
    pub(crate) fn set_marks(&mut self, row: Row, key: u64, tie_rank: i64) {
        self.keys.set(row.index(), NonZeroU64::new(key));
        self.tie_ranks.set(row.index(), NonZeroI64::new(tie_rank));
    }

    /// Number of a row's use.
    pub(crate) fn use_count(&self, row: Row) -> u32 {
        self.use_counts.get(row.index()).map_or(0, |count| count.get())
    }

    /// Begins another use of a row.
    pub(crate) fn use_anew(&mut self, row: Row) {
        self.use_counts.set(row.index(), NonZeroU32::new(self.use_count(row).wrapping_add(1)));
    }

    pub(crate) fn key(&self, row: Row) -> u64 {
        self.keys.get(row.index()).map_or(0, |key| key.get())
    }

    pub(crate) fn version(&self, row: Row) -> u64 {
        self.versions.get(row.index()).map_or(0, |version| version.get())
    }

    pub(crate) fn set_version(&mut self, row: Row, version: u64) {
        self.versions.set(row.index(), NonZeroU64::new(version));
    }

    pub(crate) fn tie_rank(&self, row: Row) -> i64 {
        self.tie_ranks.get(row.index()).map_or(0, |rank| rank.get())
    }

    /// Sets what a row has of each resource, and notes the amounts. The others are 0.
    pub(crate) fn set_allocatable(&mut self, row: Row, amounts: &[(ResourceId, i64)]) {
        let table = Arc::make_mut(&mut self.allocatable[row.index() / CHUNK]);
        table.clear_row(row.index() % CHUNK);
        for &(resource, amount) in amounts {
            table.add(resource.index(), row.index() % CHUNK, amount);
            self.offered = self.offered.max(resource.index() + 1);
            self.wide |= magnitude(amount) >= NARROW;
            self.bits |= amount as u64;
        }
    }

    #[inline]
    pub(crate) fn allocatable(&self, row: Row, resource: ResourceId) -> i64 {
        self.allocatable[row.index() / CHUNK].get(resource.index(), row.index() % CHUNK)
    }

    /// The resources that a row has some of, with the amounts, in order of number.
    pub(crate) fn offers(&self, row: Row) -> impl Iterator<Item = (ResourceId, i64)> + '_ {
        let amounts = self.allocatable[row.index() / CHUNK].row(row.index() % CHUNK);
        amounts.map(|(column, amount)| (ResourceId(column as u32), amount))
    }

    #[inline]
    pub(crate) fn sums(&self, row: Row) -> Sums<'_> {
        Sums { table: &self.usage[row.index() / CHUNK].sums, at: row.index() % CHUNK }
    }

    #[inline]
    pub(crate) fn used(&self, row: Row, resource: ResourceId) -> i64 {
        self.sums(row).used_of(resource)
    }

    #[inline]
    pub(crate) fn first_pod(&self, row: Row) -> u32 {
        self.usage[row.index() / CHUNK].first_pod[row.index() % CHUNK]
    }

    #[inline]
    pub(crate) fn generation(&self, row: Row) -> u64 {
        self.usage[row.index() / CHUNK].generation[row.index() % CHUNK]
    }

    #[inline]
    pub(crate) fn head(&mut self, row: Row) -> Head<'_> {
        let usage = Arc::make_mut(&mut self.usage[row.index() / CHUNK]);
        let at = row.index() % CHUNK;
        Head { first_pod: &mut usage.first_pod[at], generation: &mut usage.generation[at] }
    }

    /// Adds a pod of a shape to the sums of a row (`sign` 1), or takes it out (-1).
    #[inline]
    pub(crate) fn count(&mut self, row: Row, shape: &ShapeEntry, sign: i64) -> Head<'_> {
        let usage = Arc::make_mut(&mut self.usage[row.index() / CHUNK]);
        let at = row.index() % CHUNK;
        let mut add = |sum: usize, amount: i64| {
            let sum = usage.sums.add(sum, at, sign * amount);
            self.bits |= sum as u64;
            magnitude(sum)
        };
        let [cpu, memory] = shape.shape.existing_requests;
        let mut largest = add(0, 1) | add(1, cpu) | add(2, memory);
        for &(resource, amount) in &shape.requests {
            largest |= add(COMMON + resource.index(), amount);
        }
        self.wide |= largest >= NARROW;
        Head { first_pod: &mut usage.first_pod[at], generation: &mut usage.generation[at] }
    }

    /// One chunk of what is allocatable of a resource; zeros where there is no such column.
    pub(crate) fn allocatable_chunk(
        &self,
        resource: ResourceId,
        chunk: usize,
        len: usize,
    ) -> &[i64] {
        let column = self.allocatable.get(chunk).and_then(|table| table.column(resource.index()));
        column.unwrap_or(&ZEROS[..len.min(CHUNK)])
    }

    /// One chunk of what is used of a resource; zeros where there is no such column.
    pub(crate) fn used_chunk(&self, resource: ResourceId, chunk: usize, len: usize) -> &[i64] {
        let column = self.column(chunk, COMMON + resource.index());
        column.unwrap_or(&ZEROS[..len.min(CHUNK)])
    }

    /// One chunk of how many pods there are.
    pub(crate) fn pod_count_chunk(&self, chunk: usize) -> &[i64] {
        self.column(chunk, 0).unwrap_or(&[])
    }

    /// One chunk of the CPU (0) or the memory (1) that scores count as used.
    pub(crate) fn scored_chunk(&self, at: usize, chunk: usize) -> &[i64] {
        self.column(chunk, 1 + at).unwrap_or(&[])
    }

    #[inline]
    fn column(&self, chunk: usize, sum: usize) -> Option<&[i64]> {
        self.usage.get(chunk)?.sums.column(sum)
    }

    /// Whether every amount has always been below 2^60.
    #[inline]
    pub(crate) fn is_narrow(&self) -> bool {
        !self.wide
    }

    /// The bits of all amounts that there have been, but for limits of pods.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }
}

/// Amounts below this add and subtract without care.
const NARROW: i64 = 1 << 60;

/// The amount, or one less than its distance from zero if it is negative.
#[inline]
fn magnitude(amount: i64) -> i64 {
    amount ^ (amount >> 63)
}
