//! Reasons for which volumes keep a pod off nodes.

use alloc::string::String;

use crate::base::ObjectName;
use crate::base::clip::clip;

/// Why claims of a pod cannot be met: nowhere, or not on one node. It names the claim.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeRefusal {
    /// The claim does not exist.
    #[error("claim {}: does not exist", clip(.claim))]
    NoClaim {
        /// The claim.
        claim: ObjectName,
    },
    /// The volume of the claim is gone for good.
    #[error("claim {}: its volume is lost", clip(.claim))]
    Lost {
        /// The claim.
        claim: ObjectName,
    },
    /// The claim is being deleted.
    #[error("claim {}: is being deleted", clip(.claim))]
    Deleting {
        /// The claim.
        claim: ObjectName,
    },
    /// The claim was not made for the pod.
    #[error("claim {}: was not made for the pod", clip(.claim))]
    NotOwned {
        /// The claim.
        claim: ObjectName,
    },
    /// The claim is to be bound before its pods are placed, and is not yet.
    #[error("claim {}: is to be bound first", clip(.claim))]
    Unbound {
        /// The claim.
        claim: ObjectName,
    },
    /// The class of the claim does not say when its claims are bound.
    #[error("claim {}: class {} has no binding mode", clip(.claim), clip(.class))]
    NoBindingMode {
        /// The claim.
        claim: ObjectName,
        /// The class.
        class: String,
    },
    /// The volume that the claim is bound to does not exist.
    #[error("claim {}: volume {} does not exist", clip(.claim), clip(.volume))]
    NoVolume {
        /// The claim.
        claim: ObjectName,
        /// The volume.
        volume: String,
    },
    /// The node does not reach the volume of the claim.
    #[error("claim {}: volume {} cannot be reached", clip(.claim), clip(.volume))]
    OutOfReach {
        /// The claim.
        claim: ObjectName,
        /// The volume.
        volume: String,
    },
    /// The volume of the claim is provisioned for another node.
    #[error("claim {}: is provisioned for node {}", clip(.claim), clip(.node))]
    SelectedElsewhere {
        /// The claim.
        claim: ObjectName,
        /// The other node.
        node: String,
    },
    /// No free volume of the class suits the claim, and the class makes none.
    #[error("claim {}: no free volume of class {} suits it", clip(.claim), clip(.class))]
    NoneFits {
        /// The claim.
        claim: ObjectName,
        /// The class.
        class: String,
    },
    /// No free volume suits the claim, and the class makes none for the node.
    #[error("claim {}: class {} makes no volumes for the node", clip(.claim), clip(.class))]
    NotAllowed {
        /// The claim.
        claim: ObjectName,
        /// The class.
        class: String,
    },
    /// No free volume suits the claim, and no pool has room for one.
    #[error("claim {}: no pool of class {} has room for {bytes} bytes", clip(.claim), clip(.class))]
    NoCapacity {
        /// The claim.
        claim: ObjectName,
        /// The class.
        class: String,
        /// The size.
        bytes: i64,
    },
}

impl VolumeRefusal {
    /// The claim.
    pub fn claim(&self) -> &ObjectName {
        match self {
            VolumeRefusal::NoClaim { claim }
            | VolumeRefusal::Lost { claim }
            | VolumeRefusal::Deleting { claim }
            | VolumeRefusal::NotOwned { claim }
            | VolumeRefusal::Unbound { claim }
            | VolumeRefusal::NoBindingMode { claim, .. }
            | VolumeRefusal::NoVolume { claim, .. }
            | VolumeRefusal::OutOfReach { claim, .. }
            | VolumeRefusal::SelectedElsewhere { claim, .. }
            | VolumeRefusal::NoneFits { claim, .. }
            | VolumeRefusal::NotAllowed { claim, .. }
            | VolumeRefusal::NoCapacity { claim, .. } => claim,
        }
    }

    /// Whether an object is broken, so that an attempt to place the pod is an error in
    /// kube-scheduler: it is tried again later, whatever changes.
    pub fn is_fault(&self) -> bool {
        matches!(self, VolumeRefusal::NoBindingMode { .. })
    }

    /// Whether other members of a gang that hand over what they hold may help.
    pub(super) fn is_of_rivals(&self) -> bool {
        matches!(
            self,
            VolumeRefusal::OutOfReach { .. }
                | VolumeRefusal::NoneFits { .. }
                | VolumeRefusal::NotAllowed { .. }
                | VolumeRefusal::NoCapacity { .. }
        )
    }
}
