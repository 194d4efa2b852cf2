//! Quotas that a tree refuses, what is filled in, and the division of one level.

use phalanx::Quantity;
use phalanx::model::Amounts;
use phalanx::quota::{ElasticQuota, ElasticQuotas, QuotaTopology, check_amounts};
use serde_json::Value;

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::objects;

/// The prefix of labels and annotations of quotas.
const PREFIX: &str = "quota.scheduling.koordinator.sh";

/// A quota as the test's builder states it.
struct Built {
    quota: ElasticQuota,
    used: Amounts,
    annotations: Vec<(String, String)>,
}

/// Amounts of a builder: CPU in cores, memory in bytes.
fn list(fields: &mut Fields<'_>, name: &'static str) -> Result<Amounts, String> {
    let mut amounts = Amounts::new();
    let Some(value) = fields.maybe(name) else { return Ok(amounts) };
    let mut list = Fields::new(name, value)?;
    list.pass(&["kind"]);
    if let Some(cpu) = list.integer("c_p_u")? {
        amounts.set("cpu", cpu * 1_000);
    }
    if let Some(memory) = list.integer("mem")? {
        amounts.set("memory", memory);
    }
    list.end()?;
    Ok(amounts)
}

fn built(value: &Value) -> Result<Built, String> {
    let mut fields = Fields::new("quota", value)?;
    let kind = fields.text("kind")?;
    let name = kind.strip_prefix("Quota").ok_or_else(|| format!("{kind:?}: is no quota"))?;
    let mut quota = ElasticQuota::new(name);
    let parent = fields.text_or_empty("parent_name")?;
    if !parent.is_empty() {
        quota.parent = parent.into();
    }
    quota.is_parent = fields.flag("is_parent")?;
    quota.tree_id = fields.text_or_empty("tree_i_d")?.into();
    quota.is_tree_root = fields.flag("is_root")?;
    quota.force_update = fields.flag("allow_force_update")?;
    quota.min = list(&mut fields, "min")?;
    quota.max = list(&mut fields, "max")?;
    quota.shared_weight = list(&mut fields, "shared_weight")?;
    quota.guaranteed = list(&mut fields, "guaranteed")?;
    let used = list(&mut fields, "used")?;
    let text = |(key, value): (&str, &Value)| {
        let text = value.as_str().ok_or_else(|| format!("annotation {key}: is no text"))?;
        Ok((key.to_string(), text.to_string()))
    };
    let annotations = fields.entries("annotations")?.into_iter().map(text);
    let annotations = annotations.collect::<Result<Vec<_>, String>>()?;
    fields.end()?;
    Ok(Built { quota, used, annotations })
}

/// A topology with some quotas of a case; those that are null are left out.
fn topology<const N: usize>(
    case: &mut Case<'_>,
    names: [&'static str; N],
) -> Result<QuotaTopology, String> {
    let mut topology = QuotaTopology::default();
    for name in names {
        if let Some(value) = case.input.maybe(name) {
            topology.insert(built(value)?.quota);
        }
    }
    if case.input.flag("eraseSub")?
        && let Some(value) = case.input.maybe("subQuota")
    {
        let sub = built(value)?.quota;
        topology.remove(&sub.name);
        topology.expect(&sub.parent, &sub.name);
    }
    Ok(topology)
}

/// Compares whether there is an error.
fn verdict<E: std::fmt::Display>(case: &mut Case<'_>, result: &Result<(), E>) -> Result<(), Stop> {
    let expected = if let Some(flag) = case.expect.maybe("expectErr") {
        flag.as_bool().ok_or("expectErr: is no boolean")?
    } else {
        case.expect.maybe("err").is_some()
    };
    let found = result.as_ref().map_err(ToString::to_string);
    same(format!("error {found:?}"), &expected, &result.is_err())
}

pub(super) fn amounts(case: &mut Case<'_>) -> Result<(), Stop> {
    let built = built(case.input.take("quota")?)?;
    let mut quota = built.quota;
    let (mut strict, mut broken) = (Vec::new(), None);
    for (key, text) in &built.annotations {
        let name = key.strip_prefix(PREFIX).unwrap_or(key);
        let read = match name {
            "/max-strict-check-resource-keys" => {
                serde_json::from_str(text).map(|keys| strict = keys)
            }
            "/shared-weight" => serde_json::from_str::<Value>(text)
                .map(|weights| objects::quantities(&weights).map(|own| quota.shared_weight = own))
                .map(|_| ()),
            _ => return Err(format!("annotation {key:?}: is not known").into()),
        };
        broken = broken.or(read.err());
    }
    let result = match broken {
        Some(error) => Err(error.to_string()),
        None => check_amounts(&quota, &built.used, &strict).map_err(|error| error.to_string()),
    };
    verdict(case, &result)
}

pub(super) fn resources(case: &mut Case<'_>) -> Result<(), Stop> {
    let mut topology = topology(case, ["parQuota", "subQuota"])?;
    topology.subset_of_resources = case.input.flag("enableResourceTypeUpdate")?;
    let quota = built(case.input.take("quota")?)?.quota;
    verdict(case, &topology.check_resources(&quota))
}

pub(super) fn min_sum(case: &mut Case<'_>) -> Result<(), Stop> {
    let topology = topology(case, ["parentQuota", "subQuota"])?;
    let quota = built(case.input.take("quota")?)?.quota;
    verdict(case, &topology.check_min_sum(&quota))
}

pub(super) fn tree_id(case: &mut Case<'_>) -> Result<(), Stop> {
    let topology = topology(case, ["parentQuota", "childQuota"])?;
    let quota = built(case.input.take("quota")?)?.quota;
    let old = case.input.maybe("oldQuota").map(built).transpose()?.map(|built| built.quota);
    verdict(case, &topology.check_tree_id(old.as_ref(), &quota))
}

pub(super) fn guarantee(case: &mut Case<'_>) -> Result<(), Stop> {
    let topology = topology(case, ["parentQuota", "siblingQuota"])?;
    let quota = built(case.input.take("quota")?)?.quota;
    verdict(case, &topology.check_guaranteed(&quota))
}

/// Rows build on the rows before: the parent that a quota names is there. The tree of `temp2` is stated
/// by the row before, which a case does not hold: it is the one that its child is to have.
pub(super) fn defaults(case: &mut Case<'_>) -> Result<(), Stop> {
    let mut quota = built(case.input.take("initOne")?)?.quota;
    let mut topology = QuotaTopology::default();
    let mut parent = ElasticQuota::new(quota.parent.clone());
    parent.is_parent = true;
    if parent.name == "temp2" {
        parent.tree_id = match case.expect.text_or_empty("expectedLabelQuotaTreeID")? {
            tree @ ("" | "tree-1") => tree.into(),
            other => return Err(format!("{other:?}: is the tree of no row").into()),
        };
    }
    topology.insert(parent);
    topology.fill(&mut quota).map_err(|error| error.to_string())?;
    let parent = case.expect.text_or_empty("expectLabelQuotaParent")?;
    same("parent", &parent, &quota.parent.as_str())?;
    let tree = case.expect.text_or_empty("expectedLabelQuotaTreeID")?;
    same("tree", &tree, &quota.tree_id.as_str())?;
    let text = case.expect.text("expectAnnotationSharedWeight")?;
    let weights: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    same("weights", &objects::quantities(&weights)?, &quota.shared_weight)
}

pub(super) fn runtimes(case: &mut Case<'_>) -> Result<(), Stop> {
    let total = objects::quantities(case.input.take("totalResource")?)?;
    let mut quotas = ElasticQuotas::new();
    quotas.add_total(&total);
    let one = |resource: &str, amount: i64| {
        let mut amounts = Amounts::new();
        amounts.set(resource, amount);
        amounts
    };
    let resources: Vec<String> = total.iter().map(|(resource, _)| resource.to_string()).collect();
    let [resource] = &resources[..] else {
        return Err("totalResource: is not of one resource".into());
    };
    for node in case.input.list("nodes")? {
        let mut fields = Fields::new("node", node)?;
        let mut quota = ElasticQuota::new(fields.text("groupName")?);
        let mut amount = |name| fields.integer(name).map(Option::unwrap_or_default);
        quota.min = one(resource, amount("min")?);
        quota.max = one(resource, i64::MAX);
        quota.guaranteed = one(resource, amount("guarantee")?);
        quota.shared_weight = one(resource, amount("sharedWeight")?);
        // A weight of zero is meant, and stands for none only where all are zero.
        quota.shared_weight.set("another", 1);
        let request = amount("request")?;
        quota.allow_lent = fields.flag("allowLentResource")?;
        fields.end()?;
        let name = quota.name.clone();
        quotas.put(quota);
        quotas.add_request(&name, &one(resource, request), &Amounts::new());
    }
    for (name, value) in case.expect.entries("expectedRuntimeMp")? {
        let mut fields = Fields::new(name, value)?;
        let expected = fields.integer(resource)?;
        fields.end()?;
        same(name, &expected, &Some(quotas.refresh(name).of(resource)))?;
    }
    Ok(())
}

/// An amount in the units of this crate.
pub(super) fn amount(resource: &str, quantity: Quantity) -> Result<i64, String> {
    if resource == "cpu" {
        return quantity.milli_ceil().ok_or_else(|| format!("{resource}: is out of range"));
    }
    Ok(quantity.ceil())
}
