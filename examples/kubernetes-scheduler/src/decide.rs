//! Decisions: one thread that owns the crate's scheduler. Inputs come in by one channel; orders and
//! notes go out by two others, and nothing here waits for the network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use phalanx::kubernetes::Value;
use phalanx::kubernetes::watch::{Kind, ObjectRef, Store, Update, WatchEvent};
use phalanx::queue::{BookingChange, Gate, GroupChange, ReservationEnd};
use phalanx::{Decision, Event, Plan, QueueError, Scheduler, Time};
use phalanx_kubernetes_client as client;
use phalanx_kubernetes_client::api::Counts;
use phalanx_kubernetes_client::bind::{Order, Outcome, Report};
use phalanx_kubernetes_client::status::Note;
use phalanx_kubernetes_client::{convert, log};
use tokio::sync::mpsc::UnboundedSender;

use crate::ask::{Asked, Copy, Question, Reply};
use crate::config::File;
use crate::explain::Explanations;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::overview::{self, Decisions};
use crate::profile::Parts;
use crate::reservations::{self, Reservations};
use crate::scale::Provisioning;

/// Input of the decisions.
pub enum Input {
    /// News from the API server.
    Client(client::Input),
    /// A question of people or of Prometheus.
    Ask(Asked),
    /// Queues of the API server changed: all objects of one resource.
    Queues(&'static str, Vec<Value>),
    /// Requests for nodes: all objects of one resource.
    Provisioning(&'static str, Vec<serde_json::Value>),
    /// The configuration changed: new plugins and settings.
    Reload(Box<(File, Parts)>),
    /// The configuration changed, and was refused.
    Refused,
    /// No decision is to follow.
    Stop,
}

impl From<client::Input> for Input {
    fn from(news: client::Input) -> Input {
        Input::Client(news)
    }
}

/// Health of the decisions, for others to read.
#[derive(Default)]
pub struct Pulse {
    /// Milliseconds since the start of the program at which the thread was last alive.
    pub last: AtomicU64,
    /// Whether every resource has been listed.
    pub synced: std::sync::atomic::AtomicBool,
}

/// Writes of an earlier run for pods that it has not bound.
#[derive(Debug, Clone, Copy)]
pub enum Leftovers {
    Unknown,
    /// It is being taken back, for so many pods still.
    Releasing {
        left: usize,
        since: Instant,
    },
    Done,
}

/// The most inputs taken in between two decisions.
const BATCH: usize = 256;
/// The longest time without a sign of life.
const TICK: Duration = Duration::from_secs(5);

pub struct Decider {
    pub scheduler: Scheduler,
    pub store: Store,
    pub inputs: Receiver<Input>,
    pub orders: UnboundedSender<Order>,
    pub notes: UnboundedSender<Note>,
    pub pulse: Arc<Pulse>,
    pub start: Instant,
    pub metrics: Metrics,
    pub explanations: Explanations,
    /// Kinds that are watched.
    pub kinds: Vec<Kind>,
    /// Kinds whose objects are known.
    pub synced: BTreeSet<Kind>,
    /// When each waiting pod was first seen.
    pub waiting: BTreeMap<String, Time>,
    /// The pods that are nominated to nodes, by the group that waits for victims.
    pub nominated: BTreeMap<String, Vec<ObjectRef>>,
    pub dry_run: bool,
    pub event_per_pod: bool,
    /// Writes that an earlier run has left.
    pub leftovers: Leftovers,
    pub decisions: Decisions,
    pub parts: Parts,
    /// The queues of the API server and of the configuration.
    pub live: Live,
    pub reservations: Reservations,
    pub provisioning: Provisioning,
    pub api: Arc<Counts>,
}

impl Decider {
    /// Takes inputs and makes decisions until it is stopped.
    pub fn run(mut self) {
        // No gang is below its minimum for long while lists come in.
        let mut listing = true;
        self.scheduler.begin_sync(self.now());
        loop {
            let timeout = self.timeout();
            match self.inputs.recv_timeout(timeout) {
                Ok(input) => {
                    if self.take(input).is_none() {
                        return;
                    }
                    for _ in 1..BATCH {
                        let Ok(input) = self.inputs.try_recv() else { break };
                        if self.take(input).is_none() {
                            return;
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let alive = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.pulse.last.store(alive, Ordering::Relaxed);
            let synced = self.is_synced();
            self.pulse.synced.store(synced, Ordering::Relaxed);
            if synced && listing {
                listing = false;
                self.scheduler.end_sync(self.now());
            }
            if synced && self.has_released() {
                self.decide();
                self.observe();
                let now = self.now();
                self.explanations.send(&self.scheduler, &self.store, &self.notes, now);
                if self.provisioning.is_due() && !self.dry_run {
                    let copy = self.copy();
                    self.provisioning.answer(copy, self.notes.clone());
                }
            }
        }
    }

    /// Whether nothing is left of what an earlier run has written for pods that it did not bind: the
    /// plans that it was written for are gone. Orders that to be taken back first.
    ///
    /// | state | event | next |
    /// |---|---|---|
    /// | unknown | no claim is reserved for a pod that waits | done |
    /// | unknown | some are: they are ordered to be released | releasing |
    /// | releasing | all are written, and the watch shows it | done |
    /// | releasing | all are written, and the watch does not show it in time | unknown |
    fn has_released(&mut self) -> bool {
        match self.leftovers {
            Leftovers::Done => return true,
            Leftovers::Releasing { left: 0, since } => {
                if convert::reserved(&self.store).is_empty() {
                    self.leftovers = Leftovers::Done;
                } else if since.elapsed() > TICK {
                    self.leftovers = Leftovers::Unknown;
                }
            }
            Leftovers::Releasing { .. } => {}
            Leftovers::Unknown => {
                let pods = convert::reserved(&self.store);
                if pods.is_empty() || self.dry_run {
                    self.leftovers = Leftovers::Done;
                } else {
                    log!(info, "claims of an earlier run are released", pods = pods.len());
                    self.leftovers =
                        Leftovers::Releasing { left: pods.len(), since: Instant::now() };
                    let _ = self.orders.send(Order::Release(pods));
                }
            }
        }
        matches!(self.leftovers, Leftovers::Done)
    }

    /// Whether every resource has been listed.
    fn is_synced(&self) -> bool {
        self.kinds.iter().all(|kind| self.synced.contains(kind)) && self.live.is_listed()
    }

    /// Answers a question: at once, or on a copy and another thread.
    fn answer(&mut self, asked: Asked) {
        let Asked { question, answer } = asked;
        let now = self.now();
        let reply = match &question {
            Question::Metrics => Reply::Text(self.metrics.text(&self.scheduler, &self.api)),
            Question::Overview => {
                let (scheduler, said) = (&self.scheduler, &self.explanations);
                Reply::Data(overview::overview(scheduler, said, &self.decisions, now))
            }
            Question::Nodes(path) => Reply::Data(overview::nodes(self.scheduler.cluster(), path)),
            Question::Why(_) | Question::WhatIf(_) | Question::Snapshot => {
                let copy = self.copy();
                let thread = std::thread::Builder::new().name("answer".to_owned());
                let spawned = thread.spawn(move || {
                    let _ = answer.send(copy.answer(&question));
                });
                if let Err(error) = spawned {
                    log!(warn, "a question is not answered", reason = error);
                }
                return;
            }
        };
        let _ = answer.send(reply);
    }

    /// A copy of the scheduler, to try things on. O(state).
    fn copy(&self) -> Copy {
        Copy {
            saved: self.scheduler.save(),
            parts: self.parts.clone(),
            now: self.now(),
            queues: self.live.local().cloned(),
            templates: self.provisioning.templates(),
        }
    }

    /// Takes in the objects of a resource that describes queues.
    fn queues_changed(&mut self, resource: &'static str, objects: Vec<Value>) {
        if resource == reservations::RESOURCE {
            let now = self.now();
            self.reservations.follow(&mut self.scheduler, &objects, now);
        }
        self.live.set(resource, objects);
        self.follow_queues();
    }

    /// Brings the tenants to what queues say now. Queues that make no sense leave all as it was.
    fn follow_queues(&mut self) {
        let now = self.now();
        if !self.live.is_listed() {
            return;
        }
        match self.live.follow(&mut self.scheduler, now) {
            Ok(Some(local)) => {
                for update in self.store.set_queues(local) {
                    self.update(update, now);
                }
            }
            Ok(None) => {}
            Err(error) => log!(warn, "queues are refused; the old ones stay", reason = error),
        }
    }

    /// Goes on with other plugins and settings.
    fn reload(&mut self, file: File, parts: Parts) {
        let saved = self.scheduler.save().with_settings(parts.settings.clone());
        self.scheduler = parts.restore(saved);
        self.event_per_pod = file.events.per_pod;
        self.parts = parts;
        self.live.set_file(file);
        self.follow_queues();
        *self.metrics.reloads.entry("taken").or_default() += 1;
        log!(info, "the configuration is read anew");
    }

    fn now(&self) -> Time {
        let nanos = self.start.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn timeout(&self) -> Duration {
        let now = self.now();
        let wake = [self.scheduler.next_wake(), self.explanations.next()];
        let waits = wake.into_iter().flatten().map(|time| time.since(now));
        waits.min().unwrap_or(TICK).min(TICK)
    }

    /// Takes an input in; `None` if it is the last.
    fn take(&mut self, input: Input) -> Option<()> {
        match input {
            Input::Client(client::Input::ListBegins(kind)) => {
                self.serve(kind, true);
                self.store.begin_list(kind);
                self.synced.remove(&kind);
                self.metrics.watches.insert(kind, Instant::now());
            }
            Input::Client(client::Input::Refused(kind)) => {
                self.serve(kind, false);
                self.synced.insert(kind);
                self.metrics.watches.remove(&kind);
            }
            Input::Client(client::Input::Watch { kind, events, at }) => {
                self.metrics.watches.insert(kind, at);
                events.into_iter().for_each(|event| self.watched(event));
                self.metrics.input_lag.add(at.elapsed());
            }
            Input::Client(client::Input::Reports(reports)) => {
                reports.into_iter().for_each(|report| self.report(report));
            }
            Input::Ask(asked) => self.answer(asked),
            Input::Provisioning(resource, objects) => self.provisioning.set(resource, objects),
            Input::Queues(resource, objects) => self.queues_changed(resource, objects),
            Input::Reload(new) => self.reload(new.0, new.1),
            Input::Refused => *self.metrics.reloads.entry("refused").or_default() += 1,
            Input::Stop => return None,
        }
        Some(())
    }

    fn watched(&mut self, event: WatchEvent) {
        let listed = match event {
            WatchEvent::Bookmark { kind, initial_events_end: true, .. } => kind,
            _ => None,
        };
        let now = self.now();
        match self.store.apply(event) {
            Ok(updates) => updates.into_iter().for_each(|update| self.update(update, now)),
            Err(error) => log!(warn, "an object cannot be taken", reason = error),
        }
        self.synced.extend(listed);
    }

    /// Says of a kind whether it is served. Pods of groups that no server shows are told so.
    fn serve(&mut self, kind: Kind, served: bool) {
        let now = self.now();
        for update in self.store.set_served(kind, served) {
            self.update(update, now);
        }
    }

    fn update(&mut self, update: Update, now: Time) {
        match &update {
            Update::Event(Event::PodChanged { pod, .. }) if pod.node.is_none() => {
                self.waiting.entry(full_name(pod)).or_insert(now);
            }
            Update::Group(group) => {
                for pod in group.all_pods().iter().filter(|pod| pod.node.is_none()) {
                    self.waiting.entry(full_name(pod)).or_insert(now);
                }
            }
            Update::Event(Event::PodDeleted { namespace, name, .. }) => {
                self.waiting.remove(&format!("{namespace}/{name}"));
            }
            Update::LeftAlone { namespace, name, reason } => {
                self.explanations.left_alone(&self.store, &self.notes, namespace, name, reason);
            }
            _ => {}
        }
        if let Err(error) = update.pass_to(&mut self.scheduler, now) {
            log!(warn, "the scheduler refuses an update", reason = error);
        }
    }

    fn report(&mut self, report: Report) {
        let now = self.now();
        let name = report.pod.full_name();
        match &report.result {
            Outcome::Bound => {
                self.metrics.binding.add(report.took);
                if let Some(since) = self.waiting.remove(&name) {
                    self.metrics.pod_scheduling.add(now.since(since));
                }
                if self.event_per_pod {
                    let _ = self.notes.send(Note::pod_scheduled(&report.pod));
                }
            }
            Outcome::Failed(reason) | Outcome::Unanswered(reason) => {
                log!(warn, "a pod cannot be bound", pod = name, reason = reason);
            }
            Outcome::NotEvicted(reason) => {
                log!(warn, "a pod cannot be evicted", pod = name, reason = reason);
            }
            Outcome::Released => {
                if let Leftovers::Releasing { left, .. } = &mut self.leftovers {
                    *left = left.saturating_sub(1);
                }
            }
            _ => {}
        }
        match convert::report(&mut self.scheduler, report, now) {
            // The pod is gone meanwhile, or has another plan.
            Ok(()) | Err(QueueError::UnknownPod(_) | QueueError::StaleTicket) => {}
            Err(error) => log!(warn, "the scheduler refuses a report", reason = error),
        }
    }

    fn decide(&mut self) {
        loop {
            let begin = Instant::now();
            let decision = self.scheduler.poll_decision(self.now());
            self.metrics.decision.add(begin.elapsed());
            let Some(decision) = decision else { return };
            self.tell(&decision);
            let Some(order) = convert::order(&self.store, decision) else { continue };
            if self.dry_run {
                self.pretend(order);
            } else if self.orders.send(order).is_err() {
                return;
            }
        }
    }

    /// Counts and logs a decision, and shows the nodes of a plan that waits for victims.
    fn tell(&mut self, decision: &Decision) {
        let kind = match decision {
            Decision::Prepare { .. } => "prepare",
            Decision::Bind { .. } => "bind",
            Decision::Unbind { .. } => "unbind",
            Decision::EvictStale { .. } => "evict-stale",
            Decision::EvictDue { .. } => "evict-due",
            Decision::Evict { .. } => "evict",
            Decision::Move { .. } => "move",
            Decision::CancelEvictions { .. } => "cancel-evictions",
            Decision::Booking { .. } => "booking",
            Decision::Repair { .. } => "repair",
            _ => "unknown",
        };
        self.metrics.count(kind);
        let text = match decision {
            Decision::Prepare { groups, plan, .. } => {
                let groups = groups.join(", ");
                log!(info, "a plan is prepared", group = groups, pods = plan.len());
                format!("{groups}: {} pods", plan.len())
            }
            Decision::Bind { groups, plan, .. } => {
                if groups.iter().any(|group| !group.contains("/pod:")) {
                    log!(info, "a gang is bound", group = groups.join(", "), pods = plan.len());
                }
                let nodes = plan.pods_per_node().len();
                format!("{}: {} pods on {nodes} nodes", groups.join(", "), plan.len())
            }
            Decision::Unbind { groups, pods, reason } => {
                format!("{}: {} pods, {reason}", groups.join(", "), pods.len())
            }
            Decision::EvictStale { group, pods, .. } => {
                log!(warn, "a gang below its minimum is evicted", group = group);
                format!("{group}: {} pods, it is below its minimum", pods.len())
            }
            Decision::EvictDue { group, pods, .. } => {
                log!(info, "a group whose time is over is evicted", group = group);
                format!("{group}: {} pods, its time is over", pods.len())
            }
            Decision::Evict { victims, plan, .. } => {
                self.nominate(plan);
                let names: Vec<&str> = victims.iter().map(|own| own.name.as_str()).collect();
                let (by, names) = (plan.group(), names.join(", "));
                log!(info, "victims are evicted", group = by, victims = names);
                format!("{by}: {names} must go")
            }
            Decision::Move { moves, plan, .. } => {
                self.nominate(plan);
                let names: Vec<&str> = moves.iter().map(|step| step.pod.name.as_str()).collect();
                let (by, names) = (plan.group(), names.join(", "));
                log!(info, "pods are moved", group = by, pods = names);
                format!("{by}: {names} move")
            }
            Decision::CancelEvictions { victims, .. } => {
                let names: Vec<&str> = victims.iter().map(|own| own.name.as_str()).collect();
                format!("{} stay", names.join(", "))
            }
            Decision::Booking { name, change } => {
                if let Some(note) = self.reservations.status(name, change) {
                    self.note(note);
                }
                let text = match change {
                    BookingChange::Placed { nodes } => format!("room on {}", nodes.join(", ")),
                    BookingChange::Began => "it begins".to_owned(),
                    BookingChange::Ended { used: true } => "it is used up".to_owned(),
                    _ => "it ends".to_owned(),
                };
                log!(info, "a booking changes", booking = name, change = text);
                format!("{name}: {text}")
            }
            Decision::Repair { group, missing, way, .. } => {
                log!(info, "a gang is repaired", group = group, way = format!("{way:?}"));
                format!("{group}: {missing} pods are missing, {way:?}")
            }
            other => {
                log!(error, "a decision is not known here", decision = format!("{other:?}"));
                String::new()
            }
        };
        self.decisions.add(kind, text);
    }

    /// Says of pods that wait for victims where they are to go.
    fn nominate(&mut self, plan: &Plan) {
        let mut pods = Vec::new();
        for assignment in plan.assignments() {
            let pod = assignment.pod();
            let (namespace, name) = (pod.namespace().to_owned(), pod.name.clone());
            let pod = ObjectRef::new(namespace, name, pod.uid.clone());
            let node = Some(assignment.node().to_owned());
            self.note(Note::Nominated { pod: pod.clone(), node });
            pods.push(pod);
        }
        self.nominated.insert(plan.group().to_string(), pods);
    }

    fn note(&self, note: Note) {
        if !self.dry_run {
            let _ = self.notes.send(note);
        }
    }

    /// Logs an order in place of carrying it out.
    fn pretend(&mut self, order: Order) {
        let (what, pods, result) = match order {
            Order::Bind(pods) => ("would be bound", pods, Outcome::Bound),
            Order::Prepare(pods) => {
                let first = pods.into_iter().take(1).collect();
                ("would be prepared", first, Outcome::Prepared)
            }
            Order::Evict { pods, .. } | Order::Preempt { pods, .. } => {
                ("would be evicted", pods, Outcome::Watched)
            }
            Order::Cancel(pods) => ("would stay", pods, Outcome::Watched),
            Order::Release(pods) => ("would be released", pods, Outcome::Released),
        };
        for pod in pods {
            log!(info, what, pod = pod.full_name(), node = pod.node);
            self.report(Report { pod, result: result.clone(), took: Duration::ZERO });
        }
    }

    /// Reads the scheduler's events: conditions, events and explanations follow from them.
    fn observe(&mut self) {
        let now = self.now();
        let mut ended = BTreeSet::new();
        while let Some(event) = self.scheduler.poll_event() {
            let group = event.group;
            match event.change {
                GroupChange::Started { .. } => {
                    self.explanations.forget(&group);
                    for object in self.store.pod_groups(&group) {
                        let name = format!("{}/{}", object.namespace, object.name);
                        if self.store.pod_group_scheduled(&name) != Some(true) {
                            self.note(Note::group_scheduled(object));
                        }
                    }
                }
                GroupChange::Unschedulable(shortage) => {
                    self.metrics.count("unschedulable");
                    self.explanations.add(group.to_string(), Some(shortage), now);
                }
                GroupChange::Undone { reason } | GroupChange::Failed { reason } => {
                    log!(warn, "a plan is undone", group = group, reason = reason);
                }
                GroupChange::Preempting { .. } => {
                    ended.remove(&group);
                }
                GroupChange::Preempted { by, .. } => {
                    for object in self.store.pod_groups(&group) {
                        self.note(Note::Preempted { group: object, by: by.to_string() });
                    }
                }
                GroupChange::ReservationEnded { reason: ReservationEnd::Used } => {
                    self.nominated.remove(&*group);
                }
                GroupChange::ReservationEnded { .. } => {
                    ended.insert(group);
                }
                GroupChange::Gated(Gate::Members { .. } | Gate::Partner { .. }) => {
                    self.explanations.add(group.to_string(), None, now);
                }
                GroupChange::Gated(_)
                | GroupChange::Preparing { .. }
                | GroupChange::Binding { .. }
                | GroupChange::Removed => self.explanations.forget(&group),
                _ => {}
            }
        }
        for group in ended {
            for pod in self.nominated.remove(&*group).into_iter().flatten() {
                self.note(Note::Nominated { pod, node: None });
            }
        }
    }
}

fn full_name(pod: &phalanx::Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name)
}
