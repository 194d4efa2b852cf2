//! The pods a workload is typically made of, and what of a node they could not use.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::pool::{DevicePool, Slot};
use crate::model::PodShape;
use crate::model::resources::CPU;
use crate::state::{Cluster, DeviceTerm, NodeView};

/// Pods of one sort in a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypicalPod {
    /// CPU, in thousandths.
    pub cpu: i64,
    /// How many devices; 0 for a pod that wants none.
    pub devices: u32,
    /// What is taken of each device, in the pool's unit; `None` for whole devices.
    pub share: Option<i64>,
    /// The models allowed; empty means any.
    pub models: Vec<String>,
    /// How many such pods there are.
    pub weight: u64,
}

/// What a workload is typically made of: its most frequent sorts of pods.
///
/// It measures the *fragmentation* of a node: how much of what is left of its devices a pod drawn
/// from the workload could not use, on average. For one sort of pod that is everything left (the
/// sum `L` over the devices of the pool) if the pod wants no devices, cannot have the node's
/// model, finds too little CPU, or finds fewer devices with enough left than it wants; and
/// otherwise what is left on the devices that have too little for it. Memory is ignored.
///
/// Source: "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
/// Descent" (USENIX ATC 2023), §4.
///
/// ```
/// use phalanx::model::{DeviceRequest, Pod};
/// use phalanx::plugins::{DevicePool, TypicalPods};
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
    /// By model, for the models that some pod asks for by name; then the one for all others.
    named: Vec<(String, Table)>,
    others: Table,
}

/// The sorts of pods that devices of one model can serve, by what they want of devices.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    classes: Vec<Class>,
}

#[derive(Debug, Clone)]
struct Class {
    share: Option<i64>,
    devices: usize,
    /// CPU wanted, ascending, with the weight of all pods that want no more.
    cpu: Vec<(i64, f64)>,
}

impl TypicalPods {
    /// The sorts of pods that make up at least 95 % of a workload, the most frequent first.
    ///
    /// Pods are of one sort if they want the same CPU, the same number of devices of the pool,
    /// the same share and the same models; only the first request for the pool's kind is looked
    /// at. Of equally frequent sorts the one with more CPU comes first, then more of each device,
    /// more devices, and the greater list of models. O(pods × log(sorts)).
    pub fn from_pods<'a>(
        pool: DevicePool,
        pods: impl IntoIterator<Item = &'a PodShape>,
    ) -> TypicalPods {
        let mut sorts: BTreeMap<(i64, Each, u32, Vec<String>), u64> = BTreeMap::new();
        let mut total = 0_u128;
        for pod in pods {
            let request = pod.devices.iter().find(|request| request.kind == pool.kind);
            let each = match (request, pool.share(pod)) {
                (None, _) => Each::None,
                (_, Some(share)) => Each::Share(share),
                (_, None) => Each::Whole,
            };
            let count = request.map_or(0, crate::model::DeviceRequest::count);
            let models = request.map_or_else(Vec::new, |request| request.models.clone());
            *sorts.entry((pod.requests.of(CPU), each, count, models)).or_default() += 1;
            total += 1;
        }
        let mut sorts: Vec<_> = sorts.into_iter().collect();
        sorts.sort_by(|a, b| Reverse((a.1, &a.0)).cmp(&Reverse((b.1, &b.0))));
        let mut covered = 0_u128;
        let mut kept = Vec::new();
        for ((cpu, each, devices, models), weight) in sorts {
            let share = if let Each::Share(share) = each { Some(share) } else { None };
            kept.push(TypicalPod { cpu, devices, share, models, weight });
            covered += u128::from(weight);
            if covered * 100 >= total * 95 {
                break;
            }
        }
        TypicalPods::new(pool, kept)
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
        TypicalPods { pool, pods, weight, named, others }
    }

    /// The sorts of pods, in order.
    pub fn pods(&self) -> &[TypicalPod] {
        &self.pods
    }

    /// The chance that a pod drawn from the typical ones is of this sort.
    pub fn probability(&self, pod: &TypicalPod) -> f64 {
        if self.weight > 0.0 { pod.weight as f64 / self.weight } else { 0.0 }
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
        self.useless(cluster, &models, &slots, pool.cpu_free(node)) / self.weight
    }

    /// The numbers that a cluster gives to the models asked for by name.
    pub(super) fn models(&self, cluster: &Cluster) -> Models {
        Models(self.named.iter().map(|(model, _)| cluster.device_term(model)).collect())
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
        let left: f64 = slots.iter().map(|slot| slot.free as f64).sum();
        let Some(first) = slots.first() else { return 0.0 };
        let useful = if slots.iter().all(|slot| slot.model == first.model) {
            let named = models.0.iter().position(|model| *model == Some(DeviceTerm(first.model)));
            let table = named.map_or(&self.others, |at| &self.named[at].1);
            table.useful(slots, cpu)
        } else {
            self.useful_mixed(cluster, slots, cpu)
        };
        left * self.weight - useful
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

/// What is taken of each device, in the order in which sorts are broken ties by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Each {
    None,
    Share(i64),
    Whole,
}

/// The numbers of the models asked for by name, in order of name.
#[derive(Debug)]
pub(super) struct Models(Vec<Option<DeviceTerm>>);

fn allows(pod: &TypicalPod, model: &str) -> bool {
    pod.models.is_empty() || pod.models.iter().any(|allowed| allowed == model)
}

impl Table {
    fn new(pods: &[TypicalPod], serves: impl Fn(&TypicalPod) -> bool) -> Table {
        let mut classes: BTreeMap<(Option<i64>, u32), BTreeMap<i64, f64>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| pod.devices > 0 && serves(pod)) {
            let class = classes.entry((pod.share, pod.devices)).or_default();
            *class.entry(pod.cpu).or_default() += pod.weight as f64;
        }
        let classes = classes.into_iter().map(|((share, devices), weights)| {
            let mut sum = 0.0;
            let cpu = weights.into_iter().map(|(cpu, weight)| {
                sum += weight;
                (cpu, sum)
            });
            Class { share, devices: devices as usize, cpu: cpu.collect() }
        });
        Table { classes: classes.collect() }
    }

    /// The sum over all pods that the devices serve of what is left where they could go.
    #[inline]
    fn useful(&self, slots: &[Slot], cpu: i64) -> f64 {
        let mut useful = 0.0;
        for class in &self.classes {
            let fitting = class.cpu.partition_point(|(wanted, _)| *wanted <= cpu);
            if fitting == 0 {
                continue;
            }
            let (mut count, mut left) = (0, 0.0);
            for slot in slots {
                if slot.free >= class.share.unwrap_or(slot.capacity) {
                    count += 1;
                    left += slot.free as f64;
                }
            }
            if count >= class.devices {
                useful += class.cpu[fitting - 1].1 * left;
            }
        }
        useful
    }
}
