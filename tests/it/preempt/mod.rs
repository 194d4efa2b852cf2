//! Preemption: sets of victims against brute force, and what is promised of them.

mod answers;
mod brute;
mod claims;
mod devices;
mod explained;
mod kept;
mod moves;
mod planted;
mod small_worlds;
mod work;
mod world;
