//! Affinity and anti-affinity between pods.

mod filter;
mod score;
mod terms;
#[cfg(test)]
mod tests;

/// Lets pods only where their affinity and anti-affinity terms, and those of the pods that run,
/// allow, and prefers where they prefer.
///
/// A term means pods by their labels and namespace. If the term names no namespace and has no
/// namespace selector, it is the pod's own; otherwise the named ones and those whose labels the
/// selector matches. A namespace selector that needs no label (`{}`, `NotIn`, `DoesNotExist`) means
/// every namespace in terms of the pod being placed, whatever its labels; for running pods it is
/// judged properly. kube-scheduler does the same. Pods that are being deleted count.
///
/// As a filter, in this order:
/// - every required affinity term finds a pod that *all* of them mean in the node's domain by its
///   key. If no such pod is in any domain, a pod that all of its own terms mean is let on every
///   node that has the keys. The rejection is
///   [`Unresolvable`](crate::framework::Verdict::Unresolvable);
/// - no required anti-affinity term finds a pod that it means in the node's domain;
/// - no pod in a domain of the node has a required anti-affinity term over it that means this pod.
///
/// A malformed selector anywhere in the pod's terms refuses it; a list of terms of a running pod
/// with a malformed selector counts as empty.
///
/// As a score, each domain sums three kinds of weights. The first are of preferred terms of the pod
/// that mean pods there. The second are of preferred terms of pods there that mean this pod. The
/// third is [`hard_weight`](InterPodAffinity::hard_weight) for each required affinity term of pods
/// there that means this pod. Anti-affinity is subtracted. The sum over the node's domains is
/// scaled between the extremes: a raw score of 29 between 0 and 50 becomes 57.
///
/// O(shapes × terms + pods) to prepare, where shapes of namespaces that no term means cost next to
/// nothing. O(terms) a placement, O(terms × log labels) a node. It is skipped if neither the pod
/// nor a running one has a term that matters.
///
/// Source: kube-scheduler, `interpodaffinity/{filtering,scoring}.go`.
#[derive(Debug, Clone, Copy)]
pub struct InterPodAffinity {
    hard_weight: i64,
    ignore_preferred_of_existing: bool,
}

impl Default for InterPodAffinity {
    fn default() -> InterPodAffinity {
        InterPodAffinity { hard_weight: 1, ignore_preferred_of_existing: false }
    }
}

impl InterPodAffinity {
    /// With Kubernetes' defaults.
    pub fn new() -> InterPodAffinity {
        InterPodAffinity::default()
    }

    /// Sets what a required affinity term of a pod that runs is worth to the score
    /// (`hardPodAffinityWeight`): 0 to 100, 1 by default. More counts as 100.
    #[must_use]
    pub fn hard_weight(mut self, weight: u8) -> InterPodAffinity {
        self.hard_weight = i64::from(weight.min(100));
        self
    }

    /// Leaves pods without preferred terms of their own unscored
    /// (`ignorePreferredTermsOfExistingPods`).
    #[must_use]
    pub fn ignore_preferred_terms_of_existing_pods(mut self) -> InterPodAffinity {
        self.ignore_preferred_of_existing = true;
        self
    }
}
