//! The store: nodes, pods, groups, queues and budgets, and the way schedulers hear of changes.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::queue::Ticket;
use phalanx::{Pod, PodGroup, Scheduler, Time};

use super::drive::{Process, Waits};
use super::quiet::Quiet;
use super::setup::{self, BudgetState, NodeState, QueueState, Rules};
use crate::lifecycle::world::{Random, leaves};

/// A pod that exists.
#[derive(Debug, Clone)]
pub(super) struct PodState {
    /// The pod as its owner made it, with its group.
    pub(super) spec: Pod,
    /// The root group; `None` for a pod of somebody else.
    pub(super) root: Option<String>,
    /// The scheduler and the queue that it was charged to when its group was removed.
    pub(super) charged: Option<(usize, String)>,
    pub(super) node: Option<String>,
    pub(super) since: Time,
    pub(super) deleting: bool,
    pub(super) finished: bool,
}

impl PodState {
    pub(super) fn gpus(&self) -> i64 {
        self.spec.shape().requests.of("gpu")
    }

    pub(super) fn colour(&self) -> Option<&String> {
        self.spec.shape().labels.get("colour")
    }
}

/// A root group, and what the model makes of its life.
#[derive(Debug, Clone)]
pub(super) struct Gang {
    pub(super) owner: usize,
    /// The tree, without pods.
    pub(super) tree: PodGroup,
    pub(super) paused: bool,
    pub(super) started: bool,
    /// Whether it has become less important: what was to go for it may stay.
    pub(super) lowered: bool,
    /// Whether the last of it that ran left, perhaps by an eviction, and some has finished: it has
    /// started for its scheduler if the eviction was withdrawn.
    pub(super) may_have_started: bool,
    /// Since when a started gang is below its minimum.
    pub(super) below: Option<Time>,
    /// The minimum was raised over what runs.
    pub(super) raised: bool,
    /// It goes whole, because it was below its minimum for too long.
    pub(super) evicting: bool,
    /// All that is bound of it is to go.
    pub(super) goes: bool,
}

/// A plan that is being bound.
#[derive(Debug, Clone)]
pub(super) struct Flight {
    pub(super) owner: usize,
    pub(super) ticket: Ticket,
    pub(super) groups: Vec<String>,
    /// Pods without a result, with their nodes.
    pub(super) open: BTreeMap<String, String>,
    /// Pods of which no result will ever come.
    pub(super) lost: BTreeMap<String, String>,
    pub(super) begun: bool,
}

/// A pod that its scheduler wants off its node.
#[derive(Debug, Clone)]
pub(super) struct Leaving {
    pub(super) owner: usize,
    pub(super) pod: String,
    pub(super) node: String,
}

/// A unit that is to go, or to move.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) owner: usize,
    pub(super) ticket: Ticket,
    pub(super) by: String,
    pub(super) name: String,
    pub(super) pods: BTreeSet<String>,
    /// How many pods it was at first.
    pub(super) whole: usize,
    pub(super) to: BTreeMap<String, String>,
    /// It has no room at its place yet.
    pub(super) stops: bool,
    pub(super) since: Time,
    pub(super) begun: bool,
}

impl Ask {
    /// Whether a unit has moved but for pods with a place on their own nodes: its move may be over.
    pub(super) fn has_moved(&self, pods: &BTreeMap<String, PodState>) -> bool {
        let stays = |pod: &String| self.to.get(pod) == pods[pod].node.as_ref();
        self.begun && self.pods.len() < self.whole && self.pods.iter().all(stays)
    }
}

/// A place that a unit moves to: the node, and the GPUs of the pod.
pub(super) type Place = (String, i64);

/// Fate of a pod that leaves its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It is pending again.
    Pending,
    /// It is deleted.
    Gone,
    /// It is deleted, and another is made in its stead.
    Anew,
}

/// How much a stream did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) events: usize,
    pub(crate) bound: usize,
    pub(crate) evicted: usize,
    pub(crate) moved: usize,
    pub(crate) dissolved: usize,
    pub(crate) undone: usize,
    pub(crate) conflicts: usize,
    pub(crate) claims: usize,
    pub(crate) served: usize,
    pub(crate) held: usize,
    pub(crate) restarts: usize,
    /// Groups that waited at the end of a quiet time, and those of them that were held to a trial.
    pub(crate) waiting: usize,
    pub(crate) tried: usize,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) rules: Rules,
    pub(super) now: Time,
    pub(super) processes: Vec<Process>,
    pub(super) nodes: BTreeMap<String, NodeState>,
    pub(super) pods: BTreeMap<String, PodState>,
    pub(super) gangs: BTreeMap<String, Gang>,
    pub(super) queues: BTreeMap<String, QueueState>,
    pub(super) budgets: BTreeMap<String, BudgetState>,
    pub(super) flights: Vec<Flight>,
    pub(super) leaving: Vec<Leaving>,
    pub(super) asks: Vec<Ask>,
    /// Groups that wait for room that was decided on, with its nodes.
    pub(super) claims: BTreeMap<(usize, String), BTreeSet<String>>,
    /// Groups with a claim, also if nothing was decided for it: it waits for pods that terminate.
    pub(super) claiming: BTreeSet<(usize, String)>,
    /// Groups whose claims have ended since the last decisions of the scheduler that is polled.
    pub(super) ended: BTreeSet<String>,
    /// Plans that a permit holds: since when.
    pub(super) held: BTreeMap<(usize, String), Time>,
    /// Units asked for before, by ticket, with their pods and the places of these, if they move.
    pub(super) asked: BTreeMap<(usize, Ticket, String), BTreeMap<String, Option<Place>>>,
    /// Units of these of which a pod has terminated or gone since.
    pub(super) begun: BTreeSet<(usize, Ticket, String)>,
    /// Groups of which units have left to move, until they are bound again.
    pub(super) moved: BTreeSet<String>,
    /// The nodes of the places of units that move, by group and by pod, and when they were decided on.
    pub(super) places: BTreeMap<String, (Time, BTreeMap<String, String>)>,
    /// Groups that were bound at some of their places, and until when the rest is held at most: for pods in
    /// the stead of those that have gone.
    pub(super) places_left: BTreeMap<String, Time>,
    /// Pods whose eviction has failed at some time.
    pub(super) failed: BTreeSet<String>,
    /// Bindings that a node refused: the scheduler, the node, the pod, and when.
    pub(super) refused: Vec<(usize, String, Pod, Time)>,
    /// Groups of plans of which a binding was just refused, or lost its node or pod: decisions that follow may take
    /// them back.
    pub(super) unsettled: BTreeSet<String>,
    /// When a queue, or who stands in it, last changed.
    pub(super) quota_changed: Time,
    /// Removed queues that a scheduler keeps until the last of their pods is gone.
    pub(super) drains: BTreeSet<(usize, String)>,
    pub(super) quiet: Option<Quiet>,
    pub(super) next: usize,
    pub(super) counts: Counts,
    pub(super) loud: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let rules = setup::rules(&mut random);
        let nodes = setup::nodes(&mut random);
        let queues = if rules.tenants { setup::queues(&mut random) } else { BTreeMap::new() };
        let mut world = World {
            random,
            now: Time::from_secs(1),
            processes: Vec::new(),
            nodes,
            pods: BTreeMap::new(),
            gangs: BTreeMap::new(),
            queues,
            budgets: BTreeMap::new(),
            flights: Vec::new(),
            leaving: Vec::new(),
            asks: Vec::new(),
            claims: BTreeMap::new(),
            claiming: BTreeSet::new(),
            ended: BTreeSet::new(),
            held: BTreeMap::new(),
            asked: BTreeMap::new(),
            begun: BTreeSet::new(),
            moved: BTreeSet::new(),
            places: BTreeMap::new(),
            places_left: BTreeMap::new(),
            failed: BTreeSet::new(),
            refused: Vec::new(),
            unsettled: BTreeSet::new(),
            quota_changed: Time::ZERO,
            drains: BTreeSet::new(),
            quiet: None,
            next: 0,
            counts: Counts::default(),
            loud: std::env::var_os("PHALANX_STREAM_TRACE").is_some(),
            rules,
        };
        for owner in 0..world.rules.schedulers {
            let process = world.process(owner);
            world.processes.push(process);
        }
        world.tell(|| format!("{:?}\n{:?}\n{:?}", world.rules, world.nodes, world.queues));
        world
    }

    /// A scheduler that knows the nodes and the queues.
    fn process(&self, owner: usize) -> Process {
        let mut cluster = setup::empty_cluster();
        for (name, state) in self.nodes.iter().filter(|(_, state)| state.there) {
            cluster.add_node(setup::node(name, state)).unwrap();
        }
        let framework = setup::framework();
        let settings = setup::settings(&self.rules, owner);
        let mut scheduler = Scheduler::new(cluster, framework.clone(), settings);
        if self.rules.tenants {
            scheduler = scheduler.with_tenants(setup::tenants(&self.rules, &self.queues));
        }
        let mut process = Process::new(scheduler, framework);
        process.loud = self.loud;
        process
    }

    pub(super) fn tell(&self, what: impl Fn() -> String) {
        if self.loud {
            eprintln!("{:?} {}", self.now, what());
        }
    }

    /// A scheduler dies; another is made from what the store has.
    pub(super) fn restart(&mut self, owner: usize) {
        // A queue that drains is not known to a new scheduler, and what runs in it is in none.
        let drains = |gang: &Gang| self.queues.get(&gang.tree.queue).is_some_and(|own| !own.there);
        if self.gangs.iter().any(|(name, gang)| drains(gang) && self.holds(name)) {
            return;
        }
        self.tell(|| format!("scheduler {owner} restarts"));
        self.counts.restarts += 1;
        let now = self.now;
        for pod in self.stranded() {
            self.leave(&pod, Leave::Gone);
        }
        self.flights.retain(|flight| flight.owner != owner);
        self.leaving.retain(|leaving| leaving.owner != owner);
        self.asks.retain(|ask| ask.owner != owner);
        self.claims.retain(|(other, _), _| *other != owner);
        self.claiming.retain(|(other, _)| *other != owner);
        self.held.retain(|(other, _), _| *other != owner);
        self.asked.retain(|(other, ..), _| *other != owner);
        let is_own = |name: &String| self.gangs.get(name).is_some_and(|gang| gang.owner == owner);
        self.moved.retain(|name| !is_own(name));
        let mut process = self.process(owner);
        process.begin_sync(now);
        for (colour, state) in &self.budgets {
            process.budget(&setup::budget(colour, state), now);
        }
        for gang in self.gangs.values().filter(|gang| gang.owner != owner) {
            process.running_group(&gang.tree, now);
        }
        let owner_of = |pod: &PodState| Some(self.gangs[pod.root.as_ref()?].owner);
        for pod in self.pods.values() {
            if pod.node.is_some() && owner_of(pod) != Some(owner) {
                process.seen(&listed(pod), now);
            }
        }
        for (name, gang) in self.gangs.iter().filter(|(_, gang)| gang.owner == owner) {
            let mut tree = gang.tree.clone();
            for leaf in leaves(&mut tree) {
                let of_leaf = self.pods.values().filter(|pod| {
                    pod.root.as_ref() == Some(name) && pod.spec.group.as_ref() == Some(&leaf.name)
                });
                leaf.pods = of_leaf.map(listed).collect();
            }
            process.group(&tree, now);
            for (_, pod) in self.members(name).filter(|(_, pod)| pod.node.is_some()) {
                process.seen(&listed(pod), now);
            }
            if gang.paused {
                process.pause(name, now);
            }
        }
        for (name, pod) in &self.pods {
            if pod.finished && owner_of(pod) == Some(owner) {
                process.finished(name, now);
            }
        }
        process.end_sync(now);
        self.processes[owner] = process;
        for gang in self.gangs.values_mut().filter(|gang| gang.owner == owner) {
            (gang.started, gang.evicting, gang.raised, gang.below) = (false, false, false, None);
        }
        self.quota_changed = now;
    }

    pub(super) fn owner(&self, pod: &str) -> Option<usize> {
        Some(self.gangs[self.pods.get(pod)?.root.as_ref()?].owner)
    }

    /// Whether something of a group is bound, or has a plan.
    pub(super) fn holds(&self, root: &str) -> bool {
        let waits = self.processes[self.gangs[root].owner].waits(root);
        matches!(waits, Waits::Held | Waits::Busy)
            || self.members(root).any(|(name, pod)| {
                pod.node.is_some()
                    || pod.finished
                    || self.is_in_flight(name)
                    || self.is_leaving(name)
            })
    }

    pub(super) fn is_alone(&self) -> bool {
        self.processes.len() == 1
    }

    /// Whether a pod is on a node that is there.
    pub(super) fn runs(&self, pod: &PodState) -> bool {
        pod.node.as_ref().is_some_and(|node| self.nodes[node].there)
    }

    /// Whether a pod counts for its group and is not on its way out.
    pub(super) fn stays(&self, pod: &PodState) -> bool {
        pod.finished || self.runs(pod) && !pod.deleting
    }

    /// Pods on nodes that are gone.
    pub(super) fn stranded(&self) -> Vec<String> {
        let is = |pod: &PodState| pod.node.is_some() && !self.runs(pod);
        self.pods.iter().filter(|(_, pod)| is(pod)).map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn members(&self, root: &str) -> impl Iterator<Item = (&String, &PodState)> {
        self.pods.iter().filter(move |(_, pod)| pod.root.as_deref() == Some(root))
    }

    /// Bound amounts on a node, without these pods.
    pub(super) fn used(&self, node: &str, resource: &str, but: &BTreeSet<String>) -> i64 {
        let on = |(name, pod): &(&String, &PodState)| {
            pod.node.as_deref() == Some(node) && !but.contains(*name)
        };
        self.pods.iter().filter(on).map(|(_, pod)| pod.spec.shape().requests.of(resource)).sum()
    }

    /// Amounts that a scheduler has planned on a node, and that are not bound there.
    pub(super) fn planned(&self, owner: usize, node: &str, resource: &str) -> i64 {
        let flights = self.flights.iter().filter(|flight| flight.owner == owner);
        let open = flights.flat_map(|flight| flight.open.iter().chain(&flight.lost));
        let leaving = self.leaving.iter().filter(|leaving| leaving.owner == owner);
        let leaving = leaving.map(|leaving| (&leaving.pod, &leaving.node));
        let pods: BTreeSet<&String> =
            open.chain(leaving).filter(|(_, to)| *to == node).map(|(pod, _)| pod).collect();
        let unbound = pods.into_iter().filter_map(|pod| self.pods.get(pod));
        let unbound = unbound.filter(|pod| pod.node.is_none());
        unbound.map(|pod| pod.spec.shape().requests.of(resource)).sum()
    }

    /// Whether the store can bind a pod to a node.
    pub(super) fn has_room(&self, node: &str, pod: &PodState) -> bool {
        let state = &self.nodes[node];
        let fits = |resource: &str, capacity: i64| {
            let own = pod.spec.shape().requests.of(resource);
            own == 0 || self.used(node, resource, &BTreeSet::new()) + own <= capacity
        };
        state.there && !state.cordoned && fits("gpu", state.gpus) && fits("cpu", setup::CPUS)
    }

    /// Whether the members that are counted are enough for a tree.
    pub(super) fn counts(&self, root: &str, tree: &PodGroup, is: impl Fn(&str) -> bool) -> bool {
        satisfied(tree, &self.have(root, is)).0
    }

    /// The members that are counted, by leaf.
    fn have(&self, root: &str, is: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
        let mut have: BTreeMap<String, usize> = BTreeMap::new();
        for (name, pod) in self.members(root) {
            if is(name) {
                *have.entry(pod.spec.group.clone().unwrap()).or_default() += 1;
            }
        }
        have
    }

    /// Whether every group of a tree that has members has enough of them.
    pub(super) fn has_no_part(&self, root: &str, tree: &PodGroup) -> bool {
        has_no_part(tree, &self.have(root, |_| true))
    }

    pub(super) fn is_in_flight(&self, pod: &str) -> bool {
        let open = |flight: &Flight| flight.open.contains_key(pod) || flight.lost.contains_key(pod);
        self.flights.iter().any(open)
    }

    pub(super) fn is_leaving(&self, pod: &str) -> bool {
        self.leaving.iter().any(|leaving| leaving.pod == pod)
    }

    pub(super) fn is_asked(&self, pod: &str) -> bool {
        self.asks.iter().any(|ask| ask.pods.contains(pod))
    }

    /// A pod comes to run on a node. `told` says whether its owner has been told already.
    pub(super) fn put_on(&mut self, pod: &str, node: &str, told: bool) {
        let now = self.now;
        let owner = self.owner(pod);
        let state = self.pods.get_mut(pod).unwrap();
        assert!(state.node.is_none(), "{pod} is bound twice");
        state.node = Some(node.to_owned());
        state.since = now;
        state.deleting = false;
        let seen = listed(state);
        for (index, process) in self.processes.iter_mut().enumerate() {
            if !told || owner != Some(index) {
                process.seen(&seen, now);
            }
        }
        if self.processes.len() > 1 {
            self.nodes.get_mut(node).unwrap().changed = now;
        }
    }

    /// A pod terminates.
    pub(super) fn terminate(&mut self, pod: &str) {
        self.tell(|| format!("{pod} terminates"));
        let now = self.now;
        let state = self.pods.get_mut(pod).unwrap();
        state.deleting = true;
        let seen = listed(state);
        for process in &mut self.processes {
            process.seen(&seen, now);
        }
        for ask in self.asks.iter_mut().filter(|ask| ask.pods.contains(pod)) {
            ask.begun = true;
        }
        self.note_begun(pod);
    }

    /// Units of which this pod is one have begun to go.
    pub(super) fn note_begun(&mut self, pod: &str) {
        let units = self.asked.iter().filter(|(_, pods)| pods.contains_key(pod));
        self.begun.extend(units.map(|(unit, _)| unit.clone()));
    }

    /// A pod leaves its node, or is deleted while it waits.
    pub(super) fn leave(&mut self, pod: &str, how: Leave) {
        self.tell(|| format!("{pod} leaves: {how:?}"));
        let now = self.now;
        let owner = self.owner(pod);
        let how = if owner.is_none() { Leave::Gone } else { how };
        let was_on = self.pods[pod].node.is_some();
        let (mut spec, root) = {
            let state = self.pods.get_mut(pod).unwrap();
            (state.node, state.deleting) = (None, false);
            (state.spec.clone(), state.root.clone())
        };
        if how != Leave::Pending {
            self.pods.remove(pod);
        }
        self.fall_out(pod);
        self.note_begun(pod);
        for index in 0..self.processes.len() {
            let is_owner = owner == Some(index);
            if how != Leave::Pending || !is_owner && !was_on {
                self.processes[index].deleted(pod, now);
                continue;
            }
            let asks = self.asks.iter().filter(|ask| ask.owner == index && ask.pods.contains(pod));
            let tickets: Vec<Ticket> = asks.map(|ask| ask.ticket).collect();
            let process = &mut self.processes[index];
            let is_taken =
                tickets.iter().any(|ticket| process.pod_evicted(*ticket, pod, now).is_ok());
            if !is_taken && is_owner {
                process.unbound(pod, now);
            } else if !is_taken {
                process.deleted(pod, now);
            }
        }
        for ask in self.asks.iter_mut().filter(|ask| ask.pods.contains(pod)) {
            ask.pods.remove(pod);
            ask.begun = true;
            if !ask.to.is_empty() {
                self.moved.extend(root.clone());
            }
        }
        self.asks.retain(|ask| !ask.pods.is_empty());
        if how == Leave::Anew {
            spec.name = format!("{}-r{}", spec.group.as_ref().unwrap(), self.next);
            self.next += 1;
            self.tell(|| format!("{} is made in its stead", spec.name));
            self.processes[owner.unwrap()].pod(&spec, now);
            self.add_pod(spec, root);
        }
    }

    /// A pod is of no plan, and not to leave.
    pub(super) fn forget(&mut self, pod: &str) {
        for flight in &mut self.flights {
            flight.open.remove(pod);
            flight.lost.remove(pod);
        }
        self.flights.retain(|flight| !flight.open.is_empty() || !flight.lost.is_empty());
        self.leaving.retain(|leaving| leaving.pod != pod);
    }

    /// A pod falls out of the plan that binds it, if there is one: decisions that follow may take the plan back.
    pub(super) fn fall_out(&mut self, pod: &str) {
        let is_in = |own: &&Flight| own.open.contains_key(pod) || own.lost.contains_key(pod);
        self.unsettled.extend(self.flights.iter().filter(is_in).flat_map(|own| own.groups.clone()));
        self.forget(pod);
    }

    pub(super) fn add_pod(&mut self, spec: Pod, root: Option<String>) {
        let state = PodState {
            root,
            charged: None,
            node: None,
            since: self.now,
            deleting: false,
            finished: false,
            spec,
        };
        self.pods.insert(state.spec.name.clone(), state);
    }
}

/// A pod as the store shows it.
pub(super) fn listed(pod: &PodState) -> Pod {
    let mut own = pod.spec.clone();
    if let Some(node) = &pod.node {
        own = own.on(node).since(pod.since);
    }
    own.deleting = pod.deleting;
    own
}

/// Whether every group of a tree that has pods has its minimum.
fn has_no_part(tree: &PodGroup, have: &BTreeMap<String, usize>) -> bool {
    let (is, pods) = satisfied(tree, have);
    (is || pods == 0) && tree.groups.iter().all(|own| has_no_part(own, have))
}

/// Whether a tree has its minimum, and how many pods count.
fn satisfied(tree: &PodGroup, have: &BTreeMap<String, usize>) -> (bool, usize) {
    if tree.groups.is_empty() {
        let own = have.get(&tree.name).copied().unwrap_or(0);
        return (own >= tree.policy.minimum() as usize, own);
    }
    let inner: Vec<(bool, usize)> = tree.groups.iter().map(|own| satisfied(own, have)).collect();
    let groups = inner.iter().filter(|(is, _)| *is).count();
    let pods = inner.iter().map(|(_, pods)| pods).sum();
    let is =
        groups >= tree.policy.minimum() as usize && pods >= tree.min_pods.unwrap_or(0) as usize;
    (is, pods)
}
