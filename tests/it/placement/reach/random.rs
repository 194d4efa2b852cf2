//! Random frameworks, nodes, pods and groups, with affinity and spreading of all kinds.

use std::sync::Arc;

use phalanx::framework::{Context, Normalization, Reach, filter_fn};
use phalanx::model::{
    Effect, LabelSelector, Labels, NodeInclusion, PodAffinityTerm, SpreadConstraint, Taint,
    Toleration, WeightedPodAffinityTerm,
};
use phalanx::plugins::{
    Fit, InterPodAffinity, KubernetesProfile, LeastAllocated, MostAllocated, PodTopologySpread,
    SpreadDefaults, TaintToleration,
};
use phalanx::state::NodeView;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup};

use super::plugins::*;
use crate::support::dice::Dice;

pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) const RACK: &str = "rack";

pub(super) fn framework(dice: &mut Dice) -> Framework {
    match dice.roll(6) {
        0 => return Framework::kubernetes(),
        1 => {
            let constraint = |dice: &mut Dice, key| {
                let selector = LabelSelector::default();
                let constraint = SpreadConstraint::new(1 + dice.roll(2) as i32, key, selector);
                if dice.one_in(2) { constraint.preferred() } else { constraint }
            };
            let list = vec![constraint(dice, ZONE), constraint(dice, HOSTNAME)];
            return KubernetesProfile::new()
                .default_constraints(SpreadDefaults::List(list))
                .hard_pod_affinity_weight(dice.roll(101) as u8)
                .framework();
        }
        _ => {}
    }
    let mut builder = Framework::builder().filter(Fit);
    if dice.roll(4) > 0 {
        builder = builder.filter(InterPodAffinity::new());
    }
    if dice.roll(4) > 0 {
        builder = builder.filter(PodTopologySpread::new());
    }
    if dice.one_in(5) {
        builder = builder.filter(Few(1 + dice.roll(12) as i64));
    }
    if dice.one_in(40) {
        let total = |cx: &Context<'_>, node: NodeView<'_>| {
            (cx.cluster().nodes().map(NodeView::pod_count).sum::<i64>() + node.pod_count()) % 5 > 0
        };
        builder = builder.filter(filter_fn("far", Reach::Cluster, total));
    }
    let resources = [("cpu", 1), ("memory", 1)];
    match dice.roll(3) {
        0 => builder = builder.score(2, MostAllocated::of(resources)),
        1 => builder = builder.score(1, LeastAllocated::of(resources)),
        _ => {}
    }
    if dice.one_in(3) {
        builder = builder.filter(TaintToleration).score(2, TaintToleration);
    }
    if dice.one_in(2) {
        let company = InterPodAffinity::new().hard_weight(dice.roll(101) as u8);
        let other = dice.one_in(3);
        let company =
            if other { company.ignore_preferred_terms_of_existing_pods() } else { company };
        builder = builder.score(1 + dice.roll(3) as u32, company);
    }
    if dice.one_in(2) {
        builder = builder.score(2, PodTopologySpread::new());
    }
    let key = [ZONE, RACK, HOSTNAME, "nowhere"][dice.roll(4) as usize];
    match dice.roll(8) {
        0 => builder = builder.score(1, Crowd(key, Normalization::None)),
        1 => builder = builder.score(2, Crowd(key, Normalization::Max)),
        2 => builder = builder.score(1, Crowd(key, Normalization::MaxReversed)),
        3 => builder = builder.score(3, Crowd(key, Normalization::Extremes)),
        _ => {}
    }
    match dice.roll(8) {
        0 => builder = builder.score(1, Room { each: false }),
        1 => builder = builder.score(1, Room { each: true }),
        _ => {}
    }
    builder.build().unwrap()
}

pub(super) fn node(dice: &mut Dice, name: u64) -> Node {
    let mut node = Node::new(format!("n{name}"))
        .capacity("cpu", 1 + dice.roll(8) as i64)
        .capacity("memory", 1_000_000_000 * (1 + dice.roll(5) as i64));
    if dice.roll(8) > 0 {
        node = node.label(ZONE, dice.of(&["a", "b", "c", ""]));
    }
    if dice.roll(5) > 0 {
        node = node.label(RACK, format!("r{}", dice.roll(5)));
    }
    if dice.roll(6) > 0 {
        let twin = if dice.one_in(10) { 0 } else { name };
        node = node.label(HOSTNAME, format!("n{twin}"));
    }
    match dice.roll(8) {
        0 => node = node.taint(Taint::new("t", "", Effect::PreferNoSchedule)),
        1 => node = node.taint(Taint::new("t", "", Effect::NoSchedule)),
        _ => {}
    }
    if dice.one_in(4) { node.capacity("pods", dice.roll(5) as i64) } else { node }
}

pub(super) fn term(dice: &mut Dice) -> PodAffinityTerm {
    let key = dice.of(&[ZONE, RACK, RACK, HOSTNAME, "nowhere"]);
    let mut term = PodAffinityTerm::new(key, LabelSelector::label("app", dice.of(&["a", "b"])));
    match dice.roll(8) {
        0 => term.namespaces = vec!["other".into()],
        1 => term.namespace_selector = Some(LabelSelector::label("team", "x")),
        _ => {}
    }
    term
}

pub(super) fn constraint(dice: &mut Dice) -> SpreadConstraint {
    let key = dice.of(&[ZONE, ZONE, RACK, HOSTNAME, "nowhere"]);
    let selector = LabelSelector::label("app", dice.of(&["a", "b"]));
    let mut constraint = SpreadConstraint::new(1 + dice.roll(3) as i32, key, selector);
    if dice.one_in(3) {
        constraint = constraint.preferred();
    } else if dice.one_in(4) {
        constraint.min_domains = Some(1 + dice.roll(4) as i32);
    }
    if dice.one_in(3) {
        constraint.match_label_keys = vec!["rev".into()];
    }
    if dice.one_in(3) {
        constraint.node_taints_policy = NodeInclusion::Honor;
    }
    if dice.one_in(4) {
        constraint.node_affinity_policy = NodeInclusion::Ignore;
    }
    constraint
}

pub(super) fn pod(dice: &mut Dice) -> Pod {
    let mut pod = Pod::new().request("cpu", format!("{}m", 250 * dice.roll(5)).as_str());
    if dice.roll(4) > 0 {
        pod = pod.label("app", dice.of(&["a", "a", "b"]));
    }
    if dice.one_in(2) {
        pod = pod.label("rev", dice.of(&["1", "2"]));
    }
    if dice.one_in(6) {
        pod = pod.in_namespace("other");
    }
    if dice.one_in(6) {
        pod = pod.node_selector(RACK, format!("r{}", dice.roll(5)));
    }
    if dice.one_in(4) {
        pod = pod.toleration(Toleration::exists("t"));
    }
    for _ in 0..dice.roll(3) {
        pod = pod.spread(constraint(dice));
    }
    if dice.one_in(4) {
        pod = pod.affinity(term(dice));
    }
    if dice.one_in(5) {
        pod = pod.anti_affinity(term(dice));
    }
    let weighted = |dice: &mut Dice| {
        let weight = 1 + dice.roll(100) as i32;
        WeightedPodAffinityTerm::new(weight, term(dice))
    };
    if dice.one_in(5) {
        let one = weighted(dice);
        pod.shape_mut().preferred_pod_affinity.push(one);
    }
    if dice.one_in(6) {
        let one = weighted(dice);
        pod.shape_mut().preferred_pod_anti_affinity.push(one);
    }
    if dice.one_in(5) {
        pod.shape_mut().owner_selector = Some(LabelSelector::label("app", "a"));
    }
    pod
}

pub(super) fn leaf(dice: &mut Dice, name: &str) -> PodGroup {
    let members = 1 + dice.roll(7);
    let mut group = PodGroup::gang(name, 1 + dice.roll(members) as u32);
    let mixed = dice.one_in(2);
    let template = pod(dice);
    for _ in 0..members {
        let mut next = if mixed && dice.one_in(2) { pod(dice) } else { template.clone() };
        next.shape_mut().namespace.clone_from(&template.shape().namespace);
        group = group.pods(1, next);
    }
    group.namespace.clone_from(&template.shape().namespace);
    topology(dice, group)
}

pub(super) fn topology(dice: &mut Dice, group: PodGroup) -> PodGroup {
    match dice.roll(7) {
        0 => group.require(RACK),
        1 => group.require(ZONE),
        2 => group.prefer(RACK),
        3 => group.prefer(RACK).require(ZONE),
        _ => group,
    }
}

pub(super) fn group(dice: &mut Dice, name: &str) -> PodGroup {
    if dice.roll(3) > 0 {
        return leaf(dice, name);
    }
    let children = 1 + dice.roll(3);
    let mut group = PodGroup::gang(name, 1 + dice.roll(children) as u32);
    for child in 0..children {
        let mut part = leaf(dice, &format!("{name}-{child}"));
        part.namespace = "default".into();
        for pod in &mut part.pods {
            pod.shape_mut().namespace = "default".into();
        }
        group = group.group(part);
    }
    topology(dice, group)
}

/// The same group under another name.
pub(super) fn again(shared: &PodGroup, name: &str) -> PodGroup {
    let mut again = shared.clone();
    again.name = name.into();
    for (index, pod) in again.pods.iter_mut().enumerate() {
        pod.name = format!("{name}-{index}");
    }
    again
}

/// Something happens between two gangs.
pub(super) fn disturb(dice: &mut Dice, cluster: &mut Cluster, nodes: u64, step: u64) {
    let names: Vec<(String, String)> =
        cluster.pods().map(|pod| (pod.namespace().into(), pod.name().into())).collect();
    let some = |dice: &mut Dice| names.get(dice.roll(names.len().max(1) as u64) as usize);
    match dice.roll(12) {
        0 | 1 => {
            if let Some((namespace, name)) = some(dice) {
                cluster.remove_pod(namespace, name).unwrap();
            }
        }
        2 | 3 => {
            let bound = pod(dice).name(format!("b{step}")).on(format!("n{}", dice.roll(nodes)));
            cluster.add_pod(bound).unwrap();
        }
        4 => {
            let mut bound = pod(dice).name(format!("d{step}")).on(format!("n{}", dice.roll(nodes)));
            bound.deleting = true;
            cluster.add_pod(bound).unwrap();
        }
        5 => {
            if let Some((namespace, name)) = some(dice) {
                let pod = cluster.pod(namespace, name).unwrap();
                let shape = Arc::new(pod.shape().clone());
                let node = pod.node().map_or("gone", NodeView::name).to_string();
                cluster.remove_pod(namespace, name).unwrap();
                let mut leaving = Pod::of_shape(shape).name(name.as_str()).on(node);
                leaving.deleting = true;
                cluster.add_pod(leaving).unwrap();
            }
        }
        8 if dice.one_in(2) => {
            let name = dice.roll(nodes);
            let changed = node(dice, name);
            cluster.update_node(&changed).unwrap();
        }
        6 if dice.one_in(2) => {
            let team = Labels::from([("team".to_string(), dice.of(&["x", "y"]).to_string())]);
            cluster.set_namespace(dice.of(&["default", "other"]), team);
        }
        7 => *cluster = cluster.clone(),
        _ => {}
    }
}
