//! Events of a cluster from outside: nodes fail and come back, bindings take time.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::random::Random;
use crate::base::Time;
use crate::model::Node;
use crate::state::Plan;

/// The reactions of the simulated cluster to decisions, and its own events.
pub trait World {
    /// The fate of a plan that goes out to be bound. The default binds at once.
    fn bind(&mut self, plan: &Plan, now: Time) -> Binding {
        let _ = (plan, now);
        Binding::default()
    }

    /// The next change of a node, in order of time. It is asked for again once the one before has
    /// happened. The default has none.
    fn next_node_change(&mut self) -> Option<(Time, NodeChange)> {
        None
    }
}

/// The fate of a plan that goes out to be bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Binding {
    /// How long it takes until the result is known.
    pub after: Duration,
    /// The member that its node refuses, by its place in the plan.
    pub refused: Option<usize>,
}

/// A change of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum NodeChange {
    /// The node fails, and with it every job that has a pod on it: those begin anew.
    Down(String),
    /// The node comes, comes back, or changes: a taint, say.
    Up(Node),
}

/// A world in which nothing fails and nothing takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Perfect;

impl World for Perfect {}

/// Random faults: bindings take their time and are refused now and then, nodes fail and are
/// repaired.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Faults {
    /// Numbers to draw from.
    pub random: Random,
    /// The longest time that a binding takes.
    pub binding: Duration,
    /// One plan in so many is refused; zero means none.
    pub refused_one_in: u64,
    /// Changes of nodes to come, the last first.
    changes: Vec<(Time, NodeChange)>,
}

impl Faults {
    /// Faults drawn from a generator; none as yet.
    pub fn new(random: Random) -> Faults {
        Faults { random, binding: Duration::ZERO, refused_one_in: 0, changes: Vec::new() }
    }

    /// Sets the longest time that a binding takes.
    #[must_use]
    pub fn binding(mut self, longest: Duration) -> Faults {
        self.binding = longest;
        self
    }

    /// Lets one plan in so many be refused.
    #[must_use]
    pub fn refused_one_in(mut self, plans: u64) -> Faults {
        self.refused_one_in = plans;
        self
    }

    /// Lets nodes fail `count` times before `until`, at random, each for up to `repair`. A node
    /// that is down does not fail again.
    #[must_use]
    pub fn failures(
        mut self,
        nodes: &[Node],
        count: usize,
        until: Time,
        repair: Duration,
    ) -> Faults {
        let mut times: Vec<(Time, usize)> = (0..count)
            .map(|_| {
                let at = Time::from_nanos(self.random.below(until.as_nanos()));
                (at, self.random.below(nodes.len() as u64) as usize)
            })
            .collect();
        times.sort_unstable();
        let mut back = alloc::vec![Time::ZERO; nodes.len()];
        for (at, index) in times {
            let (Some(node), Some(back)) = (nodes.get(index), back.get_mut(index)) else {
                continue;
            };
            if at < *back {
                continue;
            }
            let longest = u64::try_from(repair.as_nanos()).unwrap_or(u64::MAX);
            *back = at.after(Duration::from_nanos(self.random.within(1, longest.max(1))));
            self.changes.push((at, NodeChange::Down(node.name.clone())));
            self.changes.push((*back, NodeChange::Up(node.clone())));
        }
        self.changes.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
        self
    }
}

impl World for Faults {
    fn bind(&mut self, plan: &Plan, _: Time) -> Binding {
        let longest = u64::try_from(self.binding.as_nanos()).unwrap_or(u64::MAX);
        let after = Duration::from_nanos(self.random.within(0, longest));
        let refused = self.refused_one_in > 0 && self.random.below(self.refused_one_in) == 0;
        let refused = refused.then(|| self.random.below(plan.len() as u64) as usize);
        Binding { after, refused }
    }

    fn next_node_change(&mut self) -> Option<(Time, NodeChange)> {
        self.changes.pop()
    }
}
