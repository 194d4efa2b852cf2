//! Gangs with resource claims: what kube-scheduler's group cycle makes of them, and gangs that are
//! known to fit.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::model::{Allocation, ClaimSource};
use phalanx::{Cluster, Framework, Outcome, Planner, PodGroup, Request, Strategy, place_gang};
use serde_json::{Map, Value};

use super::super::{Disagreement, scenario};
use super::{Run, allocation, claim_name, difference};

/// Where a gang differs from what is recorded; of one that is known to fit, why it is not placed.
pub(crate) fn compare(scenario: Value, expected: &Value) -> Result<Option<Disagreement>, String> {
    if expected.get("kubeScheduler").is_some() {
        // The answer of kube-scheduler is given for comparison only.
        let known = expected.as_object().is_some_and(|own| own.len() == 2);
        return match expected.get("feasible") {
            Some(Value::Bool(true)) if known => planted(scenario),
            _ => Err("expect: is not that of a gang that is known to fit".into()),
        };
    }
    let expected = expected.get("repaired").unwrap_or(expected);
    let scenario = scenario::read(scenario)?;
    let group = scenario.group()?;
    let (cluster, framework) = (scenario.cluster.clone(), scenario.framework.clone());
    let minimum = scenario.gang.as_ref().map_or(0, |gang| gang.0) as usize;
    let mut run = Run { scenario, reserved: BTreeMap::new() };
    let actual = cycle(&mut run, minimum)?;
    if let Some((field, expected, actual)) = difference(expected, &actual) {
        return Ok(Some(Disagreement::new("cycle", field, "", expected, actual)));
    }
    planner(&cluster, &framework, &group, &actual)
}

/// The members one after the other, each on its best node.
fn cycle(run: &mut Run, minimum: usize) -> Result<Map<String, Value>, String> {
    let (mut placed, mut unplaced, mut refused) = (Map::new(), Map::new(), Map::new());
    let (mut allocations, mut fresh) = (Map::new(), BTreeMap::<String, Value>::new());
    let mut result = Map::new();
    for pod in run.scenario.pending.clone() {
        let step = run.step(&pod)?;
        if step.contains_key("errors") {
            result.insert("error".into(), true.into());
            break;
        }
        if let Some(plugin) = step.get("prefilterRejectedBy") {
            refused.insert(pod.name.clone(), plugin.clone());
            continue;
        }
        let Some(node) = step.get("chosen") else {
            let rejected = step.get("rejected").cloned().unwrap_or_default();
            unplaced.insert(pod.name.clone(), rejected);
            continue;
        };
        placed.insert(pod.name.clone(), node.clone());
        let mut own = Map::new();
        if let Some(Value::Object(found)) = step.get("allocations") {
            fresh.extend(found.clone());
        }
        for claim in &pod.shape().claims {
            let name = claim_name(&pod, &claim.name);
            if let Some(found) = fresh.get(name) {
                own.insert(name.into(), found.clone());
            }
        }
        if !own.is_empty() {
            allocations.insert(pod.name.clone(), own.into());
        }
    }
    result.insert("feasible".into(), (placed.len() >= minimum.max(1)).into());
    for (name, map) in [
        ("placed", placed),
        ("unplaced", unplaced),
        ("prefilterRejectedBy", refused),
        ("allocations", allocations),
    ] {
        if !map.is_empty() {
            result.insert(name.into(), map.into());
        }
    }
    Ok(result)
}

/// The planner beside the cycle: the same nodes and devices, and a commit that holds.
fn planner(
    cluster: &Cluster,
    framework: &Framework,
    group: &PodGroup,
    cycle: &Map<String, Value>,
) -> Result<Option<Disagreement>, String> {
    let outcome = place_gang(cluster, framework, group).map_err(|error| error.to_string())?;
    let differ = |field: &str, expected: &Value, actual: Value| {
        Ok(Some(Disagreement::new("planner", field, "", expected, actual)))
    };
    let feasible = &cycle["feasible"];
    let Outcome::Placed(plan) = outcome else {
        return if *feasible == Value::Bool(true) {
            differ("feasible", feasible, false.into())
        } else {
            Ok(None)
        };
    };
    let pairs = plan.assignments().map(|own| (own.pod().name.clone(), own.node().into()));
    let placed = Value::Object(pairs.collect());
    if cycle.get("placed") != Some(&placed) {
        return differ("placed", cycle.get("placed").unwrap_or(&Value::Null), placed);
    }
    for own in plan.assignments() {
        for held in own.allocations() {
            let name = claim_name(own.pod(), &held.claim);
            let expected = &cycle["allocations"][&own.pod().name][name];
            let actual = allocation(&held.allocation);
            if *expected != actual {
                return differ(name, expected, actual);
            }
        }
    }
    let mut after = cluster.clone();
    after.commit(framework, &plan).map_err(|error| error.to_string())?;
    Ok(None)
}

/// A gang that is known to fit is placed whole, and nothing is given away twice.
fn planted(scenario: Value) -> Result<Option<Disagreement>, String> {
    let scenario = scenario::read(scenario)?;
    let group = scenario.group()?;
    let request = Request::new(&group).strategy(Strategy::Search);
    let (cluster, framework) = (&scenario.cluster, &scenario.framework);
    let outcome = Planner::new().place(cluster, framework, request);
    let outcome = outcome.map_err(|error| error.to_string())?;
    let Some(plan) = outcome.plan() else {
        return Ok(Some(Disagreement::new("planted", "", "", "placed", outcome.word())));
    };
    if plan.len() != group.pods.len() {
        let (expected, actual) = (group.pods.len(), plan.len());
        return Ok(Some(Disagreement::new("planted", "placed", "", expected, actual)));
    }
    let mut after = cluster.clone();
    after.commit(framework, plan).map_err(|error| error.to_string())?;
    let wrong = unsound(&after);
    Ok(wrong.map(|wrong| Disagreement::new("planted", "devices", "", "each once", wrong)))
}

/// Faults in the allocations of a cluster: a device that is owned twice, one that is out of
/// reach, or a claim of a pod without devices.
fn unsound(cluster: &Cluster) -> Option<String> {
    let mut owners: BTreeSet<(String, String, String)> = BTreeSet::new();
    let mut own = |allocation: &Allocation| {
        let mut devices = allocation.devices.iter().filter(|own| !own.admin && own.share.is_none());
        let twice = devices.find(|own| {
            !owners.insert((own.driver.clone(), own.pool.clone(), own.device.clone()))
        })?;
        Some(format!("{}/{} is owned twice", twice.pool, twice.device))
    };
    for (_, record) in cluster.claims().claims() {
        if let Some(wrong) = record.allocation().and_then(|allocation| own(allocation)) {
            return Some(wrong);
        }
    }
    for pod in cluster.pods() {
        let node = pod.node()?.name();
        for claim in &pod.shape().claims {
            let (ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. }) = &claim.source
            else {
                continue;
            };
            let record = cluster.claims().claim(pod.namespace(), name)?;
            let Some(allocation) = record.allocation() else {
                return Some(format!("{name} has no devices"));
            };
            let counts = record.claim()?.spec.demands().map(|(_, _, demand)| match demand.amount {
                phalanx::model::DeviceAmount::Count(count) => count as usize,
                _ => 0,
            });
            if allocation.devices.len() != counts.sum::<usize>() {
                return Some(format!("{name} has {} devices", allocation.devices.len()));
            }
            if let Some(far) = allocation.devices.iter().find(|device| device.pool != node) {
                return Some(format!("{} of {name} is not on {node}", far.device));
            }
        }
    }
    None
}
