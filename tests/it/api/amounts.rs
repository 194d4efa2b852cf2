//! Amounts that are negative, malformed or too large: a typed error, and the state as before.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use phalanx::model::{Amounts, Container, IntoQuantity, PodResources, Problem};
use phalanx::plugins::{Fit, LeastAllocated, MostAllocated};
use phalanx::state::Applied;
use phalanx::{
    Cluster, Framework, Node, PlaceError, Pod, PodGroup, Quantity, QuantityError, Request,
    StateError, Strategy, place_gang,
};

use super::odd::*;

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
    let container =
        |quantity: &str| Container::new().request("example.com/x", quantity.parse().unwrap());
    let resources =
        PodResources::new().container(container("9223372036854775807")).container(container("1"));
    assert_eq!(resources.effective(), Err(Problem::Overflow));
    let error = Pod::new().name("p").resources(&resources).check().unwrap_err();
    assert_eq!((error.object.as_str(), error.field.as_str()), ("pod default/p", "resources"));
    let resources = PodResources::new().container(container("-1")).container(container("2"));
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
fn amounts_of_pairs_keep_the_last_of_a_name() {
    let amounts: Amounts = [("cpu", 1), ("memory", 7), ("cpu", 3)].into_iter().collect();
    assert_eq!(amounts, Amounts::new().with("memory", 7).with("cpu", 3));
    assert_eq!((amounts.of("cpu"), amounts.of("memory"), amounts.of("pods")), (3, 7, 0));
}

#[test]
fn a_quantity_is_the_same_from_each_type_of_text() {
    for text in ["1500m", "2Gi", "-1", "sixty"] {
        let parsed = text.parse::<Quantity>();
        assert_eq!(text.into_quantity(), parsed);
        assert_eq!(text.to_string().into_quantity(), parsed);
        assert_eq!((&text.to_string()).into_quantity(), parsed);
    }
    for whole in [7_i64, 0, -2] {
        assert_eq!(whole.into_quantity(), whole.to_string().parse());
        assert_eq!((whole as i32).into_quantity(), whole.into_quantity());
    }
    assert_eq!(7_u32.into_quantity(), "7".parse());
}
