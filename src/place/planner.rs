//! The planner: checks a request, runs its strategy, and makes the plan.

#[cfg(any(feature = "scheduler", feature = "autoscale"))]
pub(crate) mod what_if;

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::error::PlaceError;
#[cfg(feature = "peers")]
use super::kueue;
use super::layout::{Layout, Member};
use super::outcome::{Answer, Outcome};
use super::request::{Request, Task};
use super::{search, sequential};
use crate::base::Time;
use crate::framework::{Framework, PermitContext, PermitVerdict, Strategy};
use crate::model::{PodGroup, PodShape, VolumeBindings};
use crate::place::cache::fits::Asker;
use crate::place::sequential::workspace::Workspace;
use crate::state::journal::Moment;
use crate::state::plan::{PlanMember, PlanMembers};
use crate::state::{Cluster, Devices, Plan, Row};

/// The two functions of a strategy.
struct Method {
    place: fn(Task<'_>, &mut Workspace) -> Result<Answer, PlaceError>,
    /// Its definition: plain, slow, and without caches.
    reference: fn(Task<'_>) -> Result<Answer, PlaceError>,
}

/// The functions of each strategy. A new strategy is a folder beside these, and a line here.
fn method(strategy: Strategy) -> Method {
    match strategy {
        Strategy::Kubernetes => Method {
            place: sequential::strategy::place,
            reference: sequential::strategy::reference,
        },
        #[cfg(feature = "peers")]
        Strategy::Kueue => Method {
            place: |task, _| kueue::strategy::place(task),
            reference: kueue::strategy::place,
        },
        Strategy::Search => {
            Method { place: search::strategy::place, reference: search::reference::place }
        }
    }
}

/// Places a group whole, or not at all.
///
/// The cluster is not touched: commit the plan to take it up. To place many groups, keep a
/// [`Planner`].
///
/// # Errors
/// The group is unsound, a member is bound already, or the group asks for something that its
/// strategy does not know. For a [`Gang`](super::gang::Gang) made beforehand, the commit finds out
/// about bound members. A group that does not fit is no error but an [`Outcome`].
///
/// # Example
/// ```
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang};
///
/// let mut cluster = Cluster::new();
/// for name in ["n1", "n2"] {
///     cluster.add_node(Node::new(name).capacity("nvidia.com/gpu", 8))?;
/// }
/// let gang = PodGroup::of("trainer", 4, Pod::new().request("nvidia.com/gpu", 4));
/// let framework = Framework::default();
///
/// let outcome = place_gang(&cluster, &framework, &gang)?;
/// cluster.commit(&framework, outcome.plan().expect("16 GPUs are enough"))?;
/// let late = PodGroup::of("late", 1, gang.pods[0].clone());
/// assert!(!place_gang(&cluster, &framework, &late)?.is_placed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn place_gang<'a>(
    cluster: &Cluster,
    framework: &Framework,
    request: impl Into<Request<'a>>,
) -> Result<Outcome, PlaceError> {
    Planner::new().place(cluster, framework, request)
}

/// A planner: answers requests, with caches that it keeps between them.
///
/// Give each thread its own. The caches never change an answer.
#[derive(Default)]
pub struct Planner {
    workspace: Workspace,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner")
            .field("threads", &self.workspace.threads)
            .field("plugin_calls", &self.plugin_calls())
            .finish_non_exhaustive()
    }
}

impl Planner {
    /// A planner with empty caches.
    pub fn new() -> Planner {
        Planner::default()
    }

    /// A planner that tries every candidate domain in full, even where counting shows that it
    /// cannot do. The answers are the same.
    pub(crate) fn unpruned() -> Planner {
        let mut planner = Planner::default();
        planner.workspace.prune = false;
        planner
    }

    /// Lets coarse work use the caller's rayon pool if `threads` is more than one, in at most so
    /// many shares. New shapes of a mixed gang are judged side by side, and candidate domains that
    /// have to be compared are tried side by side. Without the feature `parallel` it changes
    /// nothing, and it never changes an answer.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Planner {
        self.workspace.threads = threads.max(1);
        self
    }

    /// Places a group whole, or not at all; see [`place_gang`].
    ///
    /// # Errors
    /// As [`place_gang`].
    pub fn place<'a>(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        request: impl Into<Request<'a>>,
    ) -> Result<Outcome, PlaceError> {
        let request = request.into();
        let gang = request.gang()?;
        request.refuse_bound(cluster)?;
        let task = Task { cluster, framework, gang: &gang, request: &request };
        let answer = (method(task.strategy()).place)(task, &mut self.workspace)?;
        Ok(outcome(task, answer, &mut self.workspace.spare))
    }

    /// [`reference::place_by_definition`](crate::reference::place_by_definition).
    pub(crate) fn place_reference<'a>(
        cluster: &Cluster,
        framework: &Framework,
        request: impl Into<Request<'a>>,
    ) -> Result<Outcome, PlaceError> {
        let request = request.into();
        let gang = request.gang()?;
        request.refuse_bound(cluster)?;
        let task = Task { cluster, framework, gang: &gang, request: &request };
        let answer = (method(task.strategy()).reference)(task)?;
        Ok(outcome(task, answer, &mut Vec::new()))
    }

    /// Takes a cluster that was visited for what it was at another moment: they are equal, and what
    /// is known of the one holds for the other.
    pub(crate) fn rebase(&mut self, visited: &Cluster, moment: Moment) {
        self.workspace.caches.rebase(visited, moment);
    }

    /// How many pods of a shape fit each row that gets nothing else, by the filters that can be
    /// counted by. O(nodes) the first time for a shape, and for what has changed since after that.
    pub(crate) fn capacities(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        (leaf, now): (&PodGroup, Time),
    ) -> &[i64] {
        let capacity = &mut self.workspace.caches.capacity;
        capacity.sync(cluster, framework);
        let column = capacity.fits(cluster, framework, shape, Asker { leaf, now });
        capacity.values(column)
    }

    /// How often a plugin was evaluated on a node so far.
    pub(crate) fn plugin_calls(&self) -> u64 {
        self.workspace.caches.tables.calls()
    }
}

/// The outcome of a strategy's answer. `spare` gets the emptied list of members, for reuse.
fn outcome(task: Task<'_>, answer: Answer, spare: &mut Vec<Member>) -> Outcome {
    match answer {
        Answer::Placed(layout) => {
            let (plan, members) = plan_of(task, layout);
            *spare = members;
            permit(task, plan)
        }
        Answer::Unplaced { mut reason, partial } => {
            if let Some(layout) = partial {
                reason.partial = Some(plan_of(task, layout).0);
            }
            Outcome::Unplaced(*reason)
        }
    }
}

/// The plan of a layout, and the layout's list of members, emptied.
fn plan_of(task: Task<'_>, mut layout: Layout) -> (Plan, Vec<Member>) {
    let count = layout.members.len();
    let (mut members, mut devices) = (PlanMembers::with_capacity(count), Vec::new());
    for (at, member) in layout.members.drain(..).enumerate() {
        members.push(PlanMember { row: member.row.as_u32(), member: member.number });
        if member.devices.is_some() {
            if devices.is_empty() {
                devices.reserve(count);
            }
            devices.resize(at, None);
            devices.push(member.devices);
        }
    }
    let has_volumes = task.gang.has_volumes();
    let volumes = if has_volumes { volumes_of(task, &members, &devices) } else { Vec::new() };
    let plan = Plan {
        roster: Arc::clone(task.gang.roster()),
        nodes: Arc::clone(&task.cluster.columns.spec),
        members,
        devices,
        volumes,
        domains: layout.domains,
        minima: !task.strategy().is_kueue(),
        planned: Vec::new(),
        basis: task.cluster.moment(),
    };
    (plan, layout.members)
}

/// Volumes for the claims of members: the members are placed once more, in order.
#[cold]
fn volumes_of(
    task: Task<'_>,
    members: &[PlanMember],
    devices: &[Option<Devices>],
) -> Vec<Option<Arc<VolumeBindings>>> {
    let mut volumes = Vec::new();
    let mut txn = task.cluster.txn().rearranging();
    let mut pods = task.gang.roster().pods();
    for (at, member) in members.iter().enumerate() {
        let held = devices.get(at).cloned().flatten();
        // Sums were found to fit when the member was placed first.
        let _ = txn.place_with(pods.pod(member.member), Row::from(member.row), held);
    }
    for (at, member) in members.iter().enumerate() {
        if let Some(bindings) = txn.planned_volumes(pods.pod(member.member).shape()) {
            volumes.resize(at, None);
            volumes.push(Some(Arc::new(bindings)));
        }
    }
    volumes
}

/// The verdict of all permits on a plan: the first denial, else the longest hold.
fn permit(task: Task<'_>, plan: Plan) -> Outcome {
    let Task { cluster, framework, request, .. } = task;
    let mut hold: Option<(Time, &str)> = None;
    for permit in framework.permits() {
        let group = request.group();
        match permit.permit(&PermitContext { cluster, group, plan: &plan, now: request.now }) {
            PermitVerdict::Admit => {}
            PermitVerdict::Hold { until } => {
                if hold.is_none_or(|(latest, _)| latest < until) {
                    hold = Some((until, permit.name()));
                }
            }
            PermitVerdict::Deny { reason } => {
                return Outcome::Denied { by: permit.name().to_string(), reason };
            }
        }
    }
    match hold {
        Some((until, by)) => Outcome::Held { plan, until, by: by.to_string() },
        None => Outcome::Placed(plan),
    }
}
