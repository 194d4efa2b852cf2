//! The cluster and the pending gangs of a measurement; `benches` measures the same.

use std::sync::OnceLock;

use phalanx::model::{LabelSelector, PodAffinityTerm, SpreadConstraint};
use phalanx::reference;
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup};

pub(crate) const GPU: &str = "nvidia.com/gpu";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const RACK: &str = "rack";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constraint {
    None,
    ZoneSpread,
    ZoneAffinity,
    RackAffinity,
    HostnameAnti,
}

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    pub(crate) gang: usize,
    pub(crate) mixed: bool,
    pub(crate) shapes: usize,
    pub(crate) racks: usize,
    pub(crate) topology: bool,
    pub(crate) unpruned: bool,
    pub(crate) node_shapes: usize,
    pub(crate) fill: f64,
    pub(crate) constraint: Constraint,
    pub(crate) binpack: bool,
    pub(crate) churn: Option<usize>,
    /// Made when first asked for.
    pub(crate) templates: OnceLock<Vec<Pod>>,
}

/// A small generator of numbers; the same on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) % sides.max(1) as u64) as usize
    }
}

impl Default for Scene {
    /// One pod on one node, and no option given.
    fn default() -> Scene {
        Scene {
            nodes: 1,
            pods: 1,
            gang: 1,
            mixed: false,
            shapes: 1,
            racks: 50,
            topology: false,
            unpruned: false,
            node_shapes: 1,
            fill: 0.0,
            constraint: Constraint::None,
            binpack: false,
            churn: None,
            templates: OnceLock::new(),
        }
    }
}

impl Scene {
    pub(crate) fn framework(&self) -> Framework {
        if self.binpack { Framework::default() } else { Framework::kubernetes() }
    }

    pub(crate) fn planner(&self, threads: usize) -> Planner {
        let planner = if self.unpruned { reference::unpruned() } else { Planner::new() };
        planner.threads(threads)
    }

    /// The cluster, filled.
    pub(crate) fn cluster(&self) -> Cluster {
        let mut cluster = self.nodes();
        self.fill(&mut cluster);
        cluster
    }

    /// The cluster without pods.
    pub(crate) fn nodes(&self) -> Cluster {
        let mut cluster = match Cluster::builder().levels([ZONE, RACK]).build() {
            Ok(cluster) => cluster,
            Err(_) => Cluster::new(),
        };
        for number in 0..self.nodes {
            let (kind, rack) = (number % self.node_shapes, number % self.racks);
            let name = format!("n{number:06}");
            let mut node = Node::new(name.as_str())
                .capacity("cpu", 64 + 16 * kind as i64)
                .capacity("memory", format!("{}Gi", 512 + 128 * kind))
                .capacity("pods", 110)
                .capacity(GPU, gpus(kind))
                .label(RACK, format!("r{rack:04}"))
                .label(ZONE, format!("z{}", rack % 3));
            if self.constraint == Constraint::HostnameAnti {
                node = node.label(HOSTNAME, name);
            }
            // Names are unique and quantities sound.
            let _ = cluster.add_node(node);
        }
        cluster
    }

    /// Binds pods until the share of GPUs is taken that was asked for.
    pub(crate) fn fill(&self, cluster: &mut Cluster) {
        let free = (0..self.nodes).map(|number| gpus(number % self.node_shapes) as usize);
        let mut free: Vec<usize> = free.collect();
        let total: usize = free.iter().sum();
        let mut open: Vec<usize> = (0..self.nodes).collect();
        let mut dice = Dice(1);
        let template = running();
        for number in 0..(total as f64 * self.fill).round() as usize {
            let at = dice.below(open.len());
            let node = open[at];
            let pod = template.clone().name(format!("b{number}")).on(format!("n{node:06}"));
            let _ = cluster.add_pod(pod);
            free[node] -= 1;
            if free[node] == 0 {
                open.swap_remove(at);
            }
        }
    }

    /// The pending gangs, in order.
    pub(crate) fn gangs(&self) -> impl Iterator<Item = PodGroup> + '_ {
        let gangs = self.pods.div_ceil(self.gang.max(1));
        (0..gangs).map(|number| self.group(number))
    }

    /// The gang of a number.
    pub(crate) fn group(&self, number: usize) -> PodGroup {
        let members = self.gang.min(self.pods - number * self.gang);
        let mut group = PodGroup::gang(format!("g{number}"), members as u32);
        if self.topology {
            group = group.require(RACK);
        }
        let templates =
            self.templates.get_or_init(|| (0..self.shapes).map(|k| self.pod(k)).collect());
        if self.mixed {
            for member in 0..members {
                let shape = (number * self.gang + member) % self.shapes;
                group = group.pods(1, templates[shape].clone());
            }
            group
        } else {
            group.pods(members, templates[number % self.shapes].clone())
        }
    }

    /// A pod of a shape.
    pub(crate) fn pod(&self, shape: usize) -> Pod {
        let pod = Pod::new()
            .request("cpu", format!("{}m", 1_000 + shape % 4_000))
            .request("memory", format!("{}Mi", 2_048 + shape / 4_000))
            .request(GPU, 1);
        let app = || LabelSelector::label("app", "x");
        match self.constraint {
            Constraint::None => pod,
            Constraint::ZoneSpread => {
                pod.label("app", "x").spread(SpreadConstraint::new(1, ZONE, app()))
            }
            Constraint::ZoneAffinity => {
                pod.label("app", "x").affinity(PodAffinityTerm::new(ZONE, app()))
            }
            Constraint::RackAffinity => {
                pod.label("app", "x").affinity(PodAffinityTerm::new(RACK, app()))
            }
            Constraint::HostnameAnti => {
                pod.label("app", "x").anti_affinity(PodAffinityTerm::new(HOSTNAME, app()))
            }
        }
    }

    /// Changes between gangs.
    pub(crate) fn churn(&self) -> Churn {
        Churn {
            dice: Dice(2),
            nodes: self.nodes,
            changes: self.churn.unwrap_or(0),
            bound: Vec::new(),
            next: 0,
        }
    }
}

/// Bound pods that come and go on random nodes.
#[derive(Debug)]
pub(crate) struct Churn {
    dice: Dice,
    nodes: usize,
    changes: usize,
    bound: Vec<String>,
    next: usize,
}

impl Churn {
    pub(crate) fn step(&mut self, cluster: &mut Cluster) {
        for _ in 0..self.changes {
            if self.bound.len() > 1_000 || self.next % 2 == 1 && !self.bound.is_empty() {
                let at = self.dice.below(self.bound.len());
                let name = self.bound.swap_remove(at);
                let _ = cluster.remove_pod("default", &name);
            } else {
                let node = self.dice.below(self.nodes);
                let name = format!("c{}", self.next);
                let pod = Pod::new().request("cpu", "100m").name(name.as_str());
                let _ = cluster.add_pod(pod.on(format!("n{node:06}")));
                self.bound.push(name);
            }
            self.next += 1;
        }
    }
}

fn gpus(kind: usize) -> i64 {
    if kind.is_multiple_of(2) { 8 } else { 4 }
}

fn running() -> Pod {
    Pod::new().request("cpu", 1).request("memory", "2Gi").request(GPU, 1)
}
