//! The kinds that are known, and the rules of their objects.

use super::rule::{Kind, Spot, Step};
use super::verdict::FieldVerdict;
use super::walk::Walk;
use super::{
    cards, controllers, devices, groups, pods, queues, ray, spark, storage, unread, workloads,
};
use crate::kubernetes::value::Value;

/// All kinds that are known by their fields.
pub(super) const KINDS: &[&[Kind]] = &[
    cards::KINDS,
    pods::KINDS,
    storage::KINDS,
    devices::KINDS,
    groups::KINDS,
    workloads::KINDS,
    controllers::KINDS,
    ray::KINDS,
    spark::KINDS,
    queues::KINDS,
];

/// Whether the fields of a kind are known.
pub(super) fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    let all = KINDS.iter().flat_map(|kinds| kinds.iter());
    all.clone().find(|known| known.kind == kind && known.groups.contains(&group))
}

/// Walks over a document: an object, or a list of them.
pub(super) fn document(walk: &mut Walk<'_>, spot: &Spot<'_>, like: Option<(&str, &str)>) {
    match spot.value {
        Value::List(values) if !matches!(spot.step, Step::At(_)) => {
            for (index, value) in values.iter().enumerate() {
                document(walk, &Spot { up: Some(spot), step: Step::At(index), value }, like);
            }
        }
        Value::Map(_) => {
            let text = |name| spot.value.entry(name).and_then(Value::text).unwrap_or("");
            let (version, kind) = match (like, text("kind")) {
                (Some(like), "") => like,
                (_, kind) => (text("apiVersion"), kind),
            };
            match (kind.strip_suffix("List"), spot.value.entry("items")) {
                (Some(of), Some(Value::List(values))) => {
                    let like = (!of.is_empty()).then_some((version, of));
                    let items =
                        Spot { up: Some(spot), step: Step::Name("items"), value: spot.value };
                    for (index, value) in values.iter().enumerate() {
                        let item = Spot { up: Some(&items), step: Step::At(index), value };
                        document(walk, &item, like);
                    }
                }
                _ => object(walk, spot, version, kind),
            }
        }
        Value::Null => {}
        _ => (walk.sink)(FieldVerdict::Refused, spot, "is no object"),
    }
}

/// Walks over an object of a version and kind.
pub(super) fn object(walk: &mut Walk<'_>, spot: &Spot<'_>, version: &str, kind: &str) {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let Value::Map(entries) = spot.value else { return };
    let known = find(group, kind);
    for (name, value) in entries {
        if matches!(name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        let inner = Spot { up: Some(spot), step: Step::Name(name), value };
        let Some(known) = known else {
            unread::field(walk, &inner, group, kind);
            continue;
        };
        let stated = known.fields.iter().find(|(field, _)| field == name);
        match stated {
            Some((_, rule)) => walk.apply(&inner, rule),
            None if name == "status" => {}
            None => walk.apply(&inner, &super::rule::UNKNOWN),
        }
    }
}
