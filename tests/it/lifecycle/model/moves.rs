//! The world outside acts on moves; checks on them.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::preempt::Move;
use phalanx::queue::{GroupChange, GroupEvent, GroupState, PreemptionSettings, Ticket};
use phalanx::{Cluster, Event, Plan, PodGroup};

use super::evictions::{Asked, settings};
use super::{World, gpu_like, stream_of};
use crate::lifecycle::world::{Random, gpu, leaves, make_disruptable, node, streams};
use crate::support::budget;

/// Moves, and the groups that they are of.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Groups of which a unit has moved at any time.
    pub(super) roots: BTreeSet<String>,
    /// Units by ticket, each asked for once unless it is late.
    pub(super) asked: BTreeSet<(Ticket, String)>,
    /// Since the quiet began: how many pods ran of each group, and groups that have moved, or lost
    /// members by another decision.
    running: BTreeMap<String, usize>,
    moved: BTreeSet<String>,
    disturbed: BTreeSet<String>,
    pub(super) count: usize,
    pub(super) again: usize,
}

impl Model {
    pub(super) fn hear(&mut self, event: &GroupEvent) {
        let is_loss = matches!(
            event.change,
            GroupChange::Preempted { .. }
                | GroupChange::EvictionAsked { .. }
                | GroupChange::Undone { .. }
        );
        if is_loss {
            self.disturbed.insert(event.group.to_string());
        }
    }
}

/// Nodes alike, that are seldom full.
pub(super) fn cluster(random: &mut Random) -> (Cluster, BTreeMap<String, i64>) {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    let mut nodes = BTreeMap::new();
    for index in 0..4 + random.below(3) {
        let name = format!("n{index}");
        cluster.add_node(node(&name, 4)).unwrap();
        nodes.insert(name, 4);
    }
    (cluster, nodes)
}

/// A group in place of another: small, so that it leaves gaps and fits into them, or of pods that
/// want most of a node.
pub(super) fn group(random: &mut Random, like: &PodGroup) -> PodGroup {
    let (count, gpus) =
        if random.one_in(2) { (1 + random.below(3), 1) } else { (1 + random.below(2), 3) };
    let pod = gpu(gpus + i64::from(gpus > 1 && random.one_in(2)));
    let mut group = match random.below(3) {
        0 => PodGroup::basic(&*like.name),
        1 => PodGroup::gang(&*like.name, count as u32).evicted_whole(),
        _ => PodGroup::gang(&*like.name, 1),
    };
    if random.one_in(6) {
        group = group.require("rack");
    }
    match random.below(12) {
        0 => group = group.spread("rack"),
        1 if count > 1 => group = group.slice("rack", count as u32),
        _ => {}
    }
    group.keep_running = like.keep_running;
    group.min_run_time = like.min_run_time;
    group.non_preemptible = like.non_preemptible;
    group.attributes.clone_from(&like.attributes);
    group.priority(random.below(2) as i32).pods(count, pod)
}

impl World {
    pub(super) fn moves_units(&self) -> bool {
        self.scheduler.settings().preemption.is_some_and(|own| own.consolidation > 0)
    }

    /// A group comes or goes.
    pub(super) fn churn(&mut self) {
        let now = self.now;
        if self.groups.len() > 12 || self.groups.len() > 4 && self.random.one_in(3) {
            return self.remove_group();
        }
        let mut like = crate::lifecycle::world::group(&mut self.random, &mut self.next, false);
        make_disruptable(&mut self.random, &mut like);
        let group = group(&mut self.random, &like);
        self.both(|s| s.handle_group(group.clone(), now)).unwrap();
        self.groups.insert(group.full_name().into(), group);
    }

    /// Units are to move: they run, are not protected, and are not asked for already.
    pub(super) fn ask_to_move(&mut self, ticket: Ticket, moves: &[Move], plan: &Plan) {
        for unit in moves.chunk_by(|a, b| a.unit == b.unit) {
            let pods: Vec<String> = unit
                .iter()
                .map(|step| format!("{}/{}", step.pod.namespace, step.pod.name))
                .collect();
            let first = &unit[0];
            self.preemption.asked.retain(|own| {
                let is_late = self.now.since(own.since) >= settings().start_timeout;
                !(is_late && own.ticket == ticket && own.name == first.unit)
            });
            let members = self.members();
            for (step, pod) in unit.iter().zip(&pods) {
                assert!(!self.preemption.is_asked(pod), "{pod} moves twice");
                assert!(self.bound.contains(pod), "{pod} does not run");
                let there = self.scheduler.cluster().pod("default", &step.pod.name).unwrap();
                assert_eq!(there.node().unwrap().name(), step.pod.node);
                assert!(self.scheduler.cluster().node(&step.to).is_some());
                let (root, _) = members.iter().find(|(_, member)| member == pod).unwrap();
                let theirs = &self.groups[root];
                assert!(!theirs.non_preemptible && *root != *plan.group());
                self.preemption.moved.roots.insert(root.clone());
                self.preemption.put_off.remove(pod);
            }
            let is_first = self.preemption.moved.asked.insert((ticket, first.unit.to_string()));
            self.preemption.moved.again += usize::from(!is_first);
            self.preemption.asked.push(Asked {
                ticket,
                name: first.unit.to_string(),
                pods,
                since: self.now,
                moves: unit.to_vec(),
            });
        }
    }

    /// A unit moves: it is evicted and bound anew, or its pods are made anew by others, or the world
    /// outside moves it itself.
    pub(super) fn moves(&mut self, asked: &Asked) {
        let now = self.now;
        self.preemption.moved.count += 1;
        let members = self.members();
        let owner = members.iter().find(|(_, member)| asked.pods.contains(member));
        let Some((root, _)) = owner.cloned() else { return self.goes(asked, &asked.name) };
        self.preemption.moved.moved.insert(root.clone());
        // A unit that stops is evicted: its place need not be free yet.
        let stops = asked.moves.iter().any(|step| step.stops);
        let is_whole = !stops && asked.pods.len() == asked.moves.len();
        let nodes: BTreeSet<&String> = asked.moves.iter().map(|step| &step.to).collect();
        let exist = nodes.iter().all(|node| !self.gone.contains(*node));
        match self.random.below(3) {
            0 => {
                for pod in &asked.pods {
                    let name = pod.split_once('/').unwrap().1.to_string();
                    let group = self.groups.get_mut(&root).unwrap();
                    let mut all = leaves(group);
                    let leaf = all.iter_mut().find(|leaf| leaf.pods.iter().any(|p| p.name == name));
                    let leaf = leaf.unwrap();
                    let mut own = leaf.pods.iter().find(|p| p.name == name).unwrap().clone();
                    own.name = format!("new-{}", self.next);
                    own.group = Some(leaf.name.clone());
                    self.next += 1;
                    leaf.pods.push(own.clone());
                    self.tell(|| format!("{now:?} {pod} is made anew as {}", own.name));
                    self.delete_member(&root, pod);
                    self.both(|s| s.handle_pod(own.clone(), now)).unwrap();
                }
            }
            1 if is_whole && exist => {
                for step in &asked.moves {
                    let name = &step.pod.name;
                    let mut own = gpu_like(&self.scheduler, name).on(&step.to);
                    own.device_indexes.clone_from(&step.devices);
                    self.tell(|| format!("{now:?} {name} is moved to {}", step.to));
                    let event = Event::PodChanged { pod: own, version: 0 };
                    self.both(|s| s.handle_event(event.clone(), now)).unwrap();
                }
                self.preemption
                    .asked
                    .retain(|own| own.ticket != asked.ticket || own.name != asked.name);
            }
            _ => self.goes(asked, &asked.name),
        }
    }

    fn bound_of(&self, root: &str) -> usize {
        let pods = self.groups.get(root).map(|group| group.all_pods()).unwrap_or_default();
        let bound = |name: &str| {
            let there = self.scheduler.cluster().pod("default", name);
            self.bound.contains(&format!("default/{name}"))
                && there.is_some_and(|pod| pod.node().is_some() && !pod.deleting())
        };
        pods.into_iter().filter(|pod| bound(&pod.name)).count()
    }

    pub(super) fn count_running(&mut self) {
        let roots: Vec<String> = self.groups.keys().cloned().collect();
        let running = roots.into_iter().map(|root| (root.clone(), self.bound_of(&root))).collect();
        self.preemption.moved.running = running;
        self.preemption.moved.moved.clear();
        self.preemption.moved.disturbed.clear();
    }

    /// In the quiet what has moved runs again.
    pub(super) fn check_moved(&mut self) {
        for root in std::mem::take(&mut self.preemption.moved.moved) {
            let state = self.scheduler.state(&root);
            if self.preemption.moved.disturbed.contains(&root)
                || matches!(state, None | Some(GroupState::Paused))
            {
                continue;
            }
            // Of a leaf that has lost members for good, too few may exist.
            let mut group = self.groups[&root].clone();
            let is_short = |leaf: &mut PodGroup| leaf.pods.len() < leaf.policy.minimum() as usize;
            if leaves(&mut group).into_iter().any(is_short) {
                continue;
            }
            let before = self.preemption.moved.running[&root];
            let after = self.bound_of(&root);
            assert!(after >= before, "{root} has moved: {before} pods, now {after}: {state:?}");
        }
    }
}

fn with_moves() -> PreemptionSettings {
    settings().budget(4_000).consolidation(3)
}

/// One stream: what moved, was evicted, started, and was asked again.
pub(crate) fn stream(seed: u64, events: usize) -> (usize, usize, usize, usize) {
    let world = stream_of(World::new(seed, Some(with_moves())), seed, events);
    let own = &world.preemption;
    (own.moved.count, own.evicted, own.started, own.moved.again)
}

/// One stream again, told by `PHALANX_STREAM_TRACE`.
#[test]
fn one_stream_with_moves_by_its_seed() {
    stream(budget::number("PHALANX_STREAM_TRACE").unwrap_or(7), 250);
}

/// Streams that failed once: a refusal that ended woke nobody, a unit moved to a node that refuses
/// it, got other devices of its node, or had stopped when the group it moved for took the moves back.
#[test]
fn streams_with_moves_that_failed_once() {
    for seed in [4_294_967_326, 4_294_967_338, 4_294_967_349, 4_294_967_370] {
        stream(seed, 250);
    }
}

#[test]
fn random_event_streams_with_moves_keep_every_promise() {
    let events = budget::of(1_000, 20_000) as usize;
    let (moved, evicted, started, again) = streams(events, "PHALANX_STREAM_SEED", stream)
        .into_iter()
        .fold((0, 0, 0, 0), |sum, one| {
            (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2, sum.3 + one.3)
        });
    eprintln!("{moved} moved, {evicted} evicted, {started} started, {again} asked again");
    // The streams do get somewhere.
    assert!(moved * 1_000 > events, "{moved} moves in {events} events");
    assert!(started * 200 > events, "{started} starts in {events} events");
}
