//! Plans: where every pod goes, as data.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::journal::Moment;
use crate::model::Pod;

/// Where the members of a group go, and what the decision rested on.
///
/// A plan is plain data: it names pods and nodes, compares, and serialises. It stays what it is
/// while the cluster moves on; [`Cluster::commit`](crate::Cluster::commit) finds out whether it
/// still holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub struct Plan {
    pub(crate) group: String,
    pub(crate) members: Vec<PlanMember>,
    pub(crate) domains: Vec<PlanDomain>,
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) basis: Basis,
}

/// One pod of a plan and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlanMember {
    pub(crate) pod: Pod,
    pub(crate) node: Arc<str>,
}

/// A group of the tree and the domain it was confined to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct PlanDomain {
    /// The group's full name.
    pub(crate) group: String,
    /// The node label key.
    pub(crate) key: String,
    /// Its value on all nodes of the group.
    pub(crate) value: String,
    /// The members of the plan that it holds: a range of indexes.
    pub(crate) first: usize,
    pub(crate) end: usize,
}

/// When a plan was made. It is no part of what a plan says, so all are equal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Basis(pub(crate) Moment);

impl PartialEq for Basis {
    fn eq(&self, _: &Basis) -> bool {
        true
    }
}

impl Eq for Basis {}

/// One pod of a [`Plan`] and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment<'a>(&'a PlanMember);

impl<'a> Assignment<'a> {
    /// The pod.
    pub fn pod(self) -> &'a Pod {
        &self.0.pod
    }

    /// The name of its node.
    pub fn node(self) -> &'a str {
        &self.0.node
    }
}

impl Plan {
    /// The full name of the group, `namespace/name`.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The pods and their nodes, in the order in which they were placed.
    pub fn assignments(&self) -> impl ExactSizeIterator<Item = Assignment<'_>> {
        self.members.iter().map(Assignment)
    }

    /// The domains that groups of the tree were confined to: full name of the group, node label
    /// key, value.
    pub fn domains(&self) -> impl ExactSizeIterator<Item = (&str, &str, &str)> {
        self.domains.iter().map(|domain| (&*domain.group, &*domain.key, &*domain.value))
    }

    /// How many pods are placed.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether no pod is placed.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// How many pods go to each node, in order of node name.
    pub fn pods_per_node(&self) -> Vec<(&str, usize)> {
        let mut counts = alloc::collections::BTreeMap::<&str, usize>::new();
        for assignment in self.assignments() {
            *counts.entry(assignment.node()).or_default() += 1;
        }
        counts.into_iter().collect()
    }
}
