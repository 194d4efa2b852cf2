//! Facts that follow from several objects: when one of them goes or changes, they are looked at again.

use phalanx::Time;
use phalanx::kubernetes::Mode;
use phalanx::kubernetes::queues::{LocalQueues, QueueManifests};
use phalanx::kubernetes::watch::Update;
use serde_json::{Value, json};

use super::layout::{World, node, pod};

fn names(world: &mut World) -> Vec<String> {
    let mut names: Vec<String> = world.bound().into_iter().map(|(name, ..)| name).collect();
    names.sort();
    names
}

fn gpu_node(name: &str, memory: u32) -> Value {
    let mut node = node(name);
    let cards = json!([{"id": name, "count": 10, "devmem": memory, "devcore": 100, "type": "NVIDIA",
        "numa": 0, "health": true}]);
    node["metadata"]["annotations"] = json!({"hami.io/node-nvidia-register": cards.to_string()});
    node["status"]["allocatable"]["nvidia.com/gpu"] = "10".into();
    node
}

#[test]
fn a_share_of_cards_waits_no_longer_once_the_node_with_other_cards_is_gone() {
    let mut world = World::new();
    world.add(gpu_node("n1", 8_192));
    world.add(gpu_node("n2", 16_384));
    let mut half = pod("half");
    let asked = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"});
    half["spec"]["containers"][0]["resources"] = json!({"limits": asked, "requests": asked});
    world.add(half);
    assert!(world.bound().is_empty(), "cards differ");
    world.send("DELETED", gpu_node("n2", 16_384));
    assert_eq!(names(&mut world), ["half"]);
}

fn roles(minima: &Value) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": {"minMember": 2, "minTaskMember": minima},
    })
}

fn task(name: &str, role: &str) -> Value {
    let mut task = pod(name);
    task["metadata"]["annotations"] =
        json!({"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": role});
    task
}

#[test]
fn a_member_is_back_with_the_role_that_its_group_had_given_up() {
    let mut world = World::new();
    world.add(roles(&json!({"a": 1, "b": 1})));
    world.add(task("one", "a"));
    world.add(task("two", "b"));
    world.send("MODIFIED", roles(&json!({"a": 2})));
    world.send("MODIFIED", roles(&json!({"a": 1, "b": 1})));
    world.add(node("n1"));
    assert_eq!(names(&mut world), ["one", "two"]);
}

#[test]
fn a_member_goes_into_another_role_waiting_or_running() {
    let mut world = World::new();
    world.add(roles(&json!({"a": 1, "b": 1})));
    world.add(task("one", "a"));
    world.add(task("two", "a"));
    world.add(node("n1"));
    assert!(world.bound().is_empty());
    world.send("MODIFIED", task("two", "b"));
    assert_eq!(names(&mut world), ["one", "two"]);
    let mut runs = task("two", "a");
    runs["spec"]["nodeName"] = "n1".into();
    world.send("MODIFIED", runs);
    let known: Vec<&str> = world.scheduler.cluster().pods().map(|pod| pod.name()).collect();
    assert_eq!(known.len(), 2, "{known:?}");
    world.scheduler.check().unwrap();
}

fn run_time(mut pod: Value, seconds: &str) -> Value {
    pod["metadata"]["annotations"]["phalanx.dev/run-time-seconds"] = seconds.into();
    pod
}

/// The run times of groups in updates, in seconds, and their queues.
fn told(updates: &[Update]) -> Vec<(Option<u64>, &str)> {
    let groups = updates.iter().filter_map(|update| match update {
        Update::Group(group) => Some(group),
        _ => None,
    });
    groups
        .map(|group| (group.run_time_estimate.map(|time| time.as_secs()), group.queue.as_str()))
        .collect()
}

#[test]
fn a_run_time_that_changes_is_told_of_groups_and_of_pods_alone() {
    let mut world = World::new();
    world.store = std::mem::take(&mut world.store).with_run_times();
    world.add(roles(&json!({})));
    for pod in [task("member", "a"), pod("alone")] {
        world.add(run_time(pod.clone(), "10"));
        let mut later = run_time(pod, "20");
        later["metadata"]["resourceVersion"] = "1000".into();
        let line = json!({"type": "MODIFIED", "object": later}).to_string();
        let updates = world.store.apply(serde_json::from_str(&line).unwrap()).unwrap();
        assert_eq!(told(&updates), [(Some(20), "")], "{updates:?}");
    }
}

/// Local queue `default` of a `ClusterQueue`.
fn local_queue(of: &str) -> LocalQueues {
    let mut manifests = QueueManifests::new(Mode::AsWritten);
    for (kind, name, spec) in [
        ("ClusterQueue", of, json!({"namespaceSelector": {}})),
        ("LocalQueue", "default", json!({"clusterQueue": of})),
    ] {
        let object = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"namespace": "ml", "name": name}, "spec": spec,
        });
        manifests.take(&serde_json::from_value(object).unwrap()).unwrap();
    }
    manifests.admission()
}

#[test]
fn a_pod_alone_follows_its_local_queue_into_another() {
    let mut world = World::new();
    world.store = std::mem::take(&mut world.store).with_queues(local_queue("first"));
    world.add(pod("alone"));
    let updates = world.store.set_queues(local_queue("second"));
    assert_eq!(told(&updates), [(None, "second")]);
    assert_eq!(world.store.set_queues(local_queue("second")), []);
    for update in updates {
        update.pass_to(&mut world.scheduler, Time::from_secs(5)).unwrap();
    }
}

/// A claim that exists again with a class that is in force holds its pod back no longer.
fn made_anew(pod: Value, objects: &[Value], claim: impl Fn(&str) -> Value) {
    let mut world = World::new();
    world.add(node("n1"));
    for object in objects {
        world.add(object.clone());
    }
    world.add(claim("bad"));
    world.add(pod);
    assert!(world.bound().is_empty());
    assert!(world.left_alone.iter().any(|reason| reason.contains("newField")));
    world.send("DELETED", claim("bad"));
    world.add(claim("good"));
    assert_eq!(names(&mut world), ["p"]);
}

#[test]
fn a_claim_of_volumes_that_is_made_anew_lets_its_pod_go() {
    let class = |name: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
        })
    };
    let mut bad = class("bad");
    bad["newField"] = 1.into();
    let mut own = pod("p");
    own["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    made_anew(own, &[bad, class("good")], |class| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "ml", "uid": class},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1Gi"}}},
        })
    });
}

#[test]
fn a_claim_of_devices_that_is_made_anew_lets_its_pod_go() {
    let class = |name: &str| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": "true"}}]},
        })
    };
    let mut bad = class("bad");
    bad["spec"]["newField"] = 1.into();
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {
            "driver": "d", "nodeName": "n1", "devices": [{"name": "x"}],
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        },
    });
    let mut own = pod("p");
    own["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimName": "c"}]);
    made_anew(own, &[bad, class("good"), slice], |class| {
        let demand = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": 1});
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "ml", "uid": class},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": demand}]}},
        })
    });
}

#[test]
fn a_layer_that_is_taken_out_is_unknown() {
    let layers = |names: &[&str]| {
        let layers: Vec<Value> =
            names.iter().map(|name| json!({"topologyLayer": name, "labelKey": [name]})).collect();
        json!({
            "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "ClusterNetworkTopology",
            "metadata": {"name": "default"}, "spec": {"networkTopologySpec": layers},
        })
    };
    let mut world = World::new();
    world.add(layers(&["rack", "spine"]));
    world.send("MODIFIED", layers(&["spine"]));
    let wish = json!({"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]});
    world.add(json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml", "annotations": {
            "gang.scheduling.koordinator.sh/network-topology-spec": wish.to_string(),
        }},
        "spec": {"minMember": 1},
    }));
    let mut member = pod("p");
    member["metadata"]["annotations"] = json!({"gang.scheduling.koordinator.sh/name": "g"});
    world.add(member);
    assert!(
        world.left_alone.iter().any(|reason| reason.contains("rack")),
        "{:?}",
        world.left_alone
    );
}

/// A pod of a name that ran elsewhere before keeps its prediction until its own node reports.
#[test]
fn a_report_of_another_node_is_not_about_a_pod_of_the_same_name() {
    let report = |node: &str, available: &str| {
        json!({
            "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
            "metadata": {"name": node},
            "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
            "zones": [{"name": "node-0", "type": "Node", "resources": [{
                "name": "cpu", "capacity": "4", "allocatable": "4", "available": available,
            }]}],
        })
    };
    let exclusive = |name: &str, uid: &str, node: Option<&str>, phase: &str| {
        let mut own = pod(name);
        let asked = json!({"cpu": "3", "memory": "1Gi"});
        own["metadata"]["uid"] = uid.into();
        own["spec"]["containers"][0]["resources"] = json!({"requests": asked, "limits": asked});
        if let Some(node) = node {
            own["spec"]["nodeName"] = node.into();
            own["metadata"]["annotations"] = json!({"phalanx.dev/zones": "{\"0\":{\"cpu\":3000}}"});
            own["status"] = json!({"phase": phase});
        }
        own
    };
    let mut world = World::new();
    for name in ["n1", "n2"] {
        let mut node = node(name);
        node["status"]["allocatable"]["memory"] = "32Gi".into();
        node["spec"] = json!({"unschedulable": name == "n1"});
        world.add(node);
        world.add(report(name, "4"));
    }
    world.add(exclusive("web-0", "first", Some("n1"), "Pending"));
    world.send("DELETED", exclusive("web-0", "first", Some("n1"), "Pending"));
    world.add(exclusive("web-0", "second", None, ""));
    assert_eq!(names(&mut world), ["web-0"]);
    world.send("MODIFIED", exclusive("web-0", "second", Some("n2"), "Pending"));
    world.send("MODIFIED", exclusive("web-0", "second", Some("n2"), "Running"));
    world.send("MODIFIED", report("n1", "3"));
    world.add(exclusive("other", "third", None, ""));
    assert!(world.bound().is_empty(), "its node has one CPU left in the zone");
}
