//! The driver: it holds the owners, passes facts on between them, and is the embedder's interface.
//!
//! Files call downwards only, in this order: `notes`, `quota`, `pods`, `phases`, `cancellation`,
//! `room_ends`, `settle`, `plans`, `places`, `results`, `nomination`, `held_places`, `moves`. Then
//! come `victims`, `seek`, `bookings`, `attempt`, `surplus`, `claims`, `reservation`, `backfill`, `turns`,
//! `timers`, `decide`, and at last inputs: `tenants`, `members`, `inputs`. `losses` and `repair` are
//! functions of owners.

mod attempt;
mod backfill;
mod bookings;
mod cancellation;
mod check;
mod claims;
mod decide;
mod held_places;
mod inputs;
mod jointly;
mod losses;
mod members;
mod moves;
mod nomination;
mod notes;
mod phases;
mod places;
mod plans;
mod pods;
mod quota;
mod repair;
mod reservation;
mod results;
mod room_ends;
mod seek;
mod settle;
mod size;
#[cfg(feature = "serde")]
mod snapshot;
mod spares;
mod surplus;
mod tenants;
mod timers;
mod turns;
mod victims;

use alloc::borrow::ToOwned;
#[cfg(feature = "serde")]
pub use snapshot::SavedScheduler;
pub use tenants::QueueStatus;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::base::Time;
use crate::framework::Framework;
use crate::model::{Amounts, PodGroup, PreemptionPolicy};
use crate::place::{Explanation, Outcome, Planner, Request};
use crate::preempt::{AnyUnit, LowerPriority, Policy, PreemptingPlanner};
use crate::queue::backfill::BackfillLine;
use crate::queue::fact::Facts;
use crate::queue::groups::{Groups, MemberState, Phase, QueuedGroup};
use crate::queue::holds::{Hold, HoldId, Holds, View};
use crate::queue::line::Line;
use crate::queue::line::refusals::{Refusals, knowing_refusals};
use crate::queue::removals::Removals;
use crate::queue::report::Report;
use crate::queue::settings::{QueueOrder, Settings};
use crate::queue::tenancy::Tenancy;
use crate::queue::tenancy::claims::amounts_of;
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::terms::observe::{Gate, GroupEvent, Metrics};
use crate::queue::terms::status::{
    GroupState, GroupStatus, MemoryStats, NoPreemption, ReservationView, WakeStats,
};
use crate::queue::world::World;
use crate::state::Cluster;

/// A scheduler as a pure state machine.
///
/// It owns the cluster: pass it every event of nodes and pods. Methods are of four kinds:
/// - `handle_*` take an input and its time;
/// - [`poll_decision`](Scheduler::poll_decision) and [`poll_event`](Scheduler::poll_event) return
///   what follows, as data;
/// - [`next_wake`](Scheduler::next_wake) returns the time of the next timer;
/// - all others read.
///
/// After any `handle_*`, poll decisions until there are none. Time must not run backwards; a time
/// before the latest counts as the latest.
///
/// A timer fires when decisions are polled, or in [`Scheduler::handle_time`], not in other inputs. An
/// input that comes before is in time, also after the deadline.
///
/// ```
/// use phalanx::queue::{GroupState, Settings};
/// use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("nvidia.com/gpu", 8))?;
/// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
///
/// let gang = PodGroup::of("trainer", 2, Pod::new().request("nvidia.com/gpu", 4));
/// scheduler.handle_group(gang, Time::from_secs(1))?;
/// let Some(Decision::Bind { ticket, plan, .. }) = scheduler.poll_decision(Time::from_secs(1)) else {
///     panic!("there is room for it")
/// };
/// assert_eq!(plan.len(), 2);
/// // Bind the pods, then report the result: of the plan, or of each pod by `handle_binding`.
/// scheduler.handle_bound(ticket, Time::from_secs(2))?;
/// assert_eq!(scheduler.state("default/trainer"), Some(GroupState::Running));
/// assert_eq!(scheduler.poll_decision(Time::from_secs(2)), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scheduler {
    world: World,
    groups: Groups,
    facts: Facts,
    line: Line,
    refusals: Refusals,
    holds: Holds,
    removals: Removals,
    timers: BTreeSet<(Time, Timer)>,
    tenancy: Option<Tenancy>,
    backfill: BackfillLine,
    /// Units that may be taken.
    policy: Arc<dyn Policy>,
    /// Units that may move.
    move_policy: Arc<dyn Policy>,
    victim_planner: PreemptingPlanner,
    /// Number of node changes.
    epoch: u64,
    report: Report,
    next: u64,
}

/// The timer of a group or plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum Timer {
    /// End of a back-off, or the next periodic attempt.
    Phase(GroupId),
    Plan(Ticket),
    Below(GroupId),
    /// Start or end of a reservation.
    Reservation(GroupId),
    /// A victim is to be asked for again, or should have gone.
    Evictions(Ticket),
    /// Victims may be found that were not before.
    Searches,
    /// A promised start, or one that may not be kept.
    Promises,
    /// End of the run time of a group.
    RunTime(GroupId),
    /// Begin or end of a booking, or the next search for its room.
    Booking(u64),
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("now", &self.world.now())
            .field("groups", &self.groups.len())
            .field("next_wake", &self.next_wake())
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Namespace of the placeholder pods that hold reserved capacity.
    pub const RESERVED_NAMESPACE: &'static str = RESERVED_NAMESPACE;

    /// A scheduler over a cluster. Pods that already run are known by name only; they become
    /// members once [`Scheduler::handle_group`] adds their group.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the scheduler keeps the plugins of the framework"
    )]
    pub fn new(cluster: Cluster, framework: Framework, settings: Settings) -> Scheduler {
        Scheduler {
            world: World::new(cluster, knowing_refusals(&framework), settings),
            groups: Groups::default(),
            facts: Facts::default(),
            line: Line::default(),
            refusals: Refusals::default(),
            holds: Holds::default(),
            removals: Removals::default(),
            timers: BTreeSet::new(),
            tenancy: None,
            backfill: BackfillLine::default(),
            policy: Arc::new(LowerPriority),
            move_policy: Arc::new(AnyUnit),
            victim_planner: PreemptingPlanner::new(),
            epoch: 0,
            report: Report::default(),
            next: 1,
        }
    }

    /// Sets the embedder's own queue order. Waiting groups are sorted again.
    #[must_use]
    pub fn with_order(mut self, order: impl QueueOrder + 'static) -> Scheduler {
        self.line.set_order(Arc::new(order));
        self.rekey_all();
        self
    }

    /// Sets what may be taken for groups that do not fit, in place of what has a lower priority;
    /// read with [`Settings::preemption`].
    #[must_use]
    pub fn with_policy(mut self, policy: impl Policy + 'static) -> Scheduler {
        self.policy = Arc::new(policy);
        self
    }

    /// Sets what may move so that a group fits, in place of any unit; read with
    /// [`PreemptionSettings::consolidation`](crate::queue::PreemptionSettings::consolidation).
    #[must_use]
    pub fn with_move_policy(mut self, policy: impl Policy + 'static) -> Scheduler {
        self.move_policy = Arc::new(policy);
        self
    }

    /// The cluster, including planned pods and the placeholders of reservations.
    pub fn cluster(&self) -> &Cluster {
        self.world.cluster()
    }

    /// The framework.
    pub fn framework(&self) -> &Framework {
        self.world.framework()
    }

    /// The options.
    pub fn settings(&self) -> &Settings {
        self.world.settings()
    }

    /// Totals since the scheduler was created.
    pub fn metrics(&self) -> &Metrics {
        self.report.metrics()
    }

    /// The latest time passed in.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// The next event, oldest first. At most [`Settings::event_capacity`] are kept.
    pub fn poll_event(&mut self) -> Option<GroupEvent> {
        self.report.next_event()
    }

    /// Time of the next timer: call [`Scheduler::poll_decision`] then, or at any input before.
    /// `None` if there is no timer, or while lists come in ([`Scheduler::begin_sync`]).
    pub fn next_wake(&self) -> Option<Time> {
        self.timers.first().filter(|_| !self.world.is_stopped()).map(|(time, _)| *time)
    }

    /// Full names of the root groups, sorted.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.roots()
    }

    /// Waiting groups of a queue, in queue order: queued, backing off or unschedulable.
    pub fn queue(&self, queue: &str) -> impl Iterator<Item = &str> {
        let groups = self.line.waiting(queue).filter_map(|key| self.groups.get(&key.group));
        groups.map(|queued| queued.name().as_str())
    }

    /// The state of a group, by the full name of any group of its tree; `None` if unknown.
    pub fn state(&self, group: &str) -> Option<GroupState> {
        let (id, _) = self.groups.named(group)?;
        Some(self.state_of(id, self.groups.get(&id)?))
    }

    /// The full status of a group; `None` if unknown. O(members).
    pub fn status(&self, group: &str) -> Option<GroupStatus> {
        let (id, _) = self.groups.named(group)?;
        let queued = self.groups.get(&id)?;
        let count = |state| queued.members().of(state);
        Some(GroupStatus {
            state: self.state_of(id, queued),
            started: queued.started(),
            below_minimum_since: queued.below_since(),
            pending: count(MemberState::Pending),
            planned: count(MemberState::Planned),
            bound: count(MemberState::Bound),
            finished: count(MemberState::Done),
            attempts: queued.attempts(),
            shortage: queued.shortage().cloned(),
            no_preemption: self.no_preemption(id),
            waits: queued.waits(self.world.now()),
        })
    }

    /// Reservations, in the order in which their groups arrived. One of groups that start together
    /// stands under the first of them.
    pub fn reservations(&self) -> Vec<ReservationView> {
        let view = |id| {
            let (queued, room) = (self.groups.get(&id)?, self.holds.room(id)?);
            let wanted = room.owners().iter().filter_map(|own| self.groups.get(own));
            let mut pods = BTreeMap::new();
            let mut amounts: BTreeMap<String, Amounts> = BTreeMap::new();
            for (index, (pod, node)) in room.placeholders().iter().enumerate() {
                if index < room.whole() {
                    *pods.entry(node.clone()).or_default() += 1;
                }
                let held = amounts.entry(node.clone()).or_default();
                for (name, amount) in amounts_of(pod.shape()).iter() {
                    held.set(name, held.of(name).saturating_add(amount));
                }
            }
            Some(ReservationView {
                group: queued.name().clone(),
                since: room.since(),
                until: room.until(),
                pods,
                amounts,
                wanted: wanted.map(QueuedGroup::pending).sum(),
            })
        };
        self.holds.with_room().filter_map(view).collect()
    }

    /// The outcome of trying a group now, alone, with the capacity reserved for it, on nodes that have not
    /// refused it. The state does not change. `None` if no member is pending.
    ///
    /// # Errors
    /// The group is unknown, or the planner refuses the request.
    pub fn trial(&self, group: &str, now: Time) -> Result<Option<Outcome>, QueueError> {
        let unknown = || QueueError::UnknownGroup(group.to_owned());
        let (id, _) = self.groups.named(group).ok_or_else(unknown)?;
        let groups = self.groups.gang_group(id).unwrap_or_else(|_| alloc::vec![id]);
        let Some(tree) = self.tree_to_try(&groups, now) else { return Ok(None) };
        let rooms = groups.iter().map(|id| HoldId::Room(*id));
        let held = rooms.flat_map(|room| self.holds.placeholders_of(room));
        let view = View::of(self.world.cluster()).without_pods(held);
        let strategy = self.groups.get(&id).and_then(QueuedGroup::strategy);
        let request = self.world.request(&tree, strategy, now);
        let mut outcome = Planner::new().place(view.cluster(), self.world.framework(), request)?;
        if let Outcome::Placed(plan) | Outcome::Held { plan, .. } = &mut outcome {
            plan.forget_avoided();
        }
        Ok(Some(outcome))
    }

    /// The pending members of groups, kept from the nodes that refuse them.
    fn tree_to_try(&self, groups: &[GroupId], now: Time) -> Option<PodGroup> {
        let tree = self.groups.joint_tree(groups)?;
        let avoiding = self.refusals.avoid(&tree, now, |pod| self.groups.shape_of(pod));
        Some(avoiding.map_or(tree, |avoiding| avoiding.tree))
    }

    /// Why a group is not placed now, alone; see [`explain`](crate::explain()). The state does
    /// not change. `None` if no member is pending.
    ///
    /// # Errors
    /// The group is unknown, or the planner refuses the request.
    pub fn explain(&self, group: &str, now: Time) -> Result<Option<Explanation>, QueueError> {
        let unknown = || QueueError::UnknownGroup(group.to_owned());
        let (id, _) = self.groups.named(group).ok_or_else(unknown)?;
        let groups = self.groups.gang_group(id).unwrap_or_else(|_| alloc::vec![id]);
        let Some(tree) = self.tree_to_try(&groups, now) else { return Ok(None) };
        let request = self.world.request(&tree, None, now);
        Ok(Some(crate::place::explain::explain(
            self.world.cluster(),
            self.world.framework(),
            request,
            None,
        )?))
    }

    /// Groups that wait, as requests in queue order, all queues together: groups that were or could be
    /// tried, each with its pending members; groups that start together are one request. A group for
    /// which evictions are under way is left out.
    ///
    /// With [`autoscale`](crate::autoscale) it says which nodes would start them: ask it with
    /// [`Scheduler::cluster`], in which room that is reserved counts as taken.
    ///
    /// ```
    /// use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleUpRequest};
    /// use phalanx::queue::Settings;
    /// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Time};
    ///
    /// let mut scheduler = Scheduler::new(Cluster::new(), Framework::default(), Settings::default());
    /// let gang = PodGroup::of("trainer", 2, Pod::new().request("cpu", 4));
    /// scheduler.handle_group(gang, Time::ZERO)?;
    /// while scheduler.poll_decision(Time::ZERO).is_some() {}
    ///
    /// let node = NodeTemplate::new(Node::new("large").capacity("cpu", 8), 3);
    /// let request = ScaleUpRequest::new(scheduler.needs(Time::ZERO)).template(node);
    /// let (cluster, framework) = (scheduler.cluster(), scheduler.framework());
    /// let answer = Autoscaler::new().scale_up(cluster, framework, request)?;
    /// assert_eq!(answer.start().map(|start| start.price), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn needs(&self, now: Time) -> Vec<Request<'static>> {
        let mut needs = Vec::new();
        let mut known = BTreeSet::new();
        for key in self.line.first_of_each(usize::MAX) {
            let Ok(groups) = self.groups.gang_group(key.group) else { continue };
            let Some(queued) = self.groups.get(&key.group) else { continue };
            if self.holds.nominated(key.group).is_some()
                || !groups.iter().all(|group| known.insert(*group))
            {
                continue;
            }
            if let Some(tree) = self.groups.whole_tree(&groups) {
                needs.push(
                    self.world.request(&tree, queued.strategy(), now).with_group(tree.clone()),
                );
            }
        }
        needs
    }

    /// Sizes of the scheduler's state.
    pub fn memory_stats(&self) -> MemoryStats {
        let (capacity_counts, counted_nodes) = self.line.size();
        MemoryStats {
            groups: self.groups.len(),
            members: self.groups.member_count(),
            capacity_counts,
            counted_nodes,
            timers: self.timers.len(),
        }
    }

    /// Work of the queue since the scheduler was created or restored.
    pub fn wake_stats(&self) -> WakeStats {
        let (capacity_checks, still_short) = self.line.checks();
        WakeStats {
            reserved_nodes: self.holds.looked_at(),
            capacity_checks,
            still_short,
            groups_checked: self.groups.partners().groups_checked(),
            quota_checks: self.tenancy.as_ref().map_or(0, Tenancy::looked_at),
        }
    }

    /// Why no victims are searched for a group.
    fn no_preemption(&self, id: GroupId) -> Option<NoPreemption> {
        let queued = self.groups.get(&id)?;
        if self.world.settings().preemption.is_none() {
            return Some(NoPreemption::Off);
        }
        let open = self.groups.partners().open(id).filter(|open| open.contains(&id));
        let open: Vec<GroupId> = open.into_iter().flatten().copied().collect();
        if !self.is_of_one_queue(&open) {
            let others = open.iter().filter(|other| **other != id);
            let names = others.filter_map(|other| Some(self.groups.get(other)?.name().clone()));
            return Some(NoPreemption::StartsWith { groups: names.collect() });
        }
        let never = PreemptionPolicy::Never;
        let mut members = queued.members().values();
        members.any(|own| own.pod().preemption_policy == never).then_some(NoPreemption::Never)
    }

    fn state_of(&self, id: GroupId, queued: &QueuedGroup) -> GroupState {
        match queued.phase() {
            Phase::Gated(gate @ Gate::Partner { .. }) => {
                let first = self.groups.partner_gate(id);
                GroupState::Gated(first.unwrap_or_else(|| gate.clone()))
            }
            Phase::Gated(gate) => GroupState::Gated(gate.clone()),
            Phase::Queued => GroupState::Queued,
            Phase::BackingOff(until) => GroupState::BackingOff { until: *until },
            Phase::Unschedulable(retry) => {
                GroupState::Unschedulable { shortage: queued.shortage().cloned(), retry: *retry }
            }
            Phase::Held(ticket) => {
                let plan = self.holds.plan(*ticket);
                GroupState::Permitting {
                    by: plan.and_then(Hold::held_by).unwrap_or_default().to_owned(),
                    until: plan.map_or(Time::ZERO, Hold::until),
                }
            }
            Phase::Binding(ticket) => {
                let since = self.holds.plan(*ticket).map_or(Time::ZERO, Hold::since);
                GroupState::Binding { since }
            }
            Phase::Undoing => GroupState::Undoing,
            Phase::Paused => GroupState::Paused,
            Phase::Failed(reason) => GroupState::Failed { reason: reason.clone() },
            Phase::Idle => match queued.below_since() {
                Some(since) => GroupState::BelowMinimum { since },
                None if queued.members().of(MemberState::Done) == queued.members().len() => {
                    GroupState::Finished
                }
                None => GroupState::Running,
            },
        }
    }
}
