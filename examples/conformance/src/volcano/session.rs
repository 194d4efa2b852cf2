//! Sessions of Volcano.

use std::collections::{BTreeMap, BTreeSet};

use crate::sessions::volcano::{
    Action, Configuration, JobInput, NodeInput, NodeOrderWeights, Phase, Plugin, QueueInput,
    SessionInput, SessionOutcome, TaskInput, TaskStatus, TierPlugin, Vote, session,
};
use phalanx::kubernetes::{self, Mode};
use phalanx::quota::volcano::Resources;
use serde_json::{Map, Value, json};

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::amounts::of_session;
use super::left_out;

const TASK_ROLE: &str = "volcano.sh/task-spec";

/// Fields of what is left out, with the rule's name in `docs/tenants/volcano.md`.
const LEFT_OUT: [(&str, &str); 12] = [
    ("ShardingMode", "volcano-shards"),
    ("ShardName", "volcano-shards"),
    ("NodesInShard", "volcano-shards"),
    ("hypernodes", "volcano-network-topology"),
    ("hypernodes_by_tier", "volcano-network-topology"),
    ("hypernode_nodes", "volcano-network-topology"),
    ("pvs", "volcano-volumes"),
    ("pvcs", "volcano-volumes"),
    ("scs", "volcano-volumes"),
    ("ignoreprovisioners", "volcano-volumes"),
    ("resourceclaims", "volcano-claims"),
    ("resource_quotas", "volcano-other-plugins"),
];

/// Compares a session.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    let input = read(&mut case.input)?;
    let outcome = session(input).map_err(|error| error.to_string())?;
    expectations(&mut case.expect, &outcome)
}

fn read(fields: &mut Fields<'_>) -> Result<SessionInput, Stop> {
    for (name, rule) in LEFT_OUT {
        if fields.maybe(name).is_some() {
            return Err(left_out(rule));
        }
    }
    let mut registered = BTreeSet::new();
    for name in fields.texts("plugins")? {
        registered.insert(plugin(name).ok_or_else(|| match name {
            "network-topology-aware" => left_out("volcano-network-topology"),
            "tdm" => left_out("volcano-time-division"),
            _ => left_out("volcano-other-plugins"),
        })?);
    }
    let mut configuration = Configuration::default();
    for tier in fields.list("tiers")? {
        let mut plugins = Vec::new();
        for own in tier.as_array().ok_or("tiers: is no list of lists")? {
            plugins.extend(tier_plugin(own, &registered, &mut configuration)?);
        }
        configuration.tiers.push(plugins);
    }
    for name in fields.texts("actions")? {
        configuration.actions.push(match name {
            "enqueue" => Action::Enqueue,
            "allocate" => Action::Allocate,
            "backfill" => Action::Backfill,
            "preempt" => Action::Preempt,
            "reclaim" => Action::Reclaim,
            _ => return Err(Stop::Bad(format!("actions: {name} is not known"))),
        });
    }
    for own in fields.list("action_config")? {
        action_arguments(own, &mut configuration)?;
    }
    let classes = classes(fields.list("priority_classes")?)?;
    let mut input = SessionInput { configuration, ..SessionInput::default() };
    for own in fields.list("nodes")? {
        input.nodes.push(node(own)?);
    }
    for own in fields.list("queues")? {
        input.queues.push(queue(own)?);
    }
    for own in fields.list("groups")? {
        input.jobs.push(job(own, &classes)?);
    }
    for own in fields.list("pods")? {
        input.tasks.push(task(own)?);
    }
    Ok(input)
}

fn plugin(name: &str) -> Option<Plugin> {
    Some(match name {
        "gang" => Plugin::Gang,
        "priority" => Plugin::Priority,
        "drf" => Plugin::Drf,
        "proportion" => Plugin::Proportion,
        "capacity" => Plugin::Capacity,
        "conformance" => Plugin::Conformance,
        "predicates" => Plugin::Predicates,
        "nodeorder" => Plugin::NodeOrder,
        _ => return None,
    })
}

fn vote(name: &str) -> Result<Option<Vote>, String> {
    Ok(Some(match name {
        "JobOrder" => Vote::JobOrder,
        "QueueOrder" => Vote::QueueOrder,
        "TaskOrder" => Vote::TaskOrder,
        "JobReady" => Vote::JobReady,
        "JobPipelined" => Vote::JobPipelined,
        "JobStarving" => Vote::JobStarving,
        "JobEnqueued" => Vote::JobEnqueued,
        "Preemptable" => Vote::Preemptable,
        "Reclaimable" => Vote::Reclaimable,
        "Preemptive" => Vote::Preemptive,
        "Allocatable" => Vote::Allocatable,
        "Overused" => Vote::Overused,
        "Predicate" => Vote::Predicate,
        "NodeOrder" => Vote::NodeOrder,
        "Hierarchy" => Vote::Hierarchy,
        // None of the plugins that are known has a say in these.
        "BestNode" | "TargetJob" | "ReservedNodes" | "Victim" | "ClusterOrder" => return Ok(None),
        _ => return Err(format!("enabled: {name} is not known")),
    }))
}

fn tier_plugin(
    value: &Value,
    registered: &BTreeSet<Plugin>,
    configuration: &mut Configuration,
) -> Result<Option<TierPlugin>, Stop> {
    let mut fields = Fields::new("plugin", value)?;
    let name = fields.text("name")?;
    let mut votes = BTreeSet::new();
    for name in fields.texts("enabled")? {
        votes.extend(vote(name)?);
    }
    // What is off has not been named among what is on.
    for name in fields.texts("disabled")? {
        vote(name)?;
    }
    let arguments = fields.entries("arguments")?;
    fields.end()?;
    let Some(plugin) = plugin(name).filter(|plugin| registered.contains(plugin)) else {
        return Ok(None);
    };
    for (name, value) in arguments {
        argument(plugin, name, value, configuration)?;
    }
    Ok(Some(TierPlugin { plugin, votes }))
}

fn argument(
    plugin: Plugin,
    name: &str,
    value: &Value,
    configuration: &mut Configuration,
) -> Result<(), Stop> {
    if name == "capacity.DynamicResourceAllocationEnable" {
        return Err(left_out("volcano-claims"));
    }
    let number = value.as_i64().ok_or_else(|| format!("{name}: is no integer: {value}"))?;
    let weights: &mut NodeOrderWeights = &mut configuration.weights;
    let weight = match (plugin, name) {
        (Plugin::Capacity, "ancestorReclaimLevel") => {
            configuration.ancestor_reclaim_level = number.max(0) as usize;
            return Ok(());
        }
        (Plugin::NodeOrder, "leastrequested.weight") => &mut weights.least_requested,
        (Plugin::NodeOrder, "mostrequested.weight") => &mut weights.most_requested,
        (Plugin::NodeOrder, "nodeaffinity.weight") => &mut weights.node_affinity,
        (Plugin::NodeOrder, "podaffinity.weight") => &mut weights.pod_affinity,
        (Plugin::NodeOrder, "balancedresource.weight") => &mut weights.balanced_resource,
        (Plugin::NodeOrder, "tainttoleration.weight") => &mut weights.taint_toleration,
        (Plugin::NodeOrder, "imagelocality.weight") => &mut weights.image_locality,
        (Plugin::NodeOrder, "podtopologyspread.weight") => &mut weights.pod_topology_spread,
        _ => return Err(Stop::Bad(format!("arguments: {name} is not known"))),
    };
    *weight = u32::try_from(number).map_err(|_| format!("{name}: is no weight: {number}"))?;
    Ok(())
}

fn action_arguments(value: &Value, configuration: &mut Configuration) -> Result<(), Stop> {
    let mut fields = Fields::new("action_config", value)?;
    let name = fields.text("Name")?;
    let mut arguments = Fields::new("Arguments", fields.take("Arguments")?)?;
    fields.end()?;
    if name == "preempt" {
        configuration.topology_aware_preemption =
            arguments.flag("enableTopologyAwarePreemption")?;
    }
    Ok(arguments.end()?)
}

fn classes(list: &[Value]) -> Result<BTreeMap<String, i32>, Stop> {
    let mut classes = BTreeMap::new();
    for value in list {
        let mut fields = Fields::new("priorityClass", value)?;
        let name = fields.text("name")?.to_string();
        let value = fields.integer("value")?.ok_or("priorityClass.value: is required")?;
        fields.pass(&["preemption_policy"]);
        fields.end()?;
        classes.insert(name, i32::try_from(value).map_err(|error| error.to_string())?);
    }
    Ok(classes)
}

/// Amounts as Kubernetes writes them.
fn quantities(value: &Value) -> Result<Value, String> {
    let mut quantities = Map::new();
    for (name, value) in value.as_object().ok_or("amounts: is no object")? {
        let amount = value.as_f64().ok_or_else(|| format!("{name}: is no number"))?;
        let (name, text) = match name.as_str() {
            "cpu_milli" => ("cpu", format!("{amount}m")),
            "memory_bytes" => ("memory", format!("{amount}")),
            name => (name, format!("{amount}")),
        };
        quantities.insert(name.into(), text.into());
    }
    Ok(quantities.into())
}

/// An object as Go writes its fields, with names as JSON has them.
fn lowered(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let lower = |(name, value): (&String, &Value)| {
                let value = if name == "MatchLabels" { value.clone() } else { lowered(value) };
                let mut letters = name.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect::<String>(), value)
            };
            Value::Object(fields.iter().map(lower).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(lowered).collect()),
        value => value.clone(),
    }
}

fn manifest(object: Value) -> Result<kubernetes::Value, String> {
    serde_json::from_value(object).map_err(|error| error.to_string())
}

fn node(value: &Value) -> Result<NodeInput, Stop> {
    let mut fields = Fields::new("node", value)?;
    let allocatable = fields.take("allocatable")?;
    let taints: Vec<Value> = fields.list("taints")?.iter().map(lowered).collect();
    let amounts = quantities(allocatable)?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": fields.text("name")?,
            "labels": fields.maybe("labels").cloned().unwrap_or_else(|| json!({})),
        },
        "spec": {"taints": taints, "unschedulable": fields.flag("unschedulable")?},
        "status": {"allocatable": amounts.clone(), "capacity": amounts},
    });
    fields.end()?;
    let node = kubernetes::node(&manifest(object)?, Mode::AsWritten);
    let node = node.map_err(|error| error.to_string())?;
    Ok(NodeInput { node, allocatable: of_session("allocatable", allocatable)? })
}

fn queue(value: &Value) -> Result<QueueInput, Stop> {
    let mut fields = Fields::new("queue", value)?;
    let mut amounts = |name| -> Result<Option<Resources>, Stop> {
        let Some(value) = fields.maybe(name) else { return Ok(None) };
        let names = value.as_object().ok_or("amounts: is no object")?;
        if names.keys().any(|name| name.contains("deviceclass/")) {
            return Err(left_out("volcano-claims"));
        }
        Ok(Some(of_session(name, value)?))
    };
    let (deserved, capability) = (amounts("deserved")?, amounts("capability")?);
    let guarantee = amounts("guarantee")?;
    let queue = QueueInput {
        name: fields.text("name")?.into(),
        weight: fields.integer("weight")?.unwrap_or(0) as f64,
        deserved,
        capability,
        guarantee,
        priority: fields.integer("priority")?.unwrap_or(0) as i32,
        parent: fields.text_or_empty("parent")?.into(),
        reclaimable: fields.maybe("reclaimable").is_none_or(|value| value == &Value::Bool(true)),
        open: fields.text("state")? == "Open",
        hierarchy: fields.text_or_empty("hierarchy")?.into(),
        hierarchy_weights: fields.text_or_empty("hierarchy_weights")?.into(),
    };
    fields.end()?;
    Ok(queue)
}

fn phase(name: &str) -> Result<Phase, String> {
    Ok(match name {
        "Pending" | "" => Phase::Pending,
        "Inqueue" => Phase::Inqueue,
        "Running" => Phase::Running,
        "Unknown" => Phase::Unknown,
        "Completed" => Phase::Completed,
        _ => return Err(format!("phase: {name} is not known")),
    })
}

fn job(value: &Value, classes: &BTreeMap<String, i32>) -> Result<JobInput, Stop> {
    let mut fields = Fields::new("group", value)?;
    for name in ["topology", "subgroups"] {
        if fields.maybe(name).is_some() {
            return Err(left_out("volcano-network-topology"));
        }
    }
    let class = fields.text_or_empty("priority_class")?;
    let minima = fields.integers("min_task_member")?;
    let minimum = fields.maybe("min_resources");
    let job = JobInput {
        name: fields.text("name")?.into(),
        queue: fields.text("queue")?.into(),
        min_member: fields.integer("min_member")?.unwrap_or(0) as i32,
        min_task_member: minima.into_iter().map(|(role, least)| (role, least as i32)).collect(),
        min_resources: minimum.map(|value| of_session("min_resources", value)).transpose()?,
        priority: classes.get(class).copied().unwrap_or(0),
        phase: phase(fields.text_or_empty("phase")?)?,
    };
    fields.pass(&["annotations"]);
    fields.end()?;
    Ok(job)
}

fn task(value: &Value) -> Result<TaskInput, Stop> {
    let mut fields = Fields::new("pod", value)?;
    for (name, rule) in [("volumes", "volcano-volumes"), ("resource_claims", "volcano-claims")] {
        if fields.maybe(name).is_some() {
            return Err(left_out(rule));
        }
    }
    let (namespace, name) = fields.text("name")?.split_once('/').ok_or("pod.name: has no /")?;
    let requests = fields.take("requests")?;
    let labels = fields.maybe("labels").cloned().unwrap_or_else(|| json!({}));
    let annotations = fields.maybe("annotations").cloned().unwrap_or_else(|| json!({}));
    let lists = |fields: &mut Fields<'_>, name| -> Result<Vec<Value>, String> {
        Ok(fields.list(name)?.iter().map(lowered).collect())
    };
    let affinity = fields.maybe("affinity").map_or_else(|| json!({}), lowered);
    let class = fields.text_or_empty("priority_class")?;
    let priority = fields.integer("priority")?;
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels.clone()},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": quantities(requests)?}}],
            "nodeSelector": fields.maybe("node_selector").cloned().unwrap_or_else(|| json!({})),
            "affinity": affinity,
            "tolerations": lists(&mut fields, "tolerations")?,
            "topologySpreadConstraints": lists(&mut fields, "spread")?,
        },
    });
    if let Some(priority) = priority {
        object["spec"]["priority"] = priority.into();
    }
    let pod = kubernetes::pod(&manifest(object)?, Mode::AsWritten);
    let pod = pod.map_err(|error| error.to_string())?.ok_or("pod: is done")?;
    let node = fields.text_or_empty("node")?;
    let status = match fields.text("phase")? {
        "Pending" if node.is_empty() => TaskStatus::Pending,
        "Pending" => TaskStatus::Bound,
        "Running" => TaskStatus::Running,
        "Succeeded" => TaskStatus::Succeeded,
        "Failed" => TaskStatus::Failed,
        "Unknown" => TaskStatus::Unknown,
        phase => return Err(Stop::Bad(format!("pod.phase: {phase} is not known"))),
    };
    let role = [labels.get(TASK_ROLE), annotations.get(TASK_ROLE)].into_iter().flatten().next();
    let policy = fields.text_or_empty("preemption_policy")?;
    if !["", "Never", "PreemptLowerPriority"].contains(&policy) {
        return Err(Stop::Bad(format!("preemption_policy: {policy} is not known")));
    }
    let task = TaskInput {
        pod,
        job: format!("{namespace}/{}", fields.text_or_empty("group")?),
        requests: of_session("requests", requests)?.plus(&Resources::default().scalar("pods", 1.0)),
        priority: priority.unwrap_or(1) as i32,
        node: (!node.is_empty()).then(|| node.into()),
        status,
        role: role.and_then(Value::as_str).unwrap_or("").into(),
        preemptable: fields.maybe("preemptable").is_none_or(|value| value == &Value::Bool(true)),
        never_preempts: policy == "Never",
        critical: namespace == "kube-system" || class.starts_with("system-"),
    };
    fields.end()?;
    Ok(task)
}

fn expectations(expect: &mut Fields<'_>, outcome: &SessionOutcome) -> Result<(), Stop> {
    expect.pass(&["peer_check_is_vacuous"]);
    let named = expect.maybe("bound").is_some();
    let mut bound = BTreeMap::new();
    for (task, node) in expect.entries("bound")? {
        bound.insert(task.to_string(), node.as_str().ok_or("bound: has no texts")?.to_string());
    }
    if named && outcome.tied {
        // Volcano draws among nodes with the best score.
        let tasks =
            |bound: &BTreeMap<String, String>| -> Vec<String> { bound.keys().cloned().collect() };
        same("bound tasks", &tasks(&bound), &tasks(&outcome.bound))?;
    } else if named {
        same("bound", &bound, &outcome.bound)?;
    }
    let counts = [("bound_count", outcome.bound.len()), ("evicted_count", outcome.evicted.len())];
    if expect.maybe("evicted").is_some() {
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let expected = expect.texts("evicted")?.into_iter().map(Into::into).collect();
        same("evicted", &sorted(expected), &sorted(outcome.evicted.clone()))?;
    }
    for (name, actual) in counts {
        if let Some(expected) = expect.integer(name)? {
            same(name, &expected, &(actual as i64))?;
        }
    }
    for (group, nodes) in expect.entries("pipelined")? {
        let allowed: Vec<&str> =
            nodes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let actual = outcome.pipelined.get(group).map_or(&[][..], Vec::as_slice);
        let within = !actual.is_empty() && actual.iter().all(|own| allowed.contains(&own.as_str()));
        same(format!("pipelined {group} on {allowed:?}, not {actual:?}"), &true, &within)?;
    }
    for (group, value) in expect.entries("group_phase")? {
        let expected = phase(value.as_str().ok_or("group_phase: is no text")?)?;
        same(format!("phase {group}"), &Some(&expected), &outcome.phases.get(group))?;
    }
    for (group, counts) in expect.entries("task_status_counts")? {
        let own = outcome.statuses.get(group).cloned().unwrap_or_default();
        for (code, count) in counts.as_object().ok_or("task_status_counts: is no object")? {
            let status = code.parse().ok().and_then(TaskStatus::from_code);
            let status = status.ok_or_else(|| format!("{code}: is no status"))?;
            let actual = own.get(&status).copied().unwrap_or(0) as i64;
            same(format!("{group} {status:?}"), &count.as_i64(), &Some(actual))?;
        }
    }
    Ok(())
}
