//! The parts that a gang group falls into when a group leaves it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::queue::terms::ids::GroupId;

/// The groups that a group names or is named by, found one by one; some perhaps twice.
pub(in crate::queue) type Neighbours<'a> = Box<dyn Iterator<Item = GroupId> + 'a>;

/// The remaining parts of a gang group.
#[derive(Debug, Default)]
pub(in crate::queue) struct Components {
    /// The first neighbour of the group that left in each part, and the groups of the part. Those
    /// of the last part may be missing.
    pub(in crate::queue) parts: Vec<(GroupId, Vec<GroupId>)>,
    /// Number of groups looked at.
    pub(in crate::queue) checked: u64,
}

impl Components {
    /// The parts that the neighbours of a group fall into without it.
    ///
    /// A search begins at each neighbour. The searches take turns, a group at a time; two that meet
    /// become one, and the last one left is not finished. So a split costs as much as the smaller
    /// parts, O(n log n) groups in all while n groups that form a forest are removed. Where the
    /// group held nothing together it costs as much as the searches take to meet.
    pub(in crate::queue) fn new<'a>(
        open: &BTreeSet<GroupId>,
        neighbours: impl Fn(GroupId) -> Neighbours<'a>,
    ) -> Components {
        let Components { mut parts, mut checked } = Components::default();
        let searches = open.iter().map(|group| Some(Search::new(*group)));
        let mut searches: Vec<Option<Search<'a>>> = searches.collect();
        let numbers = open.iter().zip(0..);
        let mut search_of: BTreeMap<GroupId, usize> = numbers.map(|(id, at)| (*id, at)).collect();
        // The search that each has joined; itself, if none.
        let mut joined: Vec<usize> = (0..searches.len()).collect();
        let mut turns: VecDeque<usize> = (0..searches.len()).collect();
        while turns.len() > 1
            && let Some(at) = turns.pop_front()
        {
            // A search that joined another has no turn any more.
            let Some(search) = &mut searches[at] else { continue };
            let Some(group) = search.next(&neighbours) else {
                parts.extend(searches[at].take().map(|search| (search.first, search.found)));
                continue;
            };
            turns.push_back(at);
            checked += 1;
            let Some(&met) = search_of.get(&group) else {
                search_of.insert(group, at);
                search.insert(group);
                continue;
            };
            let met = last_of(&mut joined, met);
            let size = |at: usize| searches[at].as_ref().map_or(0, |search| search.found.len());
            let (from, into) = if size(at) > size(met) { (met, at) } else { (at, met) };
            if from != into
                && let Some(small) = searches[from].take()
                && let Some(large) = &mut searches[into]
            {
                large.join(small);
                joined[from] = into;
            }
        }
        parts.extend(searches.into_iter().flatten().map(|search| (search.first, search.found)));
        Components { parts, checked }
    }
}

/// The last of a chain of searches that joined each other; halves the chain on the way.
fn last_of(joined: &mut [usize], mut at: usize) -> usize {
    while joined[at] != at {
        joined[at] = joined[joined[at]];
        at = joined[at];
    }
    at
}

/// A search of the groups that hang together with a neighbour.
struct Search<'a> {
    /// The first of the neighbours it began at.
    first: GroupId,
    found: Vec<GroupId>,
    /// Groups found whose neighbours have not been looked at.
    waiting: VecDeque<GroupId>,
    /// The neighbours of the others that are left.
    under_way: VecDeque<Neighbours<'a>>,
}

impl<'a> Search<'a> {
    fn new(first: GroupId) -> Search<'a> {
        let (found, waiting) = (Vec::from([first]), VecDeque::from([first]));
        Search { first, found, waiting, under_way: VecDeque::new() }
    }

    fn insert(&mut self, group: GroupId) {
        self.found.push(group);
        self.waiting.push_back(group);
    }

    /// The next neighbour of a group found; `None` if there is no other.
    fn next(&mut self, neighbours: impl Fn(GroupId) -> Neighbours<'a>) -> Option<GroupId> {
        loop {
            if let Some(current) = self.under_way.front_mut() {
                if let Some(group) = current.next() {
                    return Some(group);
                }
                self.under_way.pop_front();
            } else {
                self.under_way.push_back(neighbours(self.waiting.pop_front()?));
            }
        }
    }

    fn join(&mut self, other: Search<'a>) {
        self.first = self.first.min(other.first);
        self.found.extend(other.found);
        self.waiting.extend(other.waiting);
        self.under_way.extend(other.under_way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Graph = BTreeMap<GroupId, BTreeSet<GroupId>>;

    fn graph(edges: impl IntoIterator<Item = (u64, u64)>) -> Graph {
        let mut graph = Graph::new();
        for (one, other) in edges {
            graph.entry(one).or_default().insert(other);
            graph.entry(other).or_default().insert(one);
        }
        graph
    }

    /// Removes a vertex; the parts of its neighbours, checked against a plain search.
    fn remove(graph: &mut Graph, vertex: u64) -> u64 {
        let open = graph.remove(&vertex).unwrap_or_default();
        for near in graph.values_mut() {
            near.remove(&vertex);
        }
        let near = |id| -> Neighbours<'_> { Box::new(graph[&id].iter().copied()) };
        let found = Components::new(&open, near);
        let mut expected = BTreeSet::new();
        for &first in &open {
            let mut part = BTreeSet::from([first]);
            let mut next = Vec::from([first]);
            while let Some(id) = next.pop() {
                next.extend(graph[&id].iter().copied().filter(|group| part.insert(*group)));
            }
            let first = open.iter().find(|group| part.contains(group)).copied();
            expected.insert((first.unwrap(), part));
        }
        assert_eq!(found.parts.len(), expected.len());
        for (at, (first, groups)) in found.parts.iter().enumerate() {
            let (_, part) = expected.iter().find(|(known, _)| known == first).unwrap();
            let groups: BTreeSet<GroupId> = groups.iter().copied().collect();
            if at + 1 < found.parts.len() {
                assert_eq!(groups, *part);
            } else {
                assert!(groups.is_subset(part));
            }
        }
        found.checked
    }

    #[test]
    fn parts_are_those_of_a_plain_search() {
        let mut state = 7_u64;
        let mut below = |end: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        for round in 0..300 {
            let groups = 2 + round % 14;
            let edges = below(2 * groups);
            let edges: Vec<_> = (0..edges).map(|_| (below(groups), below(groups))).collect();
            let edges = edges.into_iter().filter(|(one, other)| one != other);
            let mut graph = graph(edges);
            while let Some(&last) = graph.keys().nth(below(graph.len().max(1) as u64) as usize) {
                remove(&mut graph, last);
            }
        }
    }

    /// Groups looked at while all groups of a graph are removed in some order.
    fn cost(mut graph: Graph, order: impl IntoIterator<Item = u64>) -> u64 {
        order.into_iter().map(|vertex| remove(&mut graph, vertex)).sum()
    }

    #[test]
    fn removing_all_groups_costs_in_proportion_to_them() {
        let chain = |n: u64| graph((1..n).map(|id| (id - 1, id)));
        let ring = |n: u64| graph((0..n).map(|id| (id, (id + 1) % n)));
        let star = |n: u64| graph((1..n).map(|id| (0, id)));
        let hubs = |n: u64| graph((2..n).flat_map(|id| [(0, id), (1, id)]));
        // Each removal but one from the end leaves a long part and a short one.
        let near_ends =
            |n: u64| (0..n / 2).map(move |at| 2 * at + 1).chain((0..n / 2).map(|at| 2 * at));
        let back =
            |n: u64| (0..n / 2).rev().map(|at| 2 * at).chain((0..n / 2).map(|at| 2 * at + 1));
        let costs = |n: u64| {
            [
                cost(chain(n), near_ends(n)),
                cost(chain(n), back(n)),
                cost(ring(n), near_ends(n)),
                cost(ring(n), back(n)),
                cost(star(n), 0..n),
                cost(star(n), (0..n).rev()),
                cost(hubs(n), 0..n),
                cost(hubs(n), (0..n).rev()),
            ]
        };
        let (few, many) = (costs(64), costs(256));
        for (few, many) in few.into_iter().zip(many) {
            assert!(many < 6 * few.max(64), "{few} groups looked at become {many}");
        }
    }
}
