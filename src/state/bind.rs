//! Binding many pods, one after another, where most are like the one before.

use alloc::string::String;
use alloc::sync::Arc;

use smallvec::SmallVec;

use super::check::{check_named, full_name, name_in};
use super::cluster::Cluster;
use super::error::StateError;
use super::ids::{NONE, Row, ShapeId};
use super::pods::{Devices, Entry};
use crate::model::{Pod, PodShape};

/// What is known of the pod bound last, and the slots of all.
#[derive(Debug, Default)]
struct Binder {
    slots: SmallVec<[u32; 16]>,
    shape: Option<Held>,
    /// The full name of the group, and its number.
    group: Option<(String, u32)>,
}

/// The shape of the pod bound last.
#[derive(Debug, Clone, Copy)]
struct Held {
    pointer: *const PodShape,
    id: ShapeId,
    /// Pods that hold it beyond those it was told of, which are one or more.
    untold: u32,
}

impl Cluster {
    /// Binds pods to rows, with their devices: all of them, or none if one is unsound or refused.
    /// `find` tells them for an item.
    #[inline]
    pub(crate) fn bind_all<'a, T, E: From<StateError>>(
        &mut self,
        mut items: impl Iterator<Item = T>,
        find: impl Fn(&Cluster, T) -> Result<(&'a Pod, Row, Option<Devices>), E>,
    ) -> Result<(), E> {
        let mut binder = Binder::default();
        let result = items.try_for_each(|item| {
            let (pod, row, devices) = find(self, item)?;
            Ok(self.bind(&mut binder, pod, row, devices)?)
        });
        self.tell(binder.shape.take());
        if result.is_err() {
            for slot in binder.slots {
                self.drop_pod(slot);
            }
        }
        result
    }

    fn tell(&mut self, shape: Option<Held>) {
        if let Some(Held { id, untold: more @ 1.., .. }) = shape {
            self.shapes.retain(id, more);
        }
    }

    #[inline]
    fn bind(
        &mut self,
        binder: &mut Binder,
        pod: &Pod,
        row: Row,
        devices: Option<Devices>,
    ) -> Result<(), StateError> {
        let pointer = Arc::as_ptr(pod.shape());
        let held = match binder.shape {
            // A pod bound before holds the shape, so it can only be the same one; and it was found
            // sound.
            Some(held) if held.pointer == pointer && !pod.name.is_empty() => {
                Held { untold: held.untold + 1, ..held }
            }
            _ => {
                check_named(pod)?;
                Held { pointer, id: self.acquire_shape(pod.shape()), untold: 0 }
            }
        };
        if let Err(error) = self.bind_held(binder, pod, row, held.id, devices) {
            if held.untold == 0 {
                self.shapes.release(held.id);
            }
            return Err(error);
        }
        if held.untold == 0 {
            self.tell(binder.shape);
        }
        binder.shape = Some(held);
        Ok(())
    }

    #[inline]
    fn bind_held(
        &mut self,
        binder: &mut Binder,
        pod: &Pod,
        row: Row,
        shape: ShapeId,
        devices: Option<Devices>,
    ) -> Result<(), StateError> {
        if let Err(error) = self.room_for(row, shape, devices.as_deref().unwrap_or(&[])) {
            return Err(match self.slot_of(pod.namespace(), &pod.name) {
                Some(_) => StateError::PodExists(full_name(pod)),
                None => error,
            });
        }
        let group = match (&pod.group, &binder.group) {
            (None, _) => NONE,
            // A pod bound before holds the group too.
            (Some(group), Some((known, id))) if is_name(known, pod.namespace(), group) => *id,
            (Some(group), _) => {
                let name = name_in(pod.namespace(), group);
                let id = self.pods.group(&name);
                binder.group = Some((name, id));
                id
            }
        };
        let entry = Entry { shape, group, version: 0, hidden: false };
        match self.store(pod, entry, Some(row), devices) {
            Ok(slot) => binder.slots.push(slot),
            Err(error) => {
                self.pods.forget_if_empty(group);
                return Err(error);
            }
        }
        Ok(())
    }
}

fn is_name(full: &str, namespace: &str, name: &str) -> bool {
    full.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/')) == Some(name)
}
