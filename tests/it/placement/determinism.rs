//! The same input gives the same bytes: in whatever order it was given, on however many threads.

use phalanx::framework::{Reach, score_fn};
use phalanx::plugins::{Fit, LeastAllocated};
use phalanx::state::{NodeView, PodView};
use phalanx::{
    Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup, Request, Strategy as Layout,
    place_gang,
};
use proptest::prelude::*;

use crate::support::worlds::{bytes, cases, empty, gang, world};

/// Packing, spreading, and one where all nodes are equal.
fn frameworks() -> [Framework; 3] {
    let spread = Framework::builder()
        .filter(Fit)
        .score(1, LeastAllocated::of([("cpu", 1), ("memory", 1), ("gpu", 1)]));
    let even = Framework::builder().filter(Fit).score(1, score_fn("even", Reach::Static, |_, _| 7));
    [Framework::default(), spread.build().unwrap(), even.build().unwrap()]
}

fn text(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).expect("an outcome serialises")
}

fn decide(cluster: &Cluster, gangs: &[PodGroup], salt: u64) -> Vec<String> {
    let mut decisions = Vec::new();
    for framework in frameworks() {
        for strategy in [Layout::Kubernetes, Layout::Search] {
            for gang in gangs {
                let request = Request::new(gang).salt(salt).strategy(strategy);
                let outcome = place_gang(cluster, &framework, request).unwrap();
                decisions.push(text(&outcome));
            }
        }
    }
    decisions
}

/// The same cluster, its nodes and pods given in another order, after detours.
fn given_otherwise(cluster: &Cluster, order: &[usize], nodes_first: bool) -> Cluster {
    let mut nodes: Vec<Node> = cluster.nodes().map(NodeView::to_node).collect();
    let mut pods: Vec<Pod> = cluster.pods().map(PodView::to_pod).collect();
    for (at, swap) in order.iter().enumerate() {
        let (count, pod_count) = (nodes.len(), pods.len());
        nodes.swap(at % count, swap % count);
        if pod_count > 0 {
            pods.swap(at % pod_count, swap % pod_count);
        }
    }
    let mut other = empty();
    // What was there before and has gone leaves no trace.
    other
        .add_node(Node::new("zz").capacity("other", 1).label("rack", "a1").label("aisle", "x"))
        .unwrap();
    other.add_pod(Pod::new().name("zz").in_group("zz").request("gpu", 1).on("zz")).unwrap();
    if nodes_first {
        for node in nodes {
            other.add_node(node).unwrap();
        }
        other.remove_node("zz").unwrap();
        for pod in pods {
            other.add_pod(pod).unwrap();
        }
    } else {
        for pod in pods {
            other.add_pod(pod).unwrap();
        }
        for node in nodes {
            other.add_node(node).unwrap();
        }
        other.remove_node("zz").unwrap();
    }
    other.remove_pod("default", "zz").unwrap();
    other
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_order_in_which_the_state_was_given_changes_nothing(
        cluster in world(),
        gangs in (gang("one"), gang("two")),
        order in proptest::collection::vec(0..64_usize, 16),
        nodes_first in any::<bool>(),
        salt in 0..3_u64,
    ) {
        let other = given_otherwise(&cluster, &order, nodes_first);
        prop_assert_eq!(bytes(&other), bytes(&cluster));
        let gangs = [gangs.0, gangs.1];
        let expected = decide(&cluster, &gangs, salt);
        prop_assert_eq!(&decide(&other, &gangs, salt), &expected);
        // Nor does it matter that the state has been text in between.
        let read: Cluster = serde_json::from_str(&bytes(&cluster)).unwrap();
        prop_assert_eq!(&decide(&read, &gangs, salt), &expected);
    }
}

/// A cluster large enough for work to be shared out.
fn large() -> (Cluster, Vec<PodGroup>) {
    let mut cluster = empty();
    for index in 0..1_500_usize {
        let node = Node::new(format!("node-{index}"))
            .capacity("cpu", (index % 7) as i64 + 2)
            .capacity("gpu", (index % 5) as i64)
            .label("zone", format!("z{}", index % 3))
            .label("rack", format!("r{}", index % 60));
        cluster.add_node(node).unwrap();
    }
    let pod = || Pod::new().request("cpu", 1).request("gpu", 1);
    let gangs = vec![
        PodGroup::gang("rack", 12).pods(12, pod()).require("rack"),
        PodGroup::gang("zone", 20).pods(20, pod()).prefer("zone"),
        PodGroup::gang("much", 40).pods(39, pod().request("gpu", 4)).pods(1, pod()),
        PodGroup::gang("never", 2).pods(2, pod().request("gpu", 5)),
    ];
    (cluster, gangs)
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let (cluster, gangs) = large();
    let decide = || -> Vec<String> {
        let framework = Framework::default();
        let mut planner = Planner::new();
        let place = |gang| text(&planner.place(&cluster, &framework, gang).unwrap());
        gangs.iter().map(place).collect()
    };
    let expected = decide();
    assert!(expected[0].contains("placed") && expected[3].contains("unplaced"));
    for threads in [1, 2, 5] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(decide), expected, "{threads} threads");
    }
}

#[test]
fn planners_side_by_side_answer_as_one_alone() {
    let (cluster, gangs) = large();
    let framework = Framework::default();
    let expected: Vec<String> =
        gangs.iter().map(|gang| text(&place_gang(&cluster, &framework, gang).unwrap())).collect();
    std::thread::scope(|scope| {
        for first in 0..4_usize {
            let (cluster, framework) = (cluster.clone(), framework.clone());
            let (gangs, expected) = (&gangs, &expected);
            scope.spawn(move || {
                let mut planner = Planner::new();
                for step in 0..8 {
                    let at = (first + step) % gangs.len();
                    let outcome = planner.place(&cluster, &framework, &gangs[at]).unwrap();
                    assert_eq!(text(&outcome), expected[at]);
                }
            });
        }
    });
}

#[test]
fn ties_go_by_rank_then_name_or_by_the_salt() {
    let mut cluster = Cluster::new();
    for (name, rank) in [("b", 0), ("a", 0), ("z", -1), ("c", 5)] {
        cluster.add_node(Node::new(name).capacity("cpu", 1).tie_rank(rank)).unwrap();
    }
    let [_, _, even] = frameworks();
    let gang = PodGroup::gang("g", 4).pods(4, Pod::new().request("cpu", 1));
    let order = |salt: u64| -> Vec<String> {
        let outcome = place_gang(&cluster, &even, Request::new(&gang).salt(salt)).unwrap();
        let plan = outcome.plan().unwrap();
        plan.assignments().map(|member| member.node().to_owned()).collect()
    };
    assert_eq!(order(0), ["z", "a", "b", "c"]);
    let salted: Vec<Vec<String>> = (1..20).map(order).collect();
    assert!(salted.iter().any(|order| *order != ["z", "a", "b", "c"]));
    assert_eq!(salted, (1..20).map(order).collect::<Vec<_>>());
}
