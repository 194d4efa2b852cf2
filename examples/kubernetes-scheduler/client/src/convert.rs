//! Decisions of a scheduler as orders, and a follower that keeps a scheduler up to date: all of the
//! thread that decides, for a program without wishes of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use phalanx::kubernetes::watch::{Kind, ObjectRef, Store, Update, WatchEvent};
use phalanx::queue::{BoundPod, Gone, Ticket};
use phalanx::{Decision, Plan, QueueError, Scheduler, Time};

use crate::Input;
use crate::bind::{Order, Outcome, Placement, Report};
use crate::log;
use crate::prepare::{ClaimNeed, Needs};
use crate::watch::SOURCES;

/// The order that a decision asks for; `None` for a decision that this version does not know.
pub fn order(store: &Store, decision: Decision) -> Option<Order> {
    Some(match decision {
        Decision::Prepare { ticket, plan, .. } => Order::Prepare(members(store, ticket, &plan)),
        Decision::Bind { ticket, plan, .. } => Order::Bind(members(store, ticket, &plan)),
        Decision::Unbind { pods, reason, .. } => {
            Order::Evict { pods: placements(store, &pods), reason }
        }
        Decision::EvictStale { pods, .. } => {
            let reason = "its gang is below its minimum".to_owned();
            Order::Evict { pods: placements(store, &pods), reason }
        }
        Decision::EvictDue { pods, .. } => {
            let reason = "its time is over".to_owned();
            Order::Evict { pods: placements(store, &pods), reason }
        }
        Decision::Evict { ticket, victims, plan } => {
            let pods = victims.iter().flat_map(|victim| &victim.pods);
            let pods = pods.map(|pod| Placement::of_victim(ticket, pod)).collect();
            Order::Preempt { pods, by: plan.group().to_string() }
        }
        Decision::Move { ticket, moves, plan } => {
            // A pod cannot be moved: it is deleted, and its controller makes it anew.
            let pods = moves.iter().map(|step| &step.pod);
            let pods = pods.map(|pod| Placement::of_victim(ticket, pod)).collect();
            Order::Preempt { pods, by: plan.group().to_string() }
        }
        Decision::CancelEvictions { ticket, victims } => {
            let pods = victims.iter().flat_map(|victim| &victim.pods);
            Order::Cancel(pods.map(|pod| Placement::of_victim(ticket, pod)).collect())
        }
        _ => return None,
    })
}

/// The pods of a plan, with what it gives each.
pub fn members(store: &Store, ticket: Ticket, plan: &Plan) -> Vec<Placement> {
    let pods = plan.assignments().map(|assignment| {
        let pod = assignment.pod();
        let (namespace, name) = (pod.namespace().to_owned(), pod.name.clone());
        let (uid, node) = (pod.uid.clone(), assignment.node().to_owned());
        let mut own = Placement::new(Some(ticket), namespace, name, uid, node);
        let group = pod.group.as_ref().map(|group| format!("{}/{group}", pod.namespace()));
        let needs = Needs::of(store, group.as_deref(), assignment);
        own.needs = needs.map(Arc::new);
        own.annotations = store.binding_annotations(assignment);
        stamp(&mut own.annotations);
        own.fraction = store.card_fraction(assignment);
        own
    });
    pods.collect()
}

/// Bound pods, to be unbound.
pub fn placements(store: &Store, pods: &[BoundPod]) -> Vec<Placement> {
    let pods = pods.iter().map(|pod| {
        let (namespace, name) = (pod.pod.namespace(), pod.pod.name());
        let uid = store.pod_uid(namespace, name).unwrap_or_default().to_owned();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Placement::new(None, namespace, name, uid, pod.node.clone())
    });
    pods.collect()
}

/// The pods that wait and that claims are reserved for, with those claims: an earlier run wrote them,
/// and its plans are gone. O(claims).
pub fn reserved(store: &Store) -> Vec<Placement> {
    let mut pods: BTreeMap<String, (ObjectRef, Needs)> = BTreeMap::new();
    for claim in store.resource_claims() {
        for uid in &claim.reserved_for {
            let Some(pod) = store.waiting_pod(&claim.namespace, uid) else { continue };
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

/// Passes the result of an order to the scheduler.
///
/// # Errors
/// The scheduler refuses it. `UnknownPod` and `StaleTicket` are no faults: the pod is gone meanwhile, or
/// has another plan.
pub fn report(scheduler: &mut Scheduler, report: Report, now: Time) -> Result<(), QueueError> {
    let Report { pod, result, .. } = report;
    let (namespace, name) = (&pod.namespace, &pod.name);
    if result == Outcome::Unbound {
        return scheduler.handle_gone(Gone::unbound(namespace, name), now);
    }
    // Orders of no plan: the watch tells how they end.
    let Some(ticket) = pod.ticket else { return Ok(()) };
    match result {
        Outcome::Bound => scheduler.handle_binding(ticket, namespace, name, Ok(()), now),
        Outcome::Failed(reason) => {
            scheduler.handle_binding(ticket, namespace, name, Err(reason), now)
        }
        Outcome::Unanswered(reason) => {
            scheduler.handle_unanswered(ticket, namespace, name, reason, now)
        }
        Outcome::Prepared => scheduler.handle_prepared(ticket, Ok(()), now),
        Outcome::Unprepared(reason) => scheduler.handle_prepared(ticket, Err(reason), now),
        Outcome::NotEvicted(_) => {
            scheduler.handle_eviction_failed(ticket, &pod.full_name(), None, now)
        }
        Outcome::Unbound | Outcome::Watched | Outcome::Released => Ok(()),
    }
}

/// A scheduler that follows a cluster.
///
/// It decides nothing before every resource is listed. Claims that an earlier run reserved and did not
/// use are not released: see [`reserved`].
pub struct Follower {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The objects.
    pub store: Store,
    start: Instant,
    synced: BTreeSet<Kind>,
}

impl Follower {
    /// A follower of an empty cluster. Time begins now.
    pub fn new(scheduler: Scheduler, store: Store) -> Follower {
        Follower { scheduler, store, start: Instant::now(), synced: BTreeSet::new() }
    }

    /// The time of the scheduler now.
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Takes news in. An object or report that is refused is logged.
    pub fn take(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::ListBegins(kind) => {
                let updates = self.store.set_served(kind, true);
                self.pass(updates, now);
                self.store.begin_list(kind);
                self.synced.remove(&kind);
            }
            Input::Watch { events, .. } => {
                for event in events {
                    let listed = match event {
                        WatchEvent::Bookmark { kind, initial_events_end: true, .. } => kind,
                        _ => None,
                    };
                    match self.store.apply(event) {
                        Ok(updates) => self.pass(updates, now),
                        Err(error) => log!(warn, "an object cannot be taken", reason = error),
                    }
                    self.synced.extend(listed);
                }
            }
            Input::Refused(kind) => {
                self.synced.insert(kind);
                let updates = self.store.set_served(kind, false);
                self.pass(updates, now);
            }
            Input::Reports(reports) => {
                for one in reports {
                    match report(&mut self.scheduler, one, now) {
                        Ok(()) | Err(QueueError::UnknownPod(_) | QueueError::StaleTicket) => {}
                        Err(error) => {
                            log!(warn, "the scheduler refuses a report", reason = error);
                        }
                    }
                }
            }
        }
    }

    fn pass(&mut self, updates: Vec<Update>, now: Time) {
        for update in updates {
            if let Err(error) = update.pass_to(&mut self.scheduler, now) {
                log!(warn, "the scheduler refuses an update", reason = error);
            }
        }
    }

    /// The orders that follow from all that came in; none before every resource is listed.
    pub fn decide(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        if SOURCES.iter().all(|source| self.synced.contains(&source.kind)) {
            while let Some(decision) = self.scheduler.poll_decision(self.now()) {
                orders.extend(order(&self.store, decision));
            }
            while self.scheduler.poll_event().is_some() {}
        }
        orders
    }
}

/// Adds the times that plugins of cards read beside the cards.
fn stamp(annotations: &mut BTreeMap<String, String>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
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
