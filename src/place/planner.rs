//! The planner: where requests are answered.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::certificate::{Lack, Refusal};
use super::error::PlaceError;
use super::gang::Gang;
use super::kueue;
use super::layout::{Layout, Member};
use super::outcome::{Outcome, Unplaced, UnplacedKind};
use super::request::Request;
use super::search::{self, Found, Kept};
use super::sequential::{Sequential, refuse_unsound};
use crate::framework::{Framework, PermitContext, PermitVerdict, Strategy};
use crate::model::{DeviceAsk, PodGroup, PodShape, TopologyRequest};
use crate::place::cache::capacity::Capacity;
use crate::place::cache::tables::PlannerCache;
use crate::place::sequential::engine::Confinement;
use crate::place::sequential::reference::ReferenceEngine;
use crate::place::sequential::run::Run;
use crate::place::sequential::tables::{Opened, TableEngine};
use crate::state::plan::PlanMember;
use crate::state::{Cluster, Plan};

/// Places a group whole, or not at all.
///
/// The cluster is not touched: commit the plan to take it up. To place many groups, keep a
/// [`Planner`].
///
/// # Errors
/// The group is unsound, a member is bound already (of a [`Gang`] made beforehand that is found
/// out by the commit), or the group asks what its strategy does not know. That it does not fit is
/// no error but an [`Outcome`].
///
/// # Example
/// ```
/// use phalanx::model::{Node, Pod, PodGroup};
/// use phalanx::{Cluster, Framework, place_gang};
///
/// let mut cluster = Cluster::new();
/// for name in ["n1", "n2"] {
///     cluster.add_node(Node::new(name).capacity("nvidia.com/gpu", 8))?;
/// }
/// let gang = PodGroup::gang("trainer", 4).pods(4, Pod::new().request("nvidia.com/gpu", 4));
/// let framework = Framework::default();
///
/// let outcome = place_gang(&cluster, &framework, &gang)?;
/// cluster.commit(&framework, outcome.plan().expect("16 GPUs are enough"))?;
/// assert!(!place_gang(&cluster, &framework, &PodGroup::gang("late", 1).pods(1, gang.pods[0].clone()))?.is_placed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn place_gang<'a>(
    cluster: &Cluster,
    framework: &Framework,
    request: impl Into<Request<'a>>,
) -> Result<Outcome, PlaceError> {
    Planner::new().place(cluster, framework, request)
}

/// Answers requests, and keeps what it learns between them.
///
/// Give each thread its own. What is kept never changes an answer.
#[derive(Debug)]
pub struct Planner {
    memory: PlannerCache,
    rooms: Capacity,
    run: Run,
    /// An empty list of members, kept for its capacity.
    spare: Vec<Member>,
    prune: bool,
    threads: usize,
}

impl Default for Planner {
    fn default() -> Planner {
        Planner {
            memory: PlannerCache::default(),
            rooms: Capacity::default(),
            run: Run::default(),
            spare: Vec::new(),
            prune: true,
            threads: 1,
        }
    }
}

impl Planner {
    /// A planner that has learnt nothing yet.
    pub fn new() -> Planner {
        Planner::default()
    }

    /// A planner that tries every candidate domain in full, even where counting shows that it
    /// cannot do. The answers are the same.
    pub fn unpruned() -> Planner {
        Planner { prune: false, ..Planner::default() }
    }

    /// Lets coarse work use the caller's rayon pool if `threads` is more than one: the shapes of a
    /// mixed gang that were not met before are judged side by side, and candidate domains that have
    /// to be compared are tried side by side, in at most so many shares. Without the feature
    /// `parallel` it changes nothing, and it never changes an answer.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Planner {
        self.threads = threads.max(1);
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
        let strategy = request.strategy.unwrap_or_else(|| framework.strategy());
        if strategy == Strategy::Kueue {
            return as_kueue(cluster, framework, &gang, &request);
        }
        let beyond = gang.group().any(&is_beyond_search);
        if strategy == Strategy::Search && !beyond && !is_simple(gang.group()) {
            return self.search(cluster, framework, &gang, &request);
        }
        let rows = request.rows(cluster);
        let within = Confinement::rows(rows.as_deref());
        let (prune, threads) = (self.prune, self.threads);
        let mut layout = Layout::default();
        self.memory.threads = threads;
        let (cache, run) = (&mut self.memory, &mut self.run);
        let fits = match TableEngine::open(cache, run, cluster, framework, &gang, &request) {
            Opened::TooFew => {
                refuse_unsound(cluster, gang.group())?;
                false
            }
            Opened::Fast(engine) => {
                core::mem::swap(&mut layout.members, &mut self.spare);
                let mut strategy = Sequential { cluster, framework, engine, prune, threads };
                strategy.place(&gang, gang.group(), 0, within, &mut layout)?
            }
            Opened::Unsupported => {
                let engine = ReferenceEngine::new(cluster, framework, &gang, &request);
                let mut strategy = Sequential { cluster, framework, engine, prune, threads };
                strategy.place(&gang, gang.group(), 0, within, &mut layout)?
            }
        };
        if !fits || layout.members.is_empty() {
            if strategy == Strategy::Search && !beyond {
                return self.search(cluster, framework, &gang, &request);
            }
            let mut unplaced = Unplaced::new(gang.group().full_name(), UnplacedKind::Greedy);
            if strategy == Strategy::Search {
                // The search leaves out what it does not know. What sums and counts tell it is
                // impossible is so with that too; what it finds, or finds not, says nothing.
                let found = search::place(cluster, framework, &gang, &request, self.kept())?;
                if let Found::Infeasible(certificate) = found
                    && is_counted(&certificate.refusal)
                    && gang.all_shapes().iter().all(|shape| counts_alike(shape))
                {
                    unplaced.kind = UnplacedKind::Infeasible;
                    unplaced.certificate = Some(certificate);
                }
            }
            return Ok(Outcome::Unplaced(unplaced));
        }
        let (plan, members) = take_up(cluster, &gang, layout);
        self.spare = members;
        Ok(permit(cluster, framework, &request, plan))
    }

    /// The same as [`Planner::place`] by the plain loop, without anything kept: slow, and the
    /// definition of what the planner answers.
    ///
    /// # Errors
    /// As [`place_gang`].
    pub fn place_reference<'a>(
        cluster: &Cluster,
        framework: &Framework,
        request: impl Into<Request<'a>>,
    ) -> Result<Outcome, PlaceError> {
        let request = request.into();
        let gang = request.gang()?;
        request.refuse_bound(cluster)?;
        if request.strategy.unwrap_or(framework.strategy()) == Strategy::Kueue {
            return as_kueue(cluster, framework, &gang, &request);
        }
        let rows = request.rows(cluster);
        let mut layout = Layout::default();
        let engine = ReferenceEngine::new(cluster, framework, &gang, &request);
        let mut strategy = Sequential::new(cluster, framework, engine);
        let within = Confinement::rows(rows.as_deref());
        if !strategy.place(&gang, gang.group(), 0, within, &mut layout)?
            || layout.members.is_empty()
        {
            let (group, kind) = (gang.group().full_name(), UnplacedKind::Greedy);
            return Ok(Outcome::Unplaced(Unplaced::new(group, kind)));
        }
        let plan = to_plan(cluster, &gang, layout);
        Ok(permit(cluster, framework, &request, plan))
    }

    fn kept(&mut self) -> Kept<'_> {
        Kept { memory: &mut self.memory, rooms: &mut self.rooms, run: &mut self.run }
    }

    fn search(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        gang: &Gang,
        request: &Request<'_>,
    ) -> Result<Outcome, PlaceError> {
        let mut unplaced = Unplaced::new(gang.group().full_name(), UnplacedKind::Infeasible);
        match search::place(cluster, framework, gang, request, self.kept())? {
            Found::Placed(layout) => {
                let plan = to_plan(cluster, gang, layout);
                return Ok(permit(cluster, framework, request, plan));
            }
            Found::Infeasible(certificate) => unplaced.certificate = Some(certificate),
            Found::Nothing => {}
            Found::Exhausted(layout) => {
                unplaced.kind = UnplacedKind::Exhausted;
                unplaced.partial = Some(to_plan(cluster, gang, layout));
            }
        }
        Ok(Outcome::Unplaced(unplaced))
    }

    /// How often a plugin was asked about a node so far.
    pub fn plugin_calls(&self) -> u64 {
        self.memory.calls()
    }
}

/// Whether a group asks what the search does not know: islands of devices, and a minimum of pods
/// beside one of groups. Such groups are placed sequentially.
fn is_beyond_search(group: &PodGroup) -> bool {
    group.wants_island() || group.min_pods.is_some() && !group.groups.is_empty()
}

/// Whether the sequential strategy finds as good a place as a search, if it finds one: the group
/// is one of pods, and asks nothing of the topology.
fn is_simple(group: &PodGroup) -> bool {
    group.groups.is_empty() && !group.leader && group.topology == TopologyRequest::default()
}

/// Whether a refusal rests on sums and counts alone.
fn is_counted(refusal: &Refusal) -> bool {
    refusal.candidates.iter().all(|candidate| match &candidate.lack {
        Lack::Searched => false,
        Lack::Groups { blocked, .. } => blocked.iter().all(is_counted),
        _ => true,
    })
}

/// Whether as many pods of a shape fit on devices however those are chosen.
fn counts_alike(shape: &PodShape) -> bool {
    match &*shape.devices {
        [] => true,
        [one] => one.count() == 1 || matches!(one.ask, DeviceAsk::Whole { .. }),
        _ => false,
    }
}

fn as_kueue(
    cluster: &Cluster,
    framework: &Framework,
    gang: &Gang,
    request: &Request<'_>,
) -> Result<Outcome, PlaceError> {
    let mut unplaced = Unplaced::new(gang.group().full_name(), UnplacedKind::Greedy);
    let (layout, failed) = kueue::strategy::place(cluster, framework, gang, request)?;
    let plan = (!layout.members.is_empty()).then(|| to_plan(cluster, gang, layout));
    match (plan, failed) {
        (Some(plan), None) => return Ok(permit(cluster, framework, request, plan)),
        (partial, failed) => {
            unplaced.partial = partial;
            if let Some((group, failure)) = failed {
                (unplaced.group, unplaced.failure) = (group, Some(failure));
            }
        }
    }
    Ok(Outcome::Unplaced(unplaced))
}

fn to_plan(cluster: &Cluster, gang: &Gang, layout: Layout) -> Plan {
    take_up(cluster, gang, layout).0
}

/// The plan of a layout, and the layout's list, emptied.
fn take_up(cluster: &Cluster, gang: &Gang, mut layout: Layout) -> (Plan, Vec<Member>) {
    let mut members = Vec::with_capacity(layout.members.len());
    let mut devices = Vec::new();
    for (at, member) in layout.members.drain(..).enumerate() {
        members.push(PlanMember { row: member.row as u32, member: member.number });
        if member.devices.is_some() {
            devices.resize(at, None);
            devices.push(member.devices);
        }
    }
    let plan = Plan {
        roster: Arc::clone(gang.roster()),
        nodes: Arc::clone(&cluster.columns.spec),
        members,
        devices,
        domains: layout.domains,
        basis: cluster.moment(),
    };
    (plan, layout.members)
}

fn permit(cluster: &Cluster, framework: &Framework, request: &Request<'_>, plan: Plan) -> Outcome {
    let mut hold: Option<(crate::Time, &str)> = None;
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
