//! An attempt to preempt.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use super::candidates::{by_node, candidates, sort};
use super::input::{Allocation, Attempt, AttemptOutcome};
use phalanx::quota::yunikorn::{
    Guarantees, Resource, is_over_guarantee, is_under_guarantee, resources,
};

/// Solutions that are asked of the shim before the best of them is taken.
const BATCH: usize = 10;
const ORIGINATOR: u64 = 1 << 33;
const OPTED_OUT: u64 = 1 << 34;
const UNFIT: u64 = 1 << 35;
const GOOD: u64 = 1 << 32;

/// Victims on one node, and how many of them make room, less one; −1 if there is room.
struct Solution<'a> {
    node: &'a str,
    victims: Vec<&'a Allocation>,
    index: i64,
}

impl Attempt {
    #[allow(clippy::unnecessary_wraps, reason = "amounts may be absent everywhere")]
    fn ask(&self) -> Option<&Resource> {
        Some(&self.ask.resource)
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees::new(&self.queues, Some(&self.ask.queue))
    }

    /// Whether taking all candidates would leave the queue that asks within its guarantee, with what
    /// is asked for. A queue without a guarantee on its path is not.
    pub fn checks_guarantees(&self) -> bool {
        let left = self.guarantees();
        self.is_possible(&left, &candidates(self, &left))
    }

    fn is_possible(&self, left: &Guarantees, candidates: &[&Allocation]) -> bool {
        let before = left.remaining(&self.ask.queue);
        if before.is_some() && resources::fits_actual(before.as_ref(), self.ask()) {
            return true;
        }
        let mut left = left.clone();
        left.add(&self.ask.queue, &self.ask.resource);
        candidates.iter().any(|own| {
            left.take(&own.queue, &own.resource);
            is_under_guarantee(self.ask(), left.remaining(&self.ask.queue).as_ref())
        })
    }

    /// Looks for a node and victims; `None` if there are none that do.
    pub fn run(&self) -> Option<AttemptOutcome> {
        let left = self.guarantees();
        let candidates = candidates(self, &left);
        if !self.is_possible(&left, &candidates) {
            return None;
        }
        let nodes = by_node(&candidates);
        let free: BTreeMap<&str, Resource> =
            self.nodes.iter().map(|node| (node.id.as_str(), self.free(&node.id))).collect();
        let mut solutions: Vec<Solution<'_>> = Vec::new();
        for node in &self.nodes {
            if !resources::fits(Some(&node.total), self.ask()) {
                continue;
            }
            let own = nodes.get(&node.id).map_or(&[][..], Vec::as_slice);
            let found = self.on_node(&free[node.id.as_str()], own, &left);
            solutions.extend(found.map(|(index, victims)| Solution {
                node: &node.id,
                victims,
                index,
            }));
        }
        let best = self.best(solutions, &nodes)?;
        let taken = usize::try_from(best.index + 1).unwrap_or(0);
        let mut victims: Vec<&Allocation> = best.victims.get(..taken)?.to_vec();
        victims.extend(self.additional(&left, &candidates, &victims)?);
        if victims.is_empty() {
            return None;
        }
        let victims = self.trimmed(&victims, best.node, &free[best.node])?;
        if victims.iter().any(|own| own.released_meanwhile) {
            return None;
        }
        let victims = victims.into_iter().map(|own| own.key.clone()).collect();
        Some(AttemptOutcome { node: best.node.into(), victims })
    }

    /// Free resources of a node.
    fn free(&self, id: &str) -> Resource {
        let Some(node) = self.nodes.iter().rev().find(|node| node.id == id) else {
            return Resource::new();
        };
        let mut free = resources::subtract(Some(&node.total), Some(&node.occupied));
        for own in self.allocations.iter().filter(|own| node.allocations.contains(&own.key)) {
            free = resources::subtract(Some(&free), Some(&own.resource));
        }
        free
    }

    /// Victims on a node, in order, and how many of them make room.
    fn on_node<'a>(
        &self,
        free: &Resource,
        candidates: &[&'a Allocation],
        left: &Guarantees,
    ) -> Option<(i64, Vec<&'a Allocation>)> {
        if resources::fits(Some(free), self.ask()) {
            return Some((-1, Vec::new()));
        }
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let (mut room, mut moved) = (free.clone(), left.clone());
        for own in candidates {
            let before = moved.remaining(&own.queue);
            if !self.is_over(before.as_ref()) {
                continue;
            }
            moved.take(&own.queue, &own.resource);
            moved.add(&self.ask.queue, &own.resource);
            let after = moved.remaining(&self.ask.queue);
            let put_back = |moved: &mut Guarantees| {
                moved.take(&self.ask.queue, &own.resource);
                moved.add(&own.queue, &own.resource);
            };
            if after.is_some() && !is_under_guarantee(self.ask(), after.as_ref()) {
                put_back(&mut moved);
                break;
            }
            let more = resources::add(Some(&room), Some(&own.resource));
            let missing = |room: &Resource| resources::shortfall(self.ask(), Some(room));
            if resources::equal_or_zero(Some(&missing(&room)), Some(&missing(&more))) {
                put_back(&mut moved);
                tail.push(*own);
            } else {
                room = more;
                head.push(*own);
            }
        }
        head.extend(tail);
        let (mut room, mut moved) = (free.clone(), left.clone());
        let (mut index, mut victims) = (None, Vec::new());
        for own in head {
            if !self.is_over(moved.remaining(&own.queue).as_ref()) {
                continue;
            }
            moved.take(&own.queue, &own.resource);
            room = resources::add(Some(&room), Some(&own.resource));
            if resources::fits(Some(&room), self.ask()) && index.is_none() {
                index = Some(victims.len() as i64);
            }
            victims.push(own);
        }
        Some((index?, victims))
    }

    /// Whether a queue with so much left of its guarantee may lose something that is asked for.
    fn is_over(&self, left: Option<&Resource>) -> bool {
        left.is_none() || is_over_guarantee(self.ask(), left)
    }

    /// The best solution that the shim lets pass, with as many victims as it says.
    fn best<'a>(
        &self,
        mut solutions: Vec<Solution<'a>>,
        nodes: &BTreeMap<String, Vec<&Allocation>>,
    ) -> Option<Solution<'a>> {
        solutions.sort_by(|a, b| (a.index, a.node).cmp(&(b.index, b.node)));
        let Some(predicates) = &self.predicates else { return solutions.into_iter().next() };
        let mut best: Option<(u64, Solution<'a>)> = None;
        for (asked, mut own) in solutions.into_iter().enumerate() {
            if asked > 0
                && asked % BATCH == 0
                && best.as_ref().is_some_and(|(score, _)| *score < GOOD)
            {
                break;
            }
            if own.victims.is_empty() {
                let only = predicates.allocations.get(&self.ask.key);
                if only.is_none_or(|only| only != own.node) {
                    continue;
                }
            } else {
                let keys: Vec<&String> = own.victims.iter().map(|own| &own.key).collect();
                let answer = predicates.preemptions.iter().find(|answer| {
                    answer.ask == self.ask.key
                        && answer.node == own.node
                        && answer.start_index == own.index
                        && answer.victims.iter().collect::<Vec<_>>() == keys
                });
                let Some(answer) = answer.filter(|answer| answer.success) else { continue };
                own.index = answer.result_index;
            }
            let score = score(own.index, nodes.get(own.node).map(Vec::as_slice));
            if best.as_ref().is_none_or(|(least, _)| score < *least) {
                best = Some((score, own));
            }
        }
        best.map(|(_, best)| best)
    }

    /// Victims anywhere, so that the queue that asks comes within its guarantee; `None` if it does not.
    fn additional<'a>(
        &self,
        left: &Guarantees,
        candidates: &[&'a Allocation],
        chosen: &[&Allocation],
    ) -> Option<Vec<&'a Allocation>> {
        let mut moved = left.clone();
        for own in chosen {
            moved.take(&own.queue, &own.resource);
        }
        let is_chosen = |own: &&&Allocation| chosen.iter().any(|chosen| chosen.key == own.key);
        let mut others: Vec<&Allocation> =
            candidates.iter().filter(|own| !is_chosen(own)).copied().collect();
        sort(&mut others);
        let mut victims = Vec::new();
        for own in others {
            if !self.is_over(moved.remaining(&own.queue).as_ref()) {
                continue;
            }
            moved.take(&own.queue, &own.resource);
            let before = moved.remaining(&self.ask.queue);
            moved.add(&self.ask.queue, &own.resource);
            let after = moved.remaining(&self.ask.queue);
            let put_back = |moved: &mut Guarantees| {
                moved.take(&self.ask.queue, &own.resource);
                moved.add(&own.queue, &own.resource);
            };
            if after.is_some() && !is_under_guarantee(self.ask(), after.as_ref()) {
                put_back(&mut moved);
                break;
            }
            if resources::equal_or_zero(before.as_ref(), after.as_ref()) {
                put_back(&mut moved);
            } else {
                victims.push(own);
            }
        }
        let end = moved.remaining(&self.ask.queue);
        is_under_guarantee(self.ask(), end.as_ref()).then_some(victims)
    }

    /// As many victims as the ask needs, on its node unless there is room on it already; `None` if
    /// they do not suffice. Only types that the ask and the victims both name are looked at.
    fn trimmed<'a>(
        &self,
        victims: &[&'a Allocation],
        node: &str,
        free: &Resource,
    ) -> Option<Vec<&'a Allocation>> {
        let anywhere = resources::fits(Some(free), self.ask());
        let (mut taken, mut kept) = (Resource::new(), Vec::new());
        for own in victims.iter().filter(|own| anywhere || own.node == node) {
            if resources::is_greater_existing(self.ask(), Some(&taken)) {
                kept.push(*own);
            }
            taken = resources::add(Some(&taken), Some(&own.resource));
        }
        (!resources::is_greater_existing(self.ask(), Some(&taken))).then_some(kept)
    }
}

/// How bad a solution is: the first candidates of its node, as many as it takes.
fn score(index: i64, candidates: Option<&[&Allocation]>) -> u64 {
    let Some(candidates) = candidates else { return UNFIT };
    let Ok(index) = usize::try_from(index) else { return 0 };
    let Some(first) = candidates.get(..=index) else { return UNFIT };
    let flags = first.iter().fold(0, |flags, own| {
        flags
            | if own.originator { ORIGINATOR } else { 0 }
            | if own.allow_preempt_self { 0 } else { OPTED_OUT }
    });
    flags + index as u64 + 1
}

impl AttemptOutcome {
    /// Whether an allocation is a victim.
    pub fn takes(&self, key: &str) -> bool {
        self.victims.iter().any(|own: &String| own == key)
    }
}
