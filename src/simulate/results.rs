//! Results of a simulation, as tables.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::base::{ObjectName, Time};
use crate::queue::Metrics;

/// The fate of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct JobRecord {
    /// Full name of its group.
    pub name: ObjectName,
    /// Its queue.
    pub queue: String,
    /// Its number of pods.
    pub pods: usize,
    /// Its amount of the measured resource.
    pub amount: i64,
    /// Its arrival.
    pub submit: Time,
    /// How long it runs without interruption.
    pub run_time: Duration,
    /// Its last start; `None` if it never started.
    pub start: Option<Time>,
    /// Its first start.
    pub first_start: Option<Time>,
    /// Its end; `None` if it has not ended.
    pub end: Option<Time>,
    /// How often it began anew.
    pub restarts: u32,
    /// How long it ran in vain.
    pub lost: Duration,
    /// How long earlier runs took until their last checkpoint.
    pub kept: Duration,
    /// How long it saved and restarted, of jobs with checkpoints.
    pub overhead: Duration,
    /// Its work when it ended, as time at the rate of one; zero before.
    pub worked: Duration,
}

impl JobRecord {
    /// From its arrival to its last start, without the time of earlier runs; `None` before its start.
    pub fn wait(&self) -> Option<Duration> {
        Some(self.start?.since(self.submit).saturating_sub(self.lost).saturating_sub(self.kept))
    }

    /// How long it ran, without what was in vain; `None` before its end.
    pub fn ran(&self) -> Option<Duration> {
        Some(self.end?.since(self.start?).saturating_add(self.kept))
    }

    /// Its work per time that it ran: its mean rate. `None` before its end, and if it took no time.
    pub fn mean_rate(&self) -> Option<f64> {
        let ran = self.ran()?.as_secs_f64();
        (ran > 0.0).then(|| self.worked.as_secs_f64() / ran)
    }

    /// From its arrival to its end; `None` before its end.
    pub fn completion_time(&self) -> Option<Duration> {
        Some(self.end?.since(self.submit))
    }

    /// How much longer it took than it ran: `max(1, (end − arrival) / max(run, bound))`, so that
    /// very short jobs do not decide the mean. Runs that were lost count as waiting. (Feitelson, *Metrics for parallel job scheduling*, JSSPP
    /// 2001.) `None` before its end.
    pub fn bounded_slowdown(&self, bound: Duration) -> Option<f64> {
        let took = self.completion_time()?.as_secs_f64();
        let run = self.ran()?.max(bound).as_secs_f64();
        Some(if run > 0.0 { (took / run).max(1.0) } else { 1.0 })
    }
}

/// The state at a moment. It holds until the next one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Sample {
    /// The moment.
    pub at: Time,
    /// Number of jobs that have arrived and do not run.
    pub queue: usize,
    /// Amount of the measured resource in use by running jobs.
    pub used: i64,
    /// Capacity of the nodes in it.
    pub capacity: i64,
    /// Free amount of it.
    pub free: i64,
    /// Free amount on nodes that are partly used.
    pub free_on_used: i64,
}

/// Results of a simulation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Results {
    /// The jobs, in the order in which they arrived.
    pub jobs: Vec<JobRecord>,
    /// The state over time, no more often than asked for.
    pub samples: Vec<Sample>,
    /// Totals of the scheduler.
    pub metrics: Metrics,
    /// Number of decisions that the scheduler returned.
    pub decisions: u64,
    /// Full names of the groups of jobs that never arrived: another job was not over, or their user
    /// waited.
    pub held: Vec<ObjectName>,
    /// Amount of the measured resource × nanoseconds: used by jobs that ended.
    pub(super) work: u128,
    /// The same, of runs in vain.
    pub(super) lost: u128,
    /// Capacity × nanoseconds, until the last end.
    pub(super) capacity: u128,
    /// Jobs in the line × nanoseconds, until the last end.
    pub(super) queue: u128,
    /// Seconds, and of those the sum of the shares of what was free that was on used nodes.
    pub(super) fragmentation: (f64, f64),
}

/// The figures of a simulation.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Summary {
    /// Number of jobs.
    pub jobs: usize,
    /// Number of those that ended.
    pub finished: usize,
    /// The mean wait of jobs that started, in seconds.
    pub mean_wait: f64,
    /// The wait that half of them did not exceed.
    pub p50_wait: Duration,
    /// The wait that 99 of 100 did not exceed.
    pub p99_wait: Duration,
    /// The mean time from arrival to end of those that ended, in seconds.
    pub mean_completion: f64,
    /// The mean of their [bounded slowdowns](JobRecord::bounded_slowdown), bound 10 s.
    pub mean_bounded_slowdown: f64,
    /// The last end.
    pub makespan: Time,
    /// The mean over jobs of their work per time that they ran: how much of their speed they have
    /// where they run, and beside checkpoints.
    pub mean_rate: f64,
    /// Amount × time of runs that were not in vain per capacity, from the origin to the last end.
    pub utilisation: f64,
    /// Amount × seconds that running jobs had, in vain or not.
    pub used_time: f64,
    /// Amount × seconds that was there until the last end, used or not.
    pub capacity_time: f64,
    /// Share of what was free that was on partly used nodes, averaged over time by samples.
    pub fragmentation: f64,
    /// The mean number of jobs in the line.
    pub mean_queue: f64,
    /// Jain's index over queues, where a queue's value is the mean share of its stay that a job of
    /// it runs. It is 1 if all are treated alike, and 1/n if one of n has everything.
    pub jain: f64,
    /// Run in vain: amount of the measured resource × seconds.
    pub work_lost: f64,
    /// How often a job began anew.
    pub restarts: u64,
}

/// The value that `percent` of 100 do not exceed, of sorted values; the nearest rank.
pub(super) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or_default()
}

fn mean(sum: f64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn ratio(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Results {
    /// Results before anything has happened.
    pub(super) fn empty() -> Results {
        Results {
            jobs: Vec::new(),
            samples: Vec::new(),
            metrics: Metrics::default(),
            decisions: 0,
            held: Vec::new(),
            work: 0,
            lost: 0,
            capacity: 0,
            queue: 0,
            fragmentation: (0.0, 0.0),
        }
    }

    /// The figures. O(jobs · log jobs).
    pub fn summary(&self) -> Summary {
        let mut waits: Vec<Duration> = self.jobs.iter().filter_map(JobRecord::wait).collect();
        let wait_sum: f64 = waits.iter().map(Duration::as_secs_f64).sum();
        waits.sort_unstable();
        let completions = self.jobs.iter().filter_map(JobRecord::completion_time);
        let completion_sum: f64 = completions.map(|span| span.as_secs_f64()).sum();
        let bound = Duration::from_secs(10);
        let slowdowns = self.jobs.iter().filter_map(|job| job.bounded_slowdown(bound));
        let slowdown_sum: f64 = slowdowns.sum();
        let rates: Vec<f64> = self.jobs.iter().filter_map(JobRecord::mean_rate).collect();
        let finished = self.jobs.iter().filter(|job| job.end.is_some()).count();
        let makespan = self.makespan();
        Summary {
            jobs: self.jobs.len(),
            finished,
            mean_wait: mean(wait_sum, waits.len()),
            p50_wait: percentile(&waits, 50),
            p99_wait: percentile(&waits, 99),
            mean_completion: mean(completion_sum, finished),
            mean_bounded_slowdown: mean(slowdown_sum, finished),
            makespan,
            mean_rate: mean(rates.iter().sum(), rates.len()),
            utilisation: ratio(self.work, self.capacity),
            used_time: self.work.saturating_add(self.lost) as f64 / 1e9,
            capacity_time: self.capacity as f64 / 1e9,
            fragmentation: if self.fragmentation.0 > 0.0 {
                self.fragmentation.1 / self.fragmentation.0
            } else {
                0.0
            },
            mean_queue: ratio(self.queue, u128::from(makespan.as_nanos())),
            jain: self.jain(),
            work_lost: self.lost as f64 / 1e9,
            restarts: self.jobs.iter().map(|job| u64::from(job.restarts)).sum(),
        }
    }

    /// The last end.
    pub fn makespan(&self) -> Time {
        self.jobs.iter().filter_map(|job| job.end).max().unwrap_or_default()
    }

    /// Waits by size: for each number of pods, the waits of its jobs in increasing order.
    pub fn waits_by_size(&self) -> BTreeMap<usize, Vec<Duration>> {
        let mut sizes: BTreeMap<usize, Vec<Duration>> = BTreeMap::new();
        for job in &self.jobs {
            if let Some(wait) = job.wait() {
                sizes.entry(job.pods).or_default().push(wait);
            }
        }
        for waits in sizes.values_mut() {
            waits.sort_unstable();
        }
        sizes
    }

    fn jain(&self) -> f64 {
        let mut queues: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
        for job in &self.jobs {
            let (Some(ran), Some(took)) = (job.ran(), job.completion_time()) else { continue };
            let took = took.as_secs_f64();
            let share = if took > 0.0 { ran.as_secs_f64() / took } else { 1.0 };
            let (sum, count) = queues.entry(&job.queue).or_default();
            *sum += share;
            *count += 1;
        }
        let shares = queues.values().map(|(sum, count)| mean(*sum, *count));
        let (sum, squares) =
            shares.fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
        if squares > 0.0 { sum * sum / (queues.len() as f64 * squares) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests;
