//! The answer as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use phalanx::autoscale::{ScaleDown, ScaleUp, ScaleUpClaim};
use phalanx::state::Assignment;

use super::first_fit::FirstFit;
use super::scene::{GPU, MODEL, Scene};
use crate::common::text::{count, span, thousands};

/// Letters for groups.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%";

fn claim(start: &ScaleUp) -> &'static str {
    match start.claim {
        ScaleUpClaim::First => "proved cheapest, and first among equals",
        ScaleUpClaim::Cheapest => "proved cheapest",
        _ => "the best found",
    }
}

/// The pods on a new node: the group's name and the GPUs of each.
fn on<'a>(start: &'a ScaleUp, node: &'a str) -> impl Iterator<Item = (&'a str, i64)> {
    let all = start.plans.iter().flat_map(phalanx::Plan::assignments);
    all.filter(move |own: &Assignment<'_>| own.node() == node).map(|own| {
        let group = own.pod().group.as_deref().unwrap_or_default();
        (group, own.pod().shape().requests.of(GPU))
    })
}

pub(crate) fn text(
    scene: &Scene,
    (start, taken): (&ScaleUp, Duration),
    first_fit: &FirstFit,
    (down, emptied): (&ScaleDown, Duration),
) -> String {
    let mut out = String::new();
    let percent = 100.0 * scene.used as f64 / scene.gpus as f64;
    let _ = writeln!(
        out,
        "openb (Alibaba): {} nodes, {} GPUs, {percent:.1} % taken; {} wait\n\
         prices are our own, in cents an hour; they say nothing of what anybody charges\n",
        thousands(scene.cluster.node_count() as u64),
        thousands(scene.gpus as u64),
        count(scene.backlog.len(), "gang"),
    );
    let nodes = start.nodes().count();
    let _ = writeln!(
        out,
        "{} for {} ({}, {}, {})",
        count(nodes, "new node"),
        thousands(start.price),
        claim(start),
        count(start.steps as usize, "step"),
        span(taken),
    );
    let above = |price: u64| {
        let more = price as f64 / start.lower_bound.max(1) as f64 - 1.0;
        format!("{:+.1} % above the lower bound", 100.0 * more)
    };
    let _ = writeln!(out, "  lower bound             {:>9}", thousands(start.lower_bound));
    let _ = writeln!(
        out,
        "  bought                  {:>9}  {}",
        thousands(start.price),
        above(start.price)
    );
    let _ = writeln!(
        out,
        "  first-fit decreasing    {:>9}  {}{}\n",
        thousands(first_fit.price),
        above(first_fit.price),
        if first_fit.left == 0 {
            String::new()
        } else {
            format!(", {} not started", first_fit.left)
        },
    );
    let mut letters: BTreeMap<&str, char> = BTreeMap::new();
    for group in start.plans.iter().flat_map(phalanx::Plan::assignments) {
        let name = group.pod().group.as_deref().unwrap_or_default();
        let next = char::from(LETTERS[letters.len() % LETTERS.len()]);
        letters.entry(name).or_insert(next);
    }
    for block in &start.blocks {
        let mut groups = start.groups_on(block);
        groups.sort();
        let groups: Vec<String> = groups
            .iter()
            .map(|name| name.rsplit('/').next().unwrap_or_default())
            .map(|name| format!("{} {name}", letters.get(name).copied().unwrap_or(' ')))
            .collect();
        let _ = writeln!(
            out,
            "{:<14}{:>6}  for {}",
            block.template,
            thousands(block.price),
            groups.join(", "),
        );
        for node in &block.nodes {
            let mut slots = String::new();
            for (group, gpus) in on(start, &node.name) {
                let letter = letters.get(group).copied().unwrap_or('?');
                slots.extend(std::iter::repeat_n(letter, usize::try_from(gpus).unwrap_or(0)));
            }
            let all = usize::try_from(node.allocatable.of(GPU)).unwrap_or(0);
            let free = all.saturating_sub(slots.len());
            let _ = writeln!(out, "  {:<22}{slots}{}", node.name, ".".repeat(free));
        }
    }
    let moves: usize = down.removals.iter().map(|removal| removal.moves.len()).sum();
    let _ = writeln!(
        out,
        "\nonce they run, {} could be taken away for {}, after {} ({})",
        count(down.removals.len(), "node"),
        thousands(down.price),
        count(moves, "move"),
        span(emptied),
    );
    for removal in &down.removals {
        let model = scene.cluster.node(&removal.node).and_then(|node| node.label(MODEL));
        let _ = write!(out, "  {} {:<8}{:>6}", removal.node, model.unwrap_or(""), removal.price);
        for step in removal.moves.iter().take(3) {
            let _ = write!(out, "  {} -> {}", step.pod.name, step.to);
        }
        let more = removal.moves.len().saturating_sub(3);
        let _ = writeln!(
            out,
            "{}",
            if more > 0 { format!("  and {more} more") } else { String::new() }
        );
    }
    let mut reasons: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for kept in &down.kept {
        let entry = reasons.entry(word(&kept.reason)).or_insert_with(|| (0, kept.to_string()));
        entry.0 += 1;
    }
    for (reason, (nodes, first)) in reasons {
        let _ = writeln!(out, "  {nodes:>5} stay: {reason} ({first})");
    }
    out
}

fn word(reason: &phalanx::autoscale::Blocked) -> &'static str {
    use phalanx::autoscale::Blocked;
    match reason {
        Blocked::Unit { .. } => "a pod may not be moved",
        Blocked::Together { .. } => "a pod does not move alone",
        Blocked::NoRoom { .. } => "no room elsewhere",
        Blocked::NoOrder { .. } => "no order of moves",
        Blocked::Receives { .. } => "pods have moved to them",
        _ => "the budget ran out",
    }
}

pub(crate) fn json(
    scene: &Scene,
    (start, taken): (&ScaleUp, Duration),
    first_fit: &FirstFit,
    (down, emptied): (&ScaleDown, Duration),
) -> String {
    let blocks: Vec<serde_json::Value> = start
        .blocks
        .iter()
        .map(|block| {
            let names: Vec<&str> = block.nodes.iter().map(|node| &*node.name).collect();
            serde_json::json!({
                "template": block.template,
                "price": block.price,
                "nodes": names,
                "groups": start.groups_on(block),
            })
        })
        .collect();
    let value = serde_json::json!({
        "nodes": scene.cluster.node_count(),
        "gpus": scene.gpus,
        "gpusUsed": scene.used,
        "gangs": scene.backlog.len(),
        "prices": "our own, in cents an hour",
        "scaleUp": {
            "price": start.price,
            "lowerBound": start.lower_bound,
            "claim": start.claim,
            "steps": start.steps,
            "newNodes": start.nodes().count(),
            "blocks": blocks,
            "milliseconds": taken.as_secs_f64() * 1e3,
        },
        "firstFit": {
            "price": first_fit.price,
            "newNodes": first_fit.nodes,
            "notStarted": first_fit.left,
        },
        "scaleDown": {
            "price": down.price,
            "removals": down.removals,
            "kept": down.kept,
            "milliseconds": emptied.as_secs_f64() * 1e3,
        },
    });
    format!("{value:#}\n")
}
