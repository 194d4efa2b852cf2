//! Reads placement problems with Kueue's answers, one JSON object a line, and compares ours.

use std::collections::BTreeMap;

use phalanx::Quantity;
use phalanx::framework::KueueGates;
use phalanx::place::{Failure, KueueRoom, Unit};
use phalanx::reference::kueue::{
    AssignedDomain, BackgroundPod, Expression, KueueAmounts, KueueAssignment, KueueCluster,
    KueueFlavor, KueueNode, KueueNodeAffinity, KueueOperator, KueueOutcome, KueuePodSet,
    KueueSnapshot, KueueTaint, KueueToleration, KueueTolerationOperator, KueueTopologyRequest,
    KueueUsage, PreferredTerm, SliceLayer,
};
use serde_json::{Map, Value, json};

use crate::kueue_strategy;

/// How one case went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The case's id.
    pub id: String,
    /// The category that the case exercises.
    pub category: String,
    /// Whether the planner was asked too: it was where a group can say what the case asks.
    pub through_planner: bool,
    /// The first difference; `None` if the answers agree.
    pub difference: Option<Difference>,
}

/// A place where the answers differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Kueue's answer.
    pub expected: String,
    /// Ours.
    pub actual: String,
}

/// Runs one case.
///
/// # Errors
///
/// The line is not a case: no JSON, a field missing or of the wrong kind.
pub fn run_case(line: &str) -> Result<Verdict, String> {
    let case: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let (cluster, pod_sets) = (cluster(&case)?, list(&case, "podSets", pod_set)?);
    let expect = field(&case, "expect")?;
    let snapshot = KueueSnapshot::new(&cluster).map_err(|error| error.to_string())?;
    let mut difference = compare(expect, &snapshot.assign(&pod_sets))?;
    // The same through the planner, where a group can say it.
    let placed = kueue_strategy::assign(&cluster, &pod_sets)?;
    if let (None, Some(outcome)) = (&difference, &placed) {
        difference = compare(expect, outcome)?;
    }
    Ok(Verdict {
        id: text(&case, "id")?,
        category: text(&case, "mix")?,
        through_planner: placed.is_some(),
        difference,
    })
}

fn compare(expect: &Value, outcome: &KueueOutcome) -> Result<Option<Difference>, String> {
    let difference = |name: &str, expected: String, actual: String| {
        let actual = format!("{name}: {actual}");
        Ok(Some(Difference { expected: format!("{name}: {expected}"), actual }))
    };
    let expected_sets = object(expect, "podSets")?;
    for (name, expected) in expected_sets {
        let expected = if expected.is_null() { None } else { Some(assignment(expected)?) };
        let actual = outcome.assignment(name);
        if expected.as_ref() != actual {
            let show = |one: Option<&KueueAssignment>| one.map_or("none".into(), show_assignment);
            return difference(name, show(expected.as_ref()), show(actual));
        }
    }
    for one in &outcome.pod_sets {
        if one.result.is_ok() && !expected_sets.contains_key(&one.name) {
            return difference(&one.name, "not placed".into(), "placed".into());
        }
    }

    let expected: Vec<String> = list(expect, "failed", owned)?;
    let failures = outcome.pod_sets.iter().filter(|one| one.result.is_err());
    let actual: Vec<&str> = failures.map(|one| one.name.as_str()).collect();
    if expected.len() != actual.len() || expected.iter().any(|name| !actual.contains(&&**name)) {
        return difference("failed", format!("{expected:?}"), format!("{actual:?}"));
    }

    let expected = field(expect, "failure")?;
    let (Some(expected), Some(failure)) = (expected.as_object(), outcome.failure()) else {
        if expected.is_null() && outcome.failure().is_none() {
            return Ok(None);
        }
        let actual = outcome.failure().map_or("none".into(), ToString::to_string);
        return difference("failure", expected.to_string(), actual);
    };
    let actual = describe(failure);
    let reason = optional_text(expect, "reason")?.unwrap_or_default();
    let kind = expected.get("kind").and_then(Value::as_str).ok_or("failure.kind is no text")?;
    if kind_of(kind, &reason) != failure.kind() {
        return difference("failure.kind", format!("{kind} ({reason})"), failure.kind().into());
    }
    for key in ["fits", "of", "unit", "perLevel", "level", "nodesConsidered", "excluded"] {
        let (expected, actual) = (expected.get(key), actual.get(key));
        // Kueue's texts for malformed requests do not all name a level.
        let silent = key == "level" && expected.is_none();
        if expected != actual && !silent {
            let show = |one: Option<&Value>| one.map_or("none".into(), ToString::to_string);
            return difference(&format!("failure.{key}"), show(expected), show(actual));
        }
    }
    Ok(None)
}

/// Our name for a kind of failure. Kinds are told by Kueue's text if the case calls them
/// otherwise.
fn kind_of<'a>(kind: &'a str, reason: &str) -> &'a str {
    const TEXTS: [(&str, &str); 9] = [
        ("size not provided", "no-slice-size"),
        ("level for slices", "unknown-slice-level"),
        ("level for additional slice", "unknown-slice-level"),
        ("no requested topology level", "unknown-level"),
        ("level not specified", "no-level"),
        ("must be at a lower level", "slice-layer-not-finer"),
        ("must evenly divide", "slice-layer-size"),
        ("stale domain", "stale-assignment"),
        ("replacement assignment", "no-replacement"),
    ];
    let told = TEXTS.iter().find(|(text, _)| reason.contains(text));
    told.map_or(kind, |&(_, name)| name)
}

/// A failure in the form of the cases.
fn describe(failure: &Failure) -> Map<String, Value> {
    let mut result = Map::new();
    match failure {
        Failure::NoFit(no_fit) => {
            match &no_fit.room {
                KueueRoom::Whole { fits, of, unit } => {
                    let unit = if *unit == Unit::Pod { "pod" } else { "slice" };
                    result.insert("fits".into(), json!(fits));
                    result.insert("of".into(), json!(of));
                    result.insert("unit".into(), json!(unit));
                }
                KueueRoom::Layers(layers) => {
                    let layer = layers.iter().map(
                        |layer| json!({"level": layer.level, "fits": layer.fits, "of": layer.of}),
                    );
                    result.insert("unit".into(), json!("slice"));
                    result.insert("perLevel".into(), layer.collect());
                }
            }
            let out = &no_fit.excluded;
            if !out.is_empty() {
                let mut excluded = Map::new();
                for (name, nodes) in [
                    ("nodeSelector", out.node_selector),
                    ("affinity", out.affinity),
                    ("topologyDomain", out.topology_domain),
                ] {
                    if nodes > 0 {
                        excluded.insert(name.into(), json!(nodes));
                    }
                }
                for (name, nodes) in [("taints", &out.taints), ("resources", &out.resources)] {
                    if !nodes.is_empty() {
                        excluded.insert(name.into(), json!(nodes));
                    }
                }
                result.insert("nodesConsidered".into(), json!(no_fit.nodes_considered));
                result.insert("excluded".into(), Value::Object(excluded));
            }
        }
        Failure::NoDomains { level }
        | Failure::UnknownLevel { level }
        | Failure::UnknownSliceLevel { level }
        | Failure::SliceLevelAboveRequest { level, .. }
        | Failure::NoSliceSize { level }
        | Failure::SliceLayerNotFiner { level }
        | Failure::SliceLayerSize { level, .. } => {
            result.insert("level".into(), json!(level));
        }
        _ => {}
    }
    result
}

fn show_assignment(assignment: &KueueAssignment) -> String {
    let domains = assignment.domains.iter();
    let domains: Vec<String> =
        domains.map(|domain| format!("{}={}", domain.values.join("/"), domain.count)).collect();
    format!("[{}] by {}", domains.join(" "), assignment.levels.join("/"))
}

fn cluster(case: &Value) -> Result<KueueCluster, String> {
    let flavor = field(case, "flavor")?;
    Ok(KueueCluster {
        levels: list(case, "levels", owned)?,
        nodes: list(case, "nodes", node)?,
        pods: list(case, "pods", background_pod)?,
        flavor: KueueFlavor {
            node_labels: labels(flavor, "nodeLabels")?,
            tolerations: list(flavor, "tolerations", toleration)?,
        },
        usage: list(case, "usage", usage)?,
        gates: gates(case)?,
    })
}

fn gates(case: &Value) -> Result<KueueGates, String> {
    let mut gates = KueueGates::default();
    for (name, on) in object(case, "gates")? {
        let gate = match name.as_str() {
            "TASProfileMixed" => &mut gates.profile_mixed,
            "TASMultiLayerTopology" => &mut gates.multi_layer,
            "TASHandleOverlappingFlavors" => &mut gates.overlapping_flavors,
            "TASBalancedPlacement" => &mut gates.balanced_placement,
            "TASRespectNodeAffinityPreferred" => &mut gates.preferred_affinity,
            "ElasticJobsViaWorkloadSlicesWithTAS" => &mut gates.elastic,
            _ => return Err(format!("the gate {name} is not known")),
        };
        *gate = on.as_bool().ok_or_else(|| format!("the gate {name} is neither on nor off"))?;
    }
    Ok(gates)
}

fn node(value: &Value) -> Result<KueueNode, String> {
    Ok(KueueNode {
        name: text(value, "name")?,
        labels: labels(value, "labels")?,
        allocatable: amounts(value, "allocatable")?,
        ready: flag(value, "ready")?,
        unschedulable: flag(value, "unschedulable")?,
        taints: list(value, "taints", |taint| {
            Ok(KueueTaint {
                key: text(taint, "key")?,
                value: optional_text(taint, "value")?.unwrap_or_default(),
                effect: text(taint, "effect")?,
            })
        })?,
    })
}

fn background_pod(value: &Value) -> Result<BackgroundPod, String> {
    let phase = optional_text(value, "phase")?;
    Ok(BackgroundPod {
        node: optional_text(value, "node")?,
        terminated: matches!(phase.as_deref(), Some("Succeeded" | "Failed")),
        requests: amounts(value, "requests")?,
    })
}

fn usage(value: &Value) -> Result<KueueUsage, String> {
    Ok(KueueUsage {
        values: list(value, "values", owned)?,
        requests: amounts(value, "requests")?,
        count: number(value, "count")?,
        other_flavor: match text(value, "source")?.as_str() {
            "same-flavor" => false,
            "other-flavor" => true,
            other => return Err(format!("the usage source {other} is not known")),
        },
    })
}

fn toleration(value: &Value) -> Result<KueueToleration, String> {
    let operator = match optional_text(value, "op")?.unwrap_or_default().as_str() {
        "" | "Equal" => KueueTolerationOperator::Equal,
        "Exists" => KueueTolerationOperator::Exists,
        "Gt" => KueueTolerationOperator::Gt,
        "Lt" => KueueTolerationOperator::Lt,
        other => return Err(format!("the toleration operator {other} is not known")),
    };
    Ok(KueueToleration {
        key: optional_text(value, "key")?.unwrap_or_default(),
        operator,
        value: optional_text(value, "value")?.unwrap_or_default(),
        effect: optional_text(value, "effect")?,
    })
}

fn pod_set(value: &Value) -> Result<KueuePodSet, String> {
    let mut slices = Vec::new();
    if let Some(level) = optional_text(value, "sliceRequired")? {
        let size = optional_number(value, "sliceSize")?;
        slices.push(SliceLayer { level, size });
    }
    slices.extend(list(value, "extraSlices", |layer| {
        Ok(SliceLayer { level: text(layer, "level")?, size: Some(number(layer, "size")?) })
    })?);
    let previous = field(value, "previous")?;
    let affinity = field(value, "affinity")?;
    Ok(KueuePodSet {
        name: text(value, "name")?,
        count: number(value, "count")?,
        requests: amounts(value, "requests")?,
        topology: KueueTopologyRequest {
            required: optional_text(value, "required")?,
            preferred: optional_text(value, "preferred")?,
            slices,
            unconstrained: flag(value, "unconstrained")?,
            implied: flag(value, "implied")?,
        },
        group: optional_text(value, "group")?,
        node_selector: labels(value, "nodeSelector")?,
        affinity: if affinity.is_null() {
            KueueNodeAffinity::default()
        } else {
            affinity_of(affinity)?
        },
        tolerations: list(value, "tolerations", toleration)?,
        elastic: flag(value, "elastic")?,
        replace_node: optional_text(value, "replaceNode")?,
        previous: if previous.is_null() { None } else { Some(assignment(previous)?) },
    })
}

fn affinity_of(value: &Value) -> Result<KueueNodeAffinity, String> {
    Ok(KueueNodeAffinity {
        required: list(value, "required", |term| items(term, "a term", expression))?,
        preferred: list(value, "preferred", |term| {
            let weight = field(term, "weight")?.as_i64().and_then(|one| i32::try_from(one).ok());
            Ok(PreferredTerm {
                weight: weight.ok_or("a weight is no number")?,
                expressions: list(term, "match", expression)?,
            })
        })?,
    })
}

fn expression(value: &Value) -> Result<Expression, String> {
    let operator = match text(value, "op")?.as_str() {
        "In" => KueueOperator::In,
        "NotIn" => KueueOperator::NotIn,
        "Exists" => KueueOperator::Exists,
        "DoesNotExist" => KueueOperator::DoesNotExist,
        "Gt" => KueueOperator::Gt,
        "Lt" => KueueOperator::Lt,
        other => return Err(format!("the operator {other} is not known")),
    };
    let values = list(value, "values", owned)?;
    Ok(Expression { key: text(value, "key")?, operator, values })
}

fn assignment(value: &Value) -> Result<KueueAssignment, String> {
    Ok(KueueAssignment {
        levels: list(value, "levels", owned)?,
        domains: list(value, "domains", |domain| {
            let values = list(domain, "values", owned)?;
            Ok(AssignedDomain { values, count: number(domain, "count")? })
        })?,
    })
}

fn field<'a>(value: &'a Value, name: &str) -> Result<&'a Value, String> {
    value.get(name).ok_or_else(|| format!("the field {name} is missing"))
}

fn object<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>, String> {
    field(value, name)?.as_object().ok_or_else(|| format!("{name} is no object"))
}

fn list<T>(
    value: &Value,
    name: &str,
    read: impl FnMut(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    items(field(value, name)?, name, read)
}

fn items<T>(
    value: &Value,
    name: &str,
    read: impl FnMut(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    value.as_array().ok_or_else(|| format!("{name} is no list"))?.iter().map(read).collect()
}

fn owned(value: &Value) -> Result<String, String> {
    value.as_str().map(String::from).ok_or_else(|| format!("{value} is no text"))
}

fn text(value: &Value, name: &str) -> Result<String, String> {
    owned(field(value, name)?).map_err(|error| format!("{name}: {error}"))
}

fn optional_text(value: &Value, name: &str) -> Result<Option<String>, String> {
    if field(value, name)?.is_null() { Ok(None) } else { text(value, name).map(Some) }
}

fn flag(value: &Value, name: &str) -> Result<bool, String> {
    field(value, name)?.as_bool().ok_or_else(|| format!("{name} is neither true nor false"))
}

fn number(value: &Value, name: &str) -> Result<u32, String> {
    let number = field(value, name)?.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("{name} is no 32-bit number"))
}

fn optional_number(value: &Value, name: &str) -> Result<Option<u32>, String> {
    if field(value, name)?.is_null() { Ok(None) } else { number(value, name).map(Some) }
}

fn labels(value: &Value, name: &str) -> Result<BTreeMap<String, String>, String> {
    object(value, name)?.iter().map(|(key, value)| Ok((key.clone(), owned(value)?))).collect()
}

fn amounts(value: &Value, name: &str) -> Result<KueueAmounts, String> {
    let amount = |(name, value): (&String, &Value)| {
        let quantity: Quantity = owned(value)?.parse().map_err(|error| format!("{error}"))?;
        let amount = if name == "cpu" { quantity.milli_ceil() } else { Some(quantity.ceil()) };
        Ok((name.clone(), amount.ok_or_else(|| format!("{name} is too large"))?))
    };
    object(value, name)?.iter().map(amount).collect()
}
