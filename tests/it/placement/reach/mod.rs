//! Plugins that look beyond the node: their answers by classes of nodes, and what they cost.

mod classes;
mod plugins;
mod random;
mod work;
