//! The module `phalanx._phalanx`: the core for Python.
//!
//! Objects hold Rust values; a callback of Python's is called while the interpreter is attached. An
//! exception in a callback ends the call that led to it.

mod cluster;
mod failure;
mod framework;
mod model;
mod outcome;
mod planner;
mod preemptive;
mod running;
mod simulation;

use pyo3::prelude::*;

#[pymodule]
mod _phalanx {
    #[pymodule_export]
    use super::cluster::{Cluster, WhatIf};
    #[pymodule_export]
    use super::failure::PhalanxError;
    #[pymodule_export]
    use super::framework::{Framework, NodeView, PodView};
    #[pymodule_export]
    use super::model::{Group, Pod};
    #[pymodule_export]
    use super::outcome::Outcome;
    #[pymodule_export]
    use super::planner::{Planner, explain, place};
    #[pymodule_export]
    use super::preemptive::{Unfinished, preemptive};
    #[pymodule_export]
    use super::running::Running;
    #[pymodule_export]
    use super::simulation::{Job, Results, Simulation, Waiting};
}
