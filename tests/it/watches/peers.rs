//! Groups of KAI and applications of `YuniKorn`, live: placed whole or not at all, and left alone by
//! name while what they need is not there.

use serde_json::{Value, json};

use super::layout::{World, node, pod};

/// The names of the pods that are bound now, and the nodes.
fn bound(world: &mut World) -> Vec<(String, String)> {
    let mut bound: Vec<(String, String)> =
        world.bound().into_iter().map(|(pod, node, _)| (pod, node)).collect();
    bound.sort();
    bound
}

fn names(bound: &[(String, String)]) -> Vec<&str> {
    bound.iter().map(|(pod, _)| pod.as_str()).collect()
}

/// Adds objects to a cluster of two nodes, once with each of them first: nothing is bound before the
/// last one, and then these pods are.
fn in_each_turn(objects: &[Value], pods: &[&str], then: impl Fn(&World, usize)) {
    for turn in 0..objects.len() {
        let mut world = World::new();
        world.add(node("a"));
        world.add(node("b"));
        for index in 0..objects.len() {
            assert!(world.bound().is_empty(), "{turn}");
            world.add(objects[(index + turn) % objects.len()].clone());
        }
        assert_eq!(names(&bound(&mut world)), pods, "{turn}");
        then(&world, turn);
    }
}

/// A member of an application's task group, which may describe all of them.
fn task(name: &str, role: &str, groups: Option<&Value>) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["labels"] = json!({"applicationId": "app"});
    pod["metadata"]["annotations"] = json!({"yunikorn.apache.org/task-group-name": role});
    if let Some(groups) = groups {
        pod["metadata"]["annotations"]["yunikorn.apache.org/task-groups"] =
            groups.to_string().into();
    }
    pod
}

fn task_groups(workers: u32) -> Value {
    json!([{"name": "driver", "minMember": 1, "minResource": {}},
        {"name": "worker", "minMember": workers, "minResource": {}}])
}

#[test]
fn an_application_starts_once_all_its_task_groups_can() {
    let objects = [
        task("driver", "driver", Some(&task_groups(2))),
        task("w0", "worker", None),
        task("w1", "worker", None),
    ];
    in_each_turn(&objects, &["driver", "w0", "w1"], |world, turn| {
        let undescribed = |reason: &String| reason.contains("task groups");
        assert_eq!(world.left_alone.iter().any(undescribed), turn > 0);
    });
    // More workers than there is room for.
    let mut world = World::new();
    world.add(node("a"));
    world.add(task("driver", "driver", Some(&task_groups(2))));
    world.add(task("w0", "worker", None));
    world.add(task("w1", "worker", None));
    assert!(world.bound().is_empty());
    world.add(node("b"));
    assert_eq!(bound(&mut world).len(), 3);
}

#[test]
fn task_groups_stay_while_their_application_has_pods() {
    let mut world = World::new();
    world.add(node("a"));
    let driver = task("driver", "driver", Some(&task_groups(1)));
    world.add(driver.clone());
    world.add(task("w0", "worker", None));
    assert_eq!(bound(&mut world).len(), 2);
    world.send("DELETED", driver);
    let first = task("w0", "worker", None);
    world.send("DELETED", first);
    assert_eq!(world.scheduler.groups().count(), 0);
    // Another of its name begins anew.
    world.add(task("w2", "worker", None));
    assert!(world.bound().is_empty());
    assert!(world.left_alone.last().is_some_and(|reason| reason.contains("task groups")));
}

fn kai_group(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml"},
    });
    object["spec"] = spec;
    object
}

fn kai_pod(name: &str, inner: Option<&str>) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["annotations"] = json!({"pod-group-name": "g"});
    if let Some(inner) = inner {
        pod["metadata"]["labels"] = json!({"kai.scheduler/subgroup-name": inner});
    }
    pod
}

fn in_rack(name: &str, rack: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["labels"] = json!({"rack": rack});
    node
}

#[test]
fn a_group_of_kai_goes_into_one_domain_of_its_topology() {
    let mut world = World::new();
    for (name, rack) in [("a", "r0"), ("b", "r1"), ("c", "r1")] {
        world.add(in_rack(name, rack));
    }
    let constraint = json!({"topology": "t", "requiredTopologyLevel": "rack"});
    world.add(kai_group(json!({"minMember": 4, "topologyConstraint": constraint})));
    for index in 0..4 {
        world.add(kai_pod(&format!("p{index}"), None));
    }
    assert!(world.bound().is_empty());
    assert!(world.left_alone.iter().any(|reason| reason.contains("topology")));
    world.add(json!({
        "apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "rack"}]},
    }));
    let bound = bound(&mut world);
    assert_eq!(bound.len(), 4);
    assert!(bound.iter().all(|(_, node)| node != "a"), "{bound:?}");
}

#[test]
fn groups_inside_a_group_of_kai_start_together() {
    let inside = json!({"minSubGroup": 2, "subGroups": [
        {"name": "prefill", "minMember": 1}, {"name": "decode", "minMember": 2}]});
    let objects = [
        kai_group(inside),
        kai_pod("p0", Some("prefill")),
        kai_pod("d0", Some("decode")),
        kai_pod("d1", Some("decode")),
    ];
    in_each_turn(&objects, &["d0", "d1", "p0"], |_, _| {});
    // The object changes to one group without others inside, and goes.
    let mut world = World::new();
    world.add(node("a"));
    for object in &objects[..2] {
        world.add(object.clone());
    }
    assert!(world.bound().is_empty());
    world.send("MODIFIED", kai_group(json!({"minMember": 1})));
    world.add(kai_pod("q", None));
    assert_eq!(names(&bound(&mut world)), ["q"]);
    world.send("DELETED", kai_group(json!({"minMember": 1})));
    assert_eq!(world.scheduler.groups().count(), 0);
}
