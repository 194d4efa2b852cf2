//! A score for resources used up evenly.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::allocation::{Part, are_all_there, parts};
use crate::framework::math::{all_below, float, floor, vectorized, whole};
use crate::framework::{
    Block, Context, Declaration, MAX_SCORE, PreparedScore, ScorePlugin, ScorePreparation,
};
use crate::model::PodShape;
use crate::model::{CPU, MEMORY};
use crate::state::NodeView;

/// Prefers nodes whose resources the pod would bring closer to even use.
///
/// With `σ` the standard deviation of the used fractions of the resources, a state is worth
/// `trunc((1 − σ)·100)`. The score is `50 + (50 + with − without) ÷ 2`, from 50 to 100, and 75 if
/// the pod changes nothing. Fractions are held at 1. A resource that the node lacks is left out,
/// and so is one other than CPU, memory and ephemeral storage that the pod does not request.
///
/// O(resources) a node; skipped for pods that request none of the resources.
///
/// Source: kube-scheduler, `noderesources/balanced_allocation.go`.
#[derive(Debug, Clone)]
pub struct BalancedAllocation {
    resources: Vec<String>,
}

impl BalancedAllocation {
    /// Over these resources, in this order.
    pub fn of<S: Into<String>>(resources: impl IntoIterator<Item = S>) -> BalancedAllocation {
        BalancedAllocation { resources: resources.into_iter().map(Into::into).collect() }
    }
}

impl Default for BalancedAllocation {
    /// Over CPU and memory.
    fn default() -> BalancedAllocation {
        BalancedAllocation { resources: [CPU, MEMORY].map(String::from).into() }
    }
}

impl ScorePlugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let request = |name: &str| cx.pod().requests.of(name);
        if self.resources.iter().all(|name| request(name) == 0) {
            return ScorePreparation::Skip;
        }
        let resources = self.resources.iter().map(|name| (name.as_str(), 1));
        ScorePreparation::ready(Parts(parts(cx.cluster(), resources, request).collect()))
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

/// The resources to look at, with what the pod requests of them.
struct Parts(Vec<Part>);

impl PreparedScore for Parts {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let with = evenness(&self.0, node, |part| part.request);
        let without = evenness(&self.0, node, |_| 0);
        50 + (50 + with - without) / 2
    }

    fn score_block(&self, cx: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
        match self.0.as_slice() {
            [first, second] if is_exact(first, block) && is_exact(second, block) => {
                vectorized(
                    #[inline(always)]
                    || score_pair(first, second, block, out),
                );
            }
            _ => block.each(out, |node| self.score(cx, node)),
        }
    }
}

/// Whether floats hold all amounts of a block.
fn is_exact(part: &Part, block: &Block<'_>) -> bool {
    const BITS: u32 = 51;
    let are_small = block.is_small()
        || all_below(BITS, block.allocatable(part.resource))
            && all_below(BITS, block.used(part.resource));
    are_small && all_below(BITS, &[part.request])
}

/// A block over two resources, step by step as [`evenness`] does it for one node.
#[inline(always)]
fn score_pair(first: &Part, second: &Part, block: &Block<'_>, out: &mut [i64]) {
    let one = (block.allocatable(first.resource), block.used(first.resource));
    let other = (block.allocatable(second.resource), block.used(second.resource));
    let columns = one.0.iter().zip(one.1).zip(other.0.iter().zip(other.1));
    for (out, ((&a, &used_a), (&b, &used_b))) in out.iter_mut().zip(columns) {
        let (a, b) = (float(a), float(b));
        let evenness = |taken_a: i64, taken_b: i64| {
            let held = |fraction: f64| if fraction < 1.0 { fraction } else { 1.0 };
            let apart = held(float(taken_a) / a) - held(float(taken_b) / b);
            floor((1.0 - (apart / 2.0).abs()) * MAX_SCORE as f64)
        };
        let with = evenness(used_a + first.request, used_b + second.request);
        let without = evenness(used_a, used_b);
        *out = 50 + whole(floor((50.0 + with - without) * 0.5));
    }
    if !are_all_there(one.0) || !are_all_there(other.0) {
        // With one resource or none there is nothing to compare.
        for (out, (a, b)) in out.iter_mut().zip(one.0.iter().zip(other.0)) {
            if *a == 0 || *b == 0 {
                *out = 75;
            }
        }
    }
}

/// Score of a node's state if its pods took so much more.
fn evenness(parts: &[Part], node: NodeView<'_>, more: impl Fn(&Part) -> i64) -> i64 {
    if let [first, second] = parts {
        let fraction = |part: &Part, allocatable: i64| {
            let taken = node.used(part.resource).saturating_add(more(part));
            (taken as f64 / allocatable as f64).min(1.0)
        };
        let (a, b) = (node.allocatable(first.resource), node.allocatable(second.resource));
        if a > 0 && b > 0 {
            let apart = fraction(first, a) - fraction(second, b);
            return worth((apart / 2.0).abs());
        }
        return MAX_SCORE;
    }
    let fraction = |part: &Part| {
        let allocatable = node.allocatable(part.resource);
        let taken = node.used(part.resource).saturating_add(more(part));
        (allocatable > 0).then(|| (taken as f64 / allocatable as f64).min(1.0))
    };
    let fractions = || parts.iter().filter_map(fraction);
    let deviation = match fractions().count() {
        0 | 1 => 0.0,
        2 => {
            let mut both = fractions();
            let (first, second) = (both.next().unwrap_or(0.0), both.next().unwrap_or(0.0));
            ((first - second) / 2.0).abs()
        }
        count => {
            let count = count as f64;
            let mean = fractions().fold(0.0, |sum, fraction| sum + fraction) / count;
            let square = |fraction: f64| (fraction - mean) * (fraction - mean);
            libm::sqrt(fractions().fold(0.0, |sum, fraction| sum + square(fraction)) / count)
        }
    };
    worth(deviation)
}

#[inline]
fn worth(deviation: f64) -> i64 {
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

#[cfg(test)]
mod tests;
