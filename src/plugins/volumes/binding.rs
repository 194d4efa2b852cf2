//! The filter and the score for claims: a node passes if it can meet them, and is scored by the
//! part of its storage that they take.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::super::Utilization;
use super::of_claims;
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, PreparedScore,
    ScorePlugin, ScorePreparation, Verdict,
};
use crate::model::PodShape;
use crate::state::{NodeView, VolumeChoice, VolumeNeeds};

/// Lets a pod on nodes that reach the volumes its claims are bound to, and where its unbound claims
/// can be bound. A claim can be bound to an existing volume, or to one that is made.
///
/// [`VolumeNeeds::choose`] tells the volumes, or why there are none. All rejections are
/// [`Unresolvable`](Verdict::Unresolvable).
///
/// O(claims · volumes that the node reaches) a node.
///
/// Source: kube-scheduler, `volumebinding/volume_binding.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct VolumeBinding;

/// Likes nodes by how much of their storage the claims of a pod take. That is of the volumes that
/// they get, or else of the pools that volumes are made from.
///
/// The classes of a pod's claims weigh the same. It is the score of kube-scheduler's `VolumeBinding`,
/// which has none without its gate `StorageCapacityScoring`.
///
/// Source: kube-scheduler, `volumebinding/scorer.go`.
#[derive(Debug, Clone)]
pub struct StorageCapacityScore {
    curve: Utilization,
}

const NAME: &str = "VolumeBinding";

impl StorageCapacityScore {
    /// Scores by a curve over what is used.
    pub fn new(curve: Utilization) -> StorageCapacityScore {
        StorageCapacityScore { curve }
    }
}

/// The claims of the pod.
struct Claims(VolumeNeeds);

struct Scored {
    needs: VolumeNeeds,
    curve: Utilization,
}

impl FilterPlugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        of_claims(pod).monotone()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        if cx.pod().volumes.is_empty() {
            return FilterPreparation::Skip;
        }
        match VolumeNeeds::of(cx.cluster(), cx.pod()) {
            Err(_) => FilterPreparation::Reject(Verdict::Unresolvable),
            Ok(needs) if needs.is_empty() => FilterPreparation::Skip,
            Ok(needs) => FilterPreparation::ready(Claims(needs)),
        }
    }
}

impl PreparedFilter for Claims {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        Verdict::pass_or_unresolvable(self.0.choose(node).is_ok())
    }
}

impl ScorePlugin for StorageCapacityScore {
    fn name(&self) -> &'static str {
        NAME
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        of_claims(pod)
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        if cx.pod().volumes.is_empty() {
            return ScorePreparation::Skip;
        }
        match VolumeNeeds::of(cx.cluster(), cx.pod()) {
            Ok(needs) if !needs.is_empty() => {
                ScorePreparation::ready(Scored { needs, curve: self.curve.clone() })
            }
            _ => ScorePreparation::Skip,
        }
    }
}

impl PreparedScore for Scored {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        self.needs.choose(node).map_or(0, |choice| score(&choice, &self.curve))
    }
}

fn score(choice: &VolumeChoice, curve: &Utilization) -> i64 {
    // What is asked of each class, and what there is.
    let mut classes: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for (claim, volume) in choice.bound() {
        let (asked, there) = classes.entry(&volume.class).or_default();
        *asked = asked.saturating_add(claim.request.unwrap_or(0));
        *there = there.saturating_add(volume.capacity);
    }
    if classes.is_empty() {
        for provision in choice.provisioned() {
            let Some(pool) = provision.pool else { continue };
            let (asked, there) = classes.entry(&provision.claim.class).or_default();
            *asked = asked.saturating_add(provision.claim.request.unwrap_or(0));
            *there = pool.capacity.unwrap_or(0);
        }
    }
    let used = |(asked, there): (i64, i64)| match there {
        0 => 100,
        _ if asked > there => 100,
        _ => (i128::from(asked) * 100 / i128::from(there)) as i64,
    };
    let count = classes.len() as i64;
    let sum: i64 = classes.into_values().map(|class| curve.at(used(class))).sum();
    // Rounded half up; scores are not negative.
    if count == 0 { 0 } else { (2 * sum + count) / (2 * count) }
}

#[cfg(test)]
mod tests;
