//! Terms: identifiers, decisions, events, errors and states that the owners share.

pub(in crate::queue) mod booking;
pub(crate) mod decision;
pub(crate) mod error;
pub(in crate::queue) mod gone;
pub(in crate::queue) mod ids;
pub(in crate::queue) mod observe;
pub(in crate::queue) mod shortage;
pub(in crate::queue) mod spares;
pub(in crate::queue) mod status;
pub(in crate::queue) mod wake;

/// Namespace of the placeholder pods that hold reserved capacity.
pub(in crate::queue) const RESERVED_NAMESPACE: &str = "phalanx-reserved";
