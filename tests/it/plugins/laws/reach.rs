//! Reading more than is declared is caught.

use phalanx::Time;
use phalanx::framework::{
    Context, Declaration, Filter, Reach, Score, Verdict, filter_fn, score_fn,
};
use phalanx::laws::{Law, check_filter, check_score};
use phalanx::model::PodShape;
use phalanx::state::NodeView;

use super::worlds::*;

#[test]
fn reading_pods_beyond_the_declared_reach_is_caught() {
    let own = |_: &Context<'_>, node: NodeView<'_>| node.pod_count() < 2;
    assert_eq!(filter_breaks(filter_fn("own", Reach::Static, own)).law, Law::Reach);
    assert_eq!(check_filter(filter_fn("own", Reach::Node, own), &cluster(), &shapes()), Ok(()));

    let zone = |cx: &Context<'_>, node: NodeView<'_>| {
        let zone = node.label("zone").unwrap_or_default();
        let all = cx.cluster().nodes().filter(|other| other.has_label("zone", zone));
        all.map(NodeView::pod_count).sum::<i64>().min(100)
    };
    assert_eq!(score_breaks(score_fn("zone", Reach::Node, zone)).law, Law::Reach);
    let declared = score_fn("zone", Reach::Domain(vec!["zone".into()]), zone);
    assert_eq!(check_score(declared, &cluster(), &shapes()), Ok(()));
    let wrong_key = score_fn("zone", Reach::Domain(vec!["rack".into()]), zone);
    assert_eq!(score_breaks(wrong_key).law, Law::Reach);

    let all = |cx: &Context<'_>, _: NodeView<'_>| cx.cluster().pod_count().min(100) as i64;
    assert_eq!(
        score_breaks(score_fn("all", Reach::Domain(vec!["zone".into()]), all)).law,
        Law::Reach
    );
    assert_eq!(check_score(score_fn("all", Reach::Cluster, all), &cluster(), &shapes()), Ok(()));
}

#[test]
fn reading_other_nodes_undeclared_is_caught() {
    let crowd = |cx: &Context<'_>, _: NodeView<'_>| cx.cluster().node_count().min(100) as i64;
    assert_eq!(score_breaks(score_fn("crowd", Reach::Static, crowd)).law, Law::Nodes);

    struct Declared;

    impl Score for Declared {
        fn name(&self) -> &str {
            "crowd"
        }

        fn score(&self, cx: &Context<'_>, _: NodeView<'_>) -> i64 {
            cx.cluster().node_count() as i64
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::constant().reading_nodes()
        }
    }

    assert_eq!(check_score(Declared, &cluster(), &shapes()), Ok(()));
    // Only a change of a node that exists gives it away.
    let tainted = |cx: &Context<'_>, _: NodeView<'_>| cx.cluster().tainted_nodes() == 0;
    assert_eq!(filter_breaks(filter_fn("tainted", Reach::Static, tainted)).law, Law::Nodes);
}

#[test]
fn a_no_that_becomes_a_yes_is_caught() {
    struct Company;

    impl Filter for Company {
        fn name(&self) -> &str {
            "company"
        }

        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(node.pod_count() > 0)
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::node().monotone()
        }
    }

    let error = filter_breaks(Company);
    assert_eq!((error.law, error.plugin.as_str()), (Law::Monotone, "company"));
}

#[test]
fn reading_the_group_or_the_time_undeclared_is_caught() {
    let group = filter_fn("group", Reach::Static, |cx, _| {
        cx.group().is_none_or(|group| group.policy.minimum() < 5)
    });
    assert_eq!(filter_breaks(group).law, Law::Group);
    let time = filter_fn("time", Reach::Static, |cx, _| cx.now() < Time::from_secs(60));
    assert_eq!(filter_breaks(time).law, Law::Time);

    struct Declared;

    impl Filter for Declared {
        fn name(&self) -> &str {
            "declared"
        }

        fn filter(&self, cx: &Context<'_>, _: NodeView<'_>) -> Verdict {
            Verdict::pass_if(cx.group().is_some() && cx.now() > Time::ZERO)
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::constant().reading_group().reading_time()
        }
    }

    assert_eq!(check_filter(Declared, &cluster(), &shapes()), Ok(()));
}

#[test]
fn looking_at_pods_while_declaring_sums_is_caught() {
    struct NoBatch;

    impl Filter for NoBatch {
        fn name(&self) -> &str {
            "no-batch"
        }

        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            let batch = |pod: phalanx::state::PodView<'_>| {
                pod.shape().labels.get("app").is_some_and(|app| app == "batch")
            };
            Verdict::pass_if(!node.pods().any(batch))
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::usage().monotone()
        }
    }

    assert_eq!(filter_breaks(NoBatch).law, Law::Pods);
}
