//! Fields of the JSON that cases are written in.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A field that must be there; it is taken out.
pub(super) fn take(of: &mut Value, name: &str) -> Result<Value, String> {
    of.get_mut(name).map(Value::take).ok_or_else(|| format!("{name}: is required"))
}

/// A text that must be there.
pub(super) fn text<'a>(of: &'a Value, name: &str) -> Result<&'a str, String> {
    of.get(name).and_then(Value::as_str).ok_or_else(|| format!("{name}: is no text"))
}

/// A list that must be there.
pub(super) fn list<'a>(of: &'a Value, name: &str) -> Result<&'a [Value], String> {
    let values = of.get(name).and_then(Value::as_array);
    values.map(Vec::as_slice).ok_or_else(|| format!("{name}: is no list"))
}

/// The entries of an object; none if it is absent or null.
fn entries<'a>(
    of: &'a Value,
    name: &str,
) -> Result<impl Iterator<Item = (&'a str, &'a Value)>, String> {
    let object = match of.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::Object(object)) => Some(object),
        Some(_) => return Err(format!("{name}: is no object")),
    };
    Ok(object.into_iter().flatten().map(|(key, value)| (key.as_str(), value)))
}

/// Texts by text.
pub(super) fn texts<'a>(of: &'a Value, name: &str) -> Result<BTreeMap<&'a str, &'a str>, String> {
    let pair = |(key, value): (&'a str, &'a Value)| {
        Ok((key, value.as_str().ok_or_else(|| format!("{name}.{key}: is no text"))?))
    };
    entries(of, name)?.map(pair).collect()
}

/// Integers by text.
pub(super) fn integers<'a>(of: &'a Value, name: &str) -> Result<BTreeMap<&'a str, i64>, String> {
    let pair = |(key, value): (&'a str, &'a Value)| {
        Ok((key, value.as_i64().ok_or_else(|| format!("{name}.{key}: is no integer"))?))
    };
    entries(of, name)?.map(pair).collect()
}

/// Integers by text, by text.
pub(super) fn tables<'a>(
    of: &'a Value,
    name: &str,
) -> Result<BTreeMap<&'a str, BTreeMap<&'a str, i64>>, String> {
    let Some(inner) = of.get(name) else { return Ok(BTreeMap::new()) };
    let keys: Vec<&str> = entries(of, name)?.map(|(key, _)| key).collect();
    keys.into_iter().map(|key| Ok((key, integers(inner, key)?))).collect()
}

/// A set of texts; empty if it is absent or null.
pub(super) fn names<'a>(of: &'a Value, name: &str) -> Result<BTreeSet<&'a str>, String> {
    if of.get(name).is_none_or(Value::is_null) {
        return Ok(BTreeSet::new());
    }
    let text = |value: &'a Value| value.as_str().ok_or_else(|| format!("{name}: holds no texts"));
    list(of, name)?.iter().map(text).collect()
}
