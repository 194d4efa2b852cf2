//! Charges of groups, by pod.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::Time;
use crate::model::{Owner, Pod};
use crate::queue::tenancy::claims::{amounts_of, is_node_of};
use crate::queue::terms::ids::GroupId;
use crate::quota::{QueueKind, ResourceGroup, Tenants};
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
    /// The user that it is of.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Owner::is_none"))]
    pub(super) owner: Owner,
    /// By pod: flavor, resource, amount.
    pub(super) pods: BTreeMap<String, Vec<(String, String, i64)>>,
}

impl Charge {
    /// Leaves the name of the holder to others. A second time it changes nothing.
    pub(super) fn set_apart(&mut self, id: GroupId) {
        let suffix = format!("#{id}");
        if !self.holder.ends_with(&suffix) {
            self.holder.push_str(&suffix);
        }
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
