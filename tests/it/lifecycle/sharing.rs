//! Several schedulers over one cluster, against a simple model of the store that orders commits.
//!
//! The store is the truth. Each scheduler hears of it late, through a log; each plans on what it
//! knows, and the store takes a plan whole or not at all. Groups are dealt out, one owner each.
//! Nodes flap, pods come and go, proposals wait, and a scheduler is now and then replaced by one
//! restored from its save. Always:
//!
//! - the store holds no more on a node than that has;
//! - no pod is bound twice, and what is bound belongs to a group that exists, or to somebody else;
//! - what a commit starts has its minimum, unless some of it was lost meanwhile.
//!
//! And whenever all have heard of everything:
//!
//! - every scheduler sees the cluster as it is;
//! - no group is lost; who runs has its minimum; nobody is in flight for ever;
//! - nobody sleeps who could be placed.
//!
//! 10,000 events, in a soak 500,000 (200,000 with preemption); `PHALANX_SHARING_SEED` sets the seed.

mod evictions;
mod promises;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx::queue::{
    Gone, HeadOfLine, PriorityThenTime, ReservationPolicy, SavedScheduler, Settings, Ticket,
};
use phalanx::{
    Cluster, Decision, Event, Framework, ObjectName, Plan, Pod, PodGroup, Scheduler, Time,
};

use super::world::{
    DEVICES, FRAMEWORKS, Random, cluster, counts, framework, gpu, group, leaves, make_disruptable,
    node, streams,
};
use crate::support::budget;

/// The truth, and every change of it in order.
struct Store {
    cluster: Cluster,
    log: Vec<Event>,
    /// Members that exist, bound or not.
    members: BTreeSet<String>,
}

struct Process {
    scheduler: Scheduler,
    read: usize,
}

struct Proposal {
    owner: usize,
    ticket: Ticket,
    groups: Vec<ObjectName>,
    plan: Plan,
}

struct World {
    random: Random,
    framework: Framework,
    devices: bool,
    store: Store,
    processes: Vec<Process>,
    proposals: Vec<Proposal>,
    groups: BTreeMap<String, (usize, PodGroup)>,
    nodes: BTreeMap<String, i64>,
    gone: BTreeSet<String>,
    foreign: Vec<String>,
    /// Groups of which something was lost, and where the log stood then; until their owner has
    /// heard of it and proposed anew.
    hurt: BTreeMap<String, usize>,
    now: Time,
    next: usize,
    commits: usize,
    conflicts: usize,
    loud: bool,
    kind: usize,
    preempts: bool,
    evictions: evictions::Model,
}

impl Store {
    fn apply(&mut self, event: Event) {
        self.cluster.apply(event.clone()).unwrap();
        self.log.push(event);
    }

    fn delete(&mut self, name: &str) {
        self.members.remove(name);
        let (namespace, name) = ("default".to_string(), name.to_string());
        self.apply(Event::PodDeleted { namespace, name, version: 0 });
    }

    fn is_bound(&self, name: &str) -> bool {
        self.cluster.pod("default", name).is_some()
    }

    fn runs(&self, pod: &Pod) -> bool {
        self.cluster.pod("default", &pod.name).is_some_and(|pod| pod.node().is_some())
    }
}

impl World {
    fn new(seed: u64, preempts: bool) -> World {
        let mut random = Random::new(seed);
        let kind = random.below(FRAMEWORKS);
        let framework = framework(kind);
        let (cluster, nodes) = cluster(&mut random);
        let mut settings = Settings::default();
        if random.one_in(3) {
            settings = settings.head_of_line(HeadOfLine::StrictFifo);
        }
        if random.one_in(3) {
            settings = settings.reservation(
                ReservationPolicy::new()
                    .after(Duration::from_secs(20))
                    .timeout(Duration::from_secs(120))
                    .at_most(1),
            );
        }
        settings.event_capacity = 16;
        if preempts {
            settings.preemption = Some(evictions::settings());
            settings.event_capacity = 4_096;
        }
        let processes = (0..2 + random.below(2)).map(|index| {
            let mut settings = settings.clone();
            settings.salt = index as u64;
            let scheduler = Scheduler::new(cluster.clone(), framework.clone(), settings);
            Process { scheduler, read: 0 }
        });
        World {
            processes: processes.collect(),
            framework,
            devices: kind == DEVICES,
            store: Store { cluster, log: Vec::new(), members: BTreeSet::new() },
            proposals: Vec::new(),
            groups: BTreeMap::new(),
            nodes,
            gone: BTreeSet::new(),
            foreign: Vec::new(),
            hurt: BTreeMap::new(),
            now: Time::from_secs(1),
            next: 0,
            commits: 0,
            conflicts: 0,
            loud: std::env::var_os("PHALANX_SHARING_TRACE").is_some(),
            kind,
            preempts,
            evictions: evictions::Model::default(),
            random,
        }
    }

    fn step(&mut self) {
        if self.preempts && self.random.one_in(3) {
            return self.evict();
        }
        match self.random.below(20) {
            0..=2 if self.groups.len() < if self.preempts { 12 } else { 8 } => self.submit(),
            0..=4 => {
                let process = self.random.below(self.processes.len());
                let unread = self.store.log.len() - self.processes[process].read;
                let some = 1 + self.random.below(unread.max(1));
                self.hear(process, some);
            }
            5..=8 => {
                let process = self.random.below(self.processes.len());
                self.decide(process);
            }
            9..=12 => {
                if !self.proposals.is_empty() {
                    let at = self.random.below(self.proposals.len());
                    self.commit(at);
                }
            }
            13 => {
                let bound: Vec<String> =
                    self.store.members.iter().filter(|m| self.store.is_bound(m)).cloned().collect();
                if let Some(name) = self.random.pick(&bound) {
                    self.lose(&name);
                    self.store.delete(&name);
                }
            }
            14 => {
                let names: Vec<String> = self.groups.keys().cloned().collect();
                if let Some(name) = self.random.pick(&names) {
                    self.end(&name);
                }
            }
            15 => self.flap(),
            16 => self.strangers(),
            17 => {
                let process = self.random.below(self.processes.len());
                self.replace(process);
            }
            _ => {
                let span = if self.random.one_in(6) { 200_000 } else { 3_000 };
                self.now = self.now.after(Duration::from_millis(self.random.below(span) as u64));
            }
        }
    }

    fn tell(&self, what: impl Fn() -> String) {
        if self.loud {
            eprintln!("{:?} {}", self.now, what());
        }
    }

    fn submit(&mut self) {
        let owner = self.random.below(self.processes.len());
        let mut group = group(&mut self.random, &mut self.next, self.devices);
        // Gangs that start together have one owner.
        group.gang_group.retain(|partner| {
            self.groups.get(&**partner).is_some_and(|(other, _)| *other == owner)
        });
        if self.preempts {
            make_disruptable(&mut self.random, &mut group);
        }
        let name = group.full_name();
        for (index, process) in self.processes.iter_mut().enumerate() {
            if self.preempts && index != owner {
                process.scheduler.handle_running_group(&group, self.now).unwrap();
            }
        }
        self.store.members.extend(group.all_pods().iter().map(|pod| pod.name.clone()));
        self.processes[owner].scheduler.handle_group(group.clone(), self.now).unwrap();
        self.groups.insert(name.into(), (owner, group));
    }

    fn hear(&mut self, process: usize, some: usize) {
        let Process { scheduler, read } = &mut self.processes[process];
        for event in self.store.log.iter().skip(*read).take(some) {
            if self.loud {
                eprintln!("{:?} {process} hears {event:?}", self.now);
            }
            scheduler.handle_event(event.clone(), self.now).unwrap();
        }
        *read = read.saturating_add(some).min(self.store.log.len());
    }

    fn decide(&mut self, owner: usize) {
        for round in 0.. {
            assert!(round < 200, "decisions never end");
            let Some(decision) = self.processes[owner].scheduler.poll_decision(self.now) else {
                break;
            };
            match decision {
                Decision::Bind { ticket, groups, plan } => {
                    let read = self.processes[owner].read;
                    for group in &groups {
                        if self.hurt.get(&**group).is_some_and(|lost| *lost < read) {
                            self.hurt.remove(&**group);
                        }
                    }
                    self.proposals.push(Proposal { owner, ticket, groups, plan });
                }
                Decision::Unbind { pods, .. } | Decision::EvictStale { pods, .. } => {
                    for pod in pods {
                        self.take_off(owner, pod.pod.name());
                    }
                }
                Decision::Evict { ticket, victims, plan, .. } => {
                    self.tell(|| format!("{owner} asks for {victims:?}: {plan:?}"));
                    self.ask(owner, ticket, victims, &plan);
                }
                Decision::CancelEvictions { ticket, victims } => {
                    self.cancel(owner, ticket, &victims);
                }
                _ => {}
            }
        }
        self.evictions.unsaid.remove(&owner);
        while let Some(event) = self.processes[owner].scheduler.poll_event() {
            self.note(&event);
            self.tell(|| format!("{owner}: {event:?}"));
        }
    }

    /// A pod is to go: a proposal with it is called back, and a controller makes what was bound
    /// anew.
    fn take_off(&mut self, owner: usize, name: &str) {
        self.proposals.retain(|proposal| {
            proposal.plan.assignments().all(|assignment| assignment.pod().name != name)
        });
        if !self.store.is_bound(name) {
            if self.store.members.contains(name) {
                let scheduler = &mut self.processes[owner].scheduler;
                scheduler.handle_gone(Gone::unbound("default", name), self.now).unwrap();
            }
            return;
        }
        let again = self.lose(name);
        self.store.delete(name);
        if let Some(mut pod) = again {
            pod.name = format!("{}-again", self.next);
            self.next += 1;
            pod.device_indexes.clear();
            self.store.members.insert(pod.name.clone());
            let mut trees = self.groups.values_mut().map(|(_, group)| group);
            trees.find_map(|group| leaf(group, &pod)).unwrap().pods.push(pod.clone());
            self.processes[owner].scheduler.handle_pod(pod, self.now).unwrap();
        }
    }

    /// A member goes; the model's trees lose it.
    fn lose(&mut self, name: &str) -> Option<Pod> {
        let mut found = None;
        for (root, (_, group)) in &mut self.groups {
            for leaf in leaves(group) {
                if let Some(at) = leaf.pods.iter().position(|pod| pod.name == name) {
                    let mut pod = leaf.pods.remove(at);
                    pod.group = Some(leaf.name.clone());
                    self.hurt.insert(root.clone(), self.store.log.len());
                    found = Some(pod);
                }
            }
        }
        found
    }

    fn commit(&mut self, at: usize) {
        let Proposal { owner, ticket, groups, plan } = self.proposals.swap_remove(at);
        self.tell(|| format!("{owner} commits {plan:?}"));
        let exist = plan.assignments().all(|a| self.store.members.contains(&a.pod().name));
        let result = if exist {
            self.store.cluster.commit(&self.framework, &plan).map_err(|error| error.to_string())
        } else {
            Err("a member is gone".into())
        };
        if let Err(reason) = result {
            self.conflicts += 1;
            if self.random.one_in(2) {
                self.hear(owner, usize::MAX);
            }
            let scheduler = &mut self.processes[owner].scheduler;
            // It may have been taken back meanwhile, because of what was heard.
            let _ = scheduler.handle_conflict(ticket, &reason, self.now);
            return;
        }
        self.commits += 1;
        self.took(owner, &plan);
        for assignment in plan.assignments() {
            let mut pod = assignment.pod().clone().on(assignment.node());
            pod.device_indexes = assignment.devices().to_vec();
            self.store.log.push(Event::PodChanged { pod, version: 0 });
        }
        for name in groups {
            if let Some((_, group)) = self.groups.get(&*name)
                && !self.hurt.contains_key(&*name)
            {
                assert!(counts(group, &|pod| self.store.runs(pod)), "{name} starts in part");
            }
        }
    }

    fn end(&mut self, name: &str) {
        let (owner, group) = self.groups.remove(name).unwrap();
        let pods: BTreeSet<String> = group.all_pods().iter().map(|pod| pod.name.clone()).collect();
        let concerned = |proposal: &Proposal| {
            proposal.plan.assignments().any(|assignment| pods.contains(&assignment.pod().name))
        };
        self.processes[owner].scheduler.handle_group_removed(name, self.now).unwrap();
        for (index, process) in self.processes.iter_mut().enumerate() {
            if self.preempts && index != owner {
                let (namespace, name) = name.split_once('/').unwrap();
                process.scheduler.handle_running_group_removed(namespace, name, self.now);
            }
        }
        // Partners in the same plan learn by the decision to take it back.
        self.proposals.retain(|proposal| !concerned(proposal));
        for pod in pods {
            if self.store.is_bound(&pod) {
                self.store.delete(&pod);
            } else {
                self.store.members.remove(&pod);
                self.processes[owner]
                    .scheduler
                    .handle_gone(Gone::deleted("default", &pod), self.now)
                    .unwrap();
            }
        }
        self.decide(owner);
    }

    fn flap(&mut self) {
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        let Some(name) = self.random.pick(&names) else { return };
        if self.gone.remove(&name) || self.random.one_in(3) {
            // It comes back, or grows, with other labels.
            let gpus = (self.nodes[&name] + 1).min(6);
            self.nodes.insert(name.clone(), gpus);
            let node = node(&name, gpus);
            self.store.apply(Event::NodeChanged { node, version: 0 });
        } else if self.random.one_in(3) {
            let on_it: Vec<String> = self
                .store
                .cluster
                .node(&name)
                .unwrap()
                .pods()
                .map(|pod| pod.name().to_string())
                .collect();
            self.store.apply(Event::NodeRemoved { name: name.clone(), version: 0 });
            self.gone.insert(name);
            for pod in on_it {
                self.lose(&pod);
                self.foreign.retain(|other| *other != pod);
                self.store.delete(&pod);
            }
        }
    }

    fn strangers(&mut self) {
        if self.random.one_in(2) && !self.foreign.is_empty() {
            let at = self.random.below(self.foreign.len());
            let name = self.foreign.swap_remove(at);
            self.store.delete(&name);
            return;
        }
        let cluster = &self.store.cluster;
        let Some(gpus) = cluster.resource("gpu") else { return };
        let free: Vec<String> = cluster
            .nodes()
            .filter(|node| node.free(gpus) > 0)
            .map(|node| node.name().to_string())
            .collect();
        let Some(node) = self.random.pick(&free) else { return };
        let name = format!("foreign-{}", self.next);
        self.next += 1;
        self.store.apply(Event::PodChanged { pod: gpu(1).name(&name).on(node), version: 0 });
        self.foreign.push(name);
    }

    /// A process dies, and another goes on from its save.
    fn replace(&mut self, process: usize) {
        let process = &mut self.processes[process];
        let text = serde_json::to_string(&process.scheduler.save()).unwrap();
        let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
        process.scheduler = Scheduler::restore(saved, self.framework.clone(), PriorityThenTime);
    }
}

/// The leaf that a pod names.
fn leaf<'a>(group: &'a mut PodGroup, pod: &Pod) -> Option<&'a mut PodGroup> {
    leaves(group).into_iter().find(|leaf| Some(&leaf.name) == pod.group.as_ref())
}

fn stream(seed: u64, events: usize) -> (usize, usize) {
    let world = stream_of(World::new(seed, false), events);
    (world.commits, world.conflicts)
}

fn stream_with_preemption(seed: u64, events: usize) -> [usize; 6] {
    let world = stream_of(World::new(seed, true), events);
    let own = &world.evictions;
    [world.commits, world.conflicts, own.evicted, own.started, own.refused, own.in_vain]
}

fn stream_of(mut world: World, events: usize) -> World {
    for event in 1..=events {
        world.step();
        world.check_store();
        if event % 25 == 0 {
            world.settle();
            world.check_store();
            world.check_all();
        }
    }
    world
}

/// One stream again, told by `PHALANX_SHARING_TRACE`.
#[test]
fn one_shared_stream_by_its_seed() {
    stream(budget::number("PHALANX_SHARING_TRACE").unwrap_or(7), 250);
}

#[test]
fn several_schedulers_over_one_cluster_keep_every_promise() {
    let events = budget::of(3_000, 500_000) as usize;
    let (commits, conflicts) = streams(events, "PHALANX_SHARING_SEED", stream)
        .into_iter()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    // They do get somewhere, and do get into each other's way.
    assert!(commits * 50 > events, "{commits} commits in {events} events");
    assert!(conflicts * 20 > commits, "{conflicts} conflicts beside {commits} commits");
}

/// One stream with preemption again, told by `PHALANX_SHARING_TRACE`.
#[test]
fn one_shared_stream_with_preemption_by_its_seed() {
    stream_with_preemption(budget::number("PHALANX_SHARING_TRACE").unwrap_or(7), 250);
}

#[test]
fn several_schedulers_that_preempt_on_one_cluster_keep_every_promise() {
    let events = budget::of(2_000, 200_000) as usize;
    let all = streams(events, "PHALANX_SHARING_SEED", stream_with_preemption);
    let [commits, conflicts, evicted, started, refused, in_vain] =
        all.into_iter().fold([0; 6], |sum, one| std::array::from_fn(|at| sum[at] + one[at]));
    eprintln!(
        "{commits} commits, {conflicts} conflicts, {evicted} evicted, {started} started, \
         {refused} decisions refused, {in_vain} claims in vain: another took the room"
    );
    // They do get somewhere, and do get into each other's way.
    assert!(commits * 50 > events, "{commits} commits in {events} events");
    assert!(evicted * 50 > events, "{evicted} evictions in {events} events");
    assert!(started * 100 > events, "{started} starts in {events} events");
}
