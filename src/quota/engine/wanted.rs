//! Usage of a claim in dialects that give a resource in one flavor.

use smallvec::SmallVec;

use crate::model::resources::PODS;
use crate::quota::books::tree::{QueueId, QueueTree};
use crate::quota::model::claim::{
    AssignmentMode, Claim, FlavorChoice, PodSetAssignment, QuotaAssignment, Usage, add_usage,
};
use crate::quota::model::queue::Queue;

/// The flavor of a resource for claims of a leaf: the first that a queue on its path has quota of.
pub(in crate::quota) fn flavor_on_path<'t>(
    tree: &'t QueueTree,
    leaf: QueueId,
    resource: &str,
) -> Option<&'t str> {
    tree.path(leaf).find_map(|at| {
        let mut flavors = tree.spec(at)?.groups.iter().flat_map(|group| &group.flavors);
        let flavor = flavors.find(|own| own.resources.iter().any(|(name, _)| name == resource))?;
        Some(flavor.name.as_str())
    })
}

/// The flavor of a resource for claims of a leaf: the first of its group.
pub(in crate::quota) fn flavor_of_group<'t>(leaf: &'t Queue, resource: &str) -> Option<&'t str> {
    let covers = |own: &alloc::string::String| own == resource;
    let group = leaf.groups.iter().find(|group| group.covered_resources.iter().any(covers))?;
    group.flavors.first().map(|flavor| flavor.name.as_str())
}

/// Usage of a claim: the requests of its pods, or of fewer, of resources that have a flavor. The
/// number of pods is a resource too.
pub(in crate::quota) fn wanted<'t>(
    tree: &'t QueueTree,
    claim: &Claim,
    counts: Option<&[u32]>,
    flavor: impl Fn(&str) -> Option<&'t str>,
) -> QuotaAssignment {
    let mut usage = Usage::new();
    let sets = claim.pod_sets.iter().enumerate().map(|(at, set)| {
        let count = counts.and_then(|counts| counts.get(at).copied()).unwrap_or(set.count);
        let mut chosen = PodSetAssignment::new(at, count);
        for (resource, amount) in set.asks(count).chain([(PODS, i64::from(count))]) {
            if amount == 0 {
                continue;
            }
            let of = flavor(resource).and_then(|flavor| tree.flavor_resource(flavor, resource));
            let Some(of) = of else { continue };
            chosen.flavors.push(FlavorChoice { of, mode: AssignmentMode::Fit, tried: None });
            chosen.requests.push(amount);
            add_usage(&mut usage, of, amount);
        }
        chosen
    });
    let pod_sets: SmallVec<[PodSetAssignment; 1]> = sets.collect();
    QuotaAssignment { pod_sets, usage, mode: AssignmentMode::Fit, level: 0 }
}
