//! Nodes and namespaces from their manifests.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::field::{Fault, Field};
use super::koordinator;
use super::metadata::{self, unsupported};
use super::resources::node_amounts;
use crate::model::node::Image;
use crate::model::resources::PODS;
use crate::model::selector::{check_key, check_value};
use crate::model::{Amounts, Effect, Labels, Node, Problem, Taint};

/// Effects of taints, as Kubernetes spells them.
pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A node.
pub(super) fn node(root: &Field<'_>) -> Fault<Node> {
    let mut node = Node::new(metadata::name(root)?);
    node.labels = labels(root)?;
    if let Some(spec) = root.get("spec")? {
        node.unschedulable = spec.flag("unschedulable")?;
        let mut seen = BTreeSet::new();
        spec.each("taints", |field| {
            let taint = taint(&field)?;
            let identity = (taint.key.clone(), String::from(taint.effect.clone()));
            if root.strict() && !seen.insert(identity) {
                let twice = format!("{}:{}", taint.key, String::from(taint.effect));
                return Err(field.fail(Problem::Duplicate(twice)));
            }
            node.taints.push(taint);
            Ok(())
        })?;
    }
    let mut allocatable = None;
    if let Some(status) = root.get("status")? {
        node.capacity = node_amounts(&status, "capacity")?.unwrap_or_default();
        allocatable = node_amounts(&status, "allocatable")?;
        status.each("images", |field| {
            let size = field.get("sizeBytes")?.map_or(Ok(0), |size| size.integer())?;
            node.images.push(Image { names: field.texts("names")?, size });
            Ok(())
        })?;
    }
    node.allocatable = match allocatable {
        Some(allocatable) => allocatable,
        // The API server copies the capacity of a node that is created without it.
        None if root.strict() => node.capacity.clone(),
        None => Amounts::new(),
    };
    koordinator::reserve(root, &mut node.allocatable)?;
    if !node.allocatable.lists(PODS) {
        // To kube-scheduler a missing count of pods is none at all.
        node.allocatable.set(PODS, 0);
    }
    Ok(node)
}

pub(super) fn taint(field: &Field<'_>) -> Fault<Taint> {
    let taint = Taint {
        key: field.text_of("key")?,
        value: field.text_of("value")?,
        effect: Effect::from(field.text_of("effect")?),
    };
    if field.strict() {
        if taint.key.is_empty() {
            return Err(field.fail_at("key", Problem::Required));
        }
        let invalid = |name, text: String| field.fail_at(name, Problem::Invalid(text));
        check_key(&taint.key).map_err(|error| invalid("key", format!("{error}")))?;
        check_value(&taint.value).map_err(|error| invalid("value", format!("{error}")))?;
        if let Effect::Unknown(effect) = &taint.effect {
            let at = field.need("effect")?;
            return Err(unsupported(&at, effect, &EFFECTS));
        }
    }
    Ok(taint)
}

/// The labels of an object.
pub(super) fn labels(root: &Field<'_>) -> Fault<Labels> {
    root.get("metadata")?.map_or(Ok(Labels::new()), |metadata| metadata.labels("labels"))
}
