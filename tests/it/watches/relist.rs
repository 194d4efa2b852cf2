//! A pod that was bound, and whose end the watches show late or by a list alone.

use phalanx::kubernetes::watch::{Kind, Store, WatchEvent};
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Framework, Scheduler, Time};
use serde_json::{Value, json};

/// A store and a scheduler, some seconds after the start.
pub(super) struct World {
    pub(super) store: Store,
    pub(super) scheduler: Scheduler,
}

pub(super) const NOW: Time = Time::from_secs(1);

impl World {
    pub(super) fn new() -> World {
        let scheduler = Scheduler::new(Cluster::new(), Framework::default(), Settings::new());
        World { store: Store::new("phalanx"), scheduler }
    }

    pub(super) fn hear(&mut self, word: &str, version: u64, mut object: Value) {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let line = json!({"type": word, "object": object}).to_string();
        let event: WatchEvent = serde_json::from_str(&line).unwrap();
        for update in self.store.apply(event).unwrap() {
            let text = format!("{update:?}");
            assert_eq!(update.pass_to(&mut self.scheduler, NOW), Ok(()), "{text}");
        }
    }

    pub(super) fn list_nothing(&mut self, kind: Kind, version: u64) {
        self.store.begin_list(kind);
        self.hear("BOOKMARK", version, list_end(kind));
    }

    pub(super) fn bind(&mut self) -> Vec<String> {
        let mut bound = Vec::new();
        while let Some(decision) = self.scheduler.poll_decision(NOW) {
            let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
            bound.extend(plan.assignments().map(|assignment| assignment.pod().name.clone()));
            self.scheduler.handle_bound(ticket, NOW).unwrap();
        }
        bound.sort();
        bound
    }

    fn pods_left(&self) -> Vec<String> {
        self.scheduler.cluster().pods().map(|pod| pod.name().to_owned()).collect()
    }
}

/// The bookmark that ends the initial events of a kind.
pub(crate) fn list_end(kind: Kind) -> Value {
    let (api, kind) = match kind {
        Kind::Node => ("v1", "Node"),
        Kind::Pod => ("v1", "Pod"),
        Kind::PodGroup => ("scheduling.k8s.io/v1beta1", "PodGroup"),
        Kind::CompositePodGroup => ("scheduling.k8s.io/v1alpha3", "CompositePodGroup"),
        other => panic!("{other:?}"),
    };
    json!({"apiVersion": api, "kind": kind,
        "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}})
}

pub(crate) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "8", "pods": "110"}}})
}

pub(super) fn group(name: &str, min: u32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min}}}})
}

pub(super) fn member(name: &str, group: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"schedulerName": "phalanx", "schedulingGroup": {"podGroupName": group},
                 "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}})
}

/// A world in which a pod is bound, and the watch has not said so.
fn bound_unseen() -> World {
    let mut world = World::new();
    world.hear("ADDED", 1, node("n1"));
    world.hear("ADDED", 2, group("g", 1));
    world.hear("ADDED", 3, member("p", "g"));
    assert_eq!(world.bind(), ["p"]);
    world
}

#[test]
fn a_pod_that_ended_while_watches_were_down_is_gone_whatever_is_listed_first() {
    for kinds in [[Kind::PodGroup, Kind::Pod], [Kind::Pod, Kind::PodGroup]] {
        let mut world = bound_unseen();
        for kind in kinds {
            world.list_nothing(kind, 9);
        }
        assert_eq!(world.pods_left(), [""; 0], "{kinds:?}");
    }
}

#[test]
fn a_pod_is_gone_whose_group_went_first() {
    let mut world = bound_unseen();
    world.hear("DELETED", 5, group("g", 1));
    assert_eq!(world.pods_left(), ["p"], "it runs on");
    world.hear("DELETED", 6, member("p", "g"));
    assert_eq!(world.pods_left(), [""; 0]);
}

#[test]
fn a_pod_frees_its_node_that_succeeded_after_its_group_went() {
    let mut world = bound_unseen();
    world.hear("DELETED", 5, group("g", 1));
    let mut done = member("p", "g");
    done["spec"]["nodeName"] = "n1".into();
    done["status"] = json!({"phase": "Succeeded"});
    world.hear("MODIFIED", 6, done);
    assert_eq!(world.pods_left(), [""; 0]);
}

#[test]
fn a_pod_made_anew_under_a_group_made_anew_is_placed_once() {
    let mut world = bound_unseen();
    world.hear("DELETED", 5, group("g", 1));
    let mut anew = member("p", "g");
    anew["metadata"]["uid"] = "another".into();
    world.hear("ADDED", 8, anew);
    assert_eq!(world.pods_left(), [""; 0], "the first one ended unseen");
    world.hear("ADDED", 9, group("g", 1));
    assert_eq!(world.bind(), ["p"]);
    assert_eq!(world.pods_left(), ["p"]);
}
