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
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
    let back = |n: u64| (0..n / 2).rev().map(|at| 2 * at).chain((0..n / 2).map(|at| 2 * at + 1));
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
