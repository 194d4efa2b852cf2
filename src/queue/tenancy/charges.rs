//! Charges of groups, and claims that are reserved for them.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::Time;
use crate::model::Pod;
use crate::queue::tenancy::claims::{GroupClaim, amounts_of, is_node_of};
use crate::quota::{
    AssignmentMode, FlavorChoice, PodSet, PodSetAssignment, QueueKind, QuotaAssignment,
    ResourceGroup, Tenants, Usage,
};
use crate::state::NodeView;

/// The charge of a group, by pod, until the pod is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub(super) struct Charge {
    /// The name among the holders of quota.
    pub(super) holder: String,
    pub(super) queue: String,
    pub(super) priority: i64,
    pub(super) created: Time,
    pub(super) since: Time,
    /// Whether it may be evicted; `None`: as the dialect says.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) preemptible: Option<bool>,
    /// By pod: flavor, resource, amount.
    pub(super) pods: BTreeMap<String, Vec<(String, String, i64)>>,
}

/// The claim that is reserved for a group that waits for its victims, beside the amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub(super) struct ReservedClaim {
    /// The pod sets that the group asked for.
    pub(super) pod_sets: Vec<PodSet>,
    given: Vec<ReservedPodSet>,
}

/// The flavors that one pod set is given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
struct ReservedPodSet {
    pod_set: usize,
    count: u32,
    /// Flavor, resource, amount.
    flavors: Vec<(String, String, i64)>,
}

impl ReservedClaim {
    pub(super) fn new(
        claim: &GroupClaim,
        assignment: &QuotaAssignment,
        tenants: &Tenants,
    ) -> ReservedClaim {
        let given = assignment.pod_sets.iter().map(|set| {
            let flavors = set.flavors.iter().zip(&set.requests).map(|(choice, amount)| {
                let (flavor, resource) = tenants.tree().names(choice.of);
                (flavor.into(), resource.into(), *amount)
            });
            ReservedPodSet { pod_set: set.pod_set, count: set.count, flavors: flavors.collect() }
        });
        ReservedClaim { pod_sets: claim.claim.pod_sets.clone(), given: given.collect() }
    }

    /// The assignment that was reserved, as one that fits.
    pub(super) fn assignment(&self, usage: Usage, tenants: &Tenants) -> QuotaAssignment {
        let mut assignment = QuotaAssignment::new(usage, AssignmentMode::Fit, 0);
        for own in &self.given {
            let mut set = PodSetAssignment::new(own.pod_set, own.count);
            for (flavor, resource, amount) in &own.flavors {
                if let Some(of) = tenants.tree().flavor_resource(flavor, resource) {
                    set.flavors.push(FlavorChoice { of, mode: AssignmentMode::Fit, tried: None });
                    set.requests.push(*amount);
                }
            }
            assignment.pod_sets.push(set);
        }
        assignment
    }
}

/// The charges of a pod that runs: for each resource that its queue has quota of, the first flavor
/// of its node, else the first flavor.
pub(super) fn flavors_on(
    tenants: &Tenants,
    queue: &str,
    node: Option<NodeView<'_>>,
    pod: &Pod,
) -> Vec<(String, String, i64)> {
    let tree = tenants.tree();
    let leaf = tree.queue(QueueKind::Leaf, queue);
    let Some(spec) = leaf.and_then(|leaf| tree.spec(leaf)) else { return Vec::new() };
    let amounts = amounts_of(pod.shape());
    let mut charged = Vec::new();
    for (resource, amount) in amounts.iter().filter(|(_, amount)| *amount > 0) {
        let covers =
            |group: &&ResourceGroup| group.covered_resources.iter().any(|own| own == resource);
        let Some(group) = spec.groups.iter().find(covers) else { continue };
        let is_of = |name: &str| {
            let (Some(flavor), Some(node)) = (tenants.flavor(name), node) else { return false };
            is_node_of(flavor, node)
        };
        let own = group.flavors.iter().find(|flavor| is_of(&flavor.name));
        if let Some(flavor) = own.or(group.flavors.first()) {
            charged.push((flavor.name.clone(), resource.to_owned(), amount));
        }
    }
    charged
}
