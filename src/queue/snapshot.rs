//! A scheduler as data.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::observe::{Counters, EventLog};
use super::queued_group::{Ticket, Unit, UnitId, full_name};
use super::scheduler::{Decision, Flight, Scheduler, Timer};
use super::settings::{QueueOrder, Settings};
use super::wake::hints::Moved;
use crate::base::Time;
use crate::framework::Framework;
use crate::model::Pod;
use crate::state::Cluster;

/// The whole state of a [`Scheduler`], but for its framework and its order, which are code.
///
/// Equal states are equal bytes.
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
    units: Vec<(UnitId, Unit)>,
    orphans: BTreeMap<String, Vec<Pod>>,
    flights: Vec<(Ticket, Flight)>,
    timers: BTreeSet<(Time, Timer)>,
    moved: Moved,
    stirred: bool,
    epoch: u64,
    outbox: VecDeque<Decision>,
    log: EventLog,
    counters: Counters,
    next: u64,
}

impl Scheduler {
    /// The state as data. O(state).
    pub fn save(&self) -> SavedScheduler {
        SavedScheduler {
            cluster: self.cluster.clone(),
            settings: self.settings.clone(),
            now: self.now,
            units: self.units.iter().map(|(id, unit)| (*id, unit.clone())).collect(),
            orphans: self.orphans.clone(),
            flights: self.flights.iter().map(|(id, flight)| (*id, flight.clone())).collect(),
            timers: self.timers.clone(),
            moved: self.moved.clone(),
            stirred: self.stirred,
            epoch: self.epoch,
            outbox: self.outbox.clone(),
            log: self.log.clone(),
            counters: self.counters.clone(),
            next: self.next,
        }
    }

    /// A scheduler that goes on where another was saved. With an equal framework and order, it
    /// answers everything as that one would have.
    pub fn restore(
        saved: SavedScheduler,
        framework: Framework,
        order: impl QueueOrder + 'static,
    ) -> Scheduler {
        let mut scheduler = Scheduler::new(saved.cluster, framework, saved.settings);
        scheduler.order = Arc::new(order);
        scheduler.now = saved.now;
        scheduler.orphans = saved.orphans;
        scheduler.flights = saved.flights.into_iter().collect();
        scheduler.timers = saved.timers;
        scheduler.moved = saved.moved;
        scheduler.stirred = saved.stirred;
        scheduler.epoch = saved.epoch;
        scheduler.outbox = saved.outbox;
        scheduler.log = saved.log;
        scheduler.counters = saved.counters;
        scheduler.next = saved.next;
        for (id, unit) in saved.units {
            let mut leaf = 0;
            unit.root.visit(&mut |group| {
                let place = group.groups.is_empty().then(|| {
                    leaf += 1;
                    leaf - 1
                });
                scheduler.names.insert(group.full_name(), (id, place));
            });
            for partner in &unit.root.gang_group {
                scheduler.links.entry(partner.clone()).or_default().insert(id);
            }
            for (seq, member) in &unit.members {
                scheduler.pods.insert(full_name(&member.pod), (id, *seq));
            }
            if unit.reservation.is_some() {
                scheduler.reserving.insert(id);
            }
            if let Some(key) = &unit.key {
                let lane = scheduler.lanes.entry(unit.root.queue.clone()).or_default();
                lane.waiting.insert(key.clone());
                if unit.phase == super::queued_group::Phase::Queued {
                    lane.ready.insert(key.clone());
                }
            }
            let (cluster, framework) = (&scheduler.cluster, &scheduler.framework);
            if let Some(key) = &unit.key {
                scheduler.watches.subscribe(cluster, framework, key, &unit.watched);
            }
            scheduler.units.insert(id, unit);
        }
        scheduler
    }
}
