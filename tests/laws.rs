//! Every law catches a plugin that breaks it, and honest plugins pass.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use phalanx::framework::{
    Block, Context, CountedPods, CounterSpec, Declaration, DomainContext, DomainScore, Feasible,
    Filter, Grain, Normalization, PermitContext, PermitVerdict, Preparation, Prepared, Reach,
    Score, Verdict, filter_fn, permit_fn, score_fn,
};
use phalanx::laws::{
    Law, LawError, check_domain_score, check_filter, check_framework, check_permit, check_score,
};
use phalanx::model::{
    Effect, LabelSelector, Node, Pod, PodAffinityTerm, PodGroup, PodShape, SpreadConstraint, Taint,
    Toleration,
};
use phalanx::plugins::{Fit, LeastAllocated, MostAllocated};
use phalanx::state::NodeView;
use phalanx::{Cluster, Framework, Plan, Time};

/// Six nodes in three zones, some of them in use.
fn cluster() -> Cluster {
    let mut cluster = Cluster::builder().levels(["zone"]).build().unwrap();
    for (index, zone) in ["a", "a", "b", "b", "c", "c"].into_iter().enumerate() {
        let node = Node::new(format!("n{index}"))
            .capacity("cpu", 4)
            .capacity("memory", "8Gi")
            .capacity("pods", 3)
            .label("zone", zone);
        cluster.add_node(node).unwrap();
    }
    for (name, node) in [("old-1", "n1"), ("old-2", "n1"), ("old-3", "n4")] {
        let pod = Pod::new().name(name).request("cpu", 1).label("app", "web").on(node);
        cluster.add_pod(pod).unwrap();
    }
    cluster
}

fn shapes() -> Vec<PodShape> {
    let pods = [
        Pod::new(),
        Pod::new().request("cpu", 1).label("app", "web"),
        Pod::new().request("cpu", 3).request("memory", "1Gi").label("app", "batch"),
    ];
    pods.iter().map(|pod| (**pod.shape()).clone()).collect()
}

#[allow(clippy::needless_pass_by_value, reason = "plugins are made where they are used")]
fn filter_breaks(filter: impl Filter) -> LawError {
    check_filter(&filter, &cluster(), &shapes()).expect_err("a liar")
}

#[allow(clippy::needless_pass_by_value, reason = "plugins are made where they are used")]
fn score_breaks(score: impl Score) -> LawError {
    check_score(&score, &cluster(), &shapes()).expect_err("a liar")
}

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
    assert_eq!(check_filter(&Fit, &Cluster::new(), &shapes()), Ok(()));
    assert_eq!(check_filter(&Fit, &cluster(), &[]), Ok(()));
}

#[test]
fn a_name_is_needed() {
    let error = filter_breaks(filter_fn("", Reach::Static, |_, _| true));
    assert_eq!(error.law, Law::Name);
}

#[test]
fn answers_that_change_by_themselves_are_caught() {
    let calls = AtomicI64::new(0);
    let filter = filter_fn("moody", Reach::Cluster, move |_, _| {
        calls.fetch_add(1, Ordering::Relaxed) % 4 != 0
    });
    assert_eq!(filter_breaks(filter).law, Law::Repeatable);
    let calls = AtomicI64::new(0);
    let score = score_fn("drifting", Reach::Cluster, move |_, _| {
        calls.fetch_add(1, Ordering::Relaxed).min(100)
    });
    assert_eq!(score_breaks(score).law, Law::Repeatable);
}

#[test]
fn a_declaration_that_changes_by_itself_is_caught() {
    struct Fickle(AtomicUsize);

    impl Filter for Fickle {
        fn name(&self) -> &str {
            "fickle"
        }

        fn filter(&self, _: &Context<'_>, _: NodeView<'_>) -> Verdict {
            Verdict::Pass
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            if self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                Declaration::node()
            } else {
                Declaration::constant()
            }
        }
    }

    assert_eq!(filter_breaks(Fickle(AtomicUsize::new(0))).law, Law::Repeatable);
}

#[test]
fn a_block_that_disagrees_with_its_nodes_is_caught() {
    struct Sloppy {
        skips_last: bool,
        forgives: bool,
    }

    impl Filter for Sloppy {
        fn name(&self) -> &str {
            "sloppy"
        }

        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(node.has_label("zone", "a"))
        }

        fn filter_block(&self, cx: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
            let judged = verdicts.len() - usize::from(self.skips_last);
            for (at, verdict) in verdicts.iter_mut().enumerate().take(judged) {
                let passes = block.node(at).is_some_and(|node| self.filter(cx, node).passes());
                if self.forgives || !passes {
                    *verdict = if passes { 0 } else { -1 };
                }
            }
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::constant()
        }
    }

    let error = filter_breaks(Sloppy { skips_last: true, forgives: false });
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n5"));
    // Lets nodes pass that a filter before it has rejected.
    let error = filter_breaks(Sloppy { skips_last: false, forgives: true });
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n0"));
    let honest = Sloppy { skips_last: false, forgives: false };
    assert_eq!(check_filter(&honest, &cluster(), &shapes()), Ok(()));

    struct Rounded;

    impl Score for Rounded {
        fn name(&self) -> &str {
            "rounded"
        }

        fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            node.pod_count()
        }

        fn score_block(&self, _: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
            for (out, count) in out.iter_mut().zip(block.pod_count()) {
                *out = count / 2 * 2;
            }
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::node()
        }
    }

    let error = score_breaks(Rounded);
    assert_eq!((error.law, error.node.as_str()), (Law::Block, "n4"));
}

#[test]
fn reading_pods_beyond_the_declared_reach_is_caught() {
    let own = |_: &Context<'_>, node: NodeView<'_>| node.pod_count() < 2;
    assert_eq!(filter_breaks(filter_fn("own", Reach::Static, own)).law, Law::Reach);
    assert_eq!(check_filter(&filter_fn("own", Reach::Node, own), &cluster(), &shapes()), Ok(()));

    let zone = |cx: &Context<'_>, node: NodeView<'_>| {
        let zone = node.label("zone").unwrap_or_default();
        let all = cx.cluster().nodes().filter(|other| other.has_label("zone", zone));
        all.map(NodeView::pod_count).sum::<i64>().min(100)
    };
    assert_eq!(score_breaks(score_fn("zone", Reach::Node, zone)).law, Law::Reach);
    let declared = score_fn("zone", Reach::Domain(vec!["zone".into()]), zone);
    assert_eq!(check_score(&declared, &cluster(), &shapes()), Ok(()));
    let wrong_key = score_fn("zone", Reach::Domain(vec!["rack".into()]), zone);
    assert_eq!(score_breaks(wrong_key).law, Law::Reach);

    let all = |cx: &Context<'_>, _: NodeView<'_>| cx.cluster().pod_count().min(100) as i64;
    assert_eq!(
        score_breaks(score_fn("all", Reach::Domain(vec!["zone".into()]), all)).law,
        Law::Reach
    );
    assert_eq!(check_score(&score_fn("all", Reach::Cluster, all), &cluster(), &shapes()), Ok(()));
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

    assert_eq!(check_score(&Declared, &cluster(), &shapes()), Ok(()));
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

    assert_eq!(check_filter(&Declared, &cluster(), &shapes()), Ok(()));
}

/// Counts the pods of each zone beforehand, and keeps the counts up to date.
struct Zones {
    takes: bool,
    undoes: bool,
}

struct Counts(Vec<(String, i64)>);

impl Counts {
    fn add(&mut self, node: NodeView<'_>, more: i64) {
        let zone = node.label("zone").unwrap_or_default();
        match self.0.iter_mut().find(|(name, _)| name == zone) {
            Some((_, count)) => *count += more,
            None => self.0.push((zone.into(), more)),
        }
    }
}

impl Score for Zones {
    fn name(&self) -> &str {
        "zones"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let mut counts = Counts(Vec::new());
        for node in cx.cluster().nodes() {
            counts.add(node, node.pod_count());
        }
        Preparation::with(counts)
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Some(Counts(counts)) = cx.prepared() else { return 0 };
        let zone = node.label("zone").unwrap_or_default();
        counts.iter().find(|(name, _)| name == zone).map_or(0, |(_, count)| (*count).min(100))
    }

    fn take(&self, prepared: &mut Prepared, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
        if self.takes
            && let Some(counts) = prepared.value_mut::<Counts>()
        {
            counts.add(node, 1);
        }
    }

    fn undo(&self, prepared: &mut Prepared, _: &Context<'_>, _: &PodShape, node: NodeView<'_>) {
        if self.undoes
            && let Some(counts) = prepared.value_mut::<Counts>()
        {
            counts.add(node, -1);
        }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain(["zone"])
    }
}

#[test]
fn preparation_that_is_not_kept_up_to_date_is_caught() {
    let error = score_breaks(Zones { takes: false, undoes: true });
    assert_eq!(error.law, Law::Incremental);
    let error = score_breaks(Zones { takes: true, undoes: false });
    assert_eq!(error.law, Law::Incremental);
    let honest = Zones { takes: true, undoes: true };
    assert_eq!(check_score(&honest, &cluster(), &shapes()), Ok(()));
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
            Declaration::domain(["zone"])
                .monotone()
                .counting(CounterSpec { key: "zone".into(), pods })
        }
    }

    assert_eq!(check_filter(&FewPerZone, &cluster(), &shapes()), Ok(()));
}

#[test]
fn scores_that_need_clamping_are_caught() {
    let big = score_fn("big", Reach::Static, |_, _| 101);
    assert_eq!(score_breaks(big).law, Law::Range);
    let negative = score_fn("negative", Reach::Static, |_, _| -1);
    assert_eq!(score_breaks(negative).law, Law::Range);

    struct Scaled(Normalization);

    impl Score for Scaled {
        fn name(&self) -> &str {
            "scaled"
        }

        fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            node.pod_count() * 1_000
        }

        fn normalization(&self) -> Normalization {
            self.0
        }

        fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
            (raw - low) * 200 / (high - low).max(1)
        }

        fn normalize(&self, _: &Context<'_>, scores: &mut [i64]) {
            for (at, score) in scores.iter_mut().enumerate() {
                *score = at as i64;
            }
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::node()
        }
    }

    assert_eq!(score_breaks(Scaled(Normalization::Extremes)).law, Law::Range);
    assert_eq!(score_breaks(Scaled(Normalization::Own)).law, Law::Repeatable);
    assert_eq!(check_score(&Scaled(Normalization::Max), &cluster(), &shapes()), Ok(()));
}

#[test]
fn a_score_may_consider_the_feasible_nodes() {
    struct First;

    impl Score for First {
        fn name(&self) -> &str {
            "first"
        }

        fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
            cx.prepared::<String>().map_or(0, |zone| i64::from(node.has_label("zone", zone)))
        }

        fn consider(&self, prepared: &mut Prepared, cx: &Context<'_>, feasible: &Feasible<'_>) {
            // The order of values is not promised, but it is the same each time.
            let Some(key) = cx.cluster().label_key("zone") else { return };
            let values = feasible.values(key, &[]);
            let first = values.first().map_or("", |value| cx.cluster().label_text(*value));
            *prepared = Prepared::new(first.to_owned());
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::constant().reading_feasible().reading_nodes()
        }
    }

    assert_eq!(check_score(&First, &cluster(), &shapes()), Ok(()));
}

#[test]
fn permits_are_pure_and_hold_for_the_future() {
    let (cluster, plan) = (cluster(), Plan::default());
    let group = PodGroup::gang("g", 2).pods(2, Pod::new());
    let now = Time::from_secs(5);
    let contexts = [PermitContext { cluster: &cluster, group: &group, plan: &plan, now }; 2];
    let check = |verdict: fn(&PermitContext<'_>) -> PermitVerdict| {
        check_permit(&permit_fn("permit", verdict), &contexts).map_err(|error| error.law)
    };
    assert_eq!(check(|_| PermitVerdict::Admit), Ok(()));
    assert_eq!(check(|cx| PermitVerdict::Hold { until: cx.now }), Err(Law::Hold));
    assert_eq!(check(|_| PermitVerdict::Hold { until: Time::MAX }), Ok(()));
    let calls = AtomicUsize::new(0);
    let moody = permit_fn("moody", move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => PermitVerdict::Admit,
        _ => PermitVerdict::Deny { reason: "not again".into() },
    });
    assert_eq!(check_permit(&moody, &contexts).unwrap_err().law, Law::Repeatable);
}

#[test]
fn scores_of_domains_are_pure_and_within_range() {
    struct Constant(i64, Normalization);

    impl DomainScore for Constant {
        fn name(&self) -> &str {
            "constant"
        }

        fn score(&self, _: &DomainContext<'_>) -> i64 {
            self.0
        }

        fn normalization(&self) -> Normalization {
            self.1
        }
    }

    let cluster = cluster();
    let group = PodGroup::gang("g", 2).pods(2, Pod::new());
    let domains = [DomainContext::new(&cluster, &group, &[0, 1], &[])];
    for (raw, normalization, sound) in [
        (100, Normalization::None, true),
        (101, Normalization::None, false),
        (101, Normalization::Max, true),
        (-1, Normalization::MaxReversed, false),
        (5, Normalization::Own, false),
        (5, Normalization::Extremes, false),
    ] {
        let law = check_domain_score(&Constant(raw, normalization), &domains);
        assert_eq!(law.map_err(|error| error.law), if sound { Ok(()) } else { Err(Law::Range) });
    }
}

#[test]
fn the_error_names_plugin_law_shape_and_node() {
    let late = filter_fn("late", Reach::Static, |cx, node| {
        cx.pod().requests.of("cpu") < 3_000 || node.pod_count() == 0 || node.name() != "n3"
    });
    let error = filter_breaks(late);
    assert_eq!((error.shape, error.node.as_str()), (2, "n3"));
    let text = error.to_string();
    for part in ["\"late\"", "law reach", "shape 2", "\"n3\"", "came to n3"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn room_that_is_too_small_or_no_room_at_all_is_caught() {
    struct Bounded {
        room: i64,
        block: i64,
        judges: bool,
        of_all: i64,
    }

    impl Filter for Bounded {
        fn name(&self) -> &str {
            "bounded"
        }

        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(node.pod_count() < 5)
        }

        fn room(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            (self.room - node.pod_count()).max(0)
        }

        fn room_block(&self, _: &Context<'_>, block: &Block<'_>, room: &mut [i64]) {
            for (room, count) in room.iter_mut().zip(block.pod_count()) {
                *room = (*room).min((self.block - count).max(0));
            }
        }

        fn room_of_all(&self, _: &Context<'_>, _: i64) -> i64 {
            self.of_all
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            let declaration = Declaration::usage().monotone();
            if self.judges { declaration.judging_room() } else { declaration }
        }
    }

    let check_all = |room, block, judges, of_all| {
        check_filter(&Bounded { room, block, judges, of_all }, &cluster(), &shapes())
            .map_err(|error| error.law)
    };
    let check = |room, block, judges| check_all(room, block, judges, i64::MAX);
    assert_eq!(check(5, 5, false), Ok(()));
    assert_eq!(check(9, 9, false), Ok(()));
    assert_eq!(check(4, 4, false), Err(Law::Room));
    assert_eq!(check(5, 6, false), Err(Law::Room));
    // Six nodes of five pods each, three of which run.
    assert_eq!(check_all(5, 5, false, 27), Ok(()));
    assert_eq!(check_all(5, 5, false, 26), Err(Law::Room));
    // The nodes may have three pods each, so this is not room as the fit has it.
    assert_eq!(check(5, 5, true), Err(Law::Room));
}

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

    impl Filter for Roomy {
        fn name(&self) -> &str {
            "roomy"
        }

        fn prepare(&self, cx: &Context<'_>) -> Preparation {
            match self.0 {
                Lie::Skips if !cx.pod().requests.is_empty() => Preparation::Skip,
                _ => Preparation::with(()),
            }
        }

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

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::usage().judging_room()
        }
    }

    let check = |lie| check_filter(&Roomy(lie), &roomy(), &shapes()).map_err(|error| error.law);
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

    struct Bounded(Lie);

    impl Bounded {
        fn bound(&self, lie: Lie, count: i64) -> i64 {
            if self.0 == lie && count >= 2 { 0 } else { 50 - count }
        }
    }

    impl Filter for Bounded {
        fn name(&self) -> &str {
            "bounded"
        }

        fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
            Verdict::pass_if(node.pod_count() < 50)
        }

        fn room(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            self.bound(Lie::Node, node.pod_count())
        }

        fn room_block(&self, _: &Context<'_>, block: &Block<'_>, room: &mut [i64]) {
            for (at, room) in room.iter_mut().enumerate() {
                let Some(node) = block.node(at) else { continue };
                let lie = if self.0 == Lie::Node { Lie::Node } else { Lie::Block };
                *room = (*room).min(self.bound(lie, node.pod_count()));
            }
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::usage().monotone()
        }
    }

    let check = |lie| check_filter(&Bounded(lie), &roomy(), &shapes()).map_err(|error| error.law);
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
    assert_eq!(check_score(&Batch(Declaration::node()), &cluster(), &shapes()), Ok(()));
}

/// Placement that looks ahead shows a pod on the node before the cluster has it.
#[test]
fn a_node_that_is_looked_up_in_place_of_the_one_shown_is_caught() {
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

    impl Score for Aside {
        fn name(&self) -> &str {
            "aside"
        }

        fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
            Aside::count(cx, node, self.looks_up)
        }

        fn score_block(&self, cx: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
            for (at, out) in out.iter_mut().enumerate() {
                let looks_up = self.looks_up || self.in_blocks;
                *out = block.node(at).map_or(0, |node| Aside::count(cx, node, looks_up));
            }
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::usage()
        }
    }

    let honest = Aside { looks_up: false, in_blocks: false };
    assert_eq!(check_score(&honest, &cluster(), &shapes()), Ok(()));
    for (looks_up, in_blocks) in [(true, false), (false, true)] {
        assert_eq!(score_breaks(Aside { looks_up, in_blocks }).law, Law::Block);
    }
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
    for framework in [Framework::default(), Framework::spread(), Framework::kubernetes()] {
        assert_eq!(check_framework(&framework, &cluster, &shapes), Ok(()));
    }
}

/// Likes zones with few pods of an app, and makes a promise about it.
struct Thin {
    keys: &'static [&'static str],
    /// What is false about the promise.
    lie: Lie,
}

#[derive(Clone, Copy, PartialEq)]
enum Lie {
    Nothing,
    /// The whole cluster is read, and the epoch does not tell.
    Epoch,
    /// What is prepared is not kept up to date.
    Take,
    /// Nothing is prepared where nothing runs yet.
    Skip,
    /// Where the node stands is read.
    Name,
    /// The feasible nodes are counted by another label.
    Feasible,
    /// Pods that are being deleted do not count, undeclared.
    Deleting,
    /// The pod that came last is taken back, whichever left.
    Last,
    /// Pods that were there when it prepared are never taken back.
    Before,
}

#[derive(Default)]
struct Thinness {
    zones: std::collections::BTreeMap<String, i64>,
    all: i64,
    feasible: i64,
    /// The zones of pods that came, in order.
    came: Vec<String>,
}

impl Thinness {
    fn add(&mut self, node: NodeView<'_>, placed: &PodShape, amount: i64) {
        if placed.labels.get("app").is_some_and(|app| app == "batch") {
            self.all += amount;
            *self.zones.entry(node.label("zone").unwrap_or("").into()).or_default() += amount;
        }
    }
}

impl Score for Thin {
    fn name(&self) -> &str {
        "thin"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let mut seen = Thinness::default();
        for pod in cx.cluster().pods() {
            if let Some(node) = pod.node()
                && (self.lie != Lie::Deleting || !pod.deleting())
            {
                seen.add(node, pod.shape(), 1);
            }
        }
        if seen.all == 0 && (!cx.is_kept() || self.lie == Lie::Skip) {
            return Preparation::Constant(0);
        }
        Preparation::with(seen)
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let seen: &Thinness = cx.prepared().unwrap();
        let own = seen.zones.get(node.label("zone").unwrap_or("")).copied().unwrap_or(0);
        own + match self.lie {
            Lie::Epoch => seen.all,
            Lie::Name if own > 0 => i64::from(node.name() == "n1"),
            Lie::Feasible => seen.feasible,
            _ => 0,
        }
    }

    fn consider(&self, prepared: &mut Prepared, cx: &Context<'_>, feasible: &Feasible<'_>) {
        let rack = cx.cluster().label_key("rack").unwrap();
        let racks = feasible.values(rack, &[]).len() as i64;
        prepared.value_mut::<Thinness>().unwrap().feasible = racks;
    }

    fn take(&self, prepared: &mut Prepared, _: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        let seen: &mut Thinness = prepared.value_mut().unwrap();
        if self.lie != Lie::Take {
            seen.add(on, placed, 1);
            seen.came.push(on.label("zone").unwrap_or("").into());
        }
    }

    fn undo(&self, prepared: &mut Prepared, _: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        let seen: &mut Thinness = prepared.value_mut().unwrap();
        let last = seen.came.pop();
        match (self.lie, last) {
            (Lie::Take, _) | (Lie::Before, None) => {}
            (Lie::Last, Some(zone))
                if placed.labels.get("app").is_some_and(|app| app == "batch") =>
            {
                seen.all -= 1;
                *seen.zones.entry(zone).or_default() -= 1;
            }
            _ => seen.add(on, placed, -1),
        }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        let declaration = Declaration::cluster().grained();
        if self.lie == Lie::Feasible { declaration.reading_feasible() } else { declaration }
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        Some(Grain::of(cx, self.keys.iter().copied()))
    }
}

#[test]
fn a_false_promise_about_classes_is_caught() {
    let mut cluster = Cluster::new();
    for index in 0..6 {
        let node = Node::new(format!("n{index}"))
            .capacity("cpu", 8)
            .label("zone", ["a", "b"][index % 2])
            .label("rack", format!("r{}", index / 2));
        cluster.add_node(node).unwrap();
    }
    let check = |keys, lie| check_score(&Thin { keys, lie }, &cluster, &shapes());
    assert_eq!(check(&["zone"], Lie::Nothing), Ok(()));
    assert_eq!(check(&["zone", "rack"], Lie::Nothing), Ok(()));
    for (keys, lie) in [
        (&["rack"][..], Lie::Nothing),
        (&[], Lie::Nothing),
        (&["zone"], Lie::Epoch),
        (&["zone"], Lie::Take),
        (&["zone"], Lie::Skip),
        (&["zone"], Lie::Name),
        (&["zone"], Lie::Feasible),
        (&["zone"], Lie::Deleting),
        (&["zone"], Lie::Last),
    ] {
        assert_eq!(check(keys, lie).unwrap_err().law, Law::Grain, "{keys:?}");
    }
    let old = Pod::new().name("old").label("app", "batch").on("n1");
    cluster.add_pod(old).unwrap();
    let check = |lie| check_score(&Thin { keys: &["zone"], lie }, &cluster, &shapes());
    assert_eq!(check(Lie::Nothing), Ok(()));
    assert_eq!(check(Lie::Before).unwrap_err().law, Law::Grain);
    // What the crate promises of its own plugins.
    let app = || LabelSelector::label("app", "batch");
    let pods = [
        Pod::new().label("app", "batch").spread(SpreadConstraint::new(1, "zone", app())),
        Pod::new()
            .label("app", "batch")
            .spread(SpreadConstraint::new(1, "rack", app()).preferred()),
        Pod::new().label("app", "batch").affinity(PodAffinityTerm::new("zone", app())),
        Pod::new().label("app", "batch").anti_affinity(PodAffinityTerm::new("rack", app())),
        Pod::new().label("app", "web"),
    ];
    let shapes: Vec<PodShape> = pods.iter().map(|pod| (**pod.shape()).clone()).collect();
    assert_eq!(check_framework(&Framework::kubernetes(), &cluster, &shapes), Ok(()));
}
