//! Resources of the bands `batch` and `mid`.

use std::time::Duration;

use phalanx::model::{
    Amounts, CalculatePolicy, KubernetesQos, NodePod, NodeUsage, Overcommit, PriorityBand, QosClass,
};
use serde_json::{Value, json};

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::objects::{self, ReadPod};

/// A strategy, and whether it is one of the test of batch resources.
fn strategy(value: &Value) -> Result<(Overcommit, bool), String> {
    let mut rules = Overcommit::default();
    let mut fields = Fields::new("strategy", value)?;
    fields.pass(&["Enable", "UpdateTimeThresholdSeconds", "ResourceDiffThreshold"]);
    if let Some(minutes) = fields.integer("DegradeTimeMinutes")? {
        let minutes = u64::try_from(minutes).map_err(|error| error.to_string())?;
        rules.degrade_after = Duration::from_secs(60 * minutes);
    }
    let both = |fields: &mut Fields<'_>, names: [&'static str; 2]| {
        Ok::<_, String>([fields.integer(names[0])?, fields.integer(names[1])?])
    };
    let own = both(&mut fields, ["CPUReclaimThresholdPercent", "MemoryReclaimThresholdPercent"])?;
    let of_batch = own[0].is_some();
    for (at, own) in own.into_iter().enumerate() {
        rules.reclaim_threshold[at] = own.unwrap_or(rules.reclaim_threshold[at]);
    }
    let names = ["BatchCPUThresholdPercent", "BatchMemoryThresholdPercent"];
    rules.batch_threshold = both(&mut fields, names)?;
    for (at, name) in ["CPUCalculatePolicy", "MemoryCalculatePolicy"].into_iter().enumerate() {
        rules.policy[at] = match fields.text_or_empty(name)? {
            "" | "usage" => CalculatePolicy::Usage,
            "request" => CalculatePolicy::Request,
            "maxUsageRequest" => CalculatePolicy::MaxUsageRequest,
            other => return Err(format!("{name} {other:?}: is not known")),
        };
    }
    let own = both(&mut fields, ["MidCPUThresholdPercent", "MidMemoryThresholdPercent"])?;
    for (at, own) in own.into_iter().enumerate() {
        rules.mid_threshold[at] = own.unwrap_or(rules.mid_threshold[at]);
    }
    rules.mid_unallocated = fields.integer("MidUnallocatedPercent")?.unwrap_or(0);
    let names = ["MidStaticCPUReservedPercent", "MidStaticMemoryReservedPercent"];
    let fixed = both(&mut fields, names)?.map(Option::unwrap_or_default);
    // Every other mode is that of predictions.
    rules.mid_static = (fields.text_or_empty("MidReclaimMode")? == "static").then_some(fixed);
    fields.end()?;
    Ok((rules, of_batch))
}

/// The pods that the rows of batch resources share, where they state none: two services, one of them
/// a pod of two containers, and one of best effort.
fn shared_pods() -> Value {
    let resources = |cpu: &str, memory: &str| {
        json!({"Resources": {"Requests": {"cpu": cpu, "memory": memory},
                             "Limits": {"cpu": cpu, "memory": memory}}})
    };
    let pod = |name: &str, labels: Value, phase: &str, containers: Value| {
        json!({"ObjectMeta": {"Name": name, "Namespace": "test", "Labels": labels},
               "Spec": {"Containers": containers}, "Status": {"Phase": phase}})
    };
    let half = || resources("10", "20G");
    json!({"Items": [
        pod("podA", json!({"koordinator.sh/qosClass": "LS"}), "Running",
            json!([resources("20", "20G")])),
        pod("podB", json!({"koordinator.sh/qosClass": "BE"}), "Running", json!([{}])),
        pod("podC", json!({}), "Pending", json!([half(), half()])),
    ]})
}

/// Measured usage of them.
fn shared_usage() -> NodeUsage {
    let amounts = |cpu: i64, memory: i64| {
        let mut amounts = Amounts::new();
        amounts.set("cpu", cpu * 1_000);
        amounts.set("memory", memory * 1_000_000_000);
        amounts
    };
    let mut usage = NodeUsage::new(objects::asked_at(), amounts(50, 55));
    usage.system = amounts(7, 12);
    for (name, cpu) in [("podA", 11), ("podB", 10), ("podC", 22)] {
        usage = usage.pod("test", name, None, amounts(cpu, cpu));
    }
    usage
}

/// Amounts that a node's annotation keeps for the system.
fn reserved(text: &str) -> Result<Amounts, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut fields = Fields::new("reservation", &value)?;
    fields.pass(&["applyPolicy"]);
    let mut amounts = objects::maybe_quantities(fields.maybe("resources"))?;
    let cpus = fields.text_or_empty("reservedCPUs")?;
    fields.end()?;
    if !cpus.is_empty() {
        let mut count = 0;
        for range in cpus.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.trim().parse::<i64>().map_err(|error| error.to_string());
            count += number(last)? - number(first)? + 1;
        }
        amounts.set("cpu", count * 1_000);
    }
    Ok(amounts)
}

/// The band of a pod.
pub(super) fn band(read: &ReadPod) -> PriorityBand {
    let kubernetes = read.qos.unwrap_or(KubernetesQos::BestEffort);
    PriorityBand::of_pod(&read.labels, read.priority, kubernetes)
}

fn node_pod(read: &ReadPod) -> NodePod<'_> {
    let kubernetes = read.qos.unwrap_or(KubernetesQos::BestEffort);
    let qos = QosClass::of_labels(&read.labels);
    NodePod {
        namespace: read.pod.namespace(),
        name: &read.pod.name,
        band: Some(band(read)),
        qos: qos.unwrap_or(QosClass::of_kubernetes(kubernetes)),
        requests: &read.pod.shape().requests,
    }
}

/// The metrics of a row; `None` if it has none.
fn metrics(value: Option<&Value>) -> Result<Option<NodeUsage>, String> {
    let Some(value) = value else { return Ok(None) };
    let mut fields = Fields::new("metrics", value)?;
    let usage = fields.maybe("NodeMetric").map(objects::node_metric).transpose()?;
    fields.end()?;
    Ok(usage)
}

/// The answers of a row: name and amount, `None` where the resource is taken away.
fn wanted(list: &[Value]) -> Result<Vec<(String, Option<i64>)>, String> {
    let mut wanted = Vec::new();
    for value in list {
        let mut fields = Fields::new("want", value)?;
        fields.pass(&["Message"]);
        let name = fields.text("Name")?.to_string();
        let reset = fields.flag("Reset")?;
        let amounts = fields.maybe("Quantity").map(|quantity| json!({ &name: quantity }));
        let amounts = amounts.as_ref().map(objects::quantities).transpose()?;
        fields.end()?;
        let amount = amounts.map_or(0, |amounts| amounts.of(&name));
        wanted.push((name, (!reset).then_some(amount)));
    }
    Ok(wanted)
}

pub(super) fn calculate(case: &mut Case<'_>) -> Result<(), Stop> {
    case.input.pass(&["fields"]);
    if case
        .input
        .maybe("fields")
        .is_some_and(|fields| fields.as_object().is_some_and(|f| !f.is_empty()))
    {
        return Err("fields: are not known".into());
    }
    let none = json!({});
    let mut args = Fields::new("args", case.input.maybe("args").unwrap_or(&none))?;
    let rules = args.maybe("strategy").map(strategy).transpose()?;
    let node = args.maybe("node").map(objects::node).transpose()?;
    let pods = args.maybe("podList");
    let usage = metrics(args.maybe("resourceMetrics").or(args.maybe("metrics")))?;
    args.pass(&["resourceMetrics"]);
    args.end()?;
    let wanted = wanted(case.expect.list("want")?)?;
    let error = case.expect.flag("wantErr")?;
    let of_mid = wanted.first().is_some_and(|(name, _)| name.contains("/mid-"))
        || rules.as_ref().is_some_and(|(_, of_batch)| !of_batch);
    let (Some((rules, _)), Some(node)) = (rules, node) else {
        return same("error", &error, &true);
    };
    let shared = (!of_mid).then(shared_pods);
    let pods = pods.or(shared.as_ref());
    let usage = usage.or_else(|| (!of_mid).then(shared_usage));
    let (Some(pods), Some(mut usage)) = (pods, usage) else {
        return same("error", &error, &true);
    };
    if of_mid && node.allocatable.is_none() {
        return same("error", &error, &true);
    }
    same("error", &error, &false)?;
    if let Some(text) = node.annotations.get("node.koordinator.sh/reservation") {
        usage.reserved = reserved(text)?;
    }
    let mut list = Fields::new("podList", pods)?;
    let pods = list.list("Items")?.iter().map(|value| objects::pod(Some(value)));
    let pods = pods.collect::<Result<Vec<ReadPod>, _>>()?;
    list.end()?;
    let alive = |read: &&ReadPod| ["Running", "Pending"].contains(&read.phase.as_str());
    let pods: Vec<NodePod<'_>> = pods.iter().filter(alive).map(node_pod).collect();
    let capacity = node.capacity.unwrap_or_default();
    let allocatable = node.allocatable.unwrap_or_default();
    let now = objects::asked_at();
    let (amounts, band) = if of_mid {
        (rules.mid(&capacity, &allocatable, &pods, &usage, now), PriorityBand::Mid)
    } else {
        (rules.batch(&capacity, &allocatable, &pods, &usage, now), PriorityBand::Batch)
    };
    let names = ["cpu", "memory"].map(|resource| band.resource(resource).unwrap_or_default());
    let actual = names.map(|name| {
        let amount = amounts.as_ref().map(|amounts| amounts.of(&name));
        (name, amount)
    });
    same("resources", &wanted, &actual.to_vec())
}

pub(super) fn degraded(case: &mut Case<'_>) -> Result<(), Stop> {
    case.input.pass(&["fields"]);
    let mut args = Fields::new("args", case.input.take("args")?)?;
    let rules = args.maybe("strategy").map(strategy).transpose()?;
    args.pass(&["node"]);
    let usage = args.maybe("nodeMetric").map(objects::node_metric).transpose()?;
    args.end()?;
    let rules = rules.map_or_else(Overcommit::default, |(rules, _)| rules);
    let usage = usage.unwrap_or_default();
    let expected = case.expect.flag("want")?;
    same("degraded", &expected, &rules.is_degraded(&usage, objects::asked_at()))
}
