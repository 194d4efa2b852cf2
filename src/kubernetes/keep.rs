//! The fields of an object that are read at all.
//!
//! A dump of a cluster is mostly environment variables, probes and managed fields. What bears on
//! nothing that is placed is skipped while it is parsed; fields that are not known are kept, since
//! they must be named.

/// A filter on the fields of an object. Lists are looked through.
#[derive(Debug)]
pub(super) enum Keep {
    /// Everything.
    All,
    /// These fields.
    Fields(&'static [(&'static str, Keep)]),
    /// Every field but these.
    But(&'static [&'static str]),
    /// An object: its metadata and its status by what is read of them, of the rest all but what
    /// bears on no placement anywhere.
    Object,
    /// Content inside an object.
    Inside,
}

impl Keep {
    /// The part of a field to keep; `None` if the field is skipped.
    pub(super) fn field(&self, name: &str) -> Option<&Keep> {
        match self {
            Keep::All => Some(self),
            Keep::Fields(fields) => {
                fields.iter().find(|(field, _)| *field == name).map(|(_, keep)| keep)
            }
            Keep::But(skipped) => (!skipped.contains(&name)).then_some(&All),
            Keep::Object => match name {
                "metadata" => Some(&METADATA),
                "status" => Some(&STATUS),
                "data" | "binaryData" | "stringData" | "rules" | "webhooks" => None,
                _ => Some(&Keep::Inside),
            },
            Keep::Inside if SKIPPED.contains(&name) => None,
            Keep::Inside => Some(match name {
                "metadata" => &METADATA,
                _ if FREE.contains(&name) => &All,
                _ => &Keep::Inside,
            }),
        }
    }
}

use Keep::{All, But, Fields};

/// Fields that bear on no placement, wherever they stand.
const SKIPPED: [&str; 21] = [
    "args",
    "command",
    "env",
    "envFrom",
    "imagePullPolicy",
    "imagePullSecrets",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
    "entrypoint",
    "runtimeEnvYAML",
];

/// Objects whose names are their writer's own.
const FREE: [&str; 12] = [
    "attributes",
    "capacity",
    "counters",
    "labels",
    "annotations",
    "nodeSelector",
    "selector",
    "matchLabels",
    "requests",
    "limits",
    "overhead",
    "minTaskMember",
];

static METADATA: Keep = Fields(&[
    ("name", All),
    ("generateName", All),
    ("namespace", All),
    ("uid", All),
    ("resourceVersion", All),
    ("labels", All),
    ("annotations", But(&["kubectl.kubernetes.io/last-applied-configuration"])),
    ("ownerReferences", All),
    ("creationTimestamp", All),
    ("deletionTimestamp", All),
]);

const CONTAINER_STATUS: Keep = Fields(&[
    ("name", All),
    ("resources", Fields(&[("requests", All)])),
    ("allocatedResources", All),
]);

static STATUS: Keep = Fields(&[
    ("phase", All),
    ("state", All),
    ("startTime", All),
    ("active", All),
    ("ready", All),
    ("succeeded", All),
    ("failed", All),
    ("replicas", All),
    ("availableWorkerReplicas", All),
    ("replicatedJobsStatus", All),
    ("replicaStatuses", All),
    ("taskStatusCount", All),
    ("jobsStatus", All),
    ("jobDeploymentStatus", All),
    ("rayClusterStatus", Fields(&[("state", All)])),
    ("activeServiceStatus", Fields(&[("rayClusterName", All)])),
    ("pendingServiceStatus", Fields(&[("rayClusterName", All)])),
    ("applicationState", Fields(&[("state", All)])),
    ("currentNumberScheduled", All),
    ("conditions", Fields(&[("type", All), ("status", All), ("reason", All)])),
    ("containerStatuses", CONTAINER_STATUS),
    ("initContainerStatuses", CONTAINER_STATUS),
    ("resources", Fields(&[("requests", All)])),
    ("allocatedResources", All),
    ("capacity", All),
    ("allocatable", All),
    ("images", Fields(&[("names", All), ("sizeBytes", All)])),
    // Quotas of namespaces.
    ("hard", All),
    ("used", All),
    // Disruption budgets.
    ("disruptionsAllowed", All),
    ("disruptedPods", All),
    // Claims of devices, and of pods.
    ("allocation", All),
    ("reservedFor", Fields(&[("uid", All)])),
    ("resourceClaimStatuses", All),
]);

/// The part of any object to keep.
pub(super) static OBJECT: Keep = Keep::Object;

#[cfg(test)]
mod tests;
