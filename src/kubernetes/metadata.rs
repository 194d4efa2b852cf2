//! Metadata of every object: names, namespaces, labels.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::field::{Fault, Field, Object};
use super::mode::Mode;
use super::value::Value;
use crate::base::clip::clip;
use crate::model::selector::is_dns_subdomain;
use crate::model::{ModelError, Problem};

/// The name by which errors mention an object, from whatever it says of itself.
pub(super) fn object(kind: &str, namespaced: bool, value: &Value, mode: Mode) -> Object {
    let metadata = value.entry("metadata");
    let text = |name| metadata.and_then(|m| m.entry(name)).and_then(Value::text);
    let name = text("name").or_else(|| text("generateName")).unwrap_or("");
    let mut full = kind.to_lowercase();
    if namespaced {
        full = format!("{full} {}/{name}", namespace_or_default(text("namespace")));
    } else if !name.is_empty() {
        full = format!("{full} {name}");
    }
    Object { name: full, mode }
}

fn namespace_or_default(namespace: Option<&str>) -> &str {
    namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// The name of an object.
pub(super) fn name(root: &Field<'_>) -> Fault<String> {
    let metadata = root.need("metadata")?;
    let field = metadata.need("name")?;
    let name = field.text()?;
    if name.is_empty() {
        return Err(field.fail(Problem::Required));
    }
    if root.strict() {
        check_subdomain(&field, name)?;
    }
    Ok(String::from(name))
}

/// The longest part of a `generateName` that the API server takes.
const GENERATED_BASE: usize = 58;

/// Names an object that has a `generateName` alone. The API server draws five characters at random;
/// here they count the objects of that `generateName`, so that a reading can be repeated.
pub(super) fn generate_name(value: &mut Value, made: &mut BTreeMap<String, u32>) {
    let Value::Map(fields) = value else { return };
    let metadata = fields.iter_mut().rev().find(|(field, _)| field == "metadata");
    let Some((_, metadata)) = metadata else { return };
    let stated = metadata.entry("generateName").and_then(Value::text).map(ToString::to_string);
    let Value::Map(entries) = metadata else { return };
    let Some(stated) = stated.filter(|stated| !stated.is_empty()) else { return };
    if entries.iter().any(|(field, _)| field == "name") {
        return;
    }
    let base: String = stated.chars().take(GENERATED_BASE).collect();
    let count = made.entry(stated).or_default();
    entries.push(("name".into(), Value::Text(format!("{base}{count:05}"))));
    *count = count.saturating_add(1);
}

/// The namespace of an object, `default` where it says none.
pub(super) fn namespace(root: &Field<'_>) -> Fault<String> {
    let Some(metadata) = root.get("metadata")? else { return Ok("default".into()) };
    let Some(field) = metadata.get("namespace")? else { return Ok("default".into()) };
    let namespace = field.text()?;
    if root.strict() && !namespace.is_empty() {
        check_label_name(&field, namespace)?;
    }
    Ok(String::from(namespace_or_default(Some(namespace))))
}

/// Kind and name of a controller.
pub(super) type Controller = (String, String);

/// Kind and name of the controller of an object.
pub(super) fn controller(metadata: &Field<'_>) -> Fault<Option<Controller>> {
    of_controller(metadata, |owner| Ok((owner.text_of("kind")?, owner.text_of("name")?)))
}

/// The fields of the reference to the controller of an object.
pub(super) fn of_controller<T>(
    metadata: &Field<'_>,
    read: impl Fn(&Field<'_>) -> Fault<T>,
) -> Fault<Option<T>> {
    let mut found = None;
    metadata.each("ownerReferences", |owner| {
        if owner.flag("controller")? {
            found = Some(read(&owner)?);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Refuses what is no DNS-1123 subdomain, the form of most names.
pub(super) fn check_subdomain(field: &Field<'_>, name: &str) -> Fault<()> {
    if is_dns_subdomain(name) {
        return Ok(());
    }
    let rule = "lower case letters, digits, '-' and '.', beginning and ending alphanumeric, at \
                most 253 characters";
    Err(field.invalid(format!("{:?} is not a DNS-1123 subdomain ({rule})", clip(name))))
}

/// Refuses what is no DNS-1123 label, the form of namespaces and containers.
pub(super) fn check_label_name(field: &Field<'_>, name: &str) -> Fault<()> {
    if name.len() <= 63 && !name.contains('.') && is_dns_subdomain(name) {
        return Ok(());
    }
    let rule = "lower case letters, digits and '-', beginning and ending alphanumeric, at most \
                63 characters";
    Err(field.invalid(format!("{:?} is not a DNS-1123 label ({rule})", clip(name))))
}

/// The error for a value that is none of those allowed.
pub(super) fn unsupported(field: &Field<'_>, value: &str, allowed: &[&str]) -> ModelError {
    field.invalid(format!("{:?} is not one of {}", clip(value), allowed.join(", ")))
}
