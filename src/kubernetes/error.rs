//! Errors of manifests.

use alloc::string::String;

use crate::base::clip::{clip, clip_text};
use crate::model::ModelError;

/// Manifests that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A document is malformed: truncated, nested too deep.
    #[error("{}: {}", clip(.source_name), clip_text(.message))]
    Syntax {
        /// The source, as the caller named it.
        source_name: String,
        /// The message of the deserializer.
        message: String,
    },
    /// A document is no text.
    #[error("{}: not UTF-8 at byte {valid_up_to}", clip(.source_name))]
    NotUtf8 {
        /// The source, as the caller named it.
        source_name: String,
        /// How many bytes are UTF-8 before the first that is not.
        valid_up_to: usize,
    },
    /// An object cannot be taken.
    #[error("{}: {error}", clip(.source_name))]
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
            Error::Syntax { .. } | Error::NotUtf8 { .. } => None,
            Error::Object { error, .. } => Some(error),
        }
    }
}
