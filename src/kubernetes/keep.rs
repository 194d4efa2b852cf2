//! The fields of an object that are read at all.
//!
//! A dump of a cluster is mostly environment variables, probes and managed fields. What no
//! conversion asks for is skipped while it is parsed.

/// A filter on the fields of an object. Lists are looked through.
#[derive(Debug)]
pub(super) enum Keep {
    /// Everything.
    All,
    /// These fields.
    Fields(&'static [(&'static str, Keep)]),
}

impl Keep {
    /// What is kept of a field; `None` if the field is skipped.
    pub(super) fn field(&self, name: &str) -> Option<&Keep> {
        match self {
            Keep::All => Some(self),
            Keep::Fields(fields) => {
                fields.iter().find(|(field, _)| *field == name).map(|(_, keep)| keep)
            }
        }
    }
}

use Keep::{All, Fields};

const ANNOTATIONS: Keep = Fields(&[
    ("gang.scheduling.koordinator.sh/name", All),
    ("gang.scheduling.koordinator.sh/min-available", All),
    ("gang.scheduling.koordinator.sh/total-number", All),
    ("gang.scheduling.koordinator.sh/mode", All),
    ("gang.scheduling.koordinator.sh/waiting-time", All),
    ("gang.scheduling.koordinator.sh/groups", All),
    ("scheduling.k8s.io/group-name", All),
    ("scheduling.volcano.sh/group-name", All),
    ("volcano.sh/task-spec", All),
    ("volcano.sh/job-name", All),
    // Bookmarks of watches.
    ("k8s.io/initial-events-end", All),
]);

const METADATA: Keep = Fields(&[
    ("name", All),
    ("namespace", All),
    ("uid", All),
    ("resourceVersion", All),
    ("labels", All),
    ("annotations", ANNOTATIONS),
    ("ownerReferences", All),
    ("deletionTimestamp", All),
]);

const CONTAINER: Keep = Fields(&[
    ("name", All),
    ("image", All),
    ("resources", Fields(&[("requests", All), ("limits", All)])),
    ("ports", All),
    ("restartPolicy", All),
]);

const VOLUMES: Keep = Fields(&[
    ("name", All),
    ("image", All),
    ("persistentVolumeClaim", All),
    ("ephemeral", Fields(&[])),
    ("csi", Fields(&[])),
    ("awsElasticBlockStore", All),
    ("azureDisk", All),
    ("cinder", All),
    ("gcePersistentDisk", All),
    ("iscsi", All),
    ("rbd", All),
]);

const SPEC: Keep = Fields(&[
    // Pods.
    ("containers", CONTAINER),
    ("initContainers", CONTAINER),
    ("nodeName", All),
    ("nodeSelector", All),
    ("affinity", All),
    ("tolerations", All),
    ("topologySpreadConstraints", All),
    ("schedulerName", All),
    ("priority", All),
    ("priorityClassName", All),
    ("preemptionPolicy", All),
    ("schedulingGates", All),
    ("schedulingGroup", All),
    ("workloadRef", All),
    ("overhead", All),
    ("resources", All),
    ("hostNetwork", All),
    ("resourceClaims", All),
    ("runtimeClassName", All),
    ("volumes", VOLUMES),
    // Nodes.
    ("taints", All),
    ("unschedulable", All),
    // Services and controllers.
    ("selector", All),
    // Groups.
    ("podGroups", All),
    ("schedulingPolicy", All),
    ("schedulingConstraints", All),
    ("disruptionMode", All),
    ("parentCompositePodGroupName", All),
    ("minMember", All),
    ("minResources", All),
    ("minTaskMember", All),
    ("scheduleTimeoutSeconds", All),
    ("queue", All),
    ("networkTopology", All),
    ("subGroupPolicy", All),
    ("minAvailable", All),
    ("tasks", All),
]);

const CONTAINER_STATUS: Keep = Fields(&[
    ("name", All),
    ("resources", Fields(&[("requests", All)])),
    ("allocatedResources", All),
]);

const STATUS: Keep = Fields(&[
    ("phase", All),
    ("startTime", All),
    ("state", All),
    ("conditions", Fields(&[("type", All), ("status", All), ("reason", All)])),
    ("containerStatuses", CONTAINER_STATUS),
    ("initContainerStatuses", CONTAINER_STATUS),
    ("resources", Fields(&[("requests", All)])),
    ("allocatedResources", All),
    ("capacity", All),
    ("allocatable", All),
    ("images", Fields(&[("names", All), ("sizeBytes", All)])),
    // Disruption budgets.
    ("disruptionsAllowed", All),
    ("disruptedPods", All),
]);

/// What is kept of any object.
pub(super) static OBJECT: Keep = Fields(&[
    ("apiVersion", All),
    ("kind", All),
    ("metadata", METADATA),
    ("spec", SPEC),
    ("status", STATUS),
    // Priority classes.
    ("value", All),
    ("globalDefault", All),
    // Lists within lists.
    ("items", All),
    // Errors of watches.
    ("code", All),
    ("message", All),
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_a_dump_is_skipped() {
        let spec = OBJECT.field("spec").unwrap();
        let container = spec.field("containers").unwrap();
        assert!(container.field("resources").is_some());
        assert!(container.field("env").is_none() && spec.field("template").is_none());
        assert!(OBJECT.field("metadata").unwrap().field("managedFields").is_none());
        let task = spec.field("tasks").unwrap().field("template").unwrap();
        assert!(task.field("anything").is_some());
    }
}
