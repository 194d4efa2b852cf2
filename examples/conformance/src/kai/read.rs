//! KAI's cases, read.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sessions::kai::{
    Action, Gpu, GpuOrder, Job, Node, Placement, Pod, PodAffinity, PodSet, PodState, Rules,
    SubGroupSet, Topology, TopologyConstraint, World,
};
use phalanx::quota::kai::{QueueShare, ResourceShare};
use phalanx::quota::{UNLIMITED, Weight};
use serde_json::Value;

use crate::tenants::fields::Fields;

/// Parts of a device, in which devices are counted.
pub(super) const WHOLE: f64 = 1000.0;

/// A number in parts; `null` is without bound.
pub(super) fn amount(title: &str, value: Option<&Value>, parts: f64) -> Result<i64, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(UNLIMITED) };
    let number = value.as_f64().ok_or_else(|| format!("{title}: is no number: {value}"))?;
    Ok((number * parts).round() as i64)
}

/// A number that must be there.
pub(super) fn number(of: &mut Fields<'_>, name: &'static str, parts: f64) -> Result<i64, String> {
    let value = of.take(name)?;
    amount(name, Some(value), parts)
}

fn duration(of: &mut Fields<'_>, name: &'static str) -> Result<Option<Duration>, String> {
    let seconds = of.maybe(name).map(|value| value.as_f64().ok_or(format!("{name}: is no number")));
    let seconds = seconds.transpose()?;
    Ok(seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
}

/// A weight; one below zero has no effect.
pub(super) fn weight(value: &Value) -> Result<Weight, String> {
    let weight = value.as_f64().ok_or("over_quota_weight: is no number")?;
    Ok(Weight::from_nanos((weight.max(0.0) * 1e9).round() as u64))
}

/// The state of a pod by its name.
pub(super) fn pod_state(name: &str) -> Result<PodState, String> {
    Ok(match name {
        "pending" => PodState::Pending,
        "gated" => PodState::Gated,
        "allocated" => PodState::Allocated,
        "pipelined" => PodState::Pipelined,
        "binding" => PodState::Binding,
        "bound" => PodState::Bound,
        "running" => PodState::Running,
        "releasing" => PodState::Releasing,
        "succeeded" => PodState::Succeeded,
        "failed" => PodState::Failed,
        other => return Err(format!("state: {other:?} is not known")),
    })
}

/// The actions of a session.
pub(super) fn actions(names: &[&str]) -> Result<Vec<Action>, String> {
    let action = |name: &&str| {
        Ok(match *name {
            "allocate" => Action::Allocate,
            "consolidation" => Action::Consolidation,
            "reclaim" => Action::Reclaim,
            "preempt" => Action::Preempt,
            "stalegangeviction" => Action::StaleGangEviction,
            other => return Err(format!("actions: {other:?} is not known")),
        })
    };
    names.iter().map(action).collect()
}

fn labels(of: &mut Fields<'_>) -> Result<BTreeMap<String, String>, String> {
    let pair = |(key, value): (&str, &Value)| {
        Ok((key.to_string(), value.as_str().ok_or("labels: holds no texts")?.to_string()))
    };
    of.entries("labels")?.into_iter().map(pair).collect()
}

/// A cluster.
pub(super) fn world(input: &Value) -> Result<World, String> {
    let mut fields = Fields::new("input", input)?;
    let list = |value: &[Value], read: fn(&Value) -> Result<Node, String>| {
        value.iter().map(read).collect::<Result<Vec<_>, _>>()
    };
    let nodes = list(fields.list("nodes")?, node)?;
    let queues = queues(fields.list("queues")?)?;
    let jobs = fields.list("jobs")?.iter().map(job).collect::<Result<_, _>>()?;
    let topologies = fields.list("topologies")?.iter().map(topology).collect::<Result<_, _>>()?;
    let rules = rules(fields.take("config")?)?;
    fields.end()?;
    Ok(World { nodes, queues, jobs, topologies, rules })
}

fn node(value: &Value) -> Result<Node, String> {
    let mut fields = Fields::new("node", value)?;
    fields.pass(&["gpus", "pods"]);
    let pods = fields.integer("max_tasks")?.unwrap_or(i64::MAX);
    let node = Node {
        name: fields.text("name")?.into(),
        cpu: number(&mut fields, "cpu_milli", 1.0)?,
        memory: number(&mut fields, "memory_bytes", 1.0)?,
        gpus: number(&mut fields, "gpus_allocatable", 1.0)?,
        gpu_memory: number(&mut fields, "gpu_memory_mib", 1.0)?,
        pods: usize::try_from(pods).unwrap_or(0),
        labels: labels(&mut fields)?,
    };
    fields.end()?;
    Ok(node)
}

/// Queues of the whole tree.
fn queues(list: &[Value]) -> Result<Vec<QueueShare>, String> {
    let mut parents = Vec::new();
    let mut queues = Vec::new();
    for value in list {
        let mut fields = Fields::new("queue", value)?;
        parents.push(fields.text_or_empty("parent")?);
        let mut resources = Vec::new();
        for (name, parts) in [("cpu_milli", 1.0), ("memory_bytes", 1.0), ("gpus", WHOLE)] {
            let mut share = ResourceShare::default();
            if let Some(value) = fields.maybe(name) {
                let mut own = Fields::new(name, value)?;
                share.deserved = amount("deserved", own.maybe("deserved"), parts)?;
                share.limit = amount("limit", own.maybe("limit"), parts)?;
                share.weight = weight(own.take("over_quota_weight")?)?;
                own.end()?;
            }
            resources.push(share);
        }
        queues.push(QueueShare {
            name: fields.text("name")?.into(),
            parent: None,
            priority: i32::try_from(fields.integer("priority")?.unwrap_or(0))
                .map_err(|_| "priority: is out of range")?,
            created: u64::try_from(fields.integer("created_order")?.unwrap_or(0)).unwrap_or(0),
            resources,
        });
        fields.end()?;
    }
    for at in 0..queues.len() {
        let parent = parents[at];
        if !parent.is_empty() {
            // One that is not known leaves the queue out.
            let known = queues.iter().position(|queue| queue.name == parent);
            queues[at].parent = Some(known.unwrap_or(at));
        }
    }
    Ok(queues)
}

fn job(value: &Value) -> Result<Job, String> {
    let mut fields = Fields::new("job", value)?;
    // A best-effort job is one whose requests are nothing.
    fields.pass(&["started_ago_s", "best_effort"]);
    let job = Job {
        name: fields.text("name")?.into(),
        queue: fields.text("queue")?.into(),
        priority: number(&mut fields, "priority", 1.0)?,
        preemptible: fields.flag("preemptible")?,
        since: -number(&mut fields, "age_minutes", 1000.0)?,
        stale_for: duration(&mut fields, "stale_for_s")?,
        stays_releasing: fields.flag("evicted_pods_stay_releasing")?,
        tree: sub_group_set(fields.take("tree")?)?,
        pods: fields.list("tasks")?.iter().map(pod).collect::<Result<_, _>>()?,
    };
    fields.end()?;
    Ok(job)
}

fn constraint(of: &mut Fields<'_>) -> Result<Option<TopologyConstraint>, String> {
    let Some(value) = of.maybe("topology") else { return Ok(None) };
    let mut fields = Fields::new("topology", value)?;
    let level = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
    let constraint = TopologyConstraint {
        topology: fields.text("topology")?.into(),
        required: level(fields.text_or_empty("required")?),
        preferred: level(fields.text_or_empty("preferred")?),
    };
    fields.end()?;
    Ok(Some(constraint))
}

fn sub_group_set(value: &Value) -> Result<SubGroupSet, String> {
    let mut fields = Fields::new("tree", value)?;
    let set = SubGroupSet {
        name: fields.text("name")?.into(),
        topology: constraint(&mut fields)?,
        groups: fields.list("groups")?.iter().map(sub_group_set).collect::<Result<_, _>>()?,
        pod_sets: fields.list("pod_sets")?.iter().map(pod_set).collect::<Result<_, _>>()?,
    };
    fields.end()?;
    Ok(set)
}

fn pod_set(value: &Value) -> Result<PodSet, String> {
    let mut fields = Fields::new("pod_set", value)?;
    let least = fields.integer("min_available")?.ok_or("min_available: is required")?;
    let set = PodSet {
        name: fields.text("name")?.into(),
        min_available: u32::try_from(least).map_err(|_| "min_available: is out of range")?,
        topology: constraint(&mut fields)?,
    };
    fields.end()?;
    Ok(set)
}

fn pod(value: &Value) -> Result<Pod, String> {
    let mut fields = Fields::new("task", value)?;
    let some = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
    let mut request = Fields::new("request", fields.take("request")?)?;
    let devices = request.integer("gpu_devices")?.unwrap_or(1);
    let portion = request.maybe("gpu_fraction");
    let memory = request.integer("gpu_memory_mib")?;
    let gpu = if let Some(portion) = portion {
        // Rounded up to hundredths.
        let portion = portion.as_f64().ok_or("gpu_fraction: is no number")? * 100.0;
        Gpu::Portion { portion: (portion - 1e-6).ceil() as i64 * 10, devices }
    } else if let Some(memory) = memory {
        Gpu::Memory { memory, devices }
    } else {
        Gpu::Whole(request.integer("gpus")?.unwrap_or(0))
    };
    let (cpu, bytes) =
        (number(&mut request, "cpu_milli", 1.0)?, number(&mut request, "memory_bytes", 1.0)?);
    request.end()?;
    let types = fields.texts("required_node_types")?;
    let pod = Pod {
        name: fields.text("id")?.into(),
        pod_set: fields.text("sub_group")?.into(),
        state: pod_state(fields.text("state")?)?,
        node: some(fields.text_or_empty("node")?),
        devices: fields.texts("gpu_groups")?.into_iter().map(Into::into).collect(),
        order: fields.integer("order_priority")?,
        cpu,
        memory: bytes,
        gpu,
        node_affinity: (!types.is_empty()).then(|| {
            ("kai.scheduler/type".to_string(), types.into_iter().map(Into::into).collect())
        }),
        labels: labels(&mut fields)?,
        affinity: PodAffinity {
            near: some(fields.text_or_empty("affinity_topology_key")?),
            apart: some(fields.text_or_empty("anti_affinity_topology_key")?),
        },
    };
    fields.end()?;
    Ok(pod)
}

fn topology(value: &Value) -> Result<Topology, String> {
    let mut fields = Fields::new("topology", value)?;
    let levels = fields.texts("levels")?.into_iter().map(Into::into).collect();
    let topology = Topology { name: fields.text("name")?.into(), levels };
    fields.end()?;
    Ok(topology)
}

fn rules(value: &Value) -> Result<Rules, String> {
    let mut fields = Fields::new("config", value)?;
    let placement = match fields.maybe("placement") {
        None => None,
        Some(value) => {
            let mut own = Fields::new("placement", value)?;
            let mut read = |name| match own.text(name)? {
                "binpack" => Ok(Placement::Binpack),
                "spread" => Ok(Placement::Spread),
                other => Err(format!("placement.{name}: {other:?} is not known")),
            };
            let placement = (read("gpu")?, read("cpu")?);
            own.end()?;
            Some(placement)
        }
    };
    let gpu_order = match fields.text("gpu_order")? {
        "none" => GpuOrder::None,
        "pack" => GpuOrder::Pack,
        "spread" => GpuOrder::Spread,
        other => return Err(format!("gpu_order: {other:?} is not known")),
    };
    let plugins = match fields.take("plugins")? {
        Value::String(text) if text == "default" => None,
        Value::Array(names) => {
            let name = |name: &Value| name.as_str().map(Into::into).ok_or("plugins: no texts");
            Some(names.iter().map(name).collect::<Result<_, _>>()?)
        }
        other => return Err(format!("plugins: {other} is not known")),
    };
    if fields.flag("skip_harder_jobs")? {
        return Err("skip_harder_jobs: is not known".into());
    }
    if fields.maybe("queue_depth").is_some() {
        return Err("queue_depth: is not known".into());
    }
    let grace = fields.maybe("stale_grace_s").and_then(Value::as_f64).unwrap_or(60.0);
    let victims = fields.integer("max_consolidation_victims")?;
    let parts = |value: Option<&Value>, parts: f64| {
        value.and_then(Value::as_f64).map_or(0, |number| (number * parts).round() as u64)
    };
    let rules = Rules {
        placement,
        gpu_order,
        plugins,
        stale_grace: Duration::try_from_secs_f64(grace).ok(),
        consolidating_reclaim: fields.flag("allow_consolidating_reclaim")?,
        consolidation_victims: victims.map(|most| usize::try_from(most).unwrap_or(0)),
        usage_factor: parts(fields.maybe("usage_k"), 1e9),
        saturation: parts(fields.maybe("saturation_multiplier"), 1e3).max(1000),
    };
    fields.end()?;
    Ok(rules)
}
