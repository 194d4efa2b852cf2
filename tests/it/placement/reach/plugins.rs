//! Plugins that read counters, pods and feasible nodes by what they declare.

use phalanx::framework::{
    Context, CountedPods, CounterSpec, Declaration, Feasible, Grain, Normalization, Preparation,
    Prepared, Verdict,
};
use phalanx::model::{LabelSelector, PodShape};
use phalanx::state::{LabelKey, NodeView};
use phalanx::{Filter, Score};

use super::random::*;

pub(super) fn counting(key: &str) -> CounterSpec {
    let selector = LabelSelector::label("app", "a");
    CounterSpec { key: key.into(), pods: CountedPods::Matching { namespace: None, selector } }
}

/// A score of how many pods of an app share a label, under every kind of normalisation.
pub(super) struct Crowd(pub(super) &'static str, pub(super) Normalization);

impl Score for Crowd {
    fn name(&self) -> &str {
        "Crowd"
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        match cx.count(0, node) {
            None if self.1 == Normalization::Extremes => Normalization::IGNORED,
            count => (7 * count.unwrap_or(0)).min(100),
        }
    }

    fn normalization(&self) -> Normalization {
        self.1
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        if high == low { 50 } else { 100 * (high - raw) / (high - low) }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain([self.0]).counting(counting(self.0)).grained()
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        Some(Grain::of(cx, [self.0]))
    }
}

/// At most so many pods of an app in the whole cluster, and on a node of its own.
pub(super) struct Few(pub(super) i64);

#[derive(Default)]
struct Seen {
    pub(super) all: i64,
    pub(super) rows: Vec<i64>,
}

impl Seen {
    pub(super) fn add(&mut self, placed: &PodShape, node: NodeView<'_>, amount: i64) {
        if placed.labels.get("app").is_some_and(|app| app == "a") {
            self.all += amount;
            self.rows[node.row()] += amount;
        }
    }
}

impl Filter for Few {
    fn name(&self) -> &str {
        "Few"
    }

    fn prepare(&self, cx: &Context<'_>) -> Preparation {
        let mut seen = Seen { all: 0, rows: vec![0; cx.cluster().rows()] };
        for pod in cx.cluster().pods() {
            if let Some(node) = pod.node() {
                seen.add(pod.shape(), node, 1);
            }
        }
        Preparation::with(seen)
    }

    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let seen: &Seen = cx.prepared().unwrap();
        Verdict::pass_if(seen.all < self.0 && seen.rows[node.row()] < 2)
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::cluster().grained()
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        let seen: &Seen = cx.prepared()?;
        Some(Grain::default().each().epoch(seen.all.max(0) as u64))
    }

    fn take(&self, prepared: &mut Prepared, _: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        prepared.value_mut::<Seen>().unwrap().add(placed, on, 1);
    }

    fn undo(&self, prepared: &mut Prepared, _: &Context<'_>, placed: &PodShape, on: NodeView<'_>) {
        prepared.value_mut::<Seen>().unwrap().add(placed, on, -1);
    }
}

/// Likes racks the more, the more feasible nodes there are; counts them by class or by node.
pub(super) struct Room {
    pub(super) each: bool,
}

#[derive(Default)]
struct Sizes(usize, Vec<phalanx::state::LabelValue>);

impl Score for Room {
    fn name(&self) -> &str {
        "Room"
    }

    fn prepare(&self, _: &Context<'_>) -> Preparation {
        Preparation::with(Sizes::default())
    }

    fn consider(&self, prepared: &mut Prepared, cx: &Context<'_>, feasible: &Feasible<'_>) {
        let key: Option<LabelKey> = cx.cluster().label_key(RACK);
        let values = key.map(|key| feasible.values(key, &[])).unwrap_or_default();
        let labelled = feasible.with_labels(key.as_slice());
        *prepared.value_mut().unwrap() = Sizes(labelled + 3 * feasible.with_labels(&[]), values);
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Sizes(count, values) = cx.prepared().unwrap();
        let value = cx.cluster().label_key(RACK).and_then(|key| node.label_value(key));
        let place = value.and_then(|value| values.iter().position(|other| *other == value));
        let own = if self.each { node.row() } else { 0 };
        ((count + own) * (2 + place.unwrap_or(7)) % 101) as i64
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::domain([RACK]).reading_nodes().reading_feasible().grained()
    }

    fn grain(&self, cx: &Context<'_>) -> Option<Grain> {
        let Sizes(count, values) = cx.prepared()?;
        let mut epoch = *count as u64;
        for value in values {
            epoch = epoch.wrapping_mul(31).wrapping_add(value.index() as u64 + 1);
        }
        let grain = Grain::of(cx, [RACK]).epoch(epoch);
        Some(if self.each { grain.each() } else { grain })
    }
}
