//! Simulation of a scheduler over a trace.

use std::time::Duration;

use phalanx::queue::{Backfill, HeadOfLine, PreemptionSettings, ReservationPolicy, Settings};
use phalanx::simulate::{Checkpointing, Faults, PreemptiveJob, Random, Users};
use phalanx::{Node, ObjectName, Scheduler, Time};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cluster::Cluster;
use crate::failure::{Raised, refused};
use crate::framework::Framework;
use crate::model::{Group, seconds};
use crate::running::Rates;

/// A job of a trace: a gang, its arrival, and how long it runs.
#[pyclass(frozen, from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct Job {
    inner: phalanx::simulate::Job,
}

impl Job {
    /// The job for a policy that may stop it.
    pub(crate) fn preemptive(self, overhead: f64) -> PreemptiveJob {
        let phalanx::simulate::Job { group, submit, run_time, .. } = self.inner;
        PreemptiveJob {
            size: u32::try_from(group.pod_count()).unwrap_or(u32::MAX),
            group,
            submit: submit.since(Time::ZERO).as_secs_f64(),
            work: run_time.as_secs_f64(),
            unit: 1.0,
            overhead,
        }
    }
}

#[pymethods]
impl Job {
    /// `checkpoint` is how long it works between two, and how long one takes to save and to load.
    /// `after` names jobs that are over before it arrives. An elastic job runs with the minimum of its
    /// gang.
    #[new]
    #[pyo3(signature = (group, submit, run_time, *, model=String::new(), user=String::new(), after=Vec::new(), checkpoint=None, elastic=false))]
    #[expect(clippy::too_many_arguments, reason = "arguments of Python have names")]
    fn new(
        group: Group,
        submit: f64,
        run_time: f64,
        model: String,
        user: String,
        after: Vec<String>,
        checkpoint: Option<(f64, f64, f64)>,
        elastic: bool,
    ) -> PyResult<Job> {
        let at = Time::ZERO.after(seconds("submit", submit)?);
        let run_time = seconds("run_time", run_time)?;
        let mut inner = phalanx::simulate::Job::new(group.inner, at, run_time);
        (inner.model, inner.user, inner.elastic) = (model, user, elastic);
        inner.after = after.iter().map(|name| ObjectName::new("default", name)).collect();
        if let Some((every, save, restart)) = checkpoint {
            inner.checkpoint = Some(Checkpointing::new(
                seconds("checkpoint[0]", every)?,
                seconds("checkpoint[1]", save)?,
                seconds("checkpoint[2]", restart)?,
            ));
        }
        Ok(Job { inner })
    }

    /// The name of its group.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.group.name
    }

    fn __repr__(&self) -> String {
        format!("Job({:?})", self.inner.group.name)
    }
}

/// A waiting group, as an order of Python's sees it.
#[pyclass(frozen, get_all)]
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The name of the group.
    name: String,
    /// Its queue.
    queue: String,
    /// Its priority.
    priority: i32,
    /// How many of its pods are pending.
    pending: usize,
    /// When it joined the queue, in seconds.
    since: f64,
    /// How often in a row it found no place.
    attempts: u32,
    /// The estimate of its run time in seconds, if it has one.
    run_time_estimate: Option<f64>,
}

impl Waiting {
    fn new(waiting: &phalanx::queue::Waiting<'_>) -> Waiting {
        let group = waiting.group;
        Waiting {
            name: group.name.clone(),
            queue: group.queue.clone(),
            priority: group.priority,
            pending: waiting.pending,
            since: waiting.since.since(Time::ZERO).as_secs_f64(),
            attempts: waiting.attempts,
            run_time_estimate: group.run_time_estimate.map(|span| span.as_secs_f64()),
        }
    }
}

/// The settings of a discipline.
fn settings(discipline: &str, preemption: bool) -> PyResult<Settings> {
    let settings = Settings::new();
    let settings = match discipline {
        "none" => settings,
        "fifo" => settings.head_of_line(HeadOfLine::StrictFifo),
        "easy" => settings.backfill(Backfill::easy()),
        "easy_shortest" => settings.backfill(Backfill::easy_shortest_first()),
        "conservative" => settings.backfill(Backfill::conservative()),
        "reservations" => settings.reservation(
            ReservationPolicy::new().after(Duration::from_secs(600)).timeout(Duration::MAX),
        ),
        _ => {
            return Err(PyValueError::new_err(format!(
                "discipline {discipline:?} is none of \"none\", \"fifo\", \"easy\", \
                 \"easy_shortest\", \"conservative\", \"reservations\""
            )));
        }
    };
    Ok(if preemption { settings.preemption(PreemptionSettings::new()) } else { settings })
}

/// A simulation: virtual time over a scheduler. The cluster that is given stays as it is.
#[pyclass]
#[derive(Debug)]
pub(crate) struct Simulation {
    cluster: phalanx::Cluster,
    nodes: Vec<Node>,
    framework: Framework,
    settings: Settings,
    resource: String,
    order: Option<Py<PyAny>>,
    kill: bool,
    sample_every: Duration,
    failures: Option<Failures>,
    run_times: Option<Py<PyAny>>,
    users: Option<Users>,
}

/// Failures of nodes: how many, until when, the longest repair, and the seed.
type Failures = (usize, f64, f64, u64);

#[pymethods]
impl Simulation {
    /// `order(waiting)` returns a rank, lower first; after it priority and arrival decide. `failures`
    /// says how many nodes fail, before which second, how long a repair takes at most, and the seed.
    /// `run_times(running)` returns how fast a job is where it is; 1.0 is its run time. `users` says with
    /// how many waiting jobs a user submits no more, and how long one thinks.
    #[new]
    #[pyo3(signature = (cluster, resource, *, discipline="easy", framework=None, order=None, preemption=false, kill_at_estimate=false, sample_every=60.0, failures=None, run_times=None, users=None))]
    #[expect(clippy::too_many_arguments, reason = "arguments of Python have names")]
    fn new(
        cluster: &Cluster,
        resource: String,
        discipline: &str,
        framework: Option<&Framework>,
        order: Option<Py<PyAny>>,
        preemption: bool,
        kill_at_estimate: bool,
        sample_every: f64,
        failures: Option<Failures>,
        run_times: Option<Py<PyAny>>,
        users: Option<(usize, f64)>,
    ) -> PyResult<Simulation> {
        let users = users.map(|(limit, think)| {
            Ok::<_, PyErr>(Users::new(limit).think(seconds("users[1]", think)?))
        });
        Ok(Simulation {
            cluster: cluster.inner.clone(),
            nodes: cluster.inner.nodes().map(|node| node.to_node()).collect(),
            framework: framework.cloned().unwrap_or_default(),
            settings: settings(discipline, preemption)?,
            resource,
            order,
            kill: kill_at_estimate,
            sample_every: seconds("sample_every", sample_every)?,
            failures,
            run_times,
            users: users.transpose()?,
        })
    }

    /// Runs jobs, in order of arrival, until all have ended or none of the rest can ever start.
    fn run(&self, py: Python<'_>, jobs: Vec<Job>) -> PyResult<Results> {
        let raised = Raised::default();
        let framework = self.framework.inner.clone();
        let mut scheduler = Scheduler::new(self.cluster.clone(), framework, self.settings.clone());
        if let Some(order) = &self.order {
            let (order, raised) = (order.clone_ref(py), raised.clone());
            scheduler = scheduler.with_order(move |waiting: &phalanx::queue::Waiting<'_>| {
                raised.ask(0, |py| order.call1(py, (Waiting::new(waiting),))?.extract(py))
            });
        }
        let mut simulation = phalanx::simulate::Simulation::new(scheduler, self.resource.clone())
            .kill_at_estimate(self.kill)
            .sample_every(self.sample_every);
        if let Some(call) = &self.run_times {
            let (call, raised) = (call.clone_ref(py), raised.clone());
            simulation = simulation.run_times(Rates { call, raised });
        }
        if let Some(users) = self.users {
            simulation = simulation.users(users);
        }
        let mut jobs: Vec<phalanx::simulate::Job> = jobs.into_iter().map(|job| job.inner).collect();
        jobs.sort_by_key(|job| job.submit);
        let results = match self.failures {
            None => simulation.run(jobs, |_, _| ()),
            Some((count, until, repair, seed)) => {
                let until = Time::ZERO.after(seconds("failures[1]", until)?);
                let repair = seconds("failures[2]", repair)?;
                let faults = Faults::new(Random::new(seed));
                let world = faults.failures(&self.nodes, count, until, repair);
                simulation.world(world).run(jobs, |_, _| ())
            }
        };
        raised.check()?;
        Framework::with(Some(&self.framework), |_| Ok(()))?;
        Ok(Results { inner: results.map_err(refused)? })
    }
}

/// Results of a simulation.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Results {
    inner: phalanx::simulate::Results,
}

#[pymethods]
impl Results {
    /// The figures by name. Times are in seconds.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = self.inner.summary();
        let row = PyDict::new(py);
        row.set_item("jobs", summary.jobs)?;
        row.set_item("finished", summary.finished)?;
        for (name, value) in [
            ("mean_wait", summary.mean_wait),
            ("p50_wait", summary.p50_wait.as_secs_f64()),
            ("p99_wait", summary.p99_wait.as_secs_f64()),
            ("mean_completion", summary.mean_completion),
            ("mean_bounded_slowdown", summary.mean_bounded_slowdown),
            ("makespan", summary.makespan.since(Time::ZERO).as_secs_f64()),
            ("utilisation", summary.utilisation),
            ("fragmentation", summary.fragmentation),
            ("mean_queue", summary.mean_queue),
            ("jain", summary.jain),
            ("work_lost", summary.work_lost),
        ] {
            row.set_item(name, value)?;
        }
        row.set_item("restarts", summary.restarts)?;
        Ok(row)
    }

    /// Each job as a row: column by column, in the order of arrival. Times are in seconds.
    fn job_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let jobs = &self.inner.jobs;
        let at = |time: Time| time.since(Time::ZERO).as_secs_f64();
        let columns = PyDict::new(py);
        let set = |name: &str, column: PyResult<Bound<'py, PyAny>>| columns.set_item(name, column?);
        let each = jobs.iter();
        set(
            "name",
            each.clone().map(|job| job.name.to_string()).collect::<Vec<_>>().into_bound_py_any(py),
        )?;
        set(
            "queue",
            each.clone().map(|job| job.queue.clone()).collect::<Vec<_>>().into_bound_py_any(py),
        )?;
        set("pods", each.clone().map(|job| job.pods).collect::<Vec<_>>().into_bound_py_any(py))?;
        set(
            "amount",
            each.clone().map(|job| job.amount).collect::<Vec<_>>().into_bound_py_any(py),
        )?;
        set(
            "submit",
            each.clone().map(|job| at(job.submit)).collect::<Vec<_>>().into_bound_py_any(py),
        )?;
        set(
            "start",
            each.clone().map(|job| job.start.map(at)).collect::<Vec<_>>().into_bound_py_any(py),
        )?;
        set(
            "end",
            each.clone().map(|job| job.end.map(at)).collect::<Vec<_>>().into_bound_py_any(py),
        )?;
        let wait = each.clone().map(|job| job.wait().map(|wait| wait.as_secs_f64()));
        set("wait", wait.collect::<Vec<_>>().into_bound_py_any(py))?;
        set(
            "run_time",
            each.clone()
                .map(|job| job.run_time.as_secs_f64())
                .collect::<Vec<_>>()
                .into_bound_py_any(py),
        )?;
        set(
            "restarts",
            each.clone().map(|job| job.restarts).collect::<Vec<_>>().into_bound_py_any(py),
        )?;
        set(
            "lost",
            each.map(|job| job.lost.as_secs_f64()).collect::<Vec<_>>().into_bound_py_any(py),
        )?;
        Ok(columns)
    }

    /// The state over time, column by column; each row holds until the next.
    fn sample_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let each = self.inner.samples.iter();
        let columns = PyDict::new(py);
        let at = |time: Time| time.since(Time::ZERO).as_secs_f64();
        columns.set_item("at", each.clone().map(|one| at(one.at)).collect::<Vec<_>>())?;
        columns.set_item("queue", each.clone().map(|one| one.queue).collect::<Vec<_>>())?;
        for (name, of) in [
            ("used", (|one| one.used) as fn(&phalanx::simulate::Sample) -> i64),
            ("capacity", |one| one.capacity),
            ("free", |one| one.free),
            ("free_on_used", |one| one.free_on_used),
        ] {
            columns.set_item(name, each.clone().map(of).collect::<Vec<_>>())?;
        }
        Ok(columns)
    }

    /// Waits of jobs that started, in seconds, in increasing order.
    fn waits(&self) -> Vec<f64> {
        let waits = self.inner.jobs.iter().filter_map(phalanx::simulate::JobRecord::wait);
        let mut waits: Vec<f64> = waits.map(|wait| wait.as_secs_f64()).collect();
        waits.sort_by(f64::total_cmp);
        waits
    }

    fn __len__(&self) -> usize {
        self.inner.jobs.len()
    }
}
