//! Content of a submitted object, in types of the model.

use alloc::string::String;
use alloc::vec::Vec;

use crate::base::ObjectName;
use crate::kubernetes::membership::WorkloadKind;

/// An object that people submit, and what it became: the summary beside the groups.
///
/// ```
/// use phalanx::kubernetes::{Mode, Reader};
///
/// let text = r#"{"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"},
///     "spec": {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "c"}]}}},
///         "workerGroupSpecs": [{"groupName": "gpu", "replicas": 3, "minReplicas": 2,
///             "template": {"spec": {"containers": [{"name": "c"}]}}}]}}"#;
/// let mut reader = Reader::new(Mode::AsWritten);
/// reader.read("ray.json", &mut serde_json::Deserializer::from_str(text))?;
/// let manifests = reader.finish()?;
/// let cluster = &manifests.workloads[0];
/// assert_eq!((cluster.roles[1].count, cluster.roles[1].min_count), (3, 2));
/// assert_eq!(manifests.groups[0].full_name(), cluster.groups[0]);
/// # Ok::<(), phalanx::kubernetes::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubmittedWorkload {
    /// The kind.
    pub kind: WorkloadKind,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The queue that the object names: a field of its own, Kueue's label (a `LocalQueue`), KAI's
    /// label, Volcano's annotation, the first that is there; empty without.
    pub queue: String,
    /// The priority class that the object names, by a field of its own or by a label.
    pub priority_class: Option<String>,
    /// Whether it is suspended: its pods do not exist until it is resumed.
    pub suspended: bool,
    /// Its groups of pods by full name, each placed by itself. None where its templates put the
    /// pods in another group, or where it has no pods.
    pub groups: Vec<ObjectName>,
    /// Its roles, in the order of the object.
    pub roles: Vec<WorkloadRole>,
}

/// Pods of one template in a workload.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WorkloadRole {
    /// The name: of a replicated job, a task, a replica type in lower case, a worker group.
    pub name: String,
    /// How many pods each group has of it.
    pub count: u32,
    /// How many of those the group needs of this role; 0 where the minimum is of the group as a
    /// whole, or there is none.
    pub min_count: u32,
    /// Whether the others wait for it, or report to it.
    pub leader: bool,
    /// Conditions before its pods are made; all of them.
    pub starts_after: Vec<StartAfter>,
}

/// A role that another waits for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StartAfter {
    /// The role waited for.
    pub role: String,
    /// How far that role must be.
    pub until: StartCondition,
}

/// How far a role must be before another starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum StartCondition {
    /// Its pods are ready, or have succeeded.
    Ready,
    /// Its pods have succeeded.
    Complete,
}

impl StartAfter {
    pub(super) fn new(role: &str, until: StartCondition) -> StartAfter {
        StartAfter { role: role.into(), until }
    }
}
