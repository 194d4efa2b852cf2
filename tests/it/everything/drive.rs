//! The adapter: inputs to a scheduler and its twin, and decisions in the model's own words.
//!
//! Pods and groups have their short names in the model; all stand in namespace `default`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use phalanx::framework::PermitVerdict;
use phalanx::preempt::{DisruptionBudget, Victim};
use phalanx::queue::{
    Gone, GroupChange, GroupEvent, GroupState, PriorityThenTime, ReservationEnd, SavedScheduler,
    Ticket,
};
use phalanx::quota::{Queue, QueueKind};
use phalanx::state::PodView;
use phalanx::{
    Cluster, Decision, Event, Framework, Node, Outcome, Plan, Planner, Pod, PodGroup, QueueError,
    Request, Scheduler, Time,
};

use super::world::Place;

/// A unit that is to go, or to move.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// The name that reports use.
    pub(super) name: String,
    pub(super) pods: Vec<String>,
    /// The node of each pod once it has moved; empty if the unit is evicted.
    pub(super) to: Vec<String>,
    /// It leaves before others move, and starts after them.
    pub(super) stops: bool,
}

/// A decision in the model's words.
#[derive(Debug, Clone)]
pub(super) enum Decided {
    Bind {
        ticket: Ticket,
        groups: Vec<String>,
        places: Vec<(String, String)>,
    },
    Unbind {
        pods: Vec<String>,
    },
    /// The whole gang is evicted, since it was below its minimum for too long.
    Dissolve {
        group: String,
        pods: Vec<String>,
        since: Time,
    },
    Evict {
        ticket: Ticket,
        by: String,
        units: Vec<Unit>,
        places: Vec<(String, String)>,
    },
    Move {
        ticket: Ticket,
        by: String,
        units: Vec<Unit>,
        places: Vec<(String, String)>,
    },
    Cancel {
        ticket: Ticket,
        units: Vec<String>,
    },
}

fn full(name: &str) -> String {
    format!("default/{name}")
}

pub(super) fn short(name: &str) -> String {
    name.strip_prefix("default/").unwrap_or(name).to_owned()
}

fn places(plan: &Plan) -> Vec<(String, String)> {
    plan.assignments().map(|to| (to.pod().name.clone(), to.node().to_owned())).collect()
}

fn decided(decision: Decision) -> Vec<Decided> {
    let names = |pods: Vec<phalanx::queue::BoundPod>| -> Vec<String> {
        pods.into_iter().map(|pod| short(pod.pod.as_str())).collect()
    };
    match decision {
        Decision::Bind { ticket, groups, plan } => {
            let groups = groups.iter().map(|name| short(name.as_str())).collect();
            vec![Decided::Bind { ticket, groups, places: places(&plan) }]
        }
        Decision::Unbind { pods, .. } => vec![Decided::Unbind { pods: names(pods) }],
        Decision::EvictStale { group, pods, since } => {
            vec![Decided::Dissolve { group: short(group.as_str()), pods: names(pods), since }]
        }
        Decision::Evict { ticket, victims, plan } => {
            let (by, places) = (lead(&plan), places(&plan));
            let units = victims.iter().map(unit).collect();
            vec![Decided::Evict { ticket, by, units, places }]
        }
        Decision::Move { ticket, moves, plan } => {
            let (by, places) = (lead(&plan), places(&plan));
            let mut units: Vec<Unit> = Vec::new();
            for steps in moves.chunk_by(|a, b| a.unit == b.unit) {
                units.push(Unit {
                    name: steps[0].unit.to_string(),
                    pods: steps.iter().map(|step| step.pod.name.clone()).collect(),
                    to: steps.iter().map(|step| step.to.clone()).collect(),
                    stops: steps.iter().any(|step| step.stops),
                });
            }
            vec![Decided::Move { ticket, by, units, places }]
        }
        Decision::CancelEvictions { ticket, victims } => {
            let units = victims.into_iter().map(|victim| victim.name.to_string()).collect();
            vec![Decided::Cancel { ticket, units }]
        }
        other => panic!("an unknown decision: {other:?}"),
    }
}

/// The group that a plan is of: the first of those that start together.
fn lead(plan: &Plan) -> String {
    let name = short(plan.group().as_str());
    name.split('+').next().unwrap_or_default().to_owned()
}

fn unit(victim: &Victim) -> Unit {
    let pods = victim.pods.iter().map(|pod| pod.name.clone()).collect();
    Unit { name: victim.name.to_string(), pods, to: Vec::new(), stops: false }
}

/// The end of a group's wait, as the model asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waits {
    No,
    /// A timer will have the group tried again soon.
    BackingOff,
    Queued,
    /// Until something happens, or until the time.
    Asleep(Option<Time>),
    Held,
    /// A plan in flight, or being taken back.
    Busy,
    Evicting,
}

/// Events that the model reads.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Groups that a permit has come to hold.
    pub(super) held: Vec<String>,
    /// Groups that have come to claim room.
    pub(super) claiming: Vec<String>,
    /// Groups whose claim, if they had one, has ended without a start.
    pub(super) ended: BTreeSet<String>,
}

/// A scheduler, and one that was restored from its save and is fed with the same.
pub(super) struct Process {
    scheduler: Scheduler,
    twin: Option<Scheduler>,
    framework: Framework,
    pub(super) loud: bool,
}

type Answer = Result<(), QueueError>;

impl Process {
    pub(super) fn new(scheduler: Scheduler, framework: Framework) -> Process {
        Process { scheduler, twin: None, framework, loud: false }
    }

    /// An input, or a poll: the twin does the same, and both are right in themselves.
    fn both<T: PartialEq + Debug>(&mut self, act: impl Fn(&mut Scheduler) -> T) -> T {
        let answer = self.alike(act);
        self.check();
        answer
    }

    fn alike<T: PartialEq + Debug>(&mut self, act: impl Fn(&mut Scheduler) -> T) -> T {
        let answer = act(&mut self.scheduler);
        if let Some(twin) = &mut self.twin {
            assert_eq!(act(twin), answer, "the twin answers otherwise");
        }
        answer
    }

    pub(super) fn save(&mut self) {
        let text = serde_json::to_string(&self.scheduler.save()).unwrap();
        if let Some(twin) = self.twin.take() {
            let other = serde_json::to_string(&twin.save()).unwrap();
            assert!(other == text, "the twin is saved otherwise: {}", differ(&text, &other));
        }
        let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
        let twin = Scheduler::restore(saved, self.framework.clone(), PriorityThenTime);
        let other = serde_json::to_string(&twin.save()).unwrap();
        assert!(other == text, "the restored one is saved otherwise: {}", differ(&text, &other));
        self.twin = Some(twin);
        self.check();
    }

    /// The scheduler as text, and its framework.
    pub(super) fn saved(&self) -> (String, Framework) {
        (serde_json::to_string(&self.scheduler.save()).unwrap(), self.framework.clone())
    }

    /// The scheduler's own check of its state.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (who, own) in [("scheduler", Some(&self.scheduler)), ("twin", self.twin.as_ref())] {
            if let Some(Err(error)) = own.map(Scheduler::check) {
                panic!("the {who} disagrees with itself: {error}");
            }
        }
    }

    pub(super) fn poll(&mut self, now: Time) -> Option<Vec<Decided>> {
        self.both(|s| s.poll_decision(now)).map(decided)
    }

    /// Drains the events.
    pub(super) fn hear(&mut self) -> Heard {
        let mut heard = Heard::default();
        while let Some(GroupEvent { at, group, change, .. }) = self.alike(Scheduler::poll_event) {
            if self.loud {
                eprintln!("      {at:?} {group}: {change:?}");
            }
            let group = short(group.as_str());
            match change {
                GroupChange::Held { .. } => heard.held.push(group),
                GroupChange::Preempting { .. } => {
                    heard.ended.remove(&group);
                    heard.claiming.push(group);
                }
                GroupChange::ReservationEnded { reason } if reason != ReservationEnd::Used => {
                    heard.ended.insert(group);
                }
                _ => {}
            }
        }
        heard
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.scheduler.next_wake()
    }

    pub(super) fn group(&mut self, group: &PodGroup, now: Time) {
        self.both(|s| s.handle_group(group.clone(), now)).unwrap();
    }

    pub(super) fn group_removed(&mut self, group: &str, now: Time) {
        self.both(|s| s.handle_group_removed(&full(group), now)).unwrap();
    }

    pub(super) fn running_group(&mut self, group: &PodGroup, now: Time) {
        self.both(|s| s.handle_running_group(group, now)).unwrap();
    }

    pub(super) fn running_group_removed(&mut self, group: &str, now: Time) {
        self.both(|s| s.handle_running_group_removed("default", group, now));
    }

    pub(super) fn pause(&mut self, group: &str, now: Time) {
        self.both(|s| s.handle_pause(&full(group), now)).unwrap();
    }

    pub(super) fn resume(&mut self, group: &str, now: Time) {
        self.both(|s| s.handle_resume(&full(group), now)).unwrap();
    }

    /// A pending member that appeared.
    pub(super) fn pod(&mut self, pod: &Pod, now: Time) {
        self.both(|s| s.handle_pod(pod.clone(), now)).unwrap();
    }

    /// A pod that is on a node, as a watch shows it.
    pub(super) fn seen(&mut self, pod: &Pod, now: Time) {
        let event = || Event::PodChanged { pod: pod.clone(), version: 0 };
        self.both(|s| s.handle_event(event(), now)).unwrap();
    }

    pub(super) fn deleted(&mut self, pod: &str, now: Time) {
        self.both(|s| s.handle_gone(Gone::deleted("default", pod), now)).unwrap();
    }

    pub(super) fn finished(&mut self, pod: &str, now: Time) {
        self.both(|s| s.handle_gone(Gone::finished("default", pod), now)).unwrap();
    }

    pub(super) fn unbound(&mut self, pod: &str, now: Time) {
        self.both(|s| s.handle_gone(Gone::unbound("default", pod), now)).unwrap();
    }

    pub(super) fn bound(&mut self, ticket: Ticket, now: Time) {
        self.both(|s| s.handle_bound(ticket, now)).unwrap();
    }

    pub(super) fn binding(&mut self, ticket: Ticket, pod: &str, ok: bool, now: Time) {
        let result = || if ok { Ok(()) } else { Err("refused".to_owned()) };
        self.both(|s| s.handle_binding(ticket, "default", pod, result(), now)).unwrap();
    }

    pub(super) fn conflict(&mut self, ticket: Ticket, now: Time) {
        self.both(|s| s.handle_conflict(ticket, "somebody was faster", now)).unwrap();
    }

    /// A unit of a decision has gone, by its own name.
    pub(super) fn unit_gone(&mut self, ticket: Ticket, unit: &str, now: Time) -> Answer {
        self.both(|s| s.handle_gone(Gone::evicted(ticket, unit), now))
    }

    /// A pod of a unit has gone.
    pub(super) fn pod_evicted(&mut self, ticket: Ticket, pod: &str, now: Time) -> Answer {
        self.both(|s| s.handle_gone(Gone::evicted(ticket, full(pod)), now))
    }

    pub(super) fn eviction_failed(
        &mut self,
        ticket: Ticket,
        unit: &str,
        retry: Option<Time>,
        now: Time,
    ) -> Answer {
        self.both(|s| s.handle_eviction_failed(ticket, unit, retry, now))
    }

    pub(super) fn node(&mut self, node: &Node, now: Time) {
        let event = || Event::NodeChanged { node: node.clone(), version: 0 };
        self.both(|s| s.handle_event(event(), now)).unwrap();
    }

    pub(super) fn node_removed(&mut self, node: &str, now: Time) {
        let event = || Event::NodeRemoved { name: node.to_owned(), version: 0 };
        self.both(|s| s.handle_event(event(), now)).unwrap();
    }

    pub(super) fn queue(&mut self, queue: &Queue, now: Time) {
        self.both(|s| s.handle_queue(queue.clone(), now)).unwrap();
    }

    pub(super) fn queue_removed(&mut self, name: &str, leaf: bool, now: Time) {
        let kind = if leaf { QueueKind::Leaf } else { QueueKind::Inner };
        self.both(|s| s.handle_queue_removed(kind, name, now)).unwrap();
    }

    pub(super) fn budget(&mut self, budget: &DisruptionBudget, now: Time) {
        self.both(|s| s.handle_budget(budget.clone(), now));
    }

    pub(super) fn budget_removed(&mut self, name: &str, now: Time) {
        self.both(|s| s.handle_budget_removed("default", name, now));
    }

    pub(super) fn permit(&mut self, group: &str, admit: bool, now: Time) -> Answer {
        let verdict =
            if admit { PermitVerdict::Admit } else { PermitVerdict::Deny { reason: "no".into() } };
        self.both(|s| s.handle_permit(&full(group), verdict.clone(), now))
    }

    /// The start of a list of all there is.
    pub(super) fn begin_sync(&mut self, now: Time) {
        self.both(|s| s.begin_sync(now));
    }

    pub(super) fn end_sync(&mut self, now: Time) {
        self.both(|s| s.end_sync(now));
    }

    pub(super) fn time(&mut self, now: Time) {
        self.both(|s| s.handle_time(now));
    }

    /// Whether a group waits, and for what.
    pub(super) fn waits(&self, group: &str) -> Waits {
        match self.scheduler.state(&full(group)).expect("the group is known") {
            GroupState::BackingOff { .. } => Waits::BackingOff,
            GroupState::Queued => Waits::Queued,
            GroupState::Unschedulable { retry, .. } => Waits::Asleep(retry),
            GroupState::Permitting { .. } => Waits::Held,
            GroupState::Binding { .. } | GroupState::Undoing => Waits::Busy,
            GroupState::Gated(phalanx::queue::Gate::Evicting) => Waits::Evicting,
            GroupState::Failed { reason } => panic!("{group} failed: {reason}"),
            _ => Waits::No,
        }
    }

    pub(super) fn story(&self, group: &str) -> String {
        format!("{:?}", self.scheduler.status(&full(group)))
    }

    pub(super) fn queue_story(&self, queue: &str) -> String {
        format!("{:?}", self.scheduler.queue_status(queue))
    }

    /// Whether a queue is there, or drains.
    pub(super) fn knows_queue(&self, queue: &str) -> bool {
        let tree = self.scheduler.tenants().map(phalanx::quota::Tenants::tree);
        tree.is_some_and(|tree| tree.queue(QueueKind::Leaf, queue).is_some())
    }

    /// Waiting groups of a queue, in order.
    pub(super) fn line(&self, queue: &str) -> Vec<String> {
        self.scheduler.queue(queue).map(short).collect()
    }

    pub(super) fn groups(&self) -> Vec<String> {
        self.scheduler.groups().map(short).collect()
    }

    /// Whether the group would start if it were tried now, alone.
    pub(super) fn would_start(&self, group: &str, now: Time) -> bool {
        match self.scheduler.trial(&full(group), now) {
            Ok(Some(Outcome::Placed(plan))) => !plan.is_empty(),
            _ => false,
        }
    }

    /// Claims and reservations: the group, and the deadline.
    pub(super) fn reservations(&self) -> Vec<(String, Time)> {
        let views = self.scheduler.reservations();
        views.iter().map(|own| (short(own.group.as_str()), own.until)).collect()
    }

    /// Groups with a promised start.
    pub(super) fn promised(&self) -> Vec<String> {
        self.scheduler.promises().iter().map(|own| short(own.group.as_str())).collect()
    }

    /// The claim that quota is put aside for.
    pub(super) fn aside(&self) -> Option<String> {
        self.scheduler.tenants()?.aside().map(short)
    }

    /// Placeholder pods, and their nodes.
    pub(super) fn placeholders(&self) -> Vec<String> {
        let pods = self.scheduler.cluster().pods();
        let held = pods.filter(is_placeholder);
        held.map(|pod| pod.name().to_owned()).collect()
    }

    /// Pods in the scheduler's cluster that are no placeholders, with their nodes.
    pub(super) fn view(&self) -> BTreeMap<String, Option<String>> {
        let pods = self.scheduler.cluster().pods();
        let own = pods.filter(|pod| !is_placeholder(pod));
        own.map(|pod| (pod.name().to_owned(), pod.node().map(|node| node.name().to_owned())))
            .collect()
    }

    /// GPUs of each node that are held for units that move: placeholders that are of no reservation
    /// hold them.
    fn held_for_moves(&self) -> BTreeMap<String, i64> {
        let mut held: BTreeMap<String, i64> = BTreeMap::new();
        for pod in self.scheduler.cluster().pods() {
            if let Some(node) = pod.node().filter(|_| is_placeholder(&pod)) {
                *held.entry(node.name().to_owned()).or_default() += pod.shape().requests.of("gpu");
            }
        }
        for (node, amounts) in self.scheduler.reservations().iter().flat_map(|own| &own.amounts) {
            *held.entry(node.clone()).or_default() -= amounts.of("gpu");
        }
        held
    }

    /// Whether a group fits once these pods are gone, without some nodes. All placeholders are gone,
    /// too, but for those of the `kept` places.
    pub(super) fn fits_without(
        &self,
        group: &PodGroup,
        gone: &[String],
        but: &BTreeSet<String>,
        mut kept: Vec<Place>,
    ) -> bool {
        let mut held = self.held_for_moves();
        let mut stays = |pod: &PodView<'_>| {
            let node = pod.node()?.name().to_owned();
            let place = (node, pod.shape().requests.of("gpu"));
            let at = kept.iter().position(|own| *own == place)?;
            let left = held.get_mut(&place.0).filter(|left| **left >= place.1)?;
            *left -= place.1;
            Some(kept.swap_remove(at))
        };
        let mut cluster: Cluster = self.scheduler.cluster().clone();
        for pod in self.scheduler.cluster().pods() {
            let is_held = is_placeholder(&pod) && stays(&pod).is_none();
            if is_held || gone.iter().any(|name| name == pod.name()) {
                cluster.remove_pod(pod.namespace(), pod.name()).unwrap();
            }
        }
        for node in but.iter().filter(|node| self.scheduler.cluster().node(node).is_some()) {
            cluster.remove_node(node).unwrap();
        }
        let request = Request::new(group);
        let request = match self.scheduler.settings().strategy {
            Some(strategy) => request.strategy(strategy),
            None => request,
        };
        let outcome = Planner::new().place(&cluster, &self.framework, request);
        matches!(outcome, Ok(Outcome::Placed(_)))
    }
}

fn is_placeholder(pod: &PodView<'_>) -> bool {
    pod.namespace() == Scheduler::RESERVED_NAMESPACE
}

/// Where two texts differ first.
fn differ(one: &str, other: &str) -> String {
    let at = one.bytes().zip(other.bytes()).position(|(a, b)| a != b).unwrap_or(0);
    let cut = |text: &str| {
        let bytes = &text.as_bytes()[at.saturating_sub(120)..(at + 120).min(text.len())];
        String::from_utf8_lossy(bytes).into_owned()
    };
    format!("{} | {}", cut(one), cut(other))
}
