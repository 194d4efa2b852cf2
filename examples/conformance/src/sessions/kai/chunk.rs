//! Chunks of a job: the pods that one attempt places, and those that one eviction takes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use super::state::State;
use super::world::{PodState, World};
use phalanx::quota::kai::pod_set_order;

/// A job, or some of its pods with minima of their own.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) job: usize,
    pub(super) pods: Vec<usize>,
    pub(super) minima: Option<BTreeMap<String, u32>>,
}

impl Entry {
    /// All pods of a job.
    pub(super) fn whole(world: &World, job: usize) -> Entry {
        Entry { job, pods: (0..world.jobs[job].pods.len()).collect(), minima: None }
    }
}

/// The pods that one attempt places: what is missing of the pod sets below their minimum; or one pod
/// beyond. A what-if counts pods that it has evicted itself.
pub(super) fn chunk(world: &World, state: &State, entry: &Entry, real: bool) -> Vec<usize> {
    let Entry { job, pods, minima } = entry;
    let mut sets = state.pod_sets(world, *job, pods, minima.as_ref());
    sets.sort_by(pod_set_order);
    let open = |name: &str| {
        let mut open: Vec<usize> = pods
            .iter()
            .copied()
            .filter(|&pod| world.jobs[*job].pods[pod].pod_set == name)
            .filter(|&pod| {
                let now = &state.pods[*job][pod];
                now.state == PodState::Pending
                    || (!real && now.state == PodState::Releasing && now.tentative)
            })
            .collect();
        open.sort_by(|a, b| pod_key(world, *job, *a).cmp(&pod_key(world, *job, *b)));
        open
    };
    let below = sets.iter().filter(|set| set.active < set.min_available).count();
    if below == 0 {
        let mut all = sets.iter().map(|set| open(set.name));
        return all
            .find(|open| !open.is_empty())
            .map(|open| open[..1].to_vec())
            .unwrap_or_default();
    }
    let mut chosen = Vec::new();
    for set in &sets[..below] {
        let missing = set.min_available.saturating_sub(set.active) as usize;
        chosen.extend(open(set.name).into_iter().take(missing));
    }
    chosen
}

/// The order of pods of a job.
fn pod_key(world: &World, job: usize, pod: usize) -> (Reverse<Option<i64>>, &str) {
    let pod = &world.jobs[job].pods[pod];
    (Reverse(pod.order), &pod.name)
}

/// The next pods of a job to evict, and whether there are more: the last pod beyond a minimum, or
/// all.
pub(super) fn eviction(world: &World, state: &State, entry: &Entry) -> (Vec<usize>, bool) {
    let Entry { job, pods, .. } = entry;
    let mut active: Vec<usize> = pods
        .iter()
        .copied()
        .filter(|&pod| state.pods[*job][pod].state.is_active_allocated())
        .collect();
    active.sort_by(|a, b| pod_key(world, *job, *b).cmp(&pod_key(world, *job, *a)));
    let mut sets = state.pod_sets(world, *job, pods, None);
    sets.sort_by(|a, b| pod_set_order(b, a));
    match sets.iter().find(|set| set.active > set.min_available) {
        None => (active, false),
        Some(set) => {
            let of = |pod: &usize| world.jobs[*job].pods[*pod].pod_set == set.name;
            (active.into_iter().find(of).into_iter().collect(), true)
        }
    }
}

/// Whether every pod set can have its minimum.
pub(super) fn is_ready(world: &World, state: &State, job: usize) -> bool {
    let all: Vec<usize> = (0..world.jobs[job].pods.len()).collect();
    let alive = |state: PodState| state.is_active_allocated() || state == PodState::Pending;
    (world.jobs[job].tree.all_pod_sets().into_iter())
        .all(|set| state.count(world, job, &all, &set.name, alive) >= set.min_available)
}

/// Whether every pod set has its minimum of pods on nodes.
pub(super) fn is_gang_satisfied(world: &World, state: &State, job: usize) -> bool {
    let all: Vec<usize> = (0..world.jobs[job].pods.len()).collect();
    let used = PodState::is_active_used;
    (world.jobs[job].tree.all_pod_sets().into_iter())
        .all(|set| state.count(world, job, &all, &set.name, used) >= set.min_available)
}

/// Whether any pod waits.
pub(super) fn has_pending(state: &State, job: usize) -> bool {
    state.pods[job].iter().any(|now| now.state == PodState::Pending)
}
