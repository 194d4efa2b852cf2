//! Where the pods of one attempt go: all of them, or none.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use super::chunk::{Entry, chunk};
use super::state::{At, GPU, NodeView, State, device_memory};
use super::topology::{Nodes, node_sets};
use super::world::{Gpu, GpuOrder, Placement, Pod, PodState, SubGroupSet, World};
use phalanx::quota::kai::{PodSetState, pod_set_order};

/// An attempt to place a job.
pub(super) struct Attempt<'a> {
    pub(super) world: &'a World,
    pub(super) entry: &'a Entry,
    /// Whether pods only hold their places.
    pub(super) what_if: bool,
}

impl Attempt<'_> {
    /// Places the next chunk of a job; the state is as before if that fails.
    pub(super) fn run(&self, state: &mut State, nodes: &[usize]) -> bool {
        let Attempt { world, entry, what_if } = *self;
        let job = &world.jobs[entry.job];
        let pods = chunk(world, state, entry, !what_if);
        if world.rules.has("proportion")
            && let Some(queue) = state.queues[entry.job]
        {
            let request = state.requests(world, entry.job, &pods);
            if state.shares.fits(queue, &request, job.preemptible).is_err() {
                return false;
            }
        }
        let nodes = Nodes { nodes: nodes.to_vec(), bonus: BTreeMap::new() };
        self.set(state, &job.tree, &nodes, &pods)
    }

    fn of_sets(&self, pods: &[usize], sets: &[&str]) -> Vec<usize> {
        let job = &self.world.jobs[self.entry.job];
        let of = |pod: &usize| sets.contains(&job.pods[*pod].pod_set.as_str());
        pods.iter().copied().filter(of).collect()
    }

    fn set(&self, state: &mut State, set: &SubGroupSet, nodes: &Nodes, pods: &[usize]) -> bool {
        let names: Vec<&str> =
            set.all_pod_sets().into_iter().map(|own| own.name.as_str()).collect();
        let of = (self.entry.job, pods);
        for nodes in node_sets(self.world, state, of, &names, set.topology.as_ref(), nodes) {
            let before = state.clone();
            if self.members(state, set, &nodes, pods) {
                return true;
            }
            state.restore(self.world, before);
        }
        false
    }

    fn members(&self, state: &mut State, set: &SubGroupSet, nodes: &Nodes, pods: &[usize]) -> bool {
        let states = self.states(state);
        let find = |name: &str| states.iter().find(|own| own.name == name);
        let mut groups: Vec<&SubGroupSet> = set.groups.iter().collect();
        groups.sort_by_key(|group| {
            let satisfied = group
                .all_pod_sets()
                .into_iter()
                .all(|own| find(&own.name).is_none_or(|own| own.active >= own.min_available));
            (satisfied, group.name.clone())
        });
        for group in groups {
            let names: Vec<&str> =
                group.all_pod_sets().into_iter().map(|own| own.name.as_str()).collect();
            let pods = self.of_sets(pods, &names);
            if !self.set(state, group, nodes, &pods) {
                return false;
            }
        }
        let mut sets: Vec<(&PodSetState<'_>, _)> =
            set.pod_sets.iter().filter_map(|own| Some((find(&own.name)?, own))).collect();
        sets.sort_by(|a, b| pod_set_order(a.0, b.0));
        for (_, own) in sets {
            let pods = self.of_sets(pods, &[&own.name]);
            let of = (self.entry.job, &pods[..]);
            let sets = node_sets(self.world, state, of, &[&own.name], own.topology.as_ref(), nodes);
            let placed = sets.into_iter().any(|nodes| {
                let before = state.clone();
                let placed = pods.iter().all(|&pod| self.pod(state, pod, &nodes));
                if !placed {
                    state.restore(self.world, before);
                }
                placed
            });
            if !placed {
                return false;
            }
        }
        true
    }

    fn states(&self, state: &State) -> Vec<PodSetState<'_>> {
        let Entry { job, pods, minima } = self.entry;
        state.pod_sets(self.world, *job, pods, minima.as_ref())
    }

    fn pod(&self, state: &mut State, pod: usize, nodes: &Nodes) -> bool {
        let at = (self.entry.job, pod);
        let views: Vec<(usize, NodeView)> =
            nodes.nodes.iter().map(|&node| (node, state.view(self.world, node))).collect();
        let mut order: Vec<(Reverse<i64>, &str, usize)> = views
            .iter()
            .enumerate()
            .map(|(place, (node, _))| {
                let score = self.score(pod, &views, place, nodes);
                (Reverse(score), self.world.nodes[*node].name.as_str(), place)
            })
            .collect();
        order.sort_unstable();
        for (_, _, place) in order {
            let (node, view) = &views[place];
            if self.passes(state, at, *node, view) && self.take(state, at, *node, view) {
                return true;
            }
        }
        false
    }

    /// The sum of scores, in millionths.
    fn score(&self, pod: usize, views: &[(usize, NodeView)], place: usize, nodes: &Nodes) -> i64 {
        const ONE: i64 = 1_000_000;
        let world = self.world;
        let job = &world.jobs[self.entry.job];
        let spec = &job.pods[pod];
        let (at, view) = &views[place];
        let node = &world.nodes[*at];
        let mut score = nodes.bonus.get(at).copied().unwrap_or(0) * 10_000 * ONE;
        if let Some((memory, _)) = device_memory(node, spec.gpu)
            && world.rules.has("gpusharingorder")
            && view.shared.values().any(|shared| view.fits_shared(shared, memory))
        {
            score += 1000 * ONE;
        }
        if world.rules.has("nodeavailability") && view.fits(node, job, pod, view.idle) {
            score += 100 * ONE;
        }
        if world.rules.has("resourcetype") && !spec.gpu.is_some() && node.gpus == 0 {
            score += 10 * ONE;
        }
        if let Some((gpu, cpu)) = world.rules.placement.filter(|_| world.rules.has("nodeplacement"))
        {
            let gpus = spec.gpu.is_some();
            let resource = if gpus { GPU } else { 0 };
            let total = |at: usize| {
                let node = &world.nodes[at];
                if gpus { node.gpus } else { node.cpu }
            };
            let free = view.free[resource];
            let having = views.iter().filter(|(at, _)| total(*at) > 0);
            let amounts: Vec<i64> = having.map(|(_, view)| view.free[resource]).collect();
            let least = amounts.iter().copied().min().unwrap_or(0);
            let most = amounts.iter().copied().max().unwrap_or(0);
            if total(*at) > 0 {
                let part = |over: i64, under: i64| {
                    (i128::from(over) * i128::from(ONE) / i128::from(under.max(1))) as i64
                };
                score += match if gpus { gpu } else { cpu } {
                    Placement::Binpack if least == most => 9 * ONE,
                    Placement::Binpack => 9 * (ONE - part(free - least, most - least)),
                    Placement::Spread => part(free, total(*at)),
                };
            }
        }
        score
    }

    fn passes(&self, state: &State, at: At, node: usize, view: &NodeView) -> bool {
        let world = self.world;
        let job = &world.jobs[at.0];
        let pod = &job.pods[at.1];
        let spec = &world.nodes[node];
        let label = |(key, values): &(String, Vec<String>)| {
            spec.labels.get(key).is_some_and(|own| values.contains(own))
        };
        let own = state.pods[at.0][at.1].node == Some(node);
        let over_capacity = || {
            let Some(queue) = state.queues[at.0].filter(|_| world.rules.has("proportion")) else {
                return false;
            };
            let request = state.request(world, at, Some(node));
            state.shares.fits(queue, &request, job.preemptible).is_err()
        };
        (own || view.pods < spec.pods)
            && pod.node_affinity.as_ref().is_none_or(label)
            && self.passes_affinity(state, pod, node)
            && view.fits(spec, job, at.1, view.free)
            && !over_capacity()
    }

    /// Whether a domain holds a pod with the same labels, or none.
    fn passes_affinity(&self, state: &State, pod: &Pod, node: usize) -> bool {
        let holds = |key: &String| {
            let domain = self.world.nodes[node].labels.get(key);
            domain.is_some()
                && self.world.jobs.iter().zip(&state.pods).any(|(job, pods)| {
                    job.pods.iter().zip(pods).any(|(other, now)| {
                        let there = now.node.filter(|_| now.state.is_active_used());
                        let labels = there.map(|node| self.world.nodes[node].labels.get(key));
                        labels == Some(domain) && other.labels == pod.labels
                    })
                })
        };
        pod.affinity.near.as_ref().is_none_or(holds)
            && !pod.affinity.apart.as_ref().is_some_and(holds)
    }

    /// Takes room on a node that passes.
    fn take(&self, state: &mut State, at: At, node: usize, view: &NodeView) -> bool {
        let (world, job) = (self.world, &self.world.jobs[at.0]);
        let gpu = job.pods[at.1].gpu;
        let now = view.fits(&world.nodes[node], job, at.1, view.idle);
        if matches!(gpu, Gpu::Whole(_)) {
            let state_after =
                if now && !self.what_if { PodState::Allocated } else { PodState::Pipelined };
            state.place(world, at, node, Vec::new(), state_after);
            return true;
        }
        let Some((devices, at_once)) = self.devices(state, at, node, view) else { return false };
        let binds = at_once && now && !self.what_if;
        let state_after = if binds { PodState::Allocated } else { PodState::Pipelined };
        state.place(world, at, node, devices, state_after);
        true
    }

    /// The shared devices that a pod takes, and whether they have room now.
    fn devices(
        &self,
        state: &mut State,
        (job, pod): At,
        node: usize,
        view: &NodeView,
    ) -> Option<(Vec<String>, bool)> {
        let spec = &self.world.nodes[node];
        let (memory, wanted) = device_memory(spec, self.world.jobs[job].pods[pod].gpu)?;
        // A portion of those shared, and one for each that is whole.
        let mut fitting: Vec<(i64, Option<&String>)> = Vec::new();
        for (label, shared) in &view.shared {
            if view.fits_shared(shared, memory) {
                let used = shared.used * 1_000_000 / spec.gpu_memory.max(1);
                let score = match self.world.rules.gpu_order {
                    GpuOrder::None => 0,
                    GpuOrder::Pack => used,
                    GpuOrder::Spread => 1_000_000 - used,
                };
                fitting.push((score, Some(label)));
            }
        }
        let whole = if self.world.rules.gpu_order == GpuOrder::Spread { 1_000_000 } else { 0 };
        fitting.extend((0..view.free[GPU].max(0)).map(|_| (whole, None)));
        fitting.sort_by_key(|(score, _)| Reverse(*score));
        let mut chosen = Vec::new();
        let mut at_once = true;
        for (_, label) in fitting.into_iter().take(usize::try_from(wanted).unwrap_or(0)) {
            match label {
                Some(label) => {
                    at_once &= view.fits_shared_now(&view.shared[label], memory);
                    chosen.push(label.clone());
                }
                None => chosen.push(state.new_label()),
            }
        }
        (chosen.len() as i64 == wanted).then_some((chosen, at_once))
    }
}

/// After a job has been placed: where a pod set would start below its minimum because some of its pods
/// only hold their places, all that were placed now wait with them.
pub(super) fn wait_together(world: &World, state: &mut State, job: usize) {
    let all: Vec<usize> = (0..world.jobs[job].pods.len()).collect();
    let waits = world.jobs[job].tree.all_pod_sets().into_iter().any(|set| {
        let count = |is: fn(PodState) -> bool| state.count(world, job, &all, &set.name, is);
        count(|state| state == PodState::Pipelined) > 0
            && count(PodState::is_allocated) < set.min_available
    });
    if waits {
        state.wait(world, job);
    }
}
