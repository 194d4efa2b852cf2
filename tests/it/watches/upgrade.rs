//! A cluster that is upgraded while it is watched. The server is a table in this file: it answers
//! with the discovery lists and the objects of 1.36 and 1.37 as Kubernetes' API types have them; it
//! is no real API server.

use phalanx::kubernetes::watch::{
    Kind, ResourceList, SchedulingResource, Served, Version, WatchEvent,
};
use serde_json::{Value, json};

use super::relist::{NOW, World, member, node};

/// A release, as far as groups go.
struct Server {
    /// The resources of each version.
    lists: &'static [(&'static str, &'static [&'static str])],
    /// The version of its groups, and the condition by which they are scheduled.
    groups: (&'static str, &'static str),
}

const V1_35: Server = Server {
    lists: &[("v1", &["priorityclasses"]), ("v1alpha1", &["workloads"])],
    groups: ("v1alpha1", ""),
};
const V1_36: Server = Server {
    lists: &[
        ("v1", &["priorityclasses"]),
        ("v1alpha2", &["podgroups", "podgroups/status", "workloads"]),
    ],
    groups: ("v1alpha2", "PodGroupScheduled"),
};
const V1_37: Server = Server {
    lists: &[
        ("v1", &["priorityclasses"]),
        ("v1alpha3", &["compositepodgroups", "podgroups", "podgroups/status", "workloads"]),
        ("v1beta1", &["podgroups", "podgroups/status", "workloads"]),
    ],
    groups: ("v1beta1", "PodGroupInitiallyScheduled"),
};
const GATES_OFF: Server =
    Server { lists: &[("v1", &["priorityclasses"]), ("v1beta1", &[])], groups: ("", "") };

impl Server {
    fn served(&self) -> Served {
        let lists = self.lists.iter().map(|(version, resources)| {
            let resources = resources.iter().map(|name| json!({"name": name, "kind": "K"}));
            let list = json!({"kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": format!("scheduling.k8s.io/{version}"),
                "resources": resources.collect::<Vec<_>>()});
            serde_json::from_value::<ResourceList>(list).unwrap()
        });
        Served::new(&lists.collect::<Vec<_>>())
    }

    /// Lines of a watch of a group with a minimum: its initial events and their end.
    fn watch(&self, version: u64, name: &str, min: u32) -> [Value; 2] {
        let (api, condition) = self.groups;
        let api = format!("scheduling.k8s.io/{api}");
        let group = json!({"apiVersion": api, "kind": "PodGroup",
            "metadata": {"namespace": "default", "name": name, "uid": format!("{api}/{name}"),
                "resourceVersion": version.to_string()},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min}}},
            "status": {"conditions": [{"type": condition, "status": "True"}]}});
        let end = json!({"apiVersion": api, "kind": "PodGroup", "metadata": {
            "resourceVersion": version.to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"}}});
        [json!({"type": "ADDED", "object": group}), json!({"type": "BOOKMARK", "object": end})]
    }
}

fn list(world: &mut World, lines: [Value; 2]) {
    world.store.begin_list(Kind::PodGroup);
    for line in lines {
        let event: WatchEvent = serde_json::from_value(line).unwrap();
        for update in world.store.apply(event).unwrap() {
            update.pass_to(&mut world.scheduler, NOW).unwrap();
        }
    }
}

#[test]
fn the_version_is_chosen_by_resource() {
    use SchedulingResource::{CompositePodGroups, PodGroups, Workloads};
    let table = [
        (V1_35, [None, None, Some(Version::V1Alpha1)]),
        (V1_36, [Some(Version::V1Alpha2), None, Some(Version::V1Alpha2)]),
        (V1_37, [Some(Version::V1Beta1), Some(Version::V1Alpha3), Some(Version::V1Beta1)]),
        (GATES_OFF, [None, None, None]),
    ];
    for (server, versions) in table {
        let served = server.served();
        let chosen = [PodGroups, CompositePodGroups, Workloads].map(|what| served.version(what));
        assert_eq!(chosen, versions);
    }
    let path = V1_37.served().path(CompositePodGroups);
    assert_eq!(path.as_deref(), Some("/apis/scheduling.k8s.io/v1alpha3/compositepodgroups"));
}

#[test]
fn gangs_go_on_across_an_upgrade() {
    let mut world = World::new();
    world.hear("ADDED", 1, node("n"));
    list(&mut world, V1_36.watch(5, "old", 1));
    assert_eq!(world.store.pod_group_scheduled("default/old"), Some(true));
    world.hear("ADDED", 6, member("p", "old"));
    assert_eq!(world.bind(), ["p"]);
    // The old groups were deleted before the upgrade; the pod runs on.
    list(&mut world, V1_37.watch(20, "new", 1));
    assert_eq!(world.scheduler.groups().count(), 0);
    assert_eq!(world.scheduler.cluster().pod_count(), 1);
    world.hear("ADDED", 21, member("q", "new"));
    assert_eq!(world.bind(), ["q"]);
    assert_eq!(world.store.pod_group_scheduled("default/new"), Some(true));
}

#[test]
fn a_condition_counts_by_the_name_of_its_version() {
    let mut world = World::new();
    let mut lines = V1_37.watch(5, "g", 1);
    lines[0]["object"]["status"]["conditions"][0]["type"] = "PodGroupScheduled".into();
    list(&mut world, lines);
    assert_eq!(world.store.pod_group_scheduled("default/g"), None);
}
