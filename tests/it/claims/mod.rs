//! Resource claims: in the state, in plans, and in the search for a whole gang.

mod brute;
mod properties;
mod state;
