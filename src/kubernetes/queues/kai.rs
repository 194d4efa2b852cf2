//! KAI-Scheduler's `Queue` and `PodGroup`.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::duration::go_duration;
use super::super::field::Note;
use super::super::field::{Fault, Field};
use super::super::metadata;
use super::unread::unread;
use crate::model::resources::{CPU, MEMORY};
use crate::model::{PodGroup, Problem};
use crate::quota::kai::QueueMinRuntime;
use crate::quota::{UNLIMITED, Weight};

/// The group of KAI's kinds.
pub(super) const KAI: &str = "scheduling.run.ai";
/// The resource that devices are counted under.
const GPU: &str = "nvidia.com/gpu";
/// Groups in groups.
const MOST_DEEP: usize = 16;

/// One resource of a [`KaiQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KaiQuota {
    /// The deserved amount.
    pub quota: i64,
    /// The hard limit. A manifest that states none has 0, as in KAI.
    pub limit: i64,
    /// The weight in the surplus.
    pub over_quota_weight: Weight,
}

/// A queue of KAI, as its manifest states it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KaiQueue {
    /// The name.
    pub name: String,
    /// The queue above.
    pub parent: Option<String>,
    /// The priority; 100 unless stated.
    pub priority: i32,
    /// By resource: milli-cores, bytes, and thousandths of devices; [`UNLIMITED`] for −1.
    pub resources: BTreeMap<String, KaiQuota>,
    /// How long work runs before it may be taken back.
    pub min_runtime: QueueMinRuntime,
}

/// A pod group of KAI, without its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KaiGroup {
    pub(super) group: PodGroup,
    pub(super) class: Option<String>,
    pub(super) preemptible: Option<bool>,
}

pub(super) fn queue(root: &Field<'_>, notes: &mut Vec<Note>) -> Fault<KaiQueue> {
    let spec = root.need("spec")?;
    let read = [
        "displayName",
        "parentQueue",
        "priority",
        "resources",
        "preemptMinRuntime",
        "reclaimMinRuntime",
    ];
    unread(&spec, &read, notes);
    let mut resources = BTreeMap::new();
    if let Some(field) = spec.get("resources")? {
        unread(&field, &["gpu", "cpu", "memory"], notes);
        // GPUs, milli-cores and 10⁶ bytes.
        for (name, resource, parts) in
            [("gpu", GPU, 1_000), ("cpu", CPU, 1), ("memory", MEMORY, 1_000_000)]
        {
            resources.insert(resource.to_owned(), quota(&field, name, parts, notes)?);
        }
    }
    let duration = |name: &str| {
        let read = |field: Field<'_>| {
            go_duration(field.text()?).ok_or_else(|| field.invalid("is no duration"))
        };
        spec.get(name)?.map(read).transpose()
    };
    Ok(KaiQueue {
        name: metadata::name(root)?,
        parent: spec.name_of("parentQueue")?,
        priority: spec.get("priority")?.map_or(Ok(100), |field| field.int32())?,
        resources,
        min_runtime: QueueMinRuntime {
            preempt: duration("preemptMinRuntime")?,
            reclaim: duration("reclaimMinRuntime")?,
        },
    })
}

fn quota(of: &Field<'_>, name: &str, parts: i128, notes: &mut Vec<Note>) -> Fault<KaiQuota> {
    let mut quota = KaiQuota { quota: 0, limit: 0, over_quota_weight: Weight::ZERO };
    let Some(field) = of.get(name)? else { return Ok(quota) };
    unread(&field, &["quota", "limit", "overQuotaWeight"], notes);
    let number = |name: &str, parts: i128| -> Fault<Option<i64>> {
        let Some(field) = field.get(name)? else { return Ok(None) };
        let nanos = field.quantity()?.nanos();
        if nanos == -1_000_000_000 {
            return Ok(Some(UNLIMITED));
        }
        if nanos < 0 {
            return Err(field.invalid("is negative, and not -1"));
        }
        let amount = nanos.checked_mul(parts).ok_or_else(|| field.fail(Problem::Overflow))?;
        if amount % 1_000_000_000 != 0 {
            return Err(field.invalid("is no whole number of its parts"));
        }
        let amount = i64::try_from(amount / 1_000_000_000);
        amount.map(Some).map_err(|_| field.fail(Problem::Overflow))
    };
    quota.quota = number("quota", parts)?.unwrap_or(0);
    quota.limit = number("limit", parts)?.unwrap_or(0);
    // In billionths.
    if let Some(weight) = number("overQuotaWeight", 1_000_000_000)?
        && weight != UNLIMITED
    {
        quota.over_quota_weight = Weight::from_nanos(weight.unsigned_abs());
    }
    Ok(quota)
}

pub(super) fn group(root: &Field<'_>, notes: &mut Vec<Note>) -> Fault<KaiGroup> {
    let spec = root.need("spec")?;
    let read = [
        "minMember",
        "queue",
        "priorityClassName",
        "preemptibility",
        "topologyConstraint",
        "subGroups",
    ];
    unread(&spec, &read, notes);
    let least = |of: &Field<'_>| {
        let most = i64::from(i32::MAX);
        let least = of.get("minMember")?.map_or(Ok(1), |field| field.within(1, most))?;
        Ok(u32::try_from(least).unwrap_or(1))
    };
    let preemptible = match spec.get("preemptibility")? {
        None => None,
        Some(field) => match field.text()? {
            "" => None,
            "preemptible" => Some(true),
            "non-preemptible" => Some(false),
            other => {
                let allowed = ["preemptible", "non-preemptible"];
                return Err(metadata::unsupported(&field, other, &allowed));
            }
        },
    };
    let mut inner: Vec<(PodGroup, Option<String>)> = Vec::new();
    let mut names = BTreeSet::new();
    spec.each("subGroups", |field| {
        unread(&field, &["name", "parent", "minMember", "topologyConstraint"], notes);
        let name = field.need("name")?.text()?.to_owned();
        if !names.insert(name.clone()) {
            return Err(field.fail_at("name", Problem::Duplicate(name)));
        }
        let own = constrained(PodGroup::gang(name, least(&field)?), &field)?;
        inner.push((own, field.name_of("parent")?));
        Ok(())
    })?;
    if let Some((_, Some(parent))) = inner
        .iter()
        .find(|(_, parent)| parent.as_ref().is_some_and(|parent| !names.contains(parent)))
    {
        return Err(spec.fail_at("subGroups", Problem::Unknown(parent.clone())));
    }
    let own = PodGroup::gang(metadata::name(root)?, least(&spec)?);
    let mut group = constrained(own, &spec)?
        .in_namespace(metadata::namespace(root)?)
        .queue(spec.text_of("queue")?);
    let count = inner.len();
    let mut placed = 0;
    fill(&mut group, None, &inner, MOST_DEEP, &mut placed);
    if placed < count {
        let problem = Problem::Invalid(format!("{} stand in a circle or too deep", count - placed));
        return Err(spec.fail_at("subGroups", problem));
    }
    Ok(KaiGroup { group, class: spec.name_of("priorityClassName")?, preemptible })
}

/// Puts the groups of a parent into it; it needs all of them.
fn fill(
    into: &mut PodGroup,
    parent: Option<&str>,
    inner: &[(PodGroup, Option<String>)],
    deep: usize,
    placed: &mut usize,
) {
    if deep == 0 {
        return;
    }
    let children = inner.iter().filter(|(_, own)| own.as_deref() == parent);
    let mut groups: Vec<PodGroup> = Vec::new();
    for (child, _) in children {
        let mut child = child.clone();
        let name = child.name.clone();
        *placed += 1;
        fill(&mut child, Some(&name), inner, deep - 1, placed);
        groups.push(child);
    }
    if !groups.is_empty() {
        let all = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        into.policy = PodGroup::gang("", all).policy;
        into.groups = groups;
    }
}

fn constrained(mut group: PodGroup, of: &Field<'_>) -> Fault<PodGroup> {
    let Some(field) = of.get("topologyConstraint")? else { return Ok(group) };
    if let Some(level) = field.name_of("requiredTopologyLevel")? {
        group = group.require(level);
    }
    if let Some(level) = field.name_of("preferredTopologyLevel")? {
        group = group.prefer(level);
    }
    Ok(group)
}
