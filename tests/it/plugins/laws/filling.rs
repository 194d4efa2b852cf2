//! Lies about room that show only while nodes fill up, and nodes that are not the one shown.

use std::sync::Arc;

use phalanx::Cluster;
use phalanx::framework::{
    Block, Capacity, Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter,
    PreparedScore, Score, ScorePlugin, ScorePreparation, Verdict,
};
use phalanx::laws::{Law, check_filter, check_score};
use phalanx::model::{Node, PodShape};
use phalanx::state::NodeView;

use super::worlds::*;

/// Large nodes, none of them nearly full.
fn roomy() -> Cluster {
    let mut cluster = Cluster::new();
    for name in ["n0", "n1"] {
        let node = Node::new(name).capacity("cpu", 64).capacity("memory", "256Gi");
        cluster.add_node(node.capacity("pods", 110)).unwrap();
    }
    cluster
}

#[test]
fn a_lie_about_room_is_caught_where_no_node_is_full() {
    #[derive(Clone, Copy, PartialEq)]
    enum Lie {
        Nothing,
        /// Everything passes.
        Passes,
        /// Only the number of pods counts.
        PodsOnly,
        /// Only what is requested counts.
        RequestsOnly,
        /// Pods that request something are skipped.
        Skips,
    }

    struct Roomy(Lie);

    struct Judge(Lie);

    impl FilterPlugin for Roomy {
        fn name(&self) -> &str {
            "roomy"
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::usage().judging_room()
        }

        fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
            match self.0 {
                Lie::Skips if !cx.pod().requests.is_empty() => FilterPreparation::Skip,
                lie => FilterPreparation::ready(Judge(lie)),
            }
        }
    }

    impl PreparedFilter for Judge {
        fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
            let mut requests = cx.pod().requests.iter();
            let requests = requests.all(|(name, amount)| {
                let resource = cx.cluster().resource(name);
                resource.is_some_and(|resource| node.free(resource) >= amount)
            });
            let pods = node.pod_count() < node.pod_limit();
            Verdict::pass_if(match self.0 {
                Lie::Nothing | Lie::Skips => pods && requests,
                Lie::Passes => true,
                Lie::PodsOnly => pods,
                Lie::RequestsOnly => requests,
            })
        }
    }

    let check = |lie| check_filter(Roomy(lie), &roomy(), &shapes()).map_err(|error| error.law);
    assert_eq!(check(Lie::Nothing), Ok(()));
    for lie in [Lie::Passes, Lie::PodsOnly, Lie::RequestsOnly, Lie::Skips] {
        assert_eq!(check(lie), Err(Law::Room));
    }
}

#[test]
fn a_bound_that_goes_wrong_while_a_node_fills_is_caught() {
    #[derive(Clone, Copy, PartialEq)]
    enum Lie {
        Nothing,
        /// No more pods from the third on.
        Node,
        /// The same, in blocks alone.
        Block,
    }

    #[derive(Clone, Copy)]
    struct Bounded(Lie);

    impl Bounded {
        fn bound(self, lie: Lie, count: i64) -> i64 {
            if self.0 == lie && count >= 2 { 0 } else { 50 - count }
        }
    }

    impl FilterPlugin for Bounded {
        fn name(&self) -> &str {
            "bounded"
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::usage().monotone()
        }

        fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
            FilterPreparation::ready(*self)
        }
    }

    impl PreparedFilter for Bounded {
        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(node.pod_count() < 50)
        }

        fn capacity(&self) -> Option<&dyn Capacity> {
            Some(self)
        }
    }

    impl Capacity for Bounded {
        fn of_node(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            self.bound(Lie::Node, node.pod_count())
        }

        fn of_block(&self, _: &Context<'_>, block: &Block<'_>, capacities: &mut [i64]) {
            for (at, capacity) in capacities.iter_mut().enumerate() {
                let Some(node) = block.node(at) else { continue };
                let lie = if self.0 == Lie::Node { Lie::Node } else { Lie::Block };
                *capacity = (*capacity).min(self.bound(lie, node.pod_count()));
            }
        }
    }

    let check = |lie| check_filter(Bounded(lie), &roomy(), &shapes()).map_err(|error| error.law);
    assert_eq!(check(Lie::Nothing), Ok(()));
    assert_eq!(check(Lie::Node), Err(Law::Room));
    assert_eq!(check(Lie::Block), Err(Law::Room));
}

#[test]
fn a_score_that_looks_at_pods_while_declaring_sums_is_caught() {
    struct Batch(Declaration);

    impl Score for Batch {
        fn name(&self) -> &str {
            "batch"
        }

        fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            let batch = |pod: &phalanx::state::PodView<'_>| {
                pod.shape().labels.get("app").is_some_and(|app| app == "batch")
            };
            node.pods().filter(batch).count().min(100) as i64
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            self.0.clone()
        }
    }

    assert_eq!(score_breaks(Batch(Declaration::usage())).law, Law::Pods);
    assert_eq!(check_score(Batch(Declaration::node()), &cluster(), &shapes()), Ok(()));
}

/// Placement that looks ahead shows a pod on the node before the cluster has it.
#[test]
fn a_node_that_is_looked_up_in_place_of_the_one_shown_is_caught() {
    #[derive(Clone, Copy)]
    struct Aside {
        looks_up: bool,
        in_blocks: bool,
    }

    impl Aside {
        fn count(cx: &Context<'_>, node: NodeView<'_>, looks_up: bool) -> i64 {
            let known = if looks_up { cx.cluster().node(node.name()) } else { None };
            known.unwrap_or(node).pod_count().min(100)
        }
    }

    impl ScorePlugin for Aside {
        fn name(&self) -> &str {
            "aside"
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::usage()
        }

        fn prepare(self: Arc<Self>, _: &Context<'_>) -> ScorePreparation {
            ScorePreparation::ready(*self)
        }
    }

    impl PreparedScore for Aside {
        fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
            Aside::count(cx, node, self.looks_up)
        }

        fn score_block(&self, cx: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
            for (at, out) in out.iter_mut().enumerate() {
                let looks_up = self.looks_up || self.in_blocks;
                *out = block.node(at).map_or(0, |node| Aside::count(cx, node, looks_up));
            }
        }
    }

    let honest = Aside { looks_up: false, in_blocks: false };
    assert_eq!(check_score(honest, &cluster(), &shapes()), Ok(()));
    for (looks_up, in_blocks) in [(true, false), (false, true)] {
        assert_eq!(score_breaks(Aside { looks_up, in_blocks }).law, Law::Block);
    }
}
