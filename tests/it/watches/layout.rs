//! Tiers, cards and claims that are followed live: groups go where they say, and wait for them.

use phalanx::claims::Cel;
use phalanx::kubernetes::watch::{Store, Update};
use phalanx::plugins::DynamicResources;
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Framework, Scheduler, Time};
use serde_json::{Value, json};

pub(super) struct World {
    pub(super) store: Store,
    pub(super) scheduler: Scheduler,
    version: u64,
    pub(super) left_alone: Vec<String>,
}

impl World {
    pub(super) fn new() -> World {
        let builder = DynamicResources::add_to(Framework::default().to_builder(), Cel);
        let framework = builder.build().unwrap();
        let scheduler = Scheduler::new(Cluster::new(), framework, Settings::default());
        let store = Store::new("phalanx").with_claims();
        World { store, scheduler, version: 0, left_alone: Vec::new() }
    }

    pub(super) fn send(&mut self, verb: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let line = json!({"type": verb, "object": object}).to_string();
        for update in self.store.apply(serde_json::from_str(&line).unwrap()).unwrap() {
            if let Update::LeftAlone { reason, .. } = &update {
                self.left_alone.push(reason.clone());
            }
            update.pass_to(&mut self.scheduler, Time::from_secs(self.version)).unwrap();
        }
    }

    pub(super) fn add(&mut self, object: Value) {
        self.send("ADDED", object);
    }

    /// A time after all that came before.
    pub(super) fn later(&mut self) -> u64 {
        self.version += 1_000;
        self.version
    }

    /// Bound pods: pod, node, and the annotations for its cards.
    pub(super) fn bound(&mut self) -> Vec<(String, String, Value)> {
        let mut bound = Vec::new();
        self.later();
        while let Some(decision) = self.scheduler.poll_decision(Time::from_secs(self.version)) {
            let Decision::Bind { plan, ticket, .. } = decision else { continue };
            for own in plan.assignments() {
                let (pod, node) = (own.pod(), own.node());
                let cards = self.store.node_devices(node);
                let written = cards.map(|cards| cards.annotations(node, pod, own.devices()));
                bound.push((pod.name.clone(), node.to_owned(), json!(written)));
                let now = Time::from_secs(self.version);
                let done =
                    self.scheduler.handle_binding(ticket, pod.namespace(), &pod.name, Ok(()), now);
                done.unwrap();
            }
        }
        bound
    }
}

pub(super) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "8", "pods": "10"}},
    })
}

pub(super) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": name},
        "spec": {"schedulerName": "phalanx", "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
    })
}

fn hyper_node(name: &str, members: &[&str]) -> Value {
    let members: Vec<Value> = members
        .iter()
        .map(|name| json!({"type": "Node", "selector": {"exactMatch": {"name": name}}}))
        .collect();
    json!({
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name},
        "spec": {"tier": 1, "members": members},
    })
}

#[test]
fn a_gang_waits_for_its_tier_and_goes_into_one_part_of_it() {
    let mut world = World::new();
    for name in ["a", "b", "c", "d"] {
        world.add(node(name));
    }
    world.add(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": {"minMember": 4, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
    }));
    for index in 0..4 {
        let mut member = pod(&format!("p{index}"));
        member["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": "g"});
        world.add(member);
    }
    assert!(world.bound().is_empty());
    assert!(world.left_alone.iter().any(|reason| reason.contains("networkTopology")));
    world.add(hyper_node("left", &["a"]));
    world.add(hyper_node("right", &["b"]));
    assert!(world.bound().is_empty(), "one node has room for two");
    world.send("MODIFIED", hyper_node("right", &["b", "d"]));
    let nodes: std::collections::BTreeSet<String> =
        world.bound().into_iter().map(|(_, node, _)| node).collect();
    assert_eq!(Vec::from_iter(nodes), ["b", "d"]);
}

#[test]
fn parts_of_cards_are_granted_as_devices_come_and_are_written_back() {
    let mut world = World::new();
    world.add(node("n1"));
    let half = |name: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {
            "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50",
        }});
        pod
    };
    let card = |minor: u32| {
        json!({
            "type": "gpu", "id": format!("GPU-{minor}"), "minor": minor, "health": true,
            "resources": {"koordinator.sh/gpu-memory": "16Gi"},
        })
    };
    let device = |cards: &[u32]| {
        json!({
            "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
            "metadata": {"name": "n1"},
            "spec": {"devices": cards.iter().map(|minor| card(*minor)).collect::<Vec<_>>()},
        })
    };
    for name in ["a", "b", "c"] {
        world.add(half(name));
    }
    assert!(world.bound().is_empty());
    world.add(device(&[3]));
    let bound = world.bound();
    assert_eq!(bound.len(), 2, "{bound:?}");
    let written = bound[0].2["scheduling.koordinator.sh/device-allocated"].as_str().unwrap();
    assert!(written.contains("\"minor\":3"), "{written}");
    // The watch shows the bound pods with what was written.
    for (name, node, annotations) in &bound {
        let mut pod = half(name);
        pod["spec"]["nodeName"] = node.as_str().into();
        pod["metadata"]["annotations"] = annotations.clone();
        world.send("MODIFIED", pod);
    }
    assert!(world.bound().is_empty());
    world.send("MODIFIED", device(&[3, 4]));
    let bound = world.bound();
    assert_eq!(bound.len(), 1, "{bound:?}");
    let written = bound[0].2["scheduling.koordinator.sh/device-allocated"].as_str().unwrap();
    assert!(written.contains("\"minor\":4"), "{written}");
}

fn claims(world: &mut World) {
    world.add(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "true"}}]},
    }));
    world.add(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {
            "driver": "d", "nodeName": "n1", "devices": [{"name": "x"}],
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        },
    }));
}

fn claim(name: &str, owner: &str, allocated: bool) -> Value {
    let mut claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml", "ownerReferences": [
            {"kind": "Pod", "name": owner, "uid": owner, "controller": true},
        ]},
        "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}},
        ]}},
    });
    if allocated {
        claim["status"] = json!({
            "allocation": {"devices": {"results": [
                {"request": "r", "driver": "d", "pool": "n1", "device": "x"},
            ]}},
            "reservedFor": [{"resource": "pods", "name": owner, "uid": owner}],
        });
    }
    claim
}

fn claiming(name: &str) -> Value {
    let mut own = pod(name);
    own["spec"]["resourceClaims"] = json!([{"name": "r", "resourceClaimTemplateName": "t"}]);
    own["status"] =
        json!({"resourceClaimStatuses": [{"name": "r", "resourceClaimName": format!("{name}-r")}]});
    own
}

#[test]
fn a_device_is_taken_until_its_claim_says_otherwise() {
    let mut world = World::new();
    world.add(node("n1"));
    claims(&mut world);
    for name in ["a", "b"] {
        world.add(claiming(name));
    }
    assert!(world.bound().is_empty(), "their claims are not there");
    world.add(claim("a-r", "a", false));
    let bound = world.bound();
    assert_eq!(bound.len(), 1, "{bound:?}");
    world.send("MODIFIED", claim("a-r", "a", true));
    let mut gone = claiming("a");
    gone["spec"]["nodeName"] = "n1".into();
    world.send("MODIFIED", gone.clone());
    world.add(claim("b-r", "b", false));
    assert!(world.bound().is_empty());
    // The pod goes; the claim controller takes the device away later.
    world.send("DELETED", gone);
    assert!(world.bound().is_empty());
    world.send("MODIFIED", claim("a-r", "a", false));
    assert_eq!(world.bound().len(), 1);
}

#[test]
fn a_claim_of_which_a_field_is_refused_leaves_its_pod_alone_by_name() {
    let mut world = World::new();
    world.add(node("n1"));
    claims(&mut world);
    world.add(claiming("a"));
    let mut odd = claim("a-r", "a", false);
    odd["spec"]["devices"]["sharing"] = "all".into();
    world.add(odd);
    assert!(world.bound().is_empty());
    let reason = world.left_alone.last().unwrap();
    assert!(reason.contains("/spec/devices/sharing"), "{reason}");
    world.send("MODIFIED", claim("a-r", "a", false));
    assert_eq!(world.bound().len(), 1);
}

#[test]
fn claims_are_left_alone_where_nobody_allocates() {
    let mut store = Store::new("phalanx");
    let mut own = claiming("a");
    own["metadata"]["resourceVersion"] = "1".into();
    let line = json!({"type": "ADDED", "object": own}).to_string();
    let updates = store.apply(serde_json::from_str(&line).unwrap()).unwrap();
    let named = |update: &Update| matches!(update, Update::LeftAlone { reason, .. } if reason.contains("/spec/resourceClaims"));
    assert!(updates.iter().any(named), "{updates:?}");
}
