#[path = "it/support/mod.rs"]
mod support;
#[path = "it/lifecycle"]
mod lifecycle {
    mod model;
    mod preemption;
    mod steps;
    mod world;
}
