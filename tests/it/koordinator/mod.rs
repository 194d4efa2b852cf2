//! Koordinator: elastic quotas, its dialect in the scheduler, and services and batch work on one
//! cluster.

mod dialect;
mod mixed;
mod quotas;
