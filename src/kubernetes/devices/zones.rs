//! NUMA zones of nodes, and what containers have aligned with them.

use alloc::format;
#[cfg(feature = "scheduler")]
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::base::Quantity;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::json;
use crate::kubernetes::metadata::unsupported;
use crate::kubernetes::resources;
use crate::kubernetes::value::Value;
use crate::model::effective::Quantities;
use crate::model::resources::{CPU, MEMORY, amount_of};
#[cfg(feature = "scheduler")]
use crate::model::{Amounts, ZoneShare};
use crate::model::{NodeZones, Problem, Zone, ZonePart, ZonePolicy, ZoneScope};

/// Policies, as kubelet spells them.
const POLICIES: [(&str, ZonePolicy); 4] = [
    ("none", ZonePolicy::None),
    ("best-effort", ZonePolicy::BestEffort),
    ("restricted", ZonePolicy::Restricted),
    ("single-numa-node", ZonePolicy::SingleNumaNode),
];

/// Deprecated values of `topologyPolicies`.
const JOINED: [(&str, ZonePolicy, ZoneScope); 9] = [
    ("None", ZonePolicy::None, ZoneScope::Container),
    ("BestEffort", ZonePolicy::BestEffort, ZoneScope::Container),
    ("BestEffortContainerLevel", ZonePolicy::BestEffort, ZoneScope::Container),
    ("BestEffortPodLevel", ZonePolicy::BestEffort, ZoneScope::Pod),
    ("Restricted", ZonePolicy::Restricted, ZoneScope::Container),
    ("RestrictedContainerLevel", ZonePolicy::Restricted, ZoneScope::Container),
    ("RestrictedPodLevel", ZonePolicy::Restricted, ZoneScope::Pod),
    ("SingleNUMANodeContainerLevel", ZonePolicy::SingleNumaNode, ZoneScope::Container),
    ("SingleNUMANodePodLevel", ZonePolicy::SingleNumaNode, ZoneScope::Pod),
];

/// The zones of a `NodeResourceTopology`.
pub(super) fn topology(root: &Field<'_>) -> Fault<NodeZones> {
    let mut zones = NodeZones::default();
    root.each("zones", |field| {
        if field.text_of("type")? != "Node" {
            return Ok(());
        }
        let name = field.need("name")?;
        let digits = name.text()?.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let number = digits.parse().map_err(|_| name.invalid("ends with no number"))?;
        let mut zone = Zone::new(number);
        field.each("resources", |resource| {
            let name = resource.text_of("name")?;
            let amount = |key: &str| -> Fault<Option<i64>> {
                let Some(field) = resource.get(key)? else { return Ok(None) };
                let amount = amount_of(&name, field.quantity()?);
                amount.map(Some).map_err(|problem| field.fail(problem))
            };
            let capacity = match amount("allocatable")? {
                Some(amount) => amount,
                None => amount("capacity")?.unwrap_or(0),
            };
            zone.capacity.set(&name, capacity);
            if let Some(available) = amount("available")? {
                zone.taken.set(&name, capacity.saturating_sub(available).max(0));
            }
            Ok(())
        })?;
        zones.list.push(zone);
        Ok(())
    })?;
    zones.list.sort_by_key(|zone| zone.number);
    if zones.list.len() > NodeZones::MOST {
        return Err(root.fail_at("zones", Problem::Invalid("has more than 8 zones".into())));
    }
    let twice = zones.list.windows(2).find(|pair| pair[0].number == pair[1].number);
    if let Some(pair) = twice {
        let number = format!("node {}", pair[0].number);
        return Err(root.fail_at("zones", Problem::Duplicate(number)));
    }
    root.each("topologyPolicies", |field| {
        let found = JOINED.iter().find(|(name, ..)| *name == field.value.text().unwrap_or(""));
        let Some((_, policy, scope)) = found else {
            let names = JOINED.map(|(name, ..)| name);
            return Err(unsupported(&field, field.text()?, &names));
        };
        (zones.policy, zones.scope) = (*policy, *scope);
        Ok(())
    })?;
    root.each("attributes", |field| {
        let value = field.text_of("value")?;
        match field.text_of("name")?.as_str() {
            "topologyManagerPolicy" => {
                zones.policy = policy(&value)
                    .ok_or_else(|| unsupported(&field, &value, &POLICIES.map(|(name, _)| name)))?;
            }
            "topologyManagerScope" => {
                zones.scope = match value.as_str() {
                    "container" => ZoneScope::Container,
                    "pod" => ZoneScope::Pod,
                    _ => return Err(unsupported(&field, &value, &["container", "pod"])),
                };
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(zones)
}

/// The annotation of a binding with the amounts of zones that the plan predicts: JSON, by number of the
/// zone and resource, in the units of the model.
#[cfg(feature = "scheduler")]
pub(in crate::kubernetes) const PREDICTED: &str = "phalanx.dev/zones";

/// The amounts of zones that a plan predicted for a pod. One that is no such JSON says nothing.
#[cfg(feature = "scheduler")]
pub(in crate::kubernetes) fn predicted(metadata: &Field<'_>) -> Fault<Vec<ZoneShare>> {
    let Some(annotations) = metadata.get("annotations")? else { return Ok(Vec::new()) };
    let Some(text) = annotations.name_of(PREDICTED)? else { return Ok(Vec::new()) };
    let Some(Value::Map(zones)) = json::value(&text) else { return Ok(Vec::new()) };
    let share = |(zone, amounts): &(String, Value)| -> Option<ZoneShare> {
        let Value::Map(amounts) = amounts else { return None };
        let mut share = ZoneShare::new(zone.parse().ok()?, Amounts::new());
        for (resource, amount) in amounts {
            share.amounts.set(resource, amount.integer().filter(|amount| *amount >= 0)?);
        }
        Some(share)
    };
    Ok(zones.iter().map(share).collect::<Option<Vec<ZoneShare>>>().unwrap_or_default())
}

/// Amounts of zones as the annotation has them.
#[cfg(feature = "scheduler")]
pub(in crate::kubernetes) fn written(shares: &[ZoneShare]) -> String {
    let zone = |share: &ZoneShare| {
        let amounts = share.amounts.iter().map(|(name, amount)| format!("\"{name}\":{amount}"));
        format!("\"{}\":{{{}}}", share.zone, amounts.collect::<Vec<_>>().join(","))
    };
    format!("{{{}}}", shares.iter().map(zone).collect::<Vec<_>>().join(","))
}

/// A policy by kubelet's name.
pub(in crate::kubernetes) fn policy(name: &str) -> Option<ZonePolicy> {
    POLICIES.iter().find(|(own, _)| *own == name).map(|(_, policy)| *policy)
}

/// The policy that annotations of a pod want of its node.
pub(in crate::kubernetes) fn wanted(metadata: &Field<'_>) -> Fault<ZonePolicy> {
    let Some(annotations) = metadata.get("annotations")? else { return Ok(ZonePolicy::None) };
    if let Some(field) = annotations.get("volcano.sh/numa-topology-policy")? {
        return named(&field, policy(field.text()?));
    }
    let Some(field) = annotations.get("scheduling.koordinator.sh/numa-topology-spec")? else {
        return Ok(ZonePolicy::None);
    };
    let spec = json::value(field.text()?).ok_or_else(|| field.invalid("is no JSON"))?;
    match spec.entry("numaTopologyPolicy").and_then(Value::text).unwrap_or("") {
        "" | "None" => Ok(ZonePolicy::None),
        "BestEffort" => Ok(ZonePolicy::BestEffort),
        "Restricted" => Ok(ZonePolicy::Restricted),
        "SingleNUMANode" => Ok(ZonePolicy::SingleNumaNode),
        _ => named(&field, None),
    }
}

pub(in crate::kubernetes) fn named(
    field: &Field<'_>,
    policy: Option<ZonePolicy>,
) -> Fault<ZonePolicy> {
    policy.ok_or_else(|| field.invalid("names no policy of NUMA topology"))
}

/// Resources that kubelet aligns, by container in the order in which they start. For a guaranteed
/// pod they are whole CPUs, memory and huge pages; for any other pod, devices alone.
pub(in crate::kubernetes) fn parts(spec: &Field<'_>) -> Fault<Vec<ZonePart>> {
    let mut containers: Vec<(Quantities, bool)> = Vec::new();
    let mut guaranteed = true;
    for list in ["initContainers", "containers"] {
        spec.each(list, |container| {
            let (mut requests, mut limits) = (Quantities::new(), Quantities::new());
            if let Some(resources) = container.get("resources")? {
                for (name, into) in [("requests", &mut requests), ("limits", &mut limits)] {
                    resources.entries(name, |resource, field| {
                        into.insert(resource.to_string(), field.quantity()?);
                        Ok(())
                    })?;
                }
            }
            for (name, limit) in &limits {
                requests.entry(name.clone()).or_insert(*limit);
            }
            guaranteed &= [CPU, MEMORY].iter().all(|name| {
                let limit = limits.get(*name).filter(|limit| limit.nanos() > 0);
                limit.is_some() && limit == requests.get(*name)
            });
            let passing =
                list == "initContainers" && container.text_of("restartPolicy")? != "Always";
            containers.push((requests, passing));
            Ok(())
        })?;
    }
    let mut parts = Vec::new();
    for (requests, passing) in containers {
        let mut part = ZonePart::new();
        for (name, quantity) in requests.iter().filter(|(_, quantity)| quantity.nanos() > 0) {
            if is_aligned(name, *quantity, guaranteed)
                && let Ok(amount) = amount_of(name, *quantity)
            {
                part.amounts.set(name, amount);
            }
        }
        if !part.amounts.is_empty() {
            part.passing = passing;
            parts.push(part);
        }
    }
    Ok(parts)
}

fn is_aligned(name: &str, quantity: Quantity, guaranteed: bool) -> bool {
    match name {
        CPU => guaranteed && quantity.nanos() % 1_000_000_000 == 0,
        _ if resources::is_extended(name) => true,
        MEMORY => guaranteed,
        _ => guaranteed && name.starts_with("hugepages-"),
    }
}
