//! Refusals by sums, and promises of room that are wrong or overflow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::framework::{
    Block, Capacity, Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use phalanx::model::PodShape;
use phalanx::plugins::{DomainAllocation, Fit, LeastFree};
use phalanx::state::NodeView;
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Request, Strategy, reference};

use super::random::*;
use crate::support::dice::Dice;

/// A filter that promises a room it does not keep to.
#[derive(Clone, Copy)]
struct Liar(i64);

impl FilterPlugin for Liar {
    fn name(&self) -> &str {
        "Liar"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage().judging_room()
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
        FilterPreparation::ready(*self)
    }
}

impl PreparedFilter for Liar {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        if node.pod_count() < 2 { Verdict::Pass } else { Verdict::Unschedulable }
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl Capacity for Liar {
    fn of_node(&self, _: &Context<'_>, _: NodeView<'_>) -> i64 {
        self.0
    }
}

#[test]
fn a_wrong_promise_of_room_never_overfills() {
    for (room, seed) in [0, 1, 3, i64::MAX, -5, i64::MIN].into_iter().zip(0..) {
        let mut dice = Dice(seed);
        let cluster = topology_cluster(&mut dice, 5, 4);
        let framework = Framework::builder()
            .filter(Liar(room))
            .domain_score(1, DomainAllocation::of([("cpu", 1)]))
            .build()
            .unwrap();
        let mut planner = Planner::new();
        for members in 1..14 {
            let name = format!("g{members}");
            let group = PodGroup::gang(&name, members as u32).require("rack");
            let group = group.pods(members, Pod::new().request("cpu", "1m"));
            let request = Request::new(&group).strategy(Strategy::Kubernetes);
            let outcome = planner.place(&cluster, &framework, request).unwrap();
            let Some(plan) = outcome.plan() else { continue };
            assert_eq!(plan.len(), members);
            let mut nodes: Vec<String> =
                plan.assignments().map(|own| own.node().to_string()).collect();
            nodes.sort_unstable();
            assert!(nodes.chunk_by(|a, b| a == b).all(|same| same.len() <= 2), "{room} {nodes:?}");
        }
    }
}

/// A domain that would burst is an error also where another one is liked better.
#[test]
fn a_sum_that_overflows_is_told_of_wherever_it_is() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for name in 0..6_i64 {
        let node = Node::new(format!("n{name}")).capacity("cpu", 9 - name).capacity("x/x", 5);
        cluster.add_node(node.label("rack", format!("r{}", name / 2))).unwrap();
    }
    let huge = Pod::new().name("huge").request("x/x", i64::MAX - 10).on("n0");
    cluster.add_pod(huge).unwrap();
    let framework = Framework::builder()
        .domain_score(1, LeastFree::of("cpu"))
        .without_room_filter()
        .build()
        .unwrap();
    let group = PodGroup::gang("g", 2).pods(2, Pod::new().request("x/x", 9)).require("rack");
    let request = || Request::new(&group).strategy(Strategy::Kubernetes);
    let plain = reference::place_by_definition(&cluster, &framework, request());
    assert!(plain.is_err());
    for mut planner in [Planner::new(), reference::unpruned(), Planner::new().threads(2)] {
        assert_eq!(planner.place(&cluster, &framework, request()), plain);
    }
}

/// The room of [`Fit`], with a count of how often it was asked of blocks of rows.
struct Asked(Arc<AtomicUsize>);

/// The preparation of `Fit`.
struct Counted {
    fit: Box<dyn PreparedFilter>,
    asked: Arc<AtomicUsize>,
}

impl FilterPlugin for Asked {
    fn name(&self) -> &str {
        "Asked"
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        Fit.declare(pod)
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        match Arc::new(Fit).prepare(cx) {
            FilterPreparation::Ready(fit) => {
                FilterPreparation::ready(Counted { fit, asked: self.0.clone() })
            }
            other => other,
        }
    }
}

impl PreparedFilter for Counted {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        self.fit.filter(cx, node)
    }

    fn filter_block(&self, cx: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.fit.filter_block(cx, block, verdicts);
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl Capacity for Counted {
    fn of_node(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        self.fit.capacity().unwrap().of_node(cx, node)
    }

    fn of_block(&self, cx: &Context<'_>, block: &Block<'_>, capacities: &mut [i64]) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.fit.capacity().unwrap().of_block(cx, block, capacities);
    }

    fn of_all(&self, cx: &Context<'_>, enough: i64) -> i64 {
        self.fit.capacity().unwrap().of_all(cx, enough)
    }
}

/// A gang larger than the cluster is refused without a look at any block if sums tell, and again
/// without anything while nothing has changed.
#[test]
fn what_is_larger_than_the_cluster_is_refused_by_sums() {
    let mut cluster = Cluster::new();
    for name in 0..300 {
        let node = Node::new(format!("n{name}")).capacity("cpu", 10).capacity("g/g", 4);
        cluster.add_node(node).unwrap();
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let framework = Framework::builder().filter(Asked(asked.clone())).build().unwrap();
    let blocks = || asked.swap(0, Ordering::Relaxed);
    let mut planner = Planner::new();
    let mut is_placed = |cluster: &Cluster, name: &str, members: usize, pod: &Pod| {
        let group = PodGroup::gang(name, members as u32).pods(members, pod.clone());
        let request = Request::new(&group).strategy(Strategy::Kubernetes);
        let calls = reference::plugin_calls(&planner);
        let outcome = planner.place(cluster, &framework, request).unwrap();
        let blocks = blocks();
        (outcome.is_placed(), blocks, reference::plugin_calls(&planner) - calls)
    };
    let (device, core) = (Pod::new().request("g/g", 1).request("cpu", 1), Pod::new());
    let core = core.request("cpu", 3);
    assert_eq!(is_placed(&cluster, "a", 1_201, &device), (false, 0, 0));
    // Three on every node leave one core each, of which no fourth is made: rows are looked at.
    assert_eq!(is_placed(&cluster, "b", 901, &core), (false, 2, 0));
    assert_eq!(is_placed(&cluster, "b", 901, &core), (false, 0, 0));
    assert_eq!(is_placed(&cluster, "c", 1_300, &device), (false, 0, 0));
    assert!(is_placed(&cluster, "d", 900, &core).0);
    assert!(is_placed(&cluster, "e", 1_200, &device).0);
    assert!(!is_placed(&cluster, "b", 901, &core).0);
    // One more node, and it is another question.
    cluster.add_node(Node::new("more").capacity("cpu", 10).capacity("g/g", 4)).unwrap();
    assert!(is_placed(&cluster, "b", 901, &core).0);
    assert!(is_placed(&cluster, "a", 1_201, &device).0);
    assert_eq!(is_placed(&cluster, "a", 1_205, &device), (false, 0, 0));
    for node in 0..300 {
        let pod = Pod::new().name(format!("p{node}")).request("g/g", 1).on(format!("n{node}"));
        cluster.add_pod(pod).unwrap();
    }
    assert!(!is_placed(&cluster, "a", 905, &device).0);
    assert!(is_placed(&cluster, "a", 904, &device).0);
}
