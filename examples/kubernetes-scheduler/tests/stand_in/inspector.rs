//! The inspector of the soak: each rule is broken, and found once; what is allowed is not found.

use std::time::Duration;

use serde_json::Value;

use crate::support::inspector::{Finding, Inspector};
use crate::support::objects::{self, Gang};

const DEADLINE: Duration = Duration::from_secs(60);

/// An inspector that knows two nodes in each of two racks.
fn inspector() -> Inspector {
    let mut inspector = Inspector::new(DEADLINE);
    inspector.all_nodes(&objects::nodes(4, 2));
    inspector
}

fn owned(mut object: Value, uid: &str) -> Value {
    object["metadata"]["namespace"] = "default".into();
    object["metadata"]["uid"] = uid.into();
    object
}

fn bound(mut pod: Value, node: usize) -> Value {
    pod["spec"]["nodeName"] = format!("node-{node:04}").into();
    pod
}

fn member(gang: Gang<'_>, index: usize) -> Value {
    owned(gang.pod(index, "phalanx"), &gang.pod_name(index))
}

fn rules(inspector: &mut Inspector) -> Vec<&'static str> {
    inspector.take_findings().iter().map(Finding::rule).collect()
}

#[test]
fn a_node_beyond_its_capacity_is_found_once() {
    let mut own = inspector();
    let pod = |name: &str, cpu: u64| bound(owned(objects::pod(name, cpu, "phalanx"), name), 1);
    own.put_pod(&pod("a", 20));
    own.put_pod(&pod("b", 12));
    assert_eq!(rules(&mut own), [""; 0], "32 of 32");
    own.put_pod(&pod("c", 1));
    own.put_pod(&pod("c", 1));
    let found = own.take_findings();
    let node = "node-0001".to_owned();
    let expected =
        Finding::OverCapacity { node, resource: "cpu".into(), used: 33_000, has: 32_000 };
    assert_eq!(found, [expected]);
    own.drop_pod(&pod("b", 12));
    own.drop_pod(&pod("c", 1));
    own.put_pod(&pod("d", 13));
    assert_eq!(rules(&mut own), ["capacity"], "it holds again, and then does not");

    // In a list, pods that are gone make room for those that are new.
    own.all_pods(&[pod("e", 32)]);
    assert_eq!(rules(&mut own), [""; 0]);
    // The number of pods counts as well.
    let many: Vec<Value> = (0..111).map(|n| pod(&format!("many-{n}"), 0)).collect();
    own.all_pods(&many);
    assert_eq!(rules(&mut own), ["capacity"]);
}

#[test]
fn pods_on_a_node_that_is_gone_count_when_it_returns() {
    let mut own = inspector();
    let pod = |name: &str| bound(owned(objects::pod(name, 20, "phalanx"), name), 0);
    own.put_pod(&pod("a"));
    own.drop_node(&objects::nodes(1, 2)[0]);
    own.put_node(&objects::nodes(1, 2)[0]);
    own.put_pod(&pod("b"));
    assert_eq!(rules(&mut own), ["capacity"]);
}

#[test]
fn a_gang_below_its_minimum_has_until_the_deadline() {
    let mut own = inspector();
    let gang = Gang { pods: 4, min: Some(3), ..Gang::default() };
    own.put_gang(&owned(gang.group(), "group"));
    own.put_pod(&bound(member(gang, 0), 0));
    own.put_pod(&bound(member(gang, 1), 1));
    own.pass(DEADLINE);
    assert_eq!(rules(&mut own), [""; 0]);
    // Whole in time: the next shortage has a time of its own.
    own.put_pod(&bound(member(gang, 2), 2));
    assert_eq!((own.seen().gangs_whole, own.seen().longest_below), (1, DEADLINE));
    own.pass(DEADLINE);
    own.drop_pod(&member(gang, 0));
    own.pass(DEADLINE);
    assert_eq!(rules(&mut own), [""; 0]);
    own.pass(Duration::from_secs(1));
    own.pass(Duration::from_secs(1));
    let found = own.take_findings();
    let expected = Finding::BelowMinimum { gang: "default/gang".into(), bound: 2, min: 3 };
    assert_eq!(found, [expected], "once");
}

#[test]
fn a_pod_that_terminates_or_whose_node_is_gone_does_not_count_for_its_gang() {
    let gang = Gang { pods: 2, ..Gang::default() };
    let mut terminating = bound(member(gang, 1), 1);
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    for is_node_lost in [false, true] {
        let mut own = inspector();
        own.put_gang(&owned(gang.group(), "group"));
        own.put_pod(&bound(member(gang, 0), 0));
        own.put_pod(&bound(member(gang, 1), 1));
        if is_node_lost {
            own.drop_node(&objects::nodes(2, 2)[1]);
        } else {
            own.put_pod(&terminating);
        }
        own.pass(DEADLINE * 2);
        assert_eq!(rules(&mut own), ["minimum"]);
        // No pod of it counts: it is evicted, as it must be.
        own.drop_pod(&member(gang, 0));
        own.pass(DEADLINE * 2);
        assert_eq!(rules(&mut own), [""; 0]);
    }
}

#[test]
fn a_gang_on_two_racks_is_found_where_it_needs_one() {
    for (one_rack, expected) in [(true, &["apart"][..]), (false, &[])] {
        let mut own = inspector();
        let gang = Gang { pods: 2, one_rack, ..Gang::default() };
        own.put_gang(&owned(gang.group(), "group"));
        own.put_pod(&bound(member(gang, 0), 1));
        own.put_pod(&bound(member(gang, 1), 2));
        assert_eq!(rules(&mut own), expected);
    }
}

#[test]
fn a_pod_that_moves_is_found_and_one_made_anew_is_not() {
    let mut own = inspector();
    let pod = |uid: &str| owned(objects::pod("a", 1, "phalanx"), uid);
    own.put_pod(&bound(pod("first"), 0));
    own.put_pod(&bound(pod("second"), 1));
    assert_eq!(rules(&mut own), [""; 0]);
    own.put_pod(&bound(pod("first"), 2));
    assert_eq!(rules(&mut own), ["twice"]);
}

#[test]
fn at_the_end_nothing_waits() {
    let mut own = inspector();
    let gang = Gang { pods: 2, ..Gang::default() };
    own.all_gangs(&[owned(gang.group(), "group")]);
    own.all_pods(&[bound(member(gang, 0), 0), member(gang, 1)]);
    own.end();
    assert_eq!(rules(&mut own), ["unbound", "never whole"]);
    own.put_pod(&bound(member(gang, 1), 0));
    own.end();
    assert_eq!(rules(&mut own), [""; 0]);
    let seen = own.seen();
    assert_eq!((seen.gangs, seen.pods, seen.bindings, seen.gangs_whole), (1, 2, 2, 1));
}
