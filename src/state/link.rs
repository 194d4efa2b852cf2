//! Putting pods on rows and taking them off.

use alloc::string::String;
use alloc::sync::Arc;
use core::mem;

use super::cluster::Cluster;
use super::devices::Devices;
use super::error::StateError;
use super::ids::{NONE, ShapeId};
use super::journal::Change;
use super::pods::Entry;
use crate::base::Row;
use crate::base::hash::FixedHasher;
use crate::model::{Pod, PodShape};

impl Cluster {
    /// Adds or replaces a pod that has passed its checks.
    pub(crate) fn put_pod(
        &mut self,
        pod: &Pod,
        node: &str,
        version: u64,
        old: Option<u32>,
    ) -> Result<u32, StateError> {
        let row = self.row_of(node);
        // The old pod leaves first, so that the new one is judged against the room it gives back.
        let old_place = old.map(|slot| (slot, self.unlink(slot)));
        let shape = self.acquire_shape(pod.shape());
        let devices = Devices::of(pod);
        if let Some(row) = row
            && let Err(error) = self.room_for(row, shape, devices.as_ref())
        {
            self.shapes.discard(shape);
            if let Some((slot, Some(row))) = old_place {
                self.link(slot, row);
            }
            return Err(error);
        }
        if let Some((slot, place)) = old_place {
            match place {
                Some(left) => self.record_pod(left, slot, false),
                None => self.unpark(slot),
            }
            self.erase(slot);
        }
        let group = self.group_of(pod);
        let first_member = self.pods.first_member(group);
        let entry = Entry { shape, group, first_member, version, hidden: false };
        let slot = match self.store(pod, entry, row, devices) {
            Ok(slot) => slot,
            Err(error) => {
                self.pods.forget_if_empty(group);
                self.shapes.release(shape, &self.journal);
                return Err(error);
            }
        };
        if row.is_none() {
            Arc::make_mut(&mut self.parked).park(&Arc::from(node), [slot]);
            self.journal.record(Change::Parked);
        }
        Ok(slot)
    }

    /// The number of a pod's group, which is not forgotten before [`Cluster::store`].
    pub(crate) fn group_of(&mut self, pod: &Pod) -> u32 {
        match &pod.group {
            Some(group) => self.pods.group(pod.namespace(), group),
            None => NONE,
        }
    }

    /// Adds a pod, if there is none of its name, and puts it on a row, which thereby changes.
    /// [`Cluster::room_for`] has been checked. The use of its shape is not counted, and its
    /// group may be left without pods, if there is one.
    #[inline]
    pub(crate) fn store(
        &mut self,
        pod: &Pod,
        entry: Entry,
        row: Option<Row>,
        devices: Option<Devices>,
    ) -> Result<u32, StateError> {
        let Some(shape) = self.shapes.entry(entry.shape) else { return Err(StateError::StaleId) };
        let slot = self.store_known(pod, entry, shape.namespace_hash, row, devices)?;
        self.pods.lead(entry.group, slot);
        Ok(slot)
    }

    /// [`Cluster::store`] without [`Pods::lead`](super::pods::Pods::lead), for a namespace whose
    /// hash is known.
    #[inline]
    pub(crate) fn store_known(
        &mut self,
        pod: &Pod,
        entry: Entry,
        namespace_hash: FixedHasher,
        row: Option<Row>,
        devices: Option<Devices>,
    ) -> Result<u32, StateError> {
        let Some(slot) = self.pods.claim(pod, namespace_hash, entry, &self.shapes) else {
            return Err(StateError::PodExists(pod.full_name()));
        };
        let Some(shape) = self.shapes.entry(entry.shape) else { return Err(StateError::StaleId) };
        let Some(row) = row else {
            return Ok(self.pods.insert(pod, entry, (NONE, NONE), devices));
        };
        let holds = devices.is_some() || shape.has_claims;
        let head = self.columns.count(row, shape, 1);
        let (shape, deleting) = (entry.shape, pod.deleting);
        let change = Change::Pods { row: row.as_u32(), shape, added: true, deleting };
        *head.generation = self.journal.record(change);
        let next = mem::replace(head.first_pod, slot);
        if let Some(next) = self.pods.record_mut(next) {
            next.previous = slot;
        }
        let slot = self.pods.insert(pod, entry, (row.as_u32(), next), devices);
        if holds {
            self.count_devices(row, slot, 1);
        }
        Ok(slot)
    }

    /// Takes out a pod that is on no row.
    pub(crate) fn erase(&mut self, slot: u32) {
        if let Some(shape) = self.pods.remove(slot, &self.shapes) {
            self.shapes.release(shape, &self.journal);
        }
    }

    /// Takes a pod away from wherever it is.
    pub(crate) fn drop_pod(&mut self, slot: u32) {
        if let Some(row) = self.unlink(slot) {
            self.record_pod(row, slot, false);
        } else {
            self.unpark(slot);
        }
        self.erase(slot);
    }

    fn unpark(&mut self, slot: u32) {
        if self.parked.node_of(slot).is_some() {
            Arc::make_mut(&mut self.parked).leave(slot);
            self.journal.record(Change::Parked);
        }
    }

    /// Records that a pod has come to a row, or has left it.
    pub(crate) fn record_pod(&mut self, row: Row, slot: u32, added: bool) {
        let Some(record) = self.pods.record(slot) else { return };
        let (shape, deleting) = (record.shape(), record.deleting());
        let change = Change::Pods { row: row.as_u32(), shape, added, deleting };
        *self.columns.head(row).generation = self.journal.record(change);
    }

    /// Whether the sums of a row stay within 64 bits with one more pod, of a shape in use.
    #[inline]
    pub(crate) fn room_for(
        &self,
        row: Row,
        shape: ShapeId,
        held: Option<&Devices>,
    ) -> Result<(), StateError> {
        let Some(entry) = self.shapes.entry(shape) else { return Err(StateError::StaleId) };
        if !(entry.narrow && self.columns.is_narrow()) {
            self.room_for_sums(row, &entry.shape)?;
        }
        held.map_or(Ok(()), |held| self.room_for_devices(row, entry, held))
    }

    #[cold]
    fn room_for_sums(&self, row: Row, shape: &PodShape) -> Result<(), StateError> {
        let overflow = |resource: &str| StateError::Overflow {
            node: self.spec(row).map_or_else(String::new, |spec| String::from(&*spec.name)),
            resource: resource.into(),
        };
        for (name, amount) in shape.requests.iter() {
            let used = self.resource(name).map_or(0, |id| self.columns.used(row, id));
            used.checked_add(amount).ok_or_else(|| overflow(name))?;
        }
        let scored = self.columns.sums(row).scored();
        for (used, more) in scored.into_iter().zip(shape.existing_requests) {
            used.checked_add(more).ok_or_else(|| overflow("scored requests"))?;
        }
        Ok(())
    }

    /// Puts an unlinked pod on a row, whose change is recorded elsewhere. [`Cluster::room_for`] has
    /// been checked.
    pub(crate) fn link(&mut self, slot: u32, row: Row) {
        let Some(record) = self.pods.record_mut(slot) else { return };
        let Some(entry) = self.shapes.entry(record.shape()) else { return };
        let head = self.columns.count(row, entry, 1);
        let first = mem::replace(head.first_pod, slot);
        (record.row, record.previous, record.next) = (row.as_u32(), NONE, first);
        self.pods.tally.unplaced = self.pods.tally.unplaced.saturating_sub(1);
        if let Some(next) = self.pods.record_mut(first) {
            next.previous = slot;
        }
        self.count_devices(row, slot, 1);
    }

    /// Takes a pod off its row, which is returned, and whose change is recorded elsewhere.
    pub(crate) fn unlink(&mut self, slot: u32) -> Option<Row> {
        let record = self.pods.record_mut(slot)?;
        if record.row == NONE {
            return None;
        }
        let row = Row::from(mem::replace(&mut record.row, NONE));
        let (shape, previous, next) = (record.shape(), record.previous, record.next);
        self.pods.tally.unplaced += 1;
        let head = self.columns.count(row, self.shapes.entry(shape)?, -1);
        if previous == NONE {
            *head.first_pod = next;
        }
        if let Some(previous) = self.pods.record_mut(previous) {
            previous.next = next;
        }
        if let Some(next) = self.pods.record_mut(next) {
            next.previous = previous;
        }
        self.count_devices(row, slot, -1);
        Some(row)
    }
}
