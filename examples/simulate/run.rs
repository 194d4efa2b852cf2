//! Runs of a cell: by the scheduler, and by policies that place all jobs anew.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use phalanx::model::GroupPolicy;
use phalanx::simulate::{
    Happening, Job, JobRecord, Preemptive, PreemptiveJob, Random, Sample, Simulation, Srsf, Srtf,
};
use phalanx::{Cluster, Framework, ObjectName, Scheduler, Time};
use serde_json::json;

use super::cell::{Bar, Cell, Done, GPU, Machines, RACK};
use super::trace::{Trace, TraceJob};

/// A run, with the start of each job in milliseconds, in the order of arrival.
pub(super) struct Ran {
    pub(super) done: Done,
    pub(super) starts: Vec<Option<u64>>,
}

/// The place in the trace of a job: its name ends with it.
fn index(job: &JobRecord) -> usize {
    let (_, number) = job.name.as_str().rsplit_once('-').unwrap_or(("", ""));
    number.parse().unwrap_or(0)
}

/// Work of jobs that have ended until a time: the measured resource × hours, without what ran in vain.
fn goodput(jobs: &[JobRecord], until: Time) -> f64 {
    let ended = jobs.iter().filter(|job| job.end.is_some_and(|end| end <= until));
    ended.map(|job| job.amount as f64 * job.run_time.as_secs_f64()).sum::<f64>() / 3_600.0
}

/// Jain's index of shares.
fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        (count, sum, squares) = (count + 1.0, sum + share, squares + share * share);
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

/// The share of its stay in which a job ran, if it has ended.
fn share(job: &JobRecord) -> Option<f64> {
    let (ran, took) = (job.ran()?.as_secs_f64(), job.completion_time()?.as_secs_f64());
    Some(if took > 0.0 { ran / took } else { 1.0 })
}

impl Cell {
    pub(super) fn schedule(
        &self,
        trace: &Trace,
        order: &[usize],
        scheduler: Scheduler,
        with_bars: bool,
        record: Option<&mut dyn Write>,
        progress: &mut impl FnMut(usize),
    ) -> Result<Ran, String> {
        let mut random = Random::new(self.seed);
        let tenants = self.tenants(trace);
        let by_id: BTreeMap<String, usize> =
            order.iter().map(|index| (trace.jobs[*index].id.to_string(), *index)).collect();
        let jobs: Vec<Job> = order
            .iter()
            .map(|index| {
                let job = &trace.jobs[*index];
                let own = job.estimate.filter(|_| self.estimates.is_none());
                let estimates = self.estimates.unwrap_or_default();
                let estimate = own.unwrap_or_else(|| estimates.of(job.run, &mut random));
                let mut gang = self.gang(*index, job).run_time_estimate(estimate);
                if self.has_tenants() {
                    // A gang goes whole, and one that fits into a rack is kept in one.
                    gang = gang.evicted_whole().queue(tenants[*index]);
                    if (2..=RACK as usize).contains(&gang.pods.len()) {
                        gang = gang.require("rack");
                    }
                }
                let mut made = Job::new(gang, job.submit, job.run);
                if !self.has_tenants() {
                    made.queue.clone_from(&job.queue);
                }
                self.apply(&mut made, job);
                let before = job.after.as_ref().filter(|_| self.model.dependencies);
                let before = before.and_then(|id| by_id.get(&id.to_string()));
                // A job that never fits is over as soon as it arrives.
                if let Some(before) = before.filter(|before| *before != index) {
                    made = made.after(ObjectName::new("default", &format!("job-{before}")));
                }
                made
            })
            .collect();
        let last = jobs.last().map_or(Time::ZERO, |job| job.submit);
        let nodes = scheduler.cluster().node_count();
        let resource = self.resource(trace);
        let mut failed = None;
        let mut record = record;
        if let Some(out) = record.as_mut() {
            super::record::begin(*out, &scheduler)?;
        }
        let world = self.world(last.max(Time::from_secs(1)))?;
        let bought = world.bought();
        let mut simulation = Simulation::new(scheduler, resource)
            .world(world)
            .kill_at_estimate(self.kill)
            .sample_every(Duration::from_secs((last.as_secs() / 500).max(1)));
        if let Some(rates) = &self.model.rates {
            simulation = simulation.run_times(rates.clone());
        }
        if let Some(users) = self.model.users {
            simulation = simulation.users(users);
        }
        if let Some(out) = record {
            let failed = &mut failed;
            simulation = simulation.record(move |line| {
                if let Err(error) = super::record::line(out, line) {
                    failed.get_or_insert(error);
                }
            });
        }
        let (mut bars, mut open, mut ended) = (Vec::new(), BTreeMap::<usize, Vec<usize>>::new(), 0);
        let begin = Instant::now();
        let results = simulation.run(jobs, |now, happening| match happening {
            Happening::Placed(jobs, plan) if with_bars => {
                for assignment in plan.assignments() {
                    let node = assignment.node().trim_start_matches("node-").parse();
                    let (job, node) = (jobs.first().copied().unwrap_or(0), node.unwrap_or(0));
                    let amount = assignment.pod().shape().requests.of(resource);
                    let from = now.as_nanos() as f64 / 1e9;
                    open.entry(job).or_default().push(bars.len());
                    bars.push(Bar { node, job, from, to: from, amount });
                }
            }
            Happening::Ended(job) | Happening::Lost(job, _) => {
                if matches!(happening, Happening::Ended(_)) {
                    ended += 1;
                    progress(ended);
                }
                for bar in open.remove(&job).into_iter().flatten() {
                    bars[bar].to = now.as_nanos() as f64 / 1e9;
                }
            }
            _ => {}
        });
        let mut results = results.map_err(|error| error.to_string())?;
        let bought = bought.borrow().clone();
        if let Some(error) = failed.or_else(|| bought.failed.clone()) {
            return Err(error);
        }
        let nodes = nodes + bought.nodes;
        let seconds = begin.elapsed().as_secs_f64();
        let starts: BTreeMap<usize, Option<u64>> =
            results.jobs.iter().map(|job| (index(job), job.start.map(Time::as_millis))).collect();
        let starts = order.iter().map(|index| starts.get(index).copied().flatten()).collect();
        let records = if with_bars {
            let own = |job: &JobRecord| (trace.jobs[index(job)].id.clone(), job.clone());
            results.jobs.iter().map(own).collect()
        } else {
            Vec::new()
        };
        // Jobs of the time in which the machine fills up are in no figure of jobs.
        let warm = Time::from_secs(u64::from(self.warmup));
        results.jobs.retain(|job| job.submit >= warm);
        let summary = results.summary();
        let mut waits: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for job in &results.jobs {
            if let Some(wait) = job.wait() {
                waits.entry(trace.jobs[index(job)].size).or_default().push(wait.as_secs_f64());
            }
        }
        for waits in waits.values_mut() {
            waits.sort_by(f64::total_cmp);
        }
        let metrics = &results.metrics;
        let mut figures = self.line();
        let own = json!({
            "mean_wait_s": summary.mean_wait,
            "p50_wait_s": summary.p50_wait.as_secs_f64(),
            "p99_wait_s": summary.p99_wait.as_secs_f64(),
            "mean_bounded_slowdown": summary.mean_bounded_slowdown,
            "mean_completion_s": summary.mean_completion,
            "makespan_s": secs(summary.makespan),
            "utilisation": summary.utilisation,
            "utilisation_arrivals": busy(&results.samples, last),
            "fragmentation": summary.fragmentation,
            "mean_queue": summary.mean_queue,
            "jain": summary.jain,
            "jain_jobs": jain(results.jobs.iter().filter_map(share)),
            "mean_rate": summary.mean_rate,
            "restarts": summary.restarts,
            "finished": summary.finished,
            "work_lost_s": summary.work_lost,
            "goodput_h": goodput(&results.jobs, last),
            "promises_broken": metrics.promises_broken,
            "backfilled": metrics.backfilled,
            "decisions": results.decisions,
            "decisions_per_s": results.decisions as f64 / seconds.max(1e-9),
        });
        // Processors are counted in thousandths too.
        let unit = if resource == GPU { 1.0 } else { 1_000.0 };
        let (used, there) = (summary.used_time / unit, summary.capacity_time / unit);
        for (key, value) in self.model.sums(used, there, &bought) {
            figures[key] = value.into();
        }
        for (key, value) in own.as_object().into_iter().flatten() {
            figures[key] = value.clone();
        }
        let (samples, never) = (results.samples, Vec::new());
        Ok(Ran { done: Done { figures, samples, waits, bars, records, nodes, never }, starts })
    }

    /// Gives a job what the job model says of it.
    fn apply(&self, made: &mut Job, job: &TraceJob) {
        made.model.clone_from(&job.model);
        made.user.clone_from(&job.user);
        made.checkpoint = self.model.checkpoint;
        if let Some(percent) = self.model.elastic
            && made.group.pods.len() > 1
        {
            let pods = made.group.pods.len();
            let least = (pods * percent as usize).div_ceil(100).max(1);
            made.group.policy = GroupPolicy::Gang { min_count: least as u32 };
            made.elastic = true;
        }
    }

    pub(super) fn preempt(
        &self,
        trace: &Trace,
        order: &[usize],
        cluster: &Cluster,
        framework: &Framework,
        progress: &mut impl FnMut(usize),
    ) -> Result<Ran, String> {
        let jobs: Vec<PreemptiveJob> = order
            .iter()
            .map(|index| {
                let job = &trace.jobs[*index];
                let (work, unit, overhead) = job.work;
                let (group, size) = (self.gang(*index, job), job.size);
                PreemptiveJob { group, size, submit: secs(job.submit), work, unit, overhead }
            })
            .collect();
        let begin = Instant::now();
        let simulation = Preemptive::new(cluster, framework);
        let results = match self.policy.as_str() {
            "srtf" => simulation.run(&jobs, &Srtf, |_, done| progress(done)),
            _ => simulation.run(&jobs, &Srsf, |_, done| progress(done)),
        };
        let results = results.map_err(|error| error.to_string())?;
        let seconds = begin.elapsed().as_secs_f64();
        let (mut waits, mut by_size) = (Vec::new(), BTreeMap::<u32, Vec<f64>>::new());
        let (mut slowdowns, mut completions, mut busy) = (0.0, 0.0, 0.0);
        let last = jobs.iter().map(|job| job.submit).fold(0.0, f64::max);
        let (mut useful, mut shares, mut by_queue) = (0.0, Vec::new(), BTreeMap::new());
        for ((job, end), index) in jobs.iter().zip(&results.ends).zip(order) {
            let Some(end) = end else { continue };
            let run = job.work * job.unit;
            let took = end - job.submit;
            if *end <= last {
                useful += run * f64::from(job.size) / 3_600.0;
            }
            let share = if took > 0.0 { run / took } else { 1.0 };
            shares.push(share);
            let (sum, count) = by_queue.entry(&trace.jobs[*index].queue).or_insert((0.0, 0.0));
            (*sum, *count) = (*sum + share, *count + 1.0);
            let wait = (took - run).max(0.0);
            waits.push(wait);
            by_size.entry(job.size).or_default().push(wait);
            slowdowns += (took / run.max(10.0)).max(1.0);
            completions += took;
            busy += run * f64::from(job.size);
        }
        waits.sort_by(f64::total_cmp);
        for waits in by_size.values_mut() {
            waits.sort_by(f64::total_cmp);
        }
        let count = waits.len().max(1) as f64;
        let makespan = results.ends.iter().flatten().copied().fold(0.0, f64::max);
        let capacity = match self.machines {
            Machines::Processors(count) => f64::from(count),
            Machines::Nodes(nodes, gpus) => f64::from(nodes) * f64::from(gpus),
        };
        let at = |share: f64| waits.get((share * waits.len() as f64) as usize).copied();
        let mut figures = self.line();
        let own = json!({
            "mean_wait_s": waits.iter().sum::<f64>() / count,
            "p50_wait_s": at(0.5),
            "p99_wait_s": at(0.99),
            "mean_bounded_slowdown": slowdowns / count,
            "mean_completion_s": completions / count,
            "makespan_s": makespan,
            "utilisation": if makespan > 0.0 { busy / (capacity * makespan) } else { 0.0 },
            "jain": jain(by_queue.values().map(|(sum, count)| sum / count)),
            "jain_jobs": jain(shares.into_iter()),
            "goodput_h": useful,
            "decisions": results.placed,
            "decisions_per_s": results.placed as f64 / seconds.max(1e-9),
        });
        for (key, value) in own.as_object().into_iter().flatten() {
            figures[key] = value.clone();
        }
        let starts = results.starts.iter();
        let starts =
            starts.map(|start| start.map(|secs| (secs * 1_000.0).round() as u64)).collect();
        let (samples, bars, nodes) = (Vec::new(), Vec::new(), cluster.node_count());
        let never = Vec::new();
        let (records, waits) = (Vec::new(), by_size);
        Ok(Ran { done: Done { figures, samples, waits, bars, records, nodes, never }, starts })
    }
}

/// Use per capacity until a time, by samples.
fn busy(samples: &[Sample], until: Time) -> f64 {
    let (mut used, mut capacity) = (0.0, 0.0);
    for (sample, next) in samples.iter().zip(samples.iter().skip(1)) {
        let span = secs(next.at.min(until)) - secs(sample.at.min(until));
        used += span * sample.used as f64;
        capacity += span * sample.capacity as f64;
    }
    if capacity > 0.0 { used / capacity } else { 0.0 }
}

fn secs(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}
