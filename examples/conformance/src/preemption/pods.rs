//! Attempts of pods, each with the preemption that it leads to.

use std::time::Duration;

use phalanx::preempt::kubernetes::{
    DryRunFailure, Ineligible, NodeCandidate, OwnNomination, PodPreemption, PreemptionSnapshot,
    preempt_pod, schedule_pod,
};
use phalanx::{Pod, Time};
use serde_json::{Map, Value};

use super::{Disagreement, difference, names, object, pairs, read, sorted, texts};

/// When the first pod that a sequence binds starts: 2026-01-02T00:00:00Z.
const FIRST_START: Time = Time::from_secs(1_767_312_000);

/// The first disagreement; `None` if all steps agree.
pub(in super::super) fn compare(
    scenario: Value,
    expected: &Value,
) -> Result<Option<Disagreement>, String> {
    let scenario = read(scenario)?;
    let mut snapshot = scenario.snapshot()?;
    let mut steps = Vec::new();
    if let Some(sequence) = &scenario.sequence {
        let mut bound: Vec<&str> = Vec::new();
        for name in sequence {
            let pod = scenario.pending().iter().find(|pod| pod.name == *name);
            let pod = pod.ok_or_else(|| format!("sequence: {name} is not pending"))?;
            if bound.contains(&name.as_str()) {
                continue;
            }
            let (step, effect) = step(&snapshot, pod, true)?;
            steps.push(step);
            let start = FIRST_START.after(Duration::from_secs(bound.len() as u64));
            if take_effect(&mut snapshot, pod, effect, start).map_err(|error| error.to_string())? {
                bound.push(name);
            }
        }
    } else {
        for pod in scenario.pending() {
            steps.push(step(&snapshot, pod, false)?.0);
        }
    }
    let wanted = expected.get("steps").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if let Some(field) =
        expected.as_object().into_iter().flatten().find(|(name, _)| *name != "steps")
    {
        return Ok(Some(Disagreement::new("all", field.0, "", field.1, "not known")));
    }
    for (wanted, got) in wanted.iter().zip(&steps) {
        let name = got.get("pod").and_then(Value::as_str).unwrap_or_default();
        if let Some(disagreement) = difference(name, "", wanted, got) {
            return Ok(Some(disagreement));
        }
    }
    if wanted.len() == steps.len() {
        return Ok(None);
    }
    Ok(Some(Disagreement::new("all", "steps", "", wanted.len(), steps.len())))
}

/// Effect of a step.
enum Effect {
    Bound(String),
    Preempted(PodPreemption),
}

/// One attempt, as cases write it down.
fn step(
    snapshot: &PreemptionSnapshot<'_>,
    pod: &Pod,
    in_sequence: bool,
) -> Result<(Value, Effect), String> {
    let attempt = schedule_pod(snapshot, pod).map_err(|error| error.to_string())?;
    // Nodes that were left out while preparing are listed if no node is feasible.
    let all = attempt.chosen().is_none();
    let rejected = attempt.rejected().iter().filter(|node| all || node.filter.is_some());
    let unresolvable = rejected.clone().filter(|node| node.unresolvable);
    let unresolvable = texts(unresolvable.map(|node| &node.node));
    let filter = |filter: &Option<String>| filter.clone().unwrap_or("PreFilterResult".into());
    let rejected = pairs(rejected.map(|node| (&node.node, filter(&node.filter))));
    let name = Value::from(pod.name.as_str());
    if let Some(chosen) = attempt.chosen() {
        let step = object([
            ("pod", name),
            ("feasible", texts(attempt.feasible())),
            ("chosen", if in_sequence { chosen.into() } else { Value::Null }),
            ("rejected", rejected),
            ("unresolvable", unresolvable),
        ]);
        return Ok((step, Effect::Bound(chosen.into())));
    }
    let answer = preempt_pod(snapshot, pod, &attempt).map_err(|error| error.to_string())?;
    let step = object([
        ("pod", name),
        ("rejected", rejected),
        ("unresolvable", unresolvable),
        ("preemption", preemption(&answer)),
    ]);
    Ok((step, Effect::Preempted(answer)))
}

fn preemption(answer: &PodPreemption) -> Value {
    let reason = answer.ineligible().map(|reason| match reason {
        Ineligible::PreemptionPolicyNever => "preemption-policy-never",
        Ineligible::TerminatingVictim => "terminating-victim-on-nominated-node",
        _ => "unknown",
    });
    let candidates = answer.candidates().iter().map(|candidate| {
        let fields = [
            ("victims", names(candidate.victims())),
            ("pdbViolations", candidate.pdb_violations().into()),
        ];
        (candidate.node().to_string(), object(fields))
    });
    let candidates: Map<String, Value> = candidates.collect();
    let failed = answer.failed().iter().map(|(node, failure)| {
        let failure = match failure {
            DryRunFailure::NoVictims => "no-victims",
            DryRunFailure::Rejected(filter) => filter.as_deref().unwrap_or("PreFilterResult"),
            _ => "error",
        };
        (node, failure)
    });
    let chosen = answer.chosen();
    let own = match answer.own_nomination() {
        OwnNomination::Set => "set",
        OwnNomination::Cleared => "cleared",
        OwnNomination::Unchanged => "unchanged",
    };
    object([
        ("eligible", reason.is_none().into()),
        ("reason", reason.into()),
        ("candidates", candidates.into()),
        ("failed", pairs(failed)),
        ("helps", chosen.is_some().into()),
        ("node", chosen.map(NodeCandidate::node).into()),
        ("best", texts(answer.best().map(NodeCandidate::node))),
        ("victims", chosen.map_or(Value::Null, |chosen| names(chosen.victims()))),
        ("pdbViolations", chosen.map_or(0, NodeCandidate::pdb_violations).into()),
        ("deleted", sorted(answer.deleted())),
        ("clearedNominations", texts(answer.cleared_nominations().iter().map(|pod| &pod.name))),
        ("ownNomination", own.into()),
    ])
}

/// Does what follows from a step. Returns whether the pod was bound.
fn take_effect(
    snapshot: &mut PreemptionSnapshot<'_>,
    pod: &Pod,
    effect: Effect,
    start: Time,
) -> Result<bool, phalanx::StateError> {
    let answer = match effect {
        Effect::Bound(node) => {
            snapshot.bind(pod, &node, start)?;
            return Ok(true);
        }
        Effect::Preempted(answer) => answer,
    };
    snapshot.apply(pod, &answer)?;
    Ok(false)
}
