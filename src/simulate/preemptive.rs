//! Preemptive policies: all unfinished jobs are placed anew at every event, in the policy's order.

use alloc::vec::Vec;

use crate::framework::Framework;
use crate::model::PodGroup;
use crate::place::{Outcome, PlaceError, Planner};
use crate::state::{Cluster, StateError};

/// Times this close, relatively, are one event.
const SAME: f64 = 1e-9;

/// A job that a policy orders.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Unfinished<'a> {
    /// The job.
    pub job: &'a PreemptiveJob,
    /// The rest of its work, in seconds.
    pub remaining: f64,
    /// The time, in seconds.
    pub now: f64,
}

/// A policy that orders what waits, and what runs with it.
///
/// Any `Fn(&Unfinished) -> f64` is a policy.
///
/// ```
/// use phalanx::simulate::{OrderPolicy, Unfinished};
///
/// /// Least attained service: the job that has run least goes first.
/// let las = |unfinished: &Unfinished| {
///     let job = unfinished.job;
///     (job.work * job.unit - unfinished.remaining) * f64::from(job.size)
/// };
/// fn takes(_: &impl OrderPolicy) {}
/// takes(&las);
/// ```
pub trait OrderPolicy {
    /// The sort key of the job, the least first; ties keep the order of arrival.
    fn key(&self, unfinished: &Unfinished<'_>) -> f64;
}

impl<F: Fn(&Unfinished<'_>) -> f64> OrderPolicy for F {
    fn key(&self, unfinished: &Unfinished<'_>) -> f64 {
        self(unfinished)
    }
}

/// The shortest remaining time first, as in Muri (SIGCOMM'22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Srtf;

/// The shortest remaining service first, time × size, as in Muri (SIGCOMM'22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Srsf;

impl OrderPolicy for Srtf {
    fn key(&self, unfinished: &Unfinished<'_>) -> f64 {
        unfinished.remaining
    }
}

impl OrderPolicy for Srsf {
    fn key(&self, unfinished: &Unfinished<'_>) -> f64 {
        unfinished.remaining * f64::from(unfinished.job.size)
    }
}

/// A job for preemptive policies, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct PreemptiveJob {
    /// The gang.
    pub group: PodGroup,
    /// Its size, as [`Srsf`] counts it: processors.
    pub size: u32,
    /// Its arrival.
    pub submit: f64,
    /// Its work, in units.
    pub work: f64,
    /// How long a unit takes.
    pub unit: f64,
    /// Cost of every start and every event after it.
    pub overhead: f64,
}

/// A simulation by a preemptive policy.
///
/// At one instant ends come first, then arrivals. Every job that was placed at the last event pays
/// its overhead anew, even if it ran before. Then all unfinished jobs are sorted, the cluster is
/// emptied, and they are placed in that order, each whole or not at all. Jobs that do not fit are
/// passed over. (The rule of Muri's simulator, SIGCOMM'22.)
#[derive(Debug)]
pub struct Preemptive<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
}

/// Results of a preemptive simulation.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct PreemptiveResults {
    /// The first start of each job, in the order of input.
    pub starts: Vec<Option<f64>>,
    /// The end of each; `None` if it never had a place.
    pub ends: Vec<Option<f64>>,
    /// Placements that were asked for.
    pub asked: u64,
    /// Number of those that were found.
    pub placed: u64,
    /// Events: ends and arrivals, those of one instant counted once.
    pub events: u64,
}

/// Why a preemptive simulation cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PreemptiveError {
    /// The planner refuses a job.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A plan cannot be taken up.
    #[error(transparent)]
    State(#[from] StateError),
}

/// A job while it is unfinished.
struct Waiting {
    job: usize,
    key: f64,
}

/// A job that has a place since the last event.
struct Running {
    job: usize,
    end: f64,
}

impl<'a> Preemptive<'a> {
    /// A simulation on a cluster, which is not touched.
    pub fn new(cluster: &'a Cluster, framework: &'a Framework) -> Preemptive<'a> {
        Preemptive { cluster, framework }
    }

    /// Runs until no job is left that can be placed. `progress` is called after every event, with
    /// the time and the number of jobs that have ended.
    ///
    /// # Errors
    /// The planner refuses a job: its group makes no sense.
    pub fn run(
        &self,
        jobs: &[PreemptiveJob],
        policy: &impl OrderPolicy,
        mut progress: impl FnMut(f64, usize),
    ) -> Result<PreemptiveResults, PreemptiveError> {
        let mut planner = Planner::new();
        let mut txn = self.cluster.txn();
        let empty = txn.checkpoint();
        let mut arrivals: Vec<usize> = (0..jobs.len()).collect();
        arrivals.sort_by(|a, b| submit(jobs, *a).total_cmp(&submit(jobs, *b)));
        let mut arrivals = arrivals.into_iter().peekable();
        let mut left: Vec<f64> = jobs.iter().map(|job| job.work).collect();
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut running: Vec<Running> = Vec::new();
        let (mut now, mut finished) = (0.0_f64, 0);
        let mut results = PreemptiveResults {
            starts: alloc::vec![None; jobs.len()],
            ends: alloc::vec![None; jobs.len()],
            ..PreemptiveResults::default()
        };
        loop {
            let next_end = running.iter().map(|running| running.end).min_by(f64::total_cmp);
            let next_arrival = arrivals.peek().map(|job| submit(jobs, *job));
            let times = next_end.into_iter().chain(next_arrival);
            let Some(event) = times.min_by(f64::total_cmp) else { break };
            results.events += 1;
            for Running { job: index, end } in running.drain(..) {
                let (Some(job), Some(left)) = (jobs.get(index), left.get_mut(index)) else {
                    continue;
                };
                if is_reached(end, event) {
                    if let Some(end) = results.ends.get_mut(index) {
                        *end = Some(event);
                    }
                    finished += 1;
                } else {
                    let worked = (event - now - job.overhead).max(0.0);
                    *left = (*left - worked / job.unit).max(0.0);
                }
            }
            waiting.retain(|waiting| results.ends.get(waiting.job).is_some_and(Option::is_none));
            while let Some(job) = arrivals.next_if(|job| is_reached(submit(jobs, *job), event)) {
                waiting.push(Waiting { job, key: 0.0 });
            }
            now = event;
            for Waiting { job: index, key } in &mut waiting {
                let (Some(job), Some(left)) = (jobs.get(*index), left.get(*index)) else {
                    continue;
                };
                *key = policy.key(&Unfinished { job, remaining: *left * job.unit, now });
            }
            waiting.sort_by(|a, b| a.key.total_cmp(&b.key));
            txn.rollback(empty)?;
            for Waiting { job: index, .. } in &waiting {
                let (Some(job), Some(left)) = (jobs.get(*index), left.get(*index)) else {
                    continue;
                };
                results.asked += 1;
                if let Outcome::Placed(plan) = planner.place(&txn, self.framework, &job.group)? {
                    txn.apply_plan(&plan)?;
                    running.push(Running { job: *index, end: now + *left * job.unit });
                    results.placed += 1;
                    if let Some(start) = results.starts.get_mut(*index) {
                        start.get_or_insert(now);
                    }
                }
            }
            progress(now, finished);
        }
        Ok(results)
    }
}

fn submit(jobs: &[PreemptiveJob], index: usize) -> f64 {
    jobs.get(index).map_or(0.0, |job| job.submit)
}

/// Whether a time has come, to within [`SAME`].
fn is_reached(time: f64, now: f64) -> bool {
    time <= now || time - now <= SAME * time.abs().max(now.abs())
}
