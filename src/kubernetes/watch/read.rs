//! Parts of objects that only watches read.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::{account, affinity, metadata};
use crate::model::{Effect, Node, Taint};
use crate::preempt::DisruptionBudget;

/// The fields of an object that are not in force, with the reasons, if there are any.
pub(super) fn refused(root: &Field<'_>) -> Option<String> {
    let refused = account::refused_of(root.value, root.object.mode);
    (!refused.is_empty()).then(|| format!("{}: {}", root.object.name, refused.join("; ")))
}

/// A disruption budget, with what its controller last allowed: none before it has looked.
pub(super) fn budget(root: &Field<'_>) -> Fault<DisruptionBudget> {
    let spec = root.get("spec")?;
    let selector = spec.map_or(Ok(None), |spec| affinity::label_selector(&spec, "selector"))?;
    let mut budget = DisruptionBudget::new(metadata::name(root)?, selector.unwrap_or_default(), 0)
        .in_namespace(metadata::namespace(root)?);
    if let Some(status) = root.get("status")? {
        let allowed = status.get("disruptionsAllowed")?;
        budget.disruptions_allowed = allowed.map_or(Ok(0), |allowed| allowed.integer())?;
        status.entries("disruptedPods", |pod, _| {
            budget.disrupted_pods.insert(pod.to_owned());
            Ok(())
        })?;
    }
    Ok(budget)
}

/// The status of a condition, by type.
pub(super) fn condition(root: &Field<'_>, name: &str) -> Fault<Option<String>> {
    let mut found = None;
    let Some(status) = root.get("status")? else { return Ok(None) };
    status.each("conditions", |condition| {
        if condition.text_of("type")? == name {
            found = Some(condition.text_of("status")?);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Taints a node that is not ready, as the admission and the controllers of a cluster do.
pub(super) fn not_ready(root: &Field<'_>, node: &mut Node) -> Fault<()> {
    let key = match condition(root, "Ready")?.as_deref() {
        None | Some("True") => return Ok(()),
        Some("False") => "node.kubernetes.io/not-ready",
        Some(_) => "node.kubernetes.io/unreachable",
    };
    let effect = Effect::NoSchedule;
    if !node.taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
        node.taints.push(Taint { key: key.to_owned(), value: String::new(), effect });
    }
    Ok(())
}
