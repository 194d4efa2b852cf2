//! Operations on a tree of elastic quotas, and what they leave.

use phalanx::model::Amounts;
use phalanx::quota::{ElasticQuota, ElasticQuotas};
use serde_json::Value;

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};

/// Amounts of a script: CPU in thousandths, memory in bytes, all else in units.
pub(super) fn amounts(title: &str, value: Option<&Value>) -> Result<Amounts, String> {
    let mut amounts = Amounts::new();
    let Some(value) = value else { return Ok(amounts) };
    let object = value.as_object().ok_or_else(|| format!("{title}: is no object"))?;
    for (name, amount) in object {
        let resource = match name.as_str() {
            "cpu_milli" => "cpu",
            "memory_bytes" => "memory",
            name => name,
        };
        let amount = amount.as_i64().ok_or_else(|| format!("{title}.{name}: is no integer"))?;
        amounts.set(resource, amount);
    }
    Ok(amounts)
}

/// All amounts but zeros.
pub(super) fn listed(amounts: &Amounts) -> Vec<(String, i64)> {
    let stated = amounts.iter().filter(|(_, amount)| *amount != 0);
    stated.map(|(resource, amount)| (resource.to_string(), amount)).collect()
}

/// Compares amounts with what an operation expects, all or some of them; whether it expects any.
fn compare(step: &str, actual: &Amounts, op: &mut Fields<'_>) -> Result<bool, Stop> {
    if let Some(expected) = op.maybe("expect") {
        same(step, &listed(&amounts("expect", Some(expected))?), &listed(actual))?;
        return Ok(true);
    }
    let Some(expected) = op.maybe("expect_partial") else { return Ok(false) };
    for (resource, amount) in amounts("expect_partial", Some(expected))?.iter() {
        same(format!("{step} {resource}"), &amount, &actual.of(resource))?;
    }
    Ok(true)
}

fn quota(value: &Value) -> Result<ElasticQuota, String> {
    let mut fields = Fields::new("quota", value)?;
    let mut quota = ElasticQuota::new(fields.text("name")?);
    if let Some(parent) = fields.maybe("parent") {
        quota.parent = parent.as_str().ok_or("parent: is no text")?.into();
    }
    (quota.is_parent, quota.allow_lent) = (fields.flag("is_parent")?, fields.flag("allow_lent")?);
    quota.min = amounts("min", fields.maybe("min"))?;
    quota.max = amounts("max", fields.maybe("max"))?;
    quota.shared_weight = amounts("shared_weight", fields.maybe("shared_weight"))?;
    quota.guaranteed = amounts("guaranteed", fields.maybe("guaranteed"))?;
    fields.end()?;
    Ok(quota)
}

/// A fact about a quota that is no amount.
fn fact(quotas: &ElasticQuotas, name: &str, field: &str) -> Option<Value> {
    let quota = quotas.quota(name);
    Some(match field {
        "name" => quota.map(|quota| quota.name.clone()).into(),
        "parent" => quota.map(|quota| quota.parent.clone()).into(),
        "is_parent" => quota.map(|quota| quota.is_parent).into(),
        "allow_lent" => quota.map(|quota| quota.allow_lent).into(),
        _ => return None,
    })
}

fn amount_field(quotas: &ElasticQuotas, name: &str, field: &str) -> Result<Amounts, String> {
    let quota = quotas.quota(name);
    let sums = quotas.sums(name).cloned().unwrap_or_default();
    Ok(match field {
        "max" => quota.map(|quota| quota.max.clone()).unwrap_or_default(),
        "min" => quota.map(|quota| quota.min.clone()).unwrap_or_default(),
        "guaranteed" => quota.map(|quota| quota.guaranteed.clone()).unwrap_or_default(),
        "shared_weight" => quota.map(|quota| quota.weights().clone()).unwrap_or_default(),
        "scaled_min" => sums.scaled_min,
        "request" => sums.request,
        "child_request" => sums.child_request,
        "limited_request" => quotas.limited_request(name),
        "used" => sums.used,
        "runtime" => sums.runtime,
        "non_preemptible_request" => sums.non_preemptible_request,
        "non_preemptible_used" => sums.non_preemptible_used,
        "self_request" => sums.self_request,
        "self_used" => sums.self_used,
        "self_non_preemptible_request" => sums.self_non_preemptible_request,
        "self_non_preemptible_used" => sums.self_non_preemptible_used,
        _ => return Err(format!("field {field:?}: is not known")),
    })
}

pub(super) fn run(case: &mut Case<'_>) -> Result<(), Stop> {
    let mut quotas = ElasticQuotas::new();
    let mut checks = 0;
    for (at, value) in case.input.list("script")?.iter().enumerate() {
        let mut op = Fields::new("op", value)?;
        let kind = op.text("op")?;
        let step = format!("{at} {kind}");
        match kind {
            "add_total" => quotas.add_total(&amounts("delta", op.maybe("delta"))?),
            "scale_min" => quotas.set_scale_min(op.flag("enabled")?),
            "put_quota" => quotas.put(quota(op.take("quota")?)?),
            "delete_quota" => drop(quotas.remove(op.text("quota")?)),
            "add_request" | "add_used" => {
                let name = op.text("quota")?;
                let delta = amounts("delta", op.maybe("delta"))?;
                let held = amounts("delta", op.maybe("non_preemptible_delta"))?;
                if kind == "add_used" {
                    quotas.add_used(name, &delta, &held);
                } else {
                    quotas.add_request(name, &delta, &held);
                }
            }
            "refresh" => {
                let name = op.text("quota")?;
                let runtime = quotas.refresh(name);
                checks += i64::from(compare(&format!("{step} {name}"), &runtime, &mut op)?);
            }
            "check" => {
                let (name, field) = (op.text("quota")?, op.text("field")?);
                let step = format!("{step} {name} {field}");
                checks += 1;
                if let Some(actual) = fact(&quotas, name, field) {
                    same(step, op.take("expect")?, &actual)?;
                } else if !compare(&step, &amount_field(&quotas, name, field)?, &mut op)? {
                    return Err(format!("{step}: expects nothing").into());
                }
            }
            "check_equal" => {
                let runtime = quotas.refresh(op.text("runtime_of")?);
                let (name, field) = (op.text("quota")?, op.text("field")?);
                let own = amount_field(&quotas, name, field)?;
                same(format!("{step} {name} {field}"), &listed(&own), &listed(&runtime))?;
                checks += 1;
            }
            _ => return Err(format!("{step}: is not known").into()),
        }
        op.end()?;
    }
    let expected = case.expect.integer("checks_in_script")?;
    same("checks", &expected.unwrap_or(checks), &checks)
}
