//! Running jobs, as a function of Python's sees them to say how fast they are.

use phalanx::simulate::{Rate, RunTimes};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::Raised;

/// A running job: where it is, and beside whom.
#[pyclass(frozen, get_all)]
#[derive(Debug)]
pub(crate) struct Running {
    /// The name of the job.
    name: String,
    /// The kind of its program.
    model: String,
    /// The nodes of its members, one by one.
    nodes: Vec<String>,
    /// The labels of those nodes.
    labels: Vec<std::collections::BTreeMap<String, String>>,
    /// Other running jobs on its nodes: name, model, and number of devices that both use.
    neighbours: Vec<(String, String, usize)>,
}

/// Rates from a function of Python's.
pub(crate) struct Rates {
    pub(crate) call: Py<PyAny>,
    pub(crate) raised: Raised,
}

impl RunTimes for Rates {
    fn rate(&self, running: &phalanx::simulate::Running<'_>) -> Rate {
        let name = |job: &phalanx::simulate::Job| job.group.name.clone();
        let labels = running.nodes().map(|node| node.to_node().labels.into_iter().collect());
        let seen = Running {
            name: name(running.job),
            model: running.job.model.clone(),
            nodes: running.sites.iter().map(|site| site.node.clone()).collect(),
            labels: labels.collect(),
            neighbours: running
                .neighbours
                .iter()
                .map(|other| (name(other.job), other.job.model.clone(), other.devices))
                .collect(),
        };
        self.raised.ask(Rate::ONE, |py| {
            let rate: f64 = self.call.call1(py, (seen,))?.extract(py)?;
            Rate::ratio(rate, 1.0)
                .ok_or_else(|| PyValueError::new_err(format!("run_times: {rate} is no rate")))
        })
    }
}
