//! Default spread, live: the selectors of services and controllers come with the pods that wait, in
//! whichever order their objects come.

use std::collections::BTreeMap;

use phalanx::kubernetes::watch::{Kind, Store, Update, WatchEvent};
use phalanx::model::{LabelSelector, PreemptionPolicy};
use phalanx::{Event, Pod, PodGroup};
use serde_json::{Value, json};

struct World {
    store: Store,
    version: u64,
    /// Pods as the scheduler was last told of them.
    pods: BTreeMap<String, Pod>,
}

impl World {
    fn new() -> World {
        World { store: Store::new("phalanx"), version: 0, pods: BTreeMap::new() }
    }

    /// Sends an object; how many updates follow.
    fn send(&mut self, verb: &str, mut object: Value) -> usize {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let line = json!({"type": verb, "object": object});
        let event: WatchEvent = serde_json::from_value(line).unwrap();
        let updates = self.store.apply(event).unwrap();
        for update in &updates {
            match update {
                Update::Group(group) => self.keep(group),
                Update::Event(Event::PodChanged { pod, .. }) => {
                    self.pods.insert(pod.name.clone(), pod.clone());
                }
                _ => {}
            }
        }
        updates.len()
    }

    fn keep(&mut self, group: &PodGroup) {
        for pod in group.all_pods() {
            self.pods.insert(pod.name.clone(), pod.clone());
        }
    }

    /// The selector by which a pod is spread, as labels.
    fn spread(&self, pod: &str) -> Option<Vec<(String, String)>> {
        let selector: Option<&LabelSelector> = self.pods[pod].shape().owner_selector.as_ref();
        selector.map(|selector| selector.match_labels.clone().into_iter().collect())
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": name,
            "labels": {"app": "web", "tier": "front"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]},
        "spec": {"schedulerName": "phalanx", "containers": [{"name": "c"}]},
    })
}

fn service(name: &str, selector: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "ml"}, "spec": {}});
    object["spec"]["selector"] = selector;
    object
}

fn replica_set() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "r", "namespace": "ml"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"tier": "front"}}}})
}

fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn pods_that_wait_are_spread_over_those_of_their_owners() {
    let objects = [pod("p"), service("web", json!({"app": "web"})), replica_set()];
    for turn in 0..objects.len() {
        let mut world = World::new();
        for index in 0..objects.len() {
            world.send("ADDED", objects[(index + turn) % objects.len()].clone());
        }
        assert_eq!(world.spread("p"), Some(labels(&[("app", "web"), ("tier", "front")])), "{turn}");
        // Another selector, none that fits, and no owner at all.
        world.send("MODIFIED", service("web", json!({"app": "other"})));
        assert_eq!(world.spread("p"), Some(labels(&[("tier", "front")])));
        world.send("DELETED", replica_set());
        assert_eq!(world.spread("p"), None);
        assert_eq!(world.send("DELETED", service("web", json!({"app": "other"}))), 0);
    }
}

#[test]
fn a_pod_that_was_placed_keeps_its_selector_and_is_no_news() {
    let mut world = World::new();
    world.send("ADDED", service("web", json!({"app": "web"})));
    world.send("ADDED", pod("p"));
    let mut bound = pod("p");
    bound["spec"]["nodeName"] = "n1".into();
    world.send("MODIFIED", bound.clone());
    assert_eq!(world.spread("p"), Some(labels(&[("app", "web")])));
    assert_eq!(world.send("DELETED", service("web", json!({"app": "web"}))), 0);
    assert_eq!(world.send("MODIFIED", bound), 0);
    // One that ran before is told of as it is.
    let mut other = pod("q");
    other["spec"]["nodeName"] = "n1".into();
    world.send("ADDED", other);
    assert_eq!(world.spread("q"), None);
}

#[test]
fn a_list_of_owners_tells_of_each_pod_once() {
    let mut world = World::new();
    world.send("ADDED", pod("p"));
    world.store.begin_list(Kind::Service);
    assert_eq!(world.send("ADDED", service("web", json!({"app": "web"}))), 0);
    assert_eq!(world.send("ADDED", service("front", json!({"tier": "front"}))), 0);
    let end = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}});
    assert_eq!(world.send("BOOKMARK", end.clone()), 1);
    assert_eq!(world.spread("p"), Some(labels(&[("app", "web"), ("tier", "front")])));
    // Listed anew without one of them.
    world.store.begin_list(Kind::Service);
    world.send("ADDED", service("front", json!({"tier": "front"})));
    world.send("BOOKMARK", end);
    assert_eq!(world.spread("p"), Some(labels(&[("tier", "front")])));
}

fn group(name: &str, parent: Option<&str>, policy: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ml", "uid": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}});
    if let Some(parent) = parent {
        object["spec"]["parentCompositePodGroupName"] = parent.into();
    }
    if let Some(policy) = policy {
        object["spec"]["preemptionPolicy"] = policy.into();
    }
    object
}

fn member(name: &str, group: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["schedulingGroup"] = json!({ "podGroupName": group });
    pod
}

#[test]
fn the_preemption_policy_of_a_group_is_that_of_its_members() {
    let mut world = World::new();
    world.send("ADDED", group("g", None, Some("Never")));
    world.send("ADDED", member("p", "g"));
    world.send("ADDED", member("q", "g"));
    for pod in ["p", "q"] {
        assert_eq!(world.pods[pod].preemption_policy, PreemptionPolicy::Never);
    }
    // A tree has one policy.
    let root = json!({"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"name": "root", "namespace": "ml", "uid": "root"},
        "spec": {"workloadRef": {"workloadName": "w", "templateName": "t"},
            "preemptionPolicy": "Never",
            "schedulingPolicy": {"gang": {"minGroupCount": 1}}}});
    world.send("ADDED", root);
    world.send("ADDED", group("in", Some("root"), None));
    world.send("ADDED", member("r", "in"));
    assert_eq!(world.pods["r"].preemption_policy, PreemptionPolicy::Never);
    world.send("ADDED", group("odd", Some("root"), Some("PreemptLowerPriority")));
    world.send("ADDED", member("s", "odd"));
    let gates = &world.pods["s"].scheduling_gates;
    assert!(gates.iter().any(|gate| gate.contains("preemptionPolicy")), "{gates:?}");
}
