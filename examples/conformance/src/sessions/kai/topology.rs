//! Nodes that pods may go to together, by topology.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use super::state::{CPU, GPU, MEMORY, State};
use super::world::{Gpu, Pod, TopologyConstraint, World};
use phalanx::quota::kai::Ratio;

/// Nodes that pods may go to.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    pub(super) nodes: Vec<usize>,
    /// Tens of thousands that topology adds to scores.
    pub(super) bonus: BTreeMap<usize, i64>,
}

/// Nodes with the same labels of the levels down to one.
#[derive(Debug, Clone)]
struct Domain {
    /// The labels, from the widest level.
    path: Vec<String>,
    nodes: Vec<usize>,
    /// How many pods it has room for.
    room: i64,
    /// Free amounts, now or once others are gone.
    free: [i64; 3],
}

impl Domain {
    /// How much of what is free an amount takes, of the resource it takes most of.
    fn tightness(&self, amounts: [i64; 3]) -> Ratio {
        let ratios = amounts.into_iter().zip(self.free).filter(|(amount, _)| *amount > 0);
        let ratio = |(amount, free): (i64, i64)| match free {
            1.. => Ratio::new(amount, free),
            _ => Ratio::INFINITE,
        };
        ratios
            .map(ratio)
            .fold(Ratio::NONE, |most, own| if own.compare(most).is_gt() { own } else { most })
    }
}

/// Sets of nodes for some pods, in the order in which they are tried; the given ones if there is no
/// constraint.
///
/// Domains of the preferred level come first, then wider ones up to the required level; the tighter
/// ones first. In a domain, nodes of roomier domains of the preferred level go first.
pub(super) fn node_sets(
    world: &World,
    state: &State,
    (job, pods): (usize, &[usize]),
    sets: &[&str],
    constraint: Option<&TopologyConstraint>,
    nodes: &Nodes,
) -> Vec<Nodes> {
    let constraint =
        constraint.filter(|own| !own.topology.is_empty() && world.rules.has("topology"));
    let Some(constraint) = constraint else { return std::vec![nodes.clone()] };
    let topology = world.topologies.iter().find(|own| own.name == constraint.topology);
    let Some(topology) = topology else { return Vec::new() };
    let level = |name: &Option<String>| match name {
        None => Some(None),
        Some(name) => topology.levels.iter().position(|own| own == name).map(Some),
    };
    let (Some(required), Some(preferred)) =
        (level(&constraint.required), level(&constraint.preferred))
    else {
        return Vec::new();
    };
    if pods.is_empty() {
        return std::vec![nodes.clone()];
    }
    let requests: Vec<[i64; 3]> =
        pods.iter().map(|&pod| amounts(&world.jobs[job].pods[pod])).collect();
    let alike = requests.iter().all(|own| *own == requests[0]);
    let (mut largest, mut sum) = ([0; 3], [0; 3]);
    for own in &requests {
        for at in [CPU, MEMORY, GPU] {
            largest[at] = own[at].max(largest[at]);
            sum[at] += own[at];
        }
    }
    let fits = |domain: &Domain| {
        if alike {
            domain.room >= pods.len() as i64
        } else {
            domain.tightness(sum).compare(Ratio::new(1, 1)).is_le()
        }
    };
    // By depth: 0 is everything.
    let labels = |node: usize| -> Option<Vec<String>> {
        let labels = &world.nodes[node].labels;
        topology.levels.iter().map(|level| labels.get(level).cloned()).collect()
    };
    let mut levels: Vec<BTreeMap<Vec<String>, Domain>> =
        std::vec![BTreeMap::new(); topology.levels.len() + 1];
    for &node in &nodes.nodes {
        let Some(labels) = labels(node) else { continue };
        let free = state.view(world, node).free;
        let room = room(free, largest, pods.len());
        for (depth, level) in levels.iter_mut().enumerate() {
            let path = labels[..depth].to_vec();
            let new = Domain { path: path.clone(), nodes: Vec::new(), room: 0, free: [0; 3] };
            let domain = level.entry(path).or_insert(new);
            domain.nodes.push(node);
            domain.room += room;
            for (own, amount) in domain.free.iter_mut().zip(free) {
                *own += amount;
            }
        }
    }
    let widest = required.map_or(0, |level| level + 1);
    let narrowest = preferred.map_or(widest, |level| (level + 1).max(widest));
    let placed: Vec<usize> = (world.jobs[job].pods.iter().zip(&state.pods[job]))
        .filter(|(spec, now)| {
            sets.contains(&spec.pod_set.as_str()) && now.state.is_active_allocated()
        })
        .filter_map(|(_, now)| now.node)
        .collect();
    let pinned = |domain: &Domain| {
        required.is_none()
            || placed.is_empty()
            || placed.iter().any(|&node| {
                labels(node).is_some_and(|labels| labels[..widest] == domain.path[..widest])
            })
    };
    // Siblings stand by tightness, then by label; cousins as those above them.
    let order = |a: &&Domain, b: &&Domain| {
        let above = |domain: &Domain, depth: usize| levels[depth].get(&domain.path[..depth]);
        let depths = 1..=a.path.len().min(b.path.len());
        let orders = depths.filter_map(|depth| {
            let (one, other) = (above(a, depth)?, above(b, depth)?);
            let tighter = other.tightness(sum).compare(one.tightness(sum));
            Some(tighter.then_with(|| one.path.cmp(&other.path)))
        });
        orders.fold(Ordering::Equal, Ordering::then)
    };
    let sorted = |depth: usize, inside: &[String]| {
        let of = |domain: &&Domain| domain.path.starts_with(inside);
        let mut domains: Vec<&Domain> = levels[depth].values().filter(of).collect();
        domains.sort_by(order);
        domains
    };
    let mut chosen = Vec::new();
    for depth in (widest..=narrowest).rev() {
        for domain in sorted(depth, &[]) {
            if !fits(domain) || !pinned(domain) {
                continue;
            }
            let mut bonus = BTreeMap::new();
            if let Some(level) = preferred {
                let inner = sorted(level + 1, &domain.path);
                for (at, own) in inner.iter().enumerate() {
                    let score = (at as i64 + 1) * 10 / (inner.len() as i64);
                    bonus.extend(own.nodes.iter().map(|&node| (node, score)));
                }
            }
            chosen.push(Nodes { nodes: domain.nodes.clone(), bonus });
        }
    }
    chosen
}

/// Requests of a pod, portions as whole devices.
fn amounts(pod: &Pod) -> [i64; 3] {
    let gpus = match pod.gpu {
        Gpu::Whole(gpus) => gpus,
        Gpu::Portion { devices, .. } | Gpu::Memory { devices, .. } => devices,
    };
    [pod.cpu, pod.memory, gpus]
}

/// How many pods of a size have room, of so many.
fn room(free: [i64; 3], size: [i64; 3], pods: usize) -> i64 {
    let asked = free.into_iter().zip(size).filter(|(_, size)| *size > 0);
    asked.map(|(free, size)| free.max(0) / size).fold(pods as i64, i64::min)
}
