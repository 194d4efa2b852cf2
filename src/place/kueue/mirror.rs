//! Nodes and groups of this crate in Kueue's terms.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::input::{
    Expression, HOSTNAME_LABEL, KueueAmounts, KueueCluster, KueueNode, KueueNodeAffinity,
    KueueOperator, KueuePodSet, KueueTaint, KueueToleration, KueueTolerationOperator,
    KueueTopologyRequest, PODS_RESOURCE, PreferredTerm, SliceLayer,
};
use crate::model::{
    NodeSelectorTerm, Operator, PodGroup, PodShape, Requirement, Toleration, TolerationOperator,
};
use crate::place::gang::Gang;
use crate::state::{Cluster, NodeView, Row};

/// The value of a node on a level. A node without a hostname label has its name.
pub(super) fn value<'a>(node: NodeView<'a>, level: &str) -> Option<&'a str> {
    node.label(level).or_else(|| (level == HOSTNAME_LABEL).then(|| node.name()))
}

/// Some nodes with what is free on them, as far as the pods of a gang ask. Without declared levels
/// the topology is one of hosts.
pub(super) fn input(cluster: &Cluster, rows: &[Row], gang: &Gang) -> KueueCluster {
    let mut levels: Vec<String> = cluster.levels().map(String::from).collect();
    if levels.is_empty() {
        levels.push(HOSTNAME_LABEL.into());
    }
    let mut keys: BTreeSet<&str> = levels.iter().map(String::as_str).collect();
    let mut resources: BTreeSet<&str> = BTreeSet::new();
    for shape in gang.all_shapes() {
        resources.extend(shape.requests.iter().map(|(name, _)| name));
        keys.extend(shape.node_selector.keys().map(|key| &**key));
        for term in terms(shape) {
            keys.extend(term.match_expressions.iter().map(|one| one.key.as_str()));
        }
    }
    let nodes = rows.iter().filter_map(|&row| cluster.view(row)).map(|node| {
        let free = |name: &&str| Some((name.to_string(), node.free(cluster.resource(name)?)));
        let mut allocatable: KueueAmounts = resources.iter().filter_map(free).collect();
        let pods = node.free_pods();
        allocatable.insert(PODS_RESOURCE.into(), pods);
        let label = |key: &&str| Some((key.to_string(), value(node, key)?.to_string()));
        let taint = |taint: &crate::model::Taint| KueueTaint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone().into(),
        };
        KueueNode {
            name: node.name().into(),
            labels: keys.iter().filter_map(label).collect(),
            allocatable,
            ready: true,
            unschedulable: node.unschedulable(),
            taints: node.taints().iter().map(taint).collect(),
        }
    });
    let nodes = nodes.collect();
    KueueCluster { levels, nodes, ..KueueCluster::default() }
}

fn terms(shape: &PodShape) -> impl Iterator<Item = &NodeSelectorTerm> {
    let affinity = shape.node_affinity.as_ref();
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let preferred = affinity.map_or(&[][..], |affinity| &affinity.preferred);
    required
        .map_or(&[][..], |required| &required.terms)
        .iter()
        .chain(preferred.iter().map(|term| &term.preference))
}

/// So many equal pods of a group. What it asks of the topology is asked as Kueue's annotations do;
/// a group that asks nothing is placed as Kueue places one in a queue for topologies only.
pub(super) fn pod_set(group: &PodGroup, shape: &PodShape, count: usize) -> KueuePodSet {
    let asked = &group.topology;
    let slices = asked
        .slices
        .iter()
        .map(|slice| SliceLayer { level: slice.level.clone(), size: Some(slice.size) });
    let topology = KueueTopologyRequest {
        required: asked.require.clone(),
        preferred: asked.prefer.clone(),
        slices: slices.collect(),
        unconstrained: false,
        implied: asked.require.is_none() && asked.prefer.is_none() && asked.slices.is_empty(),
    };
    let requests = shape.requests.iter().map(|(name, amount)| (name.to_string(), amount));
    let mut affinity = KueueNodeAffinity::default();
    if let Some(own) = &shape.node_affinity {
        let required = own.required.as_ref().map_or(&[][..], |required| &required.terms);
        affinity.required = required.iter().map(expressions).collect();
        affinity.preferred = own
            .preferred
            .iter()
            .map(|term| PreferredTerm {
                weight: term.weight,
                expressions: expressions(&term.preference),
            })
            .collect();
    }
    KueuePodSet {
        name: group.full_name().into(),
        count: u32::try_from(count).unwrap_or(u32::MAX),
        requests: requests.collect(),
        topology,
        node_selector: shape.node_selector.clone(),
        affinity,
        tolerations: shape.tolerations.iter().filter_map(toleration).collect(),
        ..KueuePodSet::default()
    }
}

/// An unknown operator matches nothing: no value is in an empty list.
fn expressions(term: &NodeSelectorTerm) -> Vec<Expression> {
    let expression = |one: &Requirement| {
        let (operator, values) = match &one.operator {
            Operator::In => (KueueOperator::In, one.values.clone()),
            Operator::NotIn => (KueueOperator::NotIn, one.values.clone()),
            Operator::Exists => (KueueOperator::Exists, one.values.clone()),
            Operator::DoesNotExist => (KueueOperator::DoesNotExist, one.values.clone()),
            Operator::Gt => (KueueOperator::Gt, one.values.clone()),
            Operator::Lt => (KueueOperator::Lt, one.values.clone()),
            Operator::Unknown(_) => (KueueOperator::In, vec![]),
        };
        Expression { key: one.key.clone(), operator, values }
    };
    term.match_expressions.iter().map(expression).collect()
}

fn toleration(own: &Toleration) -> Option<KueueToleration> {
    let operator = match own.operator {
        TolerationOperator::Equal => KueueTolerationOperator::Equal,
        TolerationOperator::Exists => KueueTolerationOperator::Exists,
        TolerationOperator::Unknown(_) => return None,
    };
    Some(KueueToleration {
        key: own.key.clone(),
        operator,
        value: own.value.clone(),
        effect: own.effect.clone().map(Into::into),
    })
}
