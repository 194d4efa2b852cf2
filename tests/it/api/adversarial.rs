//! Bad and odd input, one kind a test: a typed error or a defined answer, and the state as before.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use phalanx::framework::{Framework, Reach, filter_fn};
use phalanx::model::{
    Container, Effect, GroupPolicy, LabelSelector, Labels, Node, Operator, Pod, PodGroup,
    PodResources, Problem, Requirement, Taint, Workload, group::MAX_DEPTH,
};
use phalanx::plugins::{Fit, LeastAllocated, MostAllocated};
use phalanx::state::{Applied, Event};
use phalanx::{
    Cluster, CommitError, Outcome, PlaceError, Plan, Planner, Quantity, QuantityError, Request,
    StateError, Strategy, place_gang,
};

/// The state as canonical bytes.
fn bytes(cluster: &Cluster) -> String {
    serde_json::to_string(cluster).unwrap()
}

/// Two nodes with something on them.
fn cluster() -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for name in ["n1", "n2"] {
        let node = Node::new(name).capacity("cpu", 4).capacity("memory", "8Gi").label("zone", "a");
        cluster.add_node(node).unwrap();
    }
    cluster.add_pod(Pod::new().name("old").request("cpu", 1).on("n1")).unwrap();
    cluster
}

fn node_event(node: Node, version: u64) -> Event {
    Event::NodeChanged { node, version }
}

fn pod_event(pod: Pod, version: u64) -> Event {
    Event::PodChanged { pod, version }
}

fn pod_deleted(name: &str, version: u64) -> Event {
    Event::PodDeleted { namespace: "default".into(), name: name.into(), version }
}

/// Applies what must be refused, and makes sure that nothing changed.
fn refused(cluster: &mut Cluster, event: Event) -> StateError {
    let (before, generation) = (bytes(cluster), cluster.generation());
    let error = cluster.apply(event).expect_err("must be refused");
    assert_eq!(bytes(cluster), before);
    assert_eq!(cluster.generation(), generation);
    error
}

fn gang(pods: usize) -> PodGroup {
    PodGroup::gang("gang", pods as u32).pods(pods, Pod::new().request("cpu", 1))
}

#[test]
fn negative_and_malformed_quantities_name_object_and_field() {
    let mut cluster = cluster();
    for (text, malformed) in [
        ("-1", false),
        ("-1n", false),
        ("sixty", true),
        ("", true),
        ("1 Gi", true),
        ("1e", true),
        ("NaN", true),
        ("∞", true),
        ("١", true),
    ] {
        let is_expected = |problem: &Problem| match problem {
            Problem::Negative => !malformed,
            Problem::Quantity(QuantityError::Malformed(_)) => malformed,
            _ => false,
        };
        let node = Node::new("n3").capacity("cpu", text);
        let StateError::Model(error) = refused(&mut cluster, node_event(node, 1)) else {
            panic!("{text}")
        };
        assert_eq!((error.object.as_str(), error.field.as_str()), ("node n3", "capacity.cpu"));
        assert!(is_expected(&error.problem), "{text}: {error}");

        let pod = Pod::new().name("p").request("memory", text).on("n1");
        let StateError::Model(error) = refused(&mut cluster, pod_event(pod.clone(), 1)) else {
            panic!("{text}")
        };
        assert_eq!(
            (error.object.as_str(), error.field.as_str()),
            ("pod default/p", "requests.memory")
        );
        assert!(is_expected(&error.problem), "{text}: {error}");

        let group = PodGroup::gang("g", 1).pod(pod);
        let refusal = place_gang(&cluster, &Framework::default(), &group);
        assert!(matches!(refusal, Err(PlaceError::Model(_))), "{text}");
    }
}

#[test]
fn amounts_below_zero_that_get_past_the_builders_are_refused() {
    let mut cluster = cluster();
    let mut node = Node::new("n3");
    node.allocatable.set("cpu", -1);
    assert!(matches!(refused(&mut cluster, node_event(node, 1)), StateError::Model(_)));
    let mut node = Node::new("n3");
    node.allocatable.set("pods", i64::MIN);
    assert!(matches!(refused(&mut cluster, node_event(node, 1)), StateError::Model(_)));
    for edit in [
        (|pod: &mut Pod| pod.shape_mut().requests.set("cpu", -1)) as fn(&mut Pod),
        |pod| pod.shape_mut().incoming_requests.set("cpu", -1),
        |pod| pod.shape_mut().existing_requests = [0, i64::MIN],
    ] {
        let mut pod = Pod::new().name("p").on("n1");
        edit(&mut pod);
        assert!(matches!(refused(&mut cluster, pod_event(pod.clone(), 1)), StateError::Model(_)));
        assert!(cluster.txn().place(&pod, cluster.node("n1").unwrap().id()).is_err());
    }
}

#[test]
fn quantities_beyond_the_limit_are_errors_or_capped_as_kubernetes_caps_them() {
    let too_large =
        |text: &str| matches!(text.parse::<Quantity>(), Err(QuantityError::TooLarge(_)));
    assert!(too_large("9223372036854775808") && too_large("1e19") && too_large("1e999999999999"));
    assert_eq!("1000Ei".parse::<Quantity>().unwrap().ceil(), i64::MAX);
    assert_eq!("-1000Ei".parse::<Quantity>().unwrap().ceil(), -i64::MAX);
    // CPU is kept in thousandths, so its limit is a thousandth of the others'.
    let node = Node::new("n").capacity("cpu", "1000Ei");
    assert_eq!(node.check().unwrap_err().problem, Problem::Overflow);
    assert_eq!(Node::new("n").capacity("memory", "1000Ei").allocatable.of("memory"), i64::MAX);
    assert_eq!(Quantity::from(i64::MIN).ceil(), -i64::MAX);
    // Long texts of digits neither overflow nor take for ever.
    let zeros = "0".repeat(100_000);
    assert_eq!(format!("{zeros}1.{zeros}1").parse::<Quantity>().unwrap().nanos(), 1_000_000_001);
    assert!(too_large(&"9".repeat(100_000)));
    assert_eq!("9".repeat(100_000).add_suffix("Ki").parse::<Quantity>().unwrap().ceil(), i64::MAX);
}

trait Suffixed {
    fn add_suffix(self, suffix: &str) -> String;
}

impl Suffixed for String {
    fn add_suffix(mut self, suffix: &str) -> String {
        self.push_str(suffix);
        self
    }
}

#[test]
fn sums_over_containers_that_overflow_are_an_error_of_the_pod() {
    let container = |quantity: &str| Container {
        requests: [("example.com/x".to_owned(), quantity.parse().unwrap())].into(),
        sidecar: false,
    };
    let resources = PodResources {
        containers: vec![container("9223372036854775807"), container("1")],
        ..PodResources::default()
    };
    assert_eq!(resources.effective(), Err(Problem::Overflow));
    let error = Pod::new().name("p").resources(&resources).check().unwrap_err();
    assert_eq!((error.object.as_str(), error.field.as_str()), ("pod default/p", "resources"));
    let resources =
        PodResources { containers: vec![container("-1"), container("2")], ..Default::default() };
    assert_eq!(resources.effective(), Err(Problem::Negative));
}

#[test]
fn sums_on_a_node_that_overflow_are_refused_wherever_they_arise() {
    let huge = |name: &str| {
        let mut pod = Pod::new().name(name).on("n1");
        pod.shape_mut().requests.set("memory", i64::MAX - 5);
        pod
    };
    let mut cluster = cluster();
    cluster.apply(pod_event(huge("huge-0"), 1)).unwrap();
    // Twice does not fit, but the same pod once more is one pod.
    let error = refused(&mut cluster, pod_event(huge("huge-1"), 1));
    assert_eq!(error, StateError::Overflow { node: "n1".into(), resource: "memory".into() });
    assert_eq!(cluster.apply(pod_event(huge("huge-0"), 2)), Ok(Applied::Changed));
    assert!(cluster.add_pod(huge("huge-1")).is_err());

    let mut txn = cluster.txn();
    let n1 = txn.node("n1").unwrap().id();
    assert!(matches!(txn.place(&huge("huge-1"), n1), Err(StateError::Overflow { .. })));
    assert_eq!(txn.changes(), 0);

    // Kept aside, the two wait; the node that would bring them together is refused.
    let aside = |name: &str| {
        let mut pod = huge(name);
        pod.node = Some("n9".into());
        pod
    };
    assert_eq!(cluster.apply(pod_event(aside("aside-0"), 1)), Ok(Applied::Parked));
    assert_eq!(cluster.apply(pod_event(aside("aside-1"), 1)), Ok(Applied::Parked));
    let error = refused(&mut cluster, node_event(Node::new("n9"), 1));
    assert_eq!(error, StateError::Overflow { node: "n9".into(), resource: "memory".into() });
    // So is a transaction's node, and none of several stays.
    let mut txn = cluster.txn();
    let mut aside_0 = huge("aside-2");
    aside_0.node = Some("t-1".into());
    let mut other = cluster.clone();
    other.apply(pod_event(aside_0.clone(), 1)).unwrap();
    aside_0.name = "aside-3".into();
    other.apply(pod_event(aside_0, 1)).unwrap();
    let mut third = other.txn();
    assert!(third.add_nodes(&Node::new("t"), 3).is_err());
    assert_eq!((third.node_count(), third.changes()), (2, 0));
    assert_eq!(txn.add_nodes(&Node::new("t"), 3).unwrap().len(), 3);

    cluster.apply(pod_deleted("aside-1", 2)).unwrap();
    assert_eq!(cluster.apply(node_event(Node::new("n9"), 1)), Ok(Applied::Changed));
    assert_eq!(cluster.pod("default", "aside-0").unwrap().node().unwrap().name(), "n9");
}

#[test]
fn amounts_near_the_limit_are_judged_without_overflow() {
    let mut cluster = Cluster::new();
    for (name, used) in [("full", i64::MAX), ("nearly", i64::MAX - 1), ("empty", 0)] {
        let mut node = Node::new(name);
        for resource in ["cpu", "memory", "example.com/x"] {
            node.allocatable.set(resource, i64::MAX);
        }
        cluster.add_node(node).unwrap();
        let mut pod = Pod::new().name(name).on(name);
        pod.shape_mut().requests.set("example.com/x", used);
        cluster.add_pod(pod).unwrap();
    }
    let weights = [("cpu", u32::MAX), ("memory", u32::MAX), ("example.com/x", u32::MAX)];
    let framework = Framework::builder()
        .filter(Fit)
        .score(1, MostAllocated::of(weights))
        .score(1, LeastAllocated::of(weights))
        .build()
        .unwrap();
    for strategy in [Strategy::Kubernetes, Strategy::Search] {
        let place = |ask: i64| {
            let mut pod = Pod::new();
            for resource in ["cpu", "memory", "example.com/x"] {
                pod.shape_mut().set_request(resource, ask);
            }
            let gang = PodGroup::gang("g", 1).pods(1, pod);
            place_gang(&cluster, &framework, Request::new(&gang).strategy(strategy))
        };
        let outcome = place(1).unwrap();
        assert_ne!(outcome.plan().unwrap().assignments().next().unwrap().node(), "full");
        // It has room, but what scores count would pass 64 bits beside the pod that runs: an
        // error, and no wrong sum.
        let refusal = place(i64::MAX);
        assert!(
            matches!(&refusal, Err(PlaceError::State(StateError::Overflow { .. }))),
            "{refusal:?}"
        );
    }
}

#[test]
fn an_overcommitted_node_takes_no_more_and_stays_readable() {
    let mut cluster = cluster();
    cluster.add_pod(Pod::new().name("much").request("cpu", 64).on("n1")).unwrap();
    let cpu = cluster.resource("cpu").unwrap();
    assert_eq!(cluster.node("n1").unwrap().free(cpu), -61_000);
    let outcome = place_gang(&cluster, &Framework::default(), &gang(4)).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("n2", 4)]);
}

#[test]
fn a_minimum_above_the_members_is_an_answer_and_of_zero_an_error() {
    let cluster = cluster();
    let framework = Framework::default();
    let mut group = gang(2);
    group.policy = GroupPolicy::Gang { min_count: 3 };
    assert!(matches!(place_gang(&cluster, &framework, &group), Ok(Outcome::Unplaced(_))));
    group.policy = GroupPolicy::Gang { min_count: u32::MAX };
    assert!(matches!(place_gang(&cluster, &framework, &group), Ok(Outcome::Unplaced(_))));
    group.policy = GroupPolicy::Gang { min_count: 0 };
    let Err(PlaceError::Model(error)) = place_gang(&cluster, &framework, &group) else {
        panic!("placed a gang of none")
    };
    assert_eq!(error.field, "policy.gang.minCount");
    assert_eq!(error.object, "group default/gang");
}

#[test]
fn empty_groups_are_errors_at_every_level() {
    let cluster = cluster();
    let place = |group: &PodGroup| place_gang(&cluster, &Framework::default(), group);
    for group in [
        PodGroup::gang("g", 1),
        PodGroup::basic("g"),
        PodGroup::gang("root", 1).group(PodGroup::gang("leaf", 1)),
        PodGroup::gang("root", 1).group(gang(1)).group(PodGroup::basic("empty")),
        PodGroup::gang("", 1).pods(1, Pod::new()),
        PodGroup::default(),
    ] {
        assert!(matches!(place(&group), Err(PlaceError::Model(_))), "{group:?}");
    }
    let workload = Workload::new("w");
    let refusal = place_gang(&cluster, &Framework::default(), &workload);
    assert!(matches!(refusal, Err(PlaceError::Model(_))));
}

#[test]
fn a_tree_too_deep_is_an_error_however_deep() {
    let cluster = cluster();
    for (depth, sound) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false), (1_000, false)] {
        let tree = (1..depth)
            .fold(gang(1), |inner, level| PodGroup::gang(format!("level-{level}"), 1).group(inner));
        let outcome = place_gang(&cluster, &Framework::default(), &tree);
        if sound {
            assert!(outcome.unwrap().is_placed());
        } else {
            assert!(matches!(outcome, Err(PlaceError::Model(error)) if error.field == "groups"));
        }
    }
}

#[test]
fn a_group_with_pods_beside_groups_or_with_names_twice_is_an_error() {
    let cluster = cluster();
    let pod = Pod::new().request("cpu", 1);
    for (group, field) in [
        (gang(1).group(PodGroup::gang("inner", 1).pods(1, pod.clone())), "pods"),
        (gang(2).pod(pod.clone().name("gang-0")), "members"),
        (PodGroup::gang("root", 1).group(gang(1)).group(gang(1)), "members"),
        (PodGroup::gang("gang", 1).group(gang(1)), "members"),
        (gang(1).pod(pod.clone()), "pods.name"),
    ] {
        let Err(PlaceError::Model(error)) = place_gang(&cluster, &Framework::default(), &group)
        else {
            panic!("{field}")
        };
        assert_eq!(error.field, field);
    }
    // The same name in another namespace is another name.
    let group = gang(1).pod(pod.name("gang-0").in_namespace("other"));
    assert!(place_gang(&cluster, &Framework::default(), &group).unwrap().is_placed());
}

#[test]
fn names_used_twice_in_a_cluster_are_refused() {
    let mut cluster = cluster();
    let before = bytes(&cluster);
    let again = cluster.add_node(Node::new("n1").capacity("cpu", 99));
    assert_eq!(again, Err(StateError::NodeExists("n1".into())));
    let again = cluster.add_pod(Pod::new().name("old").on("n2"));
    assert_eq!(again, Err(StateError::PodExists("default/old".into())));
    let levels = Cluster::builder().levels(["zone", "rack", "zone"]).build();
    assert_eq!(levels.unwrap_err(), StateError::DuplicateLevel("zone".into()));
    assert!(cluster.txn().add_node(Node::new("n1")).is_err());
    assert_eq!(bytes(&cluster), before);
    // A member that runs under its name already: refused at the latest when it would be bound.
    let group = PodGroup::gang("g", 1).pod(Pod::new().name("old"));
    let framework = Framework::default();
    match place_gang(&cluster, &framework, &group) {
        Err(error) => assert_eq!(error, PlaceError::AlreadyBound("default/old".into())),
        Ok(outcome) => assert_eq!(
            cluster.commit(&framework, outcome.plan().unwrap()),
            Err(CommitError::State(StateError::PodExists("default/old".into())))
        ),
    }
    assert_eq!(bytes(&cluster), before);
}

#[test]
fn nameless_objects_are_refused() {
    let mut cluster = cluster();
    for event in [node_event(Node::new(""), 1), pod_event(Pod::new().name("").on("n1"), 1)] {
        let StateError::Model(error) = refused(&mut cluster, event) else { panic!("taken") };
        assert_eq!((error.field.as_str(), error.problem), ("name", Problem::Required));
    }
    for pod in [Pod::new().name("p"), Pod::new().name("p").on("")] {
        let error = refused(&mut cluster, pod_event(pod.clone(), 1));
        assert_eq!(error, StateError::NotBound("default/p".into()));
        assert_eq!(cluster.add_pod(pod), Err(StateError::NotBound("default/p".into())));
    }
}

#[test]
fn unknown_objects_in_events_change_nothing_that_is_seen() {
    let mut cluster = cluster();
    let before = bytes(&cluster);
    for event in [
        Event::NodeRemoved { name: "ghost".into(), version: 0 },
        Event::NodeRemoved { name: String::new(), version: 0 },
        pod_deleted("ghost", 0),
        Event::NamespaceRemoved { name: "ghost".into(), version: 0 },
    ] {
        assert_eq!(cluster.apply(event), Ok(Applied::Unknown));
        assert_eq!(bytes(&cluster), before);
    }
    assert_eq!(cluster.remove_node("ghost"), Err(StateError::UnknownNode("ghost".into())));
    assert_eq!(cluster.update_node(&Node::new("x")), Err(StateError::UnknownNode("x".into())));
    let unknown = StateError::UnknownPod("default/ghost".into());
    assert_eq!(cluster.remove_pod("default", "ghost"), Err(unknown.clone()));
    assert_eq!(cluster.txn().evict("default", "ghost"), Err(unknown));
    assert_eq!(bytes(&cluster), before);
}

#[test]
fn a_pod_on_a_node_that_does_not_exist_yet_waits_for_it() {
    let mut cluster = cluster();
    let pod = |cpu: i64| Pod::new().name("early").request("cpu", cpu).on("n3");
    assert_eq!(cluster.apply(pod_event(pod(1), 1)), Ok(Applied::Parked));
    assert_eq!(cluster.apply(pod_event(pod(2), 2)), Ok(Applied::Parked));
    assert_eq!(cluster.apply(pod_event(pod(1), 1)), Ok(Applied::Stale));
    assert!(cluster.pod("default", "early").unwrap().node().is_none());
    assert!(cluster.txn().evict("default", "early").is_err());
    let node = Node::new("n3").capacity("cpu", 4);
    cluster.apply(node_event(node.clone(), 1)).unwrap();
    let cpu = cluster.resource("cpu").unwrap();
    assert_eq!(cluster.node("n3").unwrap().free(cpu), 2_000);
    // The node goes and comes back; the pod waits meanwhile.
    cluster.apply(Event::NodeRemoved { name: "n3".into(), version: 2 }).unwrap();
    assert!(cluster.pod("default", "early").unwrap().node().is_none());
    assert_eq!(cluster.apply(node_event(node.clone(), 1)), Ok(Applied::Stale));
    cluster.apply(node_event(node, 3)).unwrap();
    assert_eq!(cluster.node("n3").unwrap().used(cpu), 2_000);
    // Waiting for one node, the pod turns up on another.
    cluster.apply(Event::NodeRemoved { name: "n3".into(), version: 4 }).unwrap();
    let moved = Pod::new().name("early").request("cpu", 2).on("n2");
    assert_eq!(cluster.apply(pod_event(moved, 3)), Ok(Applied::Changed));
    cluster.apply(node_event(Node::new("n3"), 5)).unwrap();
    assert_eq!(cluster.node("n3").unwrap().pod_count(), 0);
    assert_eq!(cluster.node("n2").unwrap().pod_count(), 1);
}

#[test]
fn a_deletion_before_the_addition_wins_over_it() {
    let mut cluster = cluster();
    assert_eq!(cluster.apply(pod_deleted("late", 7)), Ok(Applied::Unknown));
    let late = |version| pod_event(Pod::new().name("late").on("n1"), version);
    let before = bytes(&cluster);
    for version in [1, 6, 7] {
        assert_eq!(cluster.apply(late(version)), Ok(Applied::Stale));
    }
    assert_eq!(bytes(&cluster), before);
    assert_eq!(cluster.apply(late(8)), Ok(Applied::Changed));
    assert_eq!(cluster.apply(pod_deleted("late", 7)), Ok(Applied::Stale));
    assert!(cluster.pod("default", "late").is_some());

    assert_eq!(
        cluster.apply(Event::NodeRemoved { name: "n9".into(), version: 3 }),
        Ok(Applied::Unknown)
    );
    assert_eq!(cluster.apply(node_event(Node::new("n9"), 3)), Ok(Applied::Stale));
    let removed = Event::NamespaceRemoved { name: "ns".into(), version: 3 };
    assert_eq!(cluster.apply(removed), Ok(Applied::Unknown));
    let changed =
        |version| Event::NamespaceChanged { name: "ns".into(), labels: Labels::new(), version };
    assert_eq!(cluster.apply(changed(2)), Ok(Applied::Stale));
    // Forgotten deletions no longer hold late events off.
    cluster.forget_deleted(3);
    assert_eq!(cluster.apply(changed(2)), Ok(Applied::Changed));
}

#[test]
fn events_of_a_former_pod_do_not_touch_one_that_was_committed() {
    let mut cluster = cluster();
    let framework = Framework::default();
    let former = Pod::new().name("gang-0").request("cpu", 3).on("n1");
    cluster.apply(pod_event(former.clone(), 5)).unwrap();
    cluster.apply(pod_deleted("gang-0", 6)).unwrap();
    let outcome = place_gang(&cluster, &framework, &gang(1)).unwrap();
    cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
    let before = bytes(&cluster);
    // Late and repeated news of the former pod of that name.
    assert_eq!(cluster.apply(pod_event(former, 5)), Ok(Applied::Stale));
    assert_eq!(cluster.apply(pod_deleted("gang-0", 6)), Ok(Applied::Stale));
    assert_eq!(bytes(&cluster), before);
    // What is new counts.
    let confirmed = Pod::new().name("gang-0").request("cpu", 1).on("n2");
    assert_eq!(cluster.apply(pod_event(confirmed, 7)), Ok(Applied::Changed));
    assert_eq!(cluster.apply(pod_deleted("gang-0", 8)), Ok(Applied::Changed));
}

#[test]
fn a_pod_that_moves_frees_the_node_it_left_and_marks_both() {
    let mut cluster = cluster();
    let framework = Framework::default();
    let outcome = place_gang(&cluster, &framework, &gang(1)).unwrap();
    let generations =
        |cluster: &Cluster| ["n1", "n2"].map(|name| cluster.node(name).unwrap().generation());
    let before = generations(&cluster);
    cluster.apply(pod_event(Pod::new().name("old").request("cpu", 1).on("n2"), 1)).unwrap();
    let after = generations(&cluster);
    assert!(before[0] < after[0] && before[1] < after[1]);
    let cpu = cluster.resource("cpu").unwrap();
    assert_eq!(["n1", "n2"].map(|name| cluster.node(name).unwrap().used(cpu)), [0, 1_000]);
    cluster.commit(&framework, outcome.plan().unwrap()).unwrap();
}

#[test]
fn unlabelled_nodes_are_in_no_domain_and_still_usable() {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for index in 0..3 {
        cluster.add_node(Node::new(format!("bare-{index}")).capacity("cpu", 1)).unwrap();
    }
    let framework = Framework::default();
    assert!(place_gang(&cluster, &framework, &gang(3)).unwrap().is_placed());
    let required = gang(1).require("rack");
    assert!(!place_gang(&cluster, &framework, &required).unwrap().is_placed());
    let unknown = gang(1).require("no-such-level");
    assert!(!place_gang(&cluster, &framework, &unknown).unwrap().is_placed());
    let preferred = gang(3).prefer("rack");
    assert!(place_gang(&cluster, &framework, &preferred).unwrap().is_placed());
    let within = gang(1);
    let within = Request::new(&within).within("zone", "a");
    assert!(!place_gang(&cluster, &framework, within).unwrap().is_placed());
    // One labelled node among them is a domain of one.
    let labelled = Node::new("labelled").capacity("cpu", 1).label("rack", "r");
    cluster.add_node(labelled).unwrap();
    let outcome = place_gang(&cluster, &framework, &required).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("labelled", 1)]);
    // An empty value is a value.
    cluster.add_node(Node::new("empty").capacity("cpu", 2).label("rack", "")).unwrap();
    let outcome = place_gang(&cluster, &framework, &gang(2).require("rack")).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("empty", 2)]);
}

#[test]
fn an_empty_cluster_places_nothing() {
    for group in [gang(1), gang(1).require("rack"), PodGroup::basic("b").pods(2, Pod::new())] {
        let outcome = place_gang(&Cluster::new(), &Framework::default(), &group).unwrap();
        assert!(!outcome.is_placed());
    }
    let empty = Framework::builder().build().unwrap();
    assert!(place_gang(&cluster(), &empty, &gang(1)).unwrap().is_placed());
}

#[test]
fn malformed_selectors_match_nothing() {
    let malformed = LabelSelector {
        match_expressions: vec![Requirement::new("a/b/c", Operator::Exists, [""; 0])],
        ..LabelSelector::default()
    };
    assert!(malformed.check().is_err());
    assert!(!malformed.matches(&Labels::from([("a/b/c".into(), "x".into())])));
    let text = r#"{"matchExpressions":[{"key":"k","operator":"Near","values":["v"]}]}"#;
    let selector: LabelSelector = serde_json::from_str(text).unwrap();
    assert!(selector.check().is_err() && !selector.matches(&Labels::new()));
}

#[test]
fn odd_names_and_labels_are_only_names() {
    let mut cluster = Cluster::new();
    for name in ["a/b", "ü", "\u{0}", " ", "a\nb", &"x".repeat(10_000)] {
        let node = Node::new(name).label("", "").label(name, name).taint(Taint::new(
            name,
            name,
            Effect::Unknown(name.into()),
        ));
        cluster.add_node(node.capacity("", 1).capacity(name, 1)).unwrap();
        cluster.add_pod(Pod::new().name(name).in_group(name).on(name)).unwrap();
    }
    assert_eq!((cluster.node_count(), cluster.pod_count()), (6, 6));
    let again: Cluster = serde_json::from_str(&bytes(&cluster)).unwrap();
    assert_eq!(bytes(&again), bytes(&cluster));
}

#[test]
fn a_plan_from_elsewhere_is_judged_like_any_other() {
    let mut cluster = cluster();
    let framework = Framework::default();
    let plan = |pods: &str| -> Plan {
        let text =
            format!(r#"{{"namespace":"default","name":"g","domains":[],"assignments":[{pods}]}}"#);
        serde_json::from_str(&text).unwrap()
    };
    let member = |name: &str, cpu: i64, node: &str| {
        let pod = Pod::new().name(name);
        let mut pod = serde_json::to_value(&pod).unwrap();
        pod["shape"]["requests"]["cpu"] = cpu.into();
        format!(r#"{{"pod":{pod},"node":"{node}"}}"#)
    };
    let before = bytes(&cluster);
    let negative = plan(&member("p", -5_000, "n1"));
    assert!(matches!(
        cluster.commit(&framework, &negative),
        Err(CommitError::State(StateError::Model(_)) | CommitError::Conflict { .. })
    ));
    assert!(cluster.txn().apply_plan(&negative).is_err());
    let gone = plan(&[member("p", 1, "n1"), member("q", 1, "n9")].join(","));
    assert!(matches!(cluster.commit(&framework, &gone), Err(CommitError::NodeGone { .. })));
    assert!(cluster.txn().apply_plan(&gone).is_err());
    let twice = plan(&[member("p", 1, "n1"), member("p", 1, "n2")].join(","));
    assert_eq!(
        cluster.commit(&framework, &twice),
        Err(CommitError::State(StateError::PodExists("default/p".into())))
    );
    let too_much = plan(&[member("p", 2_000, "n1"), member("q", 2_000, "n1")].join(","));
    let Err(CommitError::Conflict { pod, node, .. }) = cluster.commit(&framework, &too_much) else {
        panic!("overcommitted")
    };
    assert_eq!((pod.as_str(), node.as_str()), ("default/q", "n1"));
    let nameless = plan(&member("", 1, "n1"));
    assert!(cluster.commit(&framework, &nameless).is_err());
    assert_eq!(bytes(&cluster), before);
    assert_eq!(cluster.commit(&framework, &plan("")), Ok(()));
    assert_eq!(bytes(&cluster), before);
}

#[test]
fn ids_of_another_cluster_or_of_what_is_gone_are_refused() {
    let mut large = Cluster::new();
    for index in 0..600 {
        let name = format!("n{index}");
        let node = Node::new(&*name).capacity(&format!("r{index}"), 1).label(&*name, &*name);
        large.add_node(node).unwrap();
        large.add_pod(Pod::new().name(&*name).on(&*name)).unwrap();
    }
    let last = large.node("n599").unwrap();
    let (node, pod) = (last.id(), large.pod("default", "n599").unwrap().id());
    let (key, value) = last.labels().next().unwrap();
    let resource = large.resource("r599").unwrap();

    let small = cluster();
    assert!(small.node_by_id(node).is_none());
    assert_eq!(small.txn().place(&Pod::new().name("p"), node), Err(StateError::StaleId));
    assert_eq!(small.txn().evict_pod(pod), Err(StateError::StaleId));
    assert_eq!((small.label_key_text(key), small.label_text(value)), ("", ""));
    assert_eq!(small.resource_name(resource), "");
    let n1 = small.node("n1").unwrap();
    assert_eq!((n1.free(resource), n1.label_value(key)), (0, None));
    assert!(small.view(599).is_none());

    let mut cluster = cluster();
    let id = cluster.node("n1").unwrap().id();
    cluster.remove_node("n1").unwrap();
    cluster.add_node(Node::new("n1")).unwrap();
    assert!(cluster.node_by_id(id).is_none());
    assert_eq!(cluster.txn().place(&Pod::new().name("p"), id), Err(StateError::StaleId));
}

#[test]
fn checkpoints_that_were_taken_back_are_refused() {
    let cluster = cluster();
    let mut txn = cluster.txn();
    let id = txn.node("n1").unwrap().id();
    let start = txn.checkpoint();
    txn.place(&Pod::new().name("a"), id).unwrap();
    let inner = txn.checkpoint();
    txn.rollback(start).unwrap();
    assert_eq!(txn.rollback(inner), Err(StateError::StaleId));
    // Also once as many changes have been made again.
    txn.place(&Pod::new().name("b"), id).unwrap();
    txn.place(&Pod::new().name("c"), id).unwrap();
    assert_eq!(txn.rollback(inner), Err(StateError::StaleId));
    assert_eq!(txn.changes(), 2);
    txn.rollback(start).unwrap();
    assert_eq!(bytes(&txn), bytes(&cluster));
}

#[test]
fn what_a_transaction_evicted_is_gone_from_the_cluster_it_becomes() {
    let cluster = cluster();
    let mut txn = cluster.txn();
    txn.evict("default", "old").unwrap();
    assert!(txn.evict("default", "old").is_err());
    let mut after = txn.into_cluster();
    assert_eq!((after.pod_count(), after.pods().count()), (0, 0));
    assert!(after.pod("default", "old").is_none());
    after.add_pod(Pod::new().name("old").on("n2")).unwrap();
    assert_eq!(cluster.pod_count(), 1);
}

#[test]
fn plugins_that_answer_nonsense_are_contained() {
    let cluster = cluster();
    let framework = Framework::builder()
        .filter(filter_fn("all", Reach::Cluster, |_, _| true))
        .score(
            (1 << 20) as u32,
            phalanx::framework::score_fn("huge", Reach::Static, |_, node| {
                if node.name() == "n2" { i64::MAX } else { i64::MIN }
            }),
        )
        .build()
        .unwrap();
    let outcome = place_gang(&cluster, &framework, &gang(9)).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("n2", 9)]);
}

#[test]
fn sets_of_plugins_that_do_not_go_together_are_refused() {
    let all = || filter_fn("all", Reach::Static, |_, _| true);
    let one = |name| phalanx::framework::score_fn(name, Reach::Static, |_, _| 1);
    assert!(Framework::builder().filter(all()).filter(all()).build().is_err());
    assert!(Framework::builder().score(0, one("a")).build().is_err());
    assert!(Framework::builder().score(u32::MAX, one("a")).build().is_err());
    assert!(Framework::builder().score(1, one("")).build().is_err());
    assert!(Framework::builder().score(1, one("a")).score(1, one("b")).build().is_ok());
}

#[test]
fn states_that_are_cut_short_or_contradict_themselves_do_not_load() {
    let text = bytes(&cluster());
    for end in (0..text.len()).step_by(7) {
        assert!(serde_json::from_str::<Cluster>(&text[..end]).is_err());
    }
    for (from, to) in [
        (r#""name":"n2""#, r#""name":"n1""#),
        (r#""levels":["zone","rack"]"#, r#""levels":["zone","zone"]"#),
        (r#""node":"n1""#, r#""node":null"#),
        (r#""cpu":4000"#, r#""cpu":-4000"#),
        (r#""name":"old""#, r#""name":"""#),
    ] {
        let bent = text.replace(from, to);
        assert_ne!(bent, text);
        assert!(serde_json::from_str::<Cluster>(&bent).is_err(), "{to}");
    }
    assert!(serde_json::from_slice::<Cluster>(b"\xff\xfe{}").is_err());
}

#[test]
fn a_planner_survives_every_refusal() {
    let cluster = cluster();
    let framework = Framework::default();
    let mut planner = Planner::new();
    for group in [PodGroup::gang("g", 0), gang(99), PodGroup::gang("g", 1).pod(Pod::new())] {
        let _ = planner.place(&cluster, &framework, &group);
    }
    assert!(planner.place(&cluster, &framework, &gang(7)).unwrap().is_placed());
}

#[test]
fn a_preference_that_running_members_have_broken_is_given_up_and_a_requirement_is_an_error() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack) in [("n1", "a"), ("n2", "b"), ("n3", "b")] {
        cluster.add_node(Node::new(name).capacity("cpu", 1).label("rack", rack)).unwrap();
    }
    for (name, node) in [("r-1", "n1"), ("r-2", "n2")] {
        cluster.add_pod(Pod::new().name(name).request("cpu", 1).in_group("gang").on(node)).unwrap();
    }
    let framework = Framework::default();
    let outcome = place_gang(&cluster, &framework, &gang(1).prefer("rack")).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("n3", 1)]);
    let refusal = place_gang(&cluster, &framework, &gang(1).require("rack"));
    assert!(matches!(refusal, Err(PlaceError::Scattered { key, .. }) if key == "rack"));
}
