//! Tenants: the tree of queues against sums made anew, searches against ones without a
//! past, the promises of the default dialect, and tenants in the scheduler.

mod dialect;
mod edges;
mod peers;
mod random;
mod scheduler;
mod volcano_session;
mod yunikorn_attempt;
