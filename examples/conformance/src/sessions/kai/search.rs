//! The search for victims, which consolidation, reclaim and preemption share.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

use super::chunk::{Entry, chunk, eviction, has_pending, is_gang_satisfied};
use super::job_order::JobOrder;
use super::place::Attempt;
use super::state::{At, GPU, State};
use super::world::{Action, PodState, World};
use phalanx::quota::kai::{KaiQuantities, QueueShares, Reclaimer};

/// Pods of one job that were collected together.
#[derive(Debug, Clone)]
struct Group {
    job: usize,
    pods: Vec<usize>,
}

impl Group {
    fn members(&self) -> impl Iterator<Item = At> + '_ {
        self.pods.iter().map(|&pod| (self.job, pod))
    }
}

/// Victims that have been collected.
#[derive(Debug, Clone, Default)]
struct Scenario {
    recorded: Vec<Group>,
    /// In the order in which they were collected.
    potential: Vec<Group>,
}

impl Scenario {
    fn all(&self) -> impl Iterator<Item = At> + '_ {
        self.recorded.iter().chain(&self.potential).flat_map(Group::members)
    }
}

/// The search for one job.
pub(super) struct Search<'a> {
    pub(super) world: &'a World,
    pub(super) job: usize,
    pub(super) action: Action,
    /// Jobs that may be victims.
    pub(super) candidates: Vec<usize>,
    /// Queues when the search begins: the steps of a statement do not count.
    pub(super) shares: &'a QueueShares,
}

impl Search<'_> {
    /// Whether the job holds places now, with victims gone or elsewhere; if not, the state is as
    /// before, but for what nodes have lost count of.
    ///
    /// It is solved for one pod, then for two, and so on: victims of a step are recorded, and evicted
    /// first in the next.
    pub(super) fn run(&self, state: &mut State) -> bool {
        let world = self.world;
        let whole = Entry::whole(world, self.job);
        let pods = chunk(world, state, &whole, false);
        let nodes = self.feasible_nodes(state);
        let used = |state: &State| {
            state.pods[self.job].iter().filter(|now| now.state.is_active_used()).count()
        };
        let mut recorded: Vec<Group> = Vec::new();
        for count in 1..=pods.len() {
            let entry = part(world, self.job, &pods[..count]);
            let before = state.clone();
            let Some(victims) = self.step(state, &entry, &nodes, &recorded) else { return false };
            let satisfied = is_gang_satisfied(world, state, self.job);
            if count == pods.len() && satisfied && used(state) > used(&before) {
                return true;
            }
            state.restore(world, before);
            recorded = victims;
        }
        false
    }

    /// Nodes with devices that are idle or being released; all, if some pod wants none.
    fn feasible_nodes(&self, base: &State) -> BTreeSet<usize> {
        let all = 0..self.world.nodes.len();
        if self.world.jobs[self.job].pods.iter().any(|pod| !pod.gpu.is_some()) {
            return all.collect();
        }
        all.filter(|&node| base.view(self.world, node).free_gpus() > 0).collect()
    }

    /// Solves for some pods of the job. The groups that give way or move; none if there is no
    /// solution.
    fn step(
        &self,
        base: &mut State,
        entry: &Entry,
        nodes: &BTreeSet<usize>,
        recorded: &[Group],
    ) -> Option<Vec<Group>> {
        let world = self.world;
        let mut nodes = nodes.clone();
        let victims = recorded.iter().flat_map(Group::members);
        nodes.extend(victims.filter_map(|(job, pod)| base.pods[job][pod].node));
        let mut scenario = Scenario { recorded: recorded.to_vec(), potential: Vec::new() };
        let known: BTreeSet<At> = recorded.iter().flat_map(Group::members).collect();
        let entries = self.candidates.iter().map(|&job| Entry::whole(world, job)).collect();
        let mut queue = JobOrder::new(world, base, entries, true);
        loop {
            if self.may_fit(base, entry, &scenario)
                && let Some(victims) = self.solve(base, entry, &mut nodes, &scenario)
            {
                return Some(victims);
            }
            // The next job that gives something new.
            loop {
                let victim = queue.pop(world, base)?;
                let (pods, more) = eviction(world, base, &victim);
                let is_known = |pod: &usize| known.contains(&(victim.job, *pod));
                let (again, left): (bool, Vec<usize>) = if pods.iter().any(is_known) {
                    (true, victim.pods.iter().copied().filter(|pod| !is_known(pod)).collect())
                } else if more {
                    (false, victim.pods.iter().copied().filter(|pod| !pods.contains(pod)).collect())
                } else {
                    (false, Vec::new())
                };
                if !left.is_empty() {
                    queue.insert(world, base, Entry { pods: left, ..victim.clone() });
                }
                if !again {
                    if !pods.is_empty() {
                        scenario.potential.push(Group { job: victim.job, pods });
                    }
                    break;
                }
            }
        }
    }

    /// Whether the devices of nodes, with those of victims, can hold the pods, the largest first.
    fn may_fit(&self, base: &State, entry: &Entry, scenario: &Scenario) -> bool {
        let world = self.world;
        let mut free: Vec<i64> =
            (0..world.nodes.len()).map(|node| base.view(world, node).free_gpus()).collect();
        let victims: BTreeSet<At> = scenario.all().collect();
        for (job, pod) in victims {
            if let Some(node) = base.pods[job][pod].node {
                free[node] += base.request(world, (job, pod), Some(node))[GPU];
            }
        }
        let mut order: Vec<usize> = (0..free.len()).collect();
        order.sort_by_key(|&node| (Reverse(free[node]), &world.nodes[node].name));
        let needs = |pod: &usize| match world.jobs[entry.job].pods[*pod].gpu {
            super::world::Gpu::Memory { .. } => 0,
            _ => base.request(world, (entry.job, *pod), None)[GPU],
        };
        let mut wanted: Vec<i64> = entry.pods.iter().map(needs).collect();
        wanted.sort_by_key(|&need| Reverse(need));
        wanted.into_iter().all(|need| {
            let node = order.iter().find(|&&node| free[node] >= need);
            node.is_some_and(|&node| {
                free[node] -= need;
                true
            }) || need == 0
        })
    }

    fn solve(
        &self,
        state: &mut State,
        entry: &Entry,
        nodes: &mut BTreeSet<usize>,
        scenario: &Scenario,
    ) -> Option<Vec<Group>> {
        let world = self.world;
        let base = state.clone();
        let recorded: Vec<At> = scenario.recorded.iter().flat_map(Group::members).collect();
        for &at in &recorded {
            state.evict(world, at);
        }
        let Some(latest) = scenario.potential.last() else {
            let simulated = !recorded.is_empty() && self.simulate(state, entry, nodes, &recorded);
            if simulated && self.is_valid(state, entry, scenario) {
                return Some(giving(state, scenario, &recorded));
            }
            state.restore(world, base);
            return None;
        };
        let mut places: Vec<usize> =
            base.pods[latest.job].iter().filter_map(|now| now.node).collect();
        places.sort_by_key(|&node| &world.nodes[node].name);
        places.dedup();
        for place in places {
            let checkpoint = state.clone();
            let on = |at: At| base.pods[at.0][at.1].node == Some(place);
            let jobs: BTreeSet<usize> = (scenario.potential.iter())
                .filter(|group| group.members().any(on))
                .map(|group| group.job)
                .collect();
            // All that was collected of those jobs, recorded or not.
            let mut victims = recorded.clone();
            for &job in &jobs {
                let groups = scenario.recorded.iter().chain(&scenario.potential);
                for at in groups.filter(|group| group.job == job).flat_map(Group::members) {
                    state.evict(world, at);
                    victims.push(at);
                }
            }
            let before = nodes.clone();
            nodes.extend(victims.iter().filter_map(|&(job, pod)| base.pods[job][pod].node));
            if !self.simulate(state, entry, nodes, &victims) {
                *nodes = before;
                state.restore(world, checkpoint);
                continue;
            }
            if self.is_valid(state, entry, scenario) {
                return Some(giving(state, scenario, &victims));
            }
            break;
        }
        state.restore(world, base);
        None
    }

    /// Places the job and its victims again, in the order of jobs. The job has to fit.
    fn simulate(
        &self,
        state: &mut State,
        entry: &Entry,
        nodes: &BTreeSet<usize>,
        victims: &[At],
    ) -> bool {
        let world = self.world;
        let involved: BTreeSet<usize> = victims.iter().map(|at| at.0).collect();
        let jobs = (0..world.jobs.len()).filter(|&job| job != self.job);
        let jobs = jobs.filter(|job| involved.contains(job) || has_pending(state, *job));
        let mut entries: Vec<Entry> = jobs.map(|job| Entry::whole(world, job)).collect();
        entries.push(entry.clone());
        let mut order = JobOrder::new(world, state, entries, false);
        let nodes: Vec<usize> = nodes.iter().copied().collect();
        let mut placed = false;
        while let Some(next) = order.pop(world, state) {
            let own = next.job == self.job;
            if !own && !involved.contains(&next.job) {
                continue;
            }
            let fits = Attempt { world, entry: &next, what_if: true }.run(state, &nodes);
            if own && !fits {
                return false;
            }
            placed |= own;
        }
        placed
    }

    fn is_valid(&self, state: &State, entry: &Entry, scenario: &Scenario) -> bool {
        match self.action {
            Action::Consolidation => {
                scenario.all().all(|(job, pod)| state.pods[job][pod].state != PodState::Releasing)
            }
            Action::Reclaim => self.is_valid_reclaim(state, entry, scenario),
            _ => true,
        }
    }

    fn is_valid_reclaim(&self, state: &State, entry: &Entry, scenario: &Scenario) -> bool {
        let world = self.world;
        let Some(queue) = state.queues[self.job].filter(|_| world.rules.has("proportion")) else {
            return true;
        };
        let reclaimer = Reclaimer {
            queue,
            request: state.requests(world, entry.job, &entry.pods),
            preemptible: world.jobs[self.job].preemptible,
        };
        // By job, in the order in which they were collected.
        let mut jobs: Vec<(usize, Vec<usize>)> = Vec::new();
        for (job, pod) in scenario.all() {
            match jobs.iter_mut().find(|(own, _)| *own == job) {
                Some((_, pods)) => pods.push(pod),
                None => jobs.push((job, std::vec![pod])),
            }
        }
        let mut given: Vec<(usize, KaiQuantities)> = Vec::new();
        for (job, pods) in jobs {
            let Some(leaf) = state.queues[job] else { continue };
            for unit in units(world, job, &pods) {
                let gone = |pod: &usize| {
                    let now = &state.pods[job][*pod];
                    !(world.rules.consolidating_reclaim && now.state.is_active_allocated())
                };
                let unit: Vec<usize> = unit.into_iter().filter(gone).collect();
                if unit.is_empty() {
                    continue;
                }
                let mut sum: KaiQuantities = [0, 0, 0].into_iter().collect();
                for pod in unit {
                    let now = &state.pods[job][pod];
                    let amounts = state.request(world, (job, pod), now.node);
                    for (own, amount) in sum.iter_mut().zip(amounts) {
                        *own += amount;
                    }
                }
                given.push((leaf, sum));
            }
        }
        self.shares.allows_victims(&reclaimer, &given)
    }
}

/// Groups of a scenario of which a pod gives way or moves.
fn giving(state: &State, scenario: &Scenario, victims: &[At]) -> Vec<Group> {
    let gives = |&(job, pod): &At| {
        matches!(state.pods[job][pod].state, PodState::Releasing | PodState::Pipelined)
    };
    let giving: BTreeSet<At> = victims.iter().copied().filter(gives).collect();
    let groups = scenario.recorded.iter().chain(&scenario.potential);
    groups.filter(|group| group.members().any(|at| giving.contains(&at))).cloned().collect()
}

/// Units that a job gives up in turn: pods beyond the minima one by one, then the others together.
fn units(world: &World, job: usize, pods: &[usize]) -> Vec<Vec<usize>> {
    let (mut beyond, mut core) = (Vec::new(), Vec::new());
    for set in world.jobs[job].tree.all_pod_sets() {
        let of = |pod: &&usize| world.jobs[job].pods[**pod].pod_set == set.name;
        for (place, &pod) in pods.iter().filter(of).enumerate() {
            if place < set.min_available as usize {
                core.push(pod);
            } else {
                beyond.push(std::vec![pod]);
            }
        }
    }
    beyond.push(core);
    beyond
}

/// Some pods of a job, all of which are needed.
fn part(world: &World, job: usize, pods: &[usize]) -> Entry {
    let mut minima: BTreeMap<String, u32> = BTreeMap::new();
    for &pod in pods {
        *minima.entry(world.jobs[job].pods[pod].pod_set.clone()).or_default() += 1;
    }
    Entry { job, pods: pods.to_vec(), minima: Some(minima) }
}
