//! Errors of requests to grow or to shrink a cluster.

use alloc::string::String;

use crate::base::clip::clip;
use crate::model::ModelError;
use crate::place::PlaceError;
use crate::state::StateError;

/// A request that makes no sense. That no nodes help is not among these: it is an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AutoscaleError {
    /// A group or a template is unsound.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A group cannot be asked for.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The cluster cannot take a node, because a sum overflows.
    #[error(transparent)]
    State(#[from] StateError),
    /// Two templates have one name.
    #[error("two templates are named {:?}", clip(.0))]
    DuplicateTemplate(String),
    /// A template is out of range.
    #[error("template {}: {reason}", clip(.name))]
    Template {
        /// The template.
        name: String,
        /// The fault.
        reason: &'static str,
    },
    /// A node that is to be taken away is not there.
    #[error("node {}: is not in the cluster", clip(.0))]
    UnknownNode(String),
}
