//! Quota that a hold keeps for its owners: reserved among the tenants under the names of the groups.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::quota::{
    AssignmentMode, FlavorChoice, PodSet, PodSetAssignment, QuotaAssignment, Tenants, Usage,
};

/// The quota that is kept for one group: its pod sets, and the flavors that each is given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub(in crate::queue) struct KeptQuota {
    /// The pod sets that the group asked for.
    pod_sets: Vec<PodSet>,
    given: Vec<KeptPodSet>,
}

/// The flavors that one pod set is given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
struct KeptPodSet {
    pod_set: usize,
    count: u32,
    /// Flavor, resource, amount.
    flavors: Vec<(String, String, i64)>,
}

impl KeptQuota {
    pub(in crate::queue) fn new(
        pod_sets: &[PodSet],
        assignment: &QuotaAssignment,
        tenants: &Tenants,
    ) -> KeptQuota {
        let given = assignment.pod_sets.iter().map(|set| {
            let flavors = set.flavors.iter().zip(&set.requests).map(|(choice, amount)| {
                let (flavor, resource) = tenants.tree().names(choice.of);
                (flavor.into(), resource.into(), *amount)
            });
            KeptPodSet { pod_set: set.pod_set, count: set.count, flavors: flavors.collect() }
        });
        KeptQuota { pod_sets: pod_sets.to_vec(), given: given.collect() }
    }

    /// The pod sets that the group asked for.
    pub(in crate::queue) fn pod_sets(&self) -> &[PodSet] {
        &self.pod_sets
    }

    /// The assignment that is kept, as one that fits.
    pub(in crate::queue) fn assignment(&self, usage: Usage, tenants: &Tenants) -> QuotaAssignment {
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

    /// The amounts that are kept, by flavor and resource; none of zero.
    pub(in crate::queue) fn amounts(&self) -> BTreeMap<(&str, &str), i64> {
        let mut amounts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for (flavor, resource, amount) in self.given.iter().flat_map(|own| &own.flavors) {
            let sum = amounts.entry((flavor, resource)).or_default();
            *sum = sum.saturating_add(*amount);
        }
        amounts.retain(|_, amount| *amount != 0);
        amounts
    }
}
