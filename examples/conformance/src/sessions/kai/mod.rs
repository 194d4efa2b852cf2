//! KAI-Scheduler's sessions: allocate, consolidation, reclaim, preempt and stale-gang eviction, on
//! nodes with shared devices.
//!
//! A scheduler of this crate decides on one group at a time, and needs none of this. It is here to be
//! compared with what KAI does. What it asks of queues is what [`Tenants::kai`] asks
//! ([`phalanx::quota::kai`]).
//!
//! Plain and slow: a statement that is discarded is undone step by step, and the state copied back.
//!
//! KAI's own answers pin some behaviour that is not meant; it is so here:
//!
//! - queues are compared again only when they come to the head of their siblings;
//! - a job popped as a victim and pushed back with fewer pods counts as a victim twice in the order of
//!   queues;
//! - victims recorded in one step of a search are charged back twice where their job gives more pods
//!   in the next;
//! - a pod that was to move, is evicted by a later search, and is then given the place that it was to
//!   leave, moves all the same;
//! - nodes lose count of shared devices that a failed search had moved pods to, until the session ends.
//!
//! Source: KAI-Scheduler, commit 72de64f (March 2026).
//!
//! [`Tenants::kai`]: phalanx::quota::Tenants

mod books;
mod chunk;
mod job_order;
mod place;
mod search;
mod state;
mod topology;
mod world;

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

use chunk::{Entry, chunk, has_pending, is_gang_satisfied, is_ready};
use job_order::JobOrder;
use place::{Attempt, wait_together};
use search::Search;
use state::{GPU, PodNow, State};
pub use world::{
    Action, Gpu, GpuOrder, Job, Node, Placement, Pod, PodAffinity, PodSet, PodState, Rules,
    SubGroupSet, Topology, TopologyConstraint, World,
};

use phalanx::quota::kai::{QueueShares, Reclaimer};

/// How a pod stands after a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodOutcome {
    /// The state.
    pub state: PodState,
    /// The node, if it has one.
    pub node: Option<String>,
    /// Labels of shared devices; new ones begin with `new-`.
    pub devices: Vec<String>,
}

/// Work that a session has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Pods bound.
    pub binds: usize,
    /// Pods evicted, moved ones among them.
    pub evictions: usize,
    /// Pods that hold a place.
    pub pipelines: usize,
}

/// Sessions one after the other on a cluster that does what they say.
#[derive(Debug, Clone)]
pub struct Sessions {
    world: World,
    pods: Vec<Vec<PodNow>>,
    stale: Vec<Option<Duration>>,
    last: Option<State>,
}

impl Sessions {
    /// A cluster before the first session.
    pub fn new(world: World) -> Sessions {
        let node = |name: &Option<String>| {
            let name = name.as_ref()?;
            world.nodes.iter().position(|node| node.name == *name)
        };
        // Portions without labels have devices of their own.
        let devices = |pod: &Pod| match pod.gpu {
            Gpu::Portion { devices, .. } | Gpu::Memory { devices, .. }
                if pod.devices.is_empty() && pod.node.is_some() =>
            {
                (0..devices).map(|at| format!("{}/{at}", pod.name)).collect()
            }
            _ => pod.devices.clone(),
        };
        let now = |pod: &Pod| PodNow {
            state: pod.state,
            tentative: false,
            node: node(&pod.node),
            devices: devices(pod),
            left: None,
            before: None,
        };
        let pods = world.jobs.iter().map(|job| job.pods.iter().map(now).collect()).collect();
        let stale = world.jobs.iter().map(|job| job.stale_for).collect();
        Sessions { world, pods, stale, last: None }
    }

    /// Queues when a session opens now: what is asked for, held and fair.
    pub fn shares(&self) -> QueueShares {
        State::open(&self.world, self.pods.clone()).shares
    }

    /// Runs a session.
    pub fn run(&mut self, actions: &[Action]) -> Work {
        let mut state = State::open(&self.world, self.pods.clone());
        for &action in actions {
            match action {
                Action::Allocate => allocate(&self.world, &mut state),
                Action::StaleGangEviction => self.evict_stale(&mut state),
                _ => make_room(&self.world, &mut state, action),
            }
        }
        let mut work = Work::default();
        for (before, after) in self.pods.iter().flatten().zip(state.pods.iter().flatten()) {
            let was_leaving = before.state == PodState::Releasing;
            let leaves = after.state == PodState::Releasing || after.left.is_some();
            work.binds +=
                usize::from(after.state == PodState::Binding && before.state != after.state);
            work.evictions += usize::from(leaves && !was_leaving);
            work.pipelines +=
                usize::from(after.state == PodState::Pipelined && before.state != after.state);
        }
        self.pods.clone_from(&state.pods);
        self.last = Some(state);
        work
    }

    fn evict_stale(&mut self, state: &mut State) {
        for (job, spec) in self.world.jobs.iter().enumerate() {
            let has = |is: fn(PodState) -> bool| state.pods[job].iter().any(|now| is(now.state));
            let stale = !has(|state| state == PodState::Succeeded)
                && has(PodState::is_active_used)
                && !is_gang_satisfied(&self.world, state, job);
            if !stale {
                self.stale[job] = None;
                continue;
            }
            let elapsed = *self.stale[job].get_or_insert(Duration::ZERO);
            if self.world.rules.stale_grace.is_none_or(|grace| elapsed < grace) {
                continue;
            }
            for pod in 0..spec.pods.len() {
                if state.pods[job][pod].state.is_active_allocated() {
                    state.evict(&self.world, (job, pod));
                }
            }
            state.commit();
        }
    }

    /// The cluster after what the session has said is done: pods that leave are gone, and wait again;
    /// pods that were bound run; what held a place lets go of it.
    pub fn settle(&mut self) {
        for (job, pods) in self.world.jobs.iter().zip(&mut self.pods) {
            for now in pods {
                let goes = now.state == PodState::Releasing && !job.stays_releasing;
                if goes || now.state == PodState::Pipelined {
                    (now.state, now.node) = (PodState::Pending, None);
                    now.devices.clear();
                } else if now.state == PodState::Binding {
                    now.state = PodState::Running;
                }
                (now.left, now.before) = (None, None);
            }
        }
    }

    /// How pods stand, by name.
    pub fn outcomes(&self) -> BTreeMap<&str, PodOutcome> {
        let jobs = self.world.jobs.iter().zip(&self.pods);
        jobs.flat_map(|(job, pods)| job.pods.iter().zip(pods))
            .map(|(spec, now)| {
                let node = now.node.map(|node| self.world.nodes[node].name.clone());
                let outcome = PodOutcome { state: now.state, node, devices: now.devices.clone() };
                (spec.name.as_str(), outcome)
            })
            .collect()
    }

    /// Whole devices of a node that are idle, and those that are being released.
    pub fn devices(&self, node: &str) -> Option<(i64, i64)> {
        let at = self.world.nodes.iter().position(|own| own.name == node)?;
        let view = State::open(&self.world, self.pods.clone()).view(&self.world, at);
        Some((view.idle[GPU], view.free[GPU] - view.idle[GPU]))
    }

    /// The cluster.
    pub fn world(&self) -> &World {
        &self.world
    }
}

/// Jobs that wait for pods.
fn waiting(world: &World, state: &State) -> Vec<Entry> {
    let waits = |job: &usize| has_pending(state, *job) && is_ready(world, state, *job);
    (0..world.jobs.len()).filter(waits).map(|job| Entry::whole(world, job)).collect()
}

/// Places job after job, as far as they fit; one that has grown by a pod comes again.
fn allocate(world: &World, state: &mut State) {
    let mut order = JobOrder::new(world, state, waiting(world, state), false);
    let nodes: Vec<usize> = (0..world.nodes.len()).collect();
    while let Some(entry) = order.pop(world, state) {
        let attempt = Attempt { world, entry: &entry, what_if: false };
        if !attempt.run(state, &nodes) {
            continue;
        }
        wait_together(world, state, entry.job);
        state.commit();
        if has_pending(state, entry.job) {
            order.insert(world, state, entry);
        }
    }
}

/// Tries each waiting job once, with victims.
fn make_room(world: &World, state: &mut State, action: Action) {
    if action == Action::Consolidation && world.rules.consolidation_victims == Some(0) {
        return;
    }
    let mut jobs = waiting(world, state);
    if action == Action::Consolidation {
        jobs.retain(|entry| world.jobs[entry.job].preemptible);
    }
    let mut order = JobOrder::new(world, state, jobs, false);
    while let Some(entry) = order.pop(world, state) {
        if !may_try(world, state, action, &entry) {
            continue;
        }
        let candidates = candidates(world, state, action, entry.job);
        let shares = state.shares.clone();
        let search = Search { world, job: entry.job, action, candidates, shares: &shares };
        if search.run(state) {
            state.commit();
        }
    }
}

fn may_try(world: &World, state: &State, action: Action, entry: &Entry) -> bool {
    let spec = &world.jobs[entry.job];
    let pods = chunk(world, state, entry, false);
    let request = state.requests(world, entry.job, &pods);
    let Some(queue) = state.queues[entry.job] else { return false };
    match action {
        Action::Consolidation => {
            let views = (0..world.nodes.len()).map(|node| state.view(world, node));
            let (mut gpus, mut memory) = (0, 0);
            for view in views {
                gpus += view.free_gpus();
                memory += view.free_gpu_memory();
            }
            let of = |pod: &usize| match spec.pods[*pod].gpu {
                Gpu::Memory { memory, devices } => (0, memory * devices),
                _ => (state.request(world, (entry.job, *pod), None)[GPU], 0),
            };
            let wanted =
                pods.iter().map(of).fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
            wanted.0 <= gpus && wanted.1 <= memory
        }
        Action::Reclaim => {
            let reclaimer = Reclaimer { queue, request, preemptible: spec.preemptible };
            state.shares.may_reclaim(&reclaimer)
        }
        _ => spec.preemptible || within_quota(state, queue, &request),
    }
}

/// Whether work that is not preemptible stays within what its queues deserve.
fn within_quota(state: &State, queue: usize, request: &[i64]) -> bool {
    use phalanx::quota::kai::OverCapacity;
    !matches!(state.shares.fits(queue, request, false), Err(OverCapacity::Quota { .. }))
}

/// Jobs that may be victims.
fn candidates(world: &World, state: &State, action: Action, job: usize) -> Vec<usize> {
    let own = &world.jobs[job];
    let may = |at: &usize| {
        let other = &world.jobs[*at];
        *at != job
            && other.preemptible
            && state.pods[*at].iter().any(|now| now.state.is_active_allocated())
            && match action {
                Action::Reclaim => other.queue != own.queue,
                Action::Preempt => other.queue == own.queue && other.priority < own.priority,
                _ => true,
            }
    };
    let all = (0..world.jobs.len()).filter(may);
    match world.rules.consolidation_victims.filter(|_| action == Action::Consolidation) {
        // KAI stops one later than it says.
        Some(most) => all.take(most.saturating_add(1)).collect(),
        None => all.collect(),
    }
}
