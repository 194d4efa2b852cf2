//! Shortages: the queue where a claim lacks quota, and the test for groups that wait there.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::queue::tenancy::claims::GroupClaim;
use crate::queue::tenancy::sleepers::Place;
use crate::queue::terms::shortage::{QuotaReason, Shortage};
use crate::queue::terms::wake::WakeCondition;
use crate::quota::{
    AssignmentMode, Claim, FlavorResource, OverLimit, QueueId, QueueKind, QuotaDecision, Tenants,
    Usage,
};

/// Whether a group that waits at a place may have what it needs.
pub(super) fn has_room(tenants: &Tenants, place: Place, queue: &str, needed: i64) -> bool {
    let tree = tenants.tree();
    let (at, of) = place;
    if tree.parent(at).is_some() {
        let limit = tree.quota(at, of).and_then(|quota| quota.limit);
        return limit.is_none_or(|limit| needed <= limit - tree.sums(at, of).used)
            || needed <= tree.available(at, of);
    }
    let Some(leaf) = leaf_of(tenants, queue) else { return true };
    // The request of the group is counted in the sum that waits.
    let room = tenants.room(leaf, of, &Usage::new());
    let aside = tenants.aside_usage().map_or(0, |(other, usage)| {
        let sums = tree.sums(leaf, of);
        // The group it is put aside for is of that queue.
        let within = other == leaf || sums.drawn.saturating_add(needed) <= sums.subtree;
        let kept = usage.iter().find(|(own, _)| *own == of).map_or(0, |(_, kept)| *kept);
        if within { 0 } else { kept }
    });
    needed <= room.saturating_sub(aside)
}

/// Places where a group waits that is short of a resource: at a queue, in each flavor in which its
/// own queue has the resource. The flavor that is short comes first.
pub(super) fn places(
    tenants: &Tenants,
    leaf: Option<QueueId>,
    at: QueueId,
    flavor: &str,
    resource: &str,
) -> Vec<Place> {
    let tree = tenants.tree();
    let groups = leaf.and_then(|leaf| tree.spec(leaf)).map_or(&[][..], |spec| &spec.groups);
    let covers = |own: &String| own == resource;
    let groups = groups.iter().filter(|group| group.covered_resources.iter().any(covers));
    let others = groups.flat_map(|group| &group.flavors).map(|own| own.name.as_str());
    let others = others.filter(|other| *other != flavor);
    let all = core::iter::once(flavor).chain(others);
    all.filter_map(|flavor| Some((at, tree.flavor_resource(flavor, resource)?))).collect()
}

/// Places where a group waits for work of its user or group to end: each flavor of the resource, or
/// every resource if the number of claims is bounded.
pub(super) fn places_of_limit(
    tenants: &Tenants,
    leaf: QueueId,
    at: QueueId,
    resource: Option<&str>,
) -> Vec<Place> {
    if let Some(resource) = resource {
        return places(tenants, Some(leaf), at, "", resource);
    }
    let tree = tenants.tree();
    let all = tree.path(leaf).flat_map(|queue| tree.books(queue).map(|(of, _)| of));
    let all: BTreeSet<FlavorResource> = all.collect();
    all.into_iter().map(|of| (at, of)).collect()
}

/// The shortage of a claim that no flavor serves while others use them as now. It has no place if
/// no flavor ever could.
fn shortage_of_all(tenants: &Tenants, leaf: QueueId, claim: &Claim) -> Short {
    let tree = tenants.tree();
    let root = tree.path(leaf).last().unwrap_or(leaf);
    let asked = claim.pod_sets.iter().flat_map(|set| set.requests.iter());
    for (resource, needed) in asked.filter(|(_, needed)| *needed > 0) {
        let places = places(tenants, Some(leaf), root, "", resource);
        let most = places.iter().map(|(_, of)| tree.available(leaf, *of)).max();
        if most.is_some_and(|most| most >= needed) {
            continue;
        }
        let can = |(_, of): &&Place| tree.potential(leaf, *of) >= needed;
        let Some(&(_, of)) = places.iter().find(can) else { break };
        let place = Some((root, of));
        let available = tree.available(leaf, of);
        return Short { place, needed, available, reason: QuotaReason::InUse };
    }
    Short::nowhere(QuotaReason::Never)
}

/// The shortage of a claim, by its assignment.
pub(super) fn shortage(
    tenants: &mut Tenants,
    leaf: QueueId,
    claim: &Claim,
    decision: &QuotaDecision,
) -> Short {
    if let Some(over) = tenants.over_limit(claim, &decision.assignment.usage) {
        return of_limit(tenants, leaf, over);
    }
    let tenants = &*tenants;
    let tree = tenants.tree();
    if decision.assignment.mode == AssignmentMode::NoFit {
        return shortage_of_all(tenants, leaf, claim);
    }
    let mut usage = decision.assignment.usage.clone();
    usage.sort_unstable();
    let path: Vec<QueueId> = tree.path(leaf).collect();
    let limiting = tenants.limiting(leaf);
    for &(of, needed) in &usage {
        let bound = limiting.iter().find_map(|&at| {
            let limit = tree.quota(at, of)?.limit?;
            let left = limit.saturating_sub(tree.sums(at, of).used);
            (needed > left).then_some((at, left))
        });
        if let Some((at, available)) = bound {
            let reason = QuotaReason::Limit {
                queue: tree.spec(at).map(|spec| spec.name.clone()).unwrap_or_default(),
            };
            return Short { place: Some((at, of)), needed, available, reason };
        }
    }
    let root = path.last().copied().unwrap_or(leaf);
    if let Some((of, available)) = tenants.short(leaf, &usage) {
        let needed = usage.iter().find(|own| own.0 == of).map_or(0, |own| own.1);
        return Short { place: Some((root, of)), needed, available, reason: in_use(decision) };
    }
    let aside = tenants.aside().or_else(|| tenants.reserving().next());
    let aside = aside.unwrap_or_default().to_owned();
    let of = usage.first().copied();
    Short {
        place: of.map(|(of, _)| (root, of)),
        needed: of.map_or(0, |(_, needed)| needed),
        available: of.map_or(0, |(of, _)| tenants.room(leaf, of, &usage)),
        reason: QuotaReason::PutAside { group: aside },
    }
}

/// The shortage of a claim that a limit of its user or group keeps out.
fn of_limit(tenants: &Tenants, leaf: QueueId, over: OverLimit) -> Short {
    let tree = tenants.tree();
    let OverLimit { queue, limited, resource, limit, used, needed, .. } = over;
    let place = places_of_limit(tenants, leaf, queue, resource.as_deref()).first().copied();
    let reason = QuotaReason::UserLimit {
        queue: tree.spec(queue).map(|spec| spec.name.clone()).unwrap_or_default(),
        limited,
        resource,
        limit,
    };
    Short { place, needed, available: limit.saturating_sub(used), reason }
}

/// The reason of a claim that others' usage leaves too little for.
fn in_use(decision: &QuotaDecision) -> QuotaReason {
    match decision.victims.len() {
        0 => QuotaReason::InUse,
        victims => QuotaReason::Reclaimable { victims },
    }
}

/// The shortage for which a claim is not admitted.
pub(super) struct Short {
    place: Option<Place>,
    needed: i64,
    available: i64,
    reason: QuotaReason,
}

impl Short {
    /// A shortage that is at no queue.
    pub(super) fn nowhere(reason: QuotaReason) -> Short {
        Short { place: None, needed: 0, available: 0, reason }
    }
}

/// The leaf of a name.
pub(super) fn leaf_of(tenants: &Tenants, queue: &str) -> Option<QueueId> {
    tenants.tree().queue(QueueKind::Leaf, queue)
}

/// The shortage of a claim as it is reported, and the condition that wakes its group.
pub(super) fn refusal(
    tenants: &Tenants,
    claim: &GroupClaim,
    short: Short,
) -> (Shortage, WakeCondition) {
    let Short { place, needed, available, reason } = short;
    let tree = tenants.tree();
    let (flavor, resource) = place.map(|(_, of)| tree.names(of)).unwrap_or_default();
    let at = place.and_then(|(at, _)| tree.spec(at));
    let is_limit = matches!(reason, QuotaReason::Limit { .. } | QuotaReason::UserLimit { .. });
    let pooled = place.is_some_and(|(at, _)| tree.parent(at).is_none()) && !is_limit;
    let lends = place.is_some_and(|(_, of)| {
        let leaf = tree.queue(QueueKind::Leaf, &claim.claim.queue);
        leaf.is_some_and(|leaf| tree.path(leaf).any(|at| tree.sums(at, of).local > 0))
    });
    let wake_on = WakeCondition::Quota {
        inner: at.is_some_and(|spec| spec.kind == QueueKind::Inner),
        queue: at.map(|spec| spec.name.clone()).unwrap_or_default(),
        flavor: flavor.to_owned(),
        resource: resource.to_owned(),
        // Quota that the root has left says nothing of quota that a queue keeps for itself.
        needed: match reason {
            // A group that will do with fewer members may be let in by any amount.
            QuotaReason::UserLimit { .. } if claim.claim.is_elastic() => needed.min(1),
            _ if pooled && lends => i64::MIN,
            _ => needed,
        },
        pooled,
    };
    let shortage = Shortage::Quota {
        queue: claim.claim.queue.clone(),
        flavor: flavor.to_owned(),
        resource: resource.to_owned(),
        needed,
        available,
        reason,
    };
    (shortage, wake_on)
}
