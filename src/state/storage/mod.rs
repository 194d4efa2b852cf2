//! Storage: claims, volumes, classes and pools of a cluster, and bindings of plans.

#[cfg(feature = "serde")]
mod codec;
pub(in crate::state) mod delayed;
pub(in crate::state) mod object;
pub(in crate::state) mod planned;
pub(in crate::state) mod tables;

pub use object::{StorageKey, StorageKind, StorageObject};
pub use tables::Storage;
