//! Attempts to preempt.

use std::collections::BTreeMap;

use crate::sessions::yunikorn::{Allocation, Ask, Attempt, NodeInput, Predicates, ShimPreemption};
use phalanx::quota::yunikorn::Resource;
use serde_json::Value;

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::amounts::{maybe, priority};
use super::queues;

/// The pods that run, the last of those with one key.
fn allocations(list: &[Value], queues: &BTreeMap<&str, &str>) -> Result<Vec<Allocation>, Stop> {
    let mut allocations = BTreeMap::new();
    for value in list {
        let mut own = Fields::new("allocation", value)?;
        let app = own.text("app")?;
        let queue = queues.get(app).ok_or_else(|| format!("app: {app:?} is not known"))?;
        let created = match own.maybe("create_offset_s") {
            None => 0.0,
            Some(value) => value.as_f64().ok_or("create_offset_s: is no number")?,
        };
        let known = own.maybe("known_to_application").is_none_or(|value| value == true);
        let allocation = Allocation {
            key: own.text("key")?.into(),
            queue: (*queue).into(),
            resource: maybe(&mut own, "resource")?.unwrap_or_default(),
            priority: priority(&mut own, "priority")?,
            node: own.text("node")?.into(),
            created: (created * 1000.0).round() as i64,
            allow_preempt_self: own.flag("allow_preempt_self")?,
            originator: own.flag("originator")?,
            required_node: own.flag("required_node")?,
            released: own.flag("released")?,
            known,
            released_meanwhile: own.flag("released_during_the_attempt")?,
        };
        own.end()?;
        allocations.insert(allocation.key.clone(), allocation);
    }
    Ok(allocations.into_values().collect())
}

/// The nodes in their order.
fn nodes(input: &mut Fields<'_>) -> Result<Vec<NodeInput>, Stop> {
    let mut nodes: BTreeMap<&str, NodeInput> = BTreeMap::new();
    for value in input.list("nodes")? {
        let mut own = Fields::new("node", value)?;
        let id = own.text("id")?;
        let node = NodeInput {
            id: id.into(),
            total: maybe(&mut own, "total")?.unwrap_or_default(),
            occupied: maybe(&mut own, "occupied")?.unwrap_or_default(),
            allocations: own.texts("allocations")?.into_iter().map(Into::into).collect(),
        };
        own.end()?;
        nodes.insert(id, node);
    }
    let order = input.texts("node_order")?;
    let order = if order.is_empty() { nodes.keys().copied().collect() } else { order };
    let known = |id: &&str| nodes.get(id).cloned().ok_or(format!("node_order: {id:?}"));
    Ok(order.iter().map(known).collect::<Result<_, String>>()?)
}

fn predicates(value: &Value) -> Result<Predicates, Stop> {
    let mut own = Fields::new("predicate_mock", value)?;
    // What is asked without victims of nodes that are kept for an ask.
    own.entries("reservations")?;
    let mut predicates = Predicates::default();
    for (ask, node) in own.entries("allocations")? {
        let node = node.as_str().ok_or("predicate_mock.allocations: is no text")?;
        predicates.allocations.insert(ask.into(), node.into());
    }
    for value in own.list("preemptions")? {
        let mut own = Fields::new("preemption", value)?;
        predicates.preemptions.push(ShimPreemption {
            ask: own.text("ask")?.into(),
            node: own.text("node")?.into(),
            victims: own.texts("victims")?.into_iter().map(Into::into).collect(),
            start_index: own.integer("start_index")?.unwrap_or(0),
            success: own.flag("success")?,
            result_index: own.integer("result_index")?.unwrap_or(0),
        });
        own.end()?;
    }
    own.end()?;
    Ok(predicates)
}

/// The priority and amounts of the ask, of those that wait.
fn ask(list: &[Value], key: &str) -> Result<(i32, Option<Resource>), Stop> {
    let mut found = (0, None);
    for value in list {
        let mut own = Fields::new("ask", value)?;
        own.pass(&["app", "create_offset_s", "allow_preempt_self", "originator"]);
        let asked = (priority(&mut own, "priority")?, maybe(&mut own, "resource")?);
        if own.text("key")? == key {
            found = asked;
        }
        own.end()?;
    }
    Ok(found)
}

fn attempt(input: &mut Fields<'_>) -> Result<Attempt, Stop> {
    // What the queue may have is known from the tree, and how long is waited is not looked at.
    input.pass(&["headroom", "delay_s"]);
    let applications = queues::applications(input.list("applications")?)?;
    let key = input.text("ask")?;
    let (priority, resource) = ask(input.list("asks")?, key)?;
    let app = input.text_or_empty("ask_app")?;
    let queue = match input.text_or_empty("ask_queue")? {
        "" => applications.get(app).copied().ok_or("ask_queue: is required")?,
        queue => queue,
    };
    let resource = match maybe(input, "ask_resource")? {
        Some(stated) => stated,
        None => resource.ok_or("ask_resource: is required")?,
    };
    Ok(Attempt {
        queues: queues::read(input.list("queues")?)?,
        allocations: allocations(input.list("allocations")?, &applications)?,
        nodes: nodes(input)?,
        ask: Ask { key: key.into(), queue: queue.into(), resource, priority },
        predicates: input.maybe("predicate_mock").map(predicates).transpose()?,
    })
}

/// Compares an attempt.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    let attempt = attempt(&mut case.input)?;
    let expect = &mut case.expect;
    match case.input.text("query")? {
        "check_queue_guarantees" => {
            expect.take("value")?;
            return same("value", &expect.flag("value")?, &attempt.checks_guarantees());
        }
        "try_preemption" => {}
        query => return Err(Stop::Bad(format!("query: {query:?} is not known"))),
    }
    let outcome = attempt.run();
    for name in ["ok", "found"] {
        // A test that finds nothing may look no further.
        if name == "found" || expect.maybe(name).is_some() {
            expect.take(name)?;
            same(name, &expect.flag(name)?, &outcome.is_some())?;
        }
    }
    let outcome = outcome.unwrap_or_default();
    if expect.maybe("node").is_some() {
        same("node", &expect.text("node")?, &outcome.node.as_str())?;
    }
    for (key, taken) in expect.entries("victims")? {
        let taken = taken.as_bool().ok_or("victims: is no boolean")?;
        same(format!("victims.{key}"), &taken, &outcome.takes(key))?;
    }
    Ok(())
}
