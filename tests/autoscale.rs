#[path = "autoscale/brute.rs"]
mod brute;
#[path = "autoscale/world.rs"]
mod world;
#[path = "autoscale/up.rs"]
mod up;
#[path = "autoscale/down.rs"]
mod down;
