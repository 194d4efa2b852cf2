//! Koordinator's `ElasticQuota`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::field::Note;
use super::super::field::{Fault, Field};
use super::super::json::{elements, string};
use super::super::metadata;
use super::unread::unread;
use crate::model::Amounts;
use crate::model::resources::amount_of;
use crate::quota::ElasticQuota;

const PREFIX: &str = "quota.scheduling.koordinator.sh/";
/// Fields that the scheduler and its controllers write.
const WRITTEN: [&str; 9] = [
    "guaranteed",
    "allocated",
    "runtime",
    "request",
    "child-request",
    "non-preemptible-request",
    "non-preemptible-used",
    "total-resource",
    "profile",
];

/// A quota, and the namespaces it is the quota of.
pub(super) fn read(root: &Field<'_>, notes: &mut Vec<Note>) -> Fault<(ElasticQuota, Vec<String>)> {
    let mut quota = ElasticQuota::new(metadata::name(root)?);
    if let Some(spec) = root.get("spec")? {
        unread(&spec, &["min", "max"], notes);
        (quota.min, quota.max) = (amounts(&spec, "min")?, amounts(&spec, "max")?);
    }
    let metadata = root.need("metadata")?;
    metadata.entries("labels", |key, field| {
        let Some(key) = key.strip_prefix(PREFIX) else { return Ok(()) };
        let text = field.text()?;
        match key {
            "is-parent" => quota.is_parent = text == "true",
            "parent" if text.is_empty() => {}
            "parent" => text.clone_into(&mut quota.parent),
            "allow-lent-resource" => quota.allow_lent = text != "false",
            "tree-id" => text.clone_into(&mut quota.tree_id),
            "is-root" => quota.is_tree_root = text == "true",
            "allow-force-update" => quota.force_update = text == "true",
            key if WRITTEN.contains(&key) => {}
            _ => notes.push(not_understood(&field)),
        }
        Ok(())
    })?;
    let mut namespaces = Vec::new();
    metadata.entries("annotations", |key, field| {
        let Some(key) = key.strip_prefix(PREFIX) else { return Ok(()) };
        match key {
            "shared-weight" => match weights(field.text()?) {
                Some(weights) => quota.shared_weight = weights,
                None => notes.push(not_understood(&field)),
            },
            "namespaces" => match strings(field.text()?) {
                Some(names) => namespaces = names,
                None => notes.push(not_understood(&field)),
            },
            key if WRITTEN.contains(&key) => {}
            _ => notes.push(not_understood(&field)),
        }
        Ok(())
    })?;
    Ok((quota, namespaces))
}

fn not_understood(field: &Field<'_>) -> Note {
    Note::new(field, &format!("{} is not understood", field.path()))
}

fn amounts(spec: &Field<'_>, name: &str) -> Fault<Amounts> {
    let mut amounts = Amounts::new();
    spec.entries(name, |resource, field| {
        let quantity = field.quantity()?;
        if quantity.is_negative() {
            return Err(field.invalid("is negative"));
        }
        let amount = amount_of(resource, quantity).map_err(|problem| field.fail(problem))?;
        amounts.set(resource, amount);
        Ok(())
    })?;
    Ok(amounts)
}

fn strings(text: &str) -> Option<Vec<String>> {
    elements(text, '[', ']')?.map(|element| string(element).map(ToOwned::to_owned)).collect()
}

/// Weights by resource, as JSON.
fn weights(text: &str) -> Option<Amounts> {
    let mut weights = Amounts::new();
    for element in elements(text, '{', '}')? {
        let (resource, weight) = element.split_once(':')?;
        let resource = string(resource)?;
        let weight = string(weight).unwrap_or(weight.trim()).parse().ok()?;
        weights.set(resource, amount_of(resource, weight).ok()?);
    }
    Some(weights)
}
