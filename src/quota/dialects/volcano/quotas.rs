//! Decisions of Volcano's plugins `proportion` and `capacity` about queues.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::attributes::{Attributes, ancestors, capacity, capacity_tree, proportion};
use super::resources::{Missing, Resources};

/// The plugin that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plugin {
    Proportion,
    Capacity,
}

/// The queues of a session under one of the plugins.
///
/// ```
/// use phalanx::quota::volcano::{Attributes, Quotas, Resources};
///
/// let cpu = |amount| Resources::new(amount, 0.0);
/// let queue = |name: &str, asks| Attributes { request: cpu(asks), ..Attributes::new(name) };
/// let none = Resources::default();
/// let queues = vec![queue("a", 1000.0), queue("b", 9000.0)];
/// let mut quotas = Quotas::proportion(&cpu(4000.0), &none, queues);
/// assert!(quotas.allocatable("b", &cpu(3000.0)));
/// quotas.add("b", &cpu(3000.0));
/// assert!(quotas.overused("b"));
/// ```
#[derive(Debug, Clone)]
pub struct Quotas {
    plugin: Plugin,
    queues: BTreeMap<String, Attributes>,
    /// From the root down; empty where queues stand side by side.
    above: BTreeMap<String, Vec<String>>,
    tree: bool,
    /// How far up a queue's ancestors may claim for it, and answer for a victim.
    level: usize,
    sound: bool,
}

fn by_name(queues: Vec<Attributes>) -> BTreeMap<String, Attributes> {
    queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect()
}

impl Quotas {
    fn new(plugin: Plugin, queues: Vec<Attributes>) -> Quotas {
        let (queues, above) = (by_name(queues), BTreeMap::new());
        Quotas { plugin, queues, above, tree: false, level: 0, sound: true }
    }

    /// `proportion`: what queues deserve is divided among those with jobs, which are given. The
    /// guarantees are the sum over all queues. O(rounds · queues).
    pub fn proportion(
        total: &Resources,
        guarantees: &Resources,
        mut queues: Vec<Attributes>,
    ) -> Quotas {
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        proportion(total, guarantees, &mut queues);
        Quotas::new(Plugin::Proportion, queues)
    }

    /// `capacity` for queues that stand side by side: those with jobs. The guarantees are the sum over
    /// all queues.
    pub fn capacity(
        total: &Resources,
        guarantees: &Resources,
        mut queues: Vec<Attributes>,
    ) -> Quotas {
        capacity(total, guarantees, &mut queues);
        Quotas::new(Plugin::Capacity, queues)
    }

    /// `capacity` for queues in a tree, with `ancestorReclaimLevel`: all of them, with the sums of the
    /// leaves. A tree that makes no sense admits nothing.
    pub fn capacity_tree(total: &Resources, queues: Vec<Attributes>, level: usize) -> Quotas {
        let mut quotas = Quotas::new(Plugin::Capacity, queues);
        quotas.sound = capacity_tree(total, &mut quotas.queues);
        if quotas.sound {
            let path = |name: &String| Some((name.clone(), ancestors(&quotas.queues, name)?));
            quotas.above = quotas.queues.keys().filter_map(path).collect();
        }
        (quotas.tree, quotas.level) = (true, level);
        quotas
    }

    /// Notes that a job stands in a queue of queues: then nothing is admitted anywhere.
    pub fn spoil(&mut self) {
        self.sound = false;
    }

    /// A queue.
    pub fn queue(&self, name: &str) -> Option<&Attributes> {
        self.queues.get(name)
    }

    /// Whether no queue stands below one.
    pub fn is_leaf(&self, name: &str) -> bool {
        !self.above.values().any(|path| path.last().is_some_and(|parent| parent == name))
    }

    /// The ancestors of a queue, from the root down.
    fn path(&self, name: &str) -> &[String] {
        self.above.get(name).map_or(&[], Vec::as_slice)
    }

    /// The queue and all above it that are known, from the queue up.
    fn upwards<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Attributes> {
        let above = self.path(name).iter().rev().map(String::as_str);
        core::iter::once(name).chain(above).filter_map(|name| self.queues.get(name))
    }

    /// The ancestor so many levels up, without the root.
    fn ancestor(&self, name: &str, level: usize) -> Option<&Attributes> {
        let path = self.path(name);
        let at = path.len().checked_sub(level)?;
        path.get(at).filter(|_| at > 0).and_then(|name| self.queues.get(name))
    }

    /// Counts what a task of a queue gets, there and above.
    pub fn add(&mut self, name: &str, amounts: &Resources) {
        self.change(name, |allocated| allocated.add(amounts));
    }

    /// Counts what a task of a queue has no more.
    pub fn take(&mut self, name: &str, amounts: &Resources) {
        self.change(name, |allocated| allocated.subtract(amounts));
    }

    fn change(&mut self, name: &str, change: impl Fn(&mut Resources)) {
        let above = self.path(name).to_vec();
        for name in above {
            if let Some(queue) = self.queues.get_mut(&name) {
                change(&mut queue.allocated);
            }
        }
        // Only the share of the leaf follows, as in Volcano.
        if let Some(queue) = self.queues.get_mut(name) {
            change(&mut queue.allocated);
            queue.share = match self.plugin {
                Plugin::Proportion => queue.deserved_share(),
                Plugin::Capacity => queue.configured_share(),
            };
        }
    }

    /// Compares two queues: `Less` if the first goes first. Priority, then the share; two leaves of
    /// a tree by the shares below their lowest common ancestor, and a leaf before a queue of
    /// queues.
    pub fn compare(&self, one: &str, other: &str) -> Ordering {
        let (Some(a), Some(b)) = (self.queues.get(one), self.queues.get(other)) else {
            return Ordering::Equal;
        };
        let by_share = |a: &Attributes, b: &Attributes| {
            let best_effort =
                |queue: &Attributes| self.plugin == Plugin::Capacity && queue.deserved.is_empty();
            a.share.total_cmp(&b.share).then(best_effort(a).cmp(&best_effort(b)))
        };
        if self.tree && !self.sound {
            return Ordering::Equal;
        }
        b.priority.cmp(&a.priority).then_with(|| {
            if !self.tree {
                return by_share(a, b);
            }
            match (self.is_leaf(one), self.is_leaf(other)) {
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => by_share(a, b),
                (true, true) => {
                    let level = self.common(one, other);
                    let side = |name: &str, own| {
                        let below = self.path(name).get(level + 1);
                        below.and_then(|name| self.queues.get(name)).unwrap_or(own)
                    };
                    by_share(side(one, a), side(other, b))
                }
            }
        })
    }

    /// The depth of the lowest common ancestor.
    fn common(&self, one: &str, other: &str) -> usize {
        let pairs = self.path(one).iter().zip(self.path(other));
        pairs.take_while(|(a, b)| a == b).count().saturating_sub(1)
    }

    /// Compares two queues by who gives up tasks first: in a tree the one whose lowest common
    /// ancestor with the taker is deeper. `Equal` where this does not decide.
    pub fn compare_victims(&self, one: &str, other: &str, taker: &str) -> Ordering {
        if !self.tree || !self.sound {
            return Ordering::Equal;
        }
        self.common(other, taker).cmp(&self.common(one, taker))
    }

    /// Whether a queue has all that it deserves, of every resource: such queues are passed over.
    /// `capacity` passes over none.
    pub fn overused(&self, name: &str) -> bool {
        let full = |queue: &Attributes| queue.deserved.less_equal(&queue.allocated, Missing::Zero);
        self.plugin == Plugin::Proportion && self.queues.get(name).is_some_and(full)
    }

    /// Whether a queue may have a task more, by the resources that the task asks for. By
    /// `proportion` it stays within its deserved amounts. By `capacity` it stays within the real
    /// capability of itself and of all above.
    pub fn allocatable(&self, name: &str, request: &Resources) -> bool {
        let Some(queue) = self.queues.get(name).filter(|queue| queue.open) else { return false };
        let within = |queue: &Attributes, bound: &Resources| {
            queue.allocated.plus(request).exceeding_of(bound, Some(request)).is_empty()
        };
        match self.plugin {
            Plugin::Proportion => within(queue, &queue.deserved),
            Plugin::Capacity => {
                self.sound
                    && (!self.tree || self.is_leaf(name))
                    && self.upwards(name).all(|queue| within(queue, &queue.real_capability))
            }
        }
    }

    /// Whether a queue may take from others for a task.
    ///
    /// `capacity`: it stays within its real capability, and within what it deserves of **one** of the
    /// resources that the task asks for; with `ancestorReclaimLevel` an ancestor may answer for it.
    /// `proportion`: it stays within what it deserves.
    pub fn may_reclaim(&self, name: &str, request: &Resources) -> bool {
        if self.plugin == Plugin::Proportion {
            return self.allocatable(name, request);
        }
        let Some(queue) = self.queues.get(name).filter(|queue| self.sound && queue.open) else {
            return false;
        };
        let future = queue.allocated.plus(request);
        if !future.exceeding_of(&queue.real_capability, Some(request)).is_empty() {
            return false;
        }
        let deserves = |queue: &Attributes| {
            let future = queue.allocated.plus(request);
            !future.within_of_any(&queue.deserved, request).is_empty()
        };
        let mut ancestors = (1..=self.level).filter_map(|level| self.ancestor(name, level));
        deserves(queue) || ancestors.any(deserves)
    }

    /// Whether a job may be admitted. Its queue is open, and its minimum fits into the real
    /// capability beside the allocated and admitted amounts, without amounts of others beyond their
    /// needs. A job that states no needs may.
    pub fn enqueueable(&self, name: &str, minimum: Option<&Resources>) -> bool {
        let Some(queue) = self.queues.get(name).filter(|queue| self.sound && queue.open) else {
            return false;
        };
        if self.tree && !self.is_leaf(name) {
            return false;
        }
        let Some(minimum) = minimum else { return true };
        let fits = |queue: &Attributes| {
            let future = minimum.plus(&queue.allocated).plus(&queue.inqueue).minus(&queue.elastic);
            future.exceeding_of(&queue.real_capability, Some(minimum)).is_empty()
        };
        match self.plugin {
            Plugin::Proportion => fits(queue),
            Plugin::Capacity => self.upwards(name).all(fits),
        }
    }

    /// Counts a job that was admitted.
    pub fn enqueued(&mut self, name: &str, minimum: Option<&Resources>) {
        let Some(minimum) = minimum else { return };
        let mut path = self.path(name).to_vec();
        path.push(name.into());
        for name in path {
            if let Some(queue) = self.queues.get_mut(&name) {
                queue.inqueue.add(minimum);
            }
        }
    }

    /// Tasks that may be taken for a task of a queue. Tasks are given in order, each with its queue
    /// and its amounts. The answer for each tells whether it may be taken once those before it that
    /// may are gone.
    pub fn victims<'a>(
        &'a self,
        taker: &str,
        request: &Resources,
        candidates: &[(&'a str, &Resources)],
    ) -> Vec<bool> {
        if !self.sound || (self.tree && !self.queues.contains_key(taker)) {
            return candidates.iter().map(|_| false).collect();
        }
        let mut left: BTreeMap<&str, Resources> = BTreeMap::new();
        let mut taken = Vec::with_capacity(candidates.len());
        for &(name, has) in candidates {
            taken.push(match (self.plugin, self.queues.get(name)) {
                (_, None) => false,
                (Plugin::Proportion, Some(queue)) => {
                    let allocated = left.entry(name).or_insert_with(|| queue.allocated.clone());
                    let beyond = !allocated.less_equal(&queue.deserved, Missing::Zero);
                    if beyond {
                        allocated.subtract(has);
                    }
                    beyond
                }
                (Plugin::Capacity, Some(_)) => {
                    self.capacity_victim((taker, request), name, has, &mut left)
                }
            });
        }
        taken
    }

    fn capacity_victim<'a>(
        &'a self,
        (taker, request): (&str, &Resources),
        name: &'a str,
        has: &Resources,
        left: &mut BTreeMap<&'a str, Resources>,
    ) -> bool {
        let Some(queue) = self.queues.get(name) else { return false };
        if has.common_but_pods(request).is_empty() {
            return false;
        }
        let allocated = left.entry(name).or_insert_with(|| queue.allocated.clone());
        if !queue.guarantee.less_equal(&allocated.minus(has), Missing::Zero) {
            return false;
        }
        if !deserves_nothing_of(queue, has) {
            if allocated.beyond_of_named(&queue.deserved, has).is_empty() {
                return false;
            }
        } else if self.level > 0 && self.share_ancestor(taker, name) {
            // Below one ancestor, with nothing deserved on either side, no one has a claim.
            let own = self.queues.get(taker);
            if own.is_none_or(|own| deserves_nothing_of(own, request)) {
                return false;
            }
        }
        let mut answering: Vec<&'a str> = Vec::new();
        for level in 1..=self.level {
            let Some(ancestor) = self.ancestor(name, level) else { continue };
            let path = self.path(taker);
            let own = path.len().checked_sub(level).and_then(|at| path.get(at));
            if own.is_some_and(|own| *own == ancestor.name) {
                continue;
            }
            let key = ancestor.name.as_str();
            let allocated = left.entry(key).or_insert_with(|| ancestor.allocated.clone());
            answering.push(key);
            let beyond = || !allocated.beyond_of_named(&ancestor.deserved, has).is_empty();
            if !deserves_nothing_of(ancestor, has) && !beyond() {
                return false;
            }
        }
        for name in core::iter::once(name).chain(answering) {
            if let Some(allocated) = left.get_mut(name) {
                allocated.subtract(has);
            }
        }
        true
    }

    /// Whether two queues have an ancestor in common, not the root, within the level.
    fn share_ancestor(&self, one: &str, other: &str) -> bool {
        (1..=self.level).any(|level| {
            let ancestor = self.ancestor(one, level);
            ancestor.is_some_and(|ancestor| {
                let others = |level| self.ancestor(other, level).map(|own| &own.name);
                (1..=self.level).any(|level| others(level) == Some(&ancestor.name))
            })
        })
    }
}

/// Whether a queue deserves none of the resources that some amounts are of.
fn deserves_nothing_of(queue: &Attributes, amounts: &Resources) -> bool {
    amounts.common(&queue.deserved).is_empty()
}

#[cfg(test)]
mod tests;
