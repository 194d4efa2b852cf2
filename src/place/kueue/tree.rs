//! The tree of topology domains and the free capacity of its leaves.
//!
//! Source: Kueue's `tas_topology_tree.go` and `tas_flavor.go`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::input::{
    HOSTNAME_LABEL, KueueAmounts, KueueCluster, KueueNode, KueueUsage, PODS_RESOURCE,
};
use super::outcome::{AssignedDomain, ClusterError, KueueAssignment};

/// A domain. Domains are numbered in the order of a walk from the roots, children by value. So
/// among domains of one level the order of numbers is the order of paths, and the domains below `d`
/// are `d + 1 .. end`.
#[derive(Debug, Clone)]
pub(super) struct Domain {
    pub(super) value: String,
    pub(super) parent: Option<usize>,
    pub(super) level: usize,
    pub(super) children: Vec<usize>,
    pub(super) end: usize,
    /// The number among the leaves, if this is one.
    pub(super) leaf: Option<usize>,
}

/// A leaf: one host, or all nodes with the same path.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) domain: usize,
    /// The node that selectors and taints are read from, if leaves are hosts.
    pub(super) node: Option<KueueNode>,
}

/// Free amounts, leaf by leaf, in the order of the tree's resources.
pub(super) type Free = Vec<i64>;

/// Demand of one pod: the resource, its number in the tree if any node has it, the amount.
#[derive(Debug, Clone)]
pub(super) struct Demand(Vec<(String, Option<usize>, i64)>);

#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) levels: Vec<String>,
    pub(super) domains: Vec<Domain>,
    pub(super) by_level: Vec<Vec<usize>>,
    pub(super) leaves: Vec<Leaf>,
    hosts: Option<BTreeMap<String, usize>>,
    resources: Vec<String>,
    free: Free,
}

impl Tree {
    pub(super) fn new(cluster: &KueueCluster) -> Result<Tree, ClusterError> {
        let levels = &cluster.levels;
        let Some(finest) = levels.last() else { return Err(ClusterError::NoLevels) };
        let mut seen = BTreeSet::new();
        if let Some(level) = levels.iter().find(|level| !seen.insert(level.as_str())) {
            return Err(ClusterError::DuplicateLevel(level.clone()));
        }
        let mut seen = BTreeSet::new();
        if let Some(node) = cluster.nodes.iter().find(|node| !seen.insert(node.name.as_str())) {
            return Err(ClusterError::DuplicateNode(node.name.clone()));
        }

        let hosts_are_leaves = finest == HOSTNAME_LABEL;
        let mut resources = BTreeSet::new();
        // The nodes of every leaf; hosts are told apart by their label alone.
        let mut by_host: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut members: BTreeMap<Vec<&str>, Vec<&KueueNode>> = BTreeMap::new();
        for node in &cluster.nodes {
            let Some(path) = path_of(cluster, node) else { continue };
            let path = match path.last() {
                Some(host) if hosts_are_leaves => by_host.entry(*host).or_insert(path).clone(),
                _ => path,
            };
            members.entry(path).or_default().push(node);
            resources.extend(node.allocatable.keys().cloned());
        }

        let mut tree = Tree {
            levels: levels.clone(),
            domains: Vec::new(),
            by_level: vec![Vec::new(); levels.len()],
            leaves: Vec::new(),
            hosts: None,
            resources: resources.into_iter().collect(),
            free: Vec::new(),
        };
        let mut leaf_of_node = BTreeMap::new();
        let mut open: Vec<usize> = Vec::new();
        let mut last: &[&str] = &[];
        for (path, nodes) in &members {
            let shared = path.iter().zip(last).take_while(|(a, b)| a == b).count();
            last = path;
            tree.close(&mut open, shared);
            for &value in path.iter().skip(shared) {
                tree.open(&mut open, value);
            }
            let leaf = tree.leaves.len();
            let Some(&domain) = open.last() else { continue };
            tree.domains[domain].leaf = Some(leaf);
            let node = nodes.first().filter(|_| hosts_are_leaves).map(|&node| node.clone());
            tree.leaves.push(Leaf { domain, node });
            tree.free.resize(tree.free.len() + tree.resources.len(), 0);
            for node in nodes {
                tree.put(leaf, &node.allocatable);
                leaf_of_node.insert(node.name.as_str(), leaf);
            }
        }
        tree.close(&mut open, 0);
        if hosts_are_leaves {
            let leaves = tree.leaves.iter().enumerate();
            let host = |leaf: &Leaf| tree.domains[leaf.domain].value.clone();
            tree.hosts = Some(leaves.map(|(at, leaf)| (host(leaf), at)).collect());
        }

        for pod in cluster.pods.iter().filter(|pod| !pod.terminated) {
            let node = pod.node.as_deref().and_then(|node| leaf_of_node.get(node));
            if let Some(&leaf) = node {
                let (demand, row) = (tree.demand(&pod.requests), tree.row(leaf));
                demand.take(&mut tree.free[row], 1);
            }
        }
        for usage in &cluster.usage {
            if !usage.other_flavor || cluster.gates.overlapping_flavors {
                tree.charge(usage, 1);
            }
        }
        Ok(tree)
    }

    fn open(&mut self, open: &mut Vec<usize>, value: &str) {
        let (id, level) = (self.domains.len(), open.len());
        let parent = open.last().copied();
        if let Some(parent) = parent {
            self.domains[parent].children.push(id);
        }
        self.by_level[level].push(id);
        let value = value.into();
        let children = Vec::new();
        self.domains.push(Domain { value, parent, level, children, end: id + 1, leaf: None });
        open.push(id);
    }

    fn close(&mut self, open: &mut Vec<usize>, keep: usize) {
        let end = self.domains.len();
        for domain in open.drain(keep.min(open.len())..) {
            self.domains[domain].end = end;
        }
    }

    fn put(&mut self, leaf: usize, amounts: &KueueAmounts) {
        let from = self.row(leaf).start;
        for (name, amount) in amounts {
            if let Ok(resource) = self.resources.binary_search(name) {
                let free = &mut self.free[from + resource];
                *free = free.saturating_add(*amount);
            }
        }
    }

    /// Free capacity before anything is placed.
    pub(super) fn free(&self) -> Free {
        self.free.clone()
    }

    /// The part of [`Free`] that belongs to a leaf.
    pub(super) fn row(&self, leaf: usize) -> Range<usize> {
        let width = self.resources.len();
        leaf * width..(leaf + 1) * width
    }

    /// Counts usage so many times; whether its leaf is there.
    pub(super) fn charge(&mut self, usage: &KueueUsage, times: i64) -> bool {
        let Some(leaf) = self.leaf(&usage.values) else { return false };
        let (demand, row) = (self.demand(&usage.requests), self.row(leaf));
        demand.take(&mut self.free[row], i64::from(usage.count) * times);
        true
    }

    /// Demand of a pod with these requests, the pod itself included.
    pub(super) fn demand(&self, requests: &KueueAmounts) -> Demand {
        let mut amounts = requests.clone();
        let pods = amounts.entry(PODS_RESOURCE.into()).or_insert(0);
        *pods = pods.saturating_add(1);
        let number = |name: &String| self.resources.binary_search(name).ok();
        Demand(
            amounts
                .into_iter()
                .map(|(name, amount)| {
                    let number = number(&name);
                    (name, number, amount)
                })
                .collect(),
        )
    }

    pub(super) fn level(&self, key: &str) -> Option<usize> {
        self.levels.iter().position(|level| level == key)
    }

    /// The leaf that an assignment writes as `values`.
    pub(super) fn leaf(&self, values: &[String]) -> Option<usize> {
        if let Some(hosts) = &self.hosts {
            return match values {
                [host] => hosts.get(host).copied(),
                _ => None,
            };
        }
        let mut siblings: &[usize] = self.by_level.first()?;
        let mut found = None;
        for value in values {
            let at = siblings.binary_search_by(|&id| self.domains[id].value.cmp(value)).ok()?;
            found = siblings.get(at).copied();
            siblings = &self.domains[found?].children;
        }
        self.domains[found?].leaf
    }

    /// The domain of a level that a leaf belongs to.
    pub(super) fn above(&self, leaf: usize, level: usize) -> usize {
        let mut domain = self.leaves[leaf].domain;
        while self.domains[domain].level > level {
            match self.domains[domain].parent {
                Some(parent) => domain = parent,
                None => break,
            }
        }
        domain
    }

    /// An assignment of pods to leaves, given by domain number and in ascending order.
    pub(super) fn assignment(&self, counts: &BTreeMap<usize, i64>) -> KueueAssignment {
        let used = counts.iter().filter(|&(_, &count)| count > 0);
        let domains = used.map(|(&domain, &count)| AssignedDomain {
            values: self.values(domain),
            count: u32::try_from(count).unwrap_or(u32::MAX),
        });
        let first = if self.hosts.is_some() { self.levels.len() - 1 } else { 0 };
        KueueAssignment { levels: self.levels[first..].to_vec(), domains: domains.collect() }
    }

    /// How an assignment writes a leaf.
    fn values(&self, domain: usize) -> Vec<String> {
        let mut values = vec![self.domains[domain].value.clone()];
        let mut next = self.domains[domain].parent.filter(|_| self.hosts.is_none());
        while let Some(parent) = next {
            values.push(self.domains[parent].value.clone());
            next = self.domains[parent].parent;
        }
        values.reverse();
        values
    }
}

/// The label values of a node that belongs to the tree.
fn path_of<'a>(cluster: &'a KueueCluster, node: &'a KueueNode) -> Option<Vec<&'a str>> {
    let in_flavor = |(key, value)| node.labels.get(key) == Some(value);
    if !node.ready || node.unschedulable || !cluster.flavor.node_labels.iter().all(in_flavor) {
        return None;
    }
    let value = |level: &String| node.labels.get(level).map(String::as_str);
    cluster.levels.iter().map(value).collect()
}

impl Demand {
    /// How many such pods fit, and the resource that limits them (the first by name on a tie).
    /// Kueue keeps these counts in 32 bits; more than that do not count.
    pub(super) fn fits(&self, free: &[i64]) -> (i64, Option<&str>) {
        const MOST: i64 = i32::MAX as i64;
        let mut fewest = (MOST, None);
        for (name, number, amount) in &self.0 {
            if *amount > 0 {
                let free = number.map_or(0, |number| free[number]);
                let pods = (free / amount).clamp(0, MOST);
                if fewest.1.is_none() || pods < fewest.0 {
                    fewest = (pods, Some(name.as_str()));
                }
            }
        }
        fewest
    }

    /// Takes so many pods out of the free capacity, below zero if need be.
    pub(super) fn take(&self, free: &mut [i64], pods: i64) {
        for (_, number, amount) in &self.0 {
            if let Some(number) = *number {
                free[number] = free[number].saturating_sub(amount.saturating_mul(pods));
            }
        }
    }
}
