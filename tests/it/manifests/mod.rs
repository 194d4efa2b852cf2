//! Manifests: what the dialects say, and what is refused.

mod dialects;
mod reading;
mod refused;
