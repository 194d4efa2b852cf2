//! Tests: prepared plugins that follow changes answer as ones that are prepared anew.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{InterPodAffinity, PodTopologySpread};
use crate::framework::{
    Context, Feasible, FilterPlugin, FilterPreparation, Incremental, PreparedFilter, PreparedScore,
    ScorePlugin, ScorePreparation,
};
use crate::model::{
    Effect, LabelSelector, Labels, Node, NodeInclusion, Operator, Pod, PodAffinityTerm,
    Requirement, SpreadConstraint, Taint, WeightedPodAffinityTerm,
};
use crate::state::{Cluster, NodeView, Row, Txn};

const KEYS: [&str; 4] = ["kubernetes.io/hostname", "zone", "rack", "absent"];
const APPS: [&str; 3] = ["a", "b", "c"];
const NAMESPACES: [&str; 2] = ["default", "other"];

fn selector() -> impl Strategy<Value = Option<LabelSelector>> {
    prop_oneof![
        6 => proptest::sample::select(&APPS[..]).prop_map(|app| Some(LabelSelector::label("app", app))),
        1 => Just(None),
        1 => Just(Some(LabelSelector::default())),
        1 => proptest::sample::select(&APPS[..]).prop_map(|app| {
            let expression = Requirement::new("app", Operator::NotIn, [app]);
            Some(LabelSelector { match_expressions: [expression].into(), ..Default::default() })
        }),
        1 => Just({
            let broken = Requirement::new("app", Operator::In, [""; 0]);
            Some(LabelSelector { match_expressions: [broken].into(), ..Default::default() })
        }),
    ]
}

fn term() -> impl Strategy<Value = PodAffinityTerm> {
    let namespaces = proptest::sample::subsequence(&NAMESPACES[..], 0..=1);
    let anywhere = proptest::option::weighted(0.2, selector().prop_map(Option::unwrap_or_default));
    (selector(), proptest::sample::select(&KEYS[..]), namespaces, anywhere).prop_map(
        |(label_selector, key, namespaces, namespace_selector)| PodAffinityTerm {
            label_selector,
            topology_key: key.into(),
            namespaces: namespaces.into_iter().map(Into::into).collect(),
            namespace_selector,
        },
    )
}

fn constraint() -> impl Strategy<Value = SpreadConstraint> {
    let policy = || proptest::sample::select(&[NodeInclusion::Honor, NodeInclusion::Ignore][..]);
    let domains = proptest::option::of(1..4);
    let key = proptest::sample::select(&KEYS[..]);
    (0..3_i32, key, selector(), domains, policy(), policy(), any::<bool>()).prop_map(
        |(skew, key, selector, min_domains, affinity, taints, wish)| {
            let mut constraint = SpreadConstraint::new(skew, key, LabelSelector::default());
            constraint.label_selector = selector;
            constraint.min_domains = min_domains;
            constraint.node_affinity_policy = affinity;
            constraint.node_taints_policy = taints;
            if wish { constraint.preferred() } else { constraint }
        },
    )
}

fn pod() -> impl Strategy<Value = Pod> {
    let list = || proptest::collection::vec(term(), 0..=2);
    let weighted = || {
        let one =
            (1..=100, term()).prop_map(|(weight, term)| WeightedPodAffinityTerm { weight, term });
        proptest::collection::vec(one, 0..=2)
    };
    let constraints = proptest::collection::vec(constraint(), 0..=2);
    let identity = (proptest::sample::select(&APPS[..]), proptest::sample::select(&NAMESPACES[..]));
    (identity, list(), list(), weighted(), weighted(), constraints, any::<bool>()).prop_map(
        |((app, namespace), near, far, likes, dislikes, constraints, picky)| {
            let mut pod = Pod::new().label("app", app).in_namespace(namespace);
            let shape = pod.shape_mut();
            shape.pod_affinity = near;
            shape.pod_anti_affinity = far;
            shape.preferred_pod_affinity = likes;
            shape.preferred_pod_anti_affinity = dislikes;
            shape.spread = constraints;
            shape.owner_selector = picky.then(|| LabelSelector::label("app", app));
            if picky { pod.node_selector("zone", "z0") } else { pod }
        },
    )
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.set_namespace("other", Labels::from([("app".into(), "a".into())]));
    for index in 0..7 {
        let name = std::format!("n{index}");
        let mut node = Node::new(&name).label("zone", std::format!("z{}", index % 3));
        if index != 6 {
            node = node.label(KEYS[0], &name);
        }
        if index % 2 == 0 {
            node = node.label("rack", if index == 4 { "" } else { "r" });
        }
        if index == 5 {
            node = node.taint(Taint::new("k", "", Effect::NoSchedule));
        }
        cluster.add_node(node).unwrap();
    }
    cluster
}

/// A plugin as the filter and as the score that it is.
#[derive(Clone)]
struct Both(Arc<dyn FilterPlugin>, Arc<dyn ScorePlugin>);

impl Both {
    fn of<P: FilterPlugin + ScorePlugin + 'static>(plugin: P) -> Both {
        let plugin = Arc::new(plugin);
        Both(plugin.clone(), plugin)
    }
}

/// The preparation of a plugin on its way, if it had something to say from the start.
struct Kept<'a> {
    pod: &'a Pod,
    filter: Option<Box<dyn PreparedFilter>>,
    score: Option<Box<dyn PreparedScore>>,
}

impl<'a> Kept<'a> {
    fn new(Both(filter, score): Both, pod: &'a Pod, cluster: &Cluster) -> Kept<'a> {
        let cx = Context::new(cluster, pod.shape());
        let filter = match filter.prepare(&cx) {
            FilterPreparation::Ready(prepared) => Some(prepared),
            _ => None,
        };
        let score = match score.prepare(&cx) {
            ScorePreparation::Ready(prepared) => Some(prepared),
            _ => None,
        };
        Kept { pod, filter, score }
    }

    fn tell(&mut self, txn: &Txn, placed: &Pod, row: Row, came: bool) {
        let cx = Context::new(txn, self.pod.shape());
        let node = txn.view(row).unwrap();
        let tell = |incremental: &mut dyn Incremental| {
            if came {
                incremental.pod_added(&cx, placed.shape(), node);
            } else {
                incremental.pod_removed(&cx, placed.shape(), node);
            }
        };
        if let Some(filter) = &mut self.filter {
            tell(filter.incremental().unwrap());
        }
        if let Some(score) = &mut self.score {
            tell(score.incremental().unwrap());
        }
    }

    /// Verdicts and scores of every node; nothing where the plugin was not concerned.
    fn answers(&mut self, txn: &Txn) -> (Vec<bool>, Vec<i64>) {
        let cx = Context::new(txn, self.pod.shape());
        let rows: Vec<Row> = txn.nodes().map(NodeView::row).collect();
        let mut verdicts = Vec::new();
        if let Some(filter) = &self.filter {
            verdicts.extend(txn.nodes().map(|node| filter.filter(&cx, node).passes()));
        }
        let mut scores = Vec::new();
        if let Some(score) = &mut self.score {
            score.observe_feasible(&cx, &Feasible::new(txn, &rows));
            scores.extend(txn.nodes().map(|node| score.score(&cx, node)));
        }
        (verdicts, scores)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn takes_and_undos_keep_up(
        pods in proptest::collection::vec(pod(), 3),
        steps in proptest::collection::vec((0..4_usize, 0..7_usize), 1..12),
    ) {
        let base = cluster();
        let rows: Vec<Row> = base.nodes().map(NodeView::row).collect();
        for plugin in [Both::of(PodTopologySpread::new()), Both::of(InterPodAffinity::new())] {
            let mut txn = base.txn();
            let mut placed: Vec<(usize, Row)> = Vec::new();
            let mut marks = Vec::new();
            // One pod runs, so that most plugins are concerned from the start.
            txn.place_on(&pods[0], rows[0]).unwrap();
            let mut kept: Vec<Kept<'_>> =
                pods.iter().map(|pod| Kept::new(plugin.clone(), pod, &txn)).collect();
            for &(which, at) in &steps {
                let (which, row, taken) = match (pods.get(which), placed.pop()) {
                    (None, None) => continue,
                    (None, Some((which, row))) => {
                        let mark = marks.pop().unwrap();
                        txn.rollback(mark).unwrap();
                        (which, row, false)
                    }
                    (Some(pod), last) => {
                        placed.extend(last);
                        placed.push((which, rows[at]));
                        marks.push(txn.checkpoint());
                        txn.place_on(pod, rows[at]).unwrap();
                        (which, rows[at], true)
                    }
                };
                for kept in &mut kept {
                    kept.tell(&txn, &pods[which], row, taken);
                    let mut anew = Kept::new(plugin.clone(), kept.pod, &txn);
                    let (verdicts, scores) = anew.answers(&txn);
                    let (kept_verdicts, kept_scores) = kept.answers(&txn);
                    // A plugin that skips itself says that every node passes, and scores nothing.
                    if kept.filter.is_some() && anew.filter.is_some() {
                        prop_assert_eq!(kept_verdicts, verdicts);
                    } else if kept.filter.is_some() && !malformed(kept.pod) {
                        prop_assert!(kept_verdicts.iter().all(|passes| *passes));
                    }
                    if kept.score.is_some() && anew.score.is_some() {
                        prop_assert_eq!(kept_scores, scores);
                    } else if kept.score.is_some() {
                        prop_assert!(kept_scores.iter().all(|score| *score == 0));
                    }
                }
            }
        }
    }
}

/// Whether the pod is refused whatever runs.
fn malformed(pod: &Pod) -> bool {
    let cluster = cluster();
    let cx = Context::new(&cluster, pod.shape());
    [Both::of(InterPodAffinity::new()), Both::of(PodTopologySpread::new())]
        .into_iter()
        .any(|Both(filter, _)| matches!(filter.prepare(&cx), FilterPreparation::Reject(_)))
}
