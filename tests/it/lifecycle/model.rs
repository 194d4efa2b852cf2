//! Random event streams against a simple model of what must always hold.
//!
//! The model is the world outside: which pods exist, which are bound, which nodes are there. It
//! carries out decisions, well or badly, and after every event checks the scheduler against it:
//!
//! - no node holds more than it has;
//! - a gang that started and is below its minimum is repaired, or reported within the bound;
//! - no group is lost, none is in the queue twice;
//! - nobody who could be placed is left asleep: every sleeping group is tried with its own
//!   strategy;
//! - the head of a queue does not stay there untried;
//! - what is evicted for others is evicted once, has a lower priority, and breaks no budget where
//!   there is another way; no gang is left below its minimum by it; and a gang whose victims went
//!   starts if nothing else changes;
//! - what moves for others is nobody who is protected, moves once for a decision, and runs again;
//! - a scheduler that was saved and restored answers everything alike.
//!
//! 20,000 events, in a soak a million (200,000 with preemption); `PHALANX_STREAM_SEED` sets the seed.

pub(crate) mod evictions;
pub(crate) mod moves;
mod promises;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx::framework::PermitVerdict;
use phalanx::queue::{
    Elastic, Gone, HeadOfLine, OnBindFailure, PreemptionSettings, ReservationPolicy, Settings,
    Ticket,
};
use phalanx::{Decision, Event, Framework, Pod, PodGroup, Scheduler, Time};

use super::world::{
    DEVICES, FRAMEWORKS, Random, cluster, framework, gpu, group, leaves, make_disruptable, node,
    streams,
};
use crate::support::budget;

/// How a stream is set up.
struct World {
    random: Random,
    scheduler: Scheduler,
    framework: Framework,
    /// Fed with the same, restored from a save.
    twin: Option<Scheduler>,
    now: Time,
    nodes: BTreeMap<String, i64>,
    gone: BTreeSet<String>,
    /// Groups of the model: minimum of each leaf, by its full name.
    groups: BTreeMap<String, PodGroup>,
    /// Pods to be bound, with their tickets.
    binding: Vec<(String, Ticket)>,
    /// Tickets of which some result is in.
    begun: BTreeSet<Ticket>,
    unbinding: Vec<String>,
    bound: BTreeSet<String>,
    finished: BTreeSet<String>,
    foreign: Vec<String>,
    evicting: BTreeSet<String>,
    next: usize,
    placed_events: usize,
    tried: BTreeMap<String, (u64, usize)>,
    devices: bool,
    kind: usize,
    loud: bool,
    preemption: evictions::Model,
}

impl World {
    fn new(seed: u64, preemption: Option<PreemptionSettings>) -> World {
        let mut random = Random::new(seed);
        let kind = random.below(FRAMEWORKS);
        let framework = framework(kind);
        let is_moving = preemption.is_some_and(|own| own.consolidation > 0);
        let (cluster, nodes) =
            if is_moving { moves::cluster(&mut random) } else { cluster(&mut random) };
        let mut settings = Settings::default();
        if random.one_in(3) {
            settings = settings.head_of_line(HeadOfLine::StrictFifo);
        }
        if random.one_in(3) {
            settings.demote_after = Some(2);
        }
        if random.one_in(2) {
            settings.on_bind_failure = OnBindFailure::KeepMinimum;
        }
        if random.one_in(2) {
            settings = settings.reservation(
                ReservationPolicy::new()
                    .after(Duration::from_secs(20))
                    .timeout(Duration::from_secs(120))
                    .at_most(1 + random.below(2)),
            );
        }
        if seed.is_multiple_of(3) {
            settings.elastic = Elastic::new().by_turns().surplus_first(false);
        }
        settings.event_capacity = 64;
        if preemption.is_some() {
            settings.preemption = preemption;
            settings.event_capacity = 4_096;
        }
        World {
            scheduler: Scheduler::new(cluster, framework.clone(), settings),
            framework,
            twin: None,
            now: Time::from_secs(1),
            nodes,
            gone: BTreeSet::new(),
            groups: BTreeMap::new(),
            binding: Vec::new(),
            begun: BTreeSet::new(),
            unbinding: Vec::new(),
            bound: BTreeSet::new(),
            finished: BTreeSet::new(),
            foreign: Vec::new(),
            evicting: BTreeSet::new(),
            next: 0,
            placed_events: 0,
            tried: BTreeMap::new(),
            devices: kind == DEVICES,
            kind,
            loud: std::env::var_os("PHALANX_STREAM_TRACE").is_some(),
            preemption: evictions::Model::default(),
            random,
        }
    }

    /// Does the same to the scheduler and its twin, and wants the same back.
    fn both<T: PartialEq + std::fmt::Debug>(&mut self, act: impl Fn(&mut Scheduler) -> T) -> T {
        let answer = act(&mut self.scheduler);
        if let Some(twin) = &mut self.twin {
            assert_eq!(act(twin), answer);
        }
        answer
    }

    /// All members that exist, by full name.
    fn members(&self) -> Vec<(String, String)> {
        let mut members = Vec::new();
        for (root, group) in &self.groups {
            for pod in group.all_pods() {
                members.push((root.clone(), format!("default/{}", pod.name)));
            }
        }
        members
    }

    fn step(&mut self) {
        let now = self.now;
        if self.preempts() && self.random.one_in(3) {
            return self.evict();
        }
        if self.moves_units() && self.random.one_in(3) {
            return self.churn();
        }
        match self.random.below(24) {
            0..=2 if self.groups.len() < if self.preempts() { 12 } else { 6 } => {
                let mut group = group(&mut self.random, &mut self.next, self.devices);
                if self.preempts() {
                    make_disruptable(&mut self.random, &mut group);
                }
                self.both(|s| s.handle_group(group.clone(), now)).unwrap();
                self.groups.insert(group.full_name().into(), group);
            }
            0..=5 => self.bind(),
            6 | 7 => self.unbind(),
            8 => {
                let Some((root, pod)) = self.random.pick(&self.members()) else { return };
                self.delete_member(&root, &pod);
            }
            9 => {
                // A late member of a leaf.
                let names: Vec<String> = self.groups.keys().cloned().collect();
                let Some(root) = self.random.pick(&names) else { return };
                let group = self.groups.get_mut(&root).unwrap();
                let leaf = if group.groups.is_empty() { group } else { &mut group.groups[0] };
                if leaf.pods.len() >= 6 {
                    return;
                }
                let mut pod = gpu(1).name(format!("late-{}", self.next)).in_group(&*leaf.name);
                self.next += 1;
                if self.random.one_in(5) {
                    pod.scheduling_gates.push("wait".into());
                }
                leaf.pods.push(pod.clone());
                self.both(|s| s.handle_pod(pod.clone(), now)).unwrap();
            }
            10 => self.flap(),
            11 => {
                let names: Vec<String> = self.groups.keys().cloned().collect();
                let Some(root) = self.random.pick(&names) else { return };
                if self.random.one_in(2) {
                    self.both(|s| s.handle_pause(&root, now)).unwrap();
                } else {
                    self.both(|s| s.handle_resume(&root, now)).unwrap();
                }
            }
            12 => {
                // Somebody else's pod comes, where there is room.
                let name = format!("foreign-{}", self.next);
                self.next += 1;
                let cluster = self.scheduler.cluster();
                let Some(gpus) = cluster.resource("gpu") else { return };
                let free: Vec<String> = cluster
                    .nodes()
                    .filter(|node| node.free(gpus) > 0)
                    .map(|node| node.name().to_string())
                    .collect();
                let Some(node) = self.random.pick(&free) else { return };
                let pod = gpu(1).name(&name).on(&node);
                self.both(|s| {
                    s.handle_event(Event::PodChanged { pod: pod.clone(), version: 0 }, now)
                })
                .unwrap();
                self.foreign.push(name);
            }
            13 | 14 => {
                if self.foreign.is_empty() {
                    return;
                }
                let at = self.random.below(self.foreign.len());
                let name = self.foreign.swap_remove(at);
                self.both(|s| s.handle_gone(Gone::deleted("default", &name), now)).unwrap();
                self.preemption.forget(&format!("default/{name}"));
            }
            15 => {
                // A running member finishes.
                let running: Vec<String> = self.bound.iter().cloned().collect();
                let Some(pod) = self.random.pick(&running) else { return };
                let short = pod.split_once('/').unwrap().1;
                self.both(|s| s.handle_gone(Gone::finished("default", short), now)).unwrap();
                self.preemption.forget(&pod);
                self.bound.remove(&pod);
                self.finished.insert(pod);
            }
            16 => {
                if !self.random.one_in(3) {
                    return;
                }
                self.remove_group();
            }
            17 => {
                let Some((_, ticket)) = self.random.pick(&self.binding) else { return };
                // A conflict comes before anything is bound.
                if !self.begun.contains(&ticket) {
                    self.both(|s| s.handle_conflict(ticket, "somebody was faster", now).is_ok());
                    self.binding.retain(|(_, other)| *other != ticket);
                }
            }
            18 => {
                let names: Vec<String> = self.groups.keys().cloned().collect();
                let Some(root) = self.random.pick(&names) else { return };
                let verdict = match self.random.below(3) {
                    0 => PermitVerdict::Deny { reason: "no".into() },
                    _ => PermitVerdict::Admit,
                };
                self.both(|s| s.handle_permit(&root, verdict.clone(), now).is_ok());
            }
            19..=21 => {
                self.now = now.after(Duration::from_millis(100 + self.random.below(3_000) as u64));
            }
            22 => {
                let wake = self.scheduler.next_wake();
                self.now = wake.filter(|wake| *wake > now).unwrap_or(now);
            }
            _ => {
                if self.random.one_in(4) {
                    self.now = now.after(Duration::from_secs(self.random.below(400) as u64));
                }
            }
        }
    }

    fn remove_group(&mut self) {
        let now = self.now;
        let names: Vec<String> = self.groups.keys().cloned().collect();
        let Some(root) = self.random.pick(&names) else { return };
        self.both(|s| s.handle_group_removed(&root, now)).unwrap();
        let group = self.groups.remove(&root).unwrap();
        self.evicting.remove(&root);
        self.poll();
        for pod in group.all_pods() {
            let full = format!("default/{}", pod.name);
            self.forget(&full);
            self.both(|s| s.handle_gone(Gone::deleted("default", &pod.name), now)).unwrap();
        }
    }

    fn bind(&mut self) {
        if self.binding.is_empty() {
            return;
        }
        let now = self.now;
        let at = self.random.below(self.binding.len());
        let (pod, ticket) = self.binding.swap_remove(at);
        self.begun.insert(ticket);
        let name = pod.split_once('/').unwrap().1.to_string();
        if self.random.one_in(8) {
            self.both(|s| s.handle_binding(ticket, "default", &name, Err("refused".into()), now))
                .unwrap();
        } else {
            let node = self.scheduler.cluster().pod("default", &name).unwrap().node();
            let node = node.map(|node| node.name().to_string());
            if let Some(node) = node.filter(|_| self.random.one_in(2)) {
                // Heard of by an event, as from a watch.
                let pod = gpu_like(&self.scheduler, &name).on(node);
                let event = Event::PodChanged { pod, version: 0 };
                self.both(|s| s.handle_event(event.clone(), now)).unwrap();
            } else {
                self.both(|s| s.handle_binding(ticket, "default", &name, Ok(()), now)).unwrap();
            }
            self.bound.insert(pod);
        }
    }

    fn unbind(&mut self) {
        if self.unbinding.is_empty() {
            return;
        }
        let now = self.now;
        let at = self.random.below(self.unbinding.len());
        let pod = self.unbinding.swap_remove(at);
        let name = pod.split_once('/').unwrap().1.to_string();
        self.bound.remove(&pod);
        let owner = self.members().into_iter().find(|(_, member)| *member == pod);
        match owner {
            Some((root, _)) if self.evicting.contains(&root) || self.random.one_in(2) => {
                self.delete_member(&root, &pod);
            }
            Some(_) => {
                self.preemption.forget(&pod);
                self.both(|s| s.handle_gone(Gone::unbound("default", &name), now)).unwrap();
            }
            None => {}
        }
    }

    fn delete_member(&mut self, root: &str, pod: &str) {
        let now = self.now;
        let name = pod.split_once('/').unwrap().1.to_string();
        let group = self.groups.get_mut(root).unwrap();
        for leaf in leaves(group) {
            leaf.pods.retain(|member| member.name != name);
        }
        self.forget(pod);
        self.both(|s| s.handle_gone(Gone::deleted("default", &name), now)).unwrap();
    }

    fn forget(&mut self, pod: &str) {
        self.bound.remove(pod);
        self.finished.remove(pod);
        self.binding.retain(|(other, _)| other != pod);
        self.unbinding.retain(|other| other != pod);
        self.preemption.forget(pod);
    }

    fn flap(&mut self) {
        let now = self.now;
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        let Some(name) = self.random.pick(&names) else { return };
        if self.gone.remove(&name) || self.random.one_in(3) {
            // It comes back, or grows, with other labels.
            let gpus = (self.nodes[&name] + 1).min(6);
            self.nodes.insert(name.clone(), gpus);
            let node = node(&name, gpus);
            self.both(|s| {
                s.handle_event(Event::NodeChanged { node: node.clone(), version: 0 }, now)
            })
            .unwrap();
            return;
        }
        if self.random.one_in(2) {
            return;
        }
        self.gone.insert(name.clone());
        let on_it: Vec<String> = self
            .scheduler
            .cluster()
            .node(&name)
            .unwrap()
            .pods()
            .map(|pod| format!("{}/{}", pod.namespace(), pod.name()))
            .collect();
        self.both(|s| s.handle_event(Event::NodeRemoved { name: name.clone(), version: 0 }, now))
            .unwrap();
        let members = self.members();
        self.preemption.displace(&members, &on_it);
        // What was being bound there has failed.
        self.binding.retain(|(pod, _)| !on_it.contains(pod));
    }

    fn poll(&mut self) {
        let now = self.now;
        let limit = 400;
        for round in 0.. {
            assert!(round < limit, "decisions never end");
            let Some(decision) = self.both(|s| s.poll_decision(now)) else { break };
            self.tell(|| format!("{now:?} {decision:?}"));
            match decision {
                Decision::Bind { ticket, plan, .. } => {
                    self.placed_events += 1;
                    for assignment in plan.assignments() {
                        let pod = format!("default/{}", assignment.pod().name);
                        assert!(!self.bound.contains(&pod), "{pod} is bound twice");
                        assert!(!self.binding.iter().any(|(other, _)| *other == pod));
                        self.binding.push((pod, ticket));
                    }
                }
                Decision::Unbind { pods, .. } => {
                    for pod in pods {
                        let pod = String::from(pod.pod);
                        self.binding.retain(|(other, _)| *other != pod);
                        self.unbinding.push(pod);
                    }
                }
                Decision::EvictStale { group, pods, since } => {
                    let bound = self.scheduler.settings().stale_after;
                    assert!(now.since(since) >= bound || !self.groups[&*group].keep_running);
                    self.evicting.insert(group.into());
                    for pod in pods {
                        self.unbinding.push(pod.pod.into());
                    }
                }
                Decision::Evict { ticket, victims, plan } => {
                    self.check_victims(ticket, &victims, &plan);
                    self.preemption.ask(ticket, victims, now);
                }
                Decision::Move { ticket, moves, plan } => {
                    self.ask_to_move(ticket, &moves, &plan);
                }
                Decision::CancelEvictions { ticket, victims } => {
                    self.preemption.cancel(ticket, &victims, now);
                }
                _ => {}
            }
        }
        while let Some(event) = self.both(Scheduler::poll_event) {
            self.preemption.hear(&event);
            self.tell(|| format!("{event:?}"));
        }
    }

    fn tell(&self, what: impl Fn() -> String) {
        if self.loud {
            eprintln!("{}", what());
        }
    }
}

fn gpu_like(scheduler: &Scheduler, name: &str) -> Pod {
    let view = scheduler.cluster().pod("default", name).unwrap();
    let mut pod = Pod::of_shape(view.shape().clone().into()).name(name);
    pod.device_indexes = view.device_indexes().to_vec();
    pod.group = view.group().map(|group| group.split_once('/').unwrap().1.to_string());
    pod
}

/// One stream; how many plans it made.
pub(crate) fn stream(seed: u64, events: usize) -> usize {
    stream_of(World::new(seed, None), seed, events).placed_events
}

fn stream_of(mut world: World, seed: u64, events: usize) -> World {
    let twins = seed.is_multiple_of(4);
    world.tell(|| format!("framework {}, {:?}", world.kind, world.scheduler.settings()));
    for event in 0..events {
        if twins && event % 50 == 0 {
            world.save();
        }
        world.step();
        world.poll();
        world.check();
        if world.preempts() && event % 40 == 39 {
            world.quiet();
            world.check();
        }
    }
    if twins {
        world.save();
    }
    world
}

/// One stream again, told by `PHALANX_STREAM_TRACE`.
#[test]
fn one_stream_by_its_seed() {
    stream(budget::number("PHALANX_STREAM_TRACE").unwrap_or(4_294_967_530), 250);
}

#[test]
fn random_event_streams_keep_every_promise() {
    let events = budget::of(4_000, 1_000_000) as usize;
    let placed: usize = streams(events, "PHALANX_STREAM_SEED", stream).into_iter().sum();
    // The streams do get somewhere.
    assert!(placed * 100 > events, "{placed} plans in {events} events");
}
