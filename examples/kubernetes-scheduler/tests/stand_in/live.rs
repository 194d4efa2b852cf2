//! Objects that are followed while gangs run: Kueue's queues, and Jobs as gangs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::RELEASE_1_37;
use crate::world::{SOON, World, condition, group, node, pod};

fn queue(cores: u32) -> Value {
    json!({
        "metadata": {"name": "vision"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [{
                "coveredResources": ["cpu"],
                "flavors": [{"name": "any", "resources": [
                    {"name": "cpu", "nominalQuota": cores.to_string()},
                ]}],
            }],
        },
    })
}

fn add_gang(world: &World, name: &str, pods: usize) {
    let mut own = group(name, pods);
    own["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "team"});
    world.server.create("podgroups", own);
    for index in 0..pods {
        world.server.create("pods", pod(&format!("{name}-{index}"), name));
    }
}

#[test]
fn queues_of_the_server_change_while_gangs_run() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    add_gang(&world, "first", 4);
    let configuration = "\
queues: {watch: true}
timeouts: {firstBackoff: 100ms, longestBackoff: 1s}
";
    let _scheduler = world.scheduler(configuration);
    // There is no queue: the gang waits.
    std::thread::sleep(Duration::from_millis(500));
    world.until_bound(0);
    world.server.create("resourceflavors", json!({"metadata": {"name": "any"}}));
    world.server.create("clusterqueues", queue(4));
    let local = json!({
        "metadata": {"name": "team", "namespace": "ml"}, "spec": {"clusterQueue": "vision"},
    });
    world.server.create("localqueues", local);
    world.until_bound(4);
    // The quota is used up until the queue grows.
    add_gang(&world, "second", 4);
    std::thread::sleep(Duration::from_millis(500));
    world.until_bound(4);
    world.server.create("clusterqueues", queue(8));
    world.until_bound(8);
    // Without the local queue nothing more starts, and what runs goes on.
    world.server.delete("localqueues", "ml", "team");
    std::thread::sleep(Duration::from_millis(500));
    world.server.create("clusterqueues", queue(16));
    add_gang(&world, "third", 4);
    std::thread::sleep(Duration::from_millis(500));
    world.until_bound(8);
}

#[test]
fn pods_of_a_job_start_together_where_the_configuration_says_so() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    world.server.create(
        "jobs",
        json!({
            "metadata": {"name": "train", "namespace": "ml", "uid": "uid-train"},
            "spec": {
                "parallelism": 3, "completions": 3, "completionMode": "Indexed",
                "template": {"spec": {
                    "schedulerName": "phalanx", "restartPolicy": "Never",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                }},
            },
        }),
    );
    let member = |index: u32| {
        let mut own = pod(&format!("train-{index}"), "none");
        own["spec"].as_object_mut().expect("an object").remove("schedulingGroup");
        own["metadata"]["labels"] = json!({"batch.kubernetes.io/job-name": "train"});
        own["metadata"]["annotations"] =
            json!({"batch.kubernetes.io/job-completion-index": index.to_string()});
        own["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train",
            "controller": true,
        }]);
        own
    };
    world.server.create("pods", member(0));
    world.server.create("pods", member(1));
    let _scheduler = world.scheduler("workloads: gangs");
    std::thread::sleep(Duration::from_secs(1));
    world.until_bound(0);
    world.server.create("pods", member(2));
    world.until_bound(3);
}

#[test]
fn a_request_for_nodes_is_answered_and_again_once_they_are_there() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    let template = "\
- price: 3
  node:
    apiVersion: v1
    kind: Node
    metadata: {name: large}
    status: {allocatable: {cpu: 32, memory: 256Gi, pods: 110}}
";
    std::fs::write(world.folder().join("templates.yaml"), template).expect("a file can be written");
    world.server.create(
        "podtemplates",
        json!({
            "metadata": {"name": "worker", "namespace": "ml"},
            "template": {"spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": "20"}}},
            ]}},
        }),
    );
    world.server.create(
        "provisioningrequests",
        json!({
            "metadata": {"name": "train", "namespace": "ml"},
            "spec": {
                "provisioningClassName": "phalanx.dev/plan",
                "podSets": [{"podTemplateRef": {"name": "worker"}, "count": 3}],
            },
        }),
    );
    world.server.create(
        "provisioningrequests",
        json!({
            "metadata": {"name": "other", "namespace": "ml"},
            "spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "podSets": []},
        }),
    );
    let _scheduler = world.scheduler("autoscaling: {templates: templates.yaml}");
    let details = |state: &crate::server::State| {
        let own = state.get("provisioningrequests", "ml", "train").expect("it is there");
        own["status"]["provisioningClassDetails"]["phalanx.dev/nodes"].clone()
    };
    world.server.until(SOON, "two nodes are named", |state| details(state) == "large=2");
    world.server.create("nodes", node("n2"));
    world.server.create("nodes", node("n3"));
    world.server.until(SOON, "it is provisioned", |state| {
        let own = state.get("provisioningrequests", "ml", "train").expect("it is there");
        condition(own, "Provisioned").as_deref() == Some("True")
    });
    let state = world.server.state();
    let other = state.get("provisioningrequests", "ml", "other").expect("it is there");
    assert!(other["status"].is_null(), "{other}");
}

/// Fractions of cards are bound by KAI's binder: each by a request, and no more than the cards hold.
#[test]
fn fractions_of_cards_are_bound_by_their_binder() {
    let world = World::new(RELEASE_1_37);
    let mut own = node("n1");
    own["status"]["allocatable"]["nvidia.com/gpu"] = "2".into();
    world.server.create("nodes", own);
    for index in 0..5 {
        world.server.create(
            "pods",
            json!({
                "metadata": {
                    "name": format!("f{index}"), "namespace": "ml", "uid": format!("uid-f{index}"),
                    "annotations": {"gpu-fraction": "0.5"},
                },
                "spec": {"schedulerName": "phalanx", "containers": [{"name": "c"}]},
            }),
        );
    }
    let _scheduler = world.scheduler("timeouts: {firstBackoff: 100ms, longestBackoff: 1s}\n");
    world.until_bound(4);
    std::thread::sleep(Duration::from_millis(500));
    world.until_bound(4);
    let bound = world.server.state();
    assert!(bound.broken.is_empty(), "{:?}", bound.broken);
    let pods = bound.list("pods").filter(|pod| pod["spec"]["nodeName"].is_string());
    let mut groups: Vec<String> =
        pods.map(|pod| pod["metadata"]["labels"]["runai-gpu-group"].to_string()).collect();
    groups.sort_unstable();
    assert_eq!(groups, ["\"n1-0\"", "\"n1-0\"", "\"n1-1\"", "\"n1-1\""]);
}

/// HAMi's plugin serves the pod for which its node is locked: a gang is bound pod by pod there.
#[test]
fn a_node_is_locked_for_each_pod_with_cards_of_hami() {
    let world = World::new(RELEASE_1_37);
    let mut own = node("n1");
    let cards = json!([{
        "id": "GPU-0", "count": 10, "devmem": 16384, "devcore": 100, "type": "NVIDIA", "health": true,
    }]);
    own["metadata"]["annotations"] = json!({"hami.io/node-nvidia-register": cards.to_string()});
    own["status"]["allocatable"]["nvidia.com/gpu"] = "10".into();
    world.server.create("nodes", own);
    world.server.create("podgroups", group("gang", 4));
    for index in 0..4 {
        let mut own = pod(&format!("gang-{index}"), "gang");
        let amounts = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000"});
        let resources = &mut own["spec"]["containers"][0]["resources"];
        *resources = json!({"requests": amounts, "limits": amounts});
        world.server.create("pods", own);
    }
    let _scheduler = world.scheduler("timeouts: {firstBackoff: 100ms, longestBackoff: 1s}\n");
    world.until_bound(4);
    let state = world.server.state();
    assert!(state.broken.is_empty(), "{:?}", state.broken);
    for pod in state.list("pods") {
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(annotations["hami.io/bind-phase"], "success");
        let cards = annotations["hami.io/vgpu-devices-allocated"].as_str().unwrap_or_default();
        assert!(cards.starts_with("GPU-0,NVIDIA,2000,"), "{cards}");
    }
}
