//! Errors of cluster updates. All leave the state unchanged.

use alloc::string::String;

use crate::model::ModelError;

/// A change a cluster refuses. The state is as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The object itself is unsound.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// There is a node of that name.
    #[error("node {0}: already exists")]
    NodeExists(String),
    /// There is no node of that name.
    #[error("node {0}: does not exist")]
    UnknownNode(String),
    /// There is a pod of that namespace and name.
    #[error("pod {0}: already exists")]
    PodExists(String),
    /// There is no pod of that namespace and name.
    #[error("pod {0}: does not exist")]
    UnknownPod(String),
    /// The pod is not bound to a node.
    #[error("pod {0}: is not bound to a node")]
    NotBound(String),
    /// What the pods of a node take of a resource, or what it has, does not fit 64 bits.
    #[error("node {node}: the sum of {resource} does not fit 64 bits")]
    Overflow {
        /// The node.
        node: String,
        /// The resource.
        resource: String,
    },
    /// A device index of a bound pod does not name a device of its node, or the device cannot
    /// hold it.
    #[error("pod {pod}: {problem}")]
    Devices {
        /// The pod.
        pod: String,
        /// What is wrong.
        problem: String,
    },
    /// A label key is declared as a level twice.
    #[error("level {0}: is declared twice")]
    DuplicateLevel(String),
    /// A node id, pod id or checkpoint belongs to another cluster, or to something that is gone.
    #[error("the id is not of this cluster, or what it stood for is gone")]
    StaleId,
}
