//! Checks of pods before they enter a cluster, and full names.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use super::error::StateError;
use crate::model::{ModelError, Pod, PodShape, Problem};

/// Whether a pod can be taken by name.
pub(crate) fn check_named(pod: &Pod) -> Result<(), StateError> {
    check_named_after(pod, None)
}

/// [`check_named`], where a shape is known to be sound.
pub(crate) fn check_named_after(
    pod: &Pod,
    sound: Option<&Arc<PodShape>>,
) -> Result<(), StateError> {
    pod.check_after(sound)?;
    if pod.name.is_empty() {
        let object = format!("pod {}", pod.full_name());
        return Err(ModelError::new(object, "name", Problem::Required).into());
    }
    Ok(())
}

/// The node that a pod is bound to, if the pod can be taken.
pub(crate) fn bound_node(pod: &Pod) -> Result<&str, StateError> {
    check_named(pod)?;
    let node = pod.node.as_deref().filter(|node| !node.is_empty());
    node.ok_or_else(|| StateError::NotBound(pod.full_name()))
}

/// `namespace/name`.
pub(crate) fn name_in(namespace: &str, name: &str) -> String {
    let mut full = String::with_capacity(namespace.len() + 1 + name.len());
    full.push_str(namespace);
    full.push('/');
    full.push_str(name);
    full
}
