//! Whole cycles, and the order of heads.

use std::collections::{BTreeMap, BTreeSet};

use crate::sessions::kueue_cycle::{Cycle, Pending, claim_order, cycle, kept_for};
use phalanx::quota::{AssignmentMode, Claim, HeadStanding, QueueId, QuotaAssignment, ShareValue};
use serde_json::Value;

use super::fields::{Fields, amounts, now};
use super::world::{self, Workload, World};
use super::{Case, Stop, Verdict, same, table, victims};

/// Assignment of a workload: queue, and by podset the count, the flavors and the usage.
type Given = (String, Vec<world::Assigned>);

fn given(value: &Value) -> Result<Given, String> {
    let mut fields = Fields::new("assignment", value)?;
    let queue = fields.text("clusterQueue")?.to_string();
    let mut sets = Vec::new();
    for value in fields.list("podSets")? {
        let mut set = Fields::new("podSet", value)?;
        let mut flavors = BTreeMap::new();
        for (resource, flavor) in set.entries("flavors")? {
            let flavor = flavor.as_str().ok_or("flavors: is no text")?;
            flavors.insert(resource.to_string(), flavor.to_string());
        }
        let count = set.integer("count")?.ok_or("count: is required")?;
        sets.push((set.text("name")?.to_string(), count, flavors, set.integers("usage")?));
        set.end()?;
    }
    fields.end()?;
    Ok((queue, sets))
}

fn own(world: &World, claim: &Claim, assignment: &QuotaAssignment) -> Given {
    let tree = world.tenants.tree();
    let sets = assignment.pod_sets.iter().map(|set| {
        let mut flavors = BTreeMap::new();
        let mut usage = BTreeMap::new();
        for (choice, amount) in set.flavors.iter().zip(&set.requests) {
            let (flavor, resource) = tree.names(choice.of);
            flavors.insert(resource.to_string(), flavor.to_string());
            usage.insert(resource.to_string(), *amount);
        }
        let name = claim.pod_sets[set.pod_set].name.clone();
        (name, i64::from(set.count), flavors, usage)
    });
    (claim.queue.clone(), sets.collect())
}

/// The workloads that wait.
fn pending(world: &World, workloads: &[Workload]) -> Vec<Pending> {
    let waits = workloads.iter().filter(|workload| workload.queue_held.is_none());
    let pending = waits.map(|workload| {
        let mut claim = workload.claim.clone();
        claim.queue = world.queue_of(&workload.namespace, &workload.local_queue);
        let in_namespace = world.takes(&claim.queue, &workload.namespace);
        Pending { claim, in_namespace, awaits_victims: false }
    });
    // Workloads of local queues that are not there are in no queue.
    pending.filter(|pending| !pending.claim.queue.is_empty()).collect()
}

/// Assignments of admitted claims.
fn admitted<'a>(
    world: &World,
    pending: &[Pending],
    assignments: impl IntoIterator<Item = &'a (String, QuotaAssignment)>,
) -> Result<BTreeMap<String, Given>, Stop> {
    let mut all = BTreeMap::new();
    for (name, assignment) in assignments {
        let found = pending.iter().find(|pending| pending.claim.name == *name);
        let claim = &found.ok_or("a claim that was not pending")?.claim;
        all.insert(name.clone(), own(world, claim, assignment));
    }
    Ok(all)
}

fn compare_admitted(
    world: &World,
    pending: &[Pending],
    cycle: &Cycle,
    expect: &mut Fields<'_>,
) -> Result<(), Stop> {
    let mut expected = BTreeMap::new();
    for (name, value) in expect.entries("newAssignments")? {
        expected.insert(name.to_string(), given(value)?);
    }
    same("newAssignments", &expected, &admitted(world, pending, &cycle.admitted)?)?;
    let expected = victims::named("eviction", expect.list("evictions")?)?;
    same("evictions", &expected, &cycle.evicted.iter().cloned().collect())
}

fn names_by_queue(
    fields: &mut Fields<'_>,
    name: &'static str,
) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let mut queues = BTreeMap::new();
    for (queue, value) in fields.entries(name)? {
        let names = value.as_array().ok_or_else(|| format!("{name}: is no list"))?;
        let names = names.iter().filter_map(Value::as_str).map(Into::into).collect();
        queues.insert(queue.to_string(), names);
    }
    Ok(queues)
}

pub(super) fn one(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let (mut world, workloads) = World::with_holders(rules, input, "workloads")?;
    let pending = pending(&world, &workloads);
    let recompute = world.rules.recompute;
    let result = cycle(&mut world.tenants, &pending, now(), recompute)?;
    compare_admitted(&world, &pending, &result, expect)?;
    let holding: BTreeSet<&str> = workloads
        .iter()
        .filter(|workload| world.tenants.find(&workload.claim.name).is_some())
        .map(|workload| workload.claim.name.as_str())
        .filter(|name| !result.admitted.iter().any(|(admitted, _)| admitted == name))
        .collect();
    same("stillAssigned", &expect.texts("stillAssigned")?.into_iter().collect(), &holding)?;
    same("queued", &names_by_queue(expect, "queued")?, &result.queued)?;
    same("parked", &names_by_queue(expect, "parked")?, &result.parked)?;
    let skipped = expect.integers("skippedPreemptions")?;
    for (queue, count) in skipped {
        let actual = result.skipped.get(&queue).copied().unwrap_or(0);
        same(format!("skippedPreemptions {queue}"), &count, &i64::from(actual))?;
    }
    expect.pass(&["pendingReasons"]);
    Ok(())
}

pub(super) fn two(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let (mut world, workloads) = World::with_holders(rules, input, "workloads")?;
    let pending = pending(&world, &workloads);
    let recompute = world.rules.recompute;
    let first = cycle(&mut world.tenants, &pending, now(), recompute)?;
    let mut fields = Fields::new("firstCycle", expect.take("firstCycle")?)?;
    compare_admitted(&world, &pending, &first, &mut fields)?;
    fields.end()?;
    let deleted = input.texts("deleteBetweenCycles")?;
    for name in &deleted {
        if let Some(holder) = world.tenants.find(name) {
            world.tenants.release(holder)?;
        }
    }
    for (name, _) in &first.evicted {
        if let Some(holder) = world.tenants.find(name) {
            world.tenants.set_leaving(holder, true)?;
        }
    }
    let mut rest: Vec<Pending> = pending
        .iter()
        .filter(|pending| !deleted.contains(&pending.claim.name.as_str()))
        .filter(|pending| world.tenants.find(&pending.claim.name).is_none())
        .cloned()
        .collect();
    let parked = |claim: &Claim| {
        let parked = first.parked.get(&claim.queue);
        parked.is_some_and(|parked| parked.contains(&claim.name))
    };
    // What has gone wakes those that are parked.
    rest.retain(|pending| !deleted.is_empty() || !parked(&pending.claim));
    for pending in &mut rest {
        if let Some(marks) = first.bookmarks.get(&pending.claim.name) {
            pending.claim.bookmark.clone_from(marks);
        }
        pending.awaits_victims = first.preempting.contains(&pending.claim.name);
    }
    let second = cycle(&mut world.tenants, &rest, now(), recompute)?;
    let both = first.admitted.iter().chain(&second.admitted);
    let mut actual = admitted(&world, &pending, both)?;
    let mut expected = BTreeMap::new();
    let mut fields = Fields::new("secondCycle", expect.take("secondCycle")?)?;
    for (name, value) in fields.entries("assignments")? {
        expected.insert(name.to_string(), given(value)?);
    }
    for workload in workloads.iter().filter(|workload| workload.queue_held.is_some()) {
        if world.tenants.find(&workload.claim.name).is_some() {
            let queue = workload.queue_held.clone().unwrap_or_default();
            actual.insert(workload.claim.name.clone(), (queue, workload.assigned.clone()));
        }
    }
    fields.end()?;
    same("assignments", &expected, &actual)
}

/// The head of one queue.
pub(super) fn head(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    if input.flag("admissionFairSharing")? {
        return Err(Stop::Verdict(Verdict::Skipped("admission-fair-sharing")));
    }
    match input.text_or_empty("queueingStrategy")? {
        "" | "StrictFIFO" | "BestEffortFIFO" => {}
        other => return Err(format!("queueingStrategy: {other:?} is not known").into()),
    }
    input.pass(&["clusterQueues", "initialLocalQueueUsage", "localQueues"]);
    let read = |value| world::workload(value, &rules);
    let workloads = input.list("workloads")?.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let claims = workloads.iter().map(|workload| &workload.claim);
    let first = claims.min_by(|a, b| claim_order(a, b));
    let name = first.map_or("", |claim| claim.name.rsplit('/').next().unwrap_or(""));
    same("head", &expect.text("head")?, &name)
}

/// The order of heads that are given, without fair sharing.
pub(super) fn order(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let heads = rules.settings.heads;
    let mut entries: Vec<(String, HeadStanding)> = Vec::new();
    for value in input.list("entries")? {
        let beside = ["borrowingLevel", "isPreemptor"];
        let workload = world::workload_with(value, &rules, &beside)?;
        let level = value.get("borrowingLevel").and_then(Value::as_u64).unwrap_or(0);
        let standing = HeadStanding {
            preempts: value.get("isPreemptor").and_then(Value::as_bool).unwrap_or(false),
            borrows: false,
            share: ShareValue::NONE,
            level: u32::try_from(level).map_err(|error| error.to_string())?,
            priority: workload.claim.priority,
            since: workload.claim.created,
        };
        entries.push((workload.claim.name.trim_start_matches('/').into(), standing));
    }
    entries.sort_by(|(_, a), (_, b)| heads.compare(a, b));
    let mut names = entries.iter().map(|(name, _)| name.as_str());
    for group in expect.list("order")? {
        let group = group.as_array().ok_or("order: holds no lists")?;
        let expected: BTreeSet<&str> = group.iter().filter_map(Value::as_str).collect();
        same("order", &expected, &names.by_ref().take(expected.len()).collect())?;
    }
    same("order", &None, &names.next())
}

/// One head before another, with fair sharing.
pub(super) fn less(Case { mut rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    rules.settings = rules.settings.fair();
    let rules = rules;
    let beside = ["isPreemptor", "borrowing", "borrowingOnRequested", "requested", "share"];
    let side = |value: &Value| -> Result<HeadStanding, Stop> {
        let workload = world::workload_with(value, &rules, &beside)?;
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let share = value.get("share").and_then(Value::as_str).ok_or("share: is no text")?;
        let share = if share == "+Inf" {
            ShareValue::new(1.0, 0.0)
        } else {
            ShareValue::new(share.parse().map_err(|_| "share: is no number")?, 1.0)
        };
        Ok(HeadStanding {
            preempts: flag("isPreemptor"),
            borrows: flag("borrowingOnRequested"),
            share,
            level: 0,
            priority: workload.claim.priority,
            since: workload.claim.created,
        })
    };
    let (a, b) = (side(input.take("a")?)?, side(input.take("b")?)?);
    let before = rules.settings.heads.compare(&a, &b).is_lt();
    same("aBeforeB", &expect.flag("aBeforeB")?, &before)
}

/// Usage that is kept for a claim that finds no victims.
pub(super) fn reserved(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let mut world = World::charged(rules, input)?;
    let queue: QueueId = world.leaf(input.text("clusterQueue")?)?;
    let mut fields = Fields::new("assignment", input.take("assignment")?)?;
    let usage = world.usage(&amounts("usage", fields.list("usage")?)?);
    let level = fields.integer("borrowing")?.unwrap_or(0);
    let level = u32::try_from(level).map_err(|error| error.to_string())?;
    let mode = match fields.text("mode")? {
        "Preempt" => AssignmentMode::Preempt,
        "Fit" => AssignmentMode::Fit,
        other => return Err(format!("mode: {other:?} is not known").into()),
    };
    fields.end()?;
    let assignment = QuotaAssignment::new(usage, mode, level);
    let kept = kept_for(&world.tenants, queue, &assignment);
    let expected = world.expected("reserved", expect.list("reserved")?)?;
    same("reserved", &expected, &table(&world, &kept))
}
