//! Pods with resource claims: filters, scores, what each node offers, and the devices by name.

pub(super) mod gangs;

use std::collections::{BTreeMap, BTreeSet};

use phalanx::claims::{Cel, ClaimVerdict, PreparedClaims};
use phalanx::framework::{Evaluation, Rejection, Verdict};
use phalanx::kubernetes::{self, Mode};
use phalanx::model::{Allocation, ClaimAllocation, ClaimSource, NodeSelector, Requirement};
use phalanx::state::Row;
use phalanx::{Cluster, Pod, Time};
use serde_json::{Map, Value, json};

use super::Disagreement;
use super::expect::list;
use super::scenario::{self, Scenario};

/// The identities of groups, by name.
pub(super) type Groups = BTreeMap<String, String>;

/// Whether a scenario has devices that are claimed.
pub(super) fn is_case(scenario: &Value) -> bool {
    let has = |name: &str| {
        scenario.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    };
    has("deviceClasses") && !has("persistentVolumeClaims")
}

/// Adds classes, slices and claims to a cluster; whether there are any.
pub(super) fn publish(
    cluster: &mut Cluster,
    objects: &mut impl FnMut(&str) -> Result<Vec<kubernetes::Value>, String>,
) -> Result<bool, String> {
    let text = |error: phalanx::ModelError| error.to_string();
    let classes = objects("deviceClasses")?;
    for object in &classes {
        cluster.set_device_class(kubernetes::device_class(object, Mode::AsStored).map_err(text)?);
    }
    for object in objects("resourceSlices")? {
        let slice = kubernetes::resource_slice(&object, Mode::AsStored);
        cluster.set_resource_slice(slice.map_err(text)?);
    }
    for object in objects("resourceClaims")? {
        cluster.set_claim(kubernetes::resource_claim(&object, Mode::AsStored).map_err(text)?);
    }
    Ok(!classes.is_empty())
}

/// Groups by name.
pub(super) fn groups(objects: &[kubernetes::Value]) -> Groups {
    let named = objects.iter().filter_map(|object| {
        let metadata = object.entry("metadata")?;
        let of = |name: &str| metadata.entry(name)?.text().map(String::from);
        Some((of("name")?, of("uid").unwrap_or_default()))
    });
    named.collect()
}

/// The identity of the group that a pod names.
pub(super) fn group_of<'a>(object: &kubernetes::Value, groups: &'a Groups) -> Option<&'a str> {
    let group = object.entry("spec")?.entry("schedulingGroup")?;
    let name = group.entry("podGroupName")?.text()?;
    groups.get(name).map(String::as_str)
}

/// The first disagreement; `None` if all steps agree.
pub(super) fn compare(scenario: Value, expected: &Value) -> Result<Option<Disagreement>, String> {
    let mut run = Run { scenario: scenario::read(scenario)?, reserved: BTreeMap::new() };
    let steps = list(expected, "steps")?;
    if let Some(unheard) =
        expected.as_object().and_then(|own| own.keys().find(|key| *key != "steps"))
    {
        return Err(format!("expect.{unheard}: is not known"));
    }
    let pending = run.scenario.pending.clone();
    if steps.len() != pending.len() {
        let (expected, actual) = (steps.len(), pending.len());
        return Ok(Some(Disagreement::new("all", "", "", expected, actual)));
    }
    for (pod, step) in pending.iter().zip(steps) {
        let actual = run.step(pod)?;
        if let Some((field, expected, actual)) = difference(step, &actual) {
            return Ok(Some(Disagreement::new(&pod.name, field, "", expected, actual)));
        }
    }
    Ok(None)
}

/// The first field that differs. Lists whose order says nothing are sorted.
fn difference(expected: &Value, actual: &Map<String, Value>) -> Option<(String, String, String)> {
    let empty = Map::new();
    let expected = expected.as_object().unwrap_or(&empty);
    let fields: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
    // The most telling difference comes first.
    let order = |field: &&String| {
        let known =
            ["prefilterRejectedBy", "errors", "rejected", "unresolvable", "offers", "scores"];
        known.iter().position(|own| own == field).unwrap_or(known.len())
    };
    let mut fields: Vec<&String> = fields.into_iter().collect();
    fields.sort_by_key(order);
    let shown = |value: &Value| value.to_string();
    for field in fields {
        let sorted = |value: Option<&Value>| match (value, field.as_str()) {
            (Some(Value::Array(list)), "unresolvable" | "best" | "deallocated") => {
                let mut list = list.clone();
                list.sort_by_key(|value| value.to_string());
                Value::Array(list)
            }
            (value, _) => value.cloned().unwrap_or(Value::Null),
        };
        let (own, other) = (sorted(expected.get(field)), sorted(actual.get(field)));
        if own != other {
            if let (Value::Object(own), Value::Object(other)) = (&own, &other) {
                let keys: BTreeSet<&String> = own.keys().chain(other.keys()).collect();
                let key = keys.into_iter().find(|key| own.get(*key) != other.get(*key));
                let of = |map: &Map<String, Value>| {
                    key.and_then(|key| map.get(key)).map_or("nothing".into(), shown)
                };
                let place = format!("{field} {}", key.map_or("", String::as_str));
                return Some((place, of(own), of(other)));
            }
            return Some((field.clone(), shown(&own), shown(&other)));
        }
    }
    None
}

struct Run {
    scenario: Scenario,
    /// For whom claims were reserved, beside what their objects say.
    reserved: BTreeMap<String, BTreeSet<String>>,
}

/// The name of a claim of a pod: that of its object.
pub(super) fn claim_name<'a>(pod: &'a Pod, entry: &'a str) -> &'a str {
    let own = pod.shape().claims.iter().find(|claim| claim.name == entry);
    match own.map(|own| &own.source) {
        Some(ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. }) => name,
        _ => entry,
    }
}

impl Run {
    /// One pod, which is placed if it can be: what is expected of it, as we answer.
    fn step(&mut self, pod: &Pod) -> Result<Map<String, Value>, String> {
        let mut step = Map::new();
        step.insert("pod".into(), pod.name.as_str().into());
        let (cluster, framework) = (&self.scenario.cluster, &self.scenario.framework);
        let mut evaluation = Evaluation::new(framework, cluster, pod.shape(), None, Time::ZERO);
        let name = |number: usize| framework.filter_names().nth(number).expect("a filter");
        if let Some((number, _)) = evaluation.refused() {
            step.insert("prefilterRejectedBy".into(), name(number).into());
            return Ok(step);
        }
        let claims = PreparedClaims::new(cluster, &Cel, pod.shape()).unwrap_or(None);
        let mut feasible: Vec<(&str, Row, Vec<ClaimAllocation>)> = Vec::new();
        let (mut rejected, mut errors) = (Map::new(), Map::new());
        let (mut unresolvable, mut elsewhere) = (Vec::new(), BTreeSet::new());
        for node in cluster.nodes() {
            let verdict = claims.as_ref().map(|claims| claims.on(cluster, node));
            match evaluation.filter(node) {
                Ok(()) => {
                    let Some(ClaimVerdict::Offer(offer)) = verdict else {
                        if claims.is_some() {
                            return Err("a feasible node has no offer".into());
                        }
                        feasible.push((node.name(), node.row(), Vec::new()));
                        continue;
                    };
                    feasible.push((node.name(), node.row(), offer));
                }
                Err(Rejection::Filter(number, own)) => {
                    if name(number) == "DynamicResources" {
                        match verdict {
                            Some(ClaimVerdict::Fault(_)) => {
                                errors.insert(node.name().into(), name(number).into());
                                continue;
                            }
                            Some(ClaimVerdict::Elsewhere(claims)) => elsewhere.extend(claims),
                            _ => {}
                        }
                    }
                    rejected.insert(node.name().into(), name(number).into());
                    if own == Verdict::Unresolvable {
                        unresolvable.push(Value::from(node.name()));
                    }
                }
                Err(_) => {
                    rejected.insert(node.name().into(), "PreFilterResult".into());
                }
            }
        }
        let failed = !errors.is_empty();
        for (field, map) in [("rejected", rejected), ("errors", errors)] {
            if !map.is_empty() {
                step.insert(field.into(), map.into());
            }
        }
        if !unresolvable.is_empty() {
            step.insert("unresolvable".into(), unresolvable.into());
        }
        if failed {
            return Ok(step);
        }
        if feasible.is_empty() {
            let given = self.deallocate(pod, &elsewhere);
            if !given.is_empty() {
                step.insert("deallocated".into(), given.into());
            }
            return Ok(step);
        }
        let chosen = score(&self.scenario, &mut evaluation, &feasible, &mut step)?;
        let offers =
            feasible.iter().filter(|(.., offer)| !offer.is_empty()).map(|(node, _, offer)| {
                let own = offer.iter().map(|own| {
                    (claim_name(pod, &own.claim).to_string(), offered(&own.allocation).into())
                });
                ((*node).to_string(), Value::Object(own.collect()))
            });
        let offers: Map<String, Value> = offers.collect();
        if !offers.is_empty() {
            step.insert("offers".into(), offers.into());
        }
        let (node, _, offer) = &feasible[chosen];
        let allocations: Map<String, Value> = offer
            .iter()
            .map(|own| (claim_name(pod, &own.claim).to_string(), allocation(&own.allocation)))
            .collect();
        if !allocations.is_empty() {
            step.insert("allocations".into(), allocations.into());
        }
        let mut placed = pod.clone().on(*node);
        placed.allocations.clone_from(offer);
        for own in &pod.shape().claims {
            let name = claim_name(pod, &own.name).to_string();
            self.reserved.entry(name).or_default().insert(pod.uid.clone());
        }
        self.scenario.cluster.add_pod(placed).map_err(|error| error.to_string())?;
        Ok(step)
    }

    /// Takes the devices of a claim away that can be used elsewhere only, and that nobody else has
    /// reserved.
    fn deallocate(&mut self, pod: &Pod, elsewhere: &BTreeSet<String>) -> Vec<Value> {
        let names = elsewhere.iter().map(|entry| claim_name(pod, entry).to_string());
        let free = names.filter(|name| {
            let record = self.scenario.cluster.claims().claim(pod.namespace(), name);
            let Some(claim) = record.and_then(|record| record.claim()) else { return false };
            let others =
                claim.reserved_for.iter().chain(self.reserved.get(name).into_iter().flatten());
            others.into_iter().all(|uid| *uid == pod.uid)
        });
        // There is one at most in the data, since the choice is arbitrary.
        let free: Vec<String> = free.collect();
        for name in &free {
            self.scenario.cluster.deallocate_claim(pod.namespace(), name);
        }
        free.into_iter().map(Value::from).collect()
    }
}

/// Adds the scores; the place of the chosen one among the feasible nodes.
fn score(
    scenario: &Scenario,
    evaluation: &mut Evaluation<'_>,
    feasible: &[(&str, Row, Vec<ClaimAllocation>)],
    step: &mut Map<String, Value>,
) -> Result<usize, String> {
    let rows: Vec<Row> = feasible.iter().map(|(_, row, _)| *row).collect();
    let mut totals = vec![0_i64; rows.len()];
    let mut scores = Map::new();
    for column in evaluation.score(&rows) {
        if column.scores.iter().all(|score| *score == 0) {
            continue;
        }
        let mut own = Map::new();
        for ((score, total), (node, ..)) in column.scores.iter().zip(&mut totals).zip(feasible) {
            *total += score;
            own.insert((*node).into(), (*score).into());
        }
        let plugin = scenario.framework.score_names().nth(column.plugin).expect("a score").1;
        scores.insert(plugin.into(), own.into());
    }
    let most = totals.iter().max().ok_or("no node is feasible")?;
    let best = || (0..totals.len()).filter(|at| totals[*at] == *most);
    let names: Vec<Value> = best().map(|at| feasible[at].0.into()).collect();
    let chosen = best().next().ok_or("no node is best")?;
    let total = feasible
        .iter()
        .zip(&totals)
        .map(|((node, ..), total)| ((*node).to_string(), Value::from(*total)));
    step.insert("total".into(), Value::Object(total.collect()));
    step.insert("scores".into(), scores.into());
    step.insert("best".into(), names.into());
    step.insert("chosen".into(), feasible[chosen].0.into());
    Ok(chosen)
}

/// The devices that an allocator found, in short.
fn offered(allocation: &Allocation) -> String {
    let devices = allocation.devices.iter().map(|device| {
        format!("{}={}/{}/{}", device.request, device.driver, device.pool, device.device)
    });
    devices.collect::<Vec<_>>().join(" ")
}

/// An allocation as it is recorded.
pub(super) fn allocation(allocation: &Allocation) -> Value {
    let devices = allocation.devices.iter().map(|device| {
        let mut own = json!({
            "request": device.request,
            "driver": device.driver,
            "pool": device.pool,
            "device": device.device,
        });
        if device.admin {
            own["admin"] = true.into();
        }
        if let Some(share) = device.share.as_ref().filter(|share| !share.is_empty()) {
            let amounts = share
                .iter()
                .map(|(name, amount)| (name.clone(), Value::from(amount.ceil().to_string())));
            own["consumed"] = Value::Object(amounts.collect());
        }
        own
    });
    let mut own = Map::new();
    own.insert("devices".into(), devices.collect());
    if let Some(nodes) = &allocation.nodes {
        own.insert("nodeSelector".into(), selector(nodes));
    }
    own.into()
}

fn selector(nodes: &NodeSelector) -> Value {
    let rule = |rule: &Requirement| {
        let mut own = json!({"key": rule.key, "operator": rule.operator.as_str()});
        if !rule.values.is_empty() {
            own["values"] = rule.values.clone().into();
        }
        own
    };
    let terms = nodes.terms.iter().map(|term| {
        let mut own = Map::new();
        for (name, rules) in
            [("matchExpressions", &term.match_expressions), ("matchFields", &term.match_fields)]
        {
            if !rules.is_empty() {
                own.insert(name.into(), rules.iter().map(rule).collect());
            }
        }
        Value::from(own)
    });
    json!({ "nodeSelectorTerms": terms.collect::<Vec<_>>() })
}
