//! Volcano's `Queue`.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::field::Note;
use super::super::field::{Fault, Field};
use super::super::metadata;
use super::unread::unread;
use crate::model::Problem;
use crate::model::resources::amount_of;
use crate::quota::{Queue, QueueingStrategy, Quota, Weight};

/// The flavor of all resources, where a scheduler knows none.
pub(super) const FLAVOR: &str = "default";

/// A queue, and the inner ones that its old annotations put it in.
pub(super) fn queue(root: &Field<'_>, notes: &mut Vec<Note>) -> Fault<Vec<Queue>> {
    const READ: [&str; 7] =
        ["weight", "capability", "deserved", "guarantee", "parent", "priority", "dequeueStrategy"];
    let mut queue = Queue::leaf(metadata::name(root)?);
    let mut inner = Vec::new();
    if let Some(annotations) = root.need("metadata")?.get("annotations")? {
        inner = hierarchy(&annotations, &mut queue)?;
        queue.strategy = strategy(&annotations, "volcano.sh/dequeue-strategy")?;
    }
    let Some(spec) = root.get("spec")? else { return Ok(vec_of(inner, queue)) };
    unread(&spec, &READ, notes);
    if let Some(weight) = spec.get("weight")? {
        let weight = weight.within(0, 65_535)?.unsigned_abs();
        if inner.is_empty() {
            queue.weight = Weight::new(weight.max(1));
        }
    }
    if let Some(priority) = spec.get("priority")? {
        queue.priority = priority.int32()?;
    }
    if let Some(parent) = spec.name_of("parent")? {
        queue.parent = Some(parent);
    }
    if spec.get("dequeueStrategy")?.is_some() {
        queue.strategy = strategy(&spec, "dequeueStrategy")?;
    }
    let guarantee = match spec.get("guarantee")? {
        Some(guarantee) => amounts(&guarantee, "resource")?,
        None => BTreeMap::new(),
    };
    let (deserved, capability) = (amounts(&spec, "deserved")?, amounts(&spec, "capability")?);
    let names = guarantee.keys().chain(deserved.keys()).chain(capability.keys());
    let names: BTreeSet<&String> = names.collect();
    for name in names {
        let of = |amounts: &BTreeMap<String, i64>| amounts.get(name).copied();
        let nominal = of(&guarantee).unwrap_or(0);
        let (deserves, limit) = (of(&deserved), of(&capability));
        let above = |low: Option<i64>, high: Option<i64>| {
            low.zip(high).is_some_and(|(low, high)| low > high)
        };
        if root.strict() && above(deserves, limit) {
            let rule = format!("{name}: is more than the capability");
            return Err(spec.fail_at("deserved", Problem::Invalid(rule)));
        }
        if root.strict() && above(Some(nominal), deserves.or(limit)) {
            let rule = format!("{name}: is more than is deserved");
            return Err(spec.fail_at("guarantee", Problem::Invalid(rule)));
        }
        let quota = Quota { deserved: deserves, limit, ..Quota::nominal(nominal) };
        queue = queue.quota(FLAVOR, name, quota);
    }
    Ok(vec_of(inner, queue))
}

fn vec_of(mut inner: Vec<Queue>, queue: Queue) -> Vec<Queue> {
    inner.push(queue);
    inner
}

fn strategy(of: &Field<'_>, name: &str) -> Fault<QueueingStrategy> {
    let Some(field) = of.get(name)? else { return Ok(QueueingStrategy::BestEffortFifo) };
    match field.text()? {
        "fifo" => Ok(QueueingStrategy::StrictFifo),
        "traverse" | "" => Ok(QueueingStrategy::BestEffortFifo),
        text => Err(metadata::unsupported(&field, text, &["fifo", "traverse"])),
    }
}

fn amounts(of: &Field<'_>, name: &str) -> Fault<BTreeMap<String, i64>> {
    let mut amounts = BTreeMap::new();
    of.entries(name, |resource, field| {
        let amount = amount_of(resource, field.quantity()?);
        amounts.insert(resource.to_owned(), amount.map_err(|problem| field.fail(problem))?);
        Ok(())
    })?;
    Ok(amounts)
}

/// The queues on the path that the old annotations `hierarchy` and `hierarchy-weights` state, named by
/// their paths.
fn hierarchy(annotations: &Field<'_>, queue: &mut Queue) -> Fault<Vec<Queue>> {
    let path = annotations.text_of("volcano.sh/hierarchy")?;
    let stated = annotations.text_of("volcano.sh/hierarchy-weights")?;
    let names: Vec<&str> = path.split('/').collect();
    if names.len() < 2 {
        return Ok(Vec::new());
    }
    let weight = |at: usize| {
        let weight = stated.split('/').nth(at).and_then(|weight| weight.parse::<u64>().ok());
        Weight::new(weight.unwrap_or(1).max(1))
    };
    let mut inner: Vec<Queue> = Vec::new();
    for at in 1..names.len() - 1 {
        let mut own = Queue::inner(names.get(..=at).map(|path| path.join("/")).unwrap_or_default());
        own.parent = inner.last().map(|above| above.name.clone());
        own.weight = weight(at);
        inner.push(own);
    }
    queue.parent = inner.last().map(|above| above.name.clone());
    queue.weight = weight(names.len() - 1);
    Ok(inner)
}
