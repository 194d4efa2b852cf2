//! Why a group was not placed, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use phalanx::framework::{Evaluation, Rejection};
use phalanx::model::GroupPolicy;
use phalanx::{Cluster, Framework, Outcome, Plan, Pod, PodGroup, Time, place_gang};

use crate::common::text::{count, thousands};

/// How many kinds of pods are told of.
const SHAPES: usize = 8;

/// The outcome in words: a sentence, and for a group without a place what each kind of pod meets
/// on the cluster as it is.
pub(crate) fn explain(
    cluster: &Cluster,
    framework: &Framework,
    group: &PodGroup,
    outcome: &Outcome,
) -> String {
    let mut text = outcome.to_string();
    if !matches!(outcome, Outcome::Unplaced(_)) {
        return text;
    }
    if let Some(plan) = partial(cluster, framework, group) {
        let (found, minimum) = (plan.len(), group.policy.minimum());
        let _ = write!(text, "; {found} of the {minimum} pods needed would find a place");
        if let Some(verdict) = next(cluster, framework, group, &plan) {
            let _ = write!(text, "; after those, {verdict}");
        }
    }
    let pods = group.all_pods();
    let gated = pods.iter().filter(|pod| !pod.scheduling_gates.is_empty()).count();
    if gated > 0 {
        let gates = pods.iter().flat_map(|pod| pod.scheduling_gates.iter().map(String::as_str));
        let gates = gates.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("; ");
        let _ = write!(text, "; {} must not be placed yet: {gates}", count(gated, "pod"));
    }
    asks(group, &mut text);
    let mut kinds: Vec<(&Pod, usize)> = Vec::new();
    for pod in pods {
        match kinds.iter_mut().find(|(kind, _)| kind.shape() == pod.shape()) {
            Some((_, number)) => *number += 1,
            None => kinds.push((pod, 1)),
        }
    }
    for (pod, number) in kinds.iter().take(SHAPES) {
        let verdict = rejections(cluster, framework, group, pod);
        let others = match number - 1 {
            0 => String::new(),
            others => format!(" and {others} like it"),
        };
        let (namespace, name) = (pod.namespace(), &pod.name);
        let _ = write!(text, "; alone, pod {namespace}/{name}{others}: {verdict}");
    }
    if kinds.len() > SHAPES {
        let _ = write!(text, "; and {} more", count(kinds.len() - SHAPES, "kind of pod"));
    }
    text
}

/// Topology requests of a group and of those inside it.
fn asks(group: &PodGroup, text: &mut String) {
    let asked = &group.topology;
    let name = group.full_name();
    if let Some(level) = &asked.require {
        let _ = write!(text, "; {name} asks for one domain of {level}");
    }
    for slice in &asked.slices {
        let (size, level) = (slice.size, &slice.level);
        let _ = write!(text, "; {name} asks for one domain of {level} for each {size} pods");
    }
    group.groups.iter().for_each(|inner| asks(inner, text));
}

/// Where the pods of a leaf go if any number of them will do; `None` if none finds a place.
fn partial(cluster: &Cluster, framework: &Framework, group: &PodGroup) -> Option<Plan> {
    if !group.groups.is_empty() || group.policy.minimum() < 2 {
        return None;
    }
    let mut relaxed = group.clone();
    relaxed.policy = GroupPolicy::Basic {};
    let outcome = place_gang(cluster, framework, &relaxed).ok()?;
    outcome.plan().cloned()
}

/// The answer to the first pod without a place, once the others are in place.
fn next(cluster: &Cluster, framework: &Framework, group: &PodGroup, plan: &Plan) -> Option<String> {
    let mut txn = cluster.txn();
    txn.apply_plan(plan).ok()?;
    let placed: BTreeSet<&str> = plan.assignments().map(|at| at.pod().name.as_str()).collect();
    let waits = |pod: &&Pod| pod.scheduling_gates.is_empty() && !placed.contains(pod.name.as_str());
    let pod = group.pods.iter().find(waits)?;
    let verdict = rejections(&txn, framework, group, pod);
    Some(format!("pod {}/{}: {verdict}", pod.namespace(), pod.name))
}

/// How many nodes take a pod of its own, and which filters reject the others.
fn rejections(cluster: &Cluster, framework: &Framework, group: &PodGroup, pod: &Pod) -> String {
    let evaluation = Evaluation::new(framework, cluster, pod.shape(), Some(group), Time::ZERO);
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut pass = 0;
    for node in cluster.nodes() {
        match evaluation.filter(node) {
            Ok(()) => pass += 1,
            Err(Rejection::Refused(filter, _) | Rejection::Filter(filter, _)) => {
                *counts.entry(filter).or_default() += 1;
            }
            Err(_) => *counts.entry(usize::MAX).or_default() += 1,
        }
    }
    let pass = thousands(pass);
    let mut text = format!("{pass} of {} would do", count(cluster.node_count(), "node"));
    for (index, (filter, nodes)) in counts.iter().enumerate() {
        let name = framework.filter_names().nth(*filter).unwrap_or("another node is named");
        let (before, nodes) = (if index == 0 { ":" } else { "," }, thousands(*nodes as u64));
        let _ = write!(text, "{before} {nodes} rejected by {name}");
    }
    text
}
