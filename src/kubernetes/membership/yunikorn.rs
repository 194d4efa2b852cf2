//! `YuniKorn`'s applications: gangs whose task groups one of their pods describes.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::json;
use crate::kubernetes::value::Value;

const PREFIX: &str = "yunikorn.apache.org";
/// How long placeholders wait for the rest, unless it is said.
const TIMEOUT: u64 = 900;

/// An application as one of its pods describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct Application {
    pub(in crate::kubernetes) name: String,
    /// The minimum of each task group.
    pub(in crate::kubernetes) groups: BTreeMap<String, u32>,
    pub(in crate::kubernetes) timeout: Duration,
}

/// The application that a pod is of, by the first key that says so; one for the whole namespace if
/// none does.
pub(super) fn application(metadata: &Field<'_>) -> Fault<String> {
    let (labels, annotations) = (metadata.get("labels")?, metadata.get("annotations")?);
    let key = format!("{PREFIX}/app-id");
    let of = |from: &Option<Field<'_>>, key: &str| match from {
        Some(from) => from.name_of(key),
        None => Ok(None),
    };
    let stated = [
        of(&labels, &key)?,
        of(&annotations, &key)?,
        of(&labels, "applicationId")?,
        of(&labels, "spark-app-selector")?,
    ];
    let stated = stated.into_iter().flatten().next();
    let namespace = metadata.name_of("namespace")?.unwrap_or_else(|| "default".to_string());
    Ok(stated.unwrap_or_else(|| format!("yunikorn-{namespace}-autogen")))
}

/// The application that a pod describes: placeholders of all task groups are placed before any of
/// its pods runs, so it is a gang of the minima of all.
pub(in crate::kubernetes) fn described(metadata: &Field<'_>) -> Fault<Option<Application>> {
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    let key = format!("{PREFIX}/task-groups");
    let Some(field) = annotations.get(&key)? else { return Ok(None) };
    let wrong = || field.invalid("is no JSON list of {name, minMember, minResource}");
    let Some(Value::List(entries)) = json::value(field.text()?) else { return Err(wrong()) };
    let mut groups = BTreeMap::new();
    for entry in &entries {
        let name = entry.entry("name").and_then(Value::text).filter(|name| !name.is_empty());
        let min = entry.entry("minMember").and_then(Value::integer);
        let min = min.and_then(|min| u32::try_from(min).ok()).filter(|min| *min > 0);
        let (Some(name), Some(min)) = (name, min) else { return Err(wrong()) };
        groups.insert(name.to_string(), min);
    }
    let parameters = annotations.text_of(&format!("{PREFIX}/schedulingPolicyParameters"))?;
    let seconds = parameters
        .split_whitespace()
        .find_map(|parameter| parameter.strip_prefix("placeholderTimeoutInSeconds=")?.parse().ok());
    let timeout = Duration::from_secs(seconds.unwrap_or(TIMEOUT));
    Ok(Some(Application { name: application(metadata)?, groups, timeout }))
}
