//! The scheduler: what it holds, and what can be read of it.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::observe::{Counters, EventLog, Gate, GroupChange, GroupEvent, Lacks, Waits};
use super::queued_group::{Key, Phase, Place, Ticket, Unit, UnitId};
use super::settings::{PriorityThenTime, QueueOrder, Settings};
use super::wake::hints::Moved;
use super::wake::index::Watches;
use crate::base::Time;
use crate::framework::{Framework, Strategy};
use crate::model::ModelError;
use crate::place::{Outcome, PlaceError, Planner, Request};
use crate::state::{Cluster, Plan, Row, StateError};

/// A scheduler as a pure state machine.
///
/// It owns the cluster: feed it all events of nodes and pods. Methods are of four kinds:
/// - `handle_*` take something in that happened, at a time;
/// - [`poll_decision`](Scheduler::poll_decision) and [`poll_event`](Scheduler::poll_event) give
///   out what follows, as data;
/// - [`next_wake`](Scheduler::next_wake) says when time alone makes something happen;
/// - everything else reads.
///
/// After any `handle_*`, poll decisions until there are none. Time must not run backwards; a time
/// before the latest counts as the latest.
///
/// Of timers and inputs at the same instant, the input comes first: what arrives exactly at a
/// deadline is in time, unless [`Scheduler::handle_time`] or [`Scheduler::poll_decision`] was
/// called for that instant before.
///
/// ```
/// use phalanx::model::{Node, Pod, PodGroup};
/// use phalanx::queue::{Decision, GroupState, Scheduler, Settings};
/// use phalanx::{Cluster, Framework, Time};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("nvidia.com/gpu", 8))?;
/// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
///
/// let gang = PodGroup::gang("trainer", 2).pods(2, Pod::new().request("nvidia.com/gpu", 4));
/// scheduler.handle_group(gang, Time::from_secs(1))?;
/// let Some(Decision::Bind { plan, .. }) = scheduler.poll_decision(Time::from_secs(1)) else {
///     panic!("there is room for it")
/// };
/// for assignment in plan.assignments() {
///     // Bind it, then say what came of it.
///     scheduler.handle_binding("default", &assignment.pod().name, Ok(()), Time::from_secs(2))?;
/// }
/// assert_eq!(scheduler.state("default/trainer"), Some(GroupState::Running));
/// assert_eq!(scheduler.poll_decision(Time::from_secs(2)), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scheduler {
    pub(crate) cluster: Cluster,
    pub(crate) framework: Framework,
    pub(crate) planner: Planner,
    pub(crate) order: Arc<dyn QueueOrder>,
    pub(crate) settings: Settings,
    pub(crate) now: Time,
    pub(crate) units: BTreeMap<UnitId, Unit>,
    /// Groups of all trees: the unit, and the place among its leaves.
    pub(crate) names: BTreeMap<String, (UnitId, Option<usize>)>,
    /// Members by full name.
    pub(crate) pods: BTreeMap<String, (UnitId, u64)>,
    /// Pods whose group is not known yet, by its full name.
    pub(crate) orphans: BTreeMap<String, Vec<crate::model::Pod>>,
    /// Units that name a group as their partner.
    pub(crate) links: BTreeMap<String, BTreeSet<UnitId>>,
    pub(crate) flights: BTreeMap<Ticket, Flight>,
    pub(crate) lanes: BTreeMap<String, Lane>,
    pub(crate) timers: BTreeSet<(Time, Timer)>,
    pub(crate) watches: Watches,
    /// Units with a reservation.
    pub(crate) reserving: BTreeSet<UnitId>,
    pub(crate) moved: Moved,
    /// Something happened that reservations may make use of.
    pub(crate) stirred: bool,
    /// Grows whenever nodes change.
    pub(crate) epoch: u64,
    pub(crate) outbox: VecDeque<Decision>,
    pub(crate) log: EventLog,
    pub(crate) counters: Counters,
    pub(crate) next: u64,
}

/// A plan that is held or being bound.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Flight {
    pub(crate) units: Vec<UnitId>,
    pub(crate) plan: Plan,
    pub(crate) since: Time,
    pub(crate) until: Time,
    /// The permit that holds it; `None` once it is being bound.
    pub(crate) held_by: Option<String>,
    /// Pods whose result is not known.
    pub(crate) outstanding: BTreeSet<String>,
    pub(crate) failures: u32,
}

/// The groups of one queue that wait.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) waiting: BTreeSet<Key>,
    pub(crate) ready: BTreeSet<Key>,
}

/// What is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Timer {
    /// A back-off or a floor.
    Phase(UnitId),
    Flight(Ticket),
    Below(UnitId),
    /// A reservation may begin, or ends.
    Reservation(UnitId),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
#[must_use]
pub enum Decision {
    /// Bind these pods, and report each by [`Scheduler::handle_binding`]. They take room from now
    /// on.
    Bind {
        /// What to call the plan by.
        ticket: Ticket,
        /// The root groups that start with it, or join.
        groups: Vec<String>,
        /// Where each pod goes.
        plan: Plan,
    },
    /// Take these pods off again: stop bindings under way and delete or reset what was bound.
    /// Report each by [`Scheduler::handle_unbound`] if it exists still and may be placed anew, or
    /// by [`Scheduler::handle_pod_deleted`]. They take room until then.
    Unbind {
        /// The root groups.
        groups: Vec<String>,
        /// The pods.
        pods: Vec<BoundPod>,
        /// Why.
        reason: String,
    },
    /// Evict the whole gang: it was below its minimum for too long. Report each pod by
    /// [`Scheduler::handle_pod_deleted`].
    Evict {
        /// The root group.
        group: String,
        /// The pods that still run, or are on a node that is gone.
        pods: Vec<BoundPod>,
        /// Since when it is below its minimum.
        since: Time,
    },
}

/// A pod and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BoundPod {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The node; empty if that is gone.
    pub node: String,
}

/// Where a group stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum GroupState {
    /// It may not be tried yet.
    Gated(Gate),
    /// It is in the queue.
    Queued,
    /// It is out of the queue for a while.
    BackingOff {
        /// Until when.
        until: Time,
    },
    /// It waits for something to change.
    Sleeping {
        /// What it lacks.
        lacks: Option<Lacks>,
        /// When it is tried again whatever happens.
        retry: Option<Time>,
    },
    /// A permit holds its plan; its pods take room.
    Permitting {
        /// The permit.
        by: String,
        /// When it is given up.
        until: Time,
    },
    /// Its pods are being bound.
    Binding {
        /// Since when.
        since: Time,
    },
    /// Its pods are being taken off again.
    Undoing,
    /// It has its minimum, and nobody waits.
    Running,
    /// It ran, and is below its minimum, and nobody waits who could help.
    BelowMinimum {
        /// Since when.
        since: Time,
    },
    /// The embedder paused it.
    Paused,
    /// All members have finished.
    Finished,
    /// It cannot be tried until it changes.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Everything there is to read of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct GroupStatus {
    /// Where it stands.
    pub state: GroupState,
    /// Whether it has had its minimum.
    pub started: bool,
    /// Since when it is below its minimum, if it is.
    pub below_minimum_since: Option<Time>,
    /// Members that wait for a place.
    pub pending: usize,
    /// Members that are held or being bound.
    pub planned: usize,
    /// Members that are bound.
    pub bound: usize,
    /// Members that have finished.
    pub finished: usize,
    /// Failures in a row.
    pub attempts: u32,
    /// What it lacked when it was tried last, if that was in vain.
    pub lacks: Option<Lacks>,
    /// How long it spent where.
    pub waits: Waits,
}

/// Capacity put aside for a group. Its stand-ins are pods of namespace
/// [`Scheduler::RESERVED`] in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReservationView {
    /// The root group.
    pub group: String,
    /// Since when.
    pub since: Time,
    /// Until when at most.
    pub until: Time,
    /// Pods there is room for so far, by node.
    pub pods: BTreeMap<String, usize>,
    /// For how many pods the group would like room.
    pub of: usize,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Root groups.
    pub groups: usize,
    /// Members of groups.
    pub members: usize,
    /// Counts of room that groups sleep on.
    pub watches: usize,
    /// Nodes remembered by those counts, in all.
    pub watched_nodes: usize,
    /// Timers.
    pub timers: usize,
}

/// How much was looked at to find out whom events help. It is not saved: a scheduler that was
/// restored begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Work {
    /// Counts of room looked at: of a class, or of one shape on one node or on all with room.
    pub visited: u64,
    /// How often a group's turn had come, and a count by all filters let it sleep on.
    pub spared: u64,
}

/// What a scheduler refuses. Its state is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// A group or pod is unsound.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The cluster refuses something.
    #[error(transparent)]
    State(#[from] StateError),
    /// A trial makes no sense.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// There is no group of that name.
    #[error("group {0}: is not known")]
    UnknownGroup(String),
    /// A group of the tree belongs to another tree.
    #[error("group {group}: belongs to {root}")]
    GroupTaken {
        /// The group.
        group: String,
        /// The root it belongs to.
        root: String,
    },
    /// There is no member of that name.
    #[error("pod {0}: is no member of a known group")]
    UnknownPod(String),
    /// A pod belongs to another group, or to a group of another namespace.
    #[error("pod {pod}: belongs to {group}")]
    PodTaken {
        /// The pod.
        pod: String,
        /// The group.
        group: String,
    },
    /// A pod that is to be a member names no group.
    #[error("pod {0}: names no group")]
    NoGroup(String),
    /// The plan is no longer on its way, or was never.
    #[error("the ticket is not valid, or not any more")]
    StaleTicket,
    /// The group's plan is not held by a permit.
    #[error("group {0}: is not held")]
    NotHeld(String),
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("now", &self.now)
            .field("groups", &self.units.len())
            .field("flights", &self.flights.len())
            .field("next_wake", &self.next_wake())
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// The namespace of stand-ins for reserved capacity.
    pub const RESERVED: &'static str = "phalanx-reserved";

    /// A scheduler over a cluster. What runs in it already is known by name only; tell the groups
    /// it belongs to, and members are recognised.
    pub fn new(cluster: Cluster, framework: Framework, settings: Settings) -> Scheduler {
        Scheduler {
            cluster,
            framework,
            planner: Planner::new(),
            order: Arc::new(PriorityThenTime),
            settings,
            now: Time::ZERO,
            units: BTreeMap::new(),
            names: BTreeMap::new(),
            pods: BTreeMap::new(),
            orphans: BTreeMap::new(),
            links: BTreeMap::new(),
            flights: BTreeMap::new(),
            lanes: BTreeMap::new(),
            timers: BTreeSet::new(),
            watches: Watches::default(),
            reserving: BTreeSet::new(),
            moved: Moved::default(),
            stirred: false,
            epoch: 0,
            outbox: VecDeque::new(),
            log: EventLog::default(),
            counters: Counters::default(),
            next: 1,
        }
    }

    /// Uses an order of the embedder's own. Groups that wait already are put in order anew.
    #[must_use]
    pub fn with_order(mut self, order: impl QueueOrder + 'static) -> Scheduler {
        self.order = Arc::new(order);
        self.rekey_all();
        self
    }

    /// The cluster, with everything held or being bound, and with reservations.
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

    /// Totals since the beginning.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The latest time heard of.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The next event, oldest first. At most [`Settings::event_capacity`] are kept.
    pub fn poll_event(&mut self) -> Option<GroupEvent> {
        self.log.events.pop_front()
    }

    /// When time alone makes something happen: call [`Scheduler::poll_decision`] then, or at any
    /// input before. `None` if time changes nothing.
    pub fn next_wake(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Root groups, in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let roots = self.names.iter().filter(|(name, (unit, _))| {
            self.units.get(unit).is_some_and(|unit| unit.name == **name)
        });
        roots.map(|(name, _)| name.as_str())
    }

    /// Groups that wait in a queue, first to last: in the queue, backing off or sleeping.
    pub fn queue(&self, queue: &str) -> impl Iterator<Item = &str> {
        let lane = self.lanes.get(queue);
        lane.into_iter()
            .flat_map(|lane| &lane.waiting)
            .filter_map(|key| self.units.get(&key.unit))
            .map(|unit| unit.name.as_str())
    }

    /// Where a group stands, by the full name of any group of its tree; `None` if it is not known.
    pub fn state(&self, group: &str) -> Option<GroupState> {
        self.unit(group).map(|unit| self.state_of(unit))
    }

    /// Everything there is to read of a group. O(members).
    pub fn status(&self, group: &str) -> Option<GroupStatus> {
        let unit = self.unit(group)?;
        let count = |place| unit.members.values().filter(|member| member.place == place).count();
        let mut waits = unit.waits;
        super::phases::add_wait(&mut waits, &unit.phase, self.now.since(unit.phase_since));
        Some(GroupStatus {
            state: self.state_of(unit),
            started: unit.started,
            below_minimum_since: unit.below_since,
            pending: count(Place::Pending),
            planned: count(Place::Planned),
            bound: count(Place::Bound),
            finished: count(Place::Done),
            attempts: unit.attempts,
            lacks: unit.lacks.clone(),
            waits,
        })
    }

    /// Reservations, in the order in which their groups came.
    pub fn reservations(&self) -> Vec<ReservationView> {
        let reserving = self.reserving.iter().filter_map(|id| self.units.get(id));
        let reserving = reserving.filter_map(|unit| Some((unit, unit.reservation.as_ref()?)));
        reserving
            .map(|(unit, reserved)| {
                let mut pods = BTreeMap::new();
                for (_, node) in &reserved.claims {
                    *pods.entry(node.clone()).or_default() += 1;
                }
                let (since, until) = (reserved.since, reserved.until);
                ReservationView { group: unit.name.clone(), since, until, pods, of: unit.pending() }
            })
            .collect()
    }

    /// What would come of trying a group now, alone, with what is reserved for it. Nothing
    /// changes. `None` if none of its members waits.
    ///
    /// # Errors
    /// There is no such group, or it cannot be asked for.
    pub fn trial(&self, group: &str, now: Time) -> Result<Option<Outcome>, QueueError> {
        let unknown = || QueueError::UnknownGroup(group.to_owned());
        let (id, _) = self.names.get(group).ok_or_else(unknown)?;
        let units = match self.cohort(*id) {
            Ok(units) => units,
            Err(_) => alloc::vec![*id],
        };
        let Some(tree) = self.joint_tree(&units) else { return Ok(None) };
        let mut cluster = self.cluster.clone();
        for unit in units.iter().filter_map(|unit| self.units.get(unit)) {
            for (pod, _) in unit.reservation.iter().flat_map(|reserved| &reserved.claims) {
                cluster.remove_pod(pod.namespace(), &pod.name)?;
            }
        }
        let strategy = self.units.get(id).and_then(|unit| unit.strategy);
        let request = self.request(&tree, strategy, now);
        Ok(Some(Planner::new().place(&cluster, &self.framework, request)?))
    }

    /// How much is kept.
    pub fn memory(&self) -> Memory {
        let (watches, watched_nodes) = self.watches.size();
        Memory {
            groups: self.units.len(),
            members: self.pods.len(),
            watches,
            watched_nodes,
            timers: self.timers.len(),
        }
    }

    /// How much was looked at to find out whom events help.
    pub fn work(&self) -> Work {
        Work { visited: self.watches.visited, spared: self.watches.spared }
    }

    pub(crate) fn request<'a>(
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

    fn unit(&self, group: &str) -> Option<&Unit> {
        let (unit, _) = self.names.get(group)?;
        self.units.get(unit)
    }

    fn state_of(&self, unit: &Unit) -> GroupState {
        match &unit.phase {
            Phase::Gated(gate) => GroupState::Gated(gate.clone()),
            Phase::Queued => GroupState::Queued,
            Phase::BackingOff(until) => GroupState::BackingOff { until: *until },
            Phase::Sleeping(retry) => {
                GroupState::Sleeping { lacks: unit.lacks.clone(), retry: *retry }
            }
            Phase::Held(ticket) => {
                let flight = self.flights.get(ticket);
                GroupState::Permitting {
                    by: flight.and_then(|flight| flight.held_by.clone()).unwrap_or_default(),
                    until: flight.map_or(Time::ZERO, |flight| flight.until),
                }
            }
            Phase::Binding(ticket) => {
                let since = self.flights.get(ticket).map_or(Time::ZERO, |flight| flight.since);
                GroupState::Binding { since }
            }
            Phase::Undoing => GroupState::Undoing,
            Phase::Paused => GroupState::Paused,
            Phase::Failed(reason) => GroupState::Failed { reason: reason.clone() },
            Phase::Idle => match unit.below_since {
                Some(since) => GroupState::BelowMinimum { since },
                None if unit.members.values().all(|member| member.place == Place::Done) => {
                    GroupState::Finished
                }
                None => GroupState::Running,
            },
        }
    }

    pub(crate) fn emit(&mut self, unit: UnitId, change: GroupChange) {
        let Some(unit) = self.units.get(&unit) else { return };
        let event = GroupEvent { at: self.now, group: unit.name.clone(), change };
        self.log.events.push_back(event);
        while self.log.events.len() > self.settings.event_capacity {
            self.log.events.pop_front();
            self.counters.events_dropped += 1;
        }
    }

    /// Records that a node, or what is on it, has changed.
    pub(crate) fn note(&mut self, node: &str) {
        if !self.moved.nodes.contains(node) {
            self.moved.nodes.insert(node.to_owned());
        }
        self.stirred = true;
    }

    /// Records that a node itself has changed, or is gone.
    pub(crate) fn note_node(&mut self, name: &str, gone: Option<Row>) {
        match gone {
            Some(row) => self.moved.gone.insert(row),
            None => self.moved.changed.insert(name.to_owned()),
        };
        self.epoch += 1;
        self.note_all();
    }

    pub(crate) fn note_all(&mut self) {
        self.moved.anything = true;
        self.stirred = true;
    }
}
