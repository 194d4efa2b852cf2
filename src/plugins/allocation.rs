//! Scores by utilisation: how full a node would be.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::utilization::Utilization;
use crate::framework::math::{all_below, float, floor, vectorized, whole};
use crate::framework::{
    Block, Context, Declaration, MAX_SCORE, PreparedScore, ScorePlugin, ScorePreparation,
};
use crate::model::PodShape;
use crate::model::{CPU, EPHEMERAL_STORAGE, MEMORY};
use crate::state::{Cluster, NodeView, ResourceId};

/// Resources with weights, and whether full or empty nodes are liked, or what else.
///
/// For each resource, of a node with allocatable amount `A` whose pods would take `q` with the new
/// one:
///
/// | made by | score of the resource | together |
/// |---|---|---|
/// | [`LeastAllocated::of`] | `(A − q)·100 ÷ A`, 0 beyond `A` | `Σ w·x ÷ Σ w` |
/// | [`MostAllocated::of`] | `min(q, A)·100 ÷ A` | `Σ w·x ÷ Σ w` |
/// | [`RequestedToCapacityRatio::of`] | the curve at `q·100 ÷ A`, at 100 beyond `A` | the same, rounded, over resources with a score above 0 |
///
/// Divisions are of integers and truncate. CPU and memory are counted with Kubernetes' defaults
/// for containers that ask for none. A resource that the node lacks is left out, and so is one
/// that the pod does not request, unless it is CPU, memory or ephemeral storage. With nothing left
/// the score is 0.
///
/// O(resources) a node.
///
/// Source: kube-scheduler, `noderesources/{resource_allocation,least_allocated,most_allocated,requested_to_capacity_ratio}.go`.
#[derive(Debug, Clone)]
pub struct AllocationScore {
    name: &'static str,
    liking: Liking,
    resources: Vec<(String, i64)>,
}

/// The shape of usage that is liked.
#[derive(Debug, Clone)]
enum Liking {
    Empty,
    Full,
    Curve(Utilization),
}

/// A score that likes full nodes, so that others stay free.
#[derive(Debug)]
pub struct MostAllocated;

/// A score that likes empty nodes.
#[derive(Debug)]
pub struct LeastAllocated;

/// A score that likes nodes by a curve of how full they would be.
#[derive(Debug)]
pub struct RequestedToCapacityRatio;

impl MostAllocated {
    /// Over these resources, with these weights.
    pub fn of<S: Into<String>>(resources: impl IntoIterator<Item = (S, u32)>) -> AllocationScore {
        AllocationScore::new("MostAllocated", Liking::Full, resources)
    }
}

impl LeastAllocated {
    /// Over these resources, with these weights.
    pub fn of<S: Into<String>>(resources: impl IntoIterator<Item = (S, u32)>) -> AllocationScore {
        AllocationScore::new("LeastAllocated", Liking::Empty, resources)
    }
}

impl RequestedToCapacityRatio {
    /// Over these resources, with these weights, by this curve.
    pub fn of<S: Into<String>>(
        curve: Utilization,
        resources: impl IntoIterator<Item = (S, u32)>,
    ) -> AllocationScore {
        AllocationScore::new("RequestedToCapacityRatio", Liking::Curve(curve), resources)
    }
}

impl AllocationScore {
    fn new<S: Into<String>>(
        name: &'static str,
        liking: Liking,
        resources: impl IntoIterator<Item = (S, u32)>,
    ) -> AllocationScore {
        let resources =
            resources.into_iter().map(|(name, weight)| (name.into(), i64::from(weight))).collect();
        AllocationScore { name, liking, resources }
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> AllocationScore {
        self.name = name;
        self
    }

    /// The resources and their weights.
    pub(super) fn resources(&self) -> &[(String, i64)] {
        &self.resources
    }
}

impl Liking {
    /// The score of one resource. `taken` may be beyond `allocatable`, which is above 0.
    #[inline]
    fn part(&self, taken: i64, allocatable: i64) -> i64 {
        match self {
            Liking::Empty if taken > allocatable => 0,
            Liking::Empty => percent(allocatable - taken, allocatable),
            Liking::Full => percent(taken.min(allocatable), allocatable),
            Liking::Curve(curve) if taken > allocatable => curve.at(MAX_SCORE),
            Liking::Curve(curve) => curve.at(percent(taken, allocatable)),
        }
    }

    /// Adds the score of one resource to the sums of scores and of weights.
    #[inline]
    fn add(&self, weight: i64, score: i64, sums: &mut i64, weights: &mut i64) {
        if score > 0 || !matches!(self, Liking::Curve(_)) {
            *sums += weight * score;
            *weights += weight;
        }
    }

    #[inline]
    fn combine(&self, sum: i64, weights: i64) -> i64 {
        match self {
            _ if weights == 0 => 0,
            // Halves round up; all is positive.
            Liking::Curve(_) => (2 * sum + weights) / (2 * weights),
            _ => sum / weights,
        }
    }
}

/// Resources with weights, and what is liked of them, for one pod shape.
struct Weighed {
    liking: Liking,
    parts: Vec<Part>,
}

impl Weighed {
    /// A block, row by row.
    fn score_whole(&self, block: &Block<'_>, out: &mut [i64]) {
        let mut weights = [0; Block::MOST];
        out.fill(0);
        for part in &self.parts {
            let columns = block.allocatable(part.resource).iter().zip(part.used(block));
            for ((sum, weights), (&allocatable, used)) in
                out.iter_mut().zip(&mut weights).zip(columns)
            {
                if allocatable > 0 {
                    let score = self.liking.part(used.saturating_add(part.request), allocatable);
                    self.liking.add(part.weight, score, sum, weights);
                }
            }
        }
        for (out, weights) in out.iter_mut().zip(weights) {
            *out = self.liking.combine(*out, weights);
        }
    }

    /// A block whose parts are all small, in floats that are exact for them. Until the end `out` holds
    /// the bits of floats.
    #[inline(always)]
    fn score_side_by_side(&self, block: &Block<'_>, out: &mut [i64]) {
        let parts = &self.parts;
        // The bits of 0.0.
        out.fill(0);
        // An iterator's own loop would not be compiled for the machine's vectors.
        let mut all_there = true;
        for part in parts {
            all_there &= are_all_there(block.allocatable(part.resource));
        }
        if all_there {
            for part in parts {
                self.add_part(part, block, out, |allocatable| allocatable);
            }
            let weights = parts.iter().map(|part| part.weight as f64).sum::<f64>();
            if weights == 2.0 {
                // To halve is the same, and faster.
                for sum in out {
                    *sum = whole(floor(held(*sum) * 0.5));
                }
            } else {
                let weights = if weights > 0.0 { weights } else { 1.0 };
                for sum in out {
                    *sum = whole(floor(held(*sum) / weights));
                }
            }
            return;
        }
        let mut weights = [0.0; Block::MOST];
        for part in parts {
            self.add_part(part, block, out, |allocatable| allocatable.max(1.0));
            let weight = part.weight as f64;
            for (weights, &allocatable) in weights.iter_mut().zip(block.allocatable(part.resource))
            {
                *weights += if float(allocatable) > 0.0 { weight } else { 0.0 };
            }
        }
        for (out, weights) in out.iter_mut().zip(&weights) {
            *out = whole(floor(held(*out) / if *weights > 0.0 { *weights } else { 1.0 }));
        }
    }

    /// Adds the scores of a resource. `divisor` makes nothing something.
    #[inline(always)]
    fn add_part(
        &self,
        part: &Part,
        block: &Block<'_>,
        sums: &mut [i64],
        divisor: impl Fn(f64) -> f64,
    ) {
        let (weight, request) = (part.weight as f64, part.request);
        let columns = block.allocatable(part.resource).iter().zip(part.used(block));
        let rows = sums.iter_mut().zip(columns);
        let score = |allocatable: &i64, used: &i64, empty: bool| {
            let (allocatable, taken) = (float(*allocatable), float(used + request));
            let held = if taken < allocatable { taken } else { allocatable };
            let liked = if empty { allocatable - held } else { held };
            floor(liked * 100.0 / divisor(allocatable))
        };
        let add = |sum: &mut i64, score: f64| *sum = (held(*sum) + score).to_bits() as i64;
        match (&self.liking, part.weight) {
            (Liking::Empty, 1) => {
                rows.for_each(|(sum, (allocatable, used))| {
                    add(sum, score(allocatable, used, true));
                });
            }
            (liking, _) => {
                let empty = matches!(liking, Liking::Empty);
                rows.for_each(|(sum, (allocatable, used))| {
                    add(sum, weight * score(allocatable, used, empty));
                });
            }
        }
    }
}

/// The float that a number holds the bits of.
#[inline]
fn held(bits: i64) -> f64 {
    f64::from_bits(bits as u64)
}

/// Whether no amount is 0; none may be below 0.
#[inline(always)]
pub(super) fn are_all_there(amounts: &[i64]) -> bool {
    amounts.iter().fold(0, |signs, amount| signs | (amount - 1)) >= 0
}

/// A resource to look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) resource: ResourceId,
    pub(super) weight: i64,
    pub(super) request: i64,
    /// CPU (0) and memory (1) are counted with defaults.
    pub(super) scored: Option<usize>,
}

/// Amounts below this, times 100, are exact in floats.
const SMALL_BITS: u32 = 45;

impl Part {
    /// Amounts that count as used on the nodes of a block.
    fn used<'a>(&self, block: &Block<'a>) -> &'a [i64] {
        match self.scored {
            Some(0) => block.scored_cpu(),
            Some(_) => block.scored_memory(),
            None => block.used(self.resource),
        }
    }

    /// Whether all amounts in a block are small, and none is below zero.
    fn is_small(&self, block: &Block<'_>) -> bool {
        let are_small = block.is_small()
            || all_below(SMALL_BITS, block.allocatable(self.resource))
                && all_below(SMALL_BITS, self.used(block));
        are_small && all_below(SMALL_BITS, &[self.request]) && all_below(32, &[self.weight])
    }
}

/// The resources to look at for pods that request `request(name)` of each.
pub(super) fn parts<'a>(
    cluster: &Cluster,
    resources: impl IntoIterator<Item = (&'a str, i64)>,
    request: impl Fn(&str) -> i64,
) -> impl Iterator<Item = Part> {
    let part = move |(name, weight): (&str, i64)| {
        let request = request(name);
        let scored = [CPU, MEMORY].iter().position(|native| *native == name);
        let counts = request > 0 || scored.is_some() || name == EPHEMERAL_STORAGE;
        let resource = cluster.resource(name)?;
        counts.then_some(Part { resource, weight, request, scored })
    };
    resources.into_iter().filter_map(part)
}

/// `part·100 ÷ whole`, exactly.
#[inline]
pub(super) fn percent(part: i64, whole: i64) -> i64 {
    const SMALL: i64 = i64::MAX / MAX_SCORE;
    if part.unsigned_abs() <= SMALL as u64 {
        part * MAX_SCORE / whole
    } else {
        (i128::from(part) * i128::from(MAX_SCORE) / i128::from(whole)) as i64
    }
}

impl ScorePlugin for AllocationScore {
    fn name(&self) -> &'static str {
        self.name
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let resources = self.resources.iter().map(|(name, weight)| (name.as_str(), *weight));
        let request = |name: &str| cx.pod().incoming_requests.of(name);
        let parts: Vec<Part> = parts(cx.cluster(), resources, request).collect();
        if parts.is_empty() {
            return ScorePreparation::Constant(0);
        }
        ScorePreparation::ready(Weighed { liking: self.liking.clone(), parts })
    }
}

impl PreparedScore for Weighed {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for part in &self.parts {
            let allocatable = node.allocatable(part.resource);
            if allocatable <= 0 {
                continue;
            }
            let used =
                part.scored.map_or_else(|| node.used(part.resource), |at| node.scored_used()[at]);
            let score = self.liking.part(used.saturating_add(part.request), allocatable);
            self.liking.add(part.weight, score, &mut sum, &mut weights);
        }
        self.liking.combine(sum, weights)
    }

    fn score_block(&self, _: &Context<'_>, block: &Block<'_>, out: &mut [i64]) {
        let curved = matches!(self.liking, Liking::Curve(_));
        if curved || !self.parts.iter().all(|part| part.is_small(block)) {
            self.score_whole(block, out);
        } else {
            vectorized(
                #[inline(always)]
                || self.score_side_by_side(block, out),
            );
        }
    }
}

#[cfg(test)]
mod tests;
