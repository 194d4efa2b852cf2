//! Small clusters of which units may move, as plain data.

use phalanx::model::{LabelSelector, PodAffinityTerm};
use phalanx::preempt::{Consolidation, DisruptionBudget, PreemptionRequest, RunningWork};
use phalanx::{Cluster, Node, Pod, PodGroup, Request, Strategy, Time};

use crate::support::dice::Dice;

pub(super) const NOW: u64 = 1_000;
pub(super) const GPU: &str = "example.com/gpu";

#[derive(Debug, Clone)]
pub(super) struct CasePod {
    pub(super) node: usize,
    pub(super) gpus: i64,
    pub(super) group: Option<usize>,
    pub(super) priority: i32,
    pub(super) start: u64,
    pub(super) app: u64,
    /// Whether the gang must not be in its rack.
    pub(super) apart: bool,
}

#[derive(Debug, Clone)]
pub(super) struct CaseGroup {
    pub(super) all: bool,
    pub(super) minimum: usize,
    pub(super) priority: i32,
    /// Whether it must be in one rack.
    pub(super) rack: bool,
    pub(super) non_preemptible: bool,
}

#[derive(Debug)]
pub(super) struct Case {
    /// Rack and GPUs.
    pub(super) nodes: Vec<(u64, i64)>,
    pub(super) pods: Vec<CasePod>,
    pub(super) groups: Vec<CaseGroup>,
    /// App, and how many may be disrupted.
    pub(super) budgets: Vec<(u64, i64)>,
    /// Members of the gang, how many are needed, and GPUs of each.
    pub(super) gang: (usize, usize, i64),
    /// Whether the gang must be in one rack.
    pub(super) rack: bool,
    /// Whether the gang keeps away from racks with pods that are apart.
    pub(super) keeps_apart: bool,
    /// The most units that move.
    pub(super) limit: u32,
}

impl Case {
    pub(super) fn random(seed: u64) -> Case {
        let mut dice = Dice(seed);
        let racks = 1 + dice.roll(2);
        let nodes: Vec<(u64, i64)> =
            (0..2 + dice.roll(3)).map(|_| (dice.roll(racks), 3 + dice.roll(3) as i64)).collect();
        let mut groups: Vec<CaseGroup> = (0..dice.roll(3))
            .map(|_| CaseGroup {
                all: dice.one_in(2),
                minimum: 1 + dice.roll(2) as usize,
                priority: dice.roll(3) as i32,
                rack: dice.one_in(2),
                non_preemptible: dice.one_in(10),
            })
            .collect();
        let keeps_apart = dice.one_in(4);
        let mut free: Vec<i64> = nodes.iter().map(|node| node.1).collect();
        let mut home: Vec<Option<u64>> = vec![None; groups.len()];
        let mut pods: Vec<CasePod> = Vec::new();
        for _ in 0..4 + dice.roll(6) {
            let node = dice.roll(nodes.len() as u64) as usize;
            let gpus = 1 + dice.roll(3) as i64;
            if free[node] < gpus || pods.len() == 6 {
                continue;
            }
            let mut group = (!groups.is_empty() && !dice.one_in(3))
                .then(|| dice.roll(groups.len() as u64) as usize);
            if let Some(number) = group {
                // A group that must be in one rack is.
                let rack = *home[number].get_or_insert(nodes[node].0);
                if groups[number].rack && rack != nodes[node].0 {
                    group = None;
                }
            }
            free[node] -= gpus;
            pods.push(CasePod {
                node,
                gpus,
                group,
                priority: dice.roll(3) as i32,
                start: dice.roll(NOW),
                app: dice.roll(3),
                apart: keeps_apart && dice.one_in(3),
            });
        }
        for (number, group) in groups.iter_mut().enumerate() {
            let size = pods.iter().filter(|pod| pod.group == Some(number)).count();
            group.minimum = group.minimum.min(size.max(1));
        }
        let budgets = (0..dice.roll(3)).map(|app| (app, dice.roll(3) as i64)).collect();
        let members = 1 + dice.roll(3) as usize;
        let least = 1 + dice.roll(members as u64) as usize;
        // Often as much as is free in sum, so that only where it is free is amiss.
        let all: i64 = free.iter().sum::<i64>() / least as i64;
        let gpus = if dice.one_in(4) { 1 + dice.roll(4) as i64 } else { all.clamp(1, 5) };
        let gang = (members, least, gpus);
        let (rack, limit) = (dice.one_in(2), 1 + dice.roll(4) as u32);
        Case { nodes, pods, groups, budgets, gang, rack, keeps_apart, limit }
    }

    pub(super) fn cluster(&self) -> Cluster {
        self.cluster_told(0..self.pods.len())
    }

    /// The cluster whose pods came in some order.
    pub(super) fn cluster_told(&self, order: impl Iterator<Item = usize>) -> Cluster {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        for (number, (rack, gpus)) in self.nodes.iter().enumerate() {
            let node = Node::new(format!("n{number}")).capacity(GPU, *gpus);
            cluster.add_node(node.label("rack", format!("k{rack}"))).unwrap();
        }
        for number in order {
            let pod = &self.pods[number];
            let mut bound = Pod::new()
                .name(format!("r{number}"))
                .request(GPU, pod.gpus)
                .label("app", format!("a{}", pod.app))
                .priority(pod.priority)
                .since(Time::from_secs(pod.start))
                .on(format!("n{}", pod.node));
            if pod.apart {
                bound = bound.label("apart", "yes");
            }
            bound.group = pod.group.map(|group| format!("g{group}"));
            cluster.add_pod(bound).unwrap();
        }
        cluster
    }

    pub(super) fn running(&self) -> RunningWork {
        let mut running = RunningWork::new();
        for (number, own) in self.groups.iter().enumerate() {
            let mut group = PodGroup::gang(format!("g{number}"), own.minimum as u32);
            group.non_preemptible = own.non_preemptible;
            group = group.priority(own.priority);
            if own.all {
                group = group.evicted_whole();
            }
            if own.rack {
                group = group.require("rack");
            }
            running.set_group(&group).unwrap();
        }
        for (app, allowed) in &self.budgets {
            let selector = LabelSelector::label("app", format!("a{app}"));
            running.set_budget(DisruptionBudget::new(format!("b{app}"), selector, *allowed));
        }
        running
    }

    pub(super) fn group(&self) -> PodGroup {
        let (members, least, gpus) = self.gang;
        let mut pod = Pod::new().request(GPU, gpus);
        if self.keeps_apart {
            let apart = LabelSelector::label("apart", "yes");
            pod = pod.anti_affinity(PodAffinityTerm::new("rack", apart));
        }
        let gang = PodGroup::gang("new", least as u32).pods(members, pod).priority(2);
        if self.rack { gang.require("rack") } else { gang }
    }

    pub(super) fn request<'a>(&self, gang: &'a PodGroup) -> PreemptionRequest<'a> {
        let request = Request::new(gang).now(Time::from_secs(NOW)).strategy(Strategy::Search);
        PreemptionRequest::new(request)
            .budget(400_000)
            .consolidation(Consolidation::new(self.limit))
    }
}
