//! Pods placed one after another, each judged by every plugin.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::framework::{Evaluation, Rejection, Verdict};
use phalanx::state::{NodeView, Row};
use phalanx::{Framework, Pod, Time, Txn};
use serde_json::Value;

use super::Disagreement;
use super::expect::{integers, list, names, tables, text, texts};
use super::scenario::Scenario;

/// The first disagreement; `None` if all steps agree.
pub(super) fn compare(
    scenario: &Scenario,
    expected: &Value,
) -> Result<Option<Disagreement>, String> {
    let mut txn = scenario.cluster.txn();
    let steps = list(expected, "steps")?;
    if steps.len() != scenario.pending.len() {
        let (expected, actual) = (steps.len(), scenario.pending.len());
        return Ok(Some(Disagreement::new("all", "", "", expected, actual)));
    }
    for (pod, step) in scenario.pending.iter().zip(steps) {
        let name = text(step, "pod")?;
        if name != pod.name {
            return Ok(Some(Disagreement::new(name, "", "", name, &pod.name)));
        }
        match compare_step(&scenario.framework, &txn, pod, step)? {
            Ok(None) => {}
            Ok(Some(row)) => {
                let node = txn.view(row).map(NodeView::id).ok_or("a row without a node")?;
                txn.place(pod, node).map_err(|error| error.to_string())?;
            }
            Err(disagreement) => return Ok(Some(disagreement)),
        }
    }
    Ok(None)
}

/// One pod: the row it goes to, or where the answers differ.
fn compare_step(
    framework: &Framework,
    txn: &Txn,
    pod: &Pod,
    step: &Value,
) -> Result<Result<Option<Row>, Disagreement>, String> {
    let differ = |plugin: &str, node: &str, expected: String, actual: String| {
        Ok(Err(Disagreement::new(&pod.name, plugin, node, expected, actual)))
    };
    let plugin = |number: usize| framework.filter_names().nth(number).expect("a filter");
    let mut evaluation = Evaluation::new(framework, txn, pod.shape(), None, Time::ZERO);
    let refused = evaluation.refused().map_or("", |(number, _)| plugin(number));
    let expected_refused = step.get("prefilterRejectedBy").and_then(Value::as_str).unwrap_or("");
    if refused != expected_refused {
        let show = |name: &str| if name.is_empty() { "not refused".into() } else { name.into() };
        return differ("prefilterRejectedBy", "", show(expected_refused), show(refused));
    }
    if !refused.is_empty() {
        return Ok(Ok(None));
    }

    let rejected = texts(step, "rejected")?;
    let mut feasible: Vec<(&str, Row)> = Vec::new();
    for node in txn.nodes() {
        let actual = match evaluation.filter(node) {
            Ok(()) => None,
            Err(Rejection::Narrowed) => Some("PreFilterResult"),
            Err(Rejection::Refused(number, _) | Rejection::Filter(number, _)) => {
                Some(plugin(number))
            }
            Err(_) => Some("for a reason that is not known here"),
        };
        let expected = rejected.get(node.name()).copied();
        if actual != expected {
            let show = |name: Option<&str>| name.unwrap_or("feasible").to_string();
            return differ("filters", node.name(), show(expected), show(actual));
        }
        if actual.is_none() {
            feasible.push((node.name(), node.row()));
        }
    }
    if let Some(stranger) = rejected.keys().find(|name| txn.node(name).is_none()) {
        return differ("filters", stranger, "a node".into(), "no such node".into());
    }
    if feasible.is_empty() {
        return match step.get("chosen").and_then(Value::as_str) {
            Some(node) => differ("chosen", node, node.into(), "no node is feasible".into()),
            None => Ok(Ok(None)),
        };
    }

    let rows: Vec<Row> = feasible.iter().map(|(_, row)| *row).collect();
    let mut actual: BTreeMap<&str, BTreeMap<&str, i64>> = BTreeMap::new();
    let mut totals: BTreeMap<&str, i64> = feasible.iter().map(|(name, _)| (*name, 0)).collect();
    for column in evaluation.score(&rows) {
        let scores = feasible.iter().map(|(name, _)| *name).zip(column.scores);
        let scores: BTreeMap<&str, i64> = scores.collect();
        for (node, score) in &scores {
            *totals.entry(node).or_default() += score;
        }
        actual.insert(framework.score_names().nth(column.plugin).expect("a score").1, scores);
    }
    let expected = tables(step, "scores")?;
    let plugins: BTreeSet<&str> = expected.keys().chain(actual.keys()).copied().collect();
    // A plugin that skipped itself is absent, or gives 0.
    let of = |table: &BTreeMap<&str, BTreeMap<&str, i64>>, plugin: &str, node: &str| {
        table.get(plugin).and_then(|scores| scores.get(node)).copied().unwrap_or(0)
    };
    for plugin in plugins {
        for (node, _) in &feasible {
            let (expected, actual) = (of(&expected, plugin, node), of(&actual, plugin, node));
            if expected != actual {
                return differ(plugin, node, expected.to_string(), actual.to_string());
            }
        }
    }
    let expected = integers(step, "total")?;
    if expected != totals {
        return differ("total", "", format!("{expected:?}"), format!("{totals:?}"));
    }
    let most = totals.values().max().copied();
    let is_best = |name: &&str| totals.get(name).copied() == most;
    let best: BTreeSet<&str> = feasible.iter().map(|(name, _)| *name).filter(is_best).collect();
    let expected = names(step, "best")?;
    if expected != best {
        return differ("best", "", format!("{expected:?}"), format!("{best:?}"));
    }
    let Some((chosen, row)) = feasible.iter().find(|(name, _)| is_best(name)) else {
        return Err("the best node is not feasible".into());
    };
    let expected = text(step, "chosen")?;
    if expected != *chosen {
        return differ("chosen", "", expected.into(), (*chosen).into());
    }
    Ok(Ok(Some(*row)))
}

/// Whether every filter lets a pod on a node, as things are.
pub(super) fn passes(
    framework: &Framework,
    txn: &Txn,
    pod: &Pod,
    node: &str,
) -> Result<(), String> {
    let view = txn.node(node).ok_or_else(|| format!("{node}: no such node"))?;
    let evaluation = Evaluation::new(framework, txn, pod.shape(), None, Time::ZERO);
    let by = |number: usize, verdict: Verdict| {
        let plugin = framework.filter_names().nth(number).expect("a filter");
        format!("{plugin} rejects {} on {node}: {verdict:?}", pod.name)
    };
    evaluation.filter(view).map_err(|rejection| match rejection {
        Rejection::Narrowed => format!("{} may not go to {node}", pod.name),
        Rejection::Refused(number, verdict) | Rejection::Filter(number, verdict) => {
            by(number, verdict)
        }
        other => format!("{other:?} keeps {} off {node}", pod.name),
    })
}
