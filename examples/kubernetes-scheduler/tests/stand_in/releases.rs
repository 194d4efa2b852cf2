//! Releases of `scheduling.k8s.io`: groups are bound, and conditions are named, as each serves them.

use serde_json::json;

use crate::server::{RELEASE_1_36, RELEASE_1_37};
use crate::world::{SOON, World, condition, group, node, pod};

const BOTH: [&str; 2] = ["PodGroupScheduled", "PodGroupInitiallyScheduled"];

fn add_gang(world: &World, name: &str, pods: usize, minimum: usize) {
    world.server.create("podgroups", group(name, minimum));
    for index in 0..pods {
        world.server.create("pods", pod(&format!("{name}-{index}"), name));
    }
}

/// Waits for a condition of a group, and that it has no other by which groups are scheduled.
fn expect(world: &World, name: &str, [wanted, other]: [&str; 2], status: &str) {
    world.server.until(SOON, wanted, |state| {
        let group = state.get("podgroups", "ml", name).expect("the group is there");
        assert_eq!(condition(group, other), None, "{group}");
        condition(group, wanted).as_deref() == Some(status)
    });
}

#[test]
fn groups_of_1_37_are_bound_and_have_its_conditions() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    world.server.create("nodes", node("n2"));
    add_gang(&world, "whole", 4, 4);
    add_gang(&world, "large", 80, 80);
    let _scheduler = world.scheduler("timeouts: {firstBackoff: 100ms, longestBackoff: 1s}");
    world.until_bound(4);
    let [old, new] = BOTH;
    expect(&world, "whole", [new, old], "True");
    expect(&world, "large", [new, old], "False");
    // A composite group: its parts start together or not at all.
    let mut root = json!({
        "metadata": {"name": "tree", "namespace": "ml"},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        },
    });
    root["status"] = json!({});
    world.server.create("compositepodgroups", root);
    for part in ["left", "right"] {
        let mut own = group(part, 2);
        own["spec"]["parentCompositePodGroupName"] = "tree".into();
        own["spec"]["workloadRef"] = json!({"workloadName": "w", "templateName": part});
        world.server.create("podgroups", own);
    }
    for name in ["l0", "l1"] {
        world.server.create("pods", pod(name, "left"));
    }
    world.server.create("pods", pod("r0", "right"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    world.until_bound(4);
    world.server.create("pods", pod("r1", "right"));
    world.until_bound(8);
    expect(&world, "left", [new, old], "True");
    expect(&world, "right", [new, old], "True");
}

#[test]
fn a_server_may_be_upgraded_under_the_scheduler() {
    let world = World::new(RELEASE_1_36);
    world.server.create("nodes", node("n1"));
    add_gang(&world, "before", 2, 2);
    let mut scheduler = world.scheduler("{}");
    world.until_bound(2);
    let [old, new] = BOTH;
    expect(&world, "before", [old, new], "True");
    world.server.upgrade(RELEASE_1_37);
    add_gang(&world, "after", 2, 2);
    world.until_bound(4);
    expect(&world, "after", [new, old], "True");
    assert!(scheduler.runs());
}

#[test]
fn groups_that_no_release_serves_are_named_on_their_pods() {
    let world = World::new(&[]);
    world.server.create("nodes", node("n1"));
    world.server.create("pods", pod("p", "g"));
    let _scheduler = world.scheduler("{}");
    world.server.until(SOON, "the pod has a condition", |state| {
        let pod = state.get("pods", "ml", "p").expect("the pod is there");
        assert!(!pod["spec"]["nodeName"].is_string());
        let conditions = pod["status"]["conditions"].as_array();
        let mut messages =
            conditions.into_iter().flatten().filter_map(|own| own["message"].as_str());
        messages.any(|text| text.contains("podgroups of scheduling.k8s.io"))
    });
}
