//! Autoscaling: the cheapest nodes with which groups start, and nodes that can go.

mod brute;
mod down;
mod first_fit;
mod found;
mod kept;
mod rules;
mod up;
mod world;
