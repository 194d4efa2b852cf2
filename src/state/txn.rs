//! Transactions: changes to a copy of a cluster, with checkpoints to roll back to.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use super::check::check_named;
use super::cluster::Cluster;
use super::devices::Devices;
use super::error::StateError;
use super::ids::{NodeId, PodId};
use super::plan::Plan;
use super::pods::Entry;
use super::storage::planned::Replanned;
use crate::base::ObjectName;
use crate::base::Row;
use crate::model::{Node, Pod, VolumeBindings};

/// A working copy of a cluster whose changes can be taken back.
///
/// It is made in O(nodes / 256), shares memory with its cluster, and reads like one: everything
/// that takes a `&Cluster` takes a `&Txn`. Each change costs O(1) beside the chunks it touches
/// first; [`Txn::rollback`] costs in proportion to the changes taken back. The cluster itself is
/// never touched.
///
/// ```
/// use phalanx::{Cluster, Node, Pod};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("cpu", 4))?;
/// cluster.add_pod(Pod::new().name("old").request("cpu", 4).on("n1"))?;
///
/// let mut txn = cluster.txn();
/// let before = txn.checkpoint();
/// txn.evict("default", "old")?;
/// txn.place(&Pod::new().name("new").request("cpu", 2), txn.node("n1").unwrap().id())?;
/// let cpu = txn.resource("cpu").unwrap();
/// assert_eq!(txn.node("n1").unwrap().free(cpu), 2_000);
/// txn.rollback(before)?;
/// assert_eq!(txn.node("n1").unwrap().free(cpu), 0);
/// # Ok::<(), phalanx::StateError>(())
/// ```
#[derive(Clone)]
pub struct Txn {
    cluster: Cluster,
    /// Changes, each with its number; numbers are never used again.
    undo: Vec<(u64, Undo)>,
    made: u64,
    /// Claims as they were before a change, with its number.
    claims: Vec<(u64, Replanned)>,
    /// Slices of devices that came with a node, by name, with the number of the change.
    slices: Vec<(u64, String)>,
}

/// A point in a transaction to go back to. Checkpoints nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    changes: usize,
    /// The number of the last change before it.
    last: u64,
}

#[derive(Debug, Clone)]
enum Undo {
    Placed(u32),
    Evicted(u32, Row),
    Added(Row),
    /// Whether the node was unschedulable before.
    Marked(Row, bool),
}

impl Deref for Txn {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn")
            .field("cluster", &self.cluster)
            .field("changes", &self.changes())
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// A transaction over the cluster as it is now.
    pub fn txn(&self) -> Txn {
        let (undo, claims, slices) = Default::default();
        Txn { cluster: self.clone(), undo, made: 0, claims, slices }
    }
}

impl Txn {
    /// Marks this point.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { changes: self.undo.len(), last: self.last(self.undo.len()) }
    }

    /// Takes back all changes since a point, latest first.
    ///
    /// # Errors
    /// The point itself was taken back before. Nothing is changed then. A point of another
    /// transaction is not always recognised.
    pub fn rollback(&mut self, to: Checkpoint) -> Result<(), StateError> {
        if to.changes > self.undo.len() || self.last(to.changes) != to.last {
            return Err(StateError::StaleId);
        }
        self.rollback_to(to.changes)
    }

    /// [`Txn::rollback`] to a number of [`Txn::changes`].
    pub(crate) fn rollback_to(&mut self, changes: usize) -> Result<(), StateError> {
        if changes > self.undo.len() {
            return Err(StateError::StaleId);
        }
        while self.undo.len() > changes {
            self.undo_last();
        }
        Ok(())
    }

    /// The devices of the pod that a change placed.
    pub(crate) fn placed_devices(&self, change: usize) -> Option<Devices> {
        match self.undo.get(change)? {
            (_, Undo::Placed(slot)) => self.cluster.pods.devices(*slot).cloned(),
            _ => None,
        }
    }

    /// Lets claims of pods that are placed hand over volumes to those that are placed later.
    pub(crate) fn rearranging(mut self) -> Txn {
        self.cluster.rearrange_volumes();
        self
    }

    /// How many changes can be taken back.
    pub fn changes(&self) -> usize {
        self.undo.len()
    }

    /// Places a pod on a node. Nothing is judged.
    ///
    /// # Errors
    /// The pod is unsound, the node is not there, or a sum overflows.
    pub fn place(&mut self, pod: &Pod, node: NodeId) -> Result<PodId, StateError> {
        pod.check()?;
        let row = self.cluster.node_by_id(node).ok_or(StateError::StaleId)?.row();
        self.place_on(pod, row)
    }

    /// [`Txn::place`] for a pod that is known to be sound.
    pub(crate) fn place_on(&mut self, pod: &Pod, row: Row) -> Result<PodId, StateError> {
        self.place_with(pod, row, Devices::of(pod))
    }

    /// [`Txn::place_on`] with these devices in place of the pod's own.
    pub(crate) fn place_with(
        &mut self,
        pod: &Pod,
        row: Row,
        devices: Option<Devices>,
    ) -> Result<PodId, StateError> {
        self.place_bound(pod, row, devices, None)
    }

    /// [`Txn::place_with`] where claims get these volumes, as far as they are given.
    pub(crate) fn place_bound(
        &mut self,
        pod: &Pod,
        row: Row,
        devices: Option<Devices>,
        bindings: Option<&VolumeBindings>,
    ) -> Result<PodId, StateError> {
        let shape = self.cluster.acquire_shape(pod.shape());
        if let Err(error) = self.cluster.room_for(row, shape, devices.as_ref()) {
            self.cluster.shapes.discard(shape);
            return Err(error);
        }
        let group = self.cluster.group_of(pod);
        let first_member = self.cluster.pods.first_member(group);
        let entry = Entry { shape, group, first_member, version: 0, hidden: true };
        let slot = self.cluster.store(pod, entry, Some(row), devices)?;
        self.record(Undo::Placed(slot));
        if !pod.shape().volumes.is_empty() {
            let before = self.cluster.plan_volumes(pod.shape(), row, bindings);
            self.claims.push((self.made, before));
        }
        Ok(PodId(slot))
    }

    /// Takes a pod off its node.
    ///
    /// # Errors
    /// There is no such pod, or it is on no node.
    pub fn evict(&mut self, namespace: &str, name: &str) -> Result<PodId, StateError> {
        let unknown = || StateError::UnknownPod(ObjectName::new(namespace, name));
        let slot = self.cluster.slot_of(namespace, name).ok_or_else(unknown)?;
        self.evict_pod(PodId(slot))?;
        Ok(PodId(slot))
    }

    /// Takes a pod off its node, by its id.
    ///
    /// # Errors
    /// There is no such pod, or it is on no node.
    pub fn evict_pod(&mut self, pod: PodId) -> Result<(), StateError> {
        let row = self.cluster.unlink(pod.0).ok_or(StateError::StaleId)?;
        self.cluster.record_pod(row, pod.0, false);
        self.cluster.count_leaving(pod.0, row, false);
        self.record(Undo::Evicted(pod.0, row));
        Ok(())
    }

    /// Adds a node.
    ///
    /// # Errors
    /// The node is unsound, or there is one of its name.
    #[allow(clippy::needless_pass_by_value, reason = "a node is given, as a pod is")]
    pub fn add_node(&mut self, node: Node) -> Result<NodeId, StateError> {
        let (id, slices) = self.cluster.add_node_with(&node)?;
        self.record(Undo::Added(Row::from(id.row)));
        self.slices.extend(slices.into_iter().map(|slice| (self.made, slice)));
        Ok(id)
    }

    /// Adds `count` nodes like `template`, named `<template>-<index>`, the first index that is
    /// not taken first.
    ///
    /// # Errors
    /// The template is unsound, or pods that wait for such a node overflow its sums. No node is
    /// added then.
    pub fn add_nodes(&mut self, template: &Node, count: usize) -> Result<Vec<NodeId>, StateError> {
        template.check()?;
        let before = self.checkpoint();
        let mut index = 0_usize;
        let mut added = Vec::with_capacity(count.min(1 << 16));
        while added.len() < count {
            let name: String = format!("{}-{index}", template.name);
            index += 1;
            if self.cluster.row_of(&name).is_none() {
                let mut node = template.clone();
                node.name = name;
                match self.add_node(node) {
                    Ok(id) => added.push(id),
                    Err(error) => {
                        self.rollback(before)?;
                        return Err(error);
                    }
                }
            }
        }
        Ok(added)
    }

    /// Closes a node to new pods, as `kubectl cordon` does; what runs there stays. The filter
    /// [`NodeUnschedulable`](crate::plugins::NodeUnschedulable) reads the mark. It stays until
    /// [`Txn::uncordon`], or a rollback. O(1).
    ///
    /// # Errors
    /// There is no such node.
    pub fn cordon(&mut self, node: &str) -> Result<(), StateError> {
        self.set_unschedulable(node, true)
    }

    /// Opens a node to new pods again. O(1).
    ///
    /// # Errors
    /// There is no such node.
    pub fn uncordon(&mut self, node: &str) -> Result<(), StateError> {
        self.set_unschedulable(node, false)
    }

    fn set_unschedulable(&mut self, node: &str, unschedulable: bool) -> Result<(), StateError> {
        let unknown = || StateError::UnknownNode(node.into());
        let row = self.cluster.row_of(node).ok_or_else(unknown)?;
        let was = self.cluster.mark_unschedulable(row, unschedulable);
        self.record(Undo::Marked(row, was));
        Ok(())
    }

    /// Places everything a plan places. Nothing is judged.
    ///
    /// # Errors
    /// A pod of the plan is unsound, its node is not there, or a sum overflows. No pod is placed
    /// then.
    pub fn apply_plan(&mut self, plan: &Plan) -> Result<(), StateError> {
        let before = self.checkpoint();
        for assignment in plan.assignments() {
            let placed = match self.cluster.row_of(assignment.node()) {
                Some(row) => {
                    let devices = assignment.held().cloned();
                    let (pod, volumes) = (assignment.pod(), assignment.volumes());
                    let sound = check_named(pod);
                    sound.and_then(|()| self.place_bound(pod, row, devices, volumes)).map(|_| ())
                }
                None => Err(StateError::UnknownNode(assignment.node().into())),
            };
            if let Err(error) = placed {
                self.rollback(before)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The cluster as the transaction leaves it, without the pods that were evicted.
    ///
    /// Pods that the transaction placed are not found by name in it; commit plans to a cluster
    /// of your own to keep them.
    pub fn into_cluster(mut self) -> Cluster {
        self.cluster.keep_planned_volumes();
        for (_, change) in core::mem::take(&mut self.undo) {
            if let Undo::Evicted(slot, _) = change {
                self.cluster.drop_pod(slot);
            }
        }
        self.cluster
    }

    /// The number of the last of the first so many changes.
    fn last(&self, changes: usize) -> u64 {
        changes.checked_sub(1).and_then(|at| self.undo.get(at)).map_or(0, |(number, _)| *number)
    }

    fn record(&mut self, change: Undo) {
        self.made += 1;
        self.undo.push((self.made, change));
    }

    fn undo_last(&mut self) {
        let last = self.undo.pop();
        if let Some((number, _)) = last
            && let Some((_, before)) = self.claims.pop_if(|(planned, _)| *planned == number)
        {
            self.cluster.unplan_volumes(before);
        }
        while let Some((number, _)) = last
            && let Some((_, slice)) = self.slices.pop_if(|(added, _)| *added == number)
        {
            self.cluster.remove_resource_slice(&slice);
        }
        match last.map(|(_, change)| change) {
            Some(Undo::Placed(slot)) => {
                if let Some(row) = self.cluster.unlink(slot) {
                    self.cluster.record_pod(row, slot, false);
                }
                self.cluster.erase(slot);
            }
            Some(Undo::Evicted(slot, row)) => {
                self.cluster.link(slot, row);
                self.cluster.record_pod(row, slot, true);
                self.cluster.count_leaving(slot, row, true);
            }
            Some(Undo::Added(row)) => self.cluster.remove_row(row),
            Some(Undo::Marked(row, was)) => {
                self.cluster.mark_unschedulable(row, was);
            }
            None => {}
        }
    }
}
