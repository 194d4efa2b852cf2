//! Typical pods of a workload, and the part of a node that they could not use.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::pool::{DevicePool, Slot};
use crate::model::CPU;
use crate::model::PodShape;
use crate::state::{Cluster, DeviceTerm, NodeView};

/// Pods of one sort in a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypicalPod {
    /// CPU, in thousandths.
    pub cpu: i64,
    /// How many devices; 0 for a pod that wants none.
    pub devices: u32,
    /// Amount taken of each device, in the pool's unit; `None` for whole devices.
    pub share: Option<i64>,
    /// The models allowed; empty means any.
    pub models: Vec<String>,
    /// How many such pods there are.
    pub weight: u64,
}

/// The typical parts of a workload: its most frequent sorts of pods.
///
/// It measures the *fragmentation* of a node: how much of the free amount of its devices a pod
/// drawn from the workload could not use, on average. For one sort of pod that is everything free,
/// the sum `L` over the devices of the pool, in four cases. The pod wants no devices, cannot have
/// the node's model, finds too little CPU, or finds fewer devices with enough left than it wants.
/// Otherwise it is the free amount of the devices that have too little for the pod. Memory is
/// ignored.
///
/// Source: "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
/// Descent" (USENIX ATC 2023), §4.
///
/// ```
/// use phalanx::model::DeviceRequest;
/// use phalanx::plugins::{DevicePool, TypicalPods};
/// use phalanx::Pod;
///
/// let pool = DevicePool::new("gpu", "milli");
/// let pods = [
///     Pod::new().device(DeviceRequest::share("gpu", "milli", 500)),
///     Pod::new().device(DeviceRequest::whole("gpu", 8)),
/// ];
/// let typical = TypicalPods::from_pods(pool, pods.iter().map(|pod| &**pod.shape()));
/// assert_eq!(typical.pods().len(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct TypicalPods {
    pub(super) pool: DevicePool,
    pods: Vec<TypicalPod>,
    pub(super) weight: f64,
    /// How many pods the workload has, those of other sorts included.
    all: f64,
    /// By model, for the models that some pod asks for by name; then the one for all others.
    named: Vec<(String, Table)>,
    others: Table,
}

/// The usefulness of devices of one model: weights of the pods that a device with so much left
/// serves, on a node with so much CPU left.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// By sort of pod, whether it may have the model.
    allowed: Vec<bool>,
    /// The amounts of CPU wanted, ascending.
    cpu: Vec<i64>,
    /// The shares wanted of one device, ascending.
    shares: Vec<i64>,
    /// By number of amounts of CPU that suffice, then by number of shares that do: the weight of
    /// the pods that want one share.
    one_share: Vec<f64>,
    /// By number of amounts of CPU: the weight of the pods that want one whole device.
    one_whole: Vec<f64>,
    several: Vec<Several>,
}

/// Pods that want several devices.
#[derive(Debug, Clone)]
struct Several {
    share: Option<i64>,
    devices: usize,
    /// By number of amounts of CPU.
    weights: Vec<f64>,
}

impl TypicalPods {
    /// The sorts of pods that make up at least 95 % of a workload, the most frequent first.
    ///
    /// Pods are of one sort if they want the same CPU, the same number of devices of the pool, the
    /// same share and the same models. Only the first request for the pool's kind is looked at. Of
    /// equally frequent sorts the one with more CPU comes first, then more of each device, more
    /// devices, and the greater list of models, joined by `|`. O(pods × log(sorts)).
    pub fn from_pods<'a>(
        pool: DevicePool,
        pods: impl IntoIterator<Item = &'a PodShape>,
    ) -> TypicalPods {
        let kind = pool.kind.clone();
        let pods = pods.into_iter().map(move |pod| {
            let request = pod.devices.iter().find(|request| request.kind == kind);
            let models = request.map_or_else(String::new, |request| request.models.join("|"));
            (pod, Cow::Owned(models))
        });
        TypicalPods::of_sorts(pool, pods)
    }

    /// [`TypicalPods::from_pods`] of a list that spells out the models itself. Pods are of one sort
    /// if their texts are the same too, and these stand for the lists of models in the order of
    /// sorts. The published experiment does so: `A|B|B` is another sort than `A|B`, though both may
    /// have the same devices.
    pub fn from_pods_with_models<'a>(
        pool: DevicePool,
        pods: impl IntoIterator<Item = (&'a PodShape, &'a str)>,
    ) -> TypicalPods {
        let pods = pods.into_iter().map(|(pod, models)| (pod, Cow::Borrowed(models)));
        TypicalPods::of_sorts(pool, pods)
    }

    fn of_sorts<'a>(
        pool: DevicePool,
        pods: impl Iterator<Item = (&'a PodShape, Cow<'a, str>)>,
    ) -> TypicalPods {
        type Sort<'a> = (i64, Each, u32, Cow<'a, str>, &'a [String]);
        let mut sorts: BTreeMap<Sort<'a>, u64> = BTreeMap::new();
        let mut total = 0_u64;
        for (pod, text) in pods {
            let request = pod.devices.iter().find(|request| request.kind == pool.kind);
            let each = match (request, pool.share(pod)) {
                (None, _) => Each::None,
                (_, Some(share)) => Each::Share(share),
                (_, None) => Each::Whole,
            };
            let count = request.map_or(0, crate::model::DeviceRequest::count);
            let models = request.map_or(&[][..], |request| &request.models);
            *sorts.entry((pod.requests.of(CPU), each, count, text, models)).or_default() += 1;
            total += 1;
        }
        let mut sorts: Vec<_> = sorts.into_iter().collect();
        sorts.sort_by(|a, b| Reverse((a.1, &a.0)).cmp(&Reverse((b.1, &b.0))));
        let mut covered = 0_u128;
        let mut kept = Vec::new();
        for ((cpu, each, devices, _, models), weight) in sorts {
            let share = if let Each::Share(share) = each { Some(share) } else { None };
            kept.push(TypicalPod { cpu, devices, share, models: models.to_vec(), weight });
            covered += u128::from(weight);
            if covered * 100 >= u128::from(total) * 95 {
                break;
            }
        }
        TypicalPods { all: total as f64, ..TypicalPods::new(pool, kept) }
    }

    /// These sorts of pods.
    pub fn new(pool: DevicePool, pods: Vec<TypicalPod>) -> TypicalPods {
        let mut models: Vec<&String> = pods.iter().flat_map(|pod| &pod.models).collect();
        models.sort_unstable();
        models.dedup();
        let named = models
            .into_iter()
            .map(|model| (model.clone(), Table::new(&pods, |pod| allows(pod, model))))
            .collect();
        let others = Table::new(&pods, |pod| pod.models.is_empty());
        let weight = pods.iter().map(|pod| pod.weight as f64).sum();
        TypicalPods { pool, pods, weight, all: weight, named, others }
    }

    /// The sorts of pods, in order.
    pub fn pods(&self) -> &[TypicalPod] {
        &self.pods
    }

    /// The chance that a pod drawn from the typical ones is of this sort.
    pub fn probability(&self, pod: &TypicalPod) -> f64 {
        // The share of all pods, among the shares that are kept: in this order as published.
        let kept = self.weight / self.all;
        if self.weight > 0.0 { pod.weight as f64 / self.all / kept } else { 0.0 }
    }

    /// How much of what is left of a node's devices a typical pod could not use, on average, in
    /// the pool's unit. O(sorts × devices).
    pub fn fragmentation(&self, cluster: &Cluster, node: NodeView<'_>) -> f64 {
        if self.weight <= 0.0 {
            return 0.0;
        }
        let pool = self.pool.bare(cluster);
        let slots = pool.slots(node);
        let models = self.models(cluster);
        self.published(cluster, &models, &slots, pool.cpu_free(node))
    }

    /// The fragmentation to the last bit as published. There is one sum for each reason why a sort
    /// of pods cannot use devices, each from the most frequent sort on, and then the sum of those.
    /// In other orders the same numbers are rounded otherwise, and a score next to a whole number
    /// falls on its other side. O(sorts × devices).
    pub(super) fn published(
        &self,
        cluster: &Cluster,
        models: &Models,
        slots: &[Slot],
        cpu: i64,
    ) -> f64 {
        let left: f64 = slots.iter().map(|slot| slot.free as f64).sum();
        let table = self.table(models, slots);
        let mut sums = [0.0; 6];
        for (at, pod) in self.pods.iter().enumerate() {
            let allowed = |slot: &Slot| match table {
                Some(table) => table.allowed[at],
                None => allows(pod, cluster.device_text(DeviceTerm(slot.model))),
            };
            let enough = pod.cpu <= cpu;
            let (reason, lost) = if pod.devices == 0 {
                (if enough { Reason::NoDevices } else { Reason::NoDevicesNorCpu }, left)
            } else if !slots.iter().any(allowed) {
                (Reason::Model, left)
            } else {
                let serves =
                    |slot: &&Slot| slot.free >= pod.share.unwrap_or(slot.capacity) && allowed(slot);
                let serving = slots.iter().filter(serves);
                match (serving.clone().count() >= pod.devices as usize, enough) {
                    (true, true) => {
                        let useful: f64 = serving.map(|slot| slot.free as f64).sum();
                        (Reason::Devices, left - useful)
                    }
                    (true, false) => (Reason::Cpu, left),
                    (false, true) => (Reason::Devices, left),
                    (false, false) => (Reason::DevicesAndCpu, left),
                }
            };
            sums[reason as usize] += self.probability(pod) * lost;
        }
        sums.iter().sum()
    }

    /// Whether each sort of pods finds enough CPU with both amounts, or with neither.
    pub(super) fn serves_alike(&self, cpu: i64, other: i64) -> bool {
        self.pods.iter().all(|pod| (pod.cpu <= cpu) == (pod.cpu <= other))
    }

    /// The numbers that a cluster gives to the models requested by name.
    pub(super) fn models(&self, cluster: &Cluster) -> Models {
        Models(self.named.iter().map(|(model, _)| cluster.device_term(model)).collect())
    }

    /// The usefulness of a node's devices; `None` if they are of several models.
    #[inline]
    pub(super) fn table(&self, models: &Models, slots: &[Slot]) -> Option<&Table> {
        let Some(first) = slots.first() else { return Some(&self.others) };
        if slots.iter().any(|slot| slot.model != first.model) {
            return None;
        }
        let named = models.0.iter().position(|model| *model == Some(DeviceTerm(first.model)));
        Some(named.map_or(&self.others, |at| &self.named[at].1))
    }

    /// The sum over all typical pods of what they could not use: fragmentation times weight.
    ///
    /// Sums of weights times amounts are whole numbers, so they are exact up to 2^53.
    #[inline]
    pub(super) fn useless(
        &self,
        cluster: &Cluster,
        models: &Models,
        slots: &[Slot],
        cpu: i64,
    ) -> f64 {
        let useful = match self.table(models, slots) {
            Some(table) => table.useful(slots, table.served(cpu)),
            None => self.useful_mixed(cluster, slots, cpu),
        };
        slots.iter().map(|slot| slot.free as f64).sum::<f64>() * self.weight - useful
    }

    /// [`Table::useful`] for a node with devices of several models.
    fn useful_mixed(&self, cluster: &Cluster, slots: &[Slot], cpu: i64) -> f64 {
        let mut useful = 0.0;
        for pod in self.pods.iter().filter(|pod| pod.devices > 0 && pod.cpu <= cpu) {
            let serves = |slot: &&Slot| {
                slot.free >= pod.share.unwrap_or(slot.capacity)
                    && allows(pod, cluster.device_text(DeviceTerm(slot.model)))
            };
            let serving = slots.iter().filter(serves);
            if serving.clone().count() >= pod.devices as usize {
                useful += pod.weight as f64 * serving.map(|slot| slot.free as f64).sum::<f64>();
            }
        }
        useful
    }
}

/// Why pods of a sort cannot use what is left of a node's devices, in the order of the sums.
#[derive(Debug, Clone, Copy)]
enum Reason {
    DevicesAndCpu,
    /// Too few devices, or what is left on those that have too little.
    Devices,
    Cpu,
    NoDevices,
    NoDevicesNorCpu,
    Model,
}

/// Amount taken of each device, in the order in which sorts are broken ties by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Each {
    None,
    Share(i64),
    Whole,
}

/// The numbers of the models requested by name, in order of name.
#[derive(Debug)]
pub(super) struct Models(Vec<Option<DeviceTerm>>);

fn allows(pod: &TypicalPod, model: &str) -> bool {
    pod.models.is_empty() || pod.models.iter().any(|allowed| allowed == model)
}

impl Table {
    fn new(pods: &[TypicalPod], serves: impl Fn(&TypicalPod) -> bool) -> Table {
        let allowed = pods.iter().map(&serves).collect();
        let pods: Vec<&TypicalPod> =
            pods.iter().filter(|pod| pod.devices > 0 && serves(pod)).collect();
        let ascending = |amounts: &mut dyn Iterator<Item = i64>| {
            let mut amounts: Vec<i64> = amounts.collect();
            amounts.sort_unstable();
            amounts.dedup();
            amounts
        };
        let cpu = ascending(&mut pods.iter().map(|pod| pod.cpu));
        let single = || pods.iter().filter(|pod| pod.devices == 1);
        let shares = ascending(&mut single().filter_map(|pod| pod.share));
        let weigh = |cpu: i64, wanted: &dyn Fn(&TypicalPod) -> bool| -> f64 {
            let served = pods.iter().filter(|pod| pod.cpu <= cpu && wanted(pod));
            served.map(|pod| pod.weight as f64).sum()
        };
        // One row for too little CPU for anything, then one for each amount.
        let rows = || core::iter::once(i64::MIN).chain(cpu.iter().copied());
        let steps = || core::iter::once(i64::MIN).chain(shares.iter().copied());
        let one_share = rows().flat_map(|cpu| {
            steps().map(move |most| (cpu, most)).map(|(cpu, most)| {
                weigh(cpu, &|pod| pod.devices == 1 && pod.share.is_some_and(|share| share <= most))
            })
        });
        let one_share = one_share.collect();
        let one_whole =
            rows().map(|cpu| weigh(cpu, &|pod| pod.devices == 1 && pod.share.is_none())).collect();
        let mut sorts: Vec<(u32, Option<i64>)> =
            pods.iter().filter(|pod| pod.devices > 1).map(|pod| (pod.devices, pod.share)).collect();
        sorts.sort_unstable();
        sorts.dedup();
        let several = sorts.into_iter().map(|sort| Several {
            share: sort.1,
            devices: sort.0 as usize,
            weights: rows()
                .map(|cpu| weigh(cpu, &|pod| (pod.devices, pod.share) == sort))
                .collect(),
        });
        let several = several.collect();
        Table { allowed, cpu, shares, one_share, one_whole, several }
    }

    /// How many of the amounts of CPU wanted suffice.
    #[inline]
    pub(super) fn served(&self, cpu: i64) -> usize {
        self.cpu.partition_point(|wanted| *wanted <= cpu)
    }

    /// The sum over all pods that the devices serve of what is left where they could go; `served`
    /// is of [`Table::served`].
    #[inline]
    pub(super) fn useful(&self, slots: &[Slot], served: usize) -> f64 {
        slots.iter().map(|slot| self.useful_to_one(slot, served)).sum::<f64>()
            + self.useful_to_several(slots, served)
    }

    /// The part of [`Table::useful`] that a device has in pods that want one device.
    #[inline]
    pub(super) fn useful_to_one(&self, slot: &Slot, served: usize) -> f64 {
        // Few enough for counting to beat searching.
        let fitting: usize = self.shares.iter().map(|share| usize::from(*share <= slot.free)).sum();
        let mut weight = self.one_share[served * (self.shares.len() + 1) + fitting];
        if slot.free >= slot.capacity {
            weight += self.one_whole[served];
        }
        slot.free as f64 * weight
    }

    /// The part of [`Table::useful`] in pods that want several devices.
    #[inline]
    pub(super) fn useful_to_several(&self, slots: &[Slot], served: usize) -> f64 {
        let mut useful = 0.0;
        for several in &self.several {
            let fitting =
                slots.iter().filter(|slot| slot.free >= several.share.unwrap_or(slot.capacity));
            if fitting.clone().count() >= several.devices {
                let left: f64 = fitting.map(|slot| slot.free as f64).sum();
                useful += several.weights[served] * left;
            }
        }
        useful
    }
}
