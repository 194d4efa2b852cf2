//! Groups are told apart by namespace and name, whatever slashes are in either.

use phalanx::model::{Node, Pod, PodGroup};
use phalanx::{Cluster, Framework, place_gang};

fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n1").capacity("cpu", 8)).unwrap();
    cluster
}

fn pod(name: &str, namespace: &str, group: &str) -> Pod {
    Pod::new().name(name).in_namespace(namespace).in_group(group).on("n1")
}

/// `a/b` + `c` and `a` + `b/c` have one full name.
#[test]
fn names_with_a_slash_are_told_apart() {
    let mut cluster = cluster();
    cluster.add_pod(pod("p", "a/b", "c")).unwrap();
    // No pod of group b/c in namespace a runs.
    assert_eq!(cluster.group_pods("a/b/c").count(), 1);
    let group = PodGroup::gang("b/c", 2).in_namespace("a");
    let group = group.pods(1, Pod::new().in_namespace("a").request("cpu", 1));
    assert_eq!(cluster.pods_of(&group).count(), 0);
    let outcome = place_gang(&cluster, &Framework::default(), &group).unwrap();
    assert!(!outcome.is_placed(), "one of a minimum of two was placed: {outcome}");

    // One of the group itself makes up the minimum.
    cluster.add_pod(pod("q", "a", "b/c")).unwrap();
    assert_eq!(cluster.pods_of(&group).count(), 1);
    let outcome = place_gang(&cluster, &Framework::default(), &group).unwrap();
    assert!(outcome.is_placed(), "{outcome}");
    cluster.commit(&Framework::default(), outcome.plan().unwrap()).unwrap();
    assert_eq!(cluster.pods_of(&group).count(), 2);
    assert_eq!(cluster.group_pods("a/b/c").count(), 1, "of several slashes, the last");
}

/// Members come and go without touching those of the other group, and keep their names.
#[test]
fn groups_of_one_full_name_are_linked_apart() {
    let mut cluster = cluster();
    let groups = [("a/b", "c/d"), ("a", "b/c/d"), ("a/b/c", "d"), ("a/b/c/d", "e")];
    for round in 0..3 {
        for (number, (namespace, name)) in groups.iter().enumerate() {
            cluster.add_pod(pod(&format!("p{number}-{round}"), namespace, name)).unwrap();
        }
    }
    let count = |cluster: &Cluster| {
        groups.map(|(namespace, name)| {
            let group = PodGroup::gang(name, 1).in_namespace(namespace);
            let pods: Vec<_> = cluster.pods_of(&group).collect();
            for pod in &pods {
                let back = pod.to_pod();
                assert_eq!((back.namespace(), back.group.as_deref()), (namespace, Some(name)));
                assert_eq!(pod.group(), Some(format!("{namespace}/{name}").as_str()));
            }
            pods.len()
        })
    };
    assert_eq!(count(&cluster), [3; 4]);
    cluster.remove_pod("a", "p1-1").unwrap();
    assert_eq!(count(&cluster), [3, 2, 3, 3]);
    for round in 0..3 {
        cluster.remove_pod("a/b", &format!("p0-{round}")).unwrap();
    }
    assert_eq!(count(&cluster), [0, 2, 3, 3]);
}
