//! A false promise about classes of nodes is caught.

use std::sync::Arc;

use phalanx::framework::{
    Context, Declaration, Feasible, FilterPlugin, FilterPreparation, Grain, Incremental,
    PreparedFilter, PreparedScore, ScorePlugin, ScorePreparation, Verdict,
};
use phalanx::laws::{Law, check_filter, check_framework, check_score};
use phalanx::model::{LabelSelector, PodAffinityTerm, PodShape, SpreadConstraint};
use phalanx::state::{LabelKey, LabelValue, NodeView};
use phalanx::{Cluster, Framework, Node, Pod};

use super::worlds::*;

/// Likes zones with few pods of an app, and makes a promise about it.
#[derive(Clone, Copy)]
struct Thin {
    keys: &'static [&'static str],
    /// The false part of the promise.
    lie: Lie,
}

#[derive(Clone, Copy, PartialEq)]
enum Lie {
    Nothing,
    /// The whole cluster is read, and the epoch does not tell.
    Epoch,
    /// Prepared state is not kept up to date.
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
    /// There is nothing to keep it up to date by.
    Neither,
    /// No pod is said to matter.
    Unconcerned,
}

struct Thinness {
    thin: Thin,
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

impl ScorePlugin for Thin {
    fn name(&self) -> &str {
        "thin"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        let declaration = Declaration::cluster().grained();
        if self.lie == Lie::Feasible { declaration.reading_feasible() } else { declaration }
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let (zones, came) = Default::default();
        let mut seen = Thinness { thin: *self, zones, all: 0, feasible: 0, came };
        for pod in cx.cluster().pods() {
            if let Some(node) = pod.node()
                && (self.lie != Lie::Deleting || !pod.deleting())
            {
                seen.add(node, pod.shape(), 1);
            }
        }
        if seen.all == 0 && (!cx.is_kept() || self.lie == Lie::Skip) {
            return ScorePreparation::Constant(0);
        }
        ScorePreparation::ready(seen)
    }
}

impl PreparedScore for Thinness {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let own = self.zones.get(node.label("zone").unwrap_or("")).copied().unwrap_or(0);
        own + match self.thin.lie {
            Lie::Epoch => self.all,
            Lie::Name if own > 0 => i64::from(node.name() == "n1"),
            Lie::Feasible => self.feasible,
            _ => 0,
        }
    }

    fn observe_feasible(&mut self, cx: &Context<'_>, feasible: &Feasible<'_>) {
        let rack = cx.cluster().label_key("rack").unwrap();
        self.feasible = feasible.values(rack, &[]).len() as i64;
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        (self.thin.lie != Lie::Neither).then_some(self)
    }
}

impl Incremental for Thinness {
    fn classes(&self, cx: &Context<'_>) -> Grain {
        Grain::of(cx, self.thin.keys.iter().copied())
    }

    fn concerned_by(&self, _: &Context<'_>, pod: &PodShape) -> bool {
        match self.thin.lie {
            Lie::Unconcerned => false,
            Lie::Last => true,
            _ => pod.labels.get("app").is_some_and(|app| app == "batch"),
        }
    }

    fn pod_added(&mut self, _: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        if self.thin.lie != Lie::Take {
            self.add(node, pod, 1);
            self.came.push(node.label("zone").unwrap_or("").into());
        }
    }

    fn pod_removed(&mut self, _: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        let last = self.came.pop();
        match (self.thin.lie, last) {
            (Lie::Take, _) | (Lie::Before, None) => {}
            (Lie::Last, Some(zone)) if pod.labels.get("app").is_some_and(|app| app == "batch") => {
                self.all -= 1;
                *self.zones.entry(zone).or_default() -= 1;
            }
            _ => self.add(node, pod, -1),
        }
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
    let check = |keys, lie| check_score(Thin { keys, lie }, &cluster, &shapes());
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
        (&["zone"], Lie::Neither),
        (&["zone"], Lie::Unconcerned),
    ] {
        assert_eq!(check(keys, lie).unwrap_err().law, Law::Grain, "{keys:?}");
    }
    let old = Pod::new().name("old").label("app", "batch").on("n1");
    cluster.add_pod(old).unwrap();
    let check = |lie| check_score(Thin { keys: &["zone"], lie }, &cluster, &shapes());
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

/// Rejects a zone, and tells of one that it rejects.
#[derive(Clone, Copy)]
struct Shut {
    zone: &'static str,
    told: &'static str,
}

impl FilterPlugin for Shut {
    fn name(&self) -> &str {
        "shut"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain(["zone"]).grained()
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> FilterPreparation {
        FilterPreparation::ready(*self)
    }
}

impl PreparedFilter for Shut {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_if(node.label("zone") != Some(self.zone))
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for Shut {
    fn classes(&self, cx: &Context<'_>) -> Grain {
        Grain::of(cx, ["zone"])
    }

    fn rejects(&self, cx: &Context<'_>, tell: &mut dyn FnMut(LabelKey, LabelValue)) -> bool {
        let cluster = cx.cluster();
        if let Some(value) = cluster.find_label_value(self.told) {
            cluster.label_key("zone").into_iter().for_each(|key| tell(key, value));
        }
        true
    }
}

#[test]
fn a_node_that_is_rejected_unannounced_is_caught() {
    let mut cluster = Cluster::new();
    for (name, zone) in [("n0", "a"), ("n1", "b"), ("n2", "c")] {
        cluster.add_node(Node::new(name).capacity("cpu", 8).label("zone", zone)).unwrap();
    }
    let check = |zone, told| check_filter(Shut { zone, told }, &cluster, &shapes());
    assert_eq!(check("a", "a"), Ok(()));
    // To tell of more than are rejected is no fault.
    assert_eq!(check("d", "a"), Ok(()));
    let error = check("a", "b").unwrap_err();
    assert_eq!((error.law, &*error.node), (Law::Grain, "n0"));
}
