//! Domain scores: by allocation, and by number of pods.

use alloc::string::String;
use alloc::vec::Vec;

use super::allocation::{AllocationScore, Part, parts, percent};
use crate::framework::{DomainContext, DomainScore, MAX_SCORE, Normalization};

/// Likes domains that the group would fill, so that others stay whole.
///
/// For each resource it is `min(U + r, A)·100 ÷ A`. `A` and `U` are the sums of allocatable and
/// used amounts over the nodes of the domain that have the resource; `r` is what the proposed pods
/// request together. The score is the weighted mean, truncated. CPU and memory are counted with
/// Kubernetes' defaults for containers that ask for none; another resource that the pods do not
/// request is left out.
///
/// O(resources · pods), and O(nodes of the domain) where the planner keeps no sums.
///
/// Source: kube-scheduler 1.36, `noderesources/fit.go`, `ScorePlacement`: whatever the strategy
/// for nodes is, domains are scored as most allocated is.
#[derive(Debug, Clone)]
pub struct DomainAllocation {
    resources: Vec<(String, i64)>,
    likes_full: bool,
}

impl DomainAllocation {
    /// Over these resources, with these weights.
    pub fn of<S: Into<String>>(resources: impl IntoIterator<Item = (S, u32)>) -> DomainAllocation {
        let resources = resources.into_iter().map(|(name, weight)| (name.into(), weight.into()));
        DomainAllocation { resources: resources.collect(), likes_full: true }
    }

    /// Over the resources of a node-level score, with its weights.
    pub fn like(score: &AllocationScore) -> DomainAllocation {
        DomainAllocation { resources: score.resources().to_vec(), likes_full: true }
    }

    /// The reverse: likes domains that stay empty.
    #[must_use]
    pub fn reversed(mut self) -> DomainAllocation {
        self.likes_full = !self.likes_full;
        self
    }
}

impl DomainScore for DomainAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn score(&self, cx: &DomainContext<'_>) -> i64 {
        let request = |name: &str| cx.proposed_sum(|shape| shape.incoming_requests.of(name));
        let resources = self.resources.iter().map(|(name, weight)| (name.as_str(), *weight));
        let (mut sum, mut weights) = (0, 0);
        for part in parts(cx.cluster, resources, request) {
            let (allocatable, taken) = total(cx, &part);
            if allocatable > 0 {
                sum += part.weight * percent(taken.min(allocatable), allocatable);
                weights += part.weight;
            }
        }
        match (weights, self.likes_full) {
            (0, _) => 0,
            (_, true) => sum / weights,
            (_, false) => MAX_SCORE - sum / weights,
        }
    }

    fn reads_places(&self) -> bool {
        false
    }

    fn reads_beyond(&self) -> bool {
        false
    }
}

/// Amount of a resource on the nodes of a domain, and the amount that their pods would take.
fn total(cx: &DomainContext<'_>, part: &Part) -> (i64, i64) {
    let (allocatable, used) = cx.taken(part.resource, part.scored);
    (allocatable, part.request.saturating_add(used))
}

/// Likes domains in which many members of the group would run.
///
/// Members that run already and those proposed, in proportion to the most.
///
/// Source: kube-scheduler 1.36, `podgrouppodscount`.
#[derive(Debug, Clone, Copy, Default)]
pub struct PodGroupPodsCount;

impl DomainScore for PodGroupPodsCount {
    fn name(&self) -> &'static str {
        "PodGroupPodsCount"
    }

    fn score(&self, cx: &DomainContext<'_>) -> i64 {
        (cx.running + cx.shapes().map(|(_, pods)| pods).sum::<usize>()) as i64
    }

    fn reads_places(&self) -> bool {
        false
    }

    fn reads_beyond(&self) -> bool {
        false
    }

    fn normalization(&self) -> Normalization {
        Normalization::Max
    }
}

#[cfg(test)]
mod tests;
