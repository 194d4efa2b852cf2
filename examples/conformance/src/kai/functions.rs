//! Single tests and divisions on tables of queues.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::quota::UNLIMITED;
use phalanx::quota::kai::{
    Contender, DivisionRules, ElasticState, KaiQuantities, MinRuntime, OverCapacity, PodSetState,
    QueueShare, QueueShares, ReclaimMethod, ReclaimStrategy, Reclaimer, ResourceShare,
    RuntimeQueue, Sibling, divide, elastic_state, is_protected,
};
use serde_json::Value;

use super::read::{WHOLE, amount, number, weight};
use crate::tenants::fields::Fields;
use crate::tenants::{Stop, same};

/// The resources, and the parts that they are counted in.
const RESOURCES: [(&str, f64); 3] = [("cpu", 1.0), ("memory", 1.0), ("gpu", WHOLE)];

/// Compares the answer of a function.
pub(super) fn compare(function: &str, case: &mut Fields<'_>) -> Result<(), Stop> {
    let compare: fn(&mut Fields<'_>, &mut Fields<'_>) -> Result<(), Stop> = match function {
        "fair-share-division" => division,
        "queue-order" => queue_order,
        "capacity" => capacity,
        "reclaim-strategy" => strategy,
        "reclaim-validity" => validity,
        "can-reclaim" => may_reclaim,
        "elastic-job-order" => elastic,
        "min-runtime" => min_runtime,
        "min-runtime-protection" => protection,
        other => return Err(format!("family: function {other:?} is not known").into()),
    };
    let mut input = Fields::new("input", case.take("input")?)?;
    let mut expect = Fields::new("expect", case.take("expect")?)?;
    compare(&mut input, &mut expect)?;
    input.end()?;
    expect.end()?;
    Ok(())
}

fn division(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let resource = input.text("resource")?;
    let (_, parts) = (RESOURCES.into_iter().find(|(name, _)| *name == resource))
        .ok_or_else(|| format!("resource: {resource:?} is not known"))?;
    let billionths = |of: &mut Fields<'_>, name| {
        Ok::<u64, String>(u64::try_from(number(of, name, 1e9)?).unwrap_or(0))
    };
    let rules = DivisionRules { unit: parts as i64, usage_factor: billionths(input, "k")? };
    let total = number(input, "total", parts)?;
    let mut siblings = Vec::new();
    for value in input.list("queues")? {
        let mut own = Fields::new("queue", value)?;
        siblings.push(Sibling {
            name: value.get("id").and_then(Value::as_str).unwrap_or_default(),
            priority: i32::try_from(own.integer("priority")?.unwrap_or(0)).unwrap_or(0),
            created: u64::try_from(own.integer("created_order")?.unwrap_or(0)).unwrap_or(0),
            deserved: amount("deserved", own.maybe("deserved"), parts)?,
            limit: amount("limit", own.maybe("limit"), parts)?,
            weight: weight(own.take("over_quota_weight")?)?,
            request: number(&mut own, "request", parts)?,
            usage: billionths(&mut own, "usage")?,
            share: number(&mut own, "fair_share_before", parts)?,
        });
        own.pass(&["id"]);
        own.end()?;
    }
    let (shares, left) = divide(total, rules, &siblings);
    for (queue, value) in expect.entries("fair_share")? {
        let at = siblings.iter().position(|own| own.name == queue);
        let ours = at.map(|at| shares[at]);
        same(format!("fair share of {queue}"), &Some(amount(queue, Some(value), parts)?), &ours)?;
    }
    // KAI says that nothing is left where more is deserved than there is.
    same("remaining", &number(expect, "remaining", parts)?, &left.max(0))
}

fn share(value: &Value, parts: f64) -> Result<ResourceShare, String> {
    let mut fields = Fields::new("resource", value)?;
    let mut read = |name| amount(name, fields.maybe(name), parts);
    let share = ResourceShare {
        deserved: read("deserved")?,
        limit: read("limit")?,
        fair_share: read("fair_share")?,
        allocated: read("allocated")?,
        non_preemptible: read("allocated_non_preemptible")?,
        request: read("request")?,
        usage: u64::try_from(amount("usage", fields.maybe("usage"), 1e9)?).unwrap_or(0),
        weight: weight(fields.take("over_quota_weight")?)?,
    };
    fields.end()?;
    Ok(share)
}

/// Adds a queue, and tells the name of its parent.
fn queue<'a>(value: &'a Value, shares: &mut QueueShares) -> Result<&'a str, String> {
    let mut fields = Fields::new("queue", value)?;
    let resources = RESOURCES
        .into_iter()
        .map(|(name, parts)| share(fields.take(name)?, parts))
        .collect::<Result<_, _>>()?;
    shares.queues.push(QueueShare {
        name: fields.text("id")?.into(),
        parent: None,
        priority: i32::try_from(fields.integer("priority")?.unwrap_or(0)).unwrap_or(0),
        created: u64::try_from(fields.integer("created_order")?.unwrap_or(0)).unwrap_or(0),
        resources,
    });
    let parent = fields.text_or_empty("parent")?;
    fields.end()?;
    Ok(parent)
}

fn no_queues() -> QueueShares {
    QueueShares::new(vec![0; 3], RESOURCES.iter().map(|(_, parts)| *parts as i64).collect())
}

fn queues(list: &[Value]) -> Result<QueueShares, String> {
    let mut shares = no_queues();
    let parents =
        list.iter().map(|value| queue(value, &mut shares)).collect::<Result<Vec<_>, _>>()?;
    for (at, parent) in parents.into_iter().enumerate() {
        shares.queues[at].parent = shares.find(parent);
    }
    Ok(shares)
}

fn quantities(value: Option<&Value>) -> Result<KaiQuantities, String> {
    let Some(value) = value else { return Ok([0, 0, 0].into_iter().collect()) };
    let mut fields = Fields::new("resources", value)?;
    let amounts =
        RESOURCES.into_iter().map(|(name, parts)| number(&mut fields, name, parts)).collect();
    fields.end()?;
    amounts
}

fn place(shares: &QueueShares, name: &str) -> Result<usize, String> {
    shares.find(name).ok_or_else(|| format!("{name}: is not known"))
}

fn queue_order(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let mut shares = no_queues();
    queue(input.take("left")?, &mut shares)?;
    queue(input.take("right")?, &mut shares)?;
    shares.totals = quantities(input.maybe("total"))?.to_vec();
    let mut side = |queue, job, victims| {
        let mut taken = quantities(None)?;
        for victim in input.list(victims)? {
            for (sum, amount) in taken.iter_mut().zip(quantities(Some(victim))?) {
                *sum += amount;
            }
        }
        Ok::<_, String>(Contender { queue, request: quantities(input.maybe(job))?, taken })
    };
    let left = side(0, "left_job", "left_victims")?;
    let right = side(1, "right_job", "right_victims")?;
    let first = if shares.compare(&left, &right).is_lt() { "left" } else { "right" };
    same("first", &expect.text("first")?, &first)
}

fn capacity(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let mut shares = queues(input.list("queues")?)?;
    let leaf = place(&shares, input.text("queue")?)?;
    let preemptible = input.flag("preemptible")?;
    if !input.flag("limit_checked")? {
        for share in shares.queues.iter_mut().flat_map(|queue| &mut queue.resources) {
            share.limit = UNLIMITED;
        }
    }
    let fits = shares.fits(leaf, &quantities(input.maybe("requested"))?, preemptible);
    same("ok", &expect.flag("ok")?, &fits.is_ok())?;
    let reason = match fits {
        Ok(()) => "",
        Err(OverCapacity::Limit { .. }) => "over_limit",
        Err(OverCapacity::Quota { .. }) => "non_preemptible_over_quota",
    };
    let theirs = expect.text_or_empty("reason")?;
    if !["", "over_limit", "non_preemptible_over_quota"].contains(&theirs) {
        return Err(format!("reason: {theirs:?} is not known").into());
    }
    same("reason", &theirs, &reason)
}

fn strategy(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let mut shares = no_queues();
    queue(input.take("reclaimer_queue")?, &mut shares)?;
    queue(input.take("victim_queue")?, &mut shares)?;
    let strategy = match input.text("strategy")? {
        "maintain_fair_share" => ReclaimStrategy::MaintainFairShare,
        "guarantee_deserved" => ReclaimStrategy::GuaranteeDeserved,
        other => return Err(format!("strategy: {other:?} is not known").into()),
    };
    let request = quantities(input.maybe("reclaimer_resources"))?;
    let held = quantities(input.maybe("victim_queue_remaining"))?;
    let allowed = shares.strategy_allows(strategy, (0, &request), (1, &held));
    same("allowed", &expect.flag("allowed")?, &allowed)
}

fn reclaimer(input: &mut Fields<'_>, shares: &QueueShares) -> Result<Reclaimer, String> {
    let mut fields = Fields::new("reclaimer", input.take("reclaimer")?)?;
    let reclaimer = Reclaimer {
        queue: place(shares, fields.text("queue")?)?,
        request: quantities(fields.maybe("resources"))?,
        preemptible: fields.flag("preemptible")?,
    };
    fields.end()?;
    Ok(reclaimer)
}

fn may_reclaim(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let shares = queues(input.list("queues")?)?;
    let reclaimer = reclaimer(input, &shares)?;
    same("allowed", &expect.flag("allowed")?, &shares.may_reclaim(&reclaimer))
}

fn validity(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let mut shares = queues(input.list("queues")?)?;
    let reclaimer = reclaimer(input, &shares)?;
    shares.saturation = u64::try_from(number(input, "saturation_multiplier", 1e3)?).unwrap_or(0);
    let mut victims = Vec::new();
    for (name, list) in input.entries("victims")? {
        let leaf = place(&shares, name)?;
        for value in list.as_array().ok_or("victims: holds no lists")? {
            victims.push((leaf, quantities(Some(value))?));
        }
    }
    same("allowed", &expect.flag("allowed")?, &shares.allows_victims(&reclaimer, &victims))
}

fn elastic(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let mut state = |name| {
        let mut sets = Vec::new();
        for value in input.list(name)? {
            let mut fields = Fields::new("pod_set", value)?;
            let mut count = |name| {
                let count = number(&mut fields, name, 1.0)?;
                u32::try_from(count).map_err(|_| format!("{name}: is out of range"))
            };
            let (active, min_available) = (count("allocated")?, count("min_available")?);
            sets.push(PodSetState { name: fields.text("name")?, active, min_available });
            fields.end()?;
        }
        Ok::<ElasticState, String>(elastic_state(sets))
    };
    let first = match state("left")?.cmp(&state("right")?) {
        std::cmp::Ordering::Less => "left",
        std::cmp::Ordering::Equal => "equal",
        std::cmp::Ordering::Greater => "right",
    };
    same("first", &expect.text("first")?, &first)
}

fn seconds(of: &mut Fields<'_>, name: &'static str) -> Result<Option<Duration>, String> {
    let seconds = of.integer(name)?;
    Ok(seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
}

/// Minimum run times, and whether they are those of reclaim.
fn runtime(input: &mut Fields<'_>) -> Result<(MinRuntime, bool), String> {
    let reclaim = match input.text("what")? {
        "preempt" => false,
        "reclaim" => true,
        other => return Err(format!("what: {other:?} is not known")),
    };
    let mut runtime = MinRuntime {
        default_preempt: seconds(input, "default_preempt_s")?.unwrap_or_default(),
        default_reclaim: seconds(input, "default_reclaim_s")?.unwrap_or_default(),
        method: match input.text_or_empty("method")? {
            "" | "lca" => ReclaimMethod::LowestCommonAncestor,
            "queue" => ReclaimMethod::Queue,
            other => return Err(format!("method: {other:?} is not known")),
        },
        queues: Vec::new(),
    };
    let mut parents = Vec::new();
    for value in input.list("queues")? {
        let mut fields = Fields::new("queue", value)?;
        parents.push(fields.text_or_empty("parent")?);
        runtime.queues.push(RuntimeQueue {
            name: fields.text("name")?.into(),
            parent: None,
            preempt: seconds(&mut fields, "preempt_min_runtime_s")?,
            reclaim: seconds(&mut fields, "reclaim_min_runtime_s")?,
        });
        fields.end()?;
    }
    for (at, parent) in parents.into_iter().enumerate() {
        runtime.queues[at].parent = runtime.find(parent);
    }
    Ok((runtime, reclaim))
}

fn find(runtime: &MinRuntime, name: &str) -> Result<usize, String> {
    runtime.find(name).ok_or_else(|| format!("{name}: is not known"))
}

fn min_runtime(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let (runtime, reclaim) = runtime(input)?;
    // Queues that are not there state nothing: the defaults hold.
    let find = |name: &str| runtime.find(name).unwrap_or(usize::MAX);
    let victim = find(input.text("victim_queue")?);
    let other = input.text_or_empty("reclaimer_queue")?;
    let minimum = if reclaim {
        runtime.before_reclaim(find(other), victim)
    } else {
        runtime.before_preempt(victim)
    };
    same("minimum", &seconds(expect, "min_runtime_s")?, &Some(minimum))
}

fn protection(input: &mut Fields<'_>, expect: &mut Fields<'_>) -> Result<(), Stop> {
    let (runtime, reclaim) = runtime(input)?;
    let pending = find(&runtime, input.text("pending_queue")?)?;
    let stage = input.text("stage")?;
    if !["candidate", "scenario"].contains(&stage) {
        return Err(format!("stage: {stage:?} is not known").into());
    }
    let mut allowed = true;
    for value in input.list("victims")? {
        let mut fields = Fields::new("victim", value)?;
        let victim = find(&runtime, fields.text("queue")?)?;
        let minimum = if reclaim {
            runtime.before_reclaim(pending, victim)
        } else {
            runtime.before_preempt(victim)
        };
        let protected = is_protected(seconds(&mut fields, "started_ago_s")?, minimum);
        let elastic = fields.flag("elastic")?;
        let mut below = false;
        for value in fields.list("pod_sets")? {
            let mut set = Fields::new("pod_set", value)?;
            set.pass(&["name", "pods"]);
            let mut counts = BTreeMap::new();
            for name in ["active", "evicted", "min_available"] {
                counts.insert(name, set.integer(name)?.unwrap_or(0));
            }
            set.end()?;
            below |= counts["evicted"] > 0
                && counts["active"] - counts["evicted"] < counts["min_available"];
        }
        fields.end()?;
        allowed &= !protected || if stage == "candidate" { elastic } else { !below };
    }
    same("allowed", &expect.flag("allowed")?, &allowed)
}
