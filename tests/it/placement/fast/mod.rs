//! The ways that the fast planner takes where it pays off, held to the plain loop.

mod domains;
mod kept_domains;
mod long_runs;
mod random;
mod sums;
