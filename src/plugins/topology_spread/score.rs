//! Topology spread as a score: constraints that prefer.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::tally::Tally;
use super::PodTopologySpread;
use super::constraints::Constraint;
use super::counts::{CountedRows, count_pods, counted_rows, has_all};
use crate::framework::{
    Context, Declaration, Feasible, Grain, Incremental, MAX_SCORE, Normalization, PreparedScore,
    ScorePlugin, ScorePreparation,
};
use crate::model::{PodShape, WhenUnsatisfiable};
use crate::state::{LabelKey, LabelValue, NodeView};

/// The preparation.
struct Wishes {
    list: Vec<Wish>,
    keys: Vec<Option<LabelKey>>,
    /// Feasible nodes that lack a key score nothing.
    all_keys: bool,
    /// How often something moved that concerns nodes of more domains than one.
    epoch: u64,
}

/// A constraint and its counts.
struct Wish {
    constraint: Constraint,
    counts: Counts,
    /// `ln(domains + 2)`.
    weight: f64,
}

enum Counts {
    /// By row.
    Node(Vec<u32>),
    Domain {
        tally: Tally,
        rows: CountedRows,
        /// Where nodes without the key count: as if its value were empty.
        blank: Blank,
    },
}

/// The value that stands for the absent value of a key.
enum Blank {
    /// Nodes without the key are left out.
    Out,
    /// The empty value, which some node has.
    Value(LabelValue),
    /// The empty value, which no node has: pods there count for no node that is scored.
    Unseen,
}

impl ScorePlugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let constraints = self.constraints(pod, WhenUnsatisfiable::ScheduleAnyway);
        if constraints.is_empty() {
            return ScorePreparation::Skip;
        }
        let all_keys = constraints.all_keys;
        let keys: Vec<_> = constraints.keys().map(|key| cluster.label_key(key)).collect();
        let checked: Vec<Constraint> = constraints.check(pod).map(|(sound, _)| sound).collect();
        let rows = counted_rows(cx, &checked, all_keys.then_some(&keys), |_, _| {});
        let mut wishes: Vec<Wish> = Vec::with_capacity(checked.len());
        for ((constraint, rows), &key) in checked.iter().zip(rows).zip(&keys) {
            let counts = if constraint.is_hostname() {
                Counts::Node(alloc::vec![0; cluster.rows()])
            } else {
                let blank = match cluster.find_label_value("") {
                    _ if all_keys => Blank::Out,
                    Some(value) => Blank::Value(value),
                    None => Blank::Unseen,
                };
                Counts::Domain { tally: Tally::new(key), rows, blank }
            };
            wishes.push(Wish { constraint: constraint.clone(), counts, weight: 0.0 });
        }
        count_pods(cx, &checked, |number, node| {
            wishes[number].add(node, 1);
        });
        ScorePreparation::ready(Wishes { list: wishes, keys, all_keys, epoch: 0 })
    }

    fn normalization(&self) -> Normalization {
        Normalization::Extremes
    }

    fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
        // kube-scheduler marks nodes that take no part with -1, which a skew of 0 makes too.
        if raw == -1 {
            0
        } else if high <= 0 {
            MAX_SCORE
        } else {
            let scaled = i128::from(high) + i128::from(low) - i128::from(raw);
            (i128::from(MAX_SCORE) * scaled / i128::from(high)).clamp(0, 100) as i64
        }
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        let constraints = self.constraints(pod, WhenUnsatisfiable::ScheduleAnyway);
        if constraints.is_empty() {
            return Declaration::constant();
        }
        Declaration::domain(constraints.keys())
            .reading_nodes()
            .reading_feasible()
            .grained()
            .ignoring_deleting()
    }
}

impl PreparedScore for Wishes {
    fn observe_feasible(&mut self, cx: &Context<'_>, feasible: &Feasible<'_>) {
        let Wishes { list, keys, all_keys, epoch } = self;
        let known: Option<Vec<LabelKey>> =
            if *all_keys { keys.iter().copied().collect() } else { Some(Vec::new()) };
        for wish in list {
            // Without one of the keys anywhere there are no domains at all.
            let size = known.as_ref().map_or(0, |known| match &wish.counts {
                Counts::Node(_) => feasible.with_labels(known),
                Counts::Domain { tally, blank, .. } => {
                    domains(cx, feasible, known, tally.key, blank)
                }
            });
            let weight = libm::log((size + 2) as f64);
            *epoch += u64::from(weight.to_bits() != wish.weight.to_bits());
            wish.weight = weight;
        }
    }

    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let Wishes { list, keys, all_keys, .. } = self;
        if *all_keys && !has_all(node, keys) {
            return Normalization::IGNORED;
        }
        let mut sum = 0.0;
        for (wish, key) in list.iter().zip(keys) {
            let Some(value) = key.and_then(|key| node.label_value(key)) else { continue };
            let count = match &wish.counts {
                Counts::Node(counts) => counts.get(node.row().index()).copied().unwrap_or(0).into(),
                Counts::Domain { tally, .. } => tally.at(value),
            };
            sum += count as f64 * wish.weight + (wish.constraint.max_skew - 1) as f64;
        }
        libm::round(sum) as i64
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for Wishes {
    fn classes(&self, _: &Context<'_>) -> Grain {
        let grain = Grain::new(self.keys.iter().copied().flatten()).epoch(self.epoch);
        let by_node = self.list.iter().any(|wish| matches!(wish.counts, Counts::Node(_)));
        if by_node { grain.each() } else { grain }
    }

    fn concerned_by(&self, cx: &Context<'_>, pod: &PodShape) -> bool {
        self.list.iter().any(|own| own.constraint.counts(pod, cx.pod()))
    }

    fn pod_added(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.count(cx, pod, node, 1);
    }

    fn pod_removed(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.count(cx, pod, node, -1);
    }
}

impl Wishes {
    /// Counts a pod that came (1) or left (-1).
    fn count(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>, sign: i32) {
        for wish in &mut self.list {
            if wish.constraint.counts(pod, cx.pod()) {
                self.epoch += u64::from(!wish.add(node, sign));
            }
        }
    }
}

impl Wish {
    /// Counts a pod on a node. Returns whether it counts for nodes that share a value with that
    /// one alone.
    fn add(&mut self, node: NodeView<'_>, sign: i32) -> bool {
        match &mut self.counts {
            Counts::Node(counts) => {
                if let Some(count) = counts.get_mut(node.row().index()) {
                    *count = count.saturating_add_signed(sign);
                }
            }
            Counts::Domain { tally, rows, blank } if rows.contain(node.row()) => {
                if !tally.add(node, sign.into())
                    && let Blank::Value(value) = blank
                {
                    tally.add_at(*value, sign.into());
                    return false;
                }
            }
            Counts::Domain { .. } => {}
        }
        true
    }
}

/// How many domains of a key the feasible nodes with all of `keys` are in.
fn domains(
    cx: &Context<'_>,
    feasible: &Feasible<'_>,
    keys: &[LabelKey],
    key: Option<LabelKey>,
    blank: &Blank,
) -> usize {
    let values = key.map(|key| feasible.values(key, keys)).unwrap_or_default();
    if matches!(blank, Blank::Out) {
        return values.len();
    }
    let labelled = key.map_or(0, |key| feasible.with_labels(&[key]));
    let absent = feasible.with_labels(&[]) > labelled;
    let empty = values.iter().any(|value| cx.cluster().label_text(*value).is_empty());
    values.len() + usize::from(absent && !empty)
}
