//! How pods stand in a session, what nodes have left, and the steps of a statement.
//!
//! A statement changes the state; to discard it is to [`restore`](State::restore) the state before,
//! with the counts of nodes as its steps and their opposites have left them.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::books::Books;
use super::world::{Gpu, Job, Node, PodState, World};
use phalanx::quota::kai::{KaiQuantities, PodSetState, QueueShares};

/// The resources that queues divide.
pub(super) const CPU: usize = 0;
pub(super) const MEMORY: usize = 1;
pub(super) const GPU: usize = 2;
/// Parts of a device.
pub(super) const WHOLE: i64 = 1000;

/// A pod of a job.
pub(super) type At = (usize, usize);

/// How a pod stands.
#[derive(Debug, Clone)]
pub(super) struct PodNow {
    pub(super) state: PodState,
    /// Whether its state is of a statement that is not committed.
    pub(super) tentative: bool,
    pub(super) node: Option<usize>,
    pub(super) devices: Vec<String>,
    /// The place that it leaves for another one.
    pub(super) left: Option<(usize, Vec<String>)>,
    /// Its state and devices before it was evicted.
    pub(super) before: Option<(PodState, Vec<String>)>,
}

/// A shared device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shared {
    /// Memory of pods that are there, leaving ones among them.
    pub(super) allocated: i64,
    /// Whether a pod has been there: it is not only waited for.
    had: bool,
    /// Memory that is being released, less what is pipelined.
    pub(super) releasing: i64,
    /// Memory of all pods, pipelined ones among them.
    pub(super) used: i64,
}

impl Shared {
    /// Whether a part of it is being released, and not all.
    fn releases(&self) -> bool {
        self.releasing > 0 && (self.used == 0 || self.releasing != self.used)
    }
}

/// Free amounts of a node.
#[derive(Debug, Clone)]
pub(super) struct NodeView {
    /// Cpu, memory and whole devices.
    pub(super) idle: [i64; 3],
    /// The same, with what is being released.
    pub(super) free: [i64; 3],
    pub(super) shared: BTreeMap<String, Shared>,
    pub(super) pods: usize,
    memory: i64,
}

impl NodeView {
    /// Thousandths of a device for an amount of memory, rounded up to hundredths.
    fn portion(&self, memory: i64) -> i64 {
        (memory * 100)
            .div_euclid(self.memory.max(1))
            .saturating_add(i64::from((memory * 100).rem_euclid(self.memory.max(1)) > 0))
            * 10
    }

    /// Thousandths of devices that are idle or being released.
    pub(super) fn free_gpus(&self) -> i64 {
        let mut sum = self.free[GPU] * WHOLE;
        for shared in self.shared.values() {
            if shared.allocated > 0 {
                sum += WHOLE - self.portion(shared.allocated);
            }
            if shared.releases() {
                sum += self.portion(shared.releasing);
            }
        }
        sum
    }

    /// MiB of devices that are idle or being released.
    pub(super) fn free_gpu_memory(&self) -> i64 {
        let mut sum = self.free[GPU] * self.memory;
        for shared in self.shared.values() {
            if shared.allocated > 0 {
                sum += self.memory - shared.allocated;
            }
            if shared.releases() {
                sum += shared.releasing;
            }
        }
        sum
    }

    /// Whether a shared device can take so much memory, now or once others are gone.
    pub(super) fn fits_shared(&self, shared: &Shared, memory: i64) -> bool {
        shared.used != 0
            && self.memory - shared.allocated + shared.releasing - memory >= 0
            && shared.allocated != shared.releasing
    }

    /// Whether a shared device can take so much memory now.
    pub(super) fn fits_shared_now(&self, shared: &Shared, memory: i64) -> bool {
        shared.had && self.memory - shared.allocated - memory >= 0
    }

    /// Whether a pod fits into an amount.
    pub(super) fn fits(&self, node: &Node, job: &Job, pod: usize, left: [i64; 3]) -> bool {
        let pod = &job.pods[pod];
        if pod.cpu > left[CPU] || pod.memory > left[MEMORY] {
            return false;
        }
        let Some((memory, devices)) = device_memory(node, pod.gpu) else {
            let Gpu::Whole(gpus) = pod.gpu else { return false };
            return gpus == 0 || gpus <= left[GPU];
        };
        if memory > self.memory {
            return false;
        }
        let shared = self.shared.values().filter(|shared| self.fits_shared(shared, memory)).count();
        left[GPU] + (shared as i64).min(devices) >= devices
    }
}

/// Memory of each of how many shared devices a pod takes of a node; `None` for whole ones.
pub(super) fn device_memory(node: &Node, gpu: Gpu) -> Option<(i64, i64)> {
    match gpu {
        Gpu::Whole(_) => None,
        Gpu::Portion { portion, devices } => Some((portion * node.gpu_memory / WHOLE, devices)),
        Gpu::Memory { memory, devices } => Some((memory, devices)),
    }
}

/// A step of a statement.
#[derive(Debug, Clone)]
enum Step {
    /// A pod was evicted from a node. The eviction may have been taken back since.
    Evicted { at: At, node: usize, before: (PodState, Vec<String>), back: bool },
    /// A pod was given a place.
    Placed { at: At, node: usize },
    /// The eviction of an earlier step was taken back.
    Returned { step: usize },
}

/// The state of a session.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) pods: Vec<Vec<PodNow>>,
    pub(super) shares: QueueShares,
    /// By job: its queue.
    pub(super) queues: Vec<Option<usize>>,
    /// By node: its counts.
    books: Vec<Books>,
    /// Steps of the statement.
    steps: Vec<Step>,
    /// How many labels of devices have been given.
    labels: usize,
    /// Memory of the smallest device.
    least_memory: i64,
}

impl State {
    /// The state when a session opens: pods as they stand, and what is fair.
    pub(super) fn open(world: &World, pods: Vec<Vec<PodNow>>) -> State {
        let mut shares = QueueShares::new(std::vec![0; 3], std::vec![1, 1, WHOLE]);
        shares.queues.clone_from(&world.queues);
        shares.usage_factor = world.rules.usage_factor;
        shares.saturation = world.rules.saturation;
        for node in &world.nodes {
            shares.totals[CPU] += node.cpu;
            shares.totals[MEMORY] += node.memory;
            shares.totals[GPU] += node.gpus * WHOLE;
        }
        let parents = |queue: usize| {
            let path: Vec<usize> = shares.path(queue).collect();
            path.last().is_some_and(|top| shares.queues[*top].parent.is_none())
        };
        let leaf = |queue: usize| shares.children(Some(queue)).next().is_none();
        let queue = |job: &Job| shares.find(&job.queue).filter(|&at| parents(at) && leaf(at));
        let queues = world.jobs.iter().map(queue).collect();
        let with_gpus = world.nodes.iter().filter(|node| node.gpus > 0);
        let least = with_gpus.map(|node| node.gpu_memory).min();
        let mut state = State {
            pods,
            shares,
            queues,
            books: world.nodes.iter().map(Books::new).collect(),
            steps: Vec::new(),
            labels: 0,
            least_memory: least.unwrap_or(100).max(1),
        };
        for (job, pods) in state.pods.iter().enumerate() {
            for (pod, now) in pods.iter().enumerate().filter(|(_, now)| now.state.is_active_used())
            {
                if let Some(node) = now.node {
                    let of = ((job, pod), &world.jobs[job].pods[pod]);
                    state.books[node].add(&world.nodes[node], of, now.state, &now.devices);
                }
            }
        }
        for (at, job) in world.jobs.iter().enumerate() {
            let Some(queue) = state.shares.find(&job.queue) else { continue };
            for pod in 0..job.pods.len() {
                let now = &state.pods[at][pod];
                let allocated = now.state.is_allocated();
                if !allocated && now.state != PodState::Pending {
                    continue;
                }
                let node = now.node.filter(|_| allocated);
                let amounts = state.request(world, (at, pod), node);
                let path: Vec<usize> = state.shares.path(queue).collect();
                for queue in path {
                    for (own, amount) in
                        state.shares.queues[queue].resources.iter_mut().zip(&amounts)
                    {
                        own.request += amount;
                    }
                }
                if allocated {
                    state.shares.charge(queue, &amounts, job.preemptible, 1);
                }
            }
        }
        state.shares.divide();
        state
    }

    /// Amounts that queues count for a pod: on its node, or before it has one.
    pub(super) fn request(
        &self,
        world: &World,
        (job, pod): At,
        node: Option<usize>,
    ) -> KaiQuantities {
        let pod = &world.jobs[job].pods[pod];
        let memory = node.map_or(self.least_memory, |node| world.nodes[node].gpu_memory).max(1);
        let gpu = match pod.gpu {
            Gpu::Whole(gpus) => gpus * WHOLE,
            Gpu::Portion { portion, devices } => portion * devices,
            Gpu::Memory { memory: own, devices } => {
                // Hundredths of a device on a node, as a device plugin counts.
                let hundredths = (own * 100 + memory - 1) / memory;
                if node.is_some() {
                    hundredths * 10 * devices
                } else {
                    own * WHOLE / memory * devices
                }
            }
        };
        [pod.cpu, pod.memory, gpu].into_iter().collect()
    }

    /// Requests of pods together.
    pub(super) fn requests(&self, world: &World, job: usize, pods: &[usize]) -> KaiQuantities {
        let mut sum: KaiQuantities = [0, 0, 0].into_iter().collect();
        for &pod in pods {
            for (own, amount) in sum.iter_mut().zip(self.request(world, (job, pod), None)) {
                *own += amount;
            }
        }
        sum
    }

    /// Amounts that accounted pods hold together.
    pub(super) fn held(&self, world: &World, job: usize, pods: &[usize]) -> KaiQuantities {
        let mut sum: KaiQuantities = [0, 0, 0].into_iter().collect();
        for &pod in pods {
            let now = &self.pods[job][pod];
            if now.state.is_allocated() {
                for (own, amount) in sum.iter_mut().zip(self.request(world, (job, pod), now.node)) {
                    *own += amount;
                }
            }
        }
        sum
    }

    fn charge(&mut self, world: &World, at: At, node: Option<usize>, sign: i64) {
        let Some(queue) = self.shares.find(&world.jobs[at.0].queue) else { return };
        let amounts = self.request(world, at, node);
        self.shares.charge(queue, &amounts, world.jobs[at.0].preemptible, sign);
    }

    /// Evicts a pod. Queues are relieved of it even if it is leaving already: KAI does so of recorded
    /// victims whose job gives more.
    pub(super) fn evict(&mut self, world: &World, at: At) {
        let now = &mut self.pods[at.0][at.1];
        let node = now.node;
        let before = (now.state, now.devices.clone());
        if now.state != PodState::Releasing {
            now.before = Some(before.clone());
            now.state = PodState::Releasing;
            now.tentative = true;
        }
        if let Some(node) = node {
            self.set_book(world, at, node, PodState::Releasing, &before.1);
            self.steps.push(Step::Evicted { at, node, before, back: false });
        }
        self.charge(world, at, node, -1);
    }

    /// Gives a pod a place.
    pub(super) fn place(
        &mut self,
        world: &World,
        at: At,
        node: usize,
        devices: Vec<String>,
        state: PodState,
    ) {
        let now = &mut self.pods[at.0][at.1];
        if now.state == PodState::Releasing && now.tentative {
            let same = devices.is_empty() || devices == now.devices;
            let here = now.node == Some(node) && same;
            // A place that it was to leave for another one counts as its own.
            let was_here = now.left.as_ref().is_some_and(|(left, own)| {
                *left == node && (devices.is_empty() || devices == *own)
            });
            if (here || was_here)
                && let Some((before, devices)) = now.before.take()
            {
                let stays = now.node;
                (now.state, now.devices, now.tentative) = (before, devices, false);
                self.take_back_eviction(world, at);
                self.charge(world, at, stays, 1);
                return;
            }
            now.left = now.node.map(|node| (node, now.devices.clone()));
        }
        (now.state, now.node, now.devices, now.tentative) =
            (state, Some(node), devices.clone(), true);
        let of = (at, &world.jobs[at.0].pods[at.1]);
        self.books[node].add(&world.nodes[node], of, state, &devices);
        self.steps.push(Step::Placed { at, node });
        self.charge(world, at, Some(node), 1);
    }

    /// Counts a pod on a node in another state.
    fn set_book(
        &mut self,
        world: &World,
        at: At,
        node: usize,
        state: PodState,
        devices: &[String],
    ) {
        let of = (at, &world.jobs[at.0].pods[at.1]);
        self.books[node].change(&world.nodes[node], of, state, devices);
    }

    /// Takes the earliest eviction of a pod back.
    fn take_back_eviction(&mut self, world: &World, at: At) {
        let own =
            |step: &Step| matches!(step, Step::Evicted { at: own, back: false, .. } if *own == at);
        let Some(step) = self.steps.iter().position(own) else { return };
        if let Step::Evicted { node, before, back, .. } = &mut self.steps[step] {
            *back = true;
            let (node, before) = (*node, before.clone());
            self.set_book(world, at, node, before.0, &before.1);
        }
        self.steps.push(Step::Returned { step });
    }

    /// Pods of a job that were to start now wait for their places.
    pub(super) fn wait(&mut self, world: &World, job: usize) {
        for at in 0..self.steps.len() {
            let Step::Placed { at: (own, pod), node } = self.steps[at] else { continue };
            let now = &mut self.pods[own][pod];
            if own != job || now.state != PodState::Allocated {
                continue;
            }
            now.state = PodState::Pipelined;
            let devices = now.devices.clone();
            self.set_book(world, (own, pod), node, PodState::Pipelined, &devices);
        }
    }

    /// Goes back to a state before: the statement's steps since are undone one by one.
    pub(super) fn restore(&mut self, world: &World, before: State) {
        while self.steps.len() > before.steps.len() {
            match self.steps.pop() {
                Some(Step::Evicted { at, node, before, back: false }) => {
                    self.set_book(world, at, node, before.0, &before.1);
                }
                Some(Step::Placed { at, node }) => {
                    let of = (at, &world.jobs[at.0].pods[at.1]);
                    self.books[node].remove(&world.nodes[node], of);
                }
                Some(Step::Returned { step }) => {
                    // It is evicted again, and that is undone in its turn.
                    if let Step::Evicted { at, node, before, back } = &mut self.steps[step] {
                        *back = false;
                        let (at, node, devices) = (*at, *node, before.1.clone());
                        self.set_book(world, at, node, PodState::Releasing, &devices);
                    }
                }
                Some(Step::Evicted { .. }) | None => {}
            }
        }
        let (books, labels) = (std::mem::take(&mut self.books), self.labels);
        *self = State { books, labels, ..before };
    }

    /// A label for a device that is shared from now on.
    pub(super) fn new_label(&mut self) -> String {
        self.labels += 1;
        format!("new-{}", self.labels)
    }

    /// Ends a statement.
    pub(super) fn commit(&mut self) {
        self.steps.clear();
        for now in self.pods.iter_mut().flatten() {
            now.tentative = false;
            if now.state == PodState::Allocated {
                now.state = PodState::Binding;
            }
        }
    }

    /// Free amounts of a node.
    pub(super) fn view(&self, world: &World, at: usize) -> NodeView {
        let books = &self.books[at];
        let here = |now: &&PodNow| now.node == Some(at) && now.state.is_active_used();
        let of = |amounts: &BTreeMap<String, i64>, device: &String| {
            amounts.get(device).copied().unwrap_or(0)
        };
        let shared = |(device, &used): (&String, &i64)| {
            let shared = Shared {
                allocated: of(&books.allocated, device),
                had: books.allocated.contains_key(device),
                releasing: of(&books.leaving, device),
                used,
            };
            (device.clone(), shared)
        };
        let mut free = books.idle;
        for (free, releasing) in free.iter_mut().zip(books.releasing) {
            *free += releasing;
        }
        NodeView {
            idle: books.idle,
            free,
            shared: books.used.iter().map(shared).collect(),
            pods: self.pods.iter().flatten().filter(here).count(),
            memory: world.nodes[at].gpu_memory,
        }
    }

    /// How many pods of a set have a state, among some of a job.
    pub(super) fn count(
        &self,
        world: &World,
        job: usize,
        pods: &[usize],
        set: &str,
        is: fn(PodState) -> bool,
    ) -> u32 {
        let of = |pod: &&usize| world.jobs[job].pods[**pod].pod_set == set;
        let has = |pod: &&usize| is(self.pods[job][**pod].state);
        u32::try_from(pods.iter().filter(of).filter(has).count()).unwrap_or(u32::MAX)
    }

    /// The pod sets of a job, by some of its pods, with their own minima or others.
    pub(super) fn pod_sets<'a>(
        &self,
        world: &'a World,
        job: usize,
        pods: &[usize],
        minima: Option<&BTreeMap<String, u32>>,
    ) -> Vec<PodSetState<'a>> {
        let own = world.jobs[job].tree.all_pod_sets();
        own.into_iter()
            .map(|set| PodSetState {
                name: &set.name,
                active: self.count(world, job, pods, &set.name, PodState::is_active_allocated),
                min_available: minima.map_or(set.min_available, |minima| {
                    minima.get(&set.name).copied().unwrap_or(0)
                }),
            })
            .collect()
    }
}
