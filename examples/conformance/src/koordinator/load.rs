//! Load-aware placement: estimates, the filter and the score.

use phalanx::framework::Evaluation;
use phalanx::model::{AggregatedThresholds, Amounts, NodeUsage, UsageThresholds};
use phalanx::plugins::{LoadAware, LoadAwareFilter, LoadAwareScore};
use phalanx::{Cluster, Event, Framework, Node, Time};
use serde_json::{Value, json};

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::objects::{self, ReadPod};

/// The node of the tests of the plugin, and what it has.
const NODE: &str = "test-node-1";
const CPU: i64 = 96;
const MEMORY: &str = "512Gi";

/// Percentages by resource; none if they are absent.
fn percentages(value: Option<&Value>) -> Result<Amounts, String> {
    let mut amounts = Amounts::new();
    let Some(value) = value else { return Ok(amounts) };
    let object = value.as_object().ok_or("thresholds: are no object")?;
    for (resource, value) in object {
        amounts.set(resource, value.as_i64().ok_or("threshold: is no integer")?);
    }
    Ok(amounts)
}

/// The cluster of a row: the node, what runs there, and what was measured.
fn cluster(usage: Option<NodeUsage>, pods: Vec<(ReadPod, Time)>) -> Result<Cluster, String> {
    let mut cluster = Cluster::new();
    let node = Node::new(NODE).capacity("cpu", CPU).capacity("memory", MEMORY);
    cluster.add_node(node).map_err(|error| error.to_string())?;
    for (read, at) in pods {
        let pod = read.pod.since(at).on(NODE);
        cluster.add_pod(pod).map_err(|error| error.to_string())?;
    }
    if let Some(usage) = usage {
        let usage = Some(Box::new(usage));
        let event = Event::NodeUsageChanged { name: NODE.into(), usage, version: 0 };
        cluster.apply(event).map_err(|error| error.to_string())?;
    }
    Ok(cluster)
}

/// The code of the filter's verdict; `None` if the node passes.
fn code(settings: LoadAware, cluster: &Cluster, pod: &ReadPod, node: &str) -> Option<&'static str> {
    let framework = Framework::builder()
        .filter(LoadAwareFilter(settings))
        .without_room_filter()
        .build()
        .ok()?;
    let now = objects::asked_at();
    let evaluation = Evaluation::new(&framework, cluster, pod.pod.shape(), None, now);
    match cluster.node(node) {
        None => Some("Error"),
        Some(node) if evaluation.filter(node).is_ok() => None,
        Some(_) => Some("Unschedulable"),
    }
}

fn same_code(case: &mut Case<'_>, actual: Option<&str>) -> Result<(), Stop> {
    let expected = match case.expect.maybe("wantStatus") {
        None => None,
        Some(value) => {
            let mut fields = Fields::new("wantStatus", value)?;
            fields.pass(&["reasons", "plugin"]);
            let code = fields.text("code")?;
            fields.end()?;
            Some(code).filter(|code| *code != "Success")
        }
    };
    same("code", &expected, &actual)
}

fn flag(value: Option<&Value>) -> Result<Option<bool>, String> {
    value.map(|value| value.as_bool().ok_or_else(|| "is no boolean".to_string())).transpose()
}

/// Pods that run, with the time they were placed.
fn assigned(list: &[Value]) -> Result<Vec<(ReadPod, Time)>, String> {
    let mut pods = Vec::new();
    for value in list {
        let mut fields = Fields::new("assignedPod", value)?;
        let at = fields.maybe("timestamp").map(objects::time).transpose()?;
        let read = objects::pod(fields.maybe("pod"))?;
        fields.end()?;
        pods.push((read, at.unwrap_or(Time::ZERO)));
    }
    Ok(pods)
}

/// Thresholds and measures over some time: those of the filter and that of the score.
fn over_time(value: Option<&Value>, settings: &mut LoadAware) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let mut fields = Fields::new("aggregated", value)?;
    let aggregated = thresholds_over_time(&mut fields)?;
    settings.thresholds.aggregated = Some(aggregated).filter(AggregatedThresholds::is_stated);
    let measure = fields.text_or_empty("ScoreAggregationType")?.to_string();
    let over = objects::duration(fields.maybe("ScoreAggregatedDuration").unwrap_or(&Value::Null))?;
    settings.score_measure = (!measure.is_empty()).then_some((measure, over));
    fields.end()
}

fn thresholds_over_time(fields: &mut Fields<'_>) -> Result<AggregatedThresholds, String> {
    let mut own = AggregatedThresholds::default();
    own.thresholds = percentages(fields.maybe("UsageThresholds"))?;
    own.measure = fields.text_or_empty("UsageAggregationType")?.into();
    own.over = objects::duration(fields.maybe("UsageAggregatedDuration").unwrap_or(&Value::Null))?;
    Ok(own)
}

pub(super) fn expired(case: &mut Case<'_>) -> Result<(), Stop> {
    let usage = case.input.maybe("nodeMetric").map(objects::node_metric).transpose()?;
    let schedule = flag(case.input.maybe("enableScheduleWhenNodeMetricsExpired"))?;
    let mut settings = LoadAware::default();
    settings.schedule_when_expired = schedule.unwrap_or(settings.schedule_when_expired);
    let cluster = cluster(usage, Vec::new())?;
    let code = code(settings, &cluster, &objects::pod(None)?, NODE);
    same_code(case, code)
}

pub(super) fn filter(case: &mut Case<'_>) -> Result<(), Stop> {
    let input = &mut case.input;
    let mut settings = LoadAware::default();
    let node = percentages(input.maybe("usageThresholds"))?;
    if !node.is_empty() {
        settings.thresholds.node = node;
    }
    settings.thresholds.prod = percentages(input.maybe("prodUsageThresholds"))?;
    over_time(input.maybe("aggregated"), &mut settings)?;
    let mut own = UsageThresholds::default();
    own.node = percentages(input.maybe("customUsageThresholds"))?;
    own.prod = percentages(input.maybe("customProdUsageThresholds"))?;
    if let Some(value) = input.maybe("customAggregatedUsage") {
        let mut fields = Fields::new("customAggregatedUsage", value)?;
        own.aggregated = Some(thresholds_over_time(&mut fields)?);
        fields.end()?;
    }
    let mut usage = input.maybe("nodeMetric").map(objects::node_metric).transpose()?;
    if let Some(usage) = &mut usage {
        usage.thresholds = Some(own);
    }
    let mut pods = assigned(input.list("assignedPod")?)?;
    for value in input.list("pods")? {
        pods.push((objects::pod(Some(value))?, objects::asked_at()));
    }
    let pod = objects::pod(input.maybe("testPod"))?;
    let node = input.text_or_empty("nodeName")?;
    let cluster = cluster(usage, pods)?;
    let code = code(settings, &cluster, &pod, node);
    same_code(case, code)
}

pub(super) fn score(case: &mut Case<'_>) -> Result<(), Stop> {
    let input = &mut case.input;
    let mut settings = LoadAware::default();
    over_time(input.maybe("aggregatedArgs"), &mut settings)?;
    settings.dominant_weight = input.integer("dominantResourceWeight")?.unwrap_or(0);
    settings.score_by_prod = input.flag("scoreAccordingProdUsage")?;
    let usage = input.maybe("nodeMetric").map(objects::node_metric).transpose()?;
    let pods = assigned(input.list("assignedPod")?)?;
    let pod = objects::pod(input.maybe("pod"))?;
    let node = input.text_or_empty("nodeName")?;
    let cluster = cluster(usage, pods)?;
    let Some(row) = cluster.node(node).map(phalanx::state::NodeView::row) else {
        return same_code(case, Some("Error"));
    };
    let score = LoadAwareScore(settings);
    let framework = Framework::builder().score(1, score).without_room_filter().build();
    let framework = framework.map_err(|error| error.to_string())?;
    let now = objects::asked_at();
    let mut evaluation = Evaluation::new(&framework, &cluster, pod.pod.shape(), None, now);
    let total = evaluation.totals(&[row]).first().copied();
    same("score", &Some(case.expect.integer("wantScore")?.unwrap_or(0)), &total)?;
    same_code(case, None)
}

pub(super) fn estimate_pod(case: &mut Case<'_>) -> Result<(), Stop> {
    let mut settings = LoadAware::default();
    for (resource, factor) in percentages(case.input.maybe("scalarFactors"))?.iter() {
        settings.factors.set(resource, factor);
    }
    settings.customized = case.input.flag("allowCustomize")?;
    let read = objects::pod(case.input.maybe("pod"))?;
    let band = super::overcommit::band(&read);
    let estimate = settings.estimate(read.pod.shape(), band);
    same("estimate", &percentages(Some(case.expect.take("want")?))?, &estimate)
}

pub(super) fn estimate_node(case: &mut Case<'_>) -> Result<(), Stop> {
    const RAW: &str = "node.koordinator.sh/raw-allocatable";
    let read = objects::node(case.input.take("node")?)?;
    let mut node = Node::new(NODE);
    node.allocatable = read.allocatable.unwrap_or_default();
    // An annotation that makes no sense says nothing.
    let raw = read.annotations.get(RAW).and_then(|text| serde_json::from_str(text).ok());
    let raw: Value = raw.unwrap_or(json!({}));
    let mut usage = NodeUsage::default();
    usage.raw_allocatable = objects::quantities(&raw).unwrap_or_default();
    let mut cluster = Cluster::new();
    cluster.add_node(node).map_err(|error| error.to_string())?;
    let event =
        Event::NodeUsageChanged { name: NODE.into(), usage: Some(Box::new(usage)), version: 0 };
    cluster.apply(event).map_err(|error| error.to_string())?;
    let view = cluster.node(NODE).ok_or("the node is gone")?;
    for (resource, expected) in objects::quantities(case.expect.take("want")?)?.iter() {
        same(resource, &expected, &LoadAware::total(view, resource))?;
    }
    Ok(())
}

pub(super) fn aggregated(case: &mut Case<'_>) -> Result<(), Stop> {
    // The measure of all rows.
    const MEASURE: &str = "p95";
    let usage = objects::node_metric(case.input.take("nodeMetric")?)?;
    let over = case.input.maybe("aggregatedDuration").unwrap_or(&Value::Null);
    let actual = usage.over(MEASURE, objects::duration(over)?).cloned();
    let expected = objects::resource_list(case.expect.maybe("expectedResult"))?;
    same("usage", &expected.unwrap_or_default(), &actual.unwrap_or_default())
}

pub(super) fn deadline(case: &mut Case<'_>) -> Result<(), Stop> {
    let mut settings = LoadAware::default();
    let seconds = |value: Option<i64>| {
        value.and_then(|value| u64::try_from(value).ok()).map(std::time::Duration::from_secs)
    };
    let scheduled = case.input.integer("estimatedSecondsAfterPodScheduled")?;
    settings.estimate_after_scheduled = seconds(scheduled);
    let initialized = case.input.integer("estimatedSecondsAfterInitialized")?;
    settings.estimate_after_initialized = seconds(initialized);
    settings.customized = case.input.flag("allowCustomizeEstimation")?;
    let read = objects::pod(case.input.maybe("pod"))?;
    let until = settings.estimated_until(&read.annotations, read.scheduled, read.initialized);
    let expected = case.expect.maybe("expected").map(objects::time).transpose()?;
    same("deadline", &expected, &until)
}
