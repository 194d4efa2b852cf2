//! Support that the end-to-end tests and the comparison share: a control plane, a client of its
//! API, a record of its pods, rules that hold whatever happens, and the scheduler as a child process.
//! Nothing here is part of the scheduler.

pub mod api;
pub mod control_plane;
pub mod follow;
pub mod inspector;
pub mod ledger;
pub mod objects;
pub mod program;
pub mod random;
