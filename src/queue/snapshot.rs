//! The serialised state of a scheduler.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::decision::Decision;
use super::ids::{GroupId, Ticket};
use super::observe::{EventLog, Metrics};
use super::queued_group::{Phase, QueuedGroup, full_name};
use super::scheduler::{PlanInFlight, Scheduler, Timer};
use super::settings::{QueueOrder, Settings};
use super::wake::hints::Changes;
use crate::base::Time;
use crate::framework::Framework;
use crate::model::Pod;
use crate::state::Cluster;

/// The whole state of a [`Scheduler`], except for its framework and order, which are code.
///
/// Equal states serialise to equal bytes.
///
/// ```
/// use phalanx::queue::{PriorityThenTime, SavedScheduler, Scheduler, Settings};
/// use phalanx::{Cluster, Framework};
///
/// let scheduler = Scheduler::new(Cluster::new(), Framework::default(), Settings::default());
/// let text = serde_json::to_string(&scheduler.save())?;
/// let saved: SavedScheduler = serde_json::from_str(&text)?;
/// let again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
/// assert_eq!(serde_json::to_string(&again.save())?, text);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedScheduler {
    cluster: Cluster,
    settings: Settings,
    now: Time,
    groups: Vec<(GroupId, QueuedGroup)>,
    orphans: BTreeMap<String, Vec<Pod>>,
    in_flight: Vec<(Ticket, PlanInFlight)>,
    timers: BTreeSet<(Time, Timer)>,
    changes: Changes,
    reservations_due: bool,
    epoch: u64,
    outbox: VecDeque<Decision>,
    log: EventLog,
    metrics: Metrics,
    next: u64,
}

impl Scheduler {
    /// The state as data. O(state).
    pub fn save(&self) -> SavedScheduler {
        SavedScheduler {
            cluster: self.cluster.clone(),
            settings: self.settings.clone(),
            now: self.now,
            groups: self.groups.iter().map(|(id, queued)| (*id, queued.clone())).collect(),
            orphans: self.orphans.clone(),
            in_flight: self
                .in_flight
                .iter()
                .map(|(id, in_flight)| (*id, in_flight.clone()))
                .collect(),
            timers: self.timers.clone(),
            changes: self.changes.clone(),
            reservations_due: self.reservations_due,
            epoch: self.epoch,
            outbox: self.outbox.clone(),
            log: self.log.clone(),
            metrics: self.metrics.clone(),
            next: self.next,
        }
    }

    /// A scheduler that continues from a saved state. With an equal framework and order, its
    /// answers equal those of the saved one.
    pub fn restore(
        saved: SavedScheduler,
        framework: Framework,
        order: impl QueueOrder + 'static,
    ) -> Scheduler {
        let mut scheduler = Scheduler::new(saved.cluster, framework, saved.settings);
        scheduler.order = Arc::new(order);
        scheduler.now = saved.now;
        scheduler.orphans = saved.orphans;
        scheduler.in_flight = saved.in_flight.into_iter().collect();
        scheduler.timers = saved.timers;
        scheduler.changes = saved.changes;
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
                scheduler.names.insert(group.full_name(), (id, place));
            });
            for partner in &queued.root.gang_group {
                scheduler.links.entry(partner.clone()).or_default().insert(id);
            }
            for (seq, member) in &queued.members {
                scheduler.pods.insert(full_name(&member.pod), (id, *seq));
            }
            if queued.reservation.is_some() {
                scheduler.reserving.insert(id);
            }
            if let Some(key) = &queued.key {
                let queue = scheduler.queues.entry(queued.root.queue.clone()).or_default();
                queue.waiting.insert(key.clone());
                if queued.phase == Phase::Queued {
                    queue.ready.insert(key.clone());
                }
            }
            let (cluster, framework) = (&scheduler.cluster, &scheduler.framework);
            if let Some(key) = &queued.key {
                scheduler.wait_index.subscribe(cluster, framework, key, &queued.wake_on);
            }
            scheduler.groups.insert(id, queued);
        }
        scheduler
    }
}
