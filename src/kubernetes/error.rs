//! Errors of manifests.

use alloc::string::String;

use crate::model::ModelError;

/// Manifests that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A document is malformed: truncated, not UTF-8, nested too deep.
    #[error("{source_name}: {message}")]
    Syntax {
        /// The source, as the caller named it.
        source_name: String,
        /// What the deserializer says.
        message: String,
    },
    /// An object cannot be taken.
    #[error("{source_name}: {error}")]
    Object {
        /// The source, as the caller named it.
        source_name: String,
        /// The object, the field, and what is wrong with it.
        error: ModelError,
    },
}

impl Error {
    /// The object, the field and the problem, if the document itself was sound.
    pub fn model(&self) -> Option<&ModelError> {
        match self {
            Error::Syntax { .. } => None,
            Error::Object { error, .. } => Some(error),
        }
    }
}
