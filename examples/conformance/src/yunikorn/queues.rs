//! Trees of queues, and what a queue has left.

use std::collections::BTreeMap;

use phalanx::quota::yunikorn::{
    PriorityRule, QueueState, Queues, Resource, YuniKornPreemptionPolicy, resources,
};
use serde_json::Value;

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::amounts::{maybe, priority};

/// The properties of a queue.
fn properties(queue: &mut QueueState, value: &Value) -> Result<(), Stop> {
    let mut own = Fields::new("properties", value)?;
    let offset = own.text_or_empty("priority.offset")?;
    if !offset.is_empty() {
        let wrong = |_| format!("priority.offset: {offset:?}");
        queue.priority.offset = offset.parse().map_err(wrong)?;
    }
    queue.priority.fence = match own.text_or_empty("priority.policy")? {
        "" | "default" => false,
        "fence" => true,
        policy => return Err(Stop::Bad(format!("priority.policy: {policy:?} is not known"))),
    };
    queue.preemption = match own.text_or_empty("preemption.policy")? {
        "" | "default" => YuniKornPreemptionPolicy::Default,
        "fence" => YuniKornPreemptionPolicy::Fence,
        "disabled" => YuniKornPreemptionPolicy::Disabled,
        policy => return Err(Stop::Bad(format!("preemption.policy: {policy:?} is not known"))),
    };
    Ok(own.end()?)
}

/// The queues of a case.
pub(super) fn read(list: &[Value]) -> Result<Queues, Stop> {
    let mut queues: Vec<QueueState> = Vec::new();
    for value in list {
        let mut own = Fields::new("queue", value)?;
        let mut queue = QueueState {
            path: own.text("path")?.into(),
            parent: own.maybe("parent").and_then(Value::as_str).map(Into::into),
            leaf: own.flag("leaf")?,
            max: maybe(&mut own, "max")?,
            guaranteed: maybe(&mut own, "guaranteed")?,
            allocated: maybe(&mut own, "allocated")?,
            pending: maybe(&mut own, "pending")?,
            priority: PriorityRule::default(),
            preemption: YuniKornPreemptionPolicy::default(),
        };
        if let Some(value) = own.maybe("properties") {
            properties(&mut queue, value)?;
        }
        own.end()?;
        queues.push(queue);
    }
    // Below a queue that is closed to preemption all are.
    let all = Queues::new(queues);
    let closed = |queue: &QueueState| {
        let path = all.path(&queue.path);
        path.iter().any(|above| above.preemption == YuniKornPreemptionPolicy::Disabled)
    };
    let inherited = all.iter().map(|queue| {
        let preemption =
            if closed(queue) { YuniKornPreemptionPolicy::Disabled } else { queue.preemption };
        QueueState { preemption, ..queue.clone() }
    });
    Ok(Queues::new(inherited))
}

/// The queue of each application.
pub(super) fn applications(list: &[Value]) -> Result<BTreeMap<&str, &str>, Stop> {
    let mut queues = BTreeMap::new();
    for value in list {
        let mut own = Fields::new("application", value)?;
        queues.insert(own.text("id")?, own.text("queue")?);
        own.end()?;
    }
    Ok(queues)
}

/// The highest priority that is asked for, by queue.
fn asks(list: &[Value], queues: &BTreeMap<&str, &str>) -> Result<BTreeMap<String, i32>, Stop> {
    let mut highest: BTreeMap<String, i32> = BTreeMap::new();
    for value in list {
        let mut own = Fields::new("ask", value)?;
        own.pass(&["key", "create_offset_s", "allow_preempt_self"]);
        let app = own.text("app")?;
        let queue = queues.get(app).ok_or_else(|| format!("ask.app: {app:?} is not known"))?;
        let (asked, resource) = (priority(&mut own, "priority")?, maybe(&mut own, "resource")?);
        own.end()?;
        if resources::is_positive(resource.as_ref()) {
            let highest = highest.entry((*queue).to_string()).or_insert(asked);
            *highest = asked.max(*highest);
        }
    }
    Ok(highest)
}

/// Compares amounts: one that is nothing may be left out, but all may not be.
fn same_amounts(
    name: &str,
    expected: Option<&Resource>,
    actual: Option<&Resource>,
) -> Result<(), Stop> {
    if expected.is_some() == actual.is_some() && resources::equal(expected, actual) {
        return Ok(());
    }
    same(name, &expected, &actual)
}

/// Compares what is asked of one queue.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    let input = &mut case.input;
    let queues = read(input.list("queues")?)?;
    let applications = applications(input.list("applications")?)?;
    let asks = asks(input.list("asks")?, &applications)?;
    let queue = input.text("queue")?;
    queues.get(queue).ok_or_else(|| format!("queue: {queue:?} is not known"))?;
    let actual = match input.text("query")? {
        "headroom" => queues.headroom(queue),
        "max_headroom" => queues.max_headroom(queue),
        "max_resource" => queues.max(queue),
        "max_queue_set" => queues.max_set(queue),
        "fair_max" => queues.fair_max(queue),
        "current_priority" => {
            let value = case.expect.integer("value")?;
            return same("value", &value, &Some(queues.priority(queue, &asks).into()));
        }
        query => return Err(Stop::Bad(format!("query: {query:?} is not known"))),
    };
    let expected = maybe(&mut case.expect, "resource")?;
    same_amounts("resource", expected.as_ref(), actual.as_ref())
}
