//! Claims of a cluster: published devices, the claims, and the devices in use.

mod book;
mod published;
mod usage;

pub use book::{ClaimBook, ClaimRecord};
pub(crate) use published::Published;
pub use usage::DeviceUsage;
