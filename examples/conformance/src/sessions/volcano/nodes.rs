//! Where a task can go, and where it should: `predicates` and `nodeorder`, which are kube-scheduler's
//! plugins.

use std::vec::Vec;

use super::input::{Configuration, Plugin, Vote};
use super::standing::{NodeState, TaskState};
use super::status::TaskStatus;
use phalanx::framework::{Evaluation, Rejection, Verdict};
use phalanx::plugins::{
    BalancedAllocation, ImageLocality, InterPodAffinity, LeastAllocated, MostAllocated,
    NodeAffinityPlugin, NodePorts, NodeUnschedulable, PodTopologySpread, SpreadDefaults,
    TaintToleration,
};
use phalanx::state::{NodeView, Row};
use phalanx::{Cluster, Framework, StateError, Time};

/// Why a node is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Taking tasks away might help.
    Now,
    /// Nothing helps.
    Ever,
}

/// Both plugins as one framework, or none.
#[derive(Debug)]
pub(super) struct NodeJudge {
    framework: Framework,
    /// Affinity between pods alone.
    affinity: Framework,
    /// Whether a trial without some pods forgets their affinity too: Volcano asks `predicates` to do
    /// so only if it has a vote on victims or on shares.
    forgets: bool,
    filters: bool,
    scores: bool,
    nodes: Cluster,
}

impl NodeJudge {
    pub(super) fn new(
        configuration: &Configuration,
        nodes: &[NodeState],
    ) -> Result<NodeJudge, StateError> {
        let votes = |plugin, vote| {
            let mut plugins = configuration.tiers.iter().flatten();
            plugins.any(|own| own.plugin == plugin && own.votes.contains(&vote))
        };
        let weights = configuration.weights;
        let spread = || PodTopologySpread::with_defaults(SpreadDefaults::default());
        let mut builder = Framework::builder()
            .filter(NodeUnschedulable)
            .filter(TaintToleration)
            .filter(NodeAffinityPlugin::default())
            .filter(NodePorts)
            .filter(spread())
            .filter(InterPodAffinity::default())
            .without_room_filter();
        let resources = || [(phalanx::model::CPU, 50), (phalanx::model::MEMORY, 50)];
        if weights.least_requested > 0 {
            let least = LeastAllocated::of(resources()).named("LeastRequested");
            builder = builder.score(weights.least_requested, least);
        }
        if weights.most_requested > 0 {
            let most = MostAllocated::of(resources()).named("MostRequested");
            builder = builder.score(weights.most_requested, most);
        }
        if weights.node_affinity > 0 {
            builder = builder.score(weights.node_affinity, NodeAffinityPlugin::default());
        }
        if weights.pod_affinity > 0 {
            builder = builder.score(weights.pod_affinity, InterPodAffinity::default());
        }
        if weights.balanced_resource > 0 {
            builder = builder.score(weights.balanced_resource, BalancedAllocation::default());
        }
        if weights.taint_toleration > 0 {
            builder = builder.score(weights.taint_toleration, TaintToleration);
        }
        if weights.image_locality > 0 {
            builder = builder.score(weights.image_locality, ImageLocality);
        }
        if weights.pod_topology_spread > 0 {
            builder = builder.score(weights.pod_topology_spread, spread());
        }
        let affinity = Framework::builder().filter(InterPodAffinity::default());
        let mut cluster = Cluster::new();
        for node in nodes {
            cluster.add_node(node.input.node.clone())?;
        }
        Ok(NodeJudge {
            // Weights are small, and names differ: both always build.
            framework: builder.build().unwrap_or_default(),
            affinity: affinity.without_room_filter().build().unwrap_or_default(),
            forgets: [Vote::Preemptable, Vote::Allocatable]
                .into_iter()
                .any(|vote| votes(Plugin::Predicates, vote)),
            filters: votes(Plugin::Predicates, Vote::Predicate),
            scores: votes(Plugin::NodeOrder, Vote::NodeOrder),
            nodes: cluster,
        })
    }

    /// Whether all pods make sense where they are.
    pub(super) fn check(&self, tasks: &[TaskState], nodes: &[NodeState]) -> Result<(), StateError> {
        let mut cluster = self.nodes.clone();
        for task in tasks {
            if let Some(node) = task.node {
                cluster.add_pod(task.input.pod.clone().on(nodes[node].input.node.name.as_str()))?;
            }
        }
        Ok(())
    }

    /// The nodes with the tasks that are on them or will be, without those that are leaving and those
    /// that are tried away.
    fn cluster(&self, tasks: &[TaskState], nodes: &[NodeState], without: &[usize]) -> Cluster {
        let mut cluster = self.nodes.clone();
        for (at, task) in tasks.iter().enumerate() {
            let gone = matches!(
                task.status,
                TaskStatus::Pending
                    | TaskStatus::Releasing
                    | TaskStatus::Succeeded
                    | TaskStatus::Failed
            ) || without.contains(&at);
            if let Some(node) = task.node.filter(|_| !gone) {
                // Pods have been checked, and have names of their own.
                let _ = cluster
                    .add_pod(task.input.pod.clone().on(nodes[node].input.node.name.as_str()));
            }
        }
        cluster
    }

    /// For each node whether a task can go there.
    pub(super) fn filter(
        &self,
        tasks: &[TaskState],
        nodes: &[NodeState],
        task: usize,
        without: &[usize],
    ) -> Vec<Result<(), Unfit>> {
        if !self.filters {
            return nodes.iter().map(|_| Ok(())).collect();
        }
        let cluster = self.cluster(tasks, nodes, without);
        let shape = tasks[task].input.pod.shape();
        let evaluation = Evaluation::new(&self.framework, &cluster, shape, None, Time::ZERO);
        let judge = |node: &NodeState| {
            let name = node.input.node.name.as_str();
            let Some(view) = cluster.node(name) else { return Err(Unfit::Ever) };
            let most = node.input.allocatable.get("pods");
            if most <= view.pod_count() as f64 {
                return Err(Unfit::Now);
            }
            evaluation.filter(view).map_err(|rejection| match rejection {
                Rejection::Refused(_, Verdict::Unschedulable)
                | Rejection::Filter(_, Verdict::Unschedulable) => Unfit::Now,
                _ => Unfit::Ever,
            })
        };
        nodes.iter().map(judge).collect()
    }

    /// Whether a trial without some pods of a node can help a task there: if their affinity is not
    /// forgotten, it has to allow the task as it is.
    pub(super) fn may_help(
        &self,
        tasks: &[TaskState],
        nodes: &[NodeState],
        task: usize,
        node: usize,
    ) -> bool {
        if !self.filters || self.forgets {
            return true;
        }
        let cluster = self.cluster(tasks, nodes, &[]);
        let shape = tasks[task].input.pod.shape();
        let evaluation = Evaluation::new(&self.affinity, &cluster, shape, None, Time::ZERO);
        let view = cluster.node(nodes[node].input.node.name.as_str());
        view.is_some_and(|view| evaluation.filter(view).is_ok())
    }

    /// The scores of some nodes for a task; 0 without `nodeorder`.
    pub(super) fn score(
        &self,
        tasks: &[TaskState],
        nodes: &[NodeState],
        task: usize,
        among: &[usize],
    ) -> Vec<i64> {
        if !self.scores {
            return among.iter().map(|_| 0).collect();
        }
        let cluster = self.cluster(tasks, nodes, &[]);
        let shape = tasks[task].input.pod.shape();
        let mut evaluation = Evaluation::new(&self.framework, &cluster, shape, None, Time::ZERO);
        let row = |at: &usize| cluster.node(&nodes[*at].input.node.name).map(NodeView::row);
        let rows: Vec<Row> = among.iter().filter_map(row).collect();
        evaluation.totals(&rows)
    }
}
