//! Manifests: what the dialects say, and what is refused.

mod broken;
mod defaults;
mod dialects;
mod kai;
mod queues;
mod reading;
mod refusals;
mod refused_groups;
mod refused_pods;
