//! Tenants: the tree of queues against sums made anew, searches against ones without a
//! past, the promises of the default dialect, and tenants in the scheduler.

mod dialect;
mod edges;
mod found;
mod growth;
mod kai;
mod limits;
mod non_preemptible;
mod past;
mod peers;
mod random;
mod reclaim;
mod renewal;
pub(crate) mod scheduler;
mod searches;
mod stream;
