//! Binding many pods, one after another, where most are like the one before.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::check::check_named;
use super::cluster::Cluster;
use super::error::StateError;
use super::ids::{NONE, Row, ShapeId};
use super::pods::PodRecord;
use crate::model::{Pod, PodShape};

/// What is known of the pod bound last, and the slots of all.
#[derive(Debug, Default)]
pub(crate) struct Binder {
    slots: Vec<u32>,
    shape: Option<(*const PodShape, ShapeId)>,
    group: Option<(String, u32)>,
}

impl Cluster {
    /// Binds a pod, if it is sound.
    pub(crate) fn bind(
        &mut self,
        binder: &mut Binder,
        pod: &Pod,
        row: Row,
        devices: Option<Arc<[Vec<u32>]>>,
    ) -> Result<(), StateError> {
        let pointer = Arc::as_ptr(pod.shape());
        // The shape bound before was found sound.
        let known = binder.shape.filter(|(known, _)| *known == pointer && !pod.name.is_empty());
        if known.is_none() {
            check_named(pod)?;
        }
        if self.slot_of(pod.namespace(), &pod.name).is_some() {
            return Err(StateError::PodExists(format!("{}/{}", pod.namespace(), pod.name)));
        }
        let shape = match known {
            // The pod bound before holds the shape, so it can only be the same one.
            Some((_, id)) => {
                self.shapes.retain(id);
                id
            }
            _ => self.acquire_shape(pod.shape()),
        };
        let held = devices.as_deref().unwrap_or(&[]);
        let room = self.room_for_shape(row, shape);
        if let Err(error) = room.and_then(|()| self.room_for_devices(row, shape, held)) {
            self.shapes.release(shape);
            return Err(error);
        }
        binder.shape = Some((pointer, shape));
        let group = match &pod.group {
            None => NONE,
            Some(group) => match &binder.group {
                Some((known, id)) if is_name(known, pod.namespace(), group) => *id,
                _ => {
                    let name = format!("{}/{group}", pod.namespace());
                    let id = self.groups.intern(&name);
                    binder.group = Some((name, id));
                    id
                }
            },
        };
        let record = PodRecord {
            name: Arc::from(pod.name.as_str()),
            uid: (!pod.uid.is_empty()).then(|| Arc::from(pod.uid.as_str())),
            key: pod.key,
            version: 0,
            shape,
            row: NONE,
            next: NONE,
            previous: NONE,
            group,
            priority: pod.priority,
            deleting: pod.deleting,
            indexed: true,
            devices,
        };
        let slot = self.store(record);
        self.link(slot, row);
        self.touch(row);
        binder.slots.push(slot);
        Ok(())
    }

    /// Whether the sums of a row stay within 64 bits with one more pod of a shape in use.
    fn room_for_shape(&self, row: Row, shape: ShapeId) -> Result<(), StateError> {
        let Some(entry) = self.shapes.entry(shape) else { return Err(StateError::StaleId) };
        let columns = &self.columns;
        let sums = entry.requests.iter().map(|&(id, amount)| (columns.used(row, id), amount));
        let scored = [columns.scored_cpu[row], columns.scored_memory[row]];
        let scored = scored.into_iter().zip(entry.shape.existing_requests);
        if sums.chain(scored).all(|(used, more)| used.checked_add(more).is_some()) {
            Ok(())
        } else {
            // The slower check knows which resource it is.
            self.room_for(row, &entry.shape)
        }
    }

    /// Takes everything back that was bound.
    pub(crate) fn unbind(&mut self, binder: Binder) {
        for slot in binder.slots {
            self.drop_pod(slot);
        }
    }
}

fn is_name(full: &str, namespace: &str, name: &str) -> bool {
    full.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/')) == Some(name)
}
