//! Binding many pods, one after another, where most are like the one before.

use alloc::sync::Arc;
use core::mem;

use smallvec::SmallVec;

use super::check::check_named_after;
use super::cluster::Cluster;
use super::devices::Devices;
use super::error::StateError;
use super::ids::NONE;
use super::pods::Entry;
use crate::base::Row;
use crate::base::hash::FixedHasher;
use crate::model::Pod;

/// The state of [`Cluster::bind_all`]: the pod bound last, and the slots of all.
#[derive(Debug, Default)]
struct Binder<'a> {
    slots: SmallVec<[u32; 16]>,
    last: Option<Held<'a>>,
}

/// The pod bound last.
#[derive(Debug, Clone, Copy)]
struct Held<'a> {
    pod: &'a Pod,
    entry: Entry,
    namespace_hash: FixedHasher,
    /// Whether what it takes of a node is far from the ends of 64 bits.
    narrow: bool,
    /// Uses of its shape that are not counted yet, beside one or more that are.
    uncounted: u32,
}

impl Cluster {
    /// Binds pods to rows, with their devices: all of them, or none if one is unsound or refused.
    /// `find` gives pod, row and devices of an item.
    #[inline]
    pub(crate) fn bind_all<'a, T, E: From<StateError>>(
        &mut self,
        mut items: impl ExactSizeIterator<Item = T>,
        find: impl Fn(&Cluster, T) -> Result<(&'a Pod, Row, Option<Devices>), E>,
    ) -> Result<(), E> {
        let mut binder = Binder::default();
        binder.slots.reserve(items.len());
        let result = items.try_for_each(|item| {
            let (pod, row, devices) = find(self, item)?;
            Ok(self.bind(&mut binder, pod, row, devices)?)
        });
        if let Some(last) = &mut binder.last {
            self.count_uses(last);
        }
        if result.is_err() {
            for slot in binder.slots {
                self.drop_pod(slot);
            }
        }
        result
    }

    /// Counts the uses of the shape, and enters the pods in their group.
    fn count_uses(&mut self, last: &mut Held<'_>) {
        let uncounted = mem::take(&mut last.uncounted);
        if uncounted > 0 {
            self.shapes.retain(last.entry.shape, uncounted);
        }
        self.pods.lead(last.entry.group, last.entry.first_member);
    }

    #[inline]
    fn bind<'a>(
        &mut self,
        binder: &mut Binder<'a>,
        pod: &'a Pod,
        row: Row,
        devices: Option<Devices>,
    ) -> Result<(), StateError> {
        let mut held = match binder.last {
            // A pod bound before holds shape and group, so they can only be the same ones; and its
            // shape was found sound.
            Some(last)
                if Arc::ptr_eq(last.pod.shape(), pod.shape())
                    && last.pod.group == pod.group
                    && !pod.name.is_empty() =>
            {
                Held { pod, uncounted: last.uncounted + 1, ..last }
            }
            last => {
                if let Some(last) = &mut binder.last {
                    self.count_uses(last);
                }
                self.first_alike(last, pod)?
            }
        };
        let is_first = held.uncounted == 0;
        match self.bind_held(&held, row, devices) {
            Ok(slot) => {
                binder.slots.push(slot);
                held.entry.first_member = slot;
                binder.last = Some(held);
                Ok(())
            }
            Err(error) => {
                if is_first {
                    self.pods.forget_if_empty(held.entry.group);
                    self.shapes.discard(held.entry.shape);
                }
                Err(error)
            }
        }
    }

    /// The entry of a pod that is not like the one before.
    fn first_alike<'a>(
        &mut self,
        last: Option<Held<'a>>,
        pod: &'a Pod,
    ) -> Result<Held<'a>, StateError> {
        check_named_after(pod, self.shapes.last())?;
        let shape = self.acquire_shape(pod.shape());
        let Some(known) = self.shapes.entry(shape) else { return Err(StateError::StaleId) };
        let (namespace_hash, narrow) = (known.namespace_hash, known.narrow);
        let group = match (&pod.group, last) {
            (None, _) => NONE,
            (own, Some(last))
                if last.pod.group == *own && last.pod.namespace() == pod.namespace() =>
            {
                last.entry.group
            }
            (Some(group), _) => self.pods.group(pod.namespace(), group),
        };
        let first_member = self.pods.first_member(group);
        let entry = Entry { shape, group, first_member, version: 0, hidden: false };
        Ok(Held { pod, entry, namespace_hash, narrow, uncounted: 0 })
    }

    #[inline]
    fn bind_held(
        &mut self,
        held: &Held<'_>,
        row: Row,
        devices: Option<Devices>,
    ) -> Result<u32, StateError> {
        let pod = held.pod;
        if (devices.is_some() || !held.narrow || !self.columns.is_narrow())
            && let Err(error) = self.room_for(row, held.entry.shape, devices.as_ref())
        {
            return Err(match self.slot_of(pod.namespace(), &pod.name) {
                Some(_) => StateError::PodExists(pod.full_name()),
                None => error,
            });
        }
        self.store_known(pod, held.entry, held.namespace_hash, Some(row), devices)
    }
}
