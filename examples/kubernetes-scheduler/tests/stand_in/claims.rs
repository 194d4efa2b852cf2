//! Claims and volumes of gangs: written whole before the first pod is bound, or taken back whole,
//! whenever the scheduler is killed and whichever answers are lost.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{RELEASE_1_37, Server, State};
use crate::world::{SOON, World, group, node, pod};

const CLASS: &str = "gpu.example.com";

/// Nodes with eight devices each.
fn add_devices(server: &Server, nodes: usize) {
    server.create(
        "deviceclasses",
        json!({
            "metadata": {"name": "gpu"},
            "spec": {
                "selectors": [{"cel": {"expression": format!("device.driver == \"{CLASS}\"")}}],
                "config": [{"opaque": {"driver": CLASS, "parameters": {"mode": "shared"}}}],
            },
        }),
    );
    for index in 0..nodes {
        let name = format!("n{index}");
        server.create("nodes", node(&name));
        let devices: Vec<Value> = (0..8).map(|at| json!({"name": format!("gpu-{at}")})).collect();
        server.create(
            "resourceslices",
            json!({
                "metadata": {"name": format!("{name}-gpus")},
                "spec": {
                    "driver": CLASS, "nodeName": name, "devices": devices,
                    "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                },
            }),
        );
    }
}

/// A pod with a claim of its own, as the claim controller makes it of a template.
fn add_claiming(server: &Server, name: &str, group: &str, count: usize) {
    server.create("resourceclaims", json!({
        "metadata": {
            "name": format!("{name}-gpus"), "namespace": "ml",
            "ownerReferences": [{"kind": "Pod", "name": name, "uid": format!("uid-{name}"), "controller": true}],
        },
        "spec": {"devices": {"requests": [
            {"name": "gpus", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}},
        ]}},
    }));
    let mut pod = pod(name, group);
    pod["spec"]["resourceClaims"] = json!([{"name": "gpus", "resourceClaimTemplateName": "gpus"}]);
    pod["status"]["resourceClaimStatuses"] =
        json!([{"name": "gpus", "resourceClaimName": format!("{name}-gpus")}]);
    server.create("pods", pod);
}

/// Whether all pods are bound, each with devices of its node that are reserved for it.
fn is_settled(state: &State, pods: usize) -> bool {
    let bound = state.list("pods").filter(|pod| pod["spec"]["nodeName"].is_string());
    bound.count() == pods
        && state.list("resourceclaims").all(|claim| {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            let pod = name.strip_suffix("-gpus").unwrap_or_default();
            let Some(pod) = state.get("pods", "ml", pod) else { return false };
            let users = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
            let results = claim["status"]["allocation"]["devices"]["results"].as_array();
            let [user] = users.as_slice() else { return false };
            user["uid"] == pod["metadata"]["uid"]
                && results.is_some_and(|results| {
                    !results.is_empty()
                        && results.iter().all(|device| device["pool"] == pod["spec"]["nodeName"])
                })
        })
}

#[test]
fn a_gang_with_claims_is_bound_whole_though_the_scheduler_is_killed_between() {
    let soak = std::env::var_os("PHALANX_SOAK").is_some();
    let (nodes, pods, kills) = if soak { (16, 64, 10) } else { (4, 16, 3) };
    let world = World::new(RELEASE_1_37);
    add_devices(&world.server, nodes);
    world.server.create("podgroups", group("g", pods));
    for index in 0..pods {
        add_claiming(&world.server, &format!("p{index}"), "g", 2);
    }
    let configuration = "timeouts: {firstBackoff: 50ms, longestBackoff: 200ms}";
    // Fixed moments that look random: after so many claims were written.
    let mut moment = 7_usize;
    for _ in 0..kills {
        moment = moment * 31 % 97;
        world.server.set_alarm(1 + moment % pods);
        let scheduler = world.scheduler(configuration);
        world.server.until(SOON, "claims are written", |_| world.server.has_rung());
        scheduler.kill();
        let state = world.server.state();
        assert!(state.broken.is_empty(), "{:?}", state.broken);
    }
    // One pod goes while nobody looks, and comes back as another.
    world.server.delete("pods", "ml", "p0");
    world.server.delete("resourceclaims", "ml", "p0-gpus");
    add_claiming(&world.server, "p0", "g", 2);
    let _scheduler = world.scheduler(configuration);
    world.server.until(SOON, "the gang is bound", |state| is_settled(state, pods));
    let state = world.server.state();
    assert!(state.broken.is_empty(), "{:?}", state.broken);
    let claim = state.get("resourceclaims", "ml", "p1-gpus").unwrap();
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!(["resource.kubernetes.io/delete-protection"])
    );
    let config = &claim["status"]["allocation"]["devices"]["config"][0];
    assert_eq!((&config["source"], &config["requests"]), (&json!("FromClass"), &json!(["gpus"])));
    assert_eq!(config["opaque"]["parameters"]["mode"], "shared");
}

#[test]
fn lost_answers_give_no_device_twice() {
    let world = World::new(RELEASE_1_37);
    add_devices(&world.server, 2);
    world.server.lose_answers(5);
    for name in ["a", "b"] {
        world.server.create("podgroups", group(name, 4));
        for index in 0..4 {
            add_claiming(&world.server, &format!("{name}{index}"), name, 2);
        }
    }
    let _scheduler = world.scheduler("timeouts: {firstBackoff: 50ms, longestBackoff: 200ms}");
    world.server.until(SOON, "both gangs are bound", |state| is_settled(state, 8));
    let state = world.server.state();
    assert!(state.broken.is_empty(), "{:?}", state.broken);
}

fn add_volume_claim(server: &Server, name: &str) {
    server.create(
        "persistentvolumeclaims",
        json!({
            "metadata": {"name": name, "namespace": "ml", "annotations": {}},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Pending"},
        }),
    );
}

fn add_storing(world: &World, pods: usize) {
    add_devices(&world.server, 2);
    world.server.create(
        "storageclasses",
        json!({
            "metadata": {"name": "fast"}, "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
    );
    world.server.create("podgroups", group("g", pods));
    for index in 0..pods {
        let name = format!("p{index}");
        add_volume_claim(&world.server, &format!("{name}-data"));
        world.server.create("resourceclaims", json!({
            "metadata": {"name": format!("{name}-gpus"), "namespace": "ml"},
            "spec": {"devices": {"requests": [
                {"name": "gpus", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}},
            ]}},
        }));
        let mut pod = pod(&name, "g");
        pod["spec"]["resourceClaims"] =
            json!([{"name": "gpus", "resourceClaimName": format!("{name}-gpus")}]);
        pod["spec"]["volumes"] =
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": format!("{name}-data")}}]);
        world.server.create("pods", pod);
    }
}

const SELECTED: &str = "volume.kubernetes.io/selected-node";

#[test]
fn volumes_are_provisioned_before_the_first_pod_is_bound() {
    let world = World::new(RELEASE_1_37);
    add_storing(&world, 4);
    world.server.state().provisions = true;
    let _scheduler = world.scheduler("{}");
    world.until_bound(4);
    let state = world.server.state();
    let bound = state
        .history
        .iter()
        .position(|(_, of, _, object)| of == "pods" && object["spec"]["nodeName"].is_string());
    let made = state.history.iter().rposition(|(_, of, _, object)| {
        of == "persistentvolumeclaims" && object["spec"]["volumeName"].is_string()
    });
    assert!(made < bound, "{made:?} {bound:?}");
    for index in 0..4 {
        let claim = state.get("persistentvolumeclaims", "ml", &format!("p{index}-data")).unwrap();
        let pod = state.get("pods", "ml", &format!("p{index}")).unwrap();
        assert_eq!(claim["metadata"]["annotations"][SELECTED], pod["spec"]["nodeName"]);
    }
}

#[test]
fn a_provisioner_that_never_answers_costs_the_gang_its_turn_and_holds_nothing() {
    let world = World::new(RELEASE_1_37);
    add_storing(&world, 4);
    let configuration = "\
bindings: {prepareFor: 1s}
timeouts: {firstBackoff: 60s, longestBackoff: 60s}
";
    let _scheduler = world.scheduler(configuration);
    let selected = |claim: &Value| claim["metadata"]["annotations"][SELECTED].is_string();
    world.server.until(SOON, "nodes are selected", |state| {
        state.list("persistentvolumeclaims").filter(|claim| selected(claim)).count() == 4
    });
    world.server.until(SOON, "everything is released", |state| {
        let free = |claim: &Value| {
            let users = claim["status"]["reservedFor"].as_array().map_or(0, Vec::len);
            claim["status"]["allocation"].is_null() && users == 0
        };
        !state.list("persistentvolumeclaims").any(selected)
            && state.list("resourceclaims").all(free)
            && !state.list("pods").any(|pod| pod["spec"]["nodeName"].is_string())
    });
    // It stays so: the gang waits for its next turn.
    std::thread::sleep(Duration::from_millis(300));
    let state = world.server.state();
    assert!(!state.list("pods").any(|pod| pod["spec"]["nodeName"].is_string()));
}
