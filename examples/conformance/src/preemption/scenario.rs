//! A cluster with what preemption reads beside it.

use phalanx::kubernetes::{self, Mode};
use phalanx::model::{DisruptionMode, LabelSelector, Operator, Requirement};
use phalanx::preempt::kubernetes::PreemptionSnapshot;
use phalanx::preempt::{DisruptionBudget, RunningWork};
use phalanx::{Cluster, Pod, PodGroup, Time};
use serde_json::Value;

use super::super::expect::{list, text};
use super::super::scenario;

/// The subject of a case.
pub(super) struct Scenario {
    inner: scenario::Scenario,
    pub(super) work: RunningWork,
    /// Status of running pods in the manifests, in order.
    running: Vec<Status>,
    /// The nodes that pending pods are nominated to.
    nominated: Vec<Option<String>>,
    /// Names of pods, in the order of attempts that build on each other.
    pub(super) sequence: Option<Vec<String>>,
}

/// Fields of a running pod beside the pod itself.
struct Status {
    namespace: String,
    name: String,
    preempted: bool,
}

/// The moment at which all cases are asked.
pub(super) fn now() -> Time {
    // 2026-01-03T00:00:00Z
    Time::from_secs(1_767_398_400)
}

const KNOWN: [&str; 9] = [
    "namespaces",
    "nodes",
    "bound",
    "pending",
    "pdbs",
    "podGroups",
    "gang",
    "sequence",
    "fitStrategy",
];

/// Reads a scenario.
pub(super) fn read(mut of: Value) -> Result<Scenario, String> {
    let fields = of.as_object().ok_or("scenario: is no object")?;
    if let Some(field) = fields.keys().find(|field| !KNOWN.contains(&field.as_str())) {
        return Err(format!("scenario.{field}: is not known"));
    }
    let members = |of: &Value, name: &str| -> Result<Vec<Value>, String> {
        Ok(if of.get(name).is_none_or(Value::is_null) {
            Vec::new()
        } else {
            list(of, name)?.to_vec()
        })
    };
    let mut work = RunningWork::new();
    for manifest in members(&of, "pdbs")? {
        work.set_budget(budget(&manifest)?);
    }
    for manifest in members(&of, "podGroups")? {
        work.set_group(&group(&manifest)?).map_err(|error| error.to_string())?;
    }
    let bound = members(&of, "bound")?;
    let pending = members(&of, "pending")?;
    let sequence = match of.get("sequence") {
        None | Some(Value::Null) => None,
        Some(_) => {
            let name = |value: &Value| value.as_str().map(String::from).ok_or("sequence: no text");
            Some(list(&of, "sequence")?.iter().map(name).collect::<Result<_, _>>()?)
        }
    };
    // Pods that run are read here, with what their status says.
    if let Some(fields) = of.as_object_mut() {
        fields.remove("bound");
    }
    let mut inner = scenario::read(of)?;
    let mut running = Vec::new();
    for manifest in bound {
        let Some((pod, status)) = pod(&manifest)? else { continue };
        inner.cluster.add_pod(pod).map_err(|error| error.to_string())?;
        running.push(status);
    }
    let mut nominated = Vec::new();
    inner.pending.clear();
    for manifest in pending {
        let Some((pod, _)) = pod(&manifest)? else { continue };
        inner.pending.push(pod);
        let node = manifest.pointer("/status/nominatedNodeName").and_then(Value::as_str);
        nominated.push(node.filter(|node| !node.is_empty()).map(String::from));
    }
    Ok(Scenario { inner, work, running, nominated, sequence })
}

impl Scenario {
    /// The pending pods, in order.
    pub(super) fn pending(&self) -> &[Pod] {
        &self.inner.pending
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    /// The pending pods that are nominated to a node, with that node.
    pub(super) fn nominations(&self) -> impl Iterator<Item = (&Pod, &str)> {
        let all = self.pending().iter().zip(&self.nominated);
        all.filter_map(|(pod, node)| Some((pod, node.as_deref()?)))
    }

    /// The namespace and the name of a running pod.
    pub(super) fn running_pod(&self, name: &str) -> Result<(&str, &str), String> {
        let mut all = self.running.iter().filter(|pod| pod.name == name);
        match (all.next(), all.next()) {
            (Some(pod), None) => Ok((&pod.namespace, &pod.name)),
            (None, _) => Err(format!("victim {name}: does not run")),
            (Some(_), Some(_)) => Err(format!("victim {name}: runs in two namespaces")),
        }
    }

    /// The snapshot at the beginning.
    pub(super) fn snapshot(&self) -> Result<PreemptionSnapshot<'_>, String> {
        let (cluster, framework) = (&self.inner.cluster, &self.inner.framework);
        let mut snapshot = PreemptionSnapshot::new(cluster, framework, &self.work, now());
        let told = |error: phalanx::StateError| error.to_string();
        for (place, status) in self.running.iter().enumerate() {
            snapshot.set_place(&status.namespace, &status.name, place as u64).map_err(told)?;
            if status.preempted {
                snapshot.preempt(&status.namespace, &status.name).map_err(told)?;
            }
        }
        for (pod, node) in self.nominations() {
            snapshot.nominate(pod, node).map_err(told)?;
        }
        Ok(snapshot)
    }

    /// The group of the first pending pod, with its pending members.
    pub(super) fn gang(&self) -> Result<PodGroup, String> {
        let (minimum, key) = self.inner.gang.clone().ok_or("scenario.gang: is required")?;
        let first = self.pending().first().ok_or("scenario.pending: is empty")?;
        let name = first.group.as_ref().ok_or("scenario.pending[0]: is in no group")?;
        let object = self.work.group(first.namespace(), name);
        let object = object.ok_or_else(|| format!("group {name}: is not there"))?;
        let mut gang = PodGroup::gang(name, minimum).in_namespace(first.namespace());
        gang.priority = object.priority;
        gang.topology.require = key;
        let member = |pod: &&Pod| pod.group == first.group && pod.namespace() == first.namespace();
        gang.pods = self.pending().iter().filter(member).cloned().collect();
        Ok(gang)
    }
}

/// A pod with what its status says; `None` of one that has finished.
fn pod(manifest: &Value) -> Result<Option<(Pod, Status)>, String> {
    let object: kubernetes::Value =
        serde_json::from_value(manifest.clone()).map_err(|error| error.to_string())?;
    let pod = kubernetes::pod(&object, Mode::AsStored).map_err(|error| error.to_string())?;
    let Some(mut pod) = pod else { return Ok(None) };
    if let Some(start) = manifest.pointer("/status/startTime").and_then(Value::as_str) {
        pod.start = Some(seconds(start).ok_or(format!("status.startTime: {start:?}"))?);
    }
    let group = manifest.pointer("/spec/schedulingGroup/podGroupName").and_then(Value::as_str);
    pod.group = group.map(String::from);
    match manifest.pointer("/spec/preemptionPolicy").and_then(Value::as_str) {
        None | Some("PreemptLowerPriority") => {}
        Some("Never") => pod = pod.never_preempting(),
        Some(other) => return Err(format!("spec.preemptionPolicy: {other:?} is not known")),
    }
    let conditions = manifest.pointer("/status/conditions").and_then(Value::as_array);
    let is = |condition: &Value, name: &str, value: &str| {
        condition.get(name).and_then(Value::as_str) == Some(value)
    };
    let target = conditions.into_iter().flatten().find(|c| is(c, "type", "DisruptionTarget"));
    let preempted = pod.deleting
        && target.is_some_and(|target| {
            is(target, "status", "True") && is(target, "reason", "PreemptionByScheduler")
        });
    let status = Status { namespace: pod.namespace().into(), name: pod.name.clone(), preempted };
    Ok(Some((pod, status)))
}

fn budget(manifest: &Value) -> Result<DisruptionBudget, String> {
    let (metadata, spec) = (part(manifest, "metadata")?, part(manifest, "spec")?);
    let mut selector = LabelSelector::default();
    for (key, value) in spec.pointer("/selector/matchLabels").into_iter().flat_map(entries) {
        let value = value.as_str().ok_or("matchLabels: is no text")?;
        selector.match_labels.insert(key.clone(), value.into());
    }
    let expressions = spec.pointer("/selector/matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let operator = Operator::from(text(expression, "operator")?.to_string());
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let requirement = Requirement::new(text(expression, "key")?, operator, values);
        selector.match_expressions.push(requirement);
    }
    let allowed = manifest.pointer("/status/disruptionsAllowed").and_then(Value::as_i64);
    let budget = DisruptionBudget::new(text(metadata, "name")?, selector, allowed.unwrap_or(0))
        .in_namespace(text(metadata, "namespace")?);
    let disrupted = manifest.pointer("/status/disruptedPods").into_iter().flat_map(entries);
    Ok(disrupted.fold(budget, |budget, (pod, _)| budget.disrupted(pod)))
}

fn group(manifest: &Value) -> Result<PodGroup, String> {
    let (metadata, spec) = (part(manifest, "metadata")?, part(manifest, "spec")?);
    let group = PodGroup::basic(text(metadata, "name")?);
    let mut group = group.in_namespace(text(metadata, "namespace")?);
    let priority = spec.get("priority").and_then(Value::as_i64).unwrap_or(0);
    group.priority = i32::try_from(priority).map_err(|error| error.to_string())?;
    group.disruption = match spec.get("disruptionMode").and_then(Value::as_str) {
        None | Some("Pod") => DisruptionMode::Single,
        Some("PodGroup") => DisruptionMode::All,
        Some(other) => return Err(format!("disruptionMode: {other:?} is not known")),
    };
    Ok(group)
}

fn part<'a>(of: &'a Value, name: &str) -> Result<&'a Value, String> {
    of.get(name).ok_or_else(|| format!("{name}: is required"))
}

fn entries(of: &Value) -> impl Iterator<Item = (&String, &Value)> {
    of.as_object().into_iter().flatten()
}

/// The time that a text such as `2026-01-02T03:04:05Z` means.
fn seconds(text: &str) -> Option<Time> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[i64; 3]> {
        let parts: Vec<i64> = text.split(by).map(str::parse).collect::<Result<_, _>>().ok()?;
        parts.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    // Days since 1970 of a civil date, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(Time::from_secs(u64::try_from(seconds).ok()?))
}
