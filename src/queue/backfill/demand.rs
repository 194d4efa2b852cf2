//! Sums of requests: the least need of a group, and the free resources of nodes.
//!
//! A group whose need exceeds the free sums has no place; no planner need be asked. On equal
//! processors the sums decide alone, on other clusters they are a bound.

use alloc::boxed::Box;
#[cfg(feature = "serde")]
use alloc::string::String;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::model::{PodGroup, PodShape};
use crate::queue::groups::{MemberState, QueuedGroup};
use crate::state::{Cluster, ResourceId};

/// Amounts by number of resource; absent ones are zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::queue) struct Demand(SmallVec<[i64; 4]>);

/// Numbers of the resources that groups request.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct ResourceNumbers(Vec<Box<str>>);

impl Demand {
    /// Amounts by number.
    pub(in crate::queue) fn of_amounts(amounts: impl IntoIterator<Item = i64>) -> Demand {
        Demand(amounts.into_iter().collect())
    }

    pub(in crate::queue) fn add(&mut self, other: &Demand) {
        for (number, amount) in other.0.iter().enumerate() {
            self.add_amount(number, *amount);
        }
    }

    pub(in crate::queue) fn subtract(&mut self, other: &Demand) {
        for (number, amount) in other.0.iter().enumerate() {
            self.add_amount(number, amount.saturating_neg());
        }
    }

    /// Whether this much is enough for another.
    pub(in crate::queue) fn covers(&self, other: &Demand) -> bool {
        let have = self.0.iter().copied().chain(core::iter::repeat(0));
        other.0.iter().zip(have).all(|(need, have)| *need <= 0 || *need <= have)
    }

    /// How many times another amount is within this one.
    pub(in crate::queue) fn holds(&self, one: &Demand) -> u64 {
        let have = self.0.iter().copied().chain(core::iter::repeat(0));
        let times = one.0.iter().zip(have).filter(|(one, _)| **one > 0);
        let least = times.map(|(one, have)| have.max(0) / one).min();
        least.map_or(u64::MAX, |least| u64::try_from(least).unwrap_or(0))
    }

    fn add_amount(&mut self, number: usize, amount: i64) {
        if self.0.len() <= number {
            self.0.resize(number + 1, 0);
        }
        if let Some(sum) = self.0.get_mut(number) {
            *sum = sum.saturating_add(amount);
        }
    }

    /// One pod, as a further amount before all others.
    pub(in crate::queue) fn with_pod(mut self, pods: i64) -> Demand {
        self.0.insert(0, pods);
        self
    }

    /// The amounts by number.
    pub(in crate::queue) fn amounts(&self) -> &[i64] {
        &self.0
    }

    /// The amounts above zero, with their numbers.
    pub(in crate::queue) fn needs(&self) -> impl Iterator<Item = (usize, i64)> {
        self.0.iter().copied().enumerate().filter(|(_, amount)| *amount > 0)
    }

    /// Lowers each amount to another's.
    pub(in crate::queue) fn least_with(&mut self, other: &Demand) {
        for (number, amount) in self.0.iter_mut().enumerate() {
            *amount = (*amount).min(other.0.get(number).copied().unwrap_or(0));
        }
    }

    fn times(&mut self, count: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.0.iter_mut().for_each(|amount| *amount = amount.saturating_mul(count));
    }
}

impl ResourceNumbers {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.0.iter().position(|known| **known == *name) {
            number
        } else {
            self.0.push(name.into());
            self.0.len() - 1
        }
    }

    /// The demand of one pod.
    pub(in crate::queue) fn of_shape(&mut self, shape: &PodShape) -> Demand {
        let mut demand = Demand::default();
        for (name, amount) in shape.requests.iter() {
            demand.add_amount(self.number(name), amount);
        }
        demand
    }

    /// No more than the pending members of a group need to start. Exact where none may be left out, or
    /// all are alike.
    pub(in crate::queue) fn of_group(&mut self, queued: &QueuedGroup) -> Demand {
        let mut leaves: Vec<Leaf> = queued.leaves().iter().map(|_| Leaf::default()).collect();
        let mut last: Option<(&PodShape, Demand)> = None;
        for member in queued.members().values() {
            let Some(leaf) = leaves.get_mut(member.leaf()) else { continue };
            match member.state() {
                MemberState::Bound | MemberState::Planned | MemberState::Done => leaf.there += 1,
                MemberState::Pending if member.pod().scheduling_gates.is_empty() => {
                    let shape = &**member.pod().shape();
                    let known = last.take().filter(|(known, _)| core::ptr::eq(*known, shape));
                    let (shape, one) = known.unwrap_or_else(|| (shape, self.of_shape(shape)));
                    leaf.add(&one);
                    last = Some((shape, one));
                }
                _ => {}
            }
        }
        of_tree(queued.root(), &mut leaves.into_iter(), 1)
    }

    /// Numbers that were saved by name.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn of_names(names: Vec<String>) -> ResourceNumbers {
        ResourceNumbers(names.into_iter().map(String::into_boxed_str).collect())
    }

    /// The resources, by number.
    pub(in crate::queue) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// The resources of a cluster, by number.
    pub(in crate::queue) fn resources(&self, cluster: &Cluster) -> Vec<Option<ResourceId>> {
        self.0.iter().map(|name| cluster.resource(name)).collect()
    }
}

/// Members of a group of pods.
#[derive(Debug, Default)]
struct Leaf {
    /// How many run, are planned or have finished.
    there: u64,
    pending: u64,
    /// Requests of the pending ones: all of them, and the least of each resource.
    sum: Demand,
    least: Option<Demand>,
}

impl Leaf {
    fn add(&mut self, one: &Demand) {
        self.pending += 1;
        self.sum.add(one);
        match &mut self.least {
            Some(least) => least.least_with(one),
            None => self.least = Some(one.clone()),
        }
    }

    /// The demand of as many as the group lacks, `at_least` so many.
    fn demand(self, group: &PodGroup, at_least: u64) -> Demand {
        let need = u64::from(group.policy.minimum()).saturating_sub(self.there).max(at_least);
        if need >= self.pending {
            return self.sum;
        }
        let mut least = self.least.unwrap_or_default();
        least.times(need);
        least
    }
}

/// The demand of as many groups inside as count: of each resource, those that ask for least. A group of pods asks
/// for `at_least` so many; one inside for none.
fn of_tree(group: &PodGroup, leaves: &mut impl Iterator<Item = Leaf>, at_least: u64) -> Demand {
    if group.groups.is_empty() {
        return leaves.next().unwrap_or_default().demand(group, at_least);
    }
    let inside: Vec<Demand> =
        group.groups.iter().map(|inner| of_tree(inner, &mut *leaves, 0)).collect();
    let need = group.policy.minimum() as usize;
    let resources = inside.iter().map(|one| one.0.len()).max().unwrap_or(0);
    Demand::of_amounts((0..resources).map(|number| {
        let amount = |one: &Demand| one.0.get(number).copied().unwrap_or(0).max(0);
        let mut amounts: Vec<i64> = inside.iter().map(amount).collect();
        amounts.sort_unstable();
        amounts.into_iter().take(need).fold(0, i64::saturating_add)
    }))
}

#[cfg(test)]
mod tests;
