//! The serialised state of a scheduler.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::backfill::state::{BackfillState, SavedBackfill};
use super::decision::Decision;
use super::evictions::PreemptionState;
use super::ids::{GroupId, Ticket};
use super::observe::{EventLog, Metrics};
use super::queued_group::{Phase, QueuedGroup, full_name};
use super::scheduler::{PlanInFlight, Scheduler, Timer};
use super::settings::{QueueOrder, Settings};
use super::tenancy::Tenancy;
use super::tenancy_saved::SavedTenancy;
use super::wake::hints::Changes;
use crate::base::clip::clip;
use crate::base::{ObjectName, Time};
use crate::framework::Framework;
use crate::model::Pod;
use crate::state::Cluster;

/// The whole state of a [`Scheduler`], except for its framework and order, which are code.
///
/// Equal states serialise to equal bytes. What contradicts itself is refused when it is read:
/// identifiers that are used twice or are to be used again, a group under another's name, a waiting
/// group without its place in the queue, a plan that no group has.
///
/// ```
/// use phalanx::queue::{PriorityThenTime, SavedScheduler, Settings};
/// use phalanx::{Cluster, Framework, Scheduler};
///
/// let scheduler = Scheduler::new(Cluster::new(), Framework::default(), Settings::default());
/// let text = serde_json::to_string(&scheduler.save())?;
/// let saved: SavedScheduler = serde_json::from_str(&text)?;
/// let again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
/// assert_eq!(serde_json::to_string(&again.save())?, text);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "State")]
pub struct SavedScheduler(State);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    cluster: Cluster,
    settings: Settings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenancy: Option<SavedTenancy>,
    now: Time,
    groups: Vec<(GroupId, QueuedGroup)>,
    orphans: BTreeMap<String, Vec<Pod>>,
    in_flight: Vec<(Ticket, PlanInFlight)>,
    timers: BTreeSet<(Time, Timer)>,
    changes: Changes,
    #[serde(default)]
    backfill: SavedBackfill,
    #[serde(default)]
    preemption: PreemptionState,
    reservations_due: bool,
    epoch: u64,
    outbox: VecDeque<Decision>,
    log: EventLog,
    metrics: Metrics,
    next: u64,
}

/// The first contradiction of a saved state.
#[derive(Debug, thiserror::Error)]
enum Contradiction {
    #[error("identifier {0} is used twice, or is to be used again")]
    Identifier(u64),
    #[error("group {}: has the name of another", clip(.0))]
    Name(ObjectName),
    #[error("group {}: its place in the queue does not match its phase", clip(.0))]
    Place(ObjectName),
    #[error("group {}: its plan is not in flight", clip(.0))]
    Plan(ObjectName),
}

impl TryFrom<State> for SavedScheduler {
    type Error = Contradiction;

    fn try_from(state: State) -> Result<SavedScheduler, Contradiction> {
        // Numbers are taken one by one, so half of them are never used up.
        if state.next > u64::MAX / 2 {
            return Err(Contradiction::Identifier(state.next));
        }
        let groups = state.groups.iter().map(|(id, _)| *id);
        let members = state.groups.iter().flat_map(|(_, queued)| queued.members.keys().copied());
        let tickets = state.in_flight.iter().map(|(ticket, _)| ticket.0);
        let asked = state.preemption.evictions.iter().map(|(ticket, _)| ticket.0);
        let mut used = BTreeSet::new();
        for id in groups.chain(members).chain(tickets).chain(asked) {
            if id >= state.next || !used.insert(id) {
                return Err(Contradiction::Identifier(id));
            }
        }
        let mut names = BTreeSet::new();
        for (id, queued) in &state.groups {
            let name = || queued.name.clone();
            let mut is_free = queued.name == queued.root.full_name();
            queued.root.visit(&mut |group| is_free &= names.insert(group.full_name()));
            if !is_free {
                return Err(Contradiction::Name(name()));
            }
            let is_placed = queued.key.as_ref().map(|key| key.group);
            if is_placed != queued.phase.waits().then_some(*id) {
                return Err(Contradiction::Place(name()));
            }
            if let Phase::Held(ticket) | Phase::Binding(ticket) = &queued.phase {
                let mut plans = state.in_flight.iter().filter(|(other, _)| other == ticket);
                if !plans.any(|(_, in_flight)| in_flight.groups.contains(id)) {
                    return Err(Contradiction::Plan(name()));
                }
            }
        }
        Ok(SavedScheduler(state))
    }
}

impl SavedScheduler {
    /// The same state with other settings: to run a recording under another policy.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> SavedScheduler {
        if self.0.settings.backfill.is_none() {
            // It is not known which groups became ready.
            self.0.backfill.set_freed();
        }
        self.0.settings = settings;
        self
    }
}

impl Scheduler {
    /// The state as data. O(state).
    pub fn save(&self) -> SavedScheduler {
        SavedScheduler(State {
            cluster: self.cluster.clone(),
            settings: self.settings.clone(),
            tenancy: self.tenancy.as_ref().map(Tenancy::save),
            now: self.now,
            groups: self.groups.iter().map(|(id, queued)| (*id, queued.clone())).collect(),
            orphans: self.orphans.to_lists(),
            in_flight: self
                .in_flight
                .iter()
                .map(|(id, in_flight)| (*id, in_flight.clone()))
                .collect(),
            timers: self.timers.clone(),
            changes: self.changes.clone(),
            backfill: self.backfill.save(),
            preemption: self.preemption.clone(),
            reservations_due: self.reservations_due,
            epoch: self.epoch,
            outbox: self.outbox.clone(),
            log: self.log.clone(),
            metrics: self.metrics.clone(),
            next: self.next,
        })
    }

    /// A scheduler that continues from a saved state. With an equal framework and order, its
    /// answers equal those of the saved one.
    pub fn restore(
        saved: SavedScheduler,
        framework: Framework,
        order: impl QueueOrder + 'static,
    ) -> Scheduler {
        let SavedScheduler(saved) = saved;
        let mut scheduler = Scheduler::new(saved.cluster, framework, saved.settings);
        scheduler.order = Arc::new(order);
        if let Some(tenancy) = saved.tenancy {
            scheduler.tenancy = Some(Tenancy::restore(tenancy));
            scheduler.queues.track();
        }
        scheduler.now = saved.now;
        scheduler.orphans.extend(saved.orphans);
        scheduler.in_flight = saved.in_flight.into_iter().collect();
        scheduler.timers = saved.timers;
        scheduler.changes = saved.changes;
        scheduler.backfill = BackfillState::restore(saved.backfill);
        scheduler.preemption = saved.preemption;
        scheduler.reservations_due = saved.reservations_due;
        scheduler.epoch = saved.epoch;
        scheduler.outbox = saved.outbox;
        scheduler.log = saved.log;
        scheduler.metrics = saved.metrics;
        scheduler.next = saved.next;
        for (id, queued) in saved.groups {
            let mut leaf = 0;
            queued.root.visit(&mut |group| {
                let place = group.groups.is_empty().then(|| {
                    leaf += 1;
                    leaf - 1
                });
                scheduler.names.insert(group.full_name().into(), (id, place));
            });
            for (seq, member) in &queued.members {
                scheduler.pods.insert(full_name(&member.pod), (id, *seq));
            }
            if queued.reservation.is_some() {
                scheduler.reserving.insert(id);
            }
            if let Some(key) = &queued.key {
                let (queue, ready) = (&queued.root.queue, queued.phase == Phase::Queued);
                scheduler.queues.put(queue, key, ready, scheduler.settings.rule(queue));
            }
            let (cluster, framework) = (&scheduler.cluster, &scheduler.framework);
            if let Some(key) = &queued.key {
                scheduler.wait_index.subscribe(cluster, framework, key, &queued.wake_on);
                if scheduler.settings.backfill.is_some() {
                    scheduler.backfill.line.insert(key.clone());
                }
            }
            let _ = scheduler.running_work.add_group(&queued.root);
            scheduler.groups.insert(id, queued);
            scheduler.add_partners(id);
            scheduler.sleep_for_quota(id);
        }
        for group in scheduler.preemption.running.values() {
            let _ = scheduler.running_work.add_group(group);
        }
        for known in scheduler.preemption.budgets.values() {
            scheduler.running_work.set_budget(known.left());
        }
        scheduler
    }
}
