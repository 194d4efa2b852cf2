//! The filter for volumes that pods cannot share.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::of_claims;
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::{InlineDisk, PodShape, PodVolume};
use crate::state::NodeView;

/// Keeps a pod off nodes where another writes to a disk that it names, and off all nodes where
/// another has a claim of one pod at a time (`ReadWriteOncePod`).
///
/// A claim that does not exist is refused outright. Claims of one node at a time (`ReadWriteOnce`) are
/// not judged: the node affinity of their volumes does that. Of members of a gang, those placed
/// before count; kube-scheduler forgets them.
///
/// O(volumes of the node's pods) a node for disks; O(shapes) for claims of one pod.
///
/// Source: kube-scheduler, `volumerestrictions/volume_restrictions.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct VolumeRestrictions;

/// The filter for a pod with disks, or with claims that are taken.
struct Restricted {
    taken: bool,
    disks: Vec<InlineDisk>,
}

fn disks(pod: &PodShape) -> impl Iterator<Item = &InlineDisk> {
    pod.volumes.iter().filter_map(|volume| match volume {
        PodVolume::Disk(disk) => Some(disk),
        _ => None,
    })
}

impl FilterPlugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        let claims = of_claims(pod);
        if claims.is_pod_independent() && disks(pod).next().is_some() {
            return Declaration::node().monotone();
        }
        claims.monotone()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        let pod = cx.pod();
        if pod.volumes.is_empty() {
            return FilterPreparation::Skip;
        }
        let mut taken = false;
        for volume in &pod.volumes {
            let PodVolume::Claim(name) = volume else { continue };
            let Some(claim) = cx.cluster().storage().claim(&pod.namespace, name) else {
                return FilterPreparation::Reject(Verdict::Unresolvable);
            };
            taken |= claim.is_of_one_pod() && cx.cluster().has_user_of(&pod.namespace, name);
        }
        let disks: Vec<InlineDisk> = disks(pod).cloned().collect();
        if disks.is_empty() && !taken {
            return FilterPreparation::Skip;
        }
        FilterPreparation::ready(Restricted { taken, disks })
    }
}

impl PreparedFilter for Restricted {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let mut there = node.pods().flat_map(|pod| disks(pod.shape()));
        let conflicts = |disk: &InlineDisk| self.disks.iter().any(|own| own.conflicts(disk));
        Verdict::pass_if(!self.taken && (self.disks.is_empty() || !there.any(conflicts)))
    }
}

#[cfg(test)]
mod tests;
