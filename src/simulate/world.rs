//! Events of a cluster from outside: nodes fail and come back, bindings take time.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::random::Random;
use crate::base::Time;
use crate::model::Node;
use crate::queue::Scheduler;
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

    /// Changes of nodes that follow from the scheduler's state at the end of an instant: an autoscaler's.
    /// They take the place of those from the instant before. The default has none.
    fn react(&mut self, scheduler: &Scheduler, now: Time) -> Vec<(Time, NodeChange)> {
        let _ = (scheduler, now);
        Vec::new()
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
#[non_exhaustive]
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
    /// Nodes that fail, with the times from which and until which they are down, in order.
    outages: BTreeMap<String, (Node, Vec<(Time, Time)>)>,
    /// Changes of nodes to come, the last first.
    changes: Vec<(Time, NodeChange)>,
}

impl Faults {
    /// Faults drawn from a generator; none as yet.
    pub fn new(random: Random) -> Faults {
        let (outages, changes) = (BTreeMap::new(), Vec::new());
        Faults { random, binding: Duration::ZERO, refused_one_in: 0, outages, changes }
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
        let each: Vec<Vec<&Node>> = nodes.iter().map(|node| alloc::vec![node]).collect();
        self.fail(&each, count, until, repair);
        self
    }

    /// Lets domains of a label fail `count` times before `until`, at random, each for up to `repair`:
    /// racks that lose power, switches. All nodes of the domain go at one moment, and come back at
    /// one, but for those that are down for another reason as well. Nodes without the label stay.
    ///
    /// ```
    /// use core::time::Duration;
    /// use phalanx::simulate::{Faults, NodeChange, Random, World};
    /// use phalanx::{Node, Time};
    ///
    /// let node = |name, rack| Node::new(name).label("rack", rack);
    /// let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b")];
    /// let (until, repair) = (Time::from_secs(100), Duration::from_secs(10));
    /// let mut faults = Faults::new(Random::new(2)).domain_failures("rack", &nodes, 1, until, repair);
    /// let (mut down, mut at) = (Vec::new(), Vec::new());
    /// while let Some((time, change)) = faults.next_node_change() {
    ///     if let NodeChange::Down(name) = change {
    ///         down.push(name);
    ///         at.push(time);
    ///     }
    /// }
    /// assert!(down == ["n1", "n2"] && at[0] == at[1] || down == ["n3"]);
    /// ```
    #[must_use]
    pub fn domain_failures(
        mut self,
        label: &str,
        nodes: &[Node],
        count: usize,
        until: Time,
        repair: Duration,
    ) -> Faults {
        let mut domains: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in nodes {
            if let Some(value) = node.labels.get(label) {
                domains.entry(value).or_default().push(node);
            }
        }
        let domains: Vec<Vec<&Node>> = domains.into_values().collect();
        self.fail(&domains, count, until, repair);
        self
    }

    /// Lets domains fail at random. One that is down does not fail again.
    fn fail(&mut self, domains: &[Vec<&Node>], count: usize, until: Time, repair: Duration) {
        let mut times: Vec<(Time, usize)> = (0..count)
            .map(|_| {
                let at = Time::from_nanos(self.random.below(until.as_nanos()));
                (at, self.random.below(domains.len() as u64) as usize)
            })
            .collect();
        times.sort_unstable();
        let mut back = alloc::vec![Time::ZERO; domains.len()];
        for (at, index) in times {
            let (Some(domain), Some(back)) = (domains.get(index), back.get_mut(index)) else {
                continue;
            };
            if at < *back {
                continue;
            }
            let longest = u64::try_from(repair.as_nanos()).unwrap_or(u64::MAX);
            *back = at.after(Duration::from_nanos(self.random.within(1, longest.max(1))));
            for node in domain {
                let (_, spans) = self
                    .outages
                    .entry(node.name.clone())
                    .or_insert_with(|| ((*node).clone(), Vec::new()));
                spans.push((at, *back));
            }
        }
        self.changes.clear();
        for (name, (node, spans)) in &mut self.outages {
            spans.sort_unstable();
            // Outages that meet are one.
            spans.dedup_by(|next, last| {
                let meets = next.0 <= last.1;
                if meets {
                    last.1 = last.1.max(next.1);
                }
                meets
            });
            for (down, up) in spans {
                self.changes.push((*down, NodeChange::Down(name.clone())));
                self.changes.push((*up, NodeChange::Up(node.clone())));
            }
        }
        self.changes.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
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
