use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::{Value, json};

use super::{Kind, Store, Update, WatchEvent};
use crate::base::Time;
use crate::framework::Framework;
use crate::kubernetes::Mode;
use crate::kubernetes::queues::QueueManifests;
use crate::queue::{
    Decision, Gate, GroupState, OnBindFailure, PreemptionSettings, Scheduler, Settings,
};
use crate::state::{Cluster, Event};

/// A store and a scheduler that share their events.
struct World {
    store: Store,
    scheduler: Scheduler,
    version: u64,
    now: u64,
}

impl World {
    fn new() -> World {
        let settings = Settings::new().on_bind_failure(OnBindFailure::Retry).evict_half_bound(true);
        let scheduler = Scheduler::new(Cluster::new(), Framework::default(), settings);
        World { store: Store::new("phalanx"), scheduler, version: 100, now: 1 }
    }

    fn send(&mut self, word: &str, mut object: Value) -> usize {
        if object["metadata"]["resourceVersion"].is_null() {
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
        }
        let line = json!({"type": word, "object": object}).to_string();
        let event: WatchEvent = serde_json::from_str(&line).unwrap();
        let updates = self.store.apply(event).unwrap();
        let count = updates.len();
        for update in updates {
            let text = format!("{update:?}");
            let passed = update.pass_to(&mut self.scheduler, Time::from_secs(self.now));
            assert_eq!(passed, Ok(()), "{text}");
        }
        count
    }

    fn add(&mut self, object: Value) -> usize {
        self.send("ADDED", object)
    }

    /// The pods that are to be bound, with their nodes; they are reported bound.
    fn bind(&mut self) -> Vec<(String, String)> {
        let now = Time::from_secs(self.now);
        let mut bound = Vec::new();
        while let Some(decision) = self.scheduler.poll_decision(now) {
            let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
            for assignment in plan.assignments() {
                let pod = assignment.pod();
                self.scheduler
                    .handle_binding(ticket, pod.namespace(), &pod.name, Ok(()), now)
                    .unwrap();
                bound.push((pod.name.clone(), assignment.node().to_string()));
            }
        }
        bound
    }

    fn state(&self, group: &str) -> Option<GroupState> {
        self.scheduler.state(group)
    }
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "8", "pods": "110"},
                   "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"schedulerName": "phalanx",
                 "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
}

fn member(name: &str, group: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn group(name: &str, min: u32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min}}, "schedulingConstraints": null,
                 "priority": 7}})
}

#[test]
fn kinds_come_in_any_order() {
    let objects = [node("n"), group("g", 2), member("a", "g"), member("b", "g")];
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
    for order in orders {
        let mut world = World::new();
        for at in order {
            world.add(objects[at].clone());
        }
        let mut bound = world.bind();
        bound.sort();
        assert_eq!(bound, [("a".into(), "n".into()), ("b".into(), "n".into())], "{order:?}");
        assert_eq!(world.state("default/g"), Some(GroupState::Running));
    }
}

#[test]
fn old_events_and_those_without_news_change_nothing() {
    let mut world = World::new();
    let mut first = node("n");
    first["metadata"]["resourceVersion"] = "5".into();
    assert_eq!(world.add(first.clone()), 1);
    assert_eq!(world.add(first.clone()), 0, "the same again");
    first["metadata"]["resourceVersion"] = "6".into();
    assert_eq!(world.add(first.clone()), 0, "a heartbeat");
    first["metadata"]["resourceVersion"] = "9".into();
    assert_eq!(world.send("DELETED", first.clone()), 1);
    first["metadata"]["resourceVersion"] = "7".into();
    assert_eq!(world.send("MODIFIED", first.clone()), 0, "it does not come back");
    first["metadata"]["resourceVersion"] = "12".into();
    assert_eq!(world.add(first.clone()), 1, "a new one of that name does");
    first["metadata"]["resourceVersion"] = "9".into();
    assert_eq!(world.send("DELETED", first), 0, "the end of the old one is no news");
}

#[test]
fn what_a_new_list_lacks_is_gone() {
    let mut world = World::new();
    for name in ["n1", "n2"] {
        world.add(node(name));
    }
    world.add(pod("a"));
    world.add(pod("b"));
    assert_eq!(world.bind().len(), 2);
    world.store.begin_list(Kind::Pod);
    let mut kept = on(pod("a"), "n1");
    kept["metadata"]["resourceVersion"] = "150".into();
    world.add(kept);
    let bookmark = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
        "resourceVersion": "160", "annotations": {"k8s.io/initial-events-end": "true"}}});
    let event: WatchEvent =
        serde_json::from_value(json!({"type": "BOOKMARK", "object": bookmark})).unwrap();
    let updates = world.store.apply(event).unwrap();
    let deleted = Event::PodDeleted { namespace: "default".into(), name: "b".into(), version: 0 };
    assert!(updates.contains(&Update::Event(deleted)), "{updates:?}");
    assert!(world.store.pod("default", "a").is_some());
    assert!(world.store.pod("default", "b").is_none());
    assert!(
        !updates.iter().any(|update| matches!(update, Update::Event(Event::NodeRemoved { .. })))
    );
}

#[test]
fn a_pod_made_anew_is_another_pod() {
    let mut world = World::new();
    world.add(node("n"));
    world.add(pod("a"));
    assert_eq!(world.bind().len(), 1);
    world.send("MODIFIED", on(pod("a"), "n"));
    let mut anew = pod("a");
    anew["metadata"]["uid"] = "another".into();
    world.add(anew);
    assert_eq!(world.bind(), [("a".into(), "n".into())], "its deletion was missed");
    assert_eq!(world.store.pod_uid("default", "a"), Some("another"));
}

#[test]
fn a_single_pod_is_a_group_until_it_runs() {
    let mut world = World::new();
    world.add(node("n"));
    // A group may have the name of a pod.
    world.add(group("a", 1));
    world.add(pod("a"));
    world.add(member("b", "a"));
    assert_eq!(world.scheduler.groups().collect::<Vec<_>>(), ["default/a", "default/pod:a"]);
    let now = Time::from_secs(1);
    let mut tickets = Vec::new();
    while let Some(decision) = world.scheduler.poll_decision(now) {
        let Decision::Bind { ticket, groups, .. } = decision else { panic!("{decision:?}") };
        tickets.push((groups[0].to_string(), ticket));
    }
    tickets.sort();
    let [_, (_, of_pod)] = tickets[..] else { panic!("{tickets:?}") };
    // The watch may be faster than the answer.
    world.send("MODIFIED", on(pod("a"), "n"));
    assert_eq!(world.state("default/pod:a"), None);
    world.scheduler.handle_binding(of_pod, "default", "a", Ok(()), now).unwrap();
    assert!(matches!(world.state("default/a"), Some(GroupState::Binding { .. })));
    assert_eq!(world.scheduler.poll_decision(now), None);
    assert_eq!(world.scheduler.cluster().pod_count(), 2);
}

#[test]
fn a_group_that_is_made_anew_has_its_members_again() {
    let mut world = World::new();
    world.add(node("n"));
    world.add(group("g", 3));
    world.add(on(member("a", "g"), "n"));
    world.add(member("b", "g"));
    let members = |have| Gate::Members { group: "default/g".parse().unwrap(), have, need: 3 };
    assert_eq!(world.state("default/g"), Some(GroupState::Gated(members(2))));
    world.send("DELETED", group("g", 3));
    assert_eq!(world.state("default/g"), None);
    assert_eq!(world.bind(), [], "a pod whose group does not exist waits");
    world.add(group("g", 3));
    assert_eq!(world.state("default/g"), Some(GroupState::Gated(members(2))));
    world.add(member("c", "g"));
    assert_eq!(world.bind().len(), 2);
    assert_eq!(world.state("default/g"), Some(GroupState::Running));
}

#[test]
fn the_dialects_are_read() {
    let mut world = World::new();
    world.add(node("n"));
    let labelled = |name: &str| {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "x"});
        pod
    };
    world.add(labelled("x1"));
    world.add(labelled("x2"));
    world.add(json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "x"}, "spec": {"minMember": 2}}));
    let described = |name: &str| {
        let mut pod = pod(name);
        pod["metadata"]["annotations"] = json!({"gang.scheduling.koordinator.sh/name": "k",
            "gang.scheduling.koordinator.sh/min-available": "2"});
        pod
    };
    world.add(described("k1"));
    assert!(matches!(world.state("default/coscheduling:k"), Some(GroupState::Gated(_))));
    world.add(described("k2"));
    let role = |name: &str, role: &str| {
        let mut pod = pod(name);
        pod["metadata"]["annotations"] =
            json!({"scheduling.k8s.io/group-name": "v", "volcano.sh/task-spec": role});
        pod
    };
    world.add(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "v"}, "spec": {"minMember": 2,
        "queue": "q", "minTaskMember": {"master": 1, "worker": 1}}}));
    world.add(role("v1", "worker"));
    assert_eq!(world.scheduler.queue("q").count(), 0, "the master is missing");
    world.add(role("v2", "master"));
    let mut bound: Vec<String> = world.bind().into_iter().map(|(pod, _)| pod).collect();
    bound.sort();
    assert_eq!(bound, ["k1", "k2", "v1", "v2", "x1", "x2"]);
}

#[test]
fn pods_of_other_schedulers_use_capacity_and_are_not_placed() {
    let mut world = World::new();
    world.add(node("n"));
    let mut other = pod("other");
    other["spec"]["schedulerName"] = "default-scheduler".into();
    other["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "8".into();
    world.add(other.clone());
    assert_eq!(world.bind(), []);
    world.send("MODIFIED", on(other, "n"));
    world.add(pod("a"));
    assert_eq!(world.bind(), [], "the node is full");
}

#[test]
fn a_node_that_is_not_ready_takes_nothing() {
    let mut world = World::new();
    for status in ["False", "Unknown"] {
        let mut down = node("n");
        down["status"]["conditions"][0]["status"] = status.into();
        world.send("MODIFIED", down);
        world.add(pod("a"));
        assert_eq!(world.bind(), []);
    }
    world.send("MODIFIED", node("n"));
    assert_eq!(world.bind().len(), 1);
}

#[test]
fn pods_that_need_what_is_not_modelled_are_left_alone() {
    let mut world = World::new();
    world.add(node("n"));
    let mut claiming = pod("a");
    claiming["spec"]["resourceClaims"] = json!([{"name": "gpu"}]);
    assert_eq!(world.add(claiming.clone()), 2);
    claiming["metadata"]["labels"] = json!({"a": "b"});
    world.send("MODIFIED", claiming);
    let mut stored = member("b", "g");
    stored["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    world.add(group("g", 1));
    world.add(stored);
    assert_eq!(world.bind(), []);
}

#[test]
fn members_that_have_succeeded_count_after_a_restart() {
    for first in [0, 1] {
        let mut world = World::new();
        world.add(node("n"));
        let mut done = on(member("a", "g"), "n");
        done["status"] = json!({"phase": "Succeeded"});
        let objects = [group("g", 2), done];
        world.add(objects[first].clone());
        world.add(objects[1 - first].clone());
        assert_eq!(world.bind(), []);
        world.add(member("b", "g"));
        assert_eq!(world.bind().len(), 1);
        assert_eq!(world.scheduler.cluster().pod_count(), 1);
    }
}

#[test]
fn a_gang_half_bound_is_finished_or_evicted() {
    for fits in [true, false] {
        let mut world = World::new();
        let mut small = node("n");
        small["status"]["allocatable"]["cpu"] = if fits { "4" } else { "3" }.into();
        world.add(small);
        world.add(group("g", 4));
        for (name, bound) in [("a", true), ("b", true), ("c", false), ("d", false)] {
            let pod = member(name, "g");
            world.add(if bound { on(pod, "n") } else { pod });
        }
        if fits {
            assert_eq!(world.bind().len(), 2);
            assert_eq!(world.state("default/g"), Some(GroupState::Running));
            continue;
        }
        assert_eq!(world.bind(), []);
        let wake = world.scheduler.next_wake().unwrap();
        assert!(wake <= Time::from_secs(world.now).after(Duration::from_secs(60)));
        let later = Time::from_secs(world.now + 60);
        let Some(Decision::EvictStale { pods, .. }) = world.scheduler.poll_decision(later) else {
            panic!("two of four are bound")
        };
        assert_eq!(pods.len(), 2);
        // They are made anew, and the gang waits whole.
        world.now += 61;
        for name in ["a", "b"] {
            world.send("DELETED", on(member(name, "g"), "n"));
            let mut anew = member(name, "g");
            anew["metadata"]["uid"] = format!("{name}2").into();
            world.add(anew);
        }
        assert!(matches!(
            world.state("default/g"),
            Some(
                GroupState::Unschedulable { .. }
                    | GroupState::BackingOff { .. }
                    | GroupState::Queued
            )
        ));
        world.send("MODIFIED", node("n"));
        world.now += 60;
        assert_eq!(world.bind().len(), 4);
    }
}

#[test]
fn a_member_whose_binding_failed_is_placed_anew_and_the_others_stay() {
    let mut world = World::new();
    world.add(node("n1"));
    world.add(group("g", 2));
    world.add(member("a", "g"));
    world.add(member("b", "g"));
    let now = Time::from_secs(1);
    let Some(Decision::Bind { ticket, .. }) = world.scheduler.poll_decision(now) else { panic!() };
    let refused = Err("refused".into());
    world.scheduler.handle_binding(ticket, "default", "a", Ok(()), now).unwrap();
    world.scheduler.handle_binding(ticket, "default", "b", refused, now).unwrap();
    assert_eq!(world.scheduler.poll_decision(now), None, "it backs off");
    world.now = 5;
    assert_eq!(world.bind(), [("b".into(), "n1".into())]);
    assert_eq!(world.state("default/g"), Some(GroupState::Running));
}

fn budget(allowed: i64) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "default", "name": "budget"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": {"gone": "2026-11-22T00:00:00Z"}}})
}

#[test]
fn disruption_budgets_are_passed_on_when_they_change() {
    let mut store = Store::new("phalanx");
    let mut version = 0;
    let mut send = |word: &str, mut object: Value| {
        version += 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let line = json!({"type": word, "object": object}).to_string();
        store.apply(serde_json::from_str(&line).unwrap()).unwrap()
    };
    let [Update::Budget(first)] = &send("ADDED", budget(1))[..] else { panic!("one update") };
    assert_eq!((first.namespace.as_str(), first.name.as_str()), ("default", "budget"));
    assert_eq!(first.disruptions_allowed, 1);
    assert_eq!(first.selector.match_labels["app"], "a");
    assert!(first.disrupted_pods.contains("gone"));
    assert_eq!(send("MODIFIED", budget(1)), [], "nothing that counts has changed");
    let [Update::Budget(second)] = &send("MODIFIED", budget(0))[..] else { panic!("one update") };
    assert_eq!(second.disruptions_allowed, 0);
    let mut fresh = budget(0);
    fresh["status"] = json!({});
    fresh["spec"]["selector"] = Value::Null;
    let [Update::Budget(third)] = &send("MODIFIED", fresh)[..] else { panic!("one update") };
    assert!(third.selector.is_empty() && third.disrupted_pods.is_empty());
    let removed = send("DELETED", budget(0));
    let [Update::BudgetRemoved { namespace, name }] = &removed[..] else { panic!("{removed:?}") };
    assert_eq!((namespace.as_str(), name.as_str()), ("default", "budget"));
    assert_eq!(send("DELETED", budget(0)), []);
}

#[test]
fn a_more_important_group_takes_what_budgets_allow() {
    let run = |allowed: i64, never: bool| {
        let mut world = World::new();
        let settings = Settings::new().preemption(PreemptionSettings::new());
        world.scheduler = Scheduler::new(Cluster::new(), Framework::default(), settings);
        world.add(node("n"));
        for name in ["a", "b"] {
            let mut pod = on(pod(name), "n");
            pod["metadata"]["labels"] = json!({"app": "a"});
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4".into();
            world.add(pod);
        }
        world.add(budget(allowed));
        let mut pod = pod("important");
        pod["spec"]["priority"] = 10.into();
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4".into();
        if never {
            pod["spec"]["preemptionPolicy"] = "Never".into();
        }
        world.add(pod);
        match world.scheduler.poll_decision(Time::from_secs(1)) {
            Some(Decision::Evict { victims, .. }) => Some(victims.len()),
            None => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(run(1, false), Some(1));
    assert_eq!(run(1, true), None, "its preemption policy is Never");
}

#[test]
fn groups_are_in_the_queues_that_labels_name() {
    let mut manifests = QueueManifests::new(Mode::AsWritten);
    let kueue = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"namespace": "default", "name": name}, "spec": spec})
    };
    let selector = json!({"matchLabels": {"team": "vision"}});
    for object in [
        kueue("ClusterQueue", "all", json!({"namespaceSelector": {}})),
        kueue("ClusterQueue", "some", json!({"namespaceSelector": selector})),
        kueue("LocalQueue", "default", json!({"clusterQueue": "all"})),
        kueue("LocalQueue", "vision", json!({"clusterQueue": "some"})),
    ] {
        manifests.take(&serde_json::from_value(object).unwrap()).unwrap();
    }
    let mut world = World::new();
    world.store = Store::new("phalanx").with_queues(manifests.admission());
    let queue_of = |updates: Vec<Update>| {
        updates.into_iter().rev().find_map(|update| match update {
            Update::Group(group) => Some((group.queue.clone(), group.all_pods().len())),
            _ => None,
        })
    };
    let mut version = 0;
    let mut send = |object: &Value| {
        version += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let line = json!({"type": "ADDED", "object": object}).to_string();
        world.store.apply(serde_json::from_str(&line).unwrap()).unwrap()
    };
    let left_alone = |updates: &[Update]| {
        updates.iter().find_map(|update| match update {
            Update::LeftAlone { reason, .. } => Some(reason.clone()),
            _ => None,
        })
    };
    assert_eq!(queue_of(send(&pod("plain"))), Some(("all".into(), 1)), "the default one");
    // A label on the group counts, and one on the pods where the group has none.
    let mut labelled = group("g", 1);
    labelled["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "vision"});
    send(&labelled);
    let updates = send(&member("m", "g"));
    assert!(left_alone(&updates).unwrap().contains("default/vision"), "{updates:?}");
    send(&group("h", 1));
    let mut by_pod = member("n", "h");
    by_pod["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "default"});
    assert_eq!(queue_of(send(&by_pod)), Some(("all".into(), 1)));
    let mut unknown = pod("unknown");
    unknown["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "nowhere"});
    assert!(left_alone(&send(&unknown)).unwrap().contains("default/nowhere"));
    // The namespace is taken once it has the label.
    let updates = send(&json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "default", "labels": {"team": "vision"}}}));
    let group = updates.iter().find_map(|update| match update {
        Update::Group(group) if group.name == "g" => Some(group.queue.clone()),
        _ => None,
    });
    assert_eq!(group.as_deref(), Some("some"), "{updates:?}");
    let free = updates.iter().any(|update| {
        matches!(update, Update::Event(Event::PodChanged { pod, .. })
            if pod.name == "m" && pod.scheduling_gates.is_empty())
    });
    assert!(free, "its member is not gated any more: {updates:?}");
}
