//! Counts of a node: kept step by step, and taken back step by step.
//!
//! KAI takes a failed search back by the opposite of each step, last first. The counts of shared
//! devices do not always come back: a device from which the last pod that was to come is taken counts
//! no longer as released, and a pod that was to move between devices of one node is counted on both.
//! Later decisions see these counts, so they are kept in the same way here. A new session counts anew.

use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

use super::state::{At, CPU, GPU, MEMORY, device_memory};
use super::world::{Gpu, Node, Pod, PodState};

/// The counts of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    /// Cpu, memory and whole devices that nobody has.
    pub(super) idle: [i64; 3],
    /// The same, being released, less what holds a place on it.
    pub(super) releasing: [i64; 3],
    /// Whole devices of pods, leaving and coming ones among them.
    whole: i64,
    /// By shared device: memory of all pods.
    pub(super) used: BTreeMap<String, i64>,
    /// By shared device: memory being released, less what holds a place on it.
    pub(super) leaving: BTreeMap<String, i64>,
    /// By shared device: memory of pods that are there, leaving ones among them.
    pub(super) allocated: BTreeMap<String, i64>,
    /// Shared devices that count as released.
    released: BTreeSet<String>,
    /// Pods as they were counted last.
    pods: BTreeMap<At, (PodState, Vec<String>)>,
}

impl Books {
    pub(super) fn new(node: &Node) -> Books {
        let mut books = Books::default();
        books.idle[CPU] = node.cpu;
        books.idle[MEMORY] = node.memory;
        books.idle[GPU] = node.gpus;
        books
    }

    /// Counts a pod that is not counted yet; on a device of its own beside another of the same node,
    /// the first count stays and is forgotten.
    pub(super) fn add(
        &mut self,
        node: &Node,
        (at, pod): (At, &Pod),
        state: PodState,
        devices: &[String],
    ) {
        self.pods.insert(at, (state, devices.to_vec()));
        self.count(node, pod, state, devices, 1);
    }

    /// Takes a pod out as it was counted last.
    pub(super) fn remove(&mut self, node: &Node, (at, pod): (At, &Pod)) {
        if let Some((state, devices)) = self.pods.remove(&at) {
            self.count(node, pod, state, &devices, -1);
        }
    }

    /// Counts a pod in another state, or on another device.
    pub(super) fn change(
        &mut self,
        node: &Node,
        of: (At, &Pod),
        state: PodState,
        devices: &[String],
    ) {
        self.remove(node, of);
        self.add(node, of, state, devices);
    }

    fn count(&mut self, node: &Node, pod: &Pod, state: PodState, devices: &[String], sign: i64) {
        let whole = if let Gpu::Whole(gpus) = pod.gpu { gpus } else { 0 };
        self.whole += whole * sign;
        for (at, amount) in [pod.cpu, pod.memory, whole].into_iter().enumerate() {
            match state {
                PodState::Pipelined => self.releasing[at] -= amount * sign,
                PodState::Releasing => {
                    self.releasing[at] += amount * sign;
                    self.idle[at] -= amount * sign;
                }
                _ => self.idle[at] -= amount * sign,
            }
        }
        let Some((memory, _)) = device_memory(node, pod.gpu) else { return };
        for device in devices {
            if sign > 0 {
                self.share(node, device, memory, state);
            } else {
                self.unshare(node, device, memory, state);
            }
        }
    }

    /// Devices of pods, and those that are shared.
    fn used_devices(&self) -> i64 {
        self.whole + self.used.values().filter(|memory| **memory > 0).count() as i64
    }

    fn share(&mut self, node: &Node, device: &str, memory: i64, state: PodState) {
        let used = add(&mut self.used, device, memory);
        match state {
            PodState::Releasing => {
                let leaving = add(&mut self.leaving, device, memory);
                add(&mut self.allocated, device, memory);
                if used == leaving {
                    self.releasing[GPU] += i64::from(self.released.insert(device.into()));
                    self.idle[GPU] -= i64::from(node.gpus < self.idle[GPU] + self.used_devices());
                }
            }
            PodState::Pipelined => {
                let leaving = add(&mut self.leaving, device, -memory);
                self.releasing[GPU] -= i64::from(used - memory == leaving + memory);
            }
            _ => {
                add(&mut self.allocated, device, memory);
                let more = node.gpus < self.idle[GPU] + self.used_devices();
                self.idle[GPU] -= i64::from(used <= memory && more);
                self.releasing[GPU] -= i64::from(self.released.remove(device));
            }
        }
    }

    fn unshare(&mut self, node: &Node, device: &str, memory: i64, state: PodState) {
        let used = add(&mut self.used, device, -memory);
        let fewer = |own: &Books| node.gpus >= own.idle[GPU] + own.used_devices();
        match state {
            PodState::Releasing => {
                add(&mut self.leaving, device, -memory);
                add(&mut self.allocated, device, -memory);
                if used <= 0 {
                    self.idle[GPU] += i64::from(fewer(self));
                    self.releasing[GPU] -= i64::from(self.released.remove(device));
                }
            }
            PodState::Pipelined => {
                let leaving = add(&mut self.leaving, device, memory);
                let on_released = used + memory == leaving - memory || (used, leaving) == (0, 0);
                self.releasing[GPU] += i64::from(on_released);
            }
            _ => {
                add(&mut self.allocated, device, -memory);
                self.idle[GPU] += i64::from(used <= 0 && fewer(self));
                let all_leave = used != 0 && self.leaving.get(device) == Some(&used);
                if all_leave {
                    self.releasing[GPU] += i64::from(self.released.insert(device.into()));
                }
            }
        }
    }
}

fn add(to: &mut BTreeMap<String, i64>, device: &str, memory: i64) -> i64 {
    let own = to.entry(device.into()).or_default();
    *own += memory;
    *own
}
