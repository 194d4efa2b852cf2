//! Plugins: those of the crate, and the laws that any must keep.

mod catalogue;
mod laws;
mod nonsense;
mod profiles;
