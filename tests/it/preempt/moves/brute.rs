//! The least moves of small clusters, against all sets of units, all places for them, all orders and
//! all sets that stop.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::preempt::{
    Consolidation, Cost, MoveClaim, MoveCost, Preempt, PreemptingPlanner, Preemption,
    PreemptionRequest,
};
use phalanx::{Cluster, Framework, Planner, Request, Strategy, Time};

use super::case::{Case, NOW};
use super::simulate::carry_out;
use crate::support::budget;

/// Where pods are: node by pod; `None` while a pod has stopped.
type State = Vec<Option<usize>>;

impl Case {
    /// Sets that go as one: a group that goes whole, or a pod.
    fn atoms(&self) -> Vec<Vec<usize>> {
        let mut atoms: Vec<Vec<usize>> = Vec::new();
        for (number, pod) in self.pods.iter().enumerate() {
            let whole = pod.group.filter(|&group| self.groups[group].all);
            let same =
                |atom: &&mut Vec<usize>| whole.is_some() && self.pods[atom[0]].group == whole;
            match atoms.iter_mut().find(same) {
                Some(atom) => atom.push(number),
                None => atoms.push(vec![number]),
            }
        }
        atoms
    }

    fn members(&self, group: usize) -> Vec<usize> {
        (0..self.pods.len()).filter(|&pod| self.pods[pod].group == Some(group)).collect()
    }

    /// Blocks of a set of pods that move as one; `None` if the set leaves a group below its
    /// minimum.
    fn blocks(&self, set: &BTreeSet<usize>) -> Option<Vec<Vec<usize>>> {
        let mut blocks = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            let members = self.members(number);
            let taken: Vec<usize> =
                members.iter().copied().filter(|pod| set.contains(pod)).collect();
            if taken.is_empty() {
                continue;
            }
            if group.non_preemptible {
                return None;
            }
            let left = members.len() - taken.len();
            if left >= group.minimum && !group.all {
                blocks.extend(taken.into_iter().map(|pod| vec![pod]));
            } else if left == 0 {
                blocks.push(taken);
            } else {
                return None;
            }
        }
        let loose = set.iter().filter(|&&pod| self.pods[pod].group.is_none());
        blocks.extend(loose.map(|&pod| vec![pod]));
        Some(blocks)
    }

    fn cost(&self, blocks: &[Vec<usize>]) -> Cost {
        let mut cost = Cost::NOTHING;
        for block in blocks {
            let first = &self.pods[block[0]];
            let group = first.group.map(|group| &self.groups[group]);
            let whole = group.filter(|group| group.all);
            for &pod in block {
                let own = self.pods[pod].priority;
                let priority = whole.map_or(own, |group| group.priority);
                cost.highest_priority = cost.highest_priority.max(Some(priority));
                cost.work_lost += (NOW - self.pods[pod].start) * 1_000;
                cost.pods += 1;
            }
            // Of a group that falls, those above the minimum are units of their own.
            let extra = group.filter(|group| {
                !group.all && block.len() == self.members(first.group.unwrap()).len()
            });
            cost.units += extra.map_or(1, |group| (block.len() + 1 - group.minimum) as u64);
        }
        for (app, allowed) in &self.budgets {
            let of = blocks.iter().flatten().filter(|pod| self.pods[**pod].app == *app);
            cost.budgets_broken += (of.count() as i64 - allowed).max(0) as u64;
        }
        cost
    }

    fn free(&self, state: &State) -> Vec<i64> {
        let mut free: Vec<i64> = self.nodes.iter().map(|node| node.1).collect();
        for (pod, node) in state.iter().enumerate() {
            if let Some(node) = node {
                free[*node] -= self.pods[pod].gpus;
            }
        }
        free
    }

    /// Whether the gang fits beside what runs, by plain counting.
    fn gang_fits(&self, state: &State) -> bool {
        let (_, least, gpus) = self.gang;
        let mut by_rack: BTreeMap<u64, i64> = BTreeMap::new();
        let closed: BTreeSet<u64> = state
            .iter()
            .enumerate()
            .filter(|(pod, _)| self.keeps_apart && self.pods[*pod].apart)
            .filter_map(|(_, node)| node.map(|node| self.nodes[node].0))
            .collect();
        for (node, free) in self.free(state).into_iter().enumerate() {
            let rack = self.nodes[node].0;
            if !closed.contains(&rack) {
                *by_rack.entry(if self.rack { rack } else { 0 }).or_default() += free / gpus;
            }
        }
        by_rack.values().any(|room| *room >= least as i64)
    }

    fn is_together(&self, state: &State) -> bool {
        (0..self.groups.len()).filter(|&group| self.groups[group].rack).all(|group| {
            let racks: BTreeSet<u64> = self
                .members(group)
                .iter()
                .filter_map(|&pod| state[pod])
                .map(|n| self.nodes[n].0)
                .collect();
            racks.len() <= 1
        })
    }

    /// Whether pods can go to their places one by one.
    fn one_by_one(&self, state: &State, left: &[(usize, usize)]) -> bool {
        left.is_empty()
            || (0..left.len()).any(|at| {
                let (pod, to) = left[at];
                let mut next = state.clone();
                next[pod] = None;
                if self.free(&next)[to] < self.pods[pod].gpus {
                    return false;
                }
                next[pod] = Some(to);
                let mut rest = left.to_vec();
                rest.remove(at);
                self.one_by_one(&next, &rest)
            })
    }

    fn in_order(&self, state: &State, left: &[&Vec<usize>], goal: &State) -> bool {
        left.is_empty()
            || (0..left.len()).any(|at| {
                let pods: Vec<(usize, usize)> =
                    left[at].iter().map(|&pod| (pod, goal[pod].unwrap())).collect();
                if !self.one_by_one(state, &pods) {
                    return false;
                }
                let mut next = state.clone();
                for (pod, to) in pods {
                    next[pod] = Some(to);
                }
                let mut rest = left.to_vec();
                rest.remove(at);
                self.in_order(&next, &rest, goal)
            })
    }

    /// The least that has to stop so that some blocks can move to a goal.
    fn least_stops(&self, blocks: &[Vec<usize>], goal: &State) -> Cost {
        let start: State = self.pods.iter().map(|pod| Some(pod.node)).collect();
        let mut sets: Vec<(Cost, u32)> = (0..1_u32 << blocks.len())
            .map(|mask| {
                let stops: Vec<Vec<usize>> = (0..blocks.len())
                    .filter(|at| mask & 1 << at != 0)
                    .map(|at| blocks[at].clone())
                    .collect();
                (self.cost(&stops), mask)
            })
            .collect();
        sets.sort();
        let works = |mask: u32| {
            let mut state = start.clone();
            let mut moving = Vec::new();
            for (at, block) in blocks.iter().enumerate() {
                if mask & 1 << at == 0 {
                    moving.push(block);
                } else {
                    for &pod in block {
                        state[pod] = None;
                    }
                }
            }
            self.in_order(&state, &moving, goal)
        };
        sets.into_iter().find(|(_, mask)| works(*mask)).expect("all can stop").0
    }

    /// The least cost of moves that make room.
    fn brute_force(&self) -> Option<MoveCost> {
        let atoms = self.atoms();
        let mut sets = Vec::new();
        for mask in 1_u32..1 << atoms.len() {
            let set: BTreeSet<usize> = (0..atoms.len())
                .filter(|at| mask & 1 << at != 0)
                .flat_map(|at| atoms[at].iter().copied())
                .collect();
            let Some(blocks) = self.blocks(&set) else { continue };
            let cost = self.cost(&blocks);
            if cost.units <= u64::from(self.limit) {
                let mut own = MoveCost::NOTHING;
                own.budgets_broken = cost.budgets_broken;
                own.pods = cost.pods;
                own.units = cost.units;
                own.highest_priority = cost.highest_priority;
                own.work_lost = cost.work_lost;
                sets.push((own, blocks));
            }
        }
        sets.sort_by_key(|set| set.0);
        let mut best: Option<MoveCost> = None;
        for (cost, blocks) in sets {
            if best.is_some_and(|best| best <= cost) {
                break;
            }
            let pods: Vec<usize> = blocks.iter().flatten().copied().collect();
            let start: State = self.pods.iter().map(|pod| Some(pod.node)).collect();
            for number in 0..self.nodes.len().pow(pods.len() as u32) {
                let mut goal = start.clone();
                let mut digits = number;
                for &pod in &pods {
                    goal[pod] = Some(digits % self.nodes.len());
                    digits /= self.nodes.len();
                }
                let fits = self.free(&goal).iter().all(|free| *free >= 0);
                if !fits || !self.is_together(&goal) || !self.gang_fits(&goal) {
                    continue;
                }
                let mut own = cost;
                own.stopped = self.least_stops(&blocks, &goal);
                best = Some(best.map_or(own, |best| best.min(own)));
                if own.stopped == Cost::NOTHING {
                    break;
                }
            }
        }
        best
    }
}

/// Holds an answer to brute force.
pub(crate) fn holds(seed: u64, planner: &mut PreemptingPlanner, framework: &Framework) -> String {
    let case = Case::random(seed);
    let (cluster, running, gang) = (case.cluster(), case.running(), case.group());
    let start: State = case.pods.iter().map(|pod| Some(pod.node)).collect();
    let request = Request::new(&gang).strategy(Strategy::Search);
    let placed = Planner::new().place(&cluster, framework, request).unwrap().is_placed();
    assert_eq!(placed, case.gang_fits(&start), "seed {seed}: {case:#?}");
    let answer = planner.place(&cluster, framework, &running, case.request(&gang)).unwrap();
    let least = if placed { None } else { case.brute_force() };
    match &answer {
        Preemption::Placed(_) => assert!(placed, "seed {seed}"),
        Preemption::Preempt(preempt) => {
            assert!(preempt.victims.is_empty() && !preempt.moves.is_empty(), "seed {seed}");
            let moves = &preempt.moves;
            carry_out(&cluster, &running, framework, preempt)
                .unwrap_or_else(|fault| panic!("seed {seed}: {fault}: {moves:#?} {case:#?}"));
            assert_eq!(moves.len() as u64, preempt.move_cost.pods, "seed {seed}");
            let stopped = moves.iter().filter(|step| step.stops).count() as u64;
            assert_eq!(stopped, preempt.move_cost.stopped.pods, "seed {seed}");
            let least = least.unwrap_or_else(|| panic!("seed {seed}: {moves:#?} {case:#?}"));
            let own = preempt.move_cost;
            let text = || format!("seed {seed}: {own:?} is not {least:?}: {moves:#?} {case:#?}");
            match preempt.move_claim {
                Some(MoveClaim::Least) => assert_eq!(own, least, "{}", text()),
                Some(MoveClaim::Fewest) => {
                    let lead = |cost: MoveCost| (cost.budgets_broken, cost.pods);
                    assert_eq!(lead(own), lead(least), "{}", text());
                }
                _ => assert!(own >= least, "{}", text()),
            }
            let stops = if stopped > 0 { "stops" } else { "moves" };
            return format!("{stops} {}", preempt.move_claim.unwrap());
        }
        Preemption::NoVictimsHelp(help) => {
            assert_eq!(least, None, "seed {seed}: {help:?} {case:#?}");
            if help.certificate.is_some() {
                return String::from("none, certified");
            }
        }
        other => panic!("seed {seed}: {other}"),
    }
    answer.word().to_string()
}

#[test]
fn moves_of_small_clusters_are_the_least_of_all() {
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let mut counts = BTreeMap::new();
    let from = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in from..from + budget::of(60, 1_000) {
        *counts.entry(holds(seed, &mut planner, &framework)).or_insert(0) += 1;
    }
    println!("{counts:?}");
    assert!(
        counts.get("moves proved least").is_some_and(|count| *count > budget::of(6, 100)),
        "{counts:?}"
    );
    assert!(
        counts.get("stops proved least").map_or(0, |count| *count) >= budget::of(0, 1),
        "{counts:?}"
    );
    assert!(
        counts.get("none, certified").is_some_and(|count| *count > budget::of(6, 100)),
        "{counts:?}"
    );
}

#[test]
fn the_order_in_which_pods_came_changes_no_move() {
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let mut moved = 0;
    for seed in 0..budget::of(60, 1_000) {
        let case = Case::random(seed);
        let (running, gang) = (case.running(), case.group());
        let mut steps = |cluster: &Cluster| {
            let answer = planner.place(cluster, &framework, &running, case.request(&gang)).unwrap();
            let steps = answer.preempt().map(|preempt| preempt.moves.iter());
            let steps = steps.into_iter().flatten();
            steps.map(|step| (step.pod.name.clone(), step.to.clone(), step.stops)).collect()
        };
        let told: Vec<_> = steps(&case.cluster());
        let backwards = steps(&case.cluster_told((0..case.pods.len()).rev()));
        assert_eq!(told, backwards, "seed {seed}: {case:#?}");
        moved += u64::from(!told.is_empty());
    }
    assert!(moved > budget::of(6, 100), "{moved}");
}

#[test]
fn what_can_move_is_not_evicted_and_no_answer_is_dearer_for_it() {
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let (mut cheaper, mut both, mut only_victims) = (0, 0, 0);
    for seed in 0..budget::part(1_000) {
        let case = Case::random(seed);
        let (cluster, running, gang) = (case.cluster(), case.running(), case.group());
        let asked = case.request(&gang).budget(20_000);
        let settings = Consolidation::new(case.limit);
        let victims = PreemptionRequest::new(
            Request::new(&gang).now(Time::from_secs(NOW)).strategy(Strategy::Search),
        );
        let alone = planner.place(&cluster, &framework, &running, victims).unwrap();
        let mixed = asked.consolidation(settings.or_evict());
        let mixed = planner.place(&cluster, &framework, &running, mixed).unwrap();
        if let Some(alone) = alone.preempt() {
            let mixed = mixed.preempt().unwrap_or_else(|| panic!("seed {seed}: {mixed}"));
            let total = |preempt: &Preempt| {
                let mut cost = preempt.cost;
                cost.budgets_broken += preempt.move_cost.budgets_broken;
                cost
            };
            assert!(total(mixed) <= total(alone), "seed {seed}: {mixed:#?} {alone:#?}");
            cheaper += u32::from(total(mixed) < total(alone));
            both += u32::from(!mixed.victims.is_empty() && !mixed.moves.is_empty());
            only_victims += u32::from(mixed.moves.is_empty());
        }
        if let Some(mixed) = mixed.preempt() {
            assert!(mixed.lower_bound <= mixed.cost, "seed {seed}");
            assert!(mixed.move_cost.units <= u64::from(case.limit), "seed {seed}");
            carry_out(&cluster, &running, &framework, mixed)
                .unwrap_or_else(|fault| panic!("seed {seed}: {fault}: {mixed:#?} {case:#?}"));
        }
    }
    println!("{cheaper} cheaper, {both} with victims and moves, {only_victims} with victims alone");
    assert!(
        u64::from(cheaper) > budget::part(100)
            && u64::from(both) > budget::part(10)
            && u64::from(only_victims) > budget::part(50)
    );
}

/// Weaker bounds and a worse order change no answer: they show in the work.
#[test]
fn moves_in_small_clusters_take_few_steps_and_trials() {
    let (framework, mut planner) = (Framework::default(), PreemptingPlanner::new());
    let (mut steps, mut claims) = (0, [0; 3]);
    for seed in 0..budget::part(400) {
        let case = Case::random(seed);
        let (cluster, running, gang) = (case.cluster(), case.running(), case.group());
        let answer = planner.place(&cluster, &framework, &running, case.request(&gang)).unwrap();
        claims[2] += u32::from(answer.word() == "exhausted");
        if let Some(preempt) = answer.preempt() {
            steps += preempt.steps;
            claims[0] += 1;
            claims[1] += u32::from(preempt.is_least());
        }
    }
    let work = (steps, planner.trials(), claims);
    assert!(work.0 <= budget::of(1_000, 9_300) && work.1 <= budget::of(150, 1_326), "{work:?}");
    assert!(u64::from(claims[1]) >= budget::of(6, 72) && claims[2] == 0, "{work:?}");
}
