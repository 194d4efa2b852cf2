//! The planner: where requests are answered.

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;

use super::error::PlaceError;
use super::outcome::{Outcome, Unplaced, UnplacedKind};
use super::request::Request;
use super::sequential::{Layout, Sequential, all_rows};
use crate::framework::{Framework, PermitContext, PermitVerdict, Strategy};
use crate::state::plan::{Basis, PlanMember};
use crate::state::{Cluster, Plan};

/// Places a group whole, or not at all.
///
/// The cluster is not touched: commit the plan to take it up. To place many groups, keep a
/// [`Planner`].
///
/// # Errors
/// The group is unsound, or asks what its strategy does not know. That it does not fit is no
/// error but an [`Outcome`].
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
#[derive(Debug, Default)]
pub struct Planner {}

impl Planner {
    /// A planner that has learnt nothing yet.
    pub fn new() -> Planner {
        Planner::default()
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
        let group = request.group();
        group.check()?;
        for pod in group.all_pods() {
            if cluster.slot_of(pod.namespace(), &pod.name).is_some() {
                let name = format!("{}/{}", pod.namespace(), pod.name);
                return Err(PlaceError::AlreadyBound(name));
            }
        }
        let strategy = request.strategy.unwrap_or(framework.strategy());
        let mut txn = cluster.txn();
        let rows = all_rows(&txn, &request);
        let mut layout = Layout::default();
        let sequential = Sequential { framework, request: &request };
        let fits = sequential.place(&mut txn, group, &rows, &mut layout)?;
        if !fits || layout.members.is_empty() {
            let kind = match strategy {
                Strategy::Kubernetes | Strategy::Search => UnplacedKind::Greedy,
            };
            return Ok(Outcome::Unplaced(Unplaced { group: group.full_name(), kind }));
        }
        let plan = to_plan(cluster, &request, layout);
        Ok(permit(cluster, framework, &request, plan))
    }
}

fn to_plan(cluster: &Cluster, request: &Request<'_>, layout: Layout<'_>) -> Plan {
    let members = layout.members.iter().map(|member| {
        let mut pod = member.pod.clone();
        if pod.group.is_none() {
            pod.group = Some(member.leaf.name.clone());
        }
        pod.device_indexes = member.devices.as_deref().unwrap_or(&[]).to_vec();
        let node = cluster.columns.spec[member.row].as_ref().map(|spec| Arc::clone(&spec.name));
        PlanMember { pod, node: node.unwrap_or_default() }
    });
    Plan {
        group: request.group().full_name(),
        members: members.collect(),
        domains: layout.domains,
        basis: Basis(cluster.moment()),
    }
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
