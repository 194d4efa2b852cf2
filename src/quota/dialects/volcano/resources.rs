//! Amounts as Volcano holds and compares them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::model::resources::PODS;

/// Greatest difference of two amounts that count as equal: Volcano's `minResource`.
pub const TOLERANCE: f64 = 0.1;

/// The amount of a resource that only the other side names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missing {
    /// None of it.
    Zero,
    /// No bound.
    Infinity,
}

/// Volcano's amounts: floats; CPU in thousandths, memory in bytes, others in thousandths but `pods` in
/// units. CPU and memory are always named, others where they were stated, be it as 0.
///
/// Source: Volcano's `pkg/scheduler/api/resource_info.go`.
///
/// ```
/// use phalanx::quota::volcano::{Missing, Resources};
///
/// let (small, large) = (Resources::new(1000.0, 0.0), Resources::new(999.95, 1.0));
/// assert!(small.less_equal(&large, Missing::Zero), "the difference is within the tolerance");
/// assert!(!small.less(&large, Missing::Zero));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resources {
    /// CPU, in thousandths.
    pub milli_cpu: f64,
    /// Memory, in bytes.
    pub memory: f64,
    /// All others.
    pub scalars: BTreeMap<String, f64>,
}

fn at_most(a: f64, b: f64) -> bool {
    a < b || (a - b < TOLERANCE && b - a < TOLERANCE)
}

impl Resources {
    /// CPU and memory.
    pub fn new(milli_cpu: f64, memory: f64) -> Resources {
        Resources { milli_cpu, memory, scalars: BTreeMap::new() }
    }

    /// Everything without a bound, of the resources that some others name.
    pub fn unbounded(like: &Resources) -> Resources {
        let scalars = like.scalars.keys().map(|name| (name.clone(), i64::MAX as f64)).collect();
        Resources { milli_cpu: f64::MAX, memory: f64::MAX, scalars }
    }

    /// Sets another resource.
    #[must_use]
    pub fn scalar(mut self, name: impl Into<String>, amount: f64) -> Resources {
        self.scalars.insert(name.into(), amount);
        self
    }

    /// The amount of a resource by name; 0 of one that is not named.
    pub fn get(&self, name: &str) -> f64 {
        match name {
            crate::model::CPU => self.milli_cpu,
            crate::model::MEMORY => self.memory,
            name => self.scalars.get(name).copied().unwrap_or(0.0),
        }
    }

    /// Adds to a resource that is neither CPU nor memory.
    pub fn add_scalar(&mut self, name: &str, amount: f64) {
        *self.scalars.entry(name.into()).or_default() += amount;
    }

    /// All amounts with their names; CPU and memory first.
    fn all(&self) -> impl Iterator<Item = (&str, f64)> {
        let first = [(crate::model::CPU, self.milli_cpu), (crate::model::MEMORY, self.memory)];
        first.into_iter().chain(self.scalars.iter().map(|(name, amount)| (name.as_str(), *amount)))
    }

    /// The resources of which there is any.
    pub fn names(&self) -> Vec<&str> {
        self.all().filter(|(_, amount)| *amount >= TOLERANCE).map(|(name, _)| name).collect()
    }

    /// Whether there is none of anything; `pods` do not count.
    pub fn is_empty(&self) -> bool {
        self.all().all(|(name, amount)| name == PODS || amount < TOLERANCE)
    }

    /// Whether there is none of a resource.
    pub fn is_zero(&self, name: &str) -> bool {
        self.get(name) < TOLERANCE
    }

    /// Adds.
    pub fn add(&mut self, other: &Resources) {
        self.milli_cpu += other.milli_cpu;
        self.memory += other.memory;
        for (name, amount) in &other.scalars {
            self.add_scalar(name, *amount);
        }
    }

    /// Subtracts; amounts may become negative.
    ///
    /// From amounts that name no other resource, none is subtracted: what Volcano does with a map
    /// that was never made.
    pub fn subtract(&mut self, other: &Resources) {
        self.milli_cpu -= other.milli_cpu;
        self.memory -= other.memory;
        if self.scalars.is_empty() {
            return;
        }
        for (name, amount) in &other.scalars {
            self.add_scalar(name, -*amount);
        }
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Resources) -> Resources {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// The difference, which may be negative.
    #[must_use]
    pub fn minus(&self, other: &Resources) -> Resources {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// So many times as much.
    #[must_use]
    pub fn times(&self, ratio: f64) -> Resources {
        let scalars = self.scalars.iter().map(|(name, amount)| (name.clone(), amount * ratio));
        Resources {
            milli_cpu: self.milli_cpu * ratio,
            memory: self.memory * ratio,
            scalars: scalars.collect(),
        }
    }

    /// The larger of each.
    pub fn raise_to(&mut self, other: &Resources) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory = self.memory.max(other.memory);
        for (name, amount) in &other.scalars {
            let own = self.scalars.entry(name.clone()).or_insert(*amount);
            *own = own.max(*amount);
        }
    }

    /// The smaller of each that is named here. What the bound does not name has none, or is bounded by
    /// 0.
    pub fn bound_by(&mut self, bound: &Resources, missing: Missing) {
        self.milli_cpu = self.milli_cpu.min(bound.milli_cpu);
        self.memory = self.memory.min(bound.memory);
        for (name, amount) in &mut self.scalars {
            match (bound.scalars.get(name), missing) {
                (Some(bound), _) => *amount = amount.min(*bound),
                (None, Missing::Zero) => *amount = 0.0,
                (None, Missing::Infinity) => {}
            }
        }
    }

    /// Amounts that are more here than there, and those that are more there. A resource that one
    /// side does not name is an infinity there, written −1, or nothing.
    pub fn difference(&self, other: &Resources, missing: Missing) -> (Resources, Resources) {
        const INFINITY: f64 = -1.0;
        let split = |a: f64, b: f64| if a > b { (a - b, 0.0) } else { (0.0, b - a) };
        let (more_cpu, less_cpu) = split(self.milli_cpu, other.milli_cpu);
        let (more_memory, less_memory) = split(self.memory, other.memory);
        let mut more = Resources::new(more_cpu, more_memory);
        let mut less = Resources::new(less_cpu, less_memory);
        let names: BTreeSet<&String> = self.scalars.keys().chain(other.scalars.keys()).collect();
        let absent = if missing == Missing::Zero { 0.0 } else { INFINITY };
        for name in names {
            let of = |side: &Resources| side.scalars.get(name).copied().unwrap_or(absent);
            let (a, b) = (of(self), of(other));
            if missing == Missing::Infinity && a == INFINITY {
                more.scalars.insert(name.clone(), INFINITY);
            } else if missing == Missing::Infinity && b == INFINITY {
                less.scalars.insert(name.clone(), INFINITY);
            } else if a > b {
                more.scalars.insert(name.clone(), a - b);
            } else {
                less.scalars.insert(name.clone(), b - a);
            }
        }
        (more, less)
    }

    /// Amounts that are more here than there; zero where they are less.
    #[must_use]
    pub fn beyond(&self, other: &Resources) -> Resources {
        self.difference(other, Missing::Zero).0
    }

    /// Whether each that is named here is less, without tolerance.
    pub fn less(&self, other: &Resources, missing: Missing) -> bool {
        self.each(other, missing, |a, b| a < b)
    }

    /// Whether each that is named here is at most what is there, within the tolerance.
    pub fn less_equal(&self, other: &Resources, missing: Missing) -> bool {
        self.each(other, missing, at_most)
    }

    fn each(&self, other: &Resources, missing: Missing, holds: fn(f64, f64) -> bool) -> bool {
        let unbounded = missing == Missing::Infinity;
        let named = || other.scalars.keys().all(|name| self.scalars.contains_key(name));
        holds(self.milli_cpu, other.milli_cpu)
            && holds(self.memory, other.memory)
            && (!unbounded || named())
            && self.scalars.iter().all(|(name, amount)| match other.scalars.get(name) {
                None if unbounded => true,
                bound => holds(*amount, bound.copied().unwrap_or(0.0)),
            })
    }

    /// The resources named here of which there is more than there, beyond the tolerance.
    pub fn exceeding(&self, other: &Resources, missing: Missing) -> Vec<&str> {
        let skipped = |name: &str| {
            missing == Missing::Infinity
                && self.scalars.contains_key(name)
                && !other.scalars.contains_key(name)
        };
        let beyond =
            |&(name, amount): &(&str, f64)| !at_most(amount, other.get(name)) && !skipped(name);
        self.all().filter(beyond).map(|(name, _)| name).collect()
    }

    /// The resources that a request asks for and of which there is more than there, without tolerance;
    /// of all resources, within it, if there is no request. `pods` do not count.
    pub fn exceeding_of<'a>(
        &'a self,
        other: &Resources,
        request: Option<&'a Resources>,
    ) -> Vec<&'a str> {
        match request {
            Some(request) => self.beyond_of(other, request),
            None => self.exceeding(other, Missing::Zero),
        }
    }

    /// Resources that a request names; `pods` do not count.
    fn asked(&self) -> impl Iterator<Item = &str> {
        self.all().filter(|(name, amount)| *amount > 0.0 && *name != PODS).map(|(name, _)| name)
    }

    /// Whether there is less of any, without tolerance. A resource that only the other side names is
    /// less here, unless it is unbounded; one that only this side names is less than no bound.
    pub fn less_partly(&self, other: &Resources, missing: Missing) -> bool {
        self.any(other, missing, |a, b| a < b)
    }

    /// Whether there is at most as much of any, within the tolerance.
    pub fn less_equal_partly(&self, other: &Resources, missing: Missing) -> bool {
        self.any(other, missing, at_most)
    }

    fn any(&self, other: &Resources, missing: Missing, holds: fn(f64, f64) -> bool) -> bool {
        let unbounded = missing == Missing::Infinity;
        let lacking = || other.scalars.keys().any(|name| !self.scalars.contains_key(name));
        holds(self.milli_cpu, other.milli_cpu)
            || holds(self.memory, other.memory)
            || (!unbounded && lacking())
            || self.scalars.iter().any(|(name, amount)| match other.scalars.get(name) {
                None if unbounded => true,
                bound => holds(*amount, bound.copied().unwrap_or(0.0)),
            })
    }

    /// The resources that a request asks for and of which there is at most as much here.
    pub fn within_of<'a>(&self, other: &Resources, request: &'a Resources) -> Vec<&'a str> {
        request.asked().filter(|name| at_most(self.get(name), other.get(name))).collect()
    }

    /// [`Resources::within_of`] without those of which there is nothing on both sides.
    pub fn within_of_any<'a>(&self, other: &Resources, request: &'a Resources) -> Vec<&'a str> {
        let mut within = self.within_of(other, request);
        within.retain(|name| !self.is_zero(name) || !other.is_zero(name));
        within
    }

    /// The resources that a request asks for and of which there is more here, without tolerance.
    pub fn beyond_of<'a>(&self, other: &Resources, request: &'a Resources) -> Vec<&'a str> {
        request.asked().filter(|name| self.get(name) > other.get(name)).collect()
    }

    /// [`Resources::beyond_of`] without those that the other side does not name, or has no CPU or
    /// memory of.
    pub fn beyond_of_named<'a>(&self, other: &Resources, request: &'a Resources) -> Vec<&'a str> {
        let mut beyond = self.beyond_of(other, request);
        beyond.retain(|name| match *name {
            crate::model::CPU | crate::model::MEMORY => !other.is_zero(name),
            name => other.scalars.contains_key(name),
        });
        beyond
    }

    /// Whether CPU, memory and all others named here are equal, within the tolerance. Others that only
    /// the other side names are not looked at: what Volcano does.
    pub fn equals(&self, other: &Resources) -> bool {
        self.all().all(|(name, amount)| {
            let rest = amount - other.get(name);
            rest < TOLERANCE && -rest < TOLERANCE
        })
    }

    /// The resources of which there is any on both sides.
    pub fn common<'a>(&'a self, other: &Resources) -> Vec<&'a str> {
        let mut names = self.names();
        names.retain(|name| !other.is_zero(name));
        names
    }

    /// [`Resources::common`] without `pods`.
    pub fn common_but_pods<'a>(&'a self, other: &Resources) -> Vec<&'a str> {
        let mut names = self.common(other);
        names.retain(|name| *name != PODS);
        names
    }
}

/// A part over a whole; of nothing 1, or 0 if the part is nothing too.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { f64::from(u8::from(part != 0.0)) } else { part / whole }
}

/// The largest share over all resources of a whole.
pub fn dominant_share(part: &Resources, whole: &Resources) -> f64 {
    let shares = whole.names().into_iter().map(|name| share(part.get(name), whole.get(name)));
    shares.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
