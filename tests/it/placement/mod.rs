//! Placement: the planner against the plain loop, brute force and its own promises.

mod brute_force;
mod commit_work;
mod determinism;
mod edges;
mod equality;
mod explain;
mod fast;
mod levels;
mod node_events;
mod objectives;
mod reach;
mod runs;
mod search_memory;
mod search_reference;
mod tight_gangs;
mod worked_examples;
