//! The overlay: usage by pods that a decision under way has placed, beside an unchanged cluster.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::devices::Devices;
use super::devices::{DeviceNeed, DeviceState};
use super::ids::ResourceId;
use super::view::{NodeView, RowUsage};
use crate::base::Row;
use crate::model::PodShape;

/// Usage of the rows that a decision has placed pods on, with a log to take it back.
///
/// Placing and taking back cost O(resources); nothing is allocated once the buffers have grown.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// One more than the place in `usages`, by row; 0 for rows that are as in the cluster, and
    /// nothing for any row before the first is not.
    slots: Vec<u32>,
    usages: Vec<RowUsage>,
    /// Devices left, by the same places; as far as any were taken.
    devices: Vec<Option<DeviceState>>,
    rows: Vec<u32>,
    /// The bits of all sums that pods have come to.
    bits: u64,
    live: usize,
    taken: Vec<Taken>,
}

/// A pod that was placed: its row, the number of its shape, its devices.
#[derive(Debug)]
struct Taken {
    row: u32,
    shape: u32,
    devices: Option<Devices>,
}

/// The requests of a shape, resolved for one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Takes {
    pub(crate) requests: Vec<(ResourceId, i64)>,
    pub(crate) scored: [i64; 2],
    pub(crate) needs: Vec<DeviceNeed>,
    /// Whether nodes with NUMA zones align it.
    aligned: bool,
}

impl Takes {
    pub(crate) fn of(shape: &PodShape, cluster: &Cluster) -> Takes {
        let requests = shape.requests.iter().filter(|(_, amount)| *amount != 0);
        Takes {
            // A resource without a number is on no node, so nothing can be taken of it.
            requests: requests
                .filter_map(|(name, amount)| Some((cluster.resource(name)?, amount)))
                .collect(),
            scored: shape.existing_requests,
            needs: DeviceNeed::of(cluster, shape),
            aligned: !shape.zones.is_empty(),
        }
    }

    /// Whether a pod gets devices of its node, or amounts of its zones, that are to be chosen.
    #[inline]
    pub(crate) fn is_chosen_for(&self) -> bool {
        self.aligned || !self.needs.is_empty()
    }

    /// The usage of a row with so many more of these. Sums must not overflow.
    #[inline]
    pub(crate) fn ahead(&self, cluster: &Cluster, row: Row, pods: i64) -> RowUsage {
        let mut usage = RowUsage::default();
        read_row(cluster, row, &mut usage);
        change(&mut usage, self, pods);
        usage
    }
}

impl Overlay {
    /// Forgets everything placed, and calls `tell` for each row that may have been read with it.
    pub(crate) fn clear(&mut self, mut tell: impl FnMut(u32)) {
        for row in self.rows.drain(..) {
            self.slots[row as usize] = 0;
            tell(row);
        }
        (self.live, self.bits) = (0, 0);
        self.devices.clear();
        self.taken.clear();
    }

    /// A node with what was placed on it.
    #[inline]
    pub(crate) fn view<'a>(&'a self, cluster: &'a Cluster, row: Row) -> Option<NodeView<'a>> {
        let mut view = cluster.view(row)?;
        let slot = self.slot(row);
        if slot != 0 {
            view.usage = Some(&self.usages[slot as usize - 1]);
            view.devices = self.devices.get(slot as usize - 1).and_then(Option::as_ref);
        }
        Some(view)
    }

    /// One more than the place of a row's usage; 0 if no pods were placed on it.
    #[inline]
    fn slot(&self, row: Row) -> u32 {
        self.slots.get(row.index()).copied().unwrap_or(0)
    }

    /// The rows that pods were placed on, also if they were taken back.
    pub(crate) fn touched(&self) -> impl Iterator<Item = Row> + '_ {
        self.rows.iter().map(|row| Row::from(*row))
    }

    /// Whether pods were placed on a row, also if they were taken back.
    #[inline]
    pub(crate) fn has_touched(&self, row: Row) -> bool {
        self.slot(row) != 0
    }

    /// Whether no pod was placed since it was cleared, not even taken back.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.rows.is_empty()
    }

    /// The usage of a row, if pods were placed on it.
    #[inline]
    pub(crate) fn usage(&self, row: Row) -> Option<&RowUsage> {
        let slot = self.slot(row);
        (slot != 0).then(|| &self.usages[slot as usize - 1])
    }

    /// The bits of all sums that pods have come to.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    /// Whether devices were given out.
    pub(crate) fn has_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Whether all rows are as in the cluster.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// How much was placed and not taken back.
    pub(crate) fn mark(&self) -> usize {
        self.taken.len()
    }

    /// Places a pod of the shape numbered `shape`, with devices that are free for it; false if a
    /// sum would not fit 64 bits.
    #[inline]
    pub(crate) fn take(
        &mut self,
        cluster: &Cluster,
        row: Row,
        shape: u32,
        takes: &Takes,
        devices: Option<Devices>,
    ) -> bool {
        let slot = match self.slot(row) {
            0 => self.open(cluster, row),
            slot => slot as usize - 1,
        };
        let usage = &mut self.usages[slot];
        let fits = takes
            .requests
            .iter()
            .all(|&(resource, amount)| usage.used_of(resource).checked_add(amount).is_some())
            && usage.scored[0].checked_add(takes.scored[0]).is_some()
            && usage.scored[1].checked_add(takes.scored[1]).is_some();
        if fits {
            change(usage, takes, 1);
            let amounts = usage.used.iter().chain(&usage.scored);
            self.bits = amounts.fold(self.bits, |bits, amount| bits | *amount as u64);
            if let Some(held) = &devices {
                if self.devices.len() <= slot {
                    self.devices.resize(slot + 1, None);
                }
                cluster.hold_devices(row, &mut self.devices[slot], &takes.needs, held, 1);
            }
            self.taken.push(Taken { row: row.as_u32(), shape, devices });
        }
        fits
    }

    /// Takes everything back that was placed since a mark, and calls `tell` for each row.
    pub(crate) fn rollback(
        &mut self,
        cluster: &Cluster,
        mark: usize,
        takes: &[Arc<Takes>],
        mut tell: impl FnMut(u32),
    ) {
        for Taken { row, shape, devices } in self.taken.drain(mark..).rev() {
            let slot = self.slots[row as usize] as usize - 1;
            let takes = &takes[shape as usize];
            change(&mut self.usages[slot], takes, -1);
            if let Some(held) = &devices {
                cluster.hold_devices(
                    Row::from(row),
                    &mut self.devices[slot],
                    &takes.needs,
                    held,
                    -1,
                );
            }
            tell(row);
        }
    }

    fn open(&mut self, cluster: &Cluster, row: Row) -> usize {
        let slot = self.live;
        if self.slots.len() < cluster.rows() {
            self.slots.resize(cluster.rows(), 0);
        }
        if slot == self.usages.len() {
            self.usages.push(RowUsage::default());
        }
        read_row(cluster, row, &mut self.usages[slot]);
        self.live += 1;
        self.rows.push(row.as_u32());
        self.slots[row] = self.live as u32;
        slot
    }
}

/// Takes in what the pods of a row take in the cluster.
#[inline]
fn read_row(cluster: &Cluster, row: Row, usage: &mut RowUsage) {
    let sums = cluster.columns.sums(row);
    usage.pod_count = sums.pod_count();
    usage.scored = sums.scored();
    usage.used.clear();
    usage.used.extend(sums.used());
}

#[inline]
fn change(usage: &mut RowUsage, takes: &Takes, pods: i64) {
    usage.pod_count += pods;
    usage.scored[0] += pods * takes.scored[0];
    usage.scored[1] += pods * takes.scored[1];
    for &(resource, amount) in &takes.requests {
        if usage.used.len() <= resource.index() {
            usage.used.resize(resource.index() + 1, 0);
        }
        usage.used[resource.index()] += pods * amount;
    }
}
