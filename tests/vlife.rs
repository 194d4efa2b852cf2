#[path = "it/support/mod.rs"]
mod support;
#[path = "it/lifecycle"]
mod lifecycle {
    mod preemption;
    mod steps;
}
