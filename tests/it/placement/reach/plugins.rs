//! Plugins that read counters, pods and feasible nodes by what they declare.

use std::sync::Arc;

use phalanx::framework::{
    Context, CountedPods, CounterSpec, Declaration, Feasible, FilterPlugin, FilterPreparation,
    Grain, Incremental, Normalization, PreparedFilter, PreparedScore, ScorePlugin,
    ScorePreparation, Verdict,
};
use phalanx::model::{LabelSelector, PodShape};
use phalanx::state::{LabelKey, NodeView};

use super::random::*;

pub(super) fn counting(key: &str) -> CounterSpec {
    let selector = LabelSelector::label("app", "a");
    CounterSpec::new(key, CountedPods::Matching { namespace: None, selector })
}

/// A score of how many pods of an app share a label, under every kind of normalisation.
#[derive(Clone, Copy)]
pub(super) struct Crowd(pub(super) &'static str, pub(super) Normalization);

impl ScorePlugin for Crowd {
    fn name(&self) -> &str {
        "Crowd"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain([self.0]).counting(counting(self.0)).grained()
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> ScorePreparation {
        ScorePreparation::ready(*self)
    }

    fn normalization(&self) -> Normalization {
        self.1
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        if high == low { 50 } else { 100 * (high - raw) / (high - low) }
    }
}

impl PreparedScore for Crowd {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        match cx.count(0, node) {
            None if self.1 == Normalization::Extremes => Normalization::IGNORED,
            count => (7 * count.unwrap_or(0)).min(100),
        }
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for Crowd {
    fn classes(&self, cx: &Context<'_>) -> Grain {
        Grain::of(cx, [self.0])
    }
}

/// At most so many pods of an app in the whole cluster, and on a node of its own.
pub(super) struct Few(pub(super) i64);

struct Seen {
    most: i64,
    all: i64,
    rows: Vec<i64>,
}

impl Seen {
    fn add(&mut self, placed: &PodShape, node: NodeView<'_>, amount: i64) {
        if placed.labels.get("app").is_some_and(|app| app == "a") {
            self.all += amount;
            self.rows[node.row()] += amount;
        }
    }
}

impl FilterPlugin for Few {
    fn name(&self) -> &str {
        "Few"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::cluster().grained()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        let mut seen = Seen { most: self.0, all: 0, rows: vec![0; cx.cluster().rows()] };
        for pod in cx.cluster().pods() {
            if let Some(node) = pod.node() {
                seen.add(pod.shape(), node, 1);
            }
        }
        FilterPreparation::ready(seen)
    }
}

impl PreparedFilter for Seen {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_if(self.all < self.most && self.rows[node.row()] < 2)
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for Seen {
    fn classes(&self, _: &Context<'_>) -> Grain {
        Grain::default().each().epoch(self.all.max(0) as u64)
    }

    fn pod_added(&mut self, _: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.add(pod, node, 1);
    }

    fn pod_removed(&mut self, _: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.add(pod, node, -1);
    }
}

/// Likes racks the more, the more feasible nodes there are; counts them by class or by node.
pub(super) struct Room {
    pub(super) each: bool,
}

struct Sizes {
    each: bool,
    count: usize,
    values: Vec<phalanx::state::LabelValue>,
}

impl ScorePlugin for Room {
    fn name(&self) -> &str {
        "Room"
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain([RACK]).reading_nodes().reading_feasible().grained()
    }

    fn prepare(self: Arc<Self>, _: &Context<'_>) -> ScorePreparation {
        ScorePreparation::ready(Sizes { each: self.each, count: 0, values: Vec::new() })
    }
}

impl PreparedScore for Sizes {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let value = cx.cluster().label_key(RACK).and_then(|key| node.label_value(key));
        let place = value.and_then(|value| self.values.iter().position(|other| *other == value));
        let own = if self.each { node.row().index() } else { 0 };
        ((self.count + own) * (2 + place.unwrap_or(7)) % 101) as i64
    }

    fn observe_feasible(&mut self, cx: &Context<'_>, feasible: &Feasible<'_>) {
        let key: Option<LabelKey> = cx.cluster().label_key(RACK);
        self.values = key.map(|key| feasible.values(key, &[])).unwrap_or_default();
        self.count = feasible.with_labels(key.as_slice()) + 3 * feasible.with_labels(&[]);
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for Sizes {
    fn classes(&self, cx: &Context<'_>) -> Grain {
        let mut epoch = self.count as u64;
        for value in &self.values {
            epoch = epoch.wrapping_mul(31).wrapping_add(value.index() as u64 + 1);
        }
        let grain = Grain::of(cx, [RACK]).epoch(epoch);
        if self.each { grain.each() } else { grain }
    }
}
