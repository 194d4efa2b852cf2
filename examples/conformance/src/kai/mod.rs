//! Cases with KAI-Scheduler's answers.

mod functions;
mod read;
mod sessions;

use serde_json::Value;

use super::tenants::fields::Fields;
use super::tenants::{Stop, Verdict};

/// Whether a line is such a case.
pub(super) fn is_case(case: &Value) -> bool {
    case.get("family").is_some() && case.get("source").is_some() && case.get("input").is_some()
}

/// Name, category and verdict of a case.
///
/// # Errors
/// The case is of no kind that is known, or has a field that is not.
pub(super) fn run(case: &Value) -> Result<(String, String, Verdict), String> {
    let mut fields = Fields::new("case", case)?;
    let (name, family) = (fields.text("name")?, fields.text("family")?);
    fields.text("source")?;
    let tags = fields.texts("tags")?;
    let category = category(family, &tags);
    let rule = [("mig", "kai-mig"), ("dra", "kai-resource-claims"), ("contested", "kai-contested")];
    if let Some((_, rule)) = rule.into_iter().find(|(tag, _)| tags.contains(tag)) {
        return Ok((name.into(), category, Verdict::Skipped(rule)));
    }
    let compared = if let Some(function) = family.strip_prefix("function/") {
        functions::compare(function, &mut fields)
    } else if family.starts_with("scenario/") || family.starts_with("generated/") {
        sessions::compare(&mut fields)
    } else {
        return Err(format!("{name}: family: {family:?} is not known"));
    };
    let verdict = match compared {
        Ok(()) => Verdict::Agrees,
        Err(Stop::Verdict(verdict)) => verdict,
        Err(Stop::Bad(error)) => return Err(format!("{name}: {error}")),
    };
    if matches!(verdict, Verdict::Agrees) {
        fields.end().map_err(|error| format!("{name}: {error}"))?;
    }
    Ok((name.into(), category, verdict))
}

/// The category of a case: whole devices, or the kinds of devices in it.
fn category(family: &str, tags: &[&str]) -> String {
    let parts = [
        ("fraction", "fractions"),
        ("gpu-memory", "memory shares"),
        ("subgroups", "sub-groups"),
        ("topology", "topology"),
        ("pod-affinity", "pod affinity"),
    ];
    let kind = family.split('/').next().unwrap_or_default();
    let part = parts.into_iter().find(|(tag, _)| tags.contains(tag));
    match (kind, part) {
        ("function", _) => format!("kai {family}"),
        (_, Some((_, part))) => format!("kai {part}"),
        (kind, None) => format!("kai {kind}"),
    }
}
