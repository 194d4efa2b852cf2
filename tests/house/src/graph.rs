//! Circles of a graph.

use std::collections::{BTreeMap, BTreeSet};

/// Edges of a graph: for each node, the nodes it points to, with a label each.
pub type Edges<T> = Vec<BTreeMap<usize, T>>;

/// Groups of more than one node that reach each other, each in order.
#[must_use]
pub fn circles<T>(edges: &[BTreeMap<usize, T>]) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..edges.len())
        .map(|start| {
            let mut seen = BTreeSet::new();
            let mut next = vec![start];
            while let Some(at) = next.pop() {
                next.extend(edges[at].keys().copied().filter(|other| seen.insert(*other)));
            }
            seen
        })
        .collect();
    let mut circles: Vec<Vec<usize>> = (0..edges.len())
        .map(|at| reach[at].iter().copied().filter(|other| reach[*other].contains(&at)).collect())
        .filter(|circle: &Vec<usize>| circle.len() > 1)
        .collect();
    circles.sort();
    circles.dedup();
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found() {
        let of = |pairs: &[(usize, usize)]| {
            let mut edges = vec![BTreeMap::new(); 6];
            for (from, to) in pairs {
                edges[*from].insert(*to, ());
            }
            circles(&edges)
        };
        assert_eq!(of(&[(0, 1), (1, 2), (0, 2), (3, 2), (4, 4)]), [[0; 0]; 0]);
        assert_eq!(
            of(&[(0, 1), (1, 0), (2, 3), (3, 4), (4, 2), (4, 5)]),
            [vec![0, 1], vec![2, 3, 4]]
        );
    }
}
