//! A group that may preempt: as a whole, in single domains, and pod by pod.

use std::collections::BTreeSet;

use phalanx::preempt::kubernetes::{
    GroupPreemption, GroupRefusal, PreemptionSnapshot, preempt_group, preempt_pod_by_pod,
    schedule_group,
};
use phalanx::{PlaceError, PodGroup};
use serde_json::{Map, Value};

use super::{Disagreement, difference, names, object, pairs, read, sorted, texts};

/// The first disagreement; `None` if every field agrees. Whether victims depend on the order of
/// ties (`tieStable`) is no answer of ours, and is not compared.
pub(in super::super) fn compare(
    scenario: Value,
    expected: &Value,
) -> Result<Option<Disagreement>, String> {
    let scenario = read(scenario)?;
    let snapshot = scenario.snapshot()?;
    let gang = scenario.gang()?;
    let mut expected = expected.clone();
    let stable = expected.as_object_mut().and_then(|fields| fields.remove("tieStable"));
    if !stable.as_ref().is_some_and(Value::is_boolean) {
        let stable = stable.unwrap_or_default();
        return Ok(Some(Disagreement::new("", "tieStable", "", "true or false", stable)));
    }
    let actual = answer(&snapshot, &gang).map_err(|error| error.to_string())?;
    Ok(difference("", "", &expected, &actual))
}

/// All answers for a group, as cases write them down.
fn answer(snapshot: &PreemptionSnapshot<'_>, gang: &PodGroup) -> Result<Value, PlaceError> {
    let attempt = schedule_group(snapshot, gang)?;
    let key = gang.topology.require.as_deref();
    let placed = if key.is_some() { Value::Null } else { places(gang, attempt.placed()) };
    if attempt.is_feasible() {
        return Ok(object([("feasible", true.into()), ("placed", placed)]));
    }
    let whole = preempt_group(snapshot, gang)?;
    let pod_by_pod = if key.is_some() {
        Value::Null
    } else {
        let answer = preempt_pod_by_pod(snapshot, gang)?;
        let members = answer.preempting().iter().map(|index| &gang.pods[*index].name);
        object([
            ("helps", answer.helps().into()),
            ("nodes", places(gang, answer.nodes())),
            ("preempting", texts(members)),
            ("deleted", sorted(answer.deleted())),
        ])
    };
    Ok(object([
        ("feasible", false.into()),
        ("placed", placed),
        ("workloadAware", preemption(snapshot, gang, &whole, true)?),
        ("perDomain", key.map_or(Ok(Value::Null), |key| per_domain(snapshot, gang, key))?),
        ("podByPod", pod_by_pod),
    ]))
}

/// The same in each domain of a key, as if the cluster were no larger.
fn per_domain(
    snapshot: &PreemptionSnapshot<'_>,
    gang: &PodGroup,
    key: &str,
) -> Result<Value, PlaceError> {
    let mut gang = gang.clone();
    gang.topology.require = None;
    let values = snapshot.cluster().nodes().filter_map(|node| node.label(key));
    let values: BTreeSet<&str> = values.collect();
    let mut domains = Map::new();
    for value in values {
        let inner = snapshot.within(key, value)?;
        let answer = if schedule_group(&inner, &gang)?.is_feasible() {
            object([("helps", false.into()), ("reason", "fits-without-victims".into())])
        } else {
            preemption(&inner, &gang, &preempt_group(&inner, &gang)?, false)?
        };
        domains.insert(value.into(), answer);
    }
    Ok(domains.into())
}

fn preemption(
    snapshot: &PreemptionSnapshot<'_>,
    gang: &PodGroup,
    answer: &GroupPreemption,
    nominated: bool,
) -> Result<Value, PlaceError> {
    let reason = answer.refusal().map(|refusal| match refusal {
        GroupRefusal::TopologyConstraint => "topology-constraint",
        GroupRefusal::PreemptionPolicyNever => "preemption-policy-never",
        GroupRefusal::NoVictims => "no-victims",
        GroupRefusal::DoesNotFit => "does-not-fit-without-victims",
        _ => "unknown",
    });
    if reason.is_some() {
        return Ok(object([("helps", false.into()), ("reason", reason.into())]));
    }
    let mut after = snapshot.clone();
    for victim in answer.victims() {
        after.remove(&victim.pod.namespace, &victim.pod.name)?;
    }
    let afterwards = schedule_group(&after, gang)?;
    Ok(object([
        ("helps", true.into()),
        ("victims", names(answer.victims())),
        ("deleted", sorted(answer.deleted())),
        ("nominated", if nominated { places(gang, answer.nominated()) } else { Value::Null }),
        ("afterwards", places(gang, afterwards.placed())),
        ("afterwardsFeasible", afterwards.is_feasible().into()),
    ]))
}

/// Members with their nodes.
fn places(gang: &PodGroup, placed: &[(usize, String)]) -> Value {
    pairs(placed.iter().map(|(index, node)| (&gang.pods[*index].name, node)))
}
