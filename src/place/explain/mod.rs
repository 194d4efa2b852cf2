//! Explanations: the reasons a group is not placed, as data and as text, and changes that would
//! help.

mod claims;
mod remedies;
mod report;
mod survey;

use alloc::string::String;
use alloc::vec::Vec;

pub use self::claims::{ClaimLack, Relaxation};
pub use self::report::{DomainReport, Explanation, LevelReport, Rejections, Remedy};
use super::certificate::{Lack, Refusal};
use super::error::PlaceError;
use super::outcome::Outcome;
use super::planner::place_gang;
use super::request::Request;
use crate::framework::{Framework, Strategy};
use crate::model::Node;
use crate::state::Cluster;

/// Explains the outcome of a request under the search strategy; with `template`, also how many
/// nodes like it would have to be added.
///
/// Slow beside a decision: it looks at every node for every kind of pod, and decides about a dozen
/// changed requests anew.
///
/// # Errors
/// As [`place_gang`].
///
/// # Example
/// ```
/// use phalanx::place::Remedy;
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, explain};
///
/// let mut cluster = Cluster::builder().levels(["rack"]).build()?;
/// for (name, rack) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
///     cluster.add_node(Node::new(name).capacity("cpu", 4).label("rack", rack))?;
/// }
/// let gang = PodGroup::of("g", 3, Pod::new().request("cpu", 3)).require("rack");
/// let template = Node::new("new").capacity("cpu", 4);
///
/// let why = explain(&cluster, &Framework::default(), &gang, Some(&template))?;
/// assert_eq!(why.levels[0].best[0].fits, 2);
/// assert!(why.remedies.contains(&Remedy::LowerMinimum { to: 2, from: 3 }));
/// assert!(why.remedies.contains(&Remedy::LevelUp { to: None }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn explain<'a>(
    cluster: &Cluster,
    framework: &Framework,
    request: impl Into<Request<'a>>,
    template: Option<&Node>,
) -> Result<Explanation, PlaceError> {
    let request = request.into().strategy(Strategy::Search);
    let outcome = place_gang(cluster, framework, request.clone())?;
    let levels = survey::levels(cluster, framework, &request)?;
    let (mut blocked, mut remedies) = (None, Vec::new());
    if let Outcome::Unplaced(unplaced) = &outcome {
        blocked = unplaced.certificate.as_ref().and_then(|proof| blocking(&proof.refusal));
        remedies = remedies::remedies(cluster, framework, &request, &levels, template)?;
    }
    Ok(Explanation {
        group: request.group().full_name(),
        outcome,
        rejections: survey::rejections(cluster, framework, &request)?,
        levels,
        blocked,
        remedies,
    })
}

/// The innermost group, or the kind of pod, that the first domain of a certificate lacks room for.
fn blocking(refusal: &Refusal) -> Option<String> {
    match &refusal.candidates.first()?.lack {
        Lack::Groups { blocked, .. } => Some(innermost(blocked.first()?).group.clone()),
        Lack::Count { pod, .. } => Some(pod.clone()),
        Lack::Claims { pods, .. } => pods.first().filter(|_| pods.len() == 1).cloned(),
        _ => None,
    }
}

fn innermost(refusal: &Refusal) -> &Refusal {
    match refusal.candidates.first().map(|candidate| &candidate.lack) {
        Some(Lack::Groups { blocked, .. }) => blocked.first().map_or(refusal, innermost),
        _ => refusal,
    }
}
