//! Claims of a cluster: published devices, the claims, and the devices in use.

mod book;
mod object;
mod published;
mod usage;

pub use book::{ClaimBook, ClaimRecord};
pub use object::{ClaimKey, ClaimKind, ClaimObject};
pub(crate) use published::{PoolKey, pool_key};
pub use usage::DeviceUsage;
pub(crate) use usage::MoreUsage;
