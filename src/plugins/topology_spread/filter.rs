//! Topology spread as a filter: constraints that must hold.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::PodTopologySpread;
use super::constraints::Constraint;
use super::counts::{CountedRows, count_pods, counted_rows};
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, Grain, Incremental, PreparedFilter,
    Verdict,
};
use crate::model::{PodShape, WhenUnsatisfiable};
use crate::state::{LabelKey, LabelValue, NodeView};

/// The preparation.
struct State {
    list: Vec<Counted>,
    /// How often a least count has moved: that concerns every domain.
    epoch: u64,
}

/// A constraint and the counts of its domains.
struct Counted {
    constraint: Constraint,
    /// `None` if no node has the label.
    key: Option<LabelKey>,
    rows: CountedRows,
    domains: Domains,
    /// How much one more pod, this one, adds to its own domain.
    itself: i64,
}

/// The counts of domains, and the least of them at hand.
///
/// A count falls below zero where pods leave that were not counted, because they are being deleted.
#[derive(Debug, Default)]
struct Domains {
    /// By number of label value; `None` for a value that is no domain.
    counts: Vec<Option<i32>>,
    /// How many domains have each count, from the floor on.
    with_count: Vec<u32>,
    floor: i32,
    len: i64,
    least: i32,
}

impl Domains {
    /// Makes a value a domain.
    fn open(&mut self, value: LabelValue) {
        if self.counts.len() <= value.index() {
            self.counts.resize(value.index() + 1, None);
        }
        if self.counts[value.index()].is_none() {
            self.counts[value.index()] = Some(0);
            *self.having(0) += 1;
            self.least = if self.len == 0 { 0 } else { self.least.min(0) };
            self.len += 1;
        }
    }

    #[inline]
    fn of(&self, value: LabelValue) -> i64 {
        i64::from(self.counts.get(value.index()).copied().flatten().unwrap_or(0))
    }

    /// The least count of a domain; `i32::MAX` if there is none.
    fn least(&self) -> i64 {
        if self.len == 0 { i64::from(i32::MAX) } else { i64::from(self.least) }
    }

    fn add(&mut self, value: LabelValue) {
        let Some(Some(count)) = self.counts.get_mut(value.index()) else { return };
        let before = *count;
        *count += 1;
        *self.having(before + 1) += 1;
        let left = self.having(before);
        *left -= 1;
        if *left == 0 && before == self.least {
            self.least += 1;
        }
    }

    fn subtract(&mut self, value: LabelValue) {
        let Some(Some(count)) = self.counts.get_mut(value.index()) else { return };
        let before = *count;
        *count -= 1;
        *self.having(before) -= 1;
        *self.having(before - 1) += 1;
        self.least = self.least.min(before - 1);
    }

    /// How many domains have a count.
    #[inline]
    fn having(&mut self, count: i32) -> &mut u32 {
        if count < self.floor {
            let more = (self.floor - count) as usize;
            self.with_count.splice(0..0, core::iter::repeat_n(0, more));
            self.floor = count;
        }
        let at = (count - self.floor) as usize;
        if self.with_count.len() <= at {
            self.with_count.resize(at + 1, 0);
        }
        &mut self.with_count[at]
    }
}

impl FilterPlugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let constraints = self.constraints(pod, WhenUnsatisfiable::DoNotSchedule);
        if constraints.is_empty() {
            return FilterPreparation::Skip;
        }
        let keys: Vec<_> = constraints.keys().map(|key| cluster.label_key(key)).collect();
        let mut sound = Vec::new();
        for (constraint, error) in constraints.check(pod) {
            if error.is_some() {
                return FilterPreparation::Reject(Verdict::Unresolvable);
            }
            sound.push(constraint);
        }
        let mut domains: Vec<Domains> = sound.iter().map(|_| Domains::default()).collect();
        let rows = counted_rows(cx, &sound, Some(&keys), |number, node| {
            if let Some(value) = keys[number].and_then(|key| node.label_value(key)) {
                domains[number].open(value);
            }
        });
        let parts = sound.iter().zip(&keys).zip(rows.into_iter().zip(domains));
        let counted = parts.map(|((constraint, &key), (rows, domains))| {
            let itself = constraint.matches_itself(pod).into();
            Counted { constraint: constraint.clone(), key, rows, domains, itself }
        });
        let mut counted: Vec<Counted> = counted.collect();
        count_pods(cx, &sound, |number, node| counted[number].add(node));
        FilterPreparation::ready(State { list: counted, epoch: 0 })
    }

    /// One more pod in the least filled domain can open all others, so the filter reaches
    /// everywhere.
    fn declare(&self, pod: &PodShape) -> Declaration {
        if self.constraints(pod, WhenUnsatisfiable::DoNotSchedule).is_empty() {
            return Declaration::constant();
        }
        Declaration::cluster().grained().ignoring_deleting()
    }
}

impl PreparedFilter for State {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        for counted in &self.list {
            let value = counted.key.and_then(|key| node.label_value(key));
            let Some(value) = value else { return Verdict::Unresolvable };
            let domains = &counted.domains;
            let few = domains.len < counted.constraint.min_domains;
            let least = if few { 0 } else { domains.least() };
            if domains.of(value) + counted.itself - least > counted.constraint.max_skew {
                return Verdict::Unschedulable;
            }
        }
        Verdict::Pass
    }

    fn incremental(&mut self) -> Option<&mut dyn Incremental> {
        Some(self)
    }
}

impl Incremental for State {
    fn classes(&self, _: &Context<'_>) -> Grain {
        Grain::new(self.list.iter().filter_map(|counted| counted.key)).epoch(self.epoch)
    }

    fn concerned_by(&self, cx: &Context<'_>, pod: &PodShape) -> bool {
        self.list.iter().any(|own| own.constraint.counts(pod, cx.pod()))
    }

    fn pod_added(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.change(cx, pod, node, Domains::add);
    }

    fn pod_removed(&mut self, cx: &Context<'_>, pod: &PodShape, node: NodeView<'_>) {
        self.change(cx, pod, node, Domains::subtract);
    }
}

impl State {
    /// Changes the counts of the domains in which a pod on a node counts.
    fn change(
        &mut self,
        cx: &Context<'_>,
        pod: &PodShape,
        node: NodeView<'_>,
        change: impl Fn(&mut Domains, LabelValue),
    ) {
        for counted in &mut self.list {
            if counted.constraint.counts(pod, cx.pod())
                && let Some(value) = counted.domain(node)
            {
                let least = counted.domains.least();
                change(&mut counted.domains, value);
                self.epoch += u64::from(least != counted.domains.least());
            }
        }
    }
}

impl Counted {
    /// The domain that the pods of a node count in.
    fn domain(&self, node: NodeView<'_>) -> Option<LabelValue> {
        if self.rows.contain(node.row()) { node.label_value(self.key?) } else { None }
    }

    fn add(&mut self, node: NodeView<'_>) {
        if let Some(value) = self.domain(node) {
            self.domains.add(value);
        }
    }
}

#[cfg(test)]
mod tests;
