//! Shadow prices of a workload on a cluster, and the fill that a node is good for at them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::pool::{DevicePool, Pool, Slot};
use super::typical::TypicalPods;
use crate::model::{MEMORY, PodShape};
use crate::state::{Cluster, DeviceTerm, NodeView, ResourceId, Row};

/// The steps that devices are measured in.
const CELLS: usize = 100;
/// Idle devices of a node that are looked at together.
const TOGETHER: usize = 16;
/// Pairs of prices that a node may have for CPU and memory, in thousandths of a device for the
/// cluster's mean amount a device.
const PAIRS: [(f64, f64); POINTS] = [
    (0.0, 0.0),
    (50.0, 0.0),
    (120.0, 0.0),
    (200.0, 0.0),
    (300.0, 0.0),
    (430.0, 0.0),
    (600.0, 0.0),
    (800.0, 0.0),
    (1_000.0, 0.0),
    (1_400.0, 0.0),
    (1_800.0, 0.0),
    (2_300.0, 0.0),
    (3_000.0, 0.0),
    (4_500.0, 0.0),
    (0.0, 80.0),
    (0.0, 160.0),
    (0.0, 320.0),
    (0.0, 550.0),
    (0.0, 870.0),
    (0.0, 1_260.0),
    (0.0, 1_740.0),
    (350.0, 160.0),
    (350.0, 480.0),
    (860.0, 480.0),
];
const POINTS: usize = 24;
/// A number for each pair of prices.
type Curve = [f64; POINTS];
/// The load that is thought to come, as a part of what is idle.
const AHEAD: f64 = 0.3;
/// The step of a price in a round, as a part of the pod's value.
const STEP: f64 = 0.02;
/// Load that is expected of a sort is counted from one pod on.
const LEAST: f64 = 1.0;

/// The prices that the typical pods of a workload bear on a cluster: the dual solution of filling
/// the idle devices with as much of the workload as they take.
///
/// A pod is worth the devices that it takes, in thousandths of a device. Its price is the part of
/// its worth that one more such pod would add. It is high for a sort that seldom comes, and low for
/// one that comes more often than there is room. A fill counts pods by worth less price, so that it does not
/// rely on pods that hardly come. CPU and memory have prices too, by the node.
///
/// It keeps the history of arrivals, as [`TypicalPods`] does, with the mean memory of a sort. Prices
/// hold for the cluster that they were [solved](Self::solve) for. As it fills they grow stale, so
/// solve again every some hundred arrivals. No random number and no clock is read: equal clusters
/// and histories have equal prices.
///
/// ```
/// use phalanx::model::{Device, DeviceRequest};
/// use phalanx::plugins::{DevicePool, ShadowPrices};
/// use phalanx::{Cluster, Node, Pod};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n").device(Device::new("gpu", "A").capacity("milli", 1_000)))?;
/// let pods = [Pod::new().device(DeviceRequest::share("gpu", "milli", 500))];
/// let history = pods.iter().map(|pod| &**pod.shape());
/// let mut prices = ShadowPrices::from_pods(DevicePool::new("gpu", "milli"), history);
/// prices.solve(&cluster, 100);
/// assert_eq!(prices.sorts(), 1);
/// # Ok::<(), phalanx::StateError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ShadowPrices {
    pub(super) pool: DevicePool,
    scale: f64,
    sorts: Vec<Sort>,
    /// The worth of a pod, on average.
    worth: f64,
    /// By sort: as moved in each round, and their running mean.
    moving: Vec<f64>,
    mean: Vec<f64>,
    solved: bool,
    units: Units,
    fill: Fill,
}

/// One sort of pods with devices.
#[derive(Debug, Clone)]
struct Sort {
    cpu: f64,
    memory: f64,
    models: Vec<String>,
    chance: f64,
    worth: f64,
    ask: Ask,
}

#[derive(Debug, Clone, Copy)]
enum Ask {
    Whole(usize),
    /// A share of one device, in steps.
    Share(usize),
}

/// The cluster's mean amounts a device, and its models; nodes are measured in them.
#[derive(Debug, Clone, Default)]
struct Units {
    cpu: f64,
    memory: f64,
    models: Vec<String>,
}

/// The free room of a node, as far as prices look.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Room {
    cpu: i64,
    memory: i64,
    /// By model, how many devices are idle.
    idle: SmallVec<[(usize, usize); 1]>,
    /// The other devices: their places in the table.
    parts: SmallVec<[usize; 8]>,
}

/// The worth of the best fill less its price: of a device by model and steps left, and of some idle
/// devices of a model together. CPU and memory are counted in parts of these amounts.
#[derive(Debug, Clone, Default)]
struct Fill {
    cpu: f64,
    memory: f64,
    device: Vec<Curve>,
    idle: Vec<Curve>,
    /// The best filling, by the same places: a sort, or [`SMALLER`] for that of one step or device
    /// less, or [`NOTHING`].
    device_by: Vec<[u16; POINTS]>,
    idle_by: Vec<[u16; POINTS]>,
}

const SMALLER: u16 = u16::MAX;
const NOTHING: u16 = u16::MAX - 1;

/// Names in the numbers of one cluster.
#[derive(Debug)]
pub(super) struct Names {
    memory: Option<ResourceId>,
    models: Vec<Option<DeviceTerm>>,
}

impl ShadowPrices {
    /// Takes the sorts of [`TypicalPods::from_pods`] from a history, with a device of 1,000 units.
    /// Nothing has a price before it is solved. O(pods × log(sorts)).
    pub fn from_pods<'a>(
        pool: DevicePool,
        pods: impl IntoIterator<Item = &'a PodShape, IntoIter: Clone>,
    ) -> ShadowPrices {
        ShadowPrices::with_scale(pool, 1_000, pods)
    }

    /// [`ShadowPrices::from_pods`] with devices of another capacity in the pool's unit. A device
    /// that has more counts as one of this capacity.
    pub fn with_scale<'a>(
        pool: DevicePool,
        device: u32,
        pods: impl IntoIterator<Item = &'a PodShape, IntoIter: Clone>,
    ) -> ShadowPrices {
        let pods = pods.into_iter();
        let typical = TypicalPods::from_pods(pool.clone(), pods.clone());
        let mut memory: BTreeMap<_, (f64, f64)> = BTreeMap::new();
        for pod in pods {
            let Some(request) = pod.devices.iter().find(|request| request.kind == pool.kind) else {
                continue;
            };
            let key = (pod.requests.of(crate::model::CPU), request.count(), pool.share(pod));
            let sum = memory.entry((key, &request.models)).or_default();
            *sum = (sum.0 + pod.requests.of(MEMORY) as f64, sum.1 + 1.0);
        }
        let scale = f64::from(device.max(1));
        let (mut worth, mut sorts) = (0.0, Vec::new());
        for pod in typical.pods() {
            if pod.devices == 0 {
                continue;
            }
            let (chance, cpu) = (typical.probability(pod), pod.cpu as f64);
            let count = f64::from(pod.devices);
            let key = ((pod.cpu, pod.devices, pod.share), &pod.models);
            let (sum, pods) = memory.get(&key).copied().unwrap_or((0.0, 1.0));
            // Equal shares of several devices are as many pods of one.
            let (ask, each, split) = match pod.share {
                None => (Ask::Whole(pod.devices as usize), 1_000.0 * count, 1.0),
                Some(share) => {
                    let part = (share.max(0) as f64 / scale).min(1.0);
                    let steps = libm::ceil(share.max(0) as f64 * CELLS as f64 / scale)
                        .min(CELLS as f64) as usize;
                    (Ask::Share(steps.max(1)), 1_000.0 * part, count)
                }
            };
            worth += chance * each * split;
            sorts.push(Sort {
                cpu: cpu / split,
                memory: sum / pods / split,
                models: pod.models.clone(),
                chance: chance * split,
                worth: each,
                ask,
            });
        }
        let none = vec![0.0; sorts.len()];
        let (units, fill) = (Units::default(), Fill::default());
        let (moving, mean) = (none.clone(), none);
        let solved = false;
        ShadowPrices { pool, scale, sorts, worth, moving, mean, solved, units, fill }
    }

    /// How many sorts of pods with devices have a price.
    pub fn sorts(&self) -> usize {
        self.sorts.len()
    }

    /// Moves the prices towards those of a cluster as it is, in so many rounds: 400 the first time,
    /// 50 from then on are enough. A round raises the price of each sort that is used more than it
    /// is expected, and lowers the others. The expected load is the history's, up to three tenths
    /// of the idle devices: prices are solved again before more has come. Without a round prices
    /// stay as they are, at first zero, and only the cluster's amounts and models are read.
    ///
    /// O(rounds × (models × sorts × 2,400 + 24 × devices)).
    pub fn solve(&mut self, cluster: &Cluster, rounds: usize) {
        let pool = self.pool.bare(cluster);
        self.measure(cluster, &pool);
        let names = self.names(cluster);
        let nodes = Row::all(cluster.rows()).filter_map(|row| cluster.view(row));
        let mut idle = 0.0;
        let mut rooms: Vec<Room> = Vec::new();
        for node in nodes {
            let slots = pool.slots(node);
            idle += slots.iter().map(|slot| self.free(slot)).sum::<f64>();
            let memory = names.memory.map_or(0, |memory| node.free(memory));
            rooms.push(self.room(&names, &slots, pool.cpu_free(node), memory));
        }
        rooms.sort_unstable();
        let mut alike: Vec<(Room, f64)> = Vec::new();
        for room in rooms {
            match alike.last_mut() {
                Some((last, count)) if *last == room => *count += 1.0,
                _ => alike.push((room, 1.0)),
            }
        }
        let pods =
            if self.worth > 0.0 { AHEAD * idle * 1_000.0 / self.scale / self.worth } else { 0.0 };
        for round in 0..rounds {
            let left = 1.0 - round as f64 / rounds as f64;
            let step = if self.solved { STEP } else { STEP * (1.0 + 10.0 * left) };
            self.fill = Fill::new(&self.sorts, &self.units, &self.moving);
            self.round(&alike, pods, step);
            let weight = match (self.solved, round < rounds / 2) {
                (false, true) => 1.0,
                (false, false) => STEP,
                (true, _) => 0.1,
            };
            for (mean, moving) in self.mean.iter_mut().zip(&self.moving) {
                *mean += weight * (moving - *mean);
            }
        }
        self.fill = Fill::new(&self.sorts, &self.units, &self.mean);
        self.solved |= rounds > 0;
    }

    /// One round: how often each sort is used at the moving prices, and the prices moved by it.
    fn round(&mut self, rooms: &[(Room, f64)], pods: f64, step: f64) {
        let fill = &self.fill;
        let mut used = vec![0.0; self.sorts.len()];
        let mut devices = vec![[0.0; POINTS]; fill.device.len()];
        for (room, count) in rooms {
            let (_, point) = fill.best(room);
            for &place in &room.parts {
                devices[place][point] += count;
            }
            for &(model, idle) in &room.idle {
                let mut rest = idle;
                while rest > 0 {
                    let sort = fill.idle_by[model * (TOGETHER + 1) + rest.min(TOGETHER)][point];
                    let taken = match self.sorts.get(usize::from(sort)).map(|sort| sort.ask) {
                        Some(Ask::Whole(taken)) => taken,
                        _ => 1,
                    };
                    match used.get_mut(usize::from(sort)) {
                        Some(used) => *used += count,
                        None => devices[model * (CELLS + 1) + CELLS][point] += count,
                    }
                    rest -= taken.min(rest);
                }
            }
        }
        for place in (0..devices.len()).rev() {
            for (point, by) in fill.device_by[place].into_iter().enumerate() {
                let count = devices[place][point];
                if count == 0.0 || by == NOTHING {
                    continue;
                }
                let Some(sort) = self.sorts.get(usize::from(by)) else {
                    devices[place - 1][point] += count;
                    continue;
                };
                used[usize::from(by)] += count;
                if let Ask::Share(steps) = sort.ask {
                    devices[place - steps][point] += count;
                }
            }
        }
        let over = |used: f64, expected: f64| (used - expected) / used.max(expected).max(LEAST);
        for ((price, sort), used) in self.moving.iter_mut().zip(&self.sorts).zip(used) {
            let moved = *price + step * sort.worth * over(used, pods * sort.chance);
            *price = moved.clamp(0.0, sort.worth);
        }
    }

    /// The cluster's mean amounts a device, and its models in order of name.
    fn measure(&mut self, cluster: &Cluster, pool: &Pool) {
        let resources = [crate::model::CPU, MEMORY].map(|name| cluster.resource(name));
        let (mut sums, mut devices) = ([0.0; 2], 0.0);
        let mut models: Vec<u32> = Vec::new();
        for node in Row::all(cluster.rows()).filter_map(|row| cluster.view(row)) {
            for (sum, resource) in sums.iter_mut().zip(resources) {
                *sum += resource.map_or(0.0, |resource| node.allocatable(resource) as f64);
            }
            for slot in pool.slots(node) {
                devices += 1.0;
                models.push(slot.model);
            }
        }
        models.sort_unstable();
        models.dedup();
        let text = |model| String::from(cluster.device_text(DeviceTerm(model)));
        let mut models: Vec<String> = models.into_iter().map(text).collect();
        models.sort_unstable();
        let mean = |sum: f64| if devices > 0.0 { (sum / devices).max(1.0) } else { 1.0 };
        self.units = Units { cpu: mean(sums[0]), memory: mean(sums[1]), models };
    }

    pub(super) fn names(&self, cluster: &Cluster) -> Names {
        let models = self.units.models.iter().map(|model| cluster.device_term(model)).collect();
        Names { memory: cluster.resource(MEMORY), models }
    }

    /// The free amount of a device, up to the scale.
    fn free(&self, slot: &Slot) -> f64 {
        (slot.free.max(0) as f64).min(self.scale)
    }

    /// The room of a node with so much left. Devices of a model that the cluster had none of when
    /// prices were solved are left out.
    pub(super) fn room(&self, names: &Names, slots: &[Slot], cpu: i64, memory: i64) -> Room {
        let (mut idle, mut parts) = (SmallVec::<[(usize, usize); 1]>::new(), SmallVec::new());
        let mut last = None;
        for slot in slots {
            let model = match last {
                Some((model, at)) if model == slot.model => at,
                _ => names.models.iter().position(|name| *name == Some(DeviceTerm(slot.model))),
            };
            last = Some((slot.model, model));
            let Some(model) = model else { continue };
            if slot.idle && slot.free >= slot.capacity {
                match idle.iter_mut().find(|(of, _)| *of == model) {
                    Some((_, count)) => *count += 1,
                    None => idle.push((model, 1)),
                }
                continue;
            }
            let steps = libm::floor(self.free(slot) * CELLS as f64 / self.scale) as usize;
            if steps > 0 {
                parts.push(model * (CELLS + 1) + steps.min(CELLS - 1));
            }
        }
        idle.sort_unstable();
        parts.sort_unstable();
        Room { cpu: cpu.max(0), memory: memory.max(0), idle, parts }
    }

    /// The worth of the best fill of a room less its price, in thousandths of a device.
    pub(super) fn worth(&self, room: &Room) -> f64 {
        self.fill.best(room).0
    }
}

impl Names {
    /// The cluster's memory.
    pub(super) fn memory_free(&self, node: NodeView<'_>) -> i64 {
        self.memory.map_or(0, |memory| node.free(memory))
    }
}

impl Fill {
    /// The tables at these prices, by sort.
    fn new(sorts: &[Sort], units: &Units, prices: &[f64]) -> Fill {
        let count = units.models.len();
        let mut device = vec![[0.0; POINTS]; count * (CELLS + 1)];
        let mut device_by = vec![[NOTHING; POINTS]; device.len()];
        let mut idle = vec![[0.0; POINTS]; count * (TOGETHER + 1)];
        let mut idle_by = vec![[NOTHING; POINTS]; idle.len()];
        for (model, name) in units.models.iter().enumerate() {
            let allowed = |sort: &&(usize, &Sort)| {
                sort.1.models.is_empty() || sort.1.models.iter().any(|model| model == name)
            };
            let all: Vec<(usize, &Sort)> = sorts.iter().enumerate().collect();
            let gains: Vec<(u16, Ask, Curve)> = all
                .iter()
                .filter(allowed)
                .map(|&(at, sort)| {
                    let (cpu, memory) = (sort.cpu / units.cpu, sort.memory / units.memory);
                    let gain = PAIRS.map(|(cpu_price, price)| {
                        sort.worth - prices[at] - cpu_price * cpu - price * memory
                    });
                    (at as u16, sort.ask, gain)
                })
                .collect();
            let base = model * (CELLS + 1);
            for steps in 1..=CELLS {
                let place = base + steps;
                (device[place], device_by[place]) = (device[place - 1], [SMALLER; POINTS]);
                for &(sort, ask, gain) in &gains {
                    let rest = match ask {
                        Ask::Share(taken) if taken <= steps => place - taken,
                        Ask::Whole(1) if steps == CELLS => base,
                        _ => continue,
                    };
                    let rest = device[rest];
                    better(&mut device[place], &mut device_by[place], sort, &gain, &rest);
                }
            }
            let base = model * (TOGETHER + 1);
            for some in 1..=TOGETHER {
                let place = base + some;
                let one = device[model * (CELLS + 1) + CELLS];
                idle_by[place] = [SMALLER; POINTS];
                for point in 0..POINTS {
                    idle[place][point] = idle[place - 1][point] + one[point];
                }
                for &(sort, ask, gain) in &gains {
                    if let Ask::Whole(taken) = ask
                        && (2..=some).contains(&taken)
                    {
                        let rest = idle[place - taken];
                        better(&mut idle[place], &mut idle_by[place], sort, &gain, &rest);
                    }
                }
            }
        }
        Fill { cpu: units.cpu, memory: units.memory, device, idle, device_by, idle_by }
    }

    /// The least over all pairs of prices of the fill's worth and that of the CPU and memory left:
    /// no fill of the room is worth more. The first pair among equals.
    fn best(&self, room: &Room) -> (f64, usize) {
        let cpu = room.cpu as f64 / self.cpu.max(1.0);
        let memory = room.memory as f64 / self.memory.max(1.0);
        let mut sums = PAIRS.map(|(cpu_price, price)| cpu_price * cpu + price * memory);
        let mut add = |curve: &Curve| {
            for (sum, worth) in sums.iter_mut().zip(curve) {
                *sum += worth;
            }
        };
        for &(model, count) in &room.idle {
            let mut rest = count;
            while rest > 0 {
                let some = rest.min(TOGETHER);
                add(&self.idle[model * (TOGETHER + 1) + some]);
                rest -= some;
            }
        }
        for &place in &room.parts {
            if let Some(curve) = self.device.get(place) {
                add(curve);
            }
        }
        let mut best = (sums[0], 0);
        for (point, &sum) in sums.iter().enumerate() {
            if sum < best.0 {
                best = (sum, point);
            }
        }
        best
    }
}

/// Takes a sort at each pair of prices where it and the fill of the rest are worth more.
fn better(worth: &mut Curve, by: &mut [u16; POINTS], sort: u16, gain: &Curve, rest: &Curve) {
    for point in 0..POINTS {
        let with = gain[point] + rest[point];
        if with > worth[point] + 1e-9 {
            (worth[point], by[point]) = (with, sort);
        }
    }
}

#[cfg(test)]
mod tests;
