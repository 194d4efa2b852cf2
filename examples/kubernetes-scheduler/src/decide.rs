//! Decisions: one thread that owns the crate's scheduler. Inputs come in by one channel; orders and
//! notes go out by two others, and nothing here waits for the network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use phalanx::kubernetes::watch::{Kind, ObjectRef, Store, Update, WatchEvent};
use phalanx::queue::{Gate, Gone, GroupChange, ReservationEnd, Ticket};
use phalanx::{Decision, Event, ObjectName, Plan, QueueError, Scheduler, Time};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::bind::{Order, Outcome, Placement, Report};
use crate::explain::Explanations;
use crate::log;
use crate::metrics::Metrics;
use crate::prepare::{ClaimNeed, Needs};
use crate::status::Note;
use crate::watch::SOURCES;

/// Input of the decisions.
pub enum Input {
    /// The initial events of a watch follow.
    ListBegins(Kind),
    /// Events of a watch, in order.
    Watch(Vec<WatchEvent>),
    /// A resource cannot be watched; it is done without.
    Refused(Kind),
    /// Results of orders.
    Reports(Vec<Report>),
    /// The metrics are asked for.
    Scrape(oneshot::Sender<String>),
    /// No decision is to follow.
    Stop,
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
}

impl Decider {
    /// Takes inputs and makes decisions until it is stopped.
    pub fn run(mut self) {
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
            let synced = SOURCES.iter().all(|source| self.synced.contains(&source.kind));
            self.pulse.synced.store(synced, Ordering::Relaxed);
            if synced && self.has_released() {
                self.decide();
                self.observe();
                let now = self.now();
                self.explanations.send(&self.scheduler, &self.store, &self.notes, now);
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
                if self.reserved().is_empty() {
                    self.leftovers = Leftovers::Done;
                } else if since.elapsed() > TICK {
                    self.leftovers = Leftovers::Unknown;
                }
            }
            Leftovers::Releasing { .. } => {}
            Leftovers::Unknown => {
                let pods = self.reserved();
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

    /// The pods that wait and that claims are reserved for, with those claims.
    fn reserved(&self) -> Vec<Placement> {
        let mut pods: BTreeMap<String, (ObjectRef, Needs)> = BTreeMap::new();
        for claim in self.store.resource_claims() {
            for uid in &claim.reserved_for {
                let Some(pod) = self.store.waiting_pod(&claim.namespace, uid) else { continue };
                let user = serde_json::json!({
                    "resource": "pods", "name": pod.name, "uid": pod.uid,
                });
                let need = ClaimNeed { name: claim.name.clone(), allocation: None, user };
                let (_, needs) = pods.entry(uid.clone()).or_insert((pod, Needs::default()));
                needs.claims.push(need);
            }
        }
        let pods = pods.into_values().map(|(pod, needs)| {
            let ObjectRef { namespace, name, uid, .. } = pod;
            let mut own = Placement::new(None, namespace, name, uid, String::new());
            own.needs = Some(Arc::new(needs));
            own
        });
        pods.collect()
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
            Input::ListBegins(kind) => {
                self.serve(kind, true);
                self.store.begin_list(kind);
                self.synced.remove(&kind);
            }
            Input::Refused(kind) => {
                self.serve(kind, false);
                self.synced.insert(kind);
            }
            Input::Watch(events) => events.into_iter().for_each(|event| self.watched(event)),
            Input::Reports(reports) => reports.into_iter().for_each(|report| self.report(report)),
            Input::Scrape(answer) => {
                let _ = answer.send(self.metrics.text(&self.scheduler));
            }
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
        let result = match report.result {
            Outcome::Bound => {
                self.metrics.binding.add(report.took);
                if let Some(since) = self.waiting.remove(&report.pod.full_name()) {
                    self.metrics.pod_scheduling.add(now.since(since));
                }
                if self.event_per_pod {
                    let _ = self.notes.send(Note::pod_scheduled(&report.pod));
                }
                self.result(&report.pod, Ok(()), now)
            }
            Outcome::Failed(reason) => {
                log!(warn, "a pod cannot be bound", pod = report.pod.full_name(), reason = reason);
                self.result(&report.pod, Err(reason), now)
            }
            Outcome::Unbound => self
                .scheduler
                .handle_gone(Gone::unbound(&report.pod.namespace, &report.pod.name), now),
            Outcome::NotEvicted(reason) => {
                log!(
                    warn,
                    "a pod cannot be evicted",
                    pod = report.pod.full_name(),
                    reason = reason
                );
                let Some(ticket) = report.pod.ticket else { return };
                self.scheduler.handle_eviction_failed(ticket, &report.pod.full_name(), None, now)
            }
            Outcome::Watched => Ok(()),
            Outcome::Prepared => self.prepared(&report.pod, Ok(()), now),
            Outcome::Unprepared(reason) => self.prepared(&report.pod, Err(reason), now),
            Outcome::Released => {
                if let Leftovers::Releasing { left, .. } = &mut self.leftovers {
                    *left = left.saturating_sub(1);
                }
                Ok(())
            }
        };
        match result {
            // The pod is gone meanwhile, or has another plan.
            Ok(()) | Err(QueueError::UnknownPod(_) | QueueError::StaleTicket) => {}
            Err(error) => log!(warn, "the scheduler refuses a report", reason = error),
        }
    }

    fn prepared(
        &mut self,
        pod: &Placement,
        result: Result<(), String>,
        now: Time,
    ) -> Result<(), QueueError> {
        let Some(ticket) = pod.ticket else { return Ok(()) };
        self.scheduler.handle_prepared(ticket, result, now)
    }

    fn result(
        &mut self,
        pod: &Placement,
        result: Result<(), String>,
        now: Time,
    ) -> Result<(), QueueError> {
        let Some(ticket) = pod.ticket else { return Ok(()) };
        self.scheduler.handle_binding(ticket, &pod.namespace, &pod.name, result, now)
    }

    fn decide(&mut self) {
        loop {
            let begin = Instant::now();
            let decision = self.scheduler.poll_decision(self.now());
            self.metrics.decision.add(begin.elapsed());
            let Some(decision) = decision else { return };
            let order = match decision {
                Decision::Prepare { ticket, groups, plan } => {
                    self.metrics.count("prepare");
                    log!(info, "a plan is prepared", group = groups.join(", "), pods = plan.len());
                    Order::Prepare(self.members(ticket, &plan))
                }
                Decision::Bind { ticket, groups, plan, .. } => {
                    self.metrics.count("bind");
                    self.bind(ticket, &groups, &plan)
                }
                Decision::Unbind { pods, reason, .. } => {
                    self.metrics.count("unbind");
                    Order::Evict { pods: self.placements(&pods), reason }
                }
                Decision::EvictStale { group, pods, .. } => {
                    self.metrics.count("evict-stale");
                    log!(warn, "a gang below its minimum is evicted", group = group);
                    let reason = "its gang is below its minimum".to_owned();
                    Order::Evict { pods: self.placements(&pods), reason }
                }
                Decision::EvictDue { group, pods, .. } => {
                    self.metrics.count("evict-due");
                    log!(info, "a group whose time is over is evicted", group = group);
                    let reason = "its time is over".to_owned();
                    Order::Evict { pods: self.placements(&pods), reason }
                }
                Decision::Evict { ticket, victims, plan } => {
                    self.metrics.count("evict");
                    self.nominate(&plan);
                    let by = plan.group();
                    let names: Vec<&str> =
                        victims.iter().map(|victim| victim.name.as_str()).collect();
                    log!(info, "victims are evicted", group = by, victims = names.join(", "));
                    let pods = victims.iter().flat_map(|victim| &victim.pods);
                    let pods = pods.map(|pod| Placement::of_victim(ticket, pod)).collect();
                    Order::Preempt { pods, by: by.to_string() }
                }
                Decision::Move { ticket, moves, plan } => {
                    self.metrics.count("move");
                    self.nominate(&plan);
                    let by = plan.group();
                    let names: Vec<&str> =
                        moves.iter().map(|step| step.pod.name.as_str()).collect();
                    log!(info, "pods are moved", group = by, pods = names.join(", "));
                    // A pod cannot be moved: it is deleted, and its controller makes it anew.
                    let pods = moves.iter().map(|step| &step.pod);
                    let pods = pods.map(|pod| Placement::of_victim(ticket, pod)).collect();
                    Order::Preempt { pods, by: by.to_string() }
                }
                Decision::CancelEvictions { ticket, victims } => {
                    self.metrics.count("cancel-evictions");
                    let pods = victims.iter().flat_map(|victim| &victim.pods);
                    Order::Cancel(pods.map(|pod| Placement::of_victim(ticket, pod)).collect())
                }
                other => {
                    log!(error, "a decision is not known here", decision = format!("{other:?}"));
                    continue;
                }
            };
            if self.dry_run {
                self.pretend(order);
            } else if self.orders.send(order).is_err() {
                return;
            }
        }
    }

    fn bind(&self, ticket: Ticket, groups: &[ObjectName], plan: &Plan) -> Order {
        if groups.iter().any(|group| !group.contains("/pod:")) {
            log!(info, "a gang is bound", group = groups.join(", "), pods = plan.len());
        }
        Order::Bind(self.members(ticket, plan))
    }

    /// The pods of a plan, with what it gives each.
    fn members(&self, ticket: Ticket, plan: &Plan) -> Vec<Placement> {
        let pods = plan.assignments().map(|assignment| {
            let pod = assignment.pod();
            let (namespace, name) = (pod.namespace().to_owned(), pod.name.clone());
            let (uid, node) = (pod.uid.clone(), assignment.node().to_owned());
            let mut own = Placement::new(Some(ticket), namespace, name, uid, node);
            let group = pod.group.as_ref().map(|group| format!("{}/{group}", pod.namespace()));
            let needs = Needs::of(&self.store, group.as_deref(), assignment);
            own.needs = needs.map(Arc::new);
            if let Some(cards) = self.store.node_devices(assignment.node()) {
                let chosen = assignment.devices();
                own.annotations = cards.annotations(assignment.node(), pod, chosen);
                stamp(&mut own.annotations);
            }
            own
        });
        pods.collect()
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

    fn placements(&self, pods: &[phalanx::queue::BoundPod]) -> Vec<Placement> {
        let pods = pods.iter().map(|pod| {
            let (namespace, name) = (pod.pod.namespace(), pod.pod.name());
            let uid = self.store.pod_uid(namespace, name).unwrap_or_default().to_owned();
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            Placement::new(None, namespace, name, uid, pod.node.clone())
        });
        pods.collect()
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

/// Adds the times that plugins of cards read beside the cards.
fn stamp(annotations: &mut BTreeMap<String, String>) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let keys: &[&str] = if annotations.contains_key("hami.io/vgpu-node") {
        &["hami.io/vgpu-time", "hami.io/bind-time"]
    } else if annotations.contains_key("volcano.sh/vgpu-node") {
        &["volcano.sh/vgpu-time", "volcano.sh/bind-time"]
    } else {
        &[]
    };
    for key in keys {
        annotations.insert((*key).to_owned(), now.as_secs().to_string());
    }
    if annotations.contains_key("scheduling.koordinator.sh/device-allocated") {
        let key = "scheduling.koordinator.sh/bind-timestamp".to_owned();
        annotations.insert(key, now.as_nanos().to_string());
    }
}

fn full_name(pod: &phalanx::Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name)
}
