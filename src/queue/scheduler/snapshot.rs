//! The serialised state of a scheduler.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use serde::{Deserialize, Serialize};

use super::{Scheduler, Timer};
use crate::base::clip::clip;
use crate::base::{ObjectName, Time};
use crate::framework::Framework;
use crate::model::Pod;
use crate::queue::backfill::{BackfillLine, SavedBackfill};
use crate::queue::groups::{Phase, QueuedGroup, SavedGroup, full_name};
use crate::queue::holds::{Hold, HoldId, Holds, Past, SavedHolds};
use crate::queue::line::refusals::{Refusal, Refusals};
use crate::queue::line::wake::hints::SavedChanges;
use crate::queue::removals::{Removals, SavedRemovals};
use crate::queue::report::Report;
use crate::queue::settings::{PriorityThenTime, QueueOrder, Settings};
use crate::queue::tenancy::saved::SavedTenancy;
use crate::queue::terms::decision::Decision;
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::terms::observe::{EventLog, Metrics};
use crate::state::Cluster;

/// The whole state of a [`Scheduler`], except for its framework and order, which are code.
///
/// Equal states serialise to equal bytes. A contradiction is refused when it is read: identifiers
/// that are used twice or are to be used again, a group under another's name. So are a waiting
/// group without its place in the queue, a plan that no group has, and whatever [`Scheduler::check`]
/// finds. Reading is O(state).
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
    /// The number of the form.
    #[serde(default)]
    form: u32,
    cluster: Cluster,
    settings: Settings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenancy: Option<SavedTenancy>,
    now: Time,
    /// Whether lists come in.
    #[serde(default)]
    in_sync: bool,
    groups: Vec<(GroupId, SavedGroup)>,
    orphans: BTreeMap<String, Vec<Pod>>,
    #[serde(default)]
    holds: Vec<(HoldId, Hold)>,
    #[serde(default)]
    past: BTreeMap<GroupId, Past>,
    #[serde(default)]
    holds_due: bool,
    #[serde(default)]
    permits_due: BTreeSet<Ticket>,
    timers: BTreeSet<(Time, Timer)>,
    changed: SavedChanges,
    #[serde(default)]
    backfill: SavedBackfill,
    #[serde(default)]
    removals: SavedRemovals,
    #[serde(default)]
    refusals: BTreeMap<String, Vec<Refusal>>,
    epoch: u64,
    outbox: VecDeque<Decision>,
    log: EventLog,
    metrics: Metrics,
    next: u64,
}

/// The form in which states are saved. One of another form is refused.
const FORM: u32 = 4;

/// The first contradiction of a saved state.
#[derive(Debug, thiserror::Error)]
enum Contradiction {
    #[error("the state was saved in form {0}, and form {FORM} is read")]
    Form(u32),
    #[error("identifier {0} is used twice, or is to be used again")]
    Identifier(u64),
    #[error("group {}: has the name of another", clip(.0))]
    Name(ObjectName),
    #[error("group {}: its place in the queue does not match its phase", clip(.0))]
    Place(ObjectName),
    #[error("group {}: its plan is not in flight", clip(.0))]
    Plan(ObjectName),
    #[error(transparent)]
    Parts(QueueError),
}

impl TryFrom<State> for SavedScheduler {
    type Error = Contradiction;

    fn try_from(state: State) -> Result<SavedScheduler, Contradiction> {
        if state.form != FORM {
            return Err(Contradiction::Form(state.form));
        }
        // Numbers are taken one by one, so half of them are never used up.
        if state.next > u64::MAX / 2 {
            return Err(Contradiction::Identifier(state.next));
        }
        let groups = state.groups.iter().map(|(id, _)| *id);
        let members = state.groups.iter().flat_map(|(_, queued)| queued.members.keys().copied());
        let tickets: BTreeSet<u64> = state
            .holds
            .iter()
            .filter_map(|(id, _)| match id {
                HoldId::Plan(ticket) => Some(ticket.0),
                _ => None,
            })
            .collect();
        let asked: BTreeSet<u64> =
            state.removals.entries.iter().map(|own| own.ticket().0).collect();
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
            if let Phase::Held(ticket) | Phase::Binding(ticket) = queued.phase {
                let plan = HoldId::Plan(ticket);
                let mut plans = state.holds.iter().filter(|(other, _)| *other == plan);
                if !plans.any(|(_, hold)| hold.owners().contains(id)) {
                    return Err(Contradiction::Plan(name()));
                }
            }
        }
        // The parts hold or contradict each other whatever the framework and the order.
        let saved = SavedScheduler(state);
        let trial = Scheduler::restore(saved.clone(), Framework::default(), PriorityThenTime);
        trial.check().map_err(Contradiction::Parts)?;
        Ok(saved)
    }
}

impl SavedScheduler {
    /// The same state with other settings: to run a recording under another policy.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> SavedScheduler {
        if self.0.settings.discipline.backfill().is_none() {
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
        let tenancy = self.tenancy.as_ref();
        let SavedHolds { holds, past, holds_due, permits_due } = self.holds.save();
        SavedScheduler(State {
            form: FORM,
            cluster: self.world.cluster().clone(),
            settings: self.world.settings().clone(),
            tenancy: tenancy.map(|own| SavedTenancy::of(own, self.line.changed_heads())),
            now: self.world.now(),
            in_sync: self.world.is_stopped(),
            groups: self.groups.iter().map(|(id, queued)| (*id, queued.save())).collect(),
            orphans: self.groups.orphans().to_lists(),
            holds,
            past,
            holds_due,
            permits_due,
            timers: self.timers.clone(),
            changed: SavedChanges::of(self.line.changes(), self.world.cluster()),
            backfill: self.backfill.save(),
            removals: self.removals.save(),
            refusals: self.refusals.save(),
            epoch: self.epoch,
            outbox: self.report.decisions().clone(),
            log: self.report.log().clone(),
            metrics: self.report.metrics().clone(),
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
        scheduler.line.set_order(Arc::new(order));
        let mut changed_heads = BTreeSet::new();
        if let Some(mut tenancy) = saved.tenancy {
            changed_heads = mem::take(&mut tenancy.changed);
            scheduler.tenancy = Some(tenancy.restore());
            scheduler.line.track_heads();
        }
        scheduler.world.advance(saved.now);
        if saved.in_sync {
            scheduler.world.stop_time();
        }
        scheduler.groups.orphans_mut().extend(saved.orphans);
        scheduler.holds = Holds::restore(SavedHolds {
            holds: saved.holds,
            past: saved.past,
            holds_due: saved.holds_due,
            permits_due: saved.permits_due,
        });
        scheduler.timers = saved.timers;
        let changes = saved.changed.restore(scheduler.world.cluster());
        scheduler.line.set_changes(changes);
        scheduler.backfill = BackfillLine::restore(saved.backfill);
        scheduler.removals = Removals::restore(saved.removals);
        scheduler.refusals = Refusals::restore(saved.refusals);
        scheduler.epoch = saved.epoch;
        scheduler.report = Report::of(saved.outbox, saved.log, saved.metrics);
        scheduler.next = saved.next;
        for (id, saved) in saved.groups {
            let queued = QueuedGroup::restore(saved);
            scheduler.groups.enter_names(id, queued.root());
            let seqs: Vec<u64> = queued.members().iter().map(|(seq, _)| *seq).collect();
            for (seq, member) in queued.members().iter() {
                scheduler.groups.enter_member(full_name(member.pod()), id, *seq);
            }
            scheduler.line.restore_group(&scheduler.world, &queued);
            if let Some(key) = queued.key()
                && scheduler.world.settings().discipline.backfill().is_some()
            {
                scheduler.backfill.put_in_line(key.clone());
            }
            let _ = scheduler.removals.restore_group(queued.root());
            scheduler.groups.insert(id, queued);
            for seq in seqs {
                scheduler.groups.read_node(scheduler.world.cluster(), id, seq);
            }
            scheduler.groups.add_partners(id);
            scheduler.sleep_for_quota(id);
        }
        if let Some(tenancy) = &scheduler.tenancy {
            scheduler.line.set_changed_heads(changed_heads, |queue| tenancy.lacks_head(queue));
        }
        scheduler.removals.restore_work();
        scheduler
    }
}
