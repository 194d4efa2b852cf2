//! Tenants: the tree of queues against sums made anew, searches against ones without a past.

mod edges;
mod random;
