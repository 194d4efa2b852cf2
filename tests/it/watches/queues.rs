//! Queues that change under a store, and run times of groups by their pods.

use std::time::Duration;

use phalanx::kubernetes::Mode;
use phalanx::kubernetes::queues::{LocalQueues, QueueManifests};
use phalanx::kubernetes::watch::{Store, Update};
use phalanx::{Event, PodGroup};
use serde_json::{Value, json};

/// The rule of one `ClusterQueue` with local queues of some names.
fn local_queues(names: &[&str]) -> LocalQueues {
    let mut manifests = QueueManifests::new(Mode::AsWritten);
    let mut take = |kind: &str, name: &str, spec: Value| {
        let object = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"namespace": "default", "name": name}, "spec": spec,
        });
        manifests.take(&serde_json::from_value(object).unwrap()).unwrap();
    };
    take("ClusterQueue", "all", json!({"namespaceSelector": {}}));
    for name in names {
        take("LocalQueue", name, json!({"clusterQueue": "all"}));
    }
    manifests.admission()
}

fn pod(name: &str, queue: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": name, "uid": format!("uid-{name}"),
            "labels": {"kueue.x-k8s.io/queue-name": queue}, "annotations": {},
        },
        "spec": {"schedulerName": "phalanx", "containers": [{"name": "c"}]},
    })
}

fn group(name: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    })
}

fn send(store: &mut Store, version: &mut u64, mut object: Value) -> Vec<Update> {
    *version += 1;
    object["metadata"]["resourceVersion"] = version.to_string().into();
    let line = json!({"type": "ADDED", "object": object}).to_string();
    store.apply(serde_json::from_str(&line).unwrap()).unwrap()
}

/// The last showing of each group: its queue and its estimate.
fn groups(updates: &[Update]) -> Vec<(&str, &str, Option<Duration>)> {
    let groups = updates.iter().filter_map(|update| match update {
        Update::Group(PodGroup { name, queue, run_time_estimate, .. }) => {
            Some((name.as_str(), queue.as_str(), *run_time_estimate))
        }
        _ => None,
    });
    groups.collect()
}

#[test]
fn groups_find_their_queue_once_it_is_there_and_lose_it_again() {
    let mut store = Store::new("phalanx").with_queues(local_queues(&[]));
    let mut version = 0;
    let mut member = pod("member", "team");
    member["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    for object in [group("g"), member, pod("alone", "team")] {
        let updates = send(&mut store, &mut version, object);
        assert!(groups(&updates).iter().all(|(_, queue, _)| queue.is_empty()), "{updates:?}");
    }
    let updates = store.set_queues(local_queues(&["team"]));
    let shown = groups(&updates);
    assert!(shown.contains(&("g", "all", None)), "{updates:?}");
    assert!(shown.iter().any(|(name, queue, _)| name.contains("alone") && *queue == "all"));
    assert_eq!(store.set_queues(local_queues(&["team"])), [], "nothing has changed");
    let updates = store.set_queues(local_queues(&["other"]));
    // Pods without a queue are held back, and say which queue they miss.
    let pods = updates.iter().flat_map(|update| match update {
        Update::Event(Event::PodChanged { pod, .. }) => std::slice::from_ref(pod),
        Update::Group(group) => &group.pods[..],
        _ => &[],
    });
    let held =
        pods.filter(|pod| pod.scheduling_gates.iter().any(|gate| gate.contains("default/team")));
    let mut names: Vec<&str> = held.map(|pod| pod.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["alone", "member"], "{updates:?}");
}

#[test]
fn run_times_are_estimates_where_the_store_reads_them() {
    let run = |reads: bool, annotation: Option<&str>, deadline: Option<i64>| {
        let mut store = Store::new("phalanx");
        if reads {
            store = store.with_run_times();
        }
        let mut version = 0;
        let mut alone = pod("alone", "team");
        if let Some(text) = annotation {
            alone["metadata"]["annotations"]["phalanx.dev/run-time-seconds"] = text.into();
        }
        if let Some(seconds) = deadline {
            alone["spec"]["activeDeadlineSeconds"] = seconds.into();
        }
        let mut member = alone.clone();
        member["metadata"]["name"] = "member".into();
        member["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        send(&mut store, &mut version, group("g"));
        let mut updates = send(&mut store, &mut version, member);
        updates.extend(send(&mut store, &mut version, alone));
        let shown = groups(&updates);
        assert_eq!(shown.len(), 2, "{updates:?}");
        assert_eq!(shown[0].2, shown[1].2, "a group and a pod by itself agree");
        shown[0].2.map(|time| time.as_secs())
    };
    assert_eq!(run(true, None, None), None);
    assert_eq!(run(true, None, Some(90)), Some(90));
    assert_eq!(run(true, Some("30"), Some(90)), Some(30));
    assert_eq!(run(true, Some("soon"), Some(90)), Some(90));
    assert_eq!(run(true, Some("-5"), None), None);
    assert_eq!(run(false, Some("30"), Some(90)), None);
}

#[test]
fn a_quota_that_keeps_members_from_being_made_is_named() {
    use super::layout::World;
    let mut world = World::new();
    let quota = |used: &str, pods: u32| {
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "gpus", "namespace": "ml"},
            "status": {
                "hard": {"requests.nvidia.com/gpu": "8", "pods": "10", "requests.cpu": "4"},
                "used": {"requests.nvidia.com/gpu": used, "pods": pods.to_string(), "requests.cpu": "0"},
            },
        })
    };
    world.add(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml"}, "spec": {"minMember": 2},
    }));
    let in_the_way = |world: &World| world.store.quota_in_the_way("ml/volcano:g");
    world.add(quota("8", 1));
    assert_eq!(in_the_way(&world), None, "no member is known");
    world.add(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "g-0", "namespace": "ml", "uid": "g-0",
            "annotations": {"scheduling.k8s.io/group-name": "g"},
        },
        "spec": {"schedulerName": "phalanx", "containers": [{"name": "c", "resources": {
            "requests": {"nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "4"},
        }}]},
    }));
    let gpus = |used: &str| {
        Some(format!(
            "ResourceQuota ml/gpus allows no other: {used} of 8 requests.nvidia.com/gpu are in use"
        ))
    };
    assert_eq!(in_the_way(&world), gpus("8"));
    world.send("MODIFIED", quota("5", 1));
    assert_eq!(in_the_way(&world), gpus("5"));
    world.send("MODIFIED", quota("4", 1));
    assert_eq!(in_the_way(&world), None);
    world.send("MODIFIED", quota("4", 10));
    assert!(in_the_way(&world).is_some_and(|text| text.ends_with("10 of 10 pods are in use")));
    let mut scoped = quota("8", 10);
    scoped["spec"] = json!({"scopes": ["BestEffort"]});
    world.send("MODIFIED", scoped);
    assert_eq!(in_the_way(&world), None);
    world.send("MODIFIED", quota("8", 1));
    world.send("DELETED", quota("8", 1));
    assert_eq!(in_the_way(&world), None);
}
