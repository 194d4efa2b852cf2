//! Binding many pods, one after another, where most are like the one before.

use alloc::string::String;

use smallvec::SmallVec;

use super::check::{check_named, full_name, name_in};
use super::cluster::Cluster;
use super::error::StateError;
use super::ids::{NONE, Row, ShapeId};
use super::pods::{Devices, Entry};
use crate::model::{Pod, PodShape};

/// What is known of the pod bound last, and the slots of all.
#[derive(Debug, Default)]
pub(crate) struct Binder {
    slots: SmallVec<[u32; 16]>,
    shape: Option<(*const PodShape, ShapeId)>,
    /// The namespace and the name of the group, and its number.
    group: Option<(String, u32)>,
}

impl Cluster {
    /// Binds a pod, if it is sound.
    #[inline]
    pub(crate) fn bind(
        &mut self,
        binder: &mut Binder,
        pod: &Pod,
        row: Row,
        devices: Option<Devices>,
    ) -> Result<(), StateError> {
        let pointer = alloc::sync::Arc::as_ptr(pod.shape());
        let shape = match binder.shape {
            // The pod bound before holds the shape, so it can only be the same one; and it was
            // found sound.
            Some((known, id)) if known == pointer && !pod.name.is_empty() => {
                self.shapes.retain(id);
                id
            }
            _ => {
                check_named(pod)?;
                self.acquire_shape(pod.shape())
            }
        };
        if let Err(error) = self.room_for(row, shape, devices.as_deref().unwrap_or(&[])) {
            self.shapes.release(shape);
            return Err(match self.slot_of(pod.namespace(), &pod.name) {
                Some(_) => StateError::PodExists(full_name(pod)),
                None => error,
            });
        }
        let group = match (&pod.group, &binder.group) {
            (None, _) => NONE,
            // The pod bound before holds the group too.
            (Some(group), Some((known, id))) if is_name(known, pod.namespace(), group) => *id,
            (Some(group), _) => {
                let name = name_in(pod.namespace(), group);
                let id = self.pods.group(&name);
                binder.group = Some((name, id));
                id
            }
        };
        let entry = Entry { shape, group, version: 0, hidden: false };
        let slot = self.store(pod, entry, devices)?;
        self.put(slot, row);
        binder.shape = Some((pointer, shape));
        binder.slots.push(slot);
        Ok(())
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
