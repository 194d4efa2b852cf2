//! Why a group was not placed, in words.

use std::collections::BTreeMap;
use std::fmt::Write;

use phalanx::framework::{Evaluation, Rejection};
use phalanx::model::{GroupPolicy, Pod, PodGroup};
use phalanx::{Cluster, Framework, Outcome, Time, place_gang};

use crate::common::text::count;

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
    if let Some(found) = at_most(cluster, framework, group) {
        let minimum = group.policy.minimum();
        let _ = write!(text, "; {found} of the {minimum} pods needed would find a place");
    }
    let pods = group.all_pods();
    let gated = pods.iter().filter(|pod| !pod.scheduling_gates.is_empty()).count();
    if gated > 0 {
        let _ = write!(text, "; {} must not be placed yet", count(gated, "pod"));
    }
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
        let _ = write!(text, "; pod {}/{}{others}: {verdict}", pod.namespace(), pod.name);
    }
    if kinds.len() > SHAPES {
        let _ = write!(text, "; and {} more", count(kinds.len() - SHAPES, "kind of pod"));
    }
    text
}

/// How many pods of a leaf find a place if any number will do.
fn at_most(cluster: &Cluster, framework: &Framework, group: &PodGroup) -> Option<usize> {
    if !group.groups.is_empty() || group.policy.minimum() < 2 {
        return None;
    }
    let mut relaxed = group.clone();
    relaxed.policy = GroupPolicy::Basic {};
    place_gang(cluster, framework, &relaxed)
        .ok()
        .map(|outcome| outcome.plan().map_or(0, phalanx::Plan::len))
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
            Err(Rejection::Narrowed) => *counts.entry(usize::MAX).or_default() += 1,
        }
    }
    let mut text = format!("{pass} of {} would do", count(cluster.node_count(), "node"));
    for (index, (filter, nodes)) in counts.iter().enumerate() {
        let name = framework.filters().get(*filter).map_or("another node is named", |f| f.name());
        let _ = write!(text, "{} {nodes} rejected by {name}", if index == 0 { ":" } else { "," });
    }
    text
}
