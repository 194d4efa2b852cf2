//! Workloads in a watch: groups that change in place.

use phalanx::kubernetes::watch::{Store, Update, WatchEvent, WorkloadPods};
use phalanx::queue::{GroupState, Settings};
use phalanx::{Cluster, Decision, Framework, Scheduler, Time};
use serde_json::{Value, json};

use super::workloads::template;

struct World {
    store: Store,
    scheduler: Scheduler,
    version: u64,
    now: u64,
}

impl World {
    fn new(pods: WorkloadPods) -> World {
        let mut world = World {
            store: Store::new("default-scheduler").with_workloads(pods),
            scheduler: Scheduler::new(Cluster::new(), Framework::default(), Settings::default()),
            version: 0,
            now: 1,
        };
        world.send(
            "ADDED",
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "5", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]}}),
        );
        world
    }

    fn send(&mut self, word: &str, object: &Value) -> Vec<Update> {
        self.version += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let line = json!({"type": word, "object": object}).to_string();
        let event: WatchEvent = serde_json::from_str(&line).unwrap();
        let updates = self.store.apply(event).unwrap();
        for update in updates.clone() {
            update.pass_to(&mut self.scheduler, Time::from_secs(self.now)).unwrap();
        }
        updates
    }

    /// Binds what the scheduler says, and answers with the pods.
    fn bind(&mut self) -> Vec<String> {
        self.now += 600;
        let now = Time::from_secs(self.now);
        let mut bound = Vec::new();
        while let Some(decision) = self.scheduler.poll_decision(now) {
            let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
            for assignment in plan.assignments() {
                let pod = assignment.pod();
                bound.push(pod.name.clone());
                let (namespace, name) = (pod.namespace(), &pod.name);
                self.scheduler.handle_binding(ticket, namespace, name, Ok(()), now).unwrap();
            }
        }
        bound.sort();
        bound
    }

    fn state(&self, group: &str) -> Option<GroupState> {
        self.scheduler.state(group)
    }
}

fn job(pods: u32) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "w", "namespace": "default", "uid": "u"},
        "spec": {"completionMode": "Indexed", "parallelism": pods, "completions": pods,
            "template": template()}})
}

fn job_set(workers: u32) -> Value {
    let replicated = |name: &str, pods: u32| {
        json!({"name": name, "template": {"spec": {"parallelism": pods, "completions": pods,
            "template": template()}}})
    };
    json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "w", "namespace": "default", "uid": "u"},
        "spec": {"replicatedJobs": [replicated("driver", 1), replicated("worker", workers)]}})
}

#[test]
fn a_workload_is_scaled_in_place_and_what_is_placed_stays() {
    let mut world = World::new(WorkloadPods::FromTemplates);
    world.send("ADDED", &job(2));
    assert_eq!(world.bind(), ["w-0", "w-1"]);
    // An event that changes nothing of it is no update.
    assert_eq!(world.send("MODIFIED", &job(2)), []);
    let updates = world.send("MODIFIED", &job(4));
    let changed = updates.iter().filter(|update| matches!(update, Update::Event(_)));
    assert_eq!(changed.count(), 2, "only the new pods: {updates:?}");
    assert_eq!(world.bind(), ["w-2", "w-3"]);
    assert_eq!(world.scheduler.cluster().pod_count(), 4);
    let updates = world.send("MODIFIED", &job(3));
    assert_eq!(updates.len(), 2, "{updates:?}");
    assert_eq!(world.scheduler.cluster().pod_count(), 3);
    assert!(world.scheduler.cluster().pod("default", "w-3").is_none());
    assert_eq!(world.state("default/job:w"), Some(GroupState::Running));
    // More than fits waits, and the rest runs on.
    world.send("MODIFIED", &job(9));
    world.bind();
    assert!(world.scheduler.cluster().pod("default", "w-2").is_some());
    world.send("DELETED", &job(9));
    assert_eq!(world.scheduler.cluster().pod_count(), 0);
    assert_eq!(world.state("default/job:w"), None);
}

#[test]
fn a_role_is_scaled_up_from_nothing() {
    let mut world = World::new(WorkloadPods::FromTemplates);
    world.send("ADDED", &job_set(0));
    assert_eq!(world.bind(), ["w-driver-0-0"]);
    world.send("MODIFIED", &job_set(2));
    assert_eq!(world.bind(), ["w-worker-0-0", "w-worker-0-1"]);
    world.send("MODIFIED", &job_set(1));
    assert_eq!(world.scheduler.cluster().pod_count(), 2);
}

#[test]
fn a_suspended_or_ended_workload_has_no_pods() {
    let mut world = World::new(WorkloadPods::FromTemplates);
    let mut job = job(2);
    job["spec"]["suspend"] = true.into();
    world.send("ADDED", &job);
    assert_eq!(world.bind(), [""; 0]);
    job["spec"]["suspend"] = false.into();
    world.send("MODIFIED", &job);
    assert_eq!(world.bind(), ["w-0", "w-1"]);
    job["status"] = json!({"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]});
    world.send("MODIFIED", &job);
    assert_eq!(world.scheduler.cluster().pod_count(), 0);
}

#[test]
fn what_comes_later_is_placed_once_the_status_says_so() {
    let mut world = World::new(WorkloadPods::FromTemplates);
    let mut set = job_set(2);
    set["spec"]["startupPolicy"] = json!({"startupPolicyOrder": "InOrder"});
    world.send("ADDED", &set);
    assert_eq!(world.bind(), ["w-driver-0-0"]);
    set["status"] = json!({"replicatedJobsStatus": [{"name": "driver", "ready": 1}]});
    world.send("MODIFIED", &set);
    assert_eq!(world.bind(), ["w-worker-0-0", "w-worker-0-1"]);
    let mut mpi = json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "m", "namespace": "default", "uid": "u"},
        "spec": {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": {
            "Launcher": {"template": template()},
            "Worker": {"replicas": 1, "template": template()}}}});
    world.send("ADDED", &mpi);
    assert_eq!(world.bind(), ["m-worker-0"]);
    mpi["status"] = json!({"replicaStatuses": {"Worker": {"active": 1}}});
    world.send("MODIFIED", &mpi);
    assert_eq!(world.bind(), ["m-launcher-0"]);
}

#[test]
fn a_group_of_a_set_comes_and_goes_by_itself() {
    let set = |replicas: u32| {
        json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": {"name": "w", "namespace": "default", "uid": "u"},
            "spec": {"replicas": replicas,
                "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}})
    };
    let mut world = World::new(WorkloadPods::FromTemplates);
    world.send("ADDED", &set(1));
    assert_eq!(world.bind(), ["w-0", "w-0-1"]);
    world.send("MODIFIED", &set(2));
    assert_eq!(world.bind(), ["w-1", "w-1-1"]);
    world.send("MODIFIED", &set(1));
    assert_eq!(world.scheduler.cluster().pod_count(), 2);
    assert_eq!(world.state("default/leaderworkerset:w-1"), None);
}

#[test]
fn a_train_job_follows_its_runtime() {
    let runtime = |nodes: u32| {
        json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
            "metadata": {"name": "r"},
            "spec": {"mlPolicy": {"numNodes": nodes}, "template": {"spec": {"replicatedJobs": [{
                "name": "node", "template": {
                    "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                    "spec": {"template": template()}}}]}}}})
    };
    let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "w", "namespace": "default", "uid": "u"},
        "spec": {"runtimeRef": {"name": "r"}}});
    let mut world = World::new(WorkloadPods::FromTemplates);
    world.send("ADDED", &job);
    assert_eq!(world.bind(), [""; 0]);
    world.send("ADDED", &runtime(1));
    assert_eq!(world.bind(), ["w-node-0-0"]);
    world.send("MODIFIED", &runtime(3));
    assert_eq!(world.bind(), ["w-node-0-1", "w-node-0-2"]);
    world.send("DELETED", &runtime(3));
    assert_eq!(world.scheduler.cluster().pod_count(), 0);
}

/// A pod of a job that waits.
fn pod(name: &str, labels: &Value, owner: (&str, &str)) -> Value {
    let mut pod = template();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"] = json!({"name": name, "namespace": "default", "uid": name, "labels": labels,
        "ownerReferences": [{"kind": owner.0, "name": owner.1, "uid": "u", "controller": true}]});
    pod
}

#[test]
fn watched_pods_wait_for_their_workload_and_its_minimum() {
    let mut world = World::new(WorkloadPods::Watched);
    world.send("ADDED", &pod("a", &json!({}), ("Job", "w")));
    assert_eq!(world.bind(), [""; 0], "the job is not known yet");
    world.send("ADDED", &job(2));
    assert_eq!(world.bind(), [""; 0], "one of two");
    world.send("ADDED", &pod("b", &json!({}), ("Job", "w")));
    assert_eq!(world.bind(), ["a", "b"]);
    // Scaled, the minimum is another, and what runs counts.
    world.send("MODIFIED", &job(4));
    world.send("ADDED", &pod("c", &json!({}), ("Job", "w")));
    world.send("ADDED", &pod("d", &json!({}), ("Job", "w")));
    assert_eq!(world.bind(), ["c", "d"]);
}

#[test]
fn watched_pods_are_in_their_roles() {
    let mut world = World::new(WorkloadPods::Watched);
    world.send("ADDED", &job_set(1));
    let labels = |role: &str| {
        json!({"jobset.sigs.k8s.io/jobset-name": "w",
            "jobset.sigs.k8s.io/replicatedjob-name": role})
    };
    world.send("ADDED", &pod("a", &labels("worker"), ("Job", "w-worker-0")));
    world.send("ADDED", &pod("b", &labels("worker"), ("Job", "w-worker-0")));
    assert_eq!(world.bind(), [""; 0], "two workers are no driver");
    world.send("ADDED", &pod("c", &labels("driver"), ("Job", "w-driver-0")));
    assert_eq!(world.bind(), ["a", "b", "c"]);
}

#[test]
fn a_store_without_workloads_takes_each_pod_alone() {
    let mut world = World::new(WorkloadPods::Watched);
    world.store = Store::new("default-scheduler");
    assert_eq!(world.send("ADDED", &job(2)), []);
    world.send("ADDED", &pod("a", &json!({}), ("Job", "w")));
    assert!(world.state("default/pod:a").is_some());
}
