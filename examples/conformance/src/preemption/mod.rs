//! Preemption of kube-scheduler: what it answers for pods and for groups, field by field.
//!
//! An answer of ours is written down in the form of the case and compared as a whole, so that a
//! field that is missing, altered or not known differs.

mod gangs;
mod least;
mod pods;
mod scenario;

use phalanx::preempt::EvictedPod;
use phalanx::preempt::kubernetes::PodVictim;
use serde_json::{Map, Value};

use super::Disagreement;
pub(super) use gangs::compare as compare_gang;
pub(super) use least::{Comparison, compare as compare_cost, table};
pub(super) use pods::compare as compare_pods;
use scenario::read;

/// Whether expectations are those of preemption for pods.
pub(super) fn is_of_pods(expected: &Value) -> bool {
    let steps = expected.get("steps").and_then(Value::as_array);
    let has = |step: &Value| step.get("preemption").is_some() || step.get("feasible").is_some();
    steps.is_some_and(|steps| steps.iter().any(has))
}

/// Whether expectations are those of preemption for a group.
pub(super) fn is_of_gang(expected: &Value) -> bool {
    let fields = ["tieStable", "placed", "workloadAware", "perDomain", "podByPod"];
    fields.iter().any(|field| expected.get(field).is_some())
}

/// An object without the fields that are empty lists or maps.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let fields = fields.into_iter().filter(|(_, value)| !is_empty(value));
    Value::Object(fields.map(|(name, value)| (name.to_string(), value)).collect())
}

/// A list of texts.
fn texts<S: ToString>(texts: impl IntoIterator<Item = S>) -> Value {
    texts.into_iter().map(|text| Value::String(text.to_string())).collect()
}

/// The texts of a list; none if the field is absent.
fn list_of_texts(of: &Value, field: &str) -> Result<Vec<String>, String> {
    let list = of.get(field).and_then(Value::as_array).into_iter().flatten();
    let text = |text: &Value| text.as_str().map(String::from).ok_or(format!("{field}: no text"));
    list.map(text).collect()
}

/// The names of victims, in their order.
fn names(victims: &[PodVictim]) -> Value {
    texts(victims.iter().map(|victim| &victim.pod.name))
}

/// The names of pods, sorted.
fn sorted(mut pods: Vec<&EvictedPod>) -> Value {
    pods.sort_by_key(|pod| &pod.name);
    texts(pods.iter().map(|pod| &pod.name))
}

/// A map from texts to texts.
fn pairs<K: ToString, V: ToString>(pairs: impl IntoIterator<Item = (K, V)>) -> Value {
    let pairs = pairs.into_iter().map(|(key, value)| (key.to_string(), value.to_string().into()));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

/// The first place where two values differ.
fn difference(step: &str, path: &str, expected: &Value, actual: &Value) -> Option<Disagreement> {
    let inner = |name: &str| if path.is_empty() { name.into() } else { format!("{path}.{name}") };
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(got)) => {
            let names = wanted.keys().chain(got.keys().filter(|name| !wanted.contains_key(*name)));
            let mut names: Vec<&String> = names.collect();
            names.sort_unstable();
            names.into_iter().find_map(|name| match (wanted.get(name), got.get(name)) {
                (Some(wanted), Some(got)) => difference(step, &inner(name), wanted, got),
                (wanted, got) => {
                    let show =
                        |value: Option<&Value>| value.map_or("nothing".into(), Value::to_string);
                    Some(Disagreement::new(step, inner(name), "", show(wanted), show(got)))
                }
            })
        }
        _ if expected == actual => None,
        _ => Some(Disagreement::new(step, path, "", expected, actual)),
    }
}
