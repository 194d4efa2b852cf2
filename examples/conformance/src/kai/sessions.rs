//! Sessions, and what comes of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::sessions::kai::{Gpu, PodOutcome, PodState, Sessions, Work};
use serde_json::Value;

use super::read::{WHOLE, actions, amount, pod_state, world};
use crate::tenants::fields::Fields;
use crate::tenants::{Stop, same};

/// Runs the sessions of a case and compares what is expected.
pub(super) fn compare(case: &mut Fields<'_>) -> Result<(), Stop> {
    let observed = case.maybe("observed").and_then(|observed| observed.get("shared_devices"));
    let actions = actions(&case.texts("actions")?)?;
    let mut sessions = Sessions::new(world(case.take("input")?)?);
    shares(&sessions, &case.entries("fair_shares_at_open")?)?;
    let expect = case.take("expect")?;
    let Some(rounds) = case.maybe("rounds") else {
        let work = sessions.run(&actions);
        return outcome("", &sessions, work, expect, observed);
    };
    let mut rounds = Fields::new("rounds", rounds)?;
    rounds.pass(&["delay_s"]);
    let until = rounds.integer("until_match")?.ok_or("until_match: is required")?;
    let after = rounds.integer("after_match")?.unwrap_or(0);
    rounds.end()?;
    let mut work = Work::default();
    for round in 0..until {
        let own = sessions.run(&actions);
        at_most(&format!("session {}", round + 1), own, expect)?;
        work = own;
        sessions.settle();
    }
    outcome("rounds", &sessions, work, expect, observed)?;
    for round in 0..after {
        let work = sessions.run(&actions);
        outcome(&format!("round {} after", round + 1), &sessions, work, expect, observed)?;
        sessions.settle();
    }
    Ok(())
}

/// Request, use and fair share of every queue when the first session opens.
fn shares(sessions: &Sessions, expected: &[(&str, &Value)]) -> Result<(), Stop> {
    let shares = sessions.shares();
    for (queue, value) in expected {
        let at = shares.find(queue).ok_or_else(|| format!("{queue}: is not known"))?;
        let mut fields = Fields::new("fair_shares_at_open", value)?;
        let resources = [("cpu_milli", 1.0), ("memory_bytes", 1.0), ("gpus", WHOLE)];
        for (place, (resource, parts)) in resources.into_iter().enumerate() {
            let Some(value) = fields.maybe(resource) else { continue };
            let own = shares.share(at, place);
            let mut fields = Fields::new(resource, value)?;
            for (name, ours) in [
                ("request", own.request),
                ("allocated", own.allocated),
                ("fair_share", own.fair_share),
            ] {
                let theirs = amount(name, fields.maybe(name), parts)?;
                same(format!("{queue} {resource} {name}"), &theirs, &ours)?;
            }
            fields.end()?;
        }
        fields.end()?;
    }
    Ok(())
}

fn at_most(step: &str, work: Work, expect: &Value) -> Result<(), Stop> {
    let mut expect = Fields::new("expect", expect)?;
    let Some(value) = expect.maybe("at_most_per_session") else { return Ok(()) };
    let mut fields = Fields::new("at_most_per_session", value)?;
    for (name, done) in
        [("binds", work.binds), ("evictions", work.evictions), ("pipelines", work.pipelines)]
    {
        let Some(most) = fields.integer(name)? else { continue };
        let done = i64::try_from(done).unwrap_or(i64::MAX);
        if done > most {
            same(format!("{step} {name} at most"), &most, &done)?;
        }
    }
    fields.end()?;
    Ok(())
}

/// Pods by device that they share, of a node.
fn shared_on(outcomes: &BTreeMap<&str, PodOutcome>, node: &str) -> BTreeSet<Vec<String>> {
    let mut shared: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (pod, outcome) in outcomes {
        if outcome.node.as_deref() == Some(node) && outcome.state.is_active_used() {
            for device in &outcome.devices {
                shared.entry(device).or_default().push((*pod).into());
            }
        }
    }
    shared.into_values().collect()
}

/// Whether the devices of a node are those of KAI's own outcome.
fn is_as_observed(
    observed: Option<&Value>,
    outcomes: &BTreeMap<&str, PodOutcome>,
    node: &str,
) -> bool {
    let theirs = observed.and_then(|nodes| nodes.get(node));
    let theirs: Option<BTreeSet<Vec<String>>> =
        theirs.and_then(|sets| serde_json::from_value(sets.clone()).ok());
    theirs == Some(shared_on(outcomes, node))
}

fn outcome(
    step: &str,
    sessions: &Sessions,
    work: Work,
    expect: &Value,
    observed: Option<&Value>,
) -> Result<(), Stop> {
    at_most(step, work, expect)?;
    let outcomes = sessions.outcomes();
    let mut fields = Fields::new("expect", expect)?;
    fields.pass(&["at_most_per_session"]);
    let mut labels: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (name, value) in fields.entries("jobs")? {
        let job = sessions.world().jobs.iter().find(|job| job.name == name);
        let job = job.ok_or_else(|| format!("{name}: is not known"))?;
        let pods: Vec<&str> = job.pods.iter().map(|pod| pod.name.as_str()).collect();
        compare_pods(step, name, sessions, &outcomes, &pods, value, &mut labels)?;
    }
    for (name, value) in fields.entries("tasks")? {
        // Names that are of no pod are not looked at by KAI's tests either.
        compare_pods(step, name, sessions, &outcomes, &[name], value, &mut labels)?;
    }
    for ((node, _), pods) in labels {
        // One label of a node is one device. KAI's tests look at labels loosely: where its own outcome
        // has them on several, it is that outcome that counts.
        let devices: BTreeSet<&[String]> =
            pods.iter().map(|pod| outcomes[pod].devices.as_slice()).collect();
        if devices.len() > 1 && is_as_observed(observed, &outcomes, node) {
            continue;
        }
        same(format!("{step} devices of {pods:?} on {node}"), &1, &devices.len())?;
    }
    for (name, value) in fields.entries("nodes")? {
        let mut own = Fields::new("node", value)?;
        let (idle, releasing) =
            sessions.devices(name).ok_or_else(|| format!("{name}: is not known"))?;
        for (field, ours) in [("idle_gpus", idle), ("releasing_gpus", releasing)] {
            if let Some(theirs) = own.integer(field)? {
                same(format!("{step} {name} {field}"), &theirs, &ours)?;
            }
        }
        own.end()?;
    }
    let expected = fields.entries("shared_devices")?;
    if !expected.is_empty() {
        for (node, value) in expected {
            let theirs: BTreeSet<Vec<String>> =
                serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
            let ours = shared_on(&outcomes, node);
            same(format!("{step} shared devices of {node}"), &theirs, &ours)?;
        }
    }
    fields.end()?;
    Ok(())
}

fn compare_pods<'a>(
    step: &str,
    name: &str,
    sessions: &'a Sessions,
    outcomes: &BTreeMap<&str, PodOutcome>,
    pods: &[&'a str],
    value: &'a Value,
    labels: &mut BTreeMap<(&'a str, &'a str), Vec<&'a str>>,
) -> Result<(), Stop> {
    let mut fields = Fields::new("expected", value)?;
    fields.pass(&["started_ago_at_least_s", "gpus_accepted"]);
    let state = pod_state(fields.text("status")?)?;
    let node = fields.text_or_empty("node")?;
    let groups = fields.texts("gpu_groups")?;
    let unchecked = fields.flag("skip_gpu_group_check")?;
    let all = sessions.world().jobs.iter().flat_map(|job| &job.pods);
    let specs: Vec<_> = all.filter(|pod| pods.contains(&pod.name.as_str())).collect();
    for spec in &specs {
        let own = &outcomes[spec.name.as_str()];
        same(format!("{step} {} status", spec.name), &state, &own.state)?;
        if !node.is_empty() {
            same(format!("{step} {} node", spec.name), &Some(node), &own.node.as_deref())?;
        }
        if let [label] = groups[..]
            && !own.devices.is_empty()
            && !node.is_empty()
            && !unchecked
        {
            labels.entry((node, label)).or_default().push(&spec.name);
        }
    }
    let gpus = |gpu: Gpu| match gpu {
        Gpu::Whole(gpus) => gpus * WHOLE as i64,
        Gpu::Portion { portion, devices } => portion * devices,
        Gpu::Memory { .. } => 0,
    };
    let sums = [
        ("gpus", WHOLE, specs.iter().map(|pod| gpus(pod.gpu)).sum::<i64>()),
        ("cpu_milli", 1.0, specs.iter().map(|pod| pod.cpu).sum()),
        ("memory_bytes", 1.0, specs.iter().map(|pod| pod.memory).sum()),
    ];
    for (field, parts, ours) in sums {
        if let Some(value) = fields.maybe(field).filter(|_| !specs.is_empty()) {
            same(format!("{step} {name} {field}"), &amount(field, Some(value), parts)?, &ours)?;
        }
    }
    if fields.flag("has_fit_error")? && !specs.is_empty() {
        let waits = specs.iter().any(|pod| outcomes[pod.name.as_str()].state == PodState::Pending);
        same(format!("{step} {name} has a pod that does not fit"), &true, &waits)?;
    }
    fields.end()?;
    Ok(())
}
