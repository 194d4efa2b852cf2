//! Documents of kinds that are not read: nothing of them is in force, and they make no pods.

use super::rule::{METADATA, Rule, Spot, Step};
use super::walk::Walk;
use crate::kubernetes::value::Value;

/// Names a field of an object that is not read, and of its metadata all but names and bookkeeping.
pub(super) fn field(walk: &mut Walk<'_>, spot: &Spot<'_>, group: &str, kind: &str) {
    match (spot.name(), spot.value) {
        ("metadata", Value::Map(entries)) => {
            for (name, value) in entries {
                if !METADATA.contains(&name.as_str()) {
                    let inner = Spot { up: Some(spot), step: Step::Name(name), value };
                    walk.apply(&inner, &NOT_READ);
                }
            }
        }
        ("metadata" | "status", _) => {}
        ("partitions", _) if group.is_empty() && kind.is_empty() => walk.apply(spot, &QUEUES),
        _ => walk.apply(spot, &NOT_READ),
    }
}

/// A file of `YuniKorn`'s queues, which states no kind.
const QUEUES: Rule = Rule::Ignored(super::dialects::QUEUE);

/// The rule for a field of a kind that is not known.
const NOT_READ: Rule = Rule::Refused("no kind that is read");
