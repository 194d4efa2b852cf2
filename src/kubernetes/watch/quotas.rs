//! Quotas of namespaces: they keep pods from being made, so they explain members that are missing.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::value::Value;
use crate::model::PodShape;
use crate::model::resources::{CPU, MEMORY};

const UNIT: i128 = 1_000_000_000;

/// Bounds of a `ResourceQuota`, and the amounts in use.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// By resource: the bound and the amount in use, in billionths and as written.
    amounts: BTreeMap<String, [(i128, String); 2]>,
}

impl Quota {
    /// Reads the status of a quota. One with scopes holds for some pods only, and says nothing.
    pub(super) fn read(root: &Field<'_>) -> Fault<Quota> {
        let mut quota = Quota::default();
        if let Some(spec) = root.get("spec")? {
            let is_scoped = ["scopes", "scopeSelector"];
            if is_scoped.iter().any(|name| matches!(spec.get(name), Ok(Some(_)))) {
                return Ok(quota);
            }
        }
        let Some(status) = root.get("status")? else { return Ok(quota) };
        let mut used = BTreeMap::new();
        status.entries("used", |name, field| {
            used.insert(name.to_string(), amount(&field)?);
            Ok(())
        })?;
        status.entries("hard", |name, field| {
            let in_use = used.remove(name).unwrap_or((0, "0".to_string()));
            quota.amounts.insert(name.to_string(), [amount(&field)?, in_use]);
            Ok(())
        })?;
        Ok(quota)
    }

    /// The resources of which not as much is left as a pod requests.
    pub(super) fn lacks(&self, shape: &PodShape) -> impl Iterator<Item = String> {
        self.amounts.iter().filter_map(|(name, [(hard, bound), (used, in_use)])| {
            let needed = needed(name, shape)?;
            let is_short = needed > 0 && used.saturating_add(needed) > *hard;
            is_short.then(|| format!("{in_use} of {bound} {name} are in use"))
        })
    }
}

fn amount(field: &Field<'_>) -> Fault<(i128, String)> {
    let text = match field.value {
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        _ => String::new(),
    };
    Ok((field.quantity()?.nanos(), text))
}

/// The amount of a resource, as quotas name it, that a pod takes, in billionths. Limits are not known, so a
/// bound on them is short only when nothing is left.
fn needed(name: &str, shape: &PodShape) -> Option<i128> {
    let requested = |name: &str| {
        let unit = if name == CPU { UNIT / 1_000 } else { UNIT };
        i128::from(shape.requests.of(name)).saturating_mul(unit)
    };
    match name {
        "pods" | "count/pods" => Some(UNIT),
        CPU | MEMORY => Some(requested(name)),
        _ if name.starts_with("limits.") => Some(1),
        _ => name.strip_prefix("requests.").map(requested),
    }
}
