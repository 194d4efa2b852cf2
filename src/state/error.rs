//! Errors of cluster updates. All leave the state unchanged.

use alloc::string::String;

use crate::base::ObjectName;
use crate::base::clip::clip;
use crate::model::ModelError;

/// A change a cluster refuses. The state is as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The object itself is unsound.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// There is a node of that name.
    #[error("node {}: already exists", clip(.0))]
    NodeExists(String),
    /// There is no node of that name.
    #[error("node {}: does not exist", clip(.0))]
    UnknownNode(String),
    /// There is a pod of that namespace and name.
    #[error("pod {}: already exists", clip(.0))]
    PodExists(ObjectName),
    /// There is no pod of that namespace and name.
    #[error("pod {}: does not exist", clip(.0))]
    UnknownPod(ObjectName),
    /// The pod is not bound to a node.
    #[error("pod {}: is not bound to a node", clip(.0))]
    NotBound(ObjectName),
    /// The sum of a resource over a node, or its capacity, does not fit 64 bits.
    #[error("node {}: the sum of {} does not fit 64 bits", clip(.node), clip(.resource))]
    Overflow {
        /// The node.
        node: String,
        /// The resource.
        resource: String,
    },
    /// A device index of a bound pod does not name a device of its node, or the device cannot
    /// hold it.
    #[error("pod {}: {}", clip(.pod), clip(.problem))]
    Devices {
        /// The pod.
        pod: ObjectName,
        /// The fault.
        problem: String,
    },
    /// A label key is declared as a level twice.
    #[error("level {}: is declared twice", clip(.0))]
    DuplicateLevel(String),
    /// A node id, pod id or checkpoint belongs to another cluster, or to something that is gone.
    #[error("the id is not of this cluster, or what it stood for is gone")]
    StaleId,
}
