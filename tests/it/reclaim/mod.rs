//! One search for victims over quota and room, against the definition of who may yield.

mod brute;
mod cliques;
mod peers;
mod rules;
mod scheduler;
mod turns;
