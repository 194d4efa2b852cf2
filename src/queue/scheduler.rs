//! The scheduler: its state, and what can be read of it.
//!
//! Fields are visible to the submodules of `queue` on purpose: `backfill`, `inputs`, `decide`, `phases`,
//! `binding`, `cancellation`, `gang_group`, `held_places`, `lost_members`, `moves`, `nomination`,
//! `preemption`, `quota_admission`, `reservation`, `snapshot`, `turns` and `victims` each hold one
//! `impl` block of the same state machine. They import this file; it imports none of them.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::backfill::state::BackfillState;
use super::claims::amounts_of;
use super::decision::Decision;
use super::drain::Distances;
use super::error::QueueError;
use super::evictions::PreemptionState;
use super::ids::{GroupId, Ticket};
use super::observe::{EventLog, Gate, GroupChange, GroupEvent, Metrics};
use super::orphans::Orphans;
use super::partners::Partners;
use super::queued_group::{MemberState, Phase, QueuedGroup, add_wait};
use super::settings::{PriorityThenTime, QueueOrder, Settings};
use super::status::{GroupState, GroupStatus, MemoryStats, ReservationView, WakeStats};
use super::tenancy::Tenancy;
use super::waiting_queues::WaitingQueues;
use super::wake::hints::Changes;
use super::wake::index::WaitIndex;
use crate::base::Time;
use crate::framework::{Framework, Strategy};
use crate::model::Amounts;
use crate::place::{Explanation, Outcome, Planner, Request};
use crate::preempt::{AnyUnit, LowerPriority, Policy, PreemptingPlanner, RunningWork};
use crate::state::{Cluster, Plan, Row};

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
/// Between timers and inputs of the same instant, the input comes first: what arrives exactly at a
/// deadline is in time, unless [`Scheduler::handle_time`] or [`Scheduler::poll_decision`] was
/// called for that instant before.
///
/// ```
/// use phalanx::queue::{GroupState, Settings};
/// use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("nvidia.com/gpu", 8))?;
/// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
///
/// let gang = PodGroup::gang("trainer", 2).pods(2, Pod::new().request("nvidia.com/gpu", 4));
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
    pub(super) cluster: Cluster,
    pub(super) framework: Framework,
    pub(super) planner: Planner,
    pub(super) order: Arc<dyn QueueOrder>,
    pub(super) settings: Settings,
    pub(super) now: Time,
    pub(super) groups: BTreeMap<GroupId, QueuedGroup>,
    /// Groups of all trees by full name: the root, and the index of the leaf.
    pub(super) names: BTreeMap<String, (GroupId, Option<usize>)>,
    /// Members by full name.
    pub(super) pods: BTreeMap<String, (GroupId, u64)>,
    /// Pods whose group is not known yet. None of them is a member.
    pub(super) orphans: Orphans,
    pub(super) partners: Partners,
    pub(super) in_flight: BTreeMap<Ticket, PlanInFlight>,
    pub(super) queues: WaitingQueues,
    pub(super) timers: BTreeSet<(Time, Timer)>,
    pub(super) wait_index: WaitIndex,
    /// Groups with a reservation.
    pub(super) reserving: BTreeSet<GroupId>,
    /// How near domains are to having room for those groups.
    pub(super) distances: BTreeMap<GroupId, Distances>,
    /// Nodes looked at to choose what is reserved.
    pub(super) reserved_nodes: u64,
    pub(super) tenancy: Option<Tenancy>,
    pub(super) changes: Changes,
    pub(super) backfill: BackfillState,
    pub(super) preemption: PreemptionState,
    /// What may be taken.
    pub(super) policy: Arc<dyn Policy>,
    /// What may move.
    pub(super) move_policy: Arc<dyn Policy>,
    pub(super) victim_planner: PreemptingPlanner,
    /// The groups of this scheduler and of others, and what budgets allow.
    pub(super) running_work: RunningWork,
    /// Whether something changed that reservations may use.
    pub(super) reservations_due: bool,
    /// Number of node changes.
    pub(super) epoch: u64,
    pub(super) outbox: VecDeque<Decision>,
    pub(super) log: EventLog,
    pub(super) metrics: Metrics,
    pub(super) next: u64,
}

/// A plan that is held or being bound.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct PlanInFlight {
    pub(super) groups: Vec<GroupId>,
    pub(super) plan: Plan,
    pub(super) since: Time,
    pub(super) until: Time,
    /// The permit that holds the plan; `None` while it is being bound.
    pub(super) held_by: Option<String>,
    /// Pods whose result is not known.
    pub(super) outstanding: BTreeSet<String>,
    pub(super) failures: u32,
}

/// The timer of a group or plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Timer {
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
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("now", &self.now)
            .field("groups", &self.groups.len())
            .field("in_flight", &self.in_flight.len())
            .field("next_wake", &self.next_wake())
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Namespace of the placeholder pods that hold reserved capacity.
    pub const RESERVED_NAMESPACE: &'static str = "phalanx-reserved";

    /// A scheduler over a cluster. Pods that already run are known by name only; they become
    /// members once [`Scheduler::handle_group`] adds their group.
    pub fn new(cluster: Cluster, framework: Framework, settings: Settings) -> Scheduler {
        Scheduler {
            cluster,
            framework,
            planner: Planner::new(),
            order: Arc::new(PriorityThenTime),
            settings,
            now: Time::ZERO,
            groups: BTreeMap::new(),
            names: BTreeMap::new(),
            pods: BTreeMap::new(),
            orphans: Orphans::default(),
            partners: Partners::default(),
            in_flight: BTreeMap::new(),
            queues: WaitingQueues::default(),
            timers: BTreeSet::new(),
            wait_index: WaitIndex::default(),
            reserving: BTreeSet::new(),
            distances: BTreeMap::new(),
            reserved_nodes: 0,
            tenancy: None,
            changes: Changes::default(),
            backfill: BackfillState::default(),
            preemption: PreemptionState::default(),
            policy: Arc::new(LowerPriority),
            move_policy: Arc::new(AnyUnit),
            victim_planner: PreemptingPlanner::new(),
            running_work: RunningWork::new(),
            reservations_due: false,
            epoch: 0,
            outbox: VecDeque::new(),
            log: EventLog::default(),
            metrics: Metrics::default(),
            next: 1,
        }
    }

    /// Sets the embedder's own queue order. Waiting groups are sorted again.
    #[must_use]
    pub fn with_order(mut self, order: impl QueueOrder + 'static) -> Scheduler {
        self.order = Arc::new(order);
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
    /// [`PreemptionSettings::consolidation`](super::PreemptionSettings::consolidation).
    #[must_use]
    pub fn with_move_policy(mut self, policy: impl Policy + 'static) -> Scheduler {
        self.move_policy = Arc::new(policy);
        self
    }

    /// The cluster, including planned pods and the placeholders of reservations.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The framework.
    pub fn framework(&self) -> &Framework {
        &self.framework
    }

    /// The options.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Totals since the scheduler was created.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The latest time passed in.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The next event, oldest first. At most [`Settings::event_capacity`] are kept.
    pub fn poll_event(&mut self) -> Option<GroupEvent> {
        self.log.events.pop_front()
    }

    /// Time of the next timer: call [`Scheduler::poll_decision`] then, or at any input before.
    /// `None` if there is no timer.
    pub fn next_wake(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Full names of the root groups, sorted.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let roots = self.names.iter().filter(|(name, (queued, _))| {
            self.groups.get(queued).is_some_and(|queued| queued.name == **name)
        });
        roots.map(|(name, _)| name.as_str())
    }

    /// Waiting groups of a queue, in queue order: queued, backing off or unschedulable.
    pub fn queue(&self, queue: &str) -> impl Iterator<Item = &str> {
        let groups = self.queues.waiting(queue).filter_map(|key| self.groups.get(&key.group));
        groups.map(|queued| queued.name.as_str())
    }

    /// The state of a group, by the full name of any group of its tree; `None` if unknown.
    pub fn state(&self, group: &str) -> Option<GroupState> {
        self.group(group).map(|queued| self.state_of(queued))
    }

    /// The full status of a group; `None` if unknown. O(members).
    pub fn status(&self, group: &str) -> Option<GroupStatus> {
        let (id, _) = self.names.get(group)?;
        let queued = self.groups.get(id)?;
        let count = |place| queued.members.values().filter(|member| member.state == place).count();
        let mut waits = queued.waits;
        add_wait(&mut waits, &queued.phase, self.now.since(queued.phase_since));
        Some(GroupStatus {
            state: self.state_of(queued),
            started: queued.started,
            below_minimum_since: queued.below_since,
            pending: count(MemberState::Pending),
            planned: count(MemberState::Planned),
            bound: count(MemberState::Bound),
            finished: count(MemberState::Done),
            attempts: queued.attempts,
            shortage: queued.shortage.clone(),
            no_preemption: self.no_preemption(*id),
            waits,
        })
    }

    /// Reservations, in the order in which their groups arrived.
    pub fn reservations(&self) -> Vec<ReservationView> {
        let reserving = self.reserving.iter().filter_map(|id| self.groups.get(id));
        let reserving = reserving.filter_map(|queued| Some((queued, queued.reservation.as_ref()?)));
        reserving
            .map(|(queued, reserved)| {
                let mut pods = BTreeMap::new();
                let mut amounts: BTreeMap<String, Amounts> = BTreeMap::new();
                for (index, (pod, node)) in reserved.placeholders.iter().enumerate() {
                    if index < reserved.whole {
                        *pods.entry(node.clone()).or_default() += 1;
                    }
                    let held = amounts.entry(node.clone()).or_default();
                    for (name, amount) in amounts_of(pod.shape()).iter() {
                        held.set(name, held.of(name).saturating_add(amount));
                    }
                }
                let (since, until) = (reserved.since, reserved.until);
                ReservationView {
                    group: queued.name.clone(),
                    since,
                    until,
                    pods,
                    amounts,
                    wanted: queued.pending(),
                }
            })
            .collect()
    }

    /// The outcome of trying a group now, alone, with the capacity reserved for it. The state does
    /// not change. `None` if no member is pending.
    ///
    /// # Errors
    /// The group is unknown, or the planner refuses the request.
    pub fn trial(&self, group: &str, now: Time) -> Result<Option<Outcome>, QueueError> {
        let unknown = || QueueError::UnknownGroup(group.to_owned());
        let (id, _) = self.names.get(group).ok_or_else(unknown)?;
        let groups = match self.gang_group(*id) {
            Ok(groups) => groups,
            Err(_) => alloc::vec![*id],
        };
        let Some(tree) = self.joint_tree(&groups) else { return Ok(None) };
        let mut cluster = self.cluster.clone();
        for queued in groups.iter().filter_map(|queued| self.groups.get(queued)) {
            for (pod, _) in queued.reservation.iter().flat_map(|reserved| &reserved.placeholders) {
                // The embedder may have deleted it.
                let _ = cluster.remove_pod(pod.namespace(), &pod.name);
            }
        }
        let strategy = self.groups.get(id).and_then(|queued| queued.strategy);
        let request = self.request(&tree, strategy, now);
        Ok(Some(Planner::new().place(&cluster, &self.framework, request)?))
    }

    /// Why a group is not placed now, alone; see [`explain`](crate::explain()). The state does
    /// not change. `None` if no member is pending.
    ///
    /// # Errors
    /// The group is unknown, or the planner refuses the request.
    pub fn explain(&self, group: &str, now: Time) -> Result<Option<Explanation>, QueueError> {
        let unknown = || QueueError::UnknownGroup(group.to_owned());
        let (id, _) = self.names.get(group).ok_or_else(unknown)?;
        let groups = self.gang_group(*id).unwrap_or_else(|_| alloc::vec![*id]);
        let Some(tree) = self.joint_tree(&groups) else { return Ok(None) };
        let request = self.request(&tree, None, now);
        Ok(Some(crate::place::explain::explain(&self.cluster, &self.framework, request, None)?))
    }

    /// What waits, as requests in queue order, all queues together: groups that were or could be
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
    /// let gang = PodGroup::gang("trainer", 2).pods(2, Pod::new().request("cpu", 4));
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
        for key in self.queues.first_of_each(usize::MAX) {
            let Ok(groups) = self.gang_group(key.group) else { continue };
            let Some(queued) = self.groups.get(&key.group) else { continue };
            if queued.nominated.is_some() || !groups.iter().all(|group| known.insert(*group)) {
                continue;
            }
            if let Some(tree) = self.joint_tree(&groups) {
                needs.push(self.request(&tree, queued.strategy, now).with_group(tree.clone()));
            }
        }
        needs
    }

    /// Sizes of the scheduler's state.
    pub fn memory_stats(&self) -> MemoryStats {
        let (capacity_counts, counted_nodes) = self.wait_index.size();
        MemoryStats {
            groups: self.groups.len(),
            members: self.pods.len(),
            capacity_counts,
            counted_nodes,
            timers: self.timers.len(),
        }
    }

    /// Work of the queue since the scheduler was created or restored.
    pub fn wake_stats(&self) -> WakeStats {
        WakeStats {
            capacity_checks: self.wait_index.capacity_checks,
            still_short: self.wait_index.still_short,
            groups_checked: self.partners.groups_checked,
            reserved_nodes: self.reserved_nodes,
            quota_checks: self.tenancy.as_ref().map_or(0, |tenancy| tenancy.looked_at),
        }
    }

    pub(super) fn request<'a>(
        &self,
        tree: &'a crate::model::PodGroup,
        strategy: Option<Strategy>,
        now: Time,
    ) -> Request<'a> {
        let request = Request::new(tree).now(now);
        let request = request.budget(self.settings.budget).salt(self.settings.salt);
        match strategy.or(self.settings.strategy) {
            Some(strategy) => request.strategy(strategy),
            None => request,
        }
    }

    fn group(&self, group: &str) -> Option<&QueuedGroup> {
        let (queued, _) = self.names.get(group)?;
        self.groups.get(queued)
    }

    fn state_of(&self, queued: &QueuedGroup) -> GroupState {
        match &queued.phase {
            Phase::Gated(gate @ Gate::Partner { .. }) => {
                let id = self.names.get(&*queued.name).map(|(id, _)| *id);
                let first = id.and_then(|id| self.partner_gate(id));
                GroupState::Gated(first.unwrap_or_else(|| gate.clone()))
            }
            Phase::Gated(gate) => GroupState::Gated(gate.clone()),
            Phase::Queued => GroupState::Queued,
            Phase::BackingOff(until) => GroupState::BackingOff { until: *until },
            Phase::Unschedulable(retry) => {
                GroupState::Unschedulable { shortage: queued.shortage.clone(), retry: *retry }
            }
            Phase::Held(ticket) => {
                let in_flight = self.in_flight.get(ticket);
                GroupState::Permitting {
                    by: in_flight
                        .and_then(|in_flight| in_flight.held_by.clone())
                        .unwrap_or_default(),
                    until: in_flight.map_or(Time::ZERO, |in_flight| in_flight.until),
                }
            }
            Phase::Binding(ticket) => {
                let since =
                    self.in_flight.get(ticket).map_or(Time::ZERO, |in_flight| in_flight.since);
                GroupState::Binding { since }
            }
            Phase::Undoing => GroupState::Undoing,
            Phase::Paused => GroupState::Paused,
            Phase::Failed(reason) => GroupState::Failed { reason: reason.clone() },
            Phase::Idle => match queued.below_since {
                Some(since) => GroupState::BelowMinimum { since },
                None if queued.members.values().all(|member| member.state == MemberState::Done) => {
                    GroupState::Finished
                }
                None => GroupState::Running,
            },
        }
    }

    pub(super) fn emit(&mut self, queued: GroupId, change: GroupChange) {
        let Some(queued) = self.groups.get(&queued) else { return };
        let event = GroupEvent { at: self.now, group: queued.name.clone(), change };
        self.log.events.push_back(event);
        while self.log.events.len() > self.settings.event_capacity {
            self.log.events.pop_front();
            self.metrics.add_one(|metrics| &mut metrics.events_dropped);
        }
    }

    /// Records a change of the pods on a node.
    pub(super) fn pods_changed(&mut self, node: &str) {
        if !self.changes.pods.contains(node) {
            self.changes.pods.insert(node.to_owned());
        }
        self.reservations_due = true;
    }

    /// Records a change of a node itself, or its removal from a row.
    pub(super) fn node_changed(&mut self, name: &str, gone: Option<Row>) {
        match gone {
            Some(row) => self.changes.removed.insert(row),
            None => self.changes.nodes.insert(name.to_owned()),
        };
        self.epoch = self.epoch.wrapping_add(1);
        self.cluster_changed();
    }

    pub(super) fn cluster_changed(&mut self) {
        self.backfill.freed = true;
        self.backfill.note_loss();
        self.changes.all = true;
        self.reservations_due = true;
    }
}
