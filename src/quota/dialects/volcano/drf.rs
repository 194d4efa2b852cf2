//! Dominant shares: of jobs, and of queues in a tree (`hdrf`).
//!
//! Source: `pkg/scheduler/plugins/drf/drf.go`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::resources::{Resources, dominant_share};

/// Greatest difference of two shares that count as equal where a victim is judged.
const SHARE_DELTA: f64 = 0.000_001;

/// Whether a job may take from another: its share with the task is no larger than the other's without
/// what has been considered so far. The share of what would be left is compared, taken or not.
pub fn may_take(taker: f64, left: f64) -> bool {
    taker < left || (taker - left <= SHARE_DELTA && left - taker <= SHARE_DELTA)
}

/// Amounts and requests of a job, and the standing of its queue.
#[derive(Debug, Clone, PartialEq)]
pub struct VolcanoJobStanding {
    /// The name, unique among jobs.
    pub name: String,
    /// Amounts of its tasks.
    pub allocated: Resources,
    /// Amounts and requests of its tasks.
    pub request: Resources,
    /// The path of its queue from the root, `root/eng/dev`.
    pub path: String,
    /// The weights along the path, `100/50/50`; less than 1 counts as 1.
    pub weights: String,
}

#[derive(Debug, Clone, Default)]
struct Node {
    weight: f64,
    allocated: Resources,
    /// Request of a job.
    request: Option<Resources>,
    share: f64,
    saturated: bool,
    children: BTreeMap<String, Node>,
}

/// Queues in a tree of weights, jobs as its leaves.
///
/// A job is *saturated* if some resource that it has is all that it asks for of it, or is one that it
/// asks for and that is used up. An inner node's amounts are those of its saturated children and of
/// the others scaled down to the smallest share among them; it is saturated if all its children are.
#[derive(Debug, Clone)]
pub struct HierarchicalShares {
    total: Resources,
    used: Resources,
    root: Node,
}

impl HierarchicalShares {
    /// A tree without jobs.
    pub fn new(total: Resources) -> HierarchicalShares {
        let root = Node { weight: 1.0, ..Node::default() };
        HierarchicalShares { total, used: Resources::default(), root }
    }

    /// Adds a job, or takes what it has now in place of what it had. O(nodes).
    pub fn set(&mut self, job: &VolcanoJobStanding) {
        let mut node = &mut self.root;
        let mut weights = job.weights.split('/');
        weights.next();
        for name in job.path.split('/').skip(1) {
            let weight = weights.next().and_then(|weight| weight.parse::<f64>().ok());
            let weight = weight.unwrap_or(0.0).max(1.0);
            let new = || Node { weight, ..Node::default() };
            node = node.children.entry(name.into()).or_insert_with(new);
        }
        let leaf = node.children.entry(job.name.clone()).or_default();
        self.used.subtract(&leaf.allocated);
        self.used.add(&job.allocated);
        leaf.weight = 1.0;
        leaf.allocated = job.allocated.clone();
        leaf.request = Some(job.request.clone());
        self.update();
    }

    fn update(&mut self) {
        let (total, used) = (&self.total, &self.used);
        let wanted = |name: &str| used.get(name) < total.get(name);
        update(&mut self.root, total, &wanted);
    }

    /// Compares two paths: `Less` if the first goes first. At each level a node that is not
    /// saturated goes before one that is, then the smaller share over weight.
    pub fn compare(&self, one: &str, other: &str) -> Ordering {
        let (mut a, mut b) = (Some(&self.root), Some(&self.root));
        let (left, right): (Vec<&str>, Vec<&str>) =
            (one.split('/').collect(), other.split('/').collect());
        let depth = left.len().min(right.len());
        for level in 0..depth {
            let (Some(one), Some(other)) = (a, b) else { return Ordering::Equal };
            let shares = || (one.share / one.weight).total_cmp(&(other.share / other.weight));
            match one.saturated.cmp(&other.saturated).then_with(shares) {
                Ordering::Equal => {}
                decided => return decided,
            }
            a = left.get(level + 1).and_then(|name| one.children.get(*name));
            b = right.get(level + 1).and_then(|name| other.children.get(*name));
        }
        Ordering::Equal
    }
}

fn update(node: &mut Node, total: &Resources, wanted: &impl Fn(&str) -> bool) {
    if let Some(request) = &node.request {
        let is_full = |name: &&str| {
            let (has, asks) = (node.allocated.get(name), request.get(name));
            (has != 0.0 && asks != 0.0 && has >= asks) || (!wanted(name) && asks != 0.0)
        };
        node.saturated = node.allocated.names().iter().any(is_full);
        node.share = dominant_share(&node.allocated, total);
        return;
    }
    let mut least: f64 = 1.0;
    for child in node.children.values_mut() {
        update(child, total, wanted);
        if child.share != 0.0 && !child.saturated {
            least = least.min(dominant_share(&child.allocated, total));
        }
    }
    node.allocated = Resources::default();
    node.saturated = node.children.values().all(|child| child.saturated);
    for child in node.children.values().filter(|child| child.share != 0.0) {
        if child.saturated {
            node.allocated.add(&child.allocated);
        } else {
            node.allocated.add(&child.allocated.times(least / child.share));
        }
    }
    node.share = dominant_share(&node.allocated, total);
}

#[cfg(test)]
mod tests;
