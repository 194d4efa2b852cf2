//! Amounts as the cases state them.

use phalanx::quota::volcano::Resources;
use serde_json::Value;

use super::super::tenants::fields::Fields;

/// A number.
pub(super) fn number(title: &str, value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("{title}: is no number: {value}"))
}

/// Amounts with CPU and memory, and others under `scalars`, in thousandths.
pub(super) fn of_table<'a>(title: &'a str, value: &'a Value) -> Result<Resources, String> {
    let mut fields = Fields::new(title, value)?;
    let mut amount = |name: &'a str| match fields.maybe(name) {
        None => Ok(0.0),
        Some(value) => number(title, value),
    };
    let mut resources = Resources::new(amount("cpu_milli")?, amount("memory_bytes")?);
    for (name, value) in fields.entries("scalars")? {
        resources.scalars.insert(name.into(), number(title, value)?);
    }
    fields.end()?;
    Ok(resources)
}

/// Amounts of a flat map: CPU in thousandths, memory in bytes, others in units, which Volcano counts
/// in thousandths but for `pods`.
pub(super) fn of_session(title: &str, value: &Value) -> Result<Resources, String> {
    let object = value.as_object().ok_or_else(|| format!("{title}: is no object"))?;
    let mut resources = Resources::default();
    for (name, value) in object {
        let amount = number(title, value)?;
        match name.as_str() {
            "cpu_milli" => resources.milli_cpu = amount,
            "memory_bytes" => resources.memory = amount,
            "pods" => resources.add_scalar(name, amount),
            _ => resources.add_scalar(name, amount * 1000.0),
        }
    }
    Ok(resources)
}
