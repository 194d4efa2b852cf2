//! What is known of each node, a column a fact.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::devices::{DeviceSpecs, DeviceState};
use super::ids::{LabelKey, LabelValue, NONE, ResourceId, Row};
use crate::base::chunks::{CHUNK, Chunked};
use crate::model::{Amounts, Device, Image, Taint};

/// What does not change while pods come and go.
#[derive(Debug, Clone)]
pub(crate) struct NodeSpec {
    pub(crate) name: Arc<str>,
    pub(crate) key: u64,
    pub(crate) tie_rank: i64,
    /// In order of key number.
    pub(crate) labels: Box<[(LabelKey, LabelValue)]>,
    pub(crate) taints: Box<[Taint]>,
    pub(crate) images: Box<[Image]>,
    pub(crate) devices: Box<[Device]>,
    pub(crate) device_specs: Option<Arc<DeviceSpecs>>,
    /// Where it differs from what is allocatable.
    pub(crate) capacity: Option<Box<Amounts>>,
    /// Allocatable resources that are listed with zero; the columns hold the others.
    pub(crate) listed_zero: Box<[ResourceId]>,
    pub(crate) unschedulable: bool,
    pub(crate) version: u64,
}

impl NodeSpec {
    #[inline]
    pub(crate) fn label(&self, key: LabelKey) -> Option<LabelValue> {
        let at = self.labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(self.labels[at].1)
    }
}

/// A row without a limit on its number of pods.
pub(crate) const NO_POD_LIMIT: i64 = i64::MAX;

/// The columns. All have the same length and the same chunks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    pub(crate) spec: Chunked<Option<Arc<NodeSpec>>>,
    /// Which use of the row it is.
    pub(crate) use_count: Chunked<u32>,
    /// The place in the order among equals: lower first. Not dense.
    pub(crate) rank: Chunked<u32>,
    /// The change that touched the row last.
    pub(crate) generation: Chunked<u64>,
    /// The change that touched its spec last.
    pub(crate) spec_generation: Chunked<u64>,
    /// The first pod on it; the others are linked from there.
    pub(crate) first_pod: Chunked<u32>,
    pub(crate) pod_count: Chunked<i64>,
    pub(crate) pod_limit: Chunked<i64>,
    /// CPU and memory that scores count as used.
    pub(crate) scored_cpu: Chunked<i64>,
    pub(crate) scored_memory: Chunked<i64>,
    pub(crate) allocatable: Vec<Chunked<i64>>,
    pub(crate) used: Vec<Chunked<i64>>,
    /// What is left of devices; `None` where there are none.
    pub(crate) device_state: Chunked<Option<Arc<DeviceState>>>,
    /// Whether an amount has been too large for careless arithmetic.
    wide: bool,
}

static ZEROS: [i64; CHUNK] = [0; CHUNK];

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.spec.len()
    }

    pub(crate) fn push_row(&mut self) {
        self.spec.push(None);
        self.use_count.push(0);
        self.rank.push(0);
        self.generation.push(0);
        self.spec_generation.push(0);
        self.first_pod.push(NONE);
        for column in [
            &mut self.pod_count,
            &mut self.pod_limit,
            &mut self.scored_cpu,
            &mut self.scored_memory,
        ] {
            column.push(0);
        }
        for column in self.allocatable.iter_mut().chain(&mut self.used) {
            column.push(0);
        }
        self.device_state.push(None);
    }

    /// Makes the columns of resources up to a number.
    pub(crate) fn ensure_resource(&mut self, resource: ResourceId) {
        while self.allocatable.len() <= resource.index() {
            let mut column = Chunked::default();
            for _ in 0..self.len() {
                column.push(0);
            }
            self.used.push(column.clone());
            self.allocatable.push(column);
        }
    }

    #[inline]
    pub(crate) fn allocatable(&self, row: Row, resource: ResourceId) -> i64 {
        self.allocatable.get(resource.index()).map_or(0, |column| column[row])
    }

    #[inline]
    pub(crate) fn used(&self, row: Row, resource: ResourceId) -> i64 {
        self.used.get(resource.index()).map_or(0, |column| column[row])
    }

    /// One chunk of what is allocatable of a resource; zeros where there is no such column.
    pub(crate) fn allocatable_chunk(
        &self,
        resource: ResourceId,
        chunk: usize,
        len: usize,
    ) -> &[i64] {
        slice(&self.allocatable, resource, chunk, len)
    }

    /// One chunk of what is used of a resource; zeros where there is no such column.
    pub(crate) fn used_chunk(&self, resource: ResourceId, chunk: usize, len: usize) -> &[i64] {
        slice(&self.used, resource, chunk, len)
    }

    /// Whether every amount has always been below 2^60.
    #[inline]
    pub(crate) fn is_narrow(&self) -> bool {
        !self.wide
    }

    /// Notes an amount that is about to be stored.
    #[inline]
    pub(crate) fn note(&mut self, amount: i64) {
        self.wide |= !(-NARROW..NARROW).contains(&amount);
    }
}

/// Amounts below this add and subtract without care.
const NARROW: i64 = 1 << 60;

fn slice(columns: &[Chunked<i64>], resource: ResourceId, chunk: usize, len: usize) -> &[i64] {
    let column = columns.get(resource.index());
    column.and_then(|column| column.chunk(chunk)).unwrap_or(&ZEROS[..len.min(CHUNK)])
}
