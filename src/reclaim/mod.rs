//! Who yields: one search for victims over quota and room.
//!
//! [`quota`](crate::quota) says which holders may give back for a claim ([`Tenants::yields`]), and
//! [`preempt`](crate::preempt) which units free a domain at the least cost. [`reclaim`] searches both at once: the
//! answer gives the group its quota and its room, or there is none. The guide `docs/who-yields.md`
//! has the rules and a drawn example.

mod error;
mod rule;

use alloc::vec::Vec;

use crate::framework::Framework;
use crate::model::PodGroup;
use crate::preempt::{
    NoVictims, NoVictimsHelp, PreemptingPlanner, Preemption, PreemptionRequest, RunningWork,
};
use crate::quota::{AssignmentMode, Claim, HolderId, QuotaAssignment, Tenants};
use crate::state::Cluster;

pub use error::ReclaimError;
pub(crate) use rule::{Entitled, Quota};

/// The answer of [`reclaim`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaim {
    /// The quota that the claim gets once the victims have given back.
    pub assignment: QuotaAssignment,
    /// The victims and moves, the plan, and what is claimed of them.
    pub answer: Preemption,
    /// The holders that give back, in the order of ids.
    pub holders: Vec<HolderId>,
}

/// Finds the least set of units that gives a group both its quota and its room.
///
/// A holder is found by the full name of the group that goes whole, or of the pod: that is the name of
/// its claim. Units of no holder are not taken. The request's policy is asked about units of the
/// claim's own queue; whether other queues yield is the dialect's word, and priorities of two queues
/// do not keep a unit. All other rules of the request hold: protection, budgets, moves, the budget of
/// steps. The group must be kept to the nodes of its flavors by the caller.
///
/// If quota suffices, units of other queues yield for room as far as the dialect owes it to the claim,
/// and moves come first where the request allows them. If quota is short, nothing moves.
///
/// The books are as before: the caller releases the victims and admits the claim.
///
/// ```
/// use phalanx::preempt::{PreemptingPlanner, PreemptionRequest, RunningWork};
/// use phalanx::quota::{Claim, Flavor, PodSet, Queue, Quota, Tenants};
/// use phalanx::reclaim::reclaim;
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Time};
///
/// // `vision` fills both racks; half of that belongs to `speech`.
/// let mut tenants = Tenants::default();
/// tenants.set_flavor(Flavor::new("all"));
/// for team in ["vision", "speech"] {
///     tenants.set_queue(Queue::leaf(team).parent("labs").quota("all", "gpu", Quota::nominal(4)))?;
/// }
/// let claim = |name: &str, queue: &str, gpus: i64| {
///     Claim::new(name, queue).pods(PodSet::new("main", 1, [("gpu", gpus)]))
/// };
/// let mut cluster = Cluster::builder().levels(["rack"]).build()?;
/// // The older jobs fill the first rack, and the newest is the first victim of quota.
/// for (number, rack) in ["a", "b", "a", "b"].iter().enumerate() {
///     let (node, job) = (format!("n{number}"), format!("job-{number}"));
///     cluster.add_node(Node::new(&node).capacity("gpu", 2).label("rack", *rack))?;
///     let since = Time::from_secs(number as u64);
///     cluster.add_pod(Pod::new().name(&job).request("gpu", 2).since(since).on(&node))?;
///     let own = claim(&format!("default/{job}"), "vision", 2);
///     let assignment = tenants.decide(&own)?.assignment;
///     tenants.admit(&own, &assignment, since)?;
/// }
/// let gang = PodGroup::of("train", 2, Pod::new().request("gpu", 2)).require("rack");
/// let gang = gang.queue("speech");
/// // Quota alone names the two newest, which are in two racks: the gang would have no place.
/// let own = claim("default/train", "speech", 4);
/// let named = tenants.decide(&own)?.victims;
/// assert_eq!(named.len(), 2);
/// // Both at once: the two of one rack.
/// let request = PreemptionRequest::new(phalanx::Request::new(&gang).now(Time::from_secs(10)));
/// let found = reclaim(
///     &mut PreemptingPlanner::new(),
///     (&cluster, &Framework::default(), &RunningWork::new()),
///     (&mut tenants, &own),
///     request,
/// )?;
/// let preempt = found.answer.preempt().expect("a rack is freed");
/// let names: Vec<&str> = preempt.victims.iter().map(|victim| victim.name.as_str()).collect();
/// assert_eq!(names, ["default/job-1", "default/job-3"]);
/// assert!(preempt.is_least());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`PreemptingPlanner::place`] and of [`Tenants::decide`]; [`ReclaimError::Dialect`]
/// if the dialect names victims by its own search alone.
pub fn reclaim(
    planner: &mut PreemptingPlanner,
    (cluster, framework, running): (&Cluster, &Framework, &RunningWork),
    (tenants, claim): (&mut Tenants, &Claim),
    request: PreemptionRequest<'_>,
) -> Result<Reclaim, ReclaimError> {
    let assignment = tenants.decide(claim)?.assignment;
    if assignment.mode == AssignmentMode::NoFit {
        let answer = not_entitled(request.request.group());
        return Ok(Reclaim { assignment, answer, holders: Vec::new() });
    }
    let Some(yields) = tenants.yields(claim, &assignment)? else {
        return Err(ReclaimError::Dialect);
    };
    let rule = Quota::new(yields);
    let entitled = Entitled { own: request.policy, names: rule.own_names() };
    let request = request.policy(&entitled).yielding(&rule);
    let answer = planner.place(cluster, framework, running, request)?;
    let holders = rule.holders_of(&answer);
    Ok(Reclaim { assignment, answer, holders })
}

/// The answer to a claim that limits keep out, whatever others give back.
fn not_entitled(group: &PodGroup) -> Preemption {
    Preemption::NoVictimsHelp(NoVictimsHelp {
        group: group.full_name(),
        reason: NoVictims::NotEntitled,
        certificate: None,
        together: None,
    })
}
