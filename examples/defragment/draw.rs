//! The nodes concerned, before, between and after, as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use phalanx::Cluster;
use phalanx::preempt::{Defragmentation, Preempt};
use phalanx::state::Assignment;

use crate::scene::{GPU, RACK};

/// The cluster at three times.
pub(crate) struct Stages<'a> {
    pub(crate) before: &'a Cluster,
    /// With the moves made.
    pub(crate) between: &'a Cluster,
    /// With the gang.
    pub(crate) after: &'a Cluster,
}

/// The letter of each pod that moves.
fn letters(preempt: &Preempt) -> BTreeMap<&str, char> {
    let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
    preempt.moves.iter().enumerate().map(|(at, step)| (&*step.pod.name, letter(at))).collect()
}

/// The GPUs of a node.
fn line(cluster: &Cluster, node: &str, letters: &BTreeMap<&str, char>, gang: &str) -> String {
    let (Some(node), Some(gpu)) = (cluster.node(node), cluster.resource(GPU)) else {
        return String::new();
    };
    let mut pods: Vec<_> = node.pods().collect();
    pods.sort_by_key(|pod| pod.name().to_string());
    let mut line = String::new();
    for pod in pods {
        let letter = match letters.get(pod.name()) {
            Some(letter) => *letter,
            None if pod.group() == Some(gang) => '@',
            None => '#',
        };
        let held = usize::try_from(pod.shape().requests.of(GPU)).unwrap_or(0);
        line.extend(std::iter::repeat_n(letter, held));
    }
    let all = usize::try_from(node.allocatable(gpu)).unwrap_or(0);
    line.extend(std::iter::repeat_n('.', all.saturating_sub(line.len())));
    line
}

/// The moves in their order, the room, and the nodes concerned.
pub(crate) fn text(stages: &Stages<'_>, found: &Defragmentation) -> String {
    let mut out = String::new();
    let Some(preempt) = found.answer.preempt() else { return out };
    let claim = preempt.move_claim.map_or_else(String::new, |claim| claim.to_string());
    let _ = writeln!(out, "{} ({claim}, {} steps)", preempt.move_cost, preempt.steps);
    let letters = letters(preempt);
    for step in &preempt.moves {
        let name = &*step.pod.name;
        let stops = if step.stops { "  stops first, starts last" } else { "" };
        let _ =
            writeln!(out, "  {} {name:<12} {} -> {}{stops}", letters[name], step.pod.node, step.to);
    }
    for room in &found.room {
        let _ = writeln!(out, "on {} nodes: {room}", found.nodes.len());
    }
    let moved = preempt.moves.iter().flat_map(|step| [&*step.pod.node, &*step.to]);
    let nodes: BTreeSet<&str> =
        moved.chain(preempt.plan.assignments().map(Assignment::node)).collect();
    let gang = preempt.plan.group().to_string();
    let _ = writeln!(
        out,
        "\n{:<12}{:<11}{:<11}after      # stays  a-z moves  @ new  . free",
        "", "before", "between"
    );
    for node in nodes {
        let rack = stages.before.node(node).and_then(|node| node.label(RACK)).unwrap_or_default();
        let at = |cluster: &Cluster| line(cluster, node, &letters, &gang);
        let (before, between, after) = (at(stages.before), at(stages.between), at(stages.after));
        let _ = writeln!(out, "{rack:<5} {node:<6}{before:<11}{between:<11}{after}");
    }
    out
}
