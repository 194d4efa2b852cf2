//! Koordinator's fields of a pod beside its gang: class of service, band, quota; amounts that a node keeps.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::field::{Fault, Field};
use super::json;
use super::value::Value;
use crate::base::Quantity;
use crate::model::resources::{CPU, amount_of};
use crate::model::{Amounts, Labels, PRIORITY_CLASS_LABEL, PodGroup, QOS_LABEL, QUOTA_LABEL};

const RESERVATION: &str = "node.koordinator.sh/reservation";

/// Takes what a node keeps for programs beside its pods off its allocatable amounts. A reservation of
/// single CPUs alone (`ReservedCPUsOnly`) takes nothing off. As stored a value that is no such JSON says
/// nothing, as it does to Koordinator.
pub(super) fn reserve(root: &Field<'_>, allocatable: &mut Amounts) -> Fault<()> {
    let Some(metadata) = root.get("metadata")? else { return Ok(()) };
    let Some(annotations) = metadata.get("annotations")? else { return Ok(()) };
    let Some(field) = annotations.get(RESERVATION)? else { return Ok(()) };
    match reserved(field.text()?) {
        Some(amounts) => {
            for (name, amount) in amounts.iter().filter(|(name, _)| !name.contains("batch-")) {
                if allocatable.lists(name) {
                    let rest = allocatable.of(name).saturating_sub(amount).max(0);
                    allocatable.set(name, rest);
                }
            }
            Ok(())
        }
        None if field.strict() => Err(field.invalid("is no JSON object of reserved resources")),
        None => Ok(()),
    }
}

/// The amounts that an annotation reserves.
fn reserved(text: &str) -> Option<Amounts> {
    let value = json::value(text)?;
    let Value::Map(_) = &value else { return None };
    let mut amounts = Amounts::new();
    let policy = value.entry("applyPolicy").and_then(Value::text).unwrap_or("");
    if !matches!(policy, "" | "Default") {
        return Some(amounts);
    }
    if let Some(Value::Map(resources)) = value.entry("resources") {
        for (name, quantity) in resources {
            let quantity: Quantity = match quantity {
                Value::Text(text) => text.parse().ok()?,
                Value::Integer(number) => number.to_string().parse().ok()?,
                Value::Float(number) => number.to_string().parse().ok()?,
                _ => return None,
            };
            let amount = amount_of(name, quantity).ok()?;
            amounts.set(name, amount.max(0));
        }
    }
    if let Some(cpus) = value.entry("reservedCPUs").and_then(Value::text) {
        amounts.set(CPU, cpu_count(cpus)?.checked_mul(1_000)?);
    }
    Some(amounts)
}

/// How many CPUs a list of them has: `0-3,8`.
fn cpu_count(list: &str) -> Option<i64> {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then(|| ranges.push((first.into(), last.into())))?;
    }
    ranges.sort_unstable();
    let (mut count, mut next) = (0, 0);
    for (first, last) in ranges {
        count += (last + 1 - first.max(next)).max(0);
        next = next.max(last + 1);
    }
    Some(count)
}

/// The limits of the containers of a pod that states a class of service or a band, or asks for what
/// lower bands may have; `None` for any other.
pub(super) fn limits(
    spec: &Field<'_>,
    labels: &Labels,
    requests: &Amounts,
) -> Fault<Option<Box<Amounts>>> {
    let of_lower_band = |(name, _): (&str, i64)| {
        name.starts_with("kubernetes.io/batch-") || name.starts_with("kubernetes.io/mid-")
    };
    let stated = [QOS_LABEL, PRIORITY_CLASS_LABEL].iter().any(|key| labels.contains_key(*key));
    if !stated && !requests.iter().any(of_lower_band) {
        return Ok(None);
    }
    let mut limits = Amounts::new();
    spec.each("containers", |container| {
        let Some(resources) = container.get("resources")? else { return Ok(()) };
        resources.entries("limits", |name, field| {
            let amount =
                amount_of(name, field.quantity()?).map_err(|problem| field.fail(problem))?;
            limits.set(name, limits.of(name).saturating_add(amount));
            Ok(())
        })
    })?;
    Ok(Some(Box::new(limits)))
}

/// Puts a group that names no queue into the quota that its pods name.
pub(super) fn take_quota(group: &mut PodGroup) {
    if !group.queue.is_empty() {
        return;
    }
    let pods = group.all_pods();
    let quota = pods.iter().find_map(|pod| pod.shape().labels.get(QUOTA_LABEL));
    if let Some(quota) = quota.cloned() {
        set_queue(group, &quota);
    }
}

fn set_queue(group: &mut PodGroup, queue: &str) {
    group.queue = String::from(queue);
    for inner in &mut group.groups {
        set_queue(inner, queue);
    }
}
