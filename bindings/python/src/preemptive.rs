//! Policies that order jobs anew at each event.

use phalanx::simulate::{Preemptive, PreemptiveJob, Srsf, Srtf};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::cluster::Cluster;
use crate::failure::{Raised, refused};
use crate::framework::Framework;
use crate::simulation::Job;

/// A job that a policy orders.
#[pyclass(frozen, get_all)]
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// The name of the job.
    name: String,
    /// How many pods it has.
    pods: u32,
    /// Its arrival, in seconds.
    submit: f64,
    /// Its work, in seconds.
    run_time: f64,
    /// The rest of its work, in seconds.
    remaining: f64,
    /// The time, in seconds.
    now: f64,
}

impl Unfinished {
    fn new(unfinished: &phalanx::simulate::Unfinished<'_>) -> Unfinished {
        let job = unfinished.job;
        Unfinished {
            name: job.group.name.clone(),
            pods: job.size,
            submit: job.submit,
            run_time: job.work,
            remaining: unfinished.remaining,
            now: unfinished.now,
        }
    }
}

/// Runs jobs under a policy that may stop any of them at each event.
///
/// `policy` is `"srtf"`, `"srsf"`, or `policy(unfinished)` that returns a sort key, the least first.
/// Returns the first start and the end of each job, in seconds; `None` where there is none.
#[pyfunction]
#[pyo3(signature = (cluster, jobs, policy, *, framework=None, overhead=0.0))]
pub(crate) fn preemptive(
    py: Python<'_>,
    cluster: &Cluster,
    jobs: Vec<Job>,
    policy: Py<PyAny>,
    framework: Option<&Framework>,
    overhead: f64,
) -> PyResult<Vec<(Option<f64>, Option<f64>)>> {
    if !(overhead.is_finite() && overhead >= 0.0) {
        return Err(refused(format_args!("overhead = {overhead} is no span of time")));
    }
    let jobs: Vec<PreemptiveJob> = jobs.into_iter().map(|job| job.preemptive(overhead)).collect();
    let named: Option<String> = policy.extract(py).ok();
    let raised = Raised::default();
    let own = |unfinished: &phalanx::simulate::Unfinished<'_>| {
        raised.ask(f64::INFINITY, |py| {
            policy.call1(py, (Unfinished::new(unfinished),))?.extract::<f64>(py)
        })
    };
    Framework::with(framework, |framework| {
        let simulation = Preemptive::new(&cluster.inner, framework);
        let results = match named.as_deref() {
            Some("srtf") => simulation.run(&jobs, &Srtf, |_, _| ()),
            Some("srsf") => simulation.run(&jobs, &Srsf, |_, _| ()),
            Some(other) => {
                return Err(PyValueError::new_err(format!(
                    "policy {other:?} is neither \"srtf\" nor \"srsf\""
                )));
            }
            None => simulation.run(&jobs, &own, |_, _| ()),
        };
        raised.check()?;
        let results = results.map_err(refused)?;
        Ok(results.starts.into_iter().zip(results.ends).collect())
    })
}
