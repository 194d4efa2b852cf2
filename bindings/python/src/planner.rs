//! Requests, one or many.

use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::cluster::Cluster;
use crate::failure::refused;
use crate::framework::Framework;
use crate::model::Group;
use crate::outcome::Outcome;

/// Places a group whole, or not at all.
#[pyfunction]
#[pyo3(signature = (cluster, group, *, framework=None))]
pub(crate) fn place(
    cluster: &Cluster,
    group: &Group,
    framework: Option<&Framework>,
) -> PyResult<Outcome> {
    Planner::new().place(cluster, group, framework)
}

/// Why a group has its outcome, and the least that would change it, as text.
#[pyfunction]
#[pyo3(signature = (cluster, group, *, framework=None))]
pub(crate) fn explain(
    cluster: &Cluster,
    group: &Group,
    framework: Option<&Framework>,
) -> PyResult<String> {
    Framework::with(framework, |framework| {
        let why = phalanx::explain(&cluster.inner, framework, &group.inner, None);
        Ok(why.map_err(refused)?.to_string())
    })
}

/// A planner, which answers many requests and keeps what it learns of the cluster.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Planner {
    inner: Mutex<phalanx::Planner>,
}

#[pymethods]
impl Planner {
    #[new]
    fn new() -> Planner {
        Planner { inner: Mutex::default() }
    }

    /// Places a group whole, or not at all.
    #[pyo3(signature = (cluster, group, *, framework=None))]
    fn place(
        &self,
        cluster: &Cluster,
        group: &Group,
        framework: Option<&Framework>,
    ) -> PyResult<Outcome> {
        Framework::with(framework, |framework| {
            let mut planner = self.inner.try_lock().map_err(|_| {
                PyRuntimeError::new_err("the planner is at work: a callback asked it again")
            })?;
            let inner = planner.place(&cluster.inner, framework, &group.inner);
            Ok(Outcome { inner: inner.map_err(refused)? })
        })
    }
}
