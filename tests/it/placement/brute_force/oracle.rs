//! Brute force: whether there is any order and any choice of nodes.

use std::collections::BTreeSet;

use phalanx::framework::Evaluation;
use phalanx::{Cluster, Framework, Pod, PodGroup, Txn};

use super::random::*;

/// The nodes of each domain of a level, told apart by all levels above it.
pub(super) fn domains(cluster: &Cluster, key: &str, nodes: &[String]) -> Vec<Vec<String>> {
    let keys: Vec<&str> = match LEVELS.iter().position(|level| *level == key) {
        Some(level) => LEVELS[..=level].to_vec(),
        None => vec![key],
    };
    let path = |name: &String| -> Option<Vec<Option<String>>> {
        let node = cluster.node(name).unwrap();
        node.label(key)?;
        Some(keys.iter().map(|key| node.label(key).map(String::from)).collect())
    };
    let paths: BTreeSet<_> = nodes.iter().filter_map(path).collect();
    let of = |wanted: &Vec<Option<String>>| {
        nodes.iter().filter(|name| path(name).as_ref() == Some(wanted)).cloned().collect()
    };
    paths.iter().map(of).collect()
}

/// A leaf or a slice that is to be placed, where, and how much of it.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) pods: Vec<Pod>,
    pub(super) nodes: Vec<String>,
    pub(super) need: usize,
}

/// Every way to decide on domains and on which groups to place.
pub(super) fn ways(cluster: &Cluster, group: &PodGroup, nodes: &[String]) -> Vec<Vec<Task>> {
    let topology = &group.topology;
    let places = match (&topology.require, &topology.prefer) {
        (Some(key), _) => domains(cluster, key, nodes),
        // A preference gives way up to the whole.
        (None, _) => vec![nodes.to_vec()],
    };
    let need = group.policy.minimum() as usize;
    let mut all = Vec::new();
    for nodes in places {
        if let Some(slice) = topology.slices.first() {
            let slices: Vec<Vec<Pod>> =
                group.pods.chunks(slice.size as usize).map(<[Pod]>::to_vec).collect();
            let mut partial: Vec<(usize, Vec<Task>)> = vec![(0, Vec::new())];
            for pods in slices {
                let mut next = partial.clone();
                for (count, tasks) in &partial {
                    for nodes in domains(cluster, &slice.level, &nodes) {
                        let mut tasks = tasks.clone();
                        tasks.push(Task { pods: pods.clone(), nodes, need: pods.len() });
                        next.push((count + pods.len(), tasks));
                    }
                }
                partial = next;
            }
            all.extend(partial.into_iter().filter(|(count, _)| *count >= need).map(|(_, t)| t));
        } else if group.groups.is_empty() {
            all.push(vec![Task { pods: group.pods.clone(), nodes, need }]);
        } else {
            let mut partial: Vec<(usize, Vec<Task>)> = vec![(0, Vec::new())];
            for inner in &group.groups {
                let mut next = partial.clone();
                let inner_ways = ways(cluster, inner, &nodes);
                for (count, tasks) in &partial {
                    for way in &inner_ways {
                        next.push((count + 1, [tasks.clone(), way.clone()].concat()));
                    }
                }
                partial = next;
            }
            all.extend(partial.into_iter().filter(|(count, _)| *count >= need).map(|(_, t)| t));
        }
    }
    all
}

/// Whether some order and choice of nodes passes every filter at every step.
pub(super) fn feasible(
    cluster: &Cluster,
    framework: &Framework,
    group: &PodGroup,
    far: bool,
) -> bool {
    let nodes: Vec<String> = cluster.nodes().map(|node| node.name().to_string()).collect();
    ways(cluster, group, &nodes).into_iter().any(|tasks| {
        if tasks.iter().any(|task| task.need > task.pods.len()) {
            return false;
        }
        let mut txn = cluster.txn();
        let mut places: Vec<Vec<(usize, usize)>> = vec![Vec::new(); tasks.len()];
        let mut seen = BTreeSet::new();
        walk(&mut txn, framework, &tasks, &mut places, &mut seen, far)
    })
}

pub(super) fn walk(
    txn: &mut Txn,
    framework: &Framework,
    tasks: &[Task],
    places: &mut Vec<Vec<(usize, usize)>>,
    seen: &mut BTreeSet<Vec<Vec<(usize, usize)>>>,
    far: bool,
) -> bool {
    if tasks.iter().zip(&*places).all(|(task, placed)| placed.len() >= task.need) {
        return true;
    }
    for (number, task) in tasks.iter().enumerate() {
        // Where order cannot matter, earlier tasks are finished first and pods go in order.
        let done = |n: usize| places[n].len() >= tasks[n].need;
        if !far && (done(number) || (0..number).any(|before| !done(before))) {
            continue;
        }
        for (index, pod) in task.pods.iter().enumerate() {
            let taken = |index: usize| places[number].iter().any(|(other, _)| *other == index);
            let ordered = far || places[number].iter().all(|(other, _)| *other < index);
            let twin_first =
                (0..index).any(|other| !taken(other) && task.pods[other].shape() == pod.shape());
            if taken(index) || !ordered || twin_first && far {
                continue;
            }
            for (place, node) in task.nodes.iter().enumerate() {
                let view = txn.node(node).unwrap();
                let judged =
                    Evaluation::new(framework, txn, pod.shape(), None, phalanx::Time::ZERO);
                if judged.filter(view).is_err() {
                    continue;
                }
                let id = view.id();
                let before = txn.checkpoint();
                txn.place(pod, id).unwrap();
                places[number].push((index, place));
                let mut state = places.clone();
                for list in &mut state {
                    list.sort_unstable();
                }
                let found = seen.insert(state) && walk(txn, framework, tasks, places, seen, far);
                places[number].pop();
                txn.rollback(before).unwrap();
                if found {
                    return true;
                }
            }
        }
    }
    false
}

pub(super) fn counts(group: &PodGroup, placed: &BTreeSet<String>) -> bool {
    let have = if group.groups.is_empty() {
        group.pods.iter().filter(|pod| placed.contains(&pod.name)).count()
    } else {
        group.groups.iter().filter(|inner| counts(inner, placed)).count()
    };
    have >= group.policy.minimum() as usize
}
