#![allow(missing_docs, dead_code)]
#[path = "it/support"]
mod support {
    pub(crate) mod dice;
}
#[path = "it/preempt/mod.rs"]
mod preempt;
