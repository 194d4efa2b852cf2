//! Workloads of the kinds that people submit: groups, counts, minima, order, queue, priority.

use std::time::Duration;

use phalanx::kubernetes::{Manifests, Mode, Reader, StartCondition, SubmittedWorkload};
use serde_json::{Value, json};

use super::reading::sketch;

/// Reads objects.
pub(super) fn read(mode: Mode, objects: &[Value]) -> Result<Manifests, phalanx::kubernetes::Error> {
    let mut reader = Reader::new(mode);
    for object in objects {
        reader.read("m.json", object)?;
    }
    reader.finish()
}

/// An object of a version and kind named `w`.
pub(super) fn object(version: &str, kind: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "w"}});
    object["spec"] = spec;
    object
}

/// A template of pods.
pub(super) fn template() -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
}

fn with(mut object: Value, changes: &[(&str, Value)]) -> Value {
    for (path, value) in changes {
        *object.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value.clone();
    }
    object
}

fn one(object: &Value) -> (Vec<String>, SubmittedWorkload) {
    let manifests = read(Mode::AsWritten, std::slice::from_ref(object)).unwrap();
    let groups = manifests.groups.iter().map(sketch).collect();
    (groups, manifests.workloads.into_iter().next().unwrap())
}

fn sketches(object: &Value) -> Vec<String> {
    one(object).0
}

fn job(spec: Value) -> Value {
    let mut spec = spec;
    spec["template"] = template();
    object("batch/v1", "Job", spec)
}

#[test]
fn jobs_run_no_more_pods_than_they_complete() {
    for (spec, group) in [
        (json!({}), "w[any: w-0]"),
        (json!({"parallelism": 2}), "w[any: w-0 w-1]"),
        (json!({"completions": 3}), "w[any: w-0]"),
        (json!({"parallelism": 4, "completions": 2}), "w[any: w-0 w-1]"),
        (json!({"parallelism": 2, "completions": 4}), "w[any: w-0 w-1]"),
        (json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"}), "w[2: w-0 w-1]"),
        (json!({"parallelism": 1, "completions": 1, "completionMode": "Indexed"}), "w[any: w-0]"),
        (
            json!({"parallelism": 2, "completions": 4, "completionMode": "Indexed"}),
            "w[any: w-0 w-1]",
        ),
    ] {
        assert_eq!(sketches(&job(spec.clone())), [group], "{spec}");
    }
    let none = read(Mode::AsWritten, &[job(json!({"parallelism": 0}))]).unwrap();
    assert!(none.groups.is_empty() && none.workloads[0].groups.is_empty());
    assert_eq!(none.workloads[0].roles[0].count, 0);
    assert_eq!(none.notes[0].to_string(), "job default/w: has no pods");
}

#[test]
fn kueue_admits_all_pods_of_a_job_or_its_least() {
    let mut queued = job(json!({"parallelism": 4}));
    queued["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "research"});
    let (groups, workload) = one(&queued);
    assert_eq!(groups, ["w[4: w-0 w-1 w-2 w-3]"]);
    assert_eq!(workload.queue, "research");
    queued["metadata"]["annotations"] = json!({"kueue.x-k8s.io/job-min-parallelism": "2"});
    assert_eq!(sketches(&queued), ["w[2: w-0 w-1 w-2 w-3]"]);
    let manifests = read(Mode::AsWritten, &[queued]).unwrap();
    assert_eq!(manifests.groups[0].queue, "research");
}

#[test]
fn a_template_that_names_a_group_puts_the_pods_there() {
    let mut own = job(json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"}));
    own["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}});
    let manifests = read(Mode::AsWritten, &[own, group]).unwrap();
    assert_eq!(manifests.groups.iter().map(sketch).collect::<Vec<_>>(), ["g[1: w-0 w-1]"]);
    assert!(manifests.workloads[0].groups.is_empty());
}

#[test]
fn a_suspended_workload_waits_whole() {
    let manifests =
        read(Mode::AsWritten, &[job(json!({"parallelism": 2, "suspend": true}))]).unwrap();
    assert!(manifests.workloads[0].suspended);
    for pod in &manifests.groups[0].pods {
        assert_eq!(pod.scheduling_gates, ["suspended"]);
    }
    assert_eq!(manifests.notes[0].to_string(), "job default/w: is suspended");
    let run_policy = json!({"runPolicy": {"suspend": true},
        "tfReplicaSpecs": {"Worker": {"template": template()}}});
    assert!(one(&object("kubeflow.org/v1", "TFJob", run_policy)).1.suspended);
}

pub(super) fn job_set() -> Value {
    let replicated = |name: &str, replicas: u32, pods: u32| {
        json!({"name": name, "replicas": replicas, "template": {"spec": {
            "parallelism": pods, "completions": pods, "template": template()}}})
    };
    let jobs = [replicated("a", 1, 1), replicated("b", 2, 3)];
    object("jobset.x-k8s.io/v1alpha2", "JobSet", json!({"replicatedJobs": jobs}))
}

#[test]
fn the_order_of_a_job_set_holds_back_what_comes_later() {
    let b = "w-b[6: w-b-0-0 w-b-0-1 w-b-0-2 w-b-1-0 w-b-1-1 w-b-1-2]";
    assert_eq!(sketches(&job_set()), [format!("w[2: w-a[1: w-a-0-0] {b}]")]);
    let mut ordered = job_set();
    ordered["spec"]["startupPolicy"] = json!({"startupPolicyOrder": "InOrder"});
    let manifests = read(Mode::AsWritten, &[ordered]).unwrap();
    assert_eq!(sketch(&manifests.groups[0]), format!("w[1: w-a[1: w-a-0-0] {b}]"));
    let gates = |group: &phalanx::PodGroup| group.pods[0].scheduling_gates.clone();
    assert_eq!(gates(&manifests.groups[0].groups[0]), [""; 0]);
    assert_eq!(gates(&manifests.groups[0].groups[1]), ["starts after a is ready"]);
    let mut depends = job_set();
    depends["spec"]["replicatedJobs"][1]["dependsOn"] =
        json!([{"name": "a", "status": "Complete"}]);
    depends["spec"]["coordinator"] = json!({"replicatedJob": "a"});
    let (_, workload) = one(&depends);
    assert_eq!(workload.roles[1].starts_after[0].role, "a");
    assert_eq!(workload.roles[1].starts_after[0].until, StartCondition::Complete);
    assert!(workload.roles[0].leader && !workload.roles[1].leader);
}

#[test]
fn stateful_sets_are_gangs_only_where_their_pods_start_together() {
    let set = |spec: Value| {
        let mut spec = spec;
        spec["template"] = template();
        object("apps/v1", "StatefulSet", spec)
    };
    let plain = set(json!({"replicas": 2, "ordinals": {"start": 5}}));
    assert_eq!(sketches(&plain), ["w[any: w-5 w-6]"]);
    assert_eq!(sketches(&set(json!({}))), ["w[any: w-0]"]);
    let mut volcano = set(json!({"replicas": 3, "podManagementPolicy": "Parallel"}));
    volcano["metadata"]["annotations"] = json!({"scheduling.volcano.sh/group-min-member": "2", "scheduling.volcano.sh/queue-name": "q"});
    let (groups, workload) = one(&volcano);
    assert_eq!(groups, ["w[2: w-0 w-1 w-2]"]);
    assert_eq!(workload.queue, "q");
    let in_order = with(volcano, &[("/spec/podManagementPolicy", "OrderedReady".into())]);
    let manifests = read(Mode::AsWritten, &[in_order]).unwrap();
    assert_eq!(sketch(&manifests.groups[0]), "w[any: w-0 w-1 w-2]");
    assert!(manifests.notes[0].text.contains("podManagementPolicy Parallel"));
}

#[test]
fn workers_of_a_leader_that_must_be_ready_come_later() {
    let set = object(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        json!({"replicas": 2, "startupPolicy": "LeaderReady",
            "leaderWorkerTemplate": {"size": 3, "workerTemplate": template()}}),
    );
    let manifests = read(Mode::AsWritten, std::slice::from_ref(&set)).unwrap();
    let group = |at: u32| {
        format!("w-{at}[1: w-{at}-leader[1: w-{at}] w-{at}-workers[2: w-{at}-1 w-{at}-2]]")
    };
    let found: Vec<String> = manifests.groups.iter().map(sketch).collect();
    assert_eq!(found, [group(0), group(1)]);
    let workers = &manifests.groups[1].groups[1];
    assert!(
        workers.pods.iter().all(|pod| pod.scheduling_gates == ["starts after leader is ready"])
    );
    assert!(manifests.groups[1].groups[0].leader && !workers.leader);
    let alone = with(set, &[("/spec/leaderWorkerTemplate/size", 1.into())]);
    assert_eq!(sketches(&alone)[0], "w-0[1: w-0-leader[1: w-0]]");
}

fn kubeflow(kind: &str, specs: &str, roles: &[(&str, u32)]) -> Value {
    let replicas: serde_json::Map<String, Value> = roles
        .iter()
        .map(|(role, count)| {
            ((*role).to_owned(), json!({"replicas": count, "template": template()}))
        })
        .collect();
    object("kubeflow.org/v1", kind, json!({specs: replicas}))
}

#[test]
fn kubeflow_needs_all_pods_unless_it_says_so() {
    let torch = kubeflow("PyTorchJob", "pytorchReplicaSpecs", &[("worker", 2), ("MASTER", 1)]);
    let all = "w[2: w-master[1: w-master-0] w-worker[2: w-worker-0 w-worker-1]]";
    assert_eq!(sketches(&torch), [all]);
    // Scheduling policy before elastic policy; less than the master needs no worker.
    let mut elastic = torch.clone();
    elastic["spec"]["elasticPolicy"] = json!({"minReplicas": 2});
    let least = "w[2: w-master[1: w-master-0] w-worker[1: w-worker-0 w-worker-1]]";
    assert_eq!(sketches(&elastic), [least]);
    elastic["spec"]["runPolicy"] = json!({"schedulingPolicy": {
        "minAvailable": 1, "queue": "q", "priorityClass": "high", "scheduleTimeoutSeconds": 30}});
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 7});
    let manifests = read(Mode::AsWritten, &[elastic, class]).unwrap();
    let group = &manifests.groups[0];
    assert_eq!(sketch(group), "w[1: w-master-0 w-worker-0 w-worker-1]");
    assert_eq!((group.queue.as_str(), group.priority), ("q", 7));
    assert_eq!(group.schedule_timeout, Some(Duration::from_secs(30)));
    assert_eq!(manifests.workloads[0].priority_class.as_deref(), Some("high"));
    // Of TensorFlow any pods will do; roles keep the order of the framework.
    let roles = [("Worker", 2), ("Evaluator", 1), ("PS", 1), ("Chief", 1)];
    let mut tensorflow = kubeflow("TFJob", "tfReplicaSpecs", &roles);
    let (groups, workload) = one(&tensorflow);
    assert_eq!(groups.len(), 1);
    let names: Vec<&str> = workload.roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(names, ["chief", "ps", "worker", "evaluator"]);
    assert!(workload.roles[0].leader);
    tensorflow["spec"]["runPolicy"] = json!({"schedulingPolicy": {"minAvailable": 3}});
    let pods = "w-chief-0 w-ps-0 w-worker-0 w-worker-1 w-evaluator-0";
    assert_eq!(sketches(&tensorflow), [format!("w[3: {pods}]")]);
}

#[test]
fn a_launcher_waits_for_its_workers_where_it_says_so() {
    let mut mpi = kubeflow("MPIJob", "mpiReplicaSpecs", &[("Launcher", 1), ("Worker", 2)]);
    mpi["apiVersion"] = "kubeflow.org/v2beta1".into();
    let pods = "w-launcher[1: w-launcher-0] w-worker[2: w-worker-0 w-worker-1]";
    assert_eq!(sketches(&mpi), [format!("w[2: {pods}]")]);
    mpi["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady".into();
    assert_eq!(sketches(&mpi), [format!("w[1: {pods}]")]);
    // Two of three, of which the launcher is none yet.
    mpi["spec"]["runPolicy"] = json!({"schedulingPolicy": {"minAvailable": 2}});
    assert_eq!(sketches(&mpi), ["w[1: w-launcher-0 w-worker-0 w-worker-1]"]);
    // Workers are none by default.
    let mut alone = kubeflow("MPIJob", "mpiReplicaSpecs", &[("Launcher", 1)]);
    alone["spec"]["mpiReplicaSpecs"]["Worker"] = json!({"template": template()});
    assert_eq!(sketches(&alone), ["w[1: w-launcher[1: w-launcher-0]]"]);
}

fn runtime(policy: &Value, jobs: &[(&str, &str, Option<u32>)]) -> Value {
    let jobs: Vec<Value> = jobs
        .iter()
        .map(|(name, step, pods)| {
            let mut spec = json!({"template": template()});
            if let Some(pods) = pods {
                spec["parallelism"] = (*pods).into();
            }
            let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": step});
            json!({"name": name, "replicas": 9,
                "template": {"metadata": {"labels": labels}, "spec": spec}})
        })
        .collect();
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "r"},
        "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}})
}

#[test]
fn a_train_job_is_its_runtime_with_its_own_number_of_nodes() {
    let job = |trainer: Value| {
        let spec = json!({"runtimeRef": {"name": "r"}, "trainer": trainer});
        object("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)
    };
    let counts = |runtime: &Value, trainer: Value| -> Vec<u32> {
        // A runtime may come after its jobs.
        let manifests = read(Mode::AsWritten, &[job(trainer), runtime.clone()]).unwrap();
        assert_eq!(manifests.groups.len(), 1);
        manifests.workloads[0].roles.iter().map(|role| role.count).collect()
    };
    let torch = runtime(
        &json!({"numNodes": 2, "torch": {}}),
        &[("model", "dataset-initializer", Some(0)), ("node", "trainer", Some(5))],
    );
    assert_eq!(counts(&torch, json!({})), [1, 2]);
    assert_eq!(counts(&torch, json!({"numNodes": 3})), [1, 3]);
    let plain = runtime(&Value::Null, &[("node", "trainer", Some(5))]);
    assert_eq!(counts(&plain, json!({"numNodes": 3})), [5]);
    let jobs = [("launcher", "", None), ("node", "trainer", None)];
    let mpi = |own: bool| runtime(&json!({"mpi": {"runLauncherAsNode": own}}), &jobs);
    assert_eq!(counts(&mpi(false), json!({"numNodes": 4})), [1, 4]);
    assert_eq!(counts(&mpi(true), json!({"numNodes": 4})), [1, 3]);
    assert_eq!(counts(&mpi(true), json!({"numNodes": 1})), [1, 1]);
    // As stored, a job without its runtime is noted.
    let lost = read(Mode::AsStored, &[job(json!({}))]).unwrap();
    assert!(lost.groups.is_empty());
    assert_eq!(lost.notes[0].text, "its runtime \"r\" does not exist: left out");
}

#[test]
fn a_train_job_states_the_resources_of_its_nodes() {
    let manifests = super::reading::written(&super::reading::example("trainjob.yaml")).unwrap();
    let group = &manifests.groups[0];
    assert_eq!(group.pods[0].shape().requests.of("nvidia.com/gpu"), 4);
    assert_eq!(group.schedule_timeout, Some(Duration::from_secs(120)));
}

#[test]
fn ray_counts_hosts_and_keeps_between_its_bounds() {
    let cluster = |group: Value| {
        let mut group = group;
        group["groupName"] = "g".into();
        group["template"] = template();
        object(
            "ray.io/v1",
            "RayCluster",
            json!({
            "headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}),
        )
    };
    for (group, count, min) in [
        (json!({}), 0, 0),
        (json!({"replicas": 2}), 2, 2),
        (json!({"replicas": 3, "numOfHosts": 2, "minReplicas": 1}), 6, 2),
        (json!({"replicas": 1, "minReplicas": 2}), 2, 2),
        (json!({"minReplicas": 2}), 2, 2),
        (json!({"replicas": 9, "maxReplicas": 4}), 4, 4),
        (json!({"replicas": 9, "suspend": true}), 0, 0),
    ] {
        let role = &one(&cluster(group.clone())).1.roles[1];
        assert_eq!((role.count, role.min_count), (count, min), "{group}");
    }
    let mut classed = cluster(json!({}));
    classed["metadata"]["labels"] = json!({"ray.io/priority-class-name": "system-node-critical"});
    let manifests = read(Mode::AsWritten, &[classed]).unwrap();
    assert_eq!(manifests.groups[0].priority, 2_000_001_000);
    // A Ray job that selects a cluster has one pod, if it has a template for it.
    let selecting = object(
        "ray.io/v1",
        "RayJob",
        json!({
        "clusterSelector": {"ray.io/cluster": "c"}, "submitterPodTemplate": template()}),
    );
    assert_eq!(sketches(&selecting), ["w[1: w-submitter-0]"]);
    let mut by_http = selecting;
    by_http["spec"]["submissionMode"] = "HTTPMode".into();
    assert_eq!(sketches(&by_http), [""; 0]);
}

#[test]
fn tasks_of_volcano_have_partitions_and_an_order() {
    let task = |name: &str, replicas: u32, more: Value| {
        let mut task = json!({"name": name, "replicas": replicas, "template": template()});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let tasks = [
        task("ps", 1, json!({})),
        task(
            "worker",
            6,
            json!({"partitionPolicy": {
            "totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}}),
        ),
        task("report", 1, json!({"dependsOn": {"name": ["worker"]}})),
    ];
    let job = object("batch.volcano.sh/v1alpha1", "Job", json!({"tasks": tasks}));
    let (groups, workload) = one(&job);
    let workers = "w-worker-0 w-worker-1 w-worker-2 w-worker-3 w-worker-4 w-worker-5";
    let expected = format!("w[2: w-ps[1: w-ps-0] w-worker[4: {workers}] w-report[1: w-report-0]]");
    assert_eq!(groups, [expected]);
    assert_eq!(workload.queue, "default");
    assert_eq!(workload.roles[2].starts_after[0].role, "worker");
}

#[test]
fn stored_partitions_of_any_size_are_read() {
    let most = i32::MAX;
    let task = |name: &str, more: Value| {
        json!({"name": name, "replicas": 1, "template": template(), "dependsOn": more,
            "partitionPolicy": {"partitionSize": most, "minPartitions": most}})
    };
    let first = ["a", "b", "c"].map(|name| task(name, json!({})));
    let then = ["d", "e", "f"].map(|name| task(name, json!({"name": ["a"]})));
    for tasks in [first.to_vec(), [first, then].concat()] {
        let job = object("batch.volcano.sh/v1alpha1", "Job", json!({"tasks": tasks}));
        let manifests = read(Mode::AsStored, &[job]).unwrap();
        let pods: usize = manifests.groups.iter().map(|group| group.pods.len()).sum();
        assert_eq!(pods, tasks.len());
        let minima = manifests.workloads[0].roles.iter().map(|role| role.min_count);
        assert!(minima.min() == Some(u32::MAX));
    }
}

#[test]
fn labels_name_queues_and_classes() {
    let mut kai = job(json!({}));
    kai["metadata"]["labels"] = json!({"kai.scheduler/queue": "k", "priorityClassName": "high"});
    let class = |kind: &str, version: &str, value: i32| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "high"}, "value": value});
    let plain = class("PriorityClass", "scheduling.k8s.io/v1", 3);
    let of_kueue = class("WorkloadPriorityClass", "kueue.x-k8s.io/v1beta1", 5);
    let manifests = read(Mode::AsWritten, &[kai, plain.clone(), of_kueue.clone()]).unwrap();
    assert_eq!((manifests.groups[0].queue.as_str(), manifests.groups[0].priority), ("k", 3));
    let mut kueue = job(json!({}));
    kueue["metadata"]["labels"] =
        json!({"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"});
    let manifests = read(Mode::AsWritten, &[kueue, plain, of_kueue]).unwrap();
    assert_eq!((manifests.groups[0].queue.as_str(), manifests.groups[0].priority), ("q", 5));
    let mut on_pods = job(json!({}));
    on_pods["spec"]["template"]["metadata"] =
        json!({"annotations": {"scheduling.volcano.sh/queue-name": "v"}});
    assert_eq!(one(&on_pods).1.queue, "v");
}

/// A pod that a controller has made, bound to a node.
fn made(name: &str, labels: &Value, owner: (&str, &str)) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [{
            "kind": owner.0, "name": owner.1, "uid": "u", "controller": true}]},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]}, "status": {"phase": "Running"}})
}

#[test]
fn pods_that_controllers_made_are_of_their_workload_and_nothing_is_made_twice() {
    let labels = json!({"jobset.sigs.k8s.io/jobset-name": "w",
        "jobset.sigs.k8s.io/replicatedjob-name": "b"});
    let mut waiting = made("b-2", &labels, ("Job", "w-b-0"));
    waiting["spec"]["nodeName"] = Value::Null;
    let mut inner = job(json!({"parallelism": 3}));
    inner["metadata"] = json!({"name": "w-b-0", "ownerReferences": [{
        "kind": "JobSet", "name": "w", "uid": "u", "controller": true}]});
    let objects = [job_set(), inner, made("b-1", &labels, ("Job", "w-b-0")), waiting];
    let manifests = read(Mode::AsStored, &objects).unwrap();
    assert_eq!(manifests.groups.iter().map(sketch).collect::<Vec<_>>(), ["w[2: w-b[6: b-2]]"]);
    assert_eq!(manifests.bound[0].group.as_deref(), Some("w-b"));
    assert_eq!(manifests.workloads.len(), 1);
    let note = "job default/w-b-0: is part of jobset default/w";
    assert!(manifests.notes.iter().any(|found| found.to_string() == note));
    // A Ray job is what its cluster is, once there is one.
    let spec = json!({"headGroupSpec": {"template": template()}});
    let mut cluster = object("ray.io/v1", "RayCluster", spec.clone());
    cluster["metadata"] = json!({"name": "c", "ownerReferences": [{
        "kind": "RayJob", "name": "w", "uid": "u", "controller": true}]});
    let ray_job = object("ray.io/v1", "RayJob", json!({"rayClusterSpec": spec}));
    let head = json!({"ray.io/cluster": "c", "ray.io/node-type": "head"});
    let head = made("head", &head, ("RayCluster", "c"));
    let manifests = read(Mode::AsStored, &[ray_job, cluster, head]).unwrap();
    assert!(manifests.groups.is_empty());
    assert_eq!(manifests.bound[0].group.as_deref(), Some("c"));
    // By its status alone a workload has begun, too.
    let mut running = job(json!({"parallelism": 2}));
    running["status"] = json!({"active": 2, "startTime": "2026-11-22T00:00:00Z"});
    assert!(read(Mode::AsStored, &[running]).unwrap().groups.is_empty());
}

#[test]
fn of_what_is_stored_twice_the_last_counts() {
    let first = job(json!({"parallelism": 2}));
    let second = job(json!({"parallelism": 3}));
    let manifests = read(Mode::AsStored, &[first.clone(), second.clone()]).unwrap();
    assert_eq!(manifests.groups.iter().map(sketch).collect::<Vec<_>>(), ["w[any: w-0 w-1 w-2]"]);
    let error = read(Mode::AsWritten, &[first, second]).unwrap_err().to_string();
    assert_eq!(error, "m.json: job default/w: metadata.name: \"w\" occurs twice");
}

#[test]
fn groups_of_one_name_are_told_apart() {
    let set = object("apps/v1", "StatefulSet", json!({"template": template()}));
    let mut alone = template();
    alone["apiVersion"] = "v1".into();
    alone["kind"] = "Pod".into();
    alone["metadata"] = json!({"name": "w"});
    let mut inner = with(set.clone(), &[("/metadata/name", "w-master".into())]);
    inner["spec"]["ordinals"] = json!({"start": 9});
    let torch = kubeflow("PyTorchJob", "pytorchReplicaSpecs", &[("Master", 1), ("Worker", 1)]);
    let mut set_pods = set.clone();
    set_pods["spec"]["ordinals"] = json!({"start": 7});
    let manifests =
        read(Mode::AsWritten, &[job(json!({})), set_pods, alone, inner, torch]).unwrap();
    let mut names: Vec<&str> = manifests.groups.iter().map(|group| group.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["job:w", "pytorchjob:w", "statefulset:w", "w", "w-master"]);
    let of = |at: usize| manifests.workloads[at].groups[0].to_string();
    assert_eq!((of(0), of(1)), ("default/job:w".into(), "default/statefulset:w".into()));
    assert!(manifests.groups.iter().all(|group| group.check().is_ok()));
}

#[test]
fn kinds_that_are_not_known_are_named() {
    let wrapper = object("workload.codeflare.dev/v1beta2", "AppWrapper", json!({}));
    let manifests = read(Mode::AsWritten, &[wrapper]).unwrap();
    assert_eq!(manifests.ignored["workload.codeflare.dev/AppWrapper"], 1);
}
