#![allow(missing_docs, dead_code)]
#[path = "it/support"]
mod support {
    pub(crate) mod dice;
}
#[path = "it/house/mod.rs"]
mod house;
#[path = "it/preempt/mod.rs"]
mod preempt;
