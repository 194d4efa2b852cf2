//! Fractions of KAI's and NUMA zones that are followed live: what a plan gives counts at once, and what
//! the cluster reports of it takes its place.

use phalanx::{Decision, Time};
use serde_json::{Value, json};

use super::layout::World;

/// A binding: pod, node, annotations, and the groups of the fraction that KAI's binder is asked for.
type Bound = (String, String, Value, Vec<String>);

impl World {
    fn with_fractions() -> World {
        let mut world = World::new();
        world.store = std::mem::take(&mut world.store).with_fractions();
        world
    }

    /// Binds what the scheduler decides, as a watch then shows it.
    fn bind(&mut self) -> Vec<Bound> {
        let mut bound = Vec::new();
        let now = Time::from_secs(self.later());
        while let Some(decision) = self.scheduler.poll_decision(now) {
            let Decision::Bind { plan, ticket, .. } = decision else { continue };
            for own in plan.assignments() {
                let (name, node) = (own.pod().name.clone(), own.node().to_owned());
                let annotations = json!(self.store.binding_annotations(own));
                let groups = self.store.card_fraction(own).map(|fraction| fraction.groups);
                bound.push((name.clone(), node, annotations, groups.unwrap_or_default()));
                self.scheduler.handle_binding(ticket, "ml", &name, Ok(()), now).unwrap();
            }
        }
        bound
    }

    /// Shows a pod as it is once it is bound, and may be running.
    fn show(&mut self, pod: &Value, (_, node, annotations, groups): &Bound, phase: &str) {
        let mut pod = pod.clone();
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({"phase": phase});
        let own = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let mut all = annotations.as_object().cloned().unwrap_or_default();
        all.extend(own);
        pod["metadata"]["annotations"] = json!(all);
        if let [group] = &groups[..] {
            pod["metadata"]["labels"] = json!({"runai-gpu-group": group});
        }
        self.send("MODIFIED", pod);
    }

    /// Asks for a pod; how it was bound, if it was.
    fn ask(&mut self, pod: &Value) -> Option<Bound> {
        self.add(pod.clone());
        let mut bound = self.bind();
        assert!(bound.len() <= 1, "{bound:?}");
        let bound = bound.pop()?;
        self.show(pod, &bound, "Pending");
        Some(bound)
    }
}

fn gpu_node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.memory": "16384"}},
        "status": {"allocatable": {"cpu": "8", "pods": "10", "nvidia.com/gpu": "2"}},
    })
}

fn pod(name: &str, annotations: Value, limits: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": name, "annotations": annotations},
        "spec": {"schedulerName": "phalanx", "containers": [
            {"name": "c", "resources": {"requests": limits, "limits": limits}},
        ]},
    })
}

fn half(name: &str) -> Value {
    pod(name, json!({"gpu-fraction": "0.5"}), json!({}))
}

fn whole(name: &str) -> Value {
    pod(name, json!({}), json!({"nvidia.com/gpu": "1"}))
}

#[test]
fn fractions_share_cards_by_group_and_whole_gpus_keep_out_of_them() {
    let mut world = World::with_fractions();
    world.add(gpu_node());
    let groups = |bound: Option<Bound>| bound.map(|(.., groups)| groups);
    assert_eq!(groups(world.ask(&half("a"))), Some(vec!["n1-0".to_owned()]));
    assert_eq!(groups(world.ask(&half("b"))), Some(vec!["n1-0".to_owned()]));
    // The pod that holds the card for them is not counted beside them, and no whole one is left of it.
    let mut holder = whole("holder");
    holder["metadata"]["namespace"] = "kai-resource-reservation".into();
    holder["spec"]["nodeName"] = "n1".into();
    world.add(holder);
    let (.., annotations, none) = world.ask(&whole("w")).unwrap();
    assert_eq!(annotations["phalanx.dev/cards"], "1");
    assert!(none.is_empty());
    assert_eq!(world.ask(&half("c")), None);
    assert_eq!(world.ask(&whole("x")), None);
    // A half is free again; the group stays.
    world.send("DELETED", half("a"));
    let bound = world.bind();
    assert_eq!(bound.len(), 1, "{bound:?}");
    assert_eq!((&*bound[0].0, &bound[0].3), ("c", &vec!["n1-0".to_owned()]));
    world.show(&half("c"), &bound[0], "Running");
    // Without its pods a group has no card: the first one serves whole pods.
    for gone in ["b", "c"] {
        world.send("DELETED", half(gone));
    }
    let mut reservation = whole("holder");
    reservation["metadata"]["namespace"] = "kai-resource-reservation".into();
    world.send("DELETED", reservation);
    let bound = world.bind();
    assert_eq!(bound.len(), 1, "{bound:?}");
    assert_eq!((&*bound[0].0, &bound[0].2["phalanx.dev/cards"]), ("x", &json!("0")));
}

#[test]
fn groups_of_kais_own_scheduler_keep_their_cards_whatever_comes_later() {
    let mut world = World::with_fractions();
    world.add(gpu_node());
    // Later groups have earlier names.
    for (name, group) in [("y", "z-group"), ("x", "a-group")] {
        let bound = (name.to_owned(), "n1".to_owned(), json!({}), vec![group.to_owned()]);
        let mut other = half(name);
        other["spec"]["schedulerName"] = "kai-scheduler".into();
        world.show(&other, &bound, "Running");
    }
    let (.., groups) = world.ask(&half("new")).unwrap();
    assert_eq!(groups, ["z-group"]);
    let (.., groups) = world.ask(&half("last")).unwrap();
    assert_eq!(groups, ["a-group"]);
    assert_eq!(world.ask(&half("none")), None);
}

#[test]
fn fractions_are_left_alone_where_nobody_asks_the_binder() {
    let mut world = World::new();
    world.add(gpu_node());
    assert_eq!(world.ask(&half("a")), None);
    assert!(world.left_alone[0].contains("KAI's binder"), "{:?}", world.left_alone);
    // Fractions of others count all the same.
    let bound = ("b".to_owned(), "n1".to_owned(), json!({}), vec!["g".to_owned()]);
    world.show(&half("b"), &bound, "Running");
    assert!(world.ask(&whole("w")).is_some());
    assert_eq!(world.ask(&whole("x")), None);
}

fn zones(available: [u32; 2]) -> Value {
    let zone = |number: usize| {
        json!({
            "name": format!("node-{number}"), "type": "Node",
            "resources": [{
                "name": "cpu", "capacity": "4", "allocatable": "4",
                "available": available[number].to_string(),
            }],
        })
    };
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [zone(0), zone(1)],
    })
}

fn exclusive(name: &str, cpu: &str) -> Value {
    pod(name, json!({}), json!({"cpu": cpu, "memory": "1Gi"}))
}

fn numa_node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "10"}},
    })
}

#[test]
fn zones_count_what_plans_predict_until_the_node_reports_it() {
    let mut world = World::new();
    world.add(numa_node());
    world.add(zones([4, 4]));
    let first = exclusive("a", "3");
    let bound = world.ask(&first).unwrap();
    let predicted = &bound.2["phalanx.dev/zones"];
    assert_eq!(predicted, "{\"0\":{\"cpu\":3000}}");
    assert!(world.ask(&exclusive("b", "3")).is_some());
    // The node has two CPUs left, one in each zone.
    assert_eq!(world.ask(&exclusive("c", "2")), None);
    // A report that does not have them yet, as neither runs: they count beside it.
    world.send("MODIFIED", zones([4, 3]));
    assert_eq!(world.bind(), []);
    // They run, and the next report has them; they do not count twice, so one CPU fits each zone.
    world.show(&first, &bound, "Running");
    let second = (
        "b".to_owned(),
        "n1".to_owned(),
        json!({"phalanx.dev/zones": "{\"1\":{\"cpu\":3000}}"}),
        vec![],
    );
    world.show(&exclusive("b", "3"), &second, "Running");
    world.send("MODIFIED", zones([1, 1]));
    assert!(world.ask(&exclusive("d", "1")).is_some());
    assert!(world.ask(&exclusive("e", "1")).is_some());
    assert_eq!(world.ask(&exclusive("f", "1")), None);
}

#[test]
fn pods_that_run_when_they_are_first_seen_are_in_the_report() {
    let mut world = World::new();
    world.add(numa_node());
    let old = (
        "a".to_owned(),
        "n1".to_owned(),
        json!({"phalanx.dev/zones": "{\"0\":{\"cpu\":3000}}"}),
        vec![],
    );
    world.show(&exclusive("a", "3"), &old, "Running");
    world.add(zones([4, 4]));
    world.send("MODIFIED", zones([1, 4]));
    assert!(world.ask(&exclusive("b", "4")).is_some());
    assert!(world.ask(&exclusive("c", "1")).is_some());
}

#[test]
fn a_policy_that_a_pod_wants_waits_for_a_node_with_it() {
    let mut world = World::new();
    world.add(numa_node());
    let mut wants = exclusive("a", "2");
    wants["metadata"]["annotations"] = json!({"volcano.sh/numa-topology-policy": "restricted"});
    assert_eq!(world.ask(&wants), None);
    assert!(world.left_alone.is_empty(), "{:?}", world.left_alone);
    world.add(zones([4, 4]));
    assert_eq!(world.bind().len(), 1);
    // The reports end: nothing is aligned, and the policy is nowhere.
    world.send("DELETED", zones([4, 4]));
    let mut wants = exclusive("b", "2");
    wants["metadata"]["annotations"] = json!({"volcano.sh/numa-topology-policy": "restricted"});
    assert_eq!(world.ask(&wants), None);
}
