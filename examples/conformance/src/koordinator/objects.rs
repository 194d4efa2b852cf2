//! Kubernetes-shaped objects of the cases: pods, nodes, node metrics.

use std::time::Duration;

use phalanx::model::{
    AggregatedUsage, Amounts, HostUsage, KubernetesQos, Labels, NodeUsage, PriorityBand,
};
use phalanx::{Pod, Quantity, Time};
use serde_json::Value;

use super::super::tenants::fields::{Fields, now};
use super::validation::amount;

/// A pod, and what a `Pod` does not hold.
#[derive(Default)]
pub(super) struct ReadPod {
    pub(super) pod: Pod,
    pub(super) priority: Option<i32>,
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    pub(super) phase: String,
    pub(super) qos: Option<KubernetesQos>,
    /// When it was scheduled, and when it was initialised.
    pub(super) scheduled: Option<Time>,
    pub(super) initialized: Option<Time>,
}

/// A resource's name, free of what the conversion left of a constant.
fn resource(name: &str) -> String {
    name.replace("ResourceDefaultNamespacePrefix", "kubernetes.io/")
}

/// Quantities by resource: texts, or plain numbers.
pub(super) fn quantities(value: &Value) -> Result<Amounts, String> {
    let mut amounts = Amounts::new();
    let object = value.as_object().ok_or_else(|| format!("{value}: is no list of quantities"))?;
    for (name, value) in object {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let quantity: Quantity = text.parse().map_err(|_| format!("{name}: {text:?}"))?;
        let name = resource(name);
        amounts.set(&name, amount(&name, quantity)?);
    }
    Ok(amounts)
}

pub(super) fn maybe_quantities(value: Option<&Value>) -> Result<Amounts, String> {
    value.map_or_else(|| Ok(Amounts::new()), quantities)
}

/// The amounts of `{ResourceList}`; `None` if there is no list.
pub(super) fn resource_list(value: Option<&Value>) -> Result<Option<Amounts>, String> {
    let Some(value) = value else { return Ok(None) };
    let mut fields = Fields::new("resources", value)?;
    fields.pass(&["Devices"]);
    let list = fields.maybe("ResourceList").map(quantities).transpose()?;
    fields.end()?;
    Ok(list)
}

fn labels(fields: &mut Fields<'_>, name: &'static str) -> Result<Labels, String> {
    let text = |(key, value): (&str, &Value)| {
        let text = value.as_str().ok_or_else(|| format!("{name} {key}: is no text"))?;
        Ok((key.to_string(), text.to_string()))
    };
    fields.entries(name)?.into_iter().map(text).collect()
}

/// `{now_plus_s}`, or the same within `{Time}`.
pub(super) fn time(value: &Value) -> Result<Time, String> {
    let mut fields = Fields::new("time", value)?;
    if let Some(inner) = fields.maybe("Time") {
        fields.end()?;
        return time(inner);
    }
    let time = fields.time("now_plus_s")?.ok_or("time: is no time")?;
    fields.end()?;
    Ok(time)
}

/// `{Duration}` in nanoseconds, once or twice, or a plain number.
pub(super) fn duration(value: &Value) -> Result<Duration, String> {
    match value {
        Value::Object(object) => duration(object.get("Duration").unwrap_or(&Value::Null)),
        Value::Null => Ok(Duration::ZERO),
        value => value.as_u64().map(Duration::from_nanos).ok_or_else(|| format!("{value}")),
    }
}

fn conditions(list: &[Value], pod: &mut ReadPod) -> Result<(), String> {
    for value in list {
        let mut fields = Fields::new("condition", value)?;
        let (kind, status) = (fields.text("Type")?, fields.text("Status")?);
        let at = fields.maybe("LastTransitionTime").map(time).transpose()?;
        fields.end()?;
        match kind {
            _ if status != "True" => {}
            "PodScheduled" => pod.scheduled = at,
            "PodInitialized" | "Initialized" => pod.initialized = at,
            _ => {}
        }
    }
    Ok(())
}

fn sum(to: &mut Amounts, amounts: &Amounts, with: impl Fn(i64, i64) -> i64) {
    for (name, amount) in amounts.iter() {
        to.set(name, with(to.of(name), amount));
    }
}

/// Requests, limits, and Kubernetes' class of service.
fn containers(spec: &mut Fields<'_>) -> Result<(Amounts, Amounts, KubernetesQos), String> {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let (mut guaranteed, mut any) = (true, false);
    for (list, init) in [("Containers", false), ("InitContainers", true)] {
        for value in spec.list(list)? {
            let mut container = Fields::new("container", value)?;
            container.pass(&["Name", "Image"]);
            let (mut own, mut most) = (Amounts::new(), Amounts::new());
            if let Some(value) = container.maybe("Resources") {
                let mut resources = Fields::new("Resources", value)?;
                own = maybe_quantities(resources.maybe("Requests"))?;
                most = maybe_quantities(resources.maybe("Limits"))?;
                resources.end()?;
            }
            container.end()?;
            for resource in ["cpu", "memory"] {
                let (request, limit) = (own.of(resource), most.of(resource));
                any |= request != 0 || limit != 0;
                guaranteed &= limit != 0 && (request == limit || request == 0);
            }
            let with = if init { i64::max } else { i64::saturating_add };
            sum(&mut requests, &own, with);
            sum(&mut limits, &most, with);
        }
    }
    let overhead = maybe_quantities(spec.maybe("Overhead"))?;
    sum(&mut requests, &overhead, i64::saturating_add);
    let qos = match (any, guaranteed) {
        (false, _) => KubernetesQos::BestEffort,
        (true, true) => KubernetesQos::Guaranteed,
        (true, false) => KubernetesQos::Burstable,
    };
    Ok((requests, limits, qos))
}

/// A pod as the tests' builders state it.
fn is_of_daemon_set(read: &mut ReadPod) {
    let attributes = &mut read.pod.shape_mut().attributes;
    attributes.insert("controller".into(), "DaemonSet".into());
}

fn built(value: &Value) -> Result<ReadPod, String> {
    let mut read = ReadPod { qos: Some(KubernetesQos::BestEffort), ..ReadPod::default() };
    let mut fields = Fields::new("pod", value)?;
    fields.pass(&["kind", "u_i_d", "uid"]);
    let pod = Pod::new().name(fields.text_or_empty("name")?);
    read.pod = pod.in_namespace(fields.text_or_empty("namespace")?);
    read.priority = fields.integer("priority")?.and_then(|priority| i32::try_from(priority).ok());
    for (name, label) in [("label", true), ("annotation", false)] {
        for pair in fields.texts(name)?.chunks(2) {
            let [key, value] = pair else { return Err(format!("{name}: is no pair")) };
            let to = if label { &mut read.labels } else { &mut read.annotations };
            to.insert((*key).into(), (*value).into());
        }
    }
    read.labels.extend(labels(&mut fields, "labels")?);
    for owner in fields.list("owner_reference")? {
        if owner.get("Kind").and_then(Value::as_str) == Some("DaemonSet") {
            is_of_daemon_set(&mut read);
        }
    }
    let requests = maybe_quantities(fields.maybe("req"))?;
    let limits = maybe_quantities(fields.maybe("lim"))?;
    fields.pass(&["node", "node_name"]);
    conditions(fields.list("conditions")?, &mut read)?;
    fields.end()?;
    Ok(finish(read, requests, &limits))
}

fn finish(mut read: ReadPod, requests: Amounts, limits: &Amounts) -> ReadPod {
    let shape = read.pod.shape_mut();
    shape.labels.clone_from(&read.labels);
    shape.requests = requests;
    // Those that plugins read.
    shape.attributes.extend(read.annotations.clone());
    read.pod = read.pod.priority(read.priority.unwrap_or(0)).in_band(limits);
    read
}

/// A pod; an empty one if there is none.
pub(super) fn pod(value: Option<&Value>) -> Result<ReadPod, String> {
    let Some(value) = value else {
        return Ok(ReadPod { qos: Some(KubernetesQos::BestEffort), ..ReadPod::default() });
    };
    if value.get("kind").is_some() {
        return built(value);
    }
    let mut read = ReadPod { qos: Some(KubernetesQos::BestEffort), ..ReadPod::default() };
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut fields = Fields::new("pod", value)?;
    if let Some(value) = fields.maybe("ObjectMeta") {
        let mut meta = Fields::new("ObjectMeta", value)?;
        meta.pass(&["UID"]);
        let pod = Pod::new().name(meta.text_or_empty("Name")?);
        read.pod = pod.in_namespace(meta.text_or_empty("Namespace")?);
        read.labels = labels(&mut meta, "Labels")?;
        read.annotations = labels(&mut meta, "Annotations")?;
        for owner in meta.list("OwnerReferences")? {
            if owner.get("Kind").and_then(Value::as_str) == Some("DaemonSet") {
                is_of_daemon_set(&mut read);
            }
        }
        meta.end()?;
    }
    if let Some(value) = fields.maybe("Spec") {
        let mut spec = Fields::new("Spec", value)?;
        spec.pass(&["PriorityClassName", "NodeName", "SchedulerName"]);
        let priority = spec.integer("Priority")?;
        read.priority = priority.and_then(|priority| i32::try_from(priority).ok());
        let (own, most, qos) = containers(&mut spec)?;
        (requests, limits, read.qos) = (own, most, Some(qos));
        spec.end()?;
    }
    if let Some(value) = fields.maybe("Status") {
        let mut status = Fields::new("Status", value)?;
        read.phase = status.text_or_empty("Phase")?.into();
        read.qos = match status.text_or_empty("QOSClass")? {
            "" => read.qos,
            "Guaranteed" => Some(KubernetesQos::Guaranteed),
            "Burstable" => Some(KubernetesQos::Burstable),
            "BestEffort" => Some(KubernetesQos::BestEffort),
            other => return Err(format!("QOSClass {other:?}: is not known")),
        };
        conditions(status.list("Conditions")?, &mut read)?;
        status.end()?;
    }
    fields.end()?;
    Ok(finish(read, requests, &limits))
}

/// Capacity, allocatable amounts and annotations of a node; `None`: there are no such amounts.
pub(super) struct ReadNode {
    pub(super) capacity: Option<Amounts>,
    pub(super) allocatable: Option<Amounts>,
    pub(super) annotations: Labels,
}

pub(super) fn node(value: &Value) -> Result<ReadNode, String> {
    let mut fields = Fields::new("node", value)?;
    let mut annotations = Labels::new();
    if let Some(value) = fields.maybe("ObjectMeta") {
        let mut meta = Fields::new("ObjectMeta", value)?;
        // Labels choose a strategy, which is given apart.
        meta.pass(&["Name", "Labels"]);
        annotations = labels(&mut meta, "Annotations")?;
        meta.end()?;
    }
    let (mut capacity, mut allocatable) = (None, None);
    if let Some(value) = fields.maybe("Status") {
        let mut status = Fields::new("Status", value)?;
        capacity = status.maybe("Capacity").map(quantities).transpose()?;
        allocatable = status.maybe("Allocatable").map(quantities).transpose()?;
        status.end()?;
    }
    fields.end()?;
    Ok(ReadNode { capacity, allocatable, annotations })
}

fn band(name: &str) -> Result<Option<PriorityBand>, String> {
    if name.is_empty() {
        return Ok(None);
    }
    PriorityBand::from_name(name).map(Some).ok_or_else(|| format!("band {name:?}: is not known"))
}

fn aggregated(value: &Value) -> Result<Vec<AggregatedUsage>, String> {
    let mut fields = Fields::new("aggregated", value)?;
    let over = duration(fields.maybe("Duration").unwrap_or(&Value::Null))?;
    let mut usages = Vec::new();
    for (measure, value) in fields.entries("Usage")? {
        let mut own = AggregatedUsage::default();
        (own.over, own.measure) = (over, measure.into());
        own.usage = resource_list(Some(value))?.unwrap_or_default();
        usages.push(own);
    }
    fields.end()?;
    Ok(usages)
}

/// Usage measured on a node.
pub(super) fn node_metric(value: &Value) -> Result<NodeUsage, String> {
    let mut usage = NodeUsage::default();
    let mut fields = Fields::new("nodeMetric", value)?;
    fields.pass(&["ObjectMeta", "TypeMeta"]);
    if let Some(value) = fields.maybe("Spec") {
        let mut spec = Fields::new("Spec", value)?;
        if let Some(value) = spec.maybe("CollectPolicy") {
            let mut policy = Fields::new("CollectPolicy", value)?;
            let seconds = policy.integer("ReportIntervalSeconds")?;
            let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            usage.report_interval = seconds.map(Duration::from_secs);
            policy.end()?;
        }
        spec.end()?;
    }
    let Some(value) = fields.maybe("Status") else {
        fields.end()?;
        return Ok(usage);
    };
    let mut status = Fields::new("Status", value)?;
    usage.updated = status.maybe("UpdateTime").map(time).transpose()?;
    if let Some(value) = status.maybe("NodeMetric") {
        let mut metric = Fields::new("NodeMetric", value)?;
        usage.node = Some(resource_list(metric.maybe("NodeUsage"))?.unwrap_or_default());
        usage.system = resource_list(metric.maybe("SystemUsage"))?.unwrap_or_default();
        for value in metric.list("AggregatedNodeUsages")? {
            usage.aggregated.extend(aggregated(value)?);
        }
        metric.end()?;
    }
    for value in status.list("PodsMetric")? {
        let mut pod = Fields::new("PodsMetric", value)?;
        pod.pass(&["QoS"]);
        let (name, namespace) = (pod.text("Name")?, pod.text_or_empty("Namespace")?);
        let band = band(pod.text_or_empty("Priority")?)?;
        let own = resource_list(pod.maybe("PodUsage"))?.unwrap_or_default();
        pod.end()?;
        usage = usage.pod(namespace, name, band, own);
    }
    for value in status.list("HostApplicationMetric")? {
        let mut own = Fields::new("HostApplicationMetric", value)?;
        own.pass(&["QoS"]);
        let mut host = HostUsage::default();
        host.name = own.text("Name")?.into();
        host.band = band(own.text_or_empty("Priority")?)?;
        host.usage = resource_list(own.maybe("Usage"))?.unwrap_or_default();
        own.end()?;
        usage.host_applications.push(host);
    }
    if let Some(value) = status.maybe("ProdReclaimableMetric") {
        let mut metric = Fields::new("ProdReclaimableMetric", value)?;
        usage.prod_reclaimable = resource_list(metric.maybe("Resource"))?;
        metric.end()?;
    }
    status.end()?;
    fields.end()?;
    Ok(usage)
}

/// The time at which a row is asked.
pub(super) fn asked_at() -> Time {
    now()
}
