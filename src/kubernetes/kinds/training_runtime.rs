//! `TrainingRuntime` and `ClusterTrainingRuntime` of `trainer.kubeflow.org`.

use alloc::string::{String, ToString};

use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::metadata;
use crate::kubernetes::value::Value;

/// The label of the replicated job that trains.
pub(super) const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";

/// The name of a runtime: its namespace, empty for one of the cluster, and its own.
pub(in crate::kubernetes) type RuntimeName = (String, String);

/// Additions of a training job to its runtime.
#[derive(Debug, Clone)]
pub(in crate::kubernetes) struct TrainJob {
    pub(in crate::kubernetes) runtime: RuntimeName,
    /// How many nodes train.
    pub(super) nodes: Option<i64>,
    /// The resources of each.
    pub(super) resources: Option<Value>,
}

/// The name of a runtime.
///
/// # Errors
/// It has no name, or no template.
pub(in crate::kubernetes) fn runtime_name(
    root: &Field<'_>,
    of_cluster: bool,
) -> Fault<RuntimeName> {
    root.need("spec")?.need("template")?.need("spec")?;
    let namespace = if of_cluster { String::new() } else { metadata::namespace(root)? };
    Ok((namespace, metadata::name(root)?))
}

/// The runtime, the container `node` of its training step with the job's resources.
pub(super) fn with_resources(mut runtime: Value, resources: &Value) -> Value {
    let path = ["spec", "template", "spec", "replicatedJobs"];
    let jobs = path.iter().try_fold(&mut runtime, |at, name| entry_mut(at, name));
    let Some(Value::List(jobs)) = jobs else { return runtime };
    for job in jobs {
        let labels = ["template", "metadata", "labels", STEP];
        let step = labels.iter().try_fold(&*job, |at, name| at.entry(name));
        if step.and_then(Value::text) != Some("trainer") {
            continue;
        }
        let path = ["template", "spec", "template", "spec", "containers"];
        let containers = path.iter().try_fold(job, |at, name| entry_mut(at, name));
        let Some(Value::List(containers)) = containers else { continue };
        for container in containers {
            let is_node = container.entry("name").and_then(Value::text) == Some("node");
            if is_node && let Value::Map(entries) = container {
                entries.retain(|(name, _)| name != "resources");
                entries.push(("resources".to_string(), resources.clone()));
            }
        }
    }
    runtime
}

/// The last entry of a name in a map.
fn entry_mut<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    match value {
        Value::Map(entries) => {
            entries.iter_mut().rev().find(|(key, _)| key == name).map(|(_, value)| value)
        }
        _ => None,
    }
}
