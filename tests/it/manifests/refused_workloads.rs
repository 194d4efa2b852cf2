//! Workloads that are refused, and how.

use phalanx::kubernetes::Mode;
use serde_json::{Value, json};

use super::workloads::{object, read, template};

const JOB_SET: (&str, &str) = ("jobset.x-k8s.io/v1alpha2", "JobSet");
const LEADER_WORKER_SET: (&str, &str) = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet");
const TORCH: (&str, &str) = ("kubeflow.org/v1", "PyTorchJob");
const MPI: (&str, &str) = ("kubeflow.org/v2beta1", "MPIJob");
const TRAIN: (&str, &str) = ("trainer.kubeflow.org/v1alpha1", "TrainJob");
const RAY: (&str, &str) = ("ray.io/v1", "RayCluster");
const RAY_JOB: (&str, &str) = ("ray.io/v1", "RayJob");
const STATEFUL_SET: (&str, &str) = ("apps/v1", "StatefulSet");
const JOB: (&str, &str) = ("batch/v1", "Job");
const VOLCANO: (&str, &str) = ("batch.volcano.sh/v1alpha1", "Job");

fn refused(cases: Vec<((&str, &str), Value, &str)>) {
    for ((version, kind), spec, expected) in cases {
        let submitted = object(version, kind, spec.clone());
        let error = read(Mode::AsWritten, &[submitted]).unwrap_err().to_string();
        let expected = format!("m.json: {} default/w: {expected}", kind.to_lowercase());
        assert_eq!(error, expected, "{spec}");
    }
}

fn replicated(name: &str, more: &Value) -> Value {
    let mut job = json!({"name": name, "template": {"spec": {"template": template()}}});
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job
}

#[test]
fn missing_fields() {
    refused(vec![
        (JOB, json!({}), "spec.template: is required"),
        (JOB, json!({"template": {}}), "spec.template.spec: is required"),
        (JOB, json!({"template": {"spec": {}}}), "spec.template.spec.containers: is required"),
        (
            JOB,
            json!({"completionMode": "Indexed", "template": template()}),
            "spec.completions: is required",
        ),
        (JOB_SET, json!({}), "spec.replicatedJobs: is required"),
        (
            JOB_SET,
            json!({"replicatedJobs": [{"name": "a", "template": {}}]}),
            "spec.replicatedJobs[0].template.spec: is required",
        ),
        (JOB_SET, json!({"replicatedJobs": [{}]}), "spec.replicatedJobs[0].name: is required"),
        (STATEFUL_SET, json!({"replicas": 1}), "spec.template: is required"),
        (LEADER_WORKER_SET, json!({}), "spec.leaderWorkerTemplate: is required"),
        (
            LEADER_WORKER_SET,
            json!({"leaderWorkerTemplate": {}}),
            "spec.leaderWorkerTemplate.workerTemplate: is required",
        ),
        (TORCH, json!({}), "spec.pytorchReplicaSpecs: is required"),
        (TORCH, json!({"pytorchReplicaSpecs": {}}), "spec.pytorchReplicaSpecs: is required"),
        (
            TORCH,
            json!({"pytorchReplicaSpecs": {"Worker": {}}}),
            "spec.pytorchReplicaSpecs.Worker.template: is required",
        ),
        (
            MPI,
            json!({"mpiReplicaSpecs": {"Worker": {"template": template()}}}),
            "spec.mpiReplicaSpecs.Launcher: is required",
        ),
        (TRAIN, json!({}), "spec.runtimeRef: is required"),
        (TRAIN, json!({"runtimeRef": {}}), "spec.runtimeRef.name: is required"),
        (TRAIN, json!({"runtimeRef": {"name": "r"}}), "spec.runtimeRef.name: \"r\" does not exist"),
        (RAY, json!({}), "spec.headGroupSpec: is required"),
        (
            RAY,
            json!({"headGroupSpec": {"template": template()}, "workerGroupSpecs": [{}]}),
            "spec.workerGroupSpecs[0].groupName: is required",
        ),
        (RAY_JOB, json!({}), "spec.rayClusterSpec: is required"),
        (VOLCANO, json!({}), "spec.tasks: is required"),
        (VOLCANO, json!({"tasks": [{"name": "a"}]}), "spec.tasks[0].template: is required"),
    ]);
}

#[test]
fn wrong_types_and_numbers_out_of_range() {
    let most = "2147483647";
    refused(vec![
        (
            JOB,
            json!({"parallelism": "2", "template": template()}),
            "spec.parallelism: is a string, not an integer",
        ),
        (
            JOB,
            json!({"parallelism": -1, "template": template()}),
            &format!("spec.parallelism: -1 is not between 0 and {most}"),
        ),
        (
            JOB,
            json!({"parallelism": 200_000, "template": template()}),
            "spec.parallelism: 200000 is not between 0 and 100000",
        ),
        (JOB, json!({"suspend": "no"}), "spec.suspend: is a string, not a boolean"),
        (JOB, json!({"template": []}), "spec.template: is a list, not an object"),
        (
            JOB_SET,
            json!({"replicatedJobs": {"a": 1}}),
            "spec.replicatedJobs: is an object, not a list",
        ),
        (
            JOB_SET,
            json!({"replicatedJobs": [replicated("a", &json!({"replicas": i64::MAX}))]}),
            &format!("spec.replicatedJobs[0].replicas: {} is not between 0 and {most}", i64::MAX),
        ),
        (
            JOB_SET,
            json!({"replicatedJobs": [replicated("a", &json!({"replicas": 2_000_000_000}))]}),
            "spec.replicatedJobs[0].replicas: 2000000000 is not between 0 and 100000",
        ),
        (
            STATEFUL_SET,
            json!({"replicas": -3, "template": template()}),
            &format!("spec.replicas: -3 is not between 0 and {most}"),
        ),
        (
            LEADER_WORKER_SET,
            json!({"leaderWorkerTemplate": {"size": 0, "workerTemplate": template()}}),
            &format!("spec.leaderWorkerTemplate.size: 0 is not between 1 and {most}"),
        ),
        (
            LEADER_WORKER_SET,
            json!({"replicas": 2_000_000_000,
                "leaderWorkerTemplate": {"size": 2_000_000_000, "workerTemplate": template()}}),
            "spec.replicas: 4000000000000000000 is not between 0 and 100000",
        ),
        (
            TORCH,
            json!({"pytorchReplicaSpecs": []}),
            "spec.pytorchReplicaSpecs: is a list, not an object",
        ),
        (
            TRAIN,
            json!({"runtimeRef": {"name": "r"}, "trainer": {"numNodes": 0}}),
            &format!("spec.trainer.numNodes: 0 is not between 1 and {most}"),
        ),
        (
            RAY,
            json!({"headGroupSpec": {"template": template()},
                "workerGroupSpecs": [{"groupName": "g", "numOfHosts": 0}]}),
            &format!("spec.workerGroupSpecs[0].numOfHosts: 0 is not between 1 and {most}"),
        ),
    ]);
}

#[test]
fn counts_that_contradict() {
    let torch = |more: Value| {
        let mut spec = json!({"pytorchReplicaSpecs": {"Worker": {"replicas": 2,
            "template": template()}}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let task = |more: Value| {
        let mut task = json!({"name": "a", "replicas": 4, "template": template()});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"tasks": [task]})
    };
    refused(vec![
        (
            TORCH,
            torch(json!({"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}})),
            "spec.runPolicy.schedulingPolicy.minAvailable: 3 is more than the 2 replicas of all \
             roles",
        ),
        (
            TORCH,
            torch(json!({"elasticPolicy": {"minReplicas": 3}})),
            "spec.elasticPolicy.minReplicas: 3 is more than the 2 replicas of all roles",
        ),
        (
            TORCH,
            torch(json!({"elasticPolicy": {"minReplicas": 2, "maxReplicas": 1}})),
            "spec.elasticPolicy.minReplicas: 2 is more than the 1 of maxReplicas",
        ),
        (
            RAY,
            json!({"headGroupSpec": {"template": template()}, "workerGroupSpecs": [
                {"groupName": "g", "minReplicas": 3, "maxReplicas": 2}]}),
            "spec.workerGroupSpecs[0].minReplicas: 3 is more than the 2 of maxReplicas",
        ),
        (
            LEADER_WORKER_SET,
            json!({"leaderWorkerTemplate": {"size": 4, "workerTemplate": template(),
                "subGroupPolicy": {"subGroupSize": 5}}}),
            "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize: 5 does not divide the group of \
             4",
        ),
        (
            VOLCANO,
            task(json!({"partitionPolicy": {"partitionSize": 2, "minPartitions": 3}})),
            "spec.tasks[0].partitionPolicy.minPartitions: 3 partitions of 2 are more than the 4 \
             replicas",
        ),
        (
            VOLCANO,
            task(json!({"dependsOn": {"name": ["a"]}})),
            "spec.tasks: task \"a\" waits for itself, by its dependencies",
        ),
        (
            VOLCANO,
            task(json!({"dependsOn": {"name": ["b"]}})),
            "spec.tasks[0].dependsOn.name: \"b\" does not exist",
        ),
    ]);
    let mut job = object("batch/v1", "Job", json!({"parallelism": 2, "template": template()}));
    for (min, expected) in [
        ("3", "3 is more than the 2 pods of the job"),
        ("0", "0 is not between 1 and 2147483647"),
        ("two", "\"two\" is not an integer"),
    ] {
        job["metadata"]["annotations"] = json!({"kueue.x-k8s.io/job-min-parallelism": min});
        let error = read(Mode::AsWritten, &[job.clone()]).unwrap_err().to_string();
        let field = "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]";
        assert_eq!(error, format!("m.json: job default/w: {field}: {expected}"));
        // As stored, what is no number of pods says nothing.
        assert_eq!(read(Mode::AsStored, &[job.clone()]).unwrap().groups.len(), 1);
    }
}

#[test]
fn names_and_words() {
    let depends = |on: Value| json!({"dependsOn": on});
    let two = |more: Value| {
        let jobs = [replicated("a", &json!({})), replicated("b", &more)];
        json!({"replicatedJobs": jobs})
    };
    let mut ordered = two(depends(json!([{"name": "a"}])));
    ordered["startupPolicy"] = json!({"startupPolicyOrder": "InOrder"});
    let mut led = two(json!({}));
    led["coordinator"] = json!({"replicatedJob": "c"});
    let many: Vec<Value> = (0..6).map(|_| json!({"name": "a"})).collect();
    refused(vec![
        (
            JOB_SET,
            json!({"replicatedJobs": [replicated("a", &json!({})), replicated("a", &json!({}))]}),
            "spec.replicatedJobs[1].name: \"a\" occurs twice",
        ),
        (
            JOB_SET,
            two(depends(json!([{"name": "b"}]))),
            "spec.replicatedJobs[1].dependsOn[0].name: \"b\" does not exist",
        ),
        (
            JOB_SET,
            two(depends(json!([{"name": "a", "status": "Begun"}]))),
            "spec.replicatedJobs[1].dependsOn[0].status: \"Begun\" is not one of Ready, Complete",
        ),
        (
            JOB_SET,
            two(depends(many.into())),
            "spec.replicatedJobs[1].dependsOn: has 6 entries; 5 are the most",
        ),
        (
            JOB_SET,
            ordered,
            "spec.replicatedJobs[1].dependsOn: stands beside startupPolicyOrder InOrder; only one \
             order is allowed",
        ),
        (JOB_SET, led, "spec.coordinator.replicatedJob: \"c\" does not exist"),
        (
            JOB_SET,
            json!({"replicatedJobs": [replicated("A_b", &json!({}))]}),
            "spec.replicatedJobs[0].name: \"A_b\" is not a DNS-1123 label (lower case letters, \
             digits and '-', beginning and ending alphanumeric, at most 63 characters)",
        ),
        (
            STATEFUL_SET,
            json!({"podManagementPolicy": "Both", "template": template()}),
            "spec.podManagementPolicy: \"Both\" is not one of OrderedReady, Parallel",
        ),
        (
            TORCH,
            json!({"pytorchReplicaSpecs": {"PS": {"template": template()}}}),
            "spec.pytorchReplicaSpecs: \"PS\" is not one of Master, Worker",
        ),
        (
            TORCH,
            json!({"pytorchReplicaSpecs": {"worker": {"template": template()},
                "Worker": {"template": template()}}}),
            "spec.pytorchReplicaSpecs[worker]: \"Worker\" occurs twice",
        ),
        (
            RAY_JOB,
            json!({"clusterSelector": {}, "submissionMode": "Email"}),
            "spec.submissionMode: \"Email\" is not one of K8sJobMode, HTTPMode, InteractiveMode, \
             SidecarMode",
        ),
    ]);
    let mut queued = object("batch/v1", "Job", json!({"template": template()}));
    queued["metadata"]["labels"] = json!({"kueue.x-k8s.io/priority-class": "high"});
    let error = read(Mode::AsWritten, &[queued]).unwrap_err().to_string();
    let expected = "m.json: job default/w: metadata.labels[kueue.x-k8s.io/priority-class]: \
                    \"high\" does not exist";
    assert_eq!(error, expected);
}
