//! Groups are told apart by namespace and name, whatever slashes are in either.

use phalanx::model::Problem;
use phalanx::place::Gang;
use phalanx::queue::Settings;
use phalanx::{
    Cluster, Decision, Framework, Node, PlaceError, Pod, PodGroup, QueueError, Request, Scheduler,
    Strategy, Time, Workload, place_gang,
};

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

/// A pod counts in the plan where it is listed, and once bound in the group that it names: that is
/// one group, or the request makes no sense.
#[test]
fn a_pod_listed_in_a_group_is_of_no_other() {
    let cluster = cluster();
    let framework = Framework::default();
    let ask = |name: &str| Pod::new().name(name).request("cpu", 1);
    for (stray, named) in [
        (ask("p").in_group("h"), "default/h"),
        (ask("p").in_namespace("other"), "other/g"),
        (ask("p").in_namespace("other").in_group("g"), "other/g"),
        (ask("p").in_namespace("other").in_group("h"), "other/h"),
    ] {
        let object = format!("pod {}/p", stray.namespace());
        let is_refused = |error: &phalanx::ModelError| {
            let listed = "default/g".into();
            let problem = Problem::OtherGroup { named: named.into(), listed };
            error.object == object && error.field == "group" && error.problem == problem
        };
        // First, or after one that is of the group.
        for group in [
            PodGroup::gang("g", 1).pod(stray.clone()),
            PodGroup::gang("g", 2).pod(ask("a").in_group("g")).pod(stray.clone()),
        ] {
            let tree = PodGroup::gang("tree", 1).group(group.clone());
            let mut workload = Workload::new("w");
            workload.groups.push(group.clone());
            for group in [group, tree, workload.into_group()] {
                for strategy in [Strategy::Kubernetes, Strategy::Search, Strategy::Kueue] {
                    let request = || Request::new(&group).strategy(strategy);
                    for answer in [
                        place_gang(&cluster, &framework, request()),
                        phalanx::reference::place_by_definition(&cluster, &framework, request()),
                    ] {
                        let Err(PlaceError::Model(error)) = answer else { panic!("{answer:?}") };
                        assert!(is_refused(&error), "{error:?}");
                    }
                }
                assert!(is_refused(&Gang::new(group.clone()).unwrap_err()));
                let mut scheduler =
                    Scheduler::new(cluster.clone(), framework.clone(), Settings::default());
                let answer = scheduler.handle_group(group, Time::ZERO);
                let Err(QueueError::Model(error)) = answer else { panic!("{answer:?}") };
                assert!(is_refused(&error), "{error:?}");
            }
        }
    }
    // Two groups may list pods of one shape; each is held to its own namespace.
    let pod = ask("p");
    let near = PodGroup::gang("near", 1).pod(pod.clone());
    let far = PodGroup::gang("far", 1).in_namespace("other").pod(pod.name("q"));
    let error = PodGroup::gang("tree", 1).group(near).group(far).check().unwrap_err();
    assert_eq!(
        error.to_string(),
        "pod default/q: group: is of group default/far, and is listed in group other/far"
    );
}

/// The scheduler finds the members of a group whose namespace has a slash.
#[test]
fn a_namespace_with_a_slash_keeps_its_groups() {
    let mut scheduler = Scheduler::new(cluster(), Framework::default(), Settings::default());
    let group = PodGroup::gang("c", 2).in_namespace("a/b").pods(2, Pod::new().request("cpu", 1));
    scheduler.handle_group(group, Time::ZERO).unwrap();
    let decision = scheduler.poll_decision(Time::ZERO);
    let Some(Decision::Bind { plan, .. }) = decision else { panic!("{decision:?}") };
    assert_eq!(plan.len(), 2);
    assert_eq!(scheduler.cluster().group_pods("a/b/c").count(), 2);
}
