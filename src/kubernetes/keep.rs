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
    /// Every field, and of each the same.
    Any(&'static Keep),
    /// The fields of either.
    Either(&'static Keep, &'static Keep),
}

impl Keep {
    /// What is kept of a field; `None` if the field is skipped.
    pub(super) fn field(&self, name: &str) -> Option<&Keep> {
        match self {
            Keep::All => Some(self),
            Keep::Fields(fields) => {
                fields.iter().find(|(field, _)| *field == name).map(|(_, keep)| keep)
            }
            Keep::Any(keep) => Some(keep),
            Keep::Either(one, other) => one.field(name).or_else(|| other.field(name)),
        }
    }
}

use Keep::{All, Any, Either, Fields};

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
    ("scheduling.volcano.sh/queue-name", All),
    ("scheduling.volcano.sh/group-min-member", All),
    ("kueue.x-k8s.io/job-min-parallelism", All),
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

const POD_SPEC: Keep = Fields(&[
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
]);

/// A template of pods.
const POD_TEMPLATE: Keep = Fields(&[("metadata", METADATA), ("spec", POD_SPEC)]);

/// A template of a job.
const JOB_TEMPLATE: Keep = Fields(&[
    ("metadata", METADATA),
    ("spec", Fields(&[("parallelism", All), ("completions", All), ("template", POD_TEMPLATE)])),
]);

/// What a job set has of its own.
const JOB_SET_SPEC: Keep = Fields(&[
    (
        "replicatedJobs",
        Fields(&[("name", All), ("replicas", All), ("dependsOn", All), ("template", JOB_TEMPLATE)]),
    ),
    ("startupPolicy", All),
    ("coordinator", All),
    ("suspend", All),
]);

/// What a Ray cluster has of its own.
const RAY_CLUSTER_SPEC: Keep = Fields(&[
    ("headGroupSpec", Fields(&[("template", POD_TEMPLATE)])),
    (
        "workerGroupSpecs",
        Fields(&[
            ("groupName", All),
            ("replicas", All),
            ("minReplicas", All),
            ("maxReplicas", All),
            ("numOfHosts", All),
            ("suspend", All),
            ("template", POD_TEMPLATE),
        ]),
    ),
    ("suspend", All),
]);

/// The pods of each replica type. Its names may be written in any case.
const REPLICA_SPECS: Keep = Any(&Fields(&[("replicas", All), ("template", POD_TEMPLATE)]));

/// What workloads of other kinds have of their own.
const WORKLOAD_SPEC: Keep = Fields(&[
    // A template is of pods, or of the job set of a training runtime.
    ("template", Fields(&[("metadata", METADATA), ("spec", Either(&POD_SPEC, &JOB_SET_SPEC))])),
    ("parallelism", All),
    ("completions", All),
    ("completionMode", All),
    ("replicas", All),
    ("podManagementPolicy", All),
    ("ordinals", All),
    (
        "leaderWorkerTemplate",
        Fields(&[
            ("size", All),
            ("subGroupPolicy", All),
            ("leaderTemplate", POD_TEMPLATE),
            ("workerTemplate", POD_TEMPLATE),
        ]),
    ),
    ("tfReplicaSpecs", REPLICA_SPECS),
    ("pytorchReplicaSpecs", REPLICA_SPECS),
    ("xgbReplicaSpecs", REPLICA_SPECS),
    ("mpiReplicaSpecs", REPLICA_SPECS),
    ("runPolicy", Fields(&[("suspend", All), ("schedulingPolicy", All)])),
    ("elasticPolicy", All),
    ("launcherCreationPolicy", All),
    ("runtimeRef", All),
    ("trainer", Fields(&[("numNodes", All), ("resourcesPerNode", All)])),
    ("podTemplateOverrides", Fields(&[])),
    ("podSpecOverrides", Fields(&[])),
    ("mlPolicy", All),
    ("podGroupPolicy", All),
    ("rayClusterSpec", RAY_CLUSTER_SPEC),
    ("clusterSelector", All),
    ("submissionMode", All),
    ("submitterPodTemplate", POD_TEMPLATE),
    ("controllerRef", All),
    ("podGroupTemplates", All),
    ("podGroupTemplateRef", All),
]);

/// What a workload has, of whichever kind.
const ANY_WORKLOAD_SPEC: Keep = Either(&WORKLOAD_SPEC, &Either(&RAY_CLUSTER_SPEC, &JOB_SET_SPEC));

const OWN_SPEC: Keep = Fields(&[
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
    (
        "tasks",
        Fields(&[
            ("name", All),
            ("replicas", All),
            ("minAvailable", All),
            ("partitionPolicy", All),
            ("dependsOn", All),
            ("template", POD_TEMPLATE),
        ]),
    ),
]);

const SPEC: Keep = Either(&Either(&POD_SPEC, &OWN_SPEC), &ANY_WORKLOAD_SPEC);

const CONTAINER_STATUS: Keep = Fields(&[
    ("name", All),
    ("resources", Fields(&[("requests", All)])),
    ("allocatedResources", All),
]);

const STATUS: Keep = Fields(&[
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
        assert!(container.field("env").is_none() && container.field("command").is_none());
        let template = spec.field("template").unwrap();
        let inner = template.field("spec").unwrap().field("containers").unwrap();
        assert!(inner.field("resources").is_some() && inner.field("env").is_none());
        assert!(OBJECT.field("metadata").unwrap().field("managedFields").is_none());
        let task = spec.field("tasks").unwrap().field("template").unwrap();
        assert!(task.field("spec").unwrap().field("containers").unwrap().field("env").is_none());
        let replicas = spec.field("mpiReplicaSpecs").unwrap().field("Launcher").unwrap();
        assert!(replicas.field("template").is_some() && replicas.field("restartPolicy").is_none());
    }
}
