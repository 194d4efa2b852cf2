//! Devices of claims that placeholders keep.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::claims::{ClaimVerdict, PreparedClaims, lost};
use crate::model::{ClaimAllocation, ClaimSource, ClaimSpec, Pod, PodClaim, PodShape};
use crate::queue::world::World;

/// Claims of pods that have their devices by a placeholder, by namespace and name.
pub(super) type HeldClaims<'a> = BTreeSet<(&'a str, &'a str)>;

/// Gives a placeholder the devices of a pod's claims, as claims of its own. A claim that several pods
/// name is held by the first.
pub(super) fn hold_claims<'a>(
    placeholder: &mut Pod,
    own: &'a Pod,
    allocations: &[ClaimAllocation],
    held: &mut HeldClaims<'a>,
) {
    for allocation in allocations {
        let claim = own.shape().claims.iter().find(|claim| claim.name == allocation.claim);
        if let Some(ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. }) =
            claim.map(|claim| &claim.source)
            && !held.insert((own.namespace(), name))
        {
            continue;
        }
        let source = ClaimSource::Own(Arc::new(ClaimSpec::new()));
        let claim = PodClaim { name: allocation.claim.clone(), source };
        placeholder.shape_mut().claims.push(claim);
        placeholder.allocations.push(allocation.clone());
    }
}

/// Adds a placeholder to the cluster again, for a pod of a shape. If others have devices of its claims
/// meanwhile, it gets others of its node. Returns whether it is there, with all of its devices.
pub(in crate::queue) fn put_again(world: &mut World, own: &mut Pod, shape: &PodShape) -> bool {
    let Some(node) = own.node.clone() else { return false };
    if let Some(allocations) = devices_again(world, own, shape, &node) {
        own.allocations = allocations;
        world.add_pod(own.clone()).is_ok()
    } else {
        false
    }
}

/// The devices of a placeholder's claims, others of its node if those are in use; `None` if there
/// are too few.
fn devices_again(
    world: &World,
    own: &Pod,
    shape: &PodShape,
    node: &str,
) -> Option<Vec<ClaimAllocation>> {
    let cluster = world.cluster();
    if lost(cluster, own.shape(), &own.allocations).is_none() {
        return Some(own.allocations.clone());
    }
    let claims = PreparedClaims::new(cluster, world.framework().selectors(), shape).ok()??;
    let ClaimVerdict::Offer(offer) = claims.on(cluster, cluster.node(node)?) else { return None };
    let offered = |held: &ClaimAllocation| {
        let mut offer = offer.iter();
        offer.find(|other| other.claim == held.claim).cloned()
    };
    own.allocations.iter().map(offered).collect()
}
