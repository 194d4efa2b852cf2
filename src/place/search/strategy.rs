//! Entry point of the search strategy: the sequential strategy first where it does as well, then
//! the search.

use super::{Found, claims, solve};
use crate::model::{DeviceAsk, PodGroup, PodShape, TopologyRequest};
use crate::place::certificate::{Certificate, Lack, Refusal};
use crate::place::error::PlaceError;
use crate::place::outcome::{Answer, Unplaced, UnplacedKind};
use crate::place::request::Task;
use crate::place::sequential::strategy::attempt;
use crate::place::sequential::workspace::Workspace;

/// The answer of the search strategy.
///
/// A group of pods that asks nothing of the topology is first laid out by the sequential strategy.
/// If that finds a place, it is as good as a search's. A group with a request that the search does
/// not know is laid out by the sequential strategy alone; the search only proves that it does not
/// fit.
pub(crate) fn place(task: Task<'_>, workspace: &mut Workspace) -> Result<Answer, PlaceError> {
    if task.gang.all_shapes().iter().any(|shape| !shape.claims.is_empty()) {
        return claims::place(task, workspace);
    }
    let sequential_only = task.group().any(&is_beyond_search);
    if (sequential_only || is_simple(task.group()))
        && let Some(layout) = attempt(task, workspace)?
    {
        return Ok(Answer::Placed(layout));
    }
    let found = solve(task, workspace)?;
    Ok(if sequential_only { refusal_of(task, found) } else { answer(task, found) })
}

fn answer(task: Task<'_>, found: Found) -> Answer {
    let mut reason = Unplaced::new(task.group().full_name(), UnplacedKind::Infeasible);
    let mut partial = None;
    match found {
        Found::Placed(layout) => return Answer::Placed(layout),
        Found::Infeasible(certificate) => reason.certificate = Some(certificate),
        Found::Nothing => {}
        Found::Exhausted(layout) => {
            reason.kind = UnplacedKind::Exhausted;
            partial = Some(layout);
        }
    }
    Answer::unplaced(reason, partial)
}

/// The answer for a group that asks what the search leaves out of account, and that the sequential
/// strategy does not place. A proof by sums and counts holds for it too; whatever else the search
/// has found says nothing of it.
fn refusal_of(task: Task<'_>, found: Found) -> Answer {
    match found {
        Found::Infeasible(certificate) if is_proof_without_topology(task, &certificate) => {
            answer(task, Found::Infeasible(certificate))
        }
        _ => Answer::greedy(task.group().full_name()),
    }
}

fn is_proof_without_topology(task: Task<'_>, certificate: &Certificate) -> bool {
    is_counted(&certificate.refusal)
        && task.gang.all_shapes().iter().all(|shape| counts_alike(shape))
}

/// Whether a group asks what the search does not know: islands of devices, or a minimum of pods
/// beside one of groups.
pub(crate) fn is_beyond_search(group: &PodGroup) -> bool {
    group.wants_island() || group.min_pods.is_some() && !group.groups.is_empty()
}

/// Whether a group is one of pods and asks nothing of the topology.
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
