//! Reports: the amounts of a queue, and the queues that it could take from.

use alloc::string::String;
use alloc::vec::Vec;

use super::Tenants;
use crate::quota::books::tree::{QueueId, Sums};
use crate::quota::model::claim::FlavorResource;
use crate::quota::model::queue::QueueKind;

/// A resource in a flavor, at one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct ResourceReport {
    /// The flavor.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// Guarantee, usage and waiting requests.
    pub sums: Sums,
    /// Usage beyond the guarantees of the subtree.
    pub borrowed: i64,
    /// Amount that may still be used, without taking from others. Negative where more is used than
    /// may be.
    pub available: i64,
    /// Amount that the queue would have, if all claims were of one unit.
    pub deserved: i64,
}

/// The amounts of a queue, and the queues from which it could take.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct QueueReport {
    /// The queue.
    pub queue: String,
    /// By flavor and resource, in order of names.
    pub resources: Vec<ResourceReport>,
    /// The share of what is borrowed, in thousandths of what its siblings and itself could have, over
    /// the weight; rounded up. The largest integer for a queue that borrows with a weight of 0.
    pub share: i64,
    /// The resource that the share is of; `None` if nothing is borrowed.
    pub dominant: Option<String>,
    /// Leaves of the same tree that borrow, and from which a claim of this queue could take as shares
    /// stand, by name. It is all of them while something of this queue's guarantees is left, and those on
    /// sides of the tree with larger shares otherwise.
    pub may_take_from: Vec<String>,
}

impl Tenants {
    /// Amount that a queue would have of a resource in a flavor if all claims were of one unit. The
    /// tree's guarantees are divided from the root down among the queues that use and want some:
    /// guarantees first, the rest by weight. A dialect may divide otherwise. O(queues below those on
    /// the path).
    pub fn deserved(&self, queue: QueueId, of: FlavorResource) -> i64 {
        self.dialect.deserved(&self.books, queue, of)
    }

    /// The amounts of a leaf, and the queues from which it could take; `None` if it is not known.
    /// O(queues · depth), and more for what is deserved.
    pub fn report(&self, queue: QueueId) -> Option<QueueReport> {
        let tree = &self.books.tree;
        let spec = tree.spec(queue)?;
        let root = tree.root_of(queue.slot);
        let borrows = |other: &QueueId| {
            let is_other = *other != queue && tree.root_of(other.slot) == root;
            is_other && tree.books(*other).any(|(of, _)| tree.sums(*other, of).borrowed() > 0)
        };
        let borrowers: Vec<QueueId> = tree.queues(QueueKind::Leaf).filter(borrows).collect();
        let standing = self.dialect.standing(&self.books, queue, &borrowers);
        let resource = |(of, _): (FlavorResource, bool)| {
            let (flavor, resource) = tree.names(of);
            let sums = tree.sums(queue, of);
            ResourceReport {
                flavor: flavor.into(),
                resource: resource.into(),
                sums,
                borrowed: sums.borrowed(),
                available: tree.available(queue, of),
                deserved: standing.deserved.get(&of).copied().unwrap_or(0),
            }
        };
        let mut resources: Vec<ResourceReport> = tree.books(queue).map(resource).collect();
        resources.sort_by(|a, b| (&a.flavor, &a.resource).cmp(&(&b.flavor, &b.resource)));
        let share = self.share(queue);
        let name = |other: &QueueId| tree.spec(*other).map(|spec| spec.name.clone());
        Some(QueueReport {
            queue: spec.name.clone(),
            resources,
            share: self.dialect.thousandths(share),
            dominant: share.dominant(tree).map(Into::into),
            may_take_from: standing.may_take_from.iter().filter_map(name).collect(),
        })
    }
}
