//! Resource claims: in the state, in plans, and in the search for a whole gang.

mod brute;
mod explained;
mod fast;
mod preparing;
mod properties;
mod queue;
mod soundness;
mod state;
mod steps;
mod trees;
mod victims;
