//! Amounts that Volcano's plugins `proportion` and `capacity` keep for a queue, and their
//! derivation.
//!
//! Source: `pkg/scheduler/plugins/proportion/proportion.go` and `capacity/capacity.go`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::resources::{Missing, Resources, dominant_share};

/// One queue, and what is counted in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes {
    /// The name, which decides ties.
    pub name: String,
    /// The queue above; empty: the root of a tree, which has none itself.
    pub parent: String,
    /// The weight in the division of `proportion`.
    pub weight: f64,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it takes jobs.
    pub open: bool,
    /// The queue's own part, withheld from others' real capability.
    pub guarantee: Resources,
    /// Amount down to which others may take from it: by configuration, or divided.
    pub deserved: Resources,
    /// The most that it may have, as stated; `None`: no bound.
    pub capability: Option<Resources>,
    /// The most that it may have, when the guarantees of others are withheld.
    pub real_capability: Resources,
    /// Amounts of its tasks.
    pub allocated: Resources,
    /// Amounts and requests of its tasks.
    pub request: Resources,
    /// Amounts that admitted jobs need to begin, beyond their own.
    pub inqueue: Resources,
    /// Amounts of jobs beyond their need to begin.
    pub elastic: Resources,
    /// The share of what is deserved.
    pub share: f64,
}

impl Attributes {
    /// An open queue of weight 1 without quota.
    pub fn new(name: impl Into<String>) -> Attributes {
        Attributes { name: name.into(), weight: 1.0, open: true, ..Attributes::default() }
    }

    /// The share of `proportion`.
    pub fn deserved_share(&self) -> f64 {
        dominant_share(&self.allocated, &self.deserved)
    }

    /// The share of `capacity`: 1 of a queue that deserves nothing.
    pub fn configured_share(&self) -> f64 {
        if self.deserved.is_empty() { 1.0 } else { self.deserved_share() }
    }
}

/// The capability with no bound on CPU and memory of which none is stated.
fn bounded(capability: &Resources) -> Resources {
    let or_none = |amount: f64| if amount <= 0.0 { f64::MAX } else { amount };
    Resources {
        milli_cpu: or_none(capability.milli_cpu),
        memory: or_none(capability.memory),
        scalars: capability.scalars.clone(),
    }
}

fn real_capability(whole: &Resources, guarantees: &Resources, queue: &Attributes) -> Resources {
    let mut real = whole.beyond(guarantees).plus(&queue.guarantee);
    if let Some(capability) = &queue.capability {
        real.bound_by(capability, Missing::Infinity);
    }
    real
}

/// The real capability of queues that stand side by side. `guarantees` is the sum over all queues,
/// also those without jobs, which `queues` leaves out.
fn capabilities(total: &Resources, guarantees: &Resources, queues: &mut [Attributes]) {
    for queue in queues {
        queue.capability = queue.capability.as_ref().map(bounded);
        queue.real_capability = real_capability(total, guarantees, queue);
    }
}

/// The amount that each queue deserves by weight, by rounds of water filling; with the shares that
/// follow.
///
/// In a round each queue that is not satisfied gets its part of the amount that remained before the
/// round. It is by weight, within its real capability and its request; a resource that it does not
/// ask for is none. It has its guarantee in any case. It is satisfied when it has its request, or
/// the round gave it nothing. Then the amount given in the round, less the amount taken back, is
/// gone from the remainder; the rounds end when that is nothing or unchanged.
///
/// `guarantees` is the sum over all queues; `queues` are those with jobs alone.
pub fn proportion(total: &Resources, guarantees: &Resources, queues: &mut [Attributes]) {
    capabilities(total, guarantees, queues);
    let mut remaining = total.clone();
    let mut satisfied: BTreeSet<usize> = BTreeSet::new();
    for queue in &mut *queues {
        queue.deserved = Resources::default();
    }
    loop {
        let open: Vec<usize> = (0..queues.len()).filter(|at| !satisfied.contains(at)).collect();
        let weights: f64 = open.iter().map(|&at| queues[at].weight).sum();
        if weights <= 0.0 {
            break;
        }
        let before = remaining.clone();
        let (mut given, mut taken) = (Resources::default(), Resources::default());
        for at in open {
            let queue = &mut queues[at];
            let old = queue.deserved.clone();
            queue.deserved.add(&before.times(queue.weight / weights));
            queue.deserved.bound_by(&queue.real_capability, Missing::Infinity);
            queue.deserved.bound_by(&queue.request, Missing::Zero);
            queue.deserved.raise_to(&queue.guarantee);
            let full = queue.request.less_equal(&queue.deserved, Missing::Zero);
            if full || queue.deserved == old {
                satisfied.insert(at);
            }
            let (more, less) = queue.deserved.difference(&old, Missing::Zero);
            given.add(&more);
            taken.add(&less);
        }
        remaining = remaining.plus(&taken).beyond(&given);
        if remaining.is_empty() || remaining == before {
            break;
        }
    }
    for queue in queues {
        queue.share = queue.deserved_share();
    }
}

/// The amounts that siblings of `capacity` deserve, as configured: within the real
/// capability, and no less than the guarantee.
pub fn capacity(total: &Resources, guarantees: &Resources, queues: &mut [Attributes]) {
    capabilities(total, guarantees, queues);
    for queue in queues {
        queue.deserved.bound_by(&queue.real_capability, Missing::Infinity);
        queue.deserved.raise_to(&queue.guarantee);
        queue.share = queue.configured_share();
    }
}

/// The name of the queue above all others.
pub const ROOT: &str = "root";

/// The queues above a queue, from the root down; `None` if it stands in a circle, or below a queue
/// that is not there.
pub(super) fn ancestors(queues: &BTreeMap<String, Attributes>, name: &str) -> Option<Vec<String>> {
    let mut above: Vec<String> = Vec::new();
    let mut at = name;
    while at != ROOT {
        let parent = queues.get(at)?.parent.as_str();
        let parent = if parent.is_empty() { ROOT } else { parent };
        if parent == name || above.iter().any(|known| known == parent) {
            return None;
        }
        let (known, _) = queues.get_key_value(parent)?;
        above.push(known.clone());
        at = known;
    }
    above.reverse();
    Some(above)
}

/// The queues of `capacity` in a tree. Amounts counted in leaves are counted in all queues above. A
/// child has the capability of its parent where it states none, and keeps clear of the guarantees
/// of its siblings. The root's guarantee and deserved amounts are the sums of its children's. The
/// root has no bound of its own, be it the total.
///
/// Whether the tree makes sense: it has a root, no circle, and every parent.
pub fn capacity_tree(total: &Resources, queues: &mut BTreeMap<String, Attributes>) -> bool {
    if !queues.contains_key(ROOT) {
        return false;
    }
    let mut above: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in queues.keys() {
        let Some(path) = ancestors(queues, name) else { return false };
        above.insert(name.clone(), path);
    }
    for (name, path) in &above {
        let Some(own) = queues.get(name).cloned() else { continue };
        for ancestor in path {
            if let Some(queue) = queues.get_mut(ancestor) {
                queue.allocated.add(&own.allocated);
                queue.request.add(&own.request);
                queue.inqueue.add(&own.inqueue);
                queue.elastic.add(&own.elastic);
            }
        }
    }
    if let Some(root) = queues.get_mut(ROOT) {
        let stated = root.capability.take().filter(|capability| !capability.is_empty());
        let capability = stated.unwrap_or_else(|| Resources::unbounded(total));
        root.real_capability = capability.clone();
        root.capability = Some(capability);
    }
    // Parents before their children.
    let mut order: Vec<(usize, String)> =
        above.iter().map(|(name, path)| (path.len(), name.clone())).collect();
    order.sort();
    for (_, name) in order {
        settle_children(queues, &above, &name);
    }
    for queue in queues.values_mut() {
        queue.share = queue.configured_share();
    }
    true
}

fn settle_children(
    queues: &mut BTreeMap<String, Attributes>,
    above: &BTreeMap<String, Vec<String>>,
    parent: &str,
) {
    let is_child =
        |name: &&String| above.get(*name).and_then(|path| path.last()).is_some_and(|p| p == parent);
    let children: Vec<String> = queues.keys().filter(is_child).cloned().collect();
    let Some(own) = queues.get(parent) else { return };
    let capability = own.capability.clone().unwrap_or_default();
    let (mut guarantees, mut deserved) = (Resources::default(), Resources::default());
    for name in &children {
        let Some(child) = queues.get_mut(name) else { continue };
        child.deserved.raise_to(&child.guarantee);
        deserved.add(&child.deserved);
        guarantees.add(&child.guarantee);
        let mut stated = child.capability.take().unwrap_or_default();
        if stated.milli_cpu <= 0.0 {
            stated.milli_cpu = capability.milli_cpu;
        }
        if stated.memory <= 0.0 {
            stated.memory = capability.memory;
        }
        for (resource, amount) in &capability.scalars {
            stated.scalars.entry(resource.clone()).or_insert(*amount);
        }
        child.capability = Some(stated);
    }
    let Some(own) = queues.get_mut(parent) else { return };
    if parent == ROOT {
        (own.guarantee, own.deserved) = (guarantees.clone(), deserved);
    }
    let whole = own.real_capability.clone();
    for name in &children {
        if let Some(child) = queues.get_mut(name) {
            child.real_capability = real_capability(&whole, &guarantees, child);
        }
    }
}

/// Amount that a job still needs to begin: its minimum beyond its own.
pub fn inqueue(minimum: &Resources, allocated: &Resources) -> Resources {
    minimum.beyond(allocated)
}

#[cfg(test)]
mod tests;
