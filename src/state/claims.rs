//! Claims of a cluster: what drivers publish, the claims there are, and which devices are in use.

mod book;
mod published;
mod usage;

pub use book::{ClaimBook, ClaimRecord};
pub(crate) use published::Published;
pub use usage::DeviceUsage;
