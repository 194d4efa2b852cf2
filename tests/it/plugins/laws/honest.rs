//! Honest plugins pass.

use std::sync::Arc;

use phalanx::framework::{
    Context, CountedPods, CounterSpec, Declaration, Feasible, PreparedScore, ScorePlugin,
    ScorePreparation, Verdict,
};
use phalanx::laws::{check_filter, check_framework, check_score};
use phalanx::model::{
    Effect, LabelSelector, PodAffinityTerm, PodShape, SpreadConstraint, Taint, Toleration,
};
use phalanx::plugins::{Fit, LeastAllocated, MostAllocated};
use phalanx::state::NodeView;
use phalanx::{Cluster, Filter, Framework, Node, Pod};

use crate::support::budget;

use super::worlds::*;

#[test]
fn the_plugins_of_the_crate_keep_the_laws() {
    for framework in [
        Framework::default(),
        Framework::builder()
            .filter(Fit)
            .score(1, LeastAllocated::of([("cpu", 1), ("memory", 1)]))
            .score(1, MostAllocated::of([("cpu", 3)]))
            .build()
            .unwrap(),
    ] {
        assert_eq!(check_framework(&framework, &cluster(), &shapes()), Ok(()));
    }
}

#[test]
fn a_clusterless_or_shapeless_check_has_nothing_to_say() {
    assert_eq!(check_filter(Fit, &Cluster::new(), &shapes()), Ok(()));
    assert_eq!(check_filter(Fit, &cluster(), &[]), Ok(()));
}

#[test]
fn counters_are_brought_up_to_date_for_the_plugin() {
    struct FewPerZone;

    impl Filter for FewPerZone {
        fn name(&self) -> &str {
            "few-per-zone"
        }

        fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(cx.count(0, node).is_none_or(|count| count < 2))
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            let selector = LabelSelector::label("app", "web");
            let pods = CountedPods::Matching { namespace: None, selector };
            Declaration::domain(["zone"]).monotone().counting(CounterSpec::new("zone", pods))
        }
    }

    assert_eq!(check_filter(FewPerZone, &cluster(), &shapes()), Ok(()));
}

#[test]
fn a_score_may_consider_the_feasible_nodes() {
    struct First;

    /// The first zone of a feasible node.
    #[derive(Default)]
    struct Zone(String);

    impl ScorePlugin for First {
        fn name(&self) -> &str {
            "first"
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::constant().reading_feasible().reading_nodes()
        }

        fn prepare(self: Arc<Self>, _: &Context<'_>) -> ScorePreparation {
            ScorePreparation::ready(Zone::default())
        }
    }

    impl PreparedScore for Zone {
        fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            i64::from(node.has_label("zone", &self.0))
        }

        fn observe_feasible(&mut self, cx: &Context<'_>, feasible: &Feasible<'_>) {
            // The order of values is not promised, but it is the same each time.
            let Some(key) = cx.cluster().label_key("zone") else { return };
            let values = feasible.values(key, &[]);
            let first = values.first().map_or("", |value| cx.cluster().label_text(*value));
            first.clone_into(&mut self.0);
        }
    }

    assert_eq!(check_score(First, &cluster(), &shapes()), Ok(()));
}

/// Pods with every kind of wish.
fn wishful() -> Vec<PodShape> {
    let web = || LabelSelector::label("app", "web");
    let pods = [
        Pod::new().request("cpu", 1).label("app", "web"),
        Pod::new().label("app", "web").anti_affinity(PodAffinityTerm::new("zone", web())),
        Pod::new().label("app", "db").affinity(PodAffinityTerm::new("zone", web())),
        Pod::new().label("app", "web").spread(SpreadConstraint::new(1, "zone", web())),
        Pod::new().label("app", "web").spread(SpreadConstraint::new(1, "zone", web()).preferred()),
        Pod::new().host_port("TCP", 80).toleration(Toleration::exists("k")),
        Pod::new().node_selector("zone", "a").request("memory", "1Gi"),
    ];
    pods.iter().map(|pod| (**pod.shape()).clone()).collect()
}

#[test]
fn the_profiles_keep_the_laws() {
    let mut cluster = cluster();
    let tainted = Node::new("n6")
        .capacity("cpu", 8)
        .label("zone", "a")
        .taint(Taint::new("k", "", Effect::NoSchedule))
        .image("image", 50_000_000);
    cluster.add_node(tainted).unwrap();
    let shapes = wishful();
    let bound = Pod::of_shape(shapes[1].clone().into()).name("loner").on("n5");
    cluster.add_pod(bound).unwrap();
    let shapes: Vec<_> = shapes.into_iter().step_by(budget::of(3, 1) as usize).collect();
    for framework in [Framework::default(), Framework::spread(), Framework::kubernetes()] {
        assert_eq!(check_framework(&framework, &cluster, &shapes), Ok(()));
    }
}
