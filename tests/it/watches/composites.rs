//! Composite groups, live: trees that are placed whole or not at all.

use phalanx::kubernetes::watch::{Kind, Update};
use phalanx::queue::{Gate, GroupState};
use serde_json::{Value, json};

use super::relist::{NOW, World, group, member, node};

fn composite(name: &str, min: u32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"workloadRef": {"workloadName": "w", "templateName": name},
                 "schedulingPolicy": {"gang": {"minGroupCount": min}}}})
}

fn under(mut object: Value, parent: &str) -> Value {
    object["spec"]["parentCompositePodGroupName"] = parent.into();
    object
}

#[test]
fn a_tree_is_placed_whole_in_whichever_order_its_objects_come() {
    let objects = [
        composite("c", 2),
        under(group("a", 1), "c"),
        under(group("b", 1), "c"),
        member("p", "a"),
        member("q", "b"),
    ];
    for turn in 0..objects.len() {
        for is_reversed in [false, true] {
            let mut world = World::new();
            world.hear("ADDED", 1, node("n"));
            let mut order: Vec<usize> = (0..objects.len()).collect();
            order.rotate_left(turn);
            if is_reversed {
                order.reverse();
            }
            for (at, index) in order.iter().enumerate() {
                assert_eq!(world.bind(), [""; 0], "{order:?}: it is not whole");
                world.hear("ADDED", 2 + at as u64, objects[*index].clone());
            }
            let groups: Vec<_> = world.scheduler.groups().collect();
            assert_eq!(groups, ["default/composite:c"], "{order:?}");
            assert_eq!(world.store.pod_groups("default/composite:c").len(), 2);
            assert_eq!(world.store.waiting_pods("default/composite:c").len(), 2);
            assert_eq!(world.bind(), ["p", "q"], "{order:?}");
        }
    }
}

#[test]
fn a_tree_that_does_not_fit_whole_is_not_placed_in_part() {
    let mut world = World::new();
    world.hear("ADDED", 1, node("n"));
    world.hear("ADDED", 2, composite("c", 2));
    for (at, name) in ["a", "b"].into_iter().enumerate() {
        let at = 10 * (1 + at as u64);
        world.hear("ADDED", at, under(group(name, 2), "c"));
        for number in 0..2 {
            world.hear("ADDED", at + 1 + number, member(&format!("{name}{number}"), name));
        }
    }
    assert_eq!(world.bind(), [""; 0], "four pods of 4 CPU, one node of 8");
    world.hear("ADDED", 90, node("n2"));
    let later = phalanx::Time::from_secs(1000);
    let decision = world.scheduler.poll_decision(later);
    assert!(matches!(decision, Some(phalanx::Decision::Bind { ref plan, .. }) if plan.len() == 4));
}

#[test]
fn a_tree_goes_with_its_root_and_comes_back() {
    let mut world = World::new();
    world.hear("ADDED", 1, node("n"));
    world.hear("ADDED", 2, composite("c", 1));
    world.hear("ADDED", 3, under(composite("d", 1), "c"));
    world.hear("ADDED", 4, under(group("a", 2), "d"));
    world.hear("ADDED", 5, member("p", "a"));
    let lacks = Gate::Members { group: "default/a".parse().unwrap(), have: 1, need: 2 };
    let state = world.scheduler.state("default/composite:c");
    assert!(matches!(state, Some(GroupState::Gated(_))), "{state:?} for {lacks:?}");
    world.hear("DELETED", 6, under(composite("d", 1), "c"));
    assert_eq!(world.scheduler.groups().count(), 0, "what is between is gone");
    world.hear("ADDED", 7, under(composite("d", 1), "c"));
    world.hear("ADDED", 8, member("q", "a"));
    assert_eq!(world.bind(), ["p", "q"]);
}

#[test]
fn a_circle_of_groups_is_left_alone_and_says_so() {
    let mut world = World::new();
    world.hear("ADDED", 1, under(composite("c", 1), "d"));
    world.hear("ADDED", 2, under(composite("d", 1), "c"));
    world.hear("ADDED", 3, under(group("a", 1), "c"));
    let pod = json!({"type": "ADDED", "object": member("p", "a")});
    let updates = world.store.apply(serde_json::from_value(pod).unwrap()).unwrap();
    let [Update::LeftAlone { name, reason, .. }] = &updates[..] else { panic!("{updates:?}") };
    assert_eq!(name, "p");
    assert!(reason.contains("circle"), "{reason}");
}

#[test]
fn pods_of_groups_that_no_server_serves_are_told_so() {
    let mut world = World::new();
    world.hear("ADDED", 1, node("n"));
    world.hear("ADDED", 2, member("p", "g"));
    let updates = world.store.set_served(Kind::PodGroup, false);
    let [Update::LeftAlone { reason, .. }] = &updates[..] else { panic!("{updates:?}") };
    assert_eq!(reason, "no podgroups of scheduling.k8s.io are served to this scheduler");
    assert_eq!(world.store.set_served(Kind::PodGroup, true), []);
    world.hear("ADDED", 3, group("g", 1));
    assert_eq!(world.bind(), ["p"], "the server was upgraded at {NOW:?}");
}

#[test]
fn a_minimum_may_change_while_its_gang_waits() {
    let mut world = World::new();
    world.hear("ADDED", 1, node("n"));
    world.hear("ADDED", 2, group("g", 3));
    world.hear("ADDED", 3, member("p", "g"));
    world.hear("ADDED", 4, member("q", "g"));
    assert_eq!(world.bind(), [""; 0]);
    world.hear("MODIFIED", 5, group("g", 2));
    assert_eq!(world.bind(), ["p", "q"]);
}
