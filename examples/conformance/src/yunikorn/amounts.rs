//! Resources as the cases state them.

use std::collections::BTreeMap;

use phalanx::quota::yunikorn::Resource;
use serde_json::Value;

use super::super::tenants::fields::Fields;

/// A field of a case: amounts by type, or `None` if it is absent.
pub(super) fn maybe<'a>(
    fields: &mut Fields<'a>,
    name: &'a str,
) -> Result<Option<Resource>, String> {
    fields.maybe(name).map(|value| of(name, value)).transpose()
}

/// Amounts by type.
pub(super) fn of(title: &str, value: &Value) -> Result<Resource, String> {
    let object = value.as_object().ok_or_else(|| format!("{title}: is no object"))?;
    let amount = |(name, value): (&String, &Value)| {
        let amount = value.as_i64().ok_or_else(|| format!("{title}.{name}: is no integer"))?;
        Ok((name.clone(), amount))
    };
    object.iter().map(amount).collect()
}

/// Quantities by type.
pub(super) fn quantities(title: &str, value: &Value) -> Result<BTreeMap<String, String>, String> {
    let object = value.as_object().ok_or_else(|| format!("{title}: is no object"))?;
    let quantity = |(name, value): (&String, &Value)| {
        let text = value.as_str().ok_or_else(|| format!("{title}.{name}: is no text"))?;
        Ok((name.clone(), text.to_string()))
    };
    object.iter().map(quantity).collect()
}

/// A priority; 0 if it is absent.
pub(super) fn priority<'a>(fields: &mut Fields<'a>, name: &'a str) -> Result<i32, String> {
    let priority = fields.integer(name)?.unwrap_or(0);
    i32::try_from(priority).map_err(|_| format!("{name}: is out of range"))
}
