//! Pods of several schedulers' names, each with plugins of its own.

use phalanx::framework::{Reach, filter_fn};
use phalanx::kubernetes::watch::{Store, WatchEvent};
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Framework, Scheduler, Time};
use serde_json::{Value, json};

fn pod(name: &str, scheduler: Option<&str>) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("u-{name}")},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c",
            "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Pending"}})
}

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "8", "pods": "110"},
                   "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// The groups of a scheduler that takes objects, and the pods that it binds.
fn run(store: Store, objects: Vec<Value>) -> (Scheduler, Vec<String>) {
    let refuses = filter_fn("Refuses", Reach::Static, |_, _| false);
    let default = Framework::default();
    let strict = default.to_builder().filter(refuses).build().unwrap();
    let builder = default.to_builder().profile("strict", &strict);
    let framework = builder.profile("default-scheduler", &default).build().unwrap();
    let mut scheduler = Scheduler::new(Cluster::new(), framework, Settings::new());
    let mut store = store;
    for (version, mut object) in (1..).zip(objects) {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let line = json!({"type": "ADDED", "object": object}).to_string();
        let event: WatchEvent = serde_json::from_str(&line).unwrap();
        for update in store.apply(event).unwrap() {
            update.pass_to(&mut scheduler, Time::ZERO).unwrap();
        }
    }
    let mut bound = Vec::new();
    while let Some(decision) = scheduler.poll_decision(Time::ZERO) {
        let Decision::Bind { plan, .. } = decision else { panic!("{decision:?}") };
        bound.extend(plan.assignments().map(|own| own.pod().name.clone()));
    }
    bound.sort();
    (scheduler, bound)
}

#[test]
fn pods_of_profiles_are_placed_each_by_its_own_plugins() {
    let names = ["phalanx", "strict", "default-scheduler", "stranger"];
    let named = names.iter().map(|name| pod(name, Some(name)));
    let objects = || [node(), pod("unnamed", None)].into_iter().chain(named.clone()).collect();
    let profiles = ["strict", "default-scheduler"];
    let store = Store::new("phalanx").with_profiles(profiles);
    let (scheduler, bound) = run(store, objects());
    assert_eq!(bound, ["default-scheduler", "phalanx", "unnamed"]);
    assert!(scheduler.state("default/pod:strict").is_some(), "it waits");
    assert_eq!(scheduler.state("default/pod:stranger"), None, "another program places it");
    // Without profiles only pods that name the program are placed.
    let (_, bound) = run(Store::new("phalanx"), objects());
    assert_eq!(bound, ["phalanx"]);
}

#[test]
fn members_of_a_labelled_gang_may_name_several_profiles() {
    let member = |name: &str, scheduler: &str| {
        let mut pod = pod(name, Some(scheduler));
        pod["metadata"]["labels"] = json!({"pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": "2"});
        pod
    };
    let store = || Store::new("phalanx").with_profiles(["default-scheduler", "strict"]);
    let of = |other: &str| vec![node(), member("a", "default-scheduler"), member("b", other)];
    assert_eq!(run(store(), of("default-scheduler")).1, ["a", "b"]);
    assert_eq!(run(store(), of("phalanx")).1, ["a", "b"]);
    // No node is left for one of the two, so none is for the gang.
    assert_eq!(run(store(), of("strict")).1, [""; 0]);
}
