//! A cell of the grid: one policy on one machine with one seed.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use phalanx::plugins::Fit;
use phalanx::queue::{Backfill, HeadOfLine, PreemptionSettings, ReservationPolicy, Settings};
use phalanx::quota::{Flavor, Queue, Quota, Tenants};
use phalanx::simulate::{
    Estimates, Happening, Job, JobRecord, Preemptive, PreemptiveJob, Random, Sample, Simulation,
    Srsf, Srtf,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Strategy, Time, place_gang};
use serde_json::{Value, json};

use super::trace::{Trace, TraceJob};

/// The resource of GPUs; shares of one are in thousandths.
const GPU: &str = "nvidia.com/gpu";
const GPU_MILLI: &str = "gpu-milli";
/// Nodes of a rack.
const RACK: u32 = 5;

/// The machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machines {
    /// Nodes of one cpu each.
    Processors(u32),
    /// Nodes of so many GPUs each.
    Nodes(u32, u32),
}

/// Parameters of a cell, beside the trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) policy: &'static str,
    pub(crate) machines: Machines,
    pub(crate) seed: u64,
    pub(crate) estimates: Option<Estimates>,
    pub(crate) kill: bool,
}

/// A run of a job on a node, for the chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bar {
    pub(crate) node: usize,
    pub(crate) job: usize,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) amount: i64,
}

/// The outcome of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    /// The figures, as they are printed.
    pub(crate) figures: Value,
    pub(crate) samples: Vec<Sample>,
    /// Waits in seconds, sorted, by size.
    pub(crate) waits: BTreeMap<u32, Vec<f64>>,
    pub(crate) bars: Vec<Bar>,
    pub(crate) nodes: usize,
    /// Jobs that no empty machine would hold.
    pub(crate) never: Vec<String>,
}

/// The policies.
pub(crate) const POLICIES: [&str; 11] = [
    "fcfs",
    "easy",
    "easy_sjbf",
    "conservative",
    "srtf",
    "srsf",
    "none",
    "reservations",
    "tenants_joint",
    "tenants_quota",
    "tenants_none",
];

/// The queues of the policies with tenants, each with half of the GPUs.
const TENANTS: [&str; 2] = ["left", "right"];

fn settings(policy: &str) -> Settings {
    let settings = Settings::new();
    match policy {
        "fcfs" => settings.head_of_line(HeadOfLine::StrictFifo),
        "easy" => settings.backfill(Backfill::easy()),
        "easy_sjbf" => settings.backfill(Backfill::easy_shortest_first()),
        "conservative" => settings.backfill(Backfill::conservative()),
        "reservations" => settings.reservation(
            ReservationPolicy::new().after(Duration::from_secs(600)).timeout(Duration::MAX),
        ),
        "tenants_joint" => settings.preemption(PreemptionSettings::new()),
        "tenants_quota" => settings.preemption(PreemptionSettings::new().joint(false)),
        _ => settings,
    }
}

/// Work of jobs that have ended until a time: the measured resource × hours, without what ran in vain.
fn goodput(jobs: &[JobRecord], until: Time) -> f64 {
    let ended = jobs.iter().filter(|job| job.end.is_some_and(|end| end <= until));
    ended.map(|job| job.amount as f64 * job.run_time.as_secs_f64()).sum::<f64>() / 3_600.0
}

impl Cell {
    fn has_tenants(&self) -> bool {
        self.policy.starts_with("tenants")
    }

    /// The tenant of each job: that of its virtual cluster, by the seed; of its own without one.
    fn tenants(&self, trace: &Trace) -> Vec<&'static str> {
        let mut random = Random::new(self.seed);
        let mut known: BTreeMap<&str, &'static str> = BTreeMap::new();
        let mut next = || TENANTS[random.below(TENANTS.len() as u64) as usize];
        let mut all = Vec::with_capacity(trace.jobs.len());
        for job in &trace.jobs {
            let own = if job.queue.is_empty() {
                next()
            } else {
                *known.entry(job.queue.as_str()).or_insert_with(&mut next)
            };
            all.push(own);
        }
        all
    }
    /// The line that the cell is a function of.
    pub(crate) fn line(&self) -> Value {
        let machines = match self.machines {
            Machines::Processors(count) => json!({ "processors": count }),
            Machines::Nodes(nodes, gpus) => json!({ "nodes": nodes, "gpus_per_node": gpus }),
        };
        let mut line = json!({ "policy": self.policy, "seed": self.seed, "kill": self.kill });
        line["estimates"] = match self.estimates {
            None => Value::Null,
            Some(Estimates::Exact) => "exact".into(),
            Some(Estimates::Modal) => "modal".into(),
            Some(_) => "over".into(),
        };
        for (key, value) in machines.as_object().into_iter().flatten() {
            line[key] = value.clone();
        }
        line
    }

    /// The resource that is measured.
    fn resource(&self, trace: &Trace) -> &'static str {
        match self.machines {
            Machines::Processors(_) => "cpu",
            Machines::Nodes(..) if trace.jobs.iter().any(|job| job.milli.is_some()) => GPU_MILLI,
            Machines::Nodes(..) => GPU,
        }
    }

    fn cluster(&self) -> Result<Cluster, String> {
        let mut cluster =
            Cluster::builder().levels(["rack"]).build().map_err(|error| error.to_string())?;
        let (count, gpus) = match self.machines {
            Machines::Processors(count) => (count, None),
            Machines::Nodes(count, gpus) => (count, Some(gpus)),
        };
        for index in 0..count {
            let node = Node::new(format!("node-{index}")).tie_rank(i64::from(index));
            let node = match gpus {
                None => node.capacity("cpu", 1),
                Some(gpus) => node
                    .capacity(GPU, gpus)
                    .capacity(GPU_MILLI, i64::from(gpus) * 1_000)
                    .label("rack", format!("rack-{}", index / RACK)),
            };
            cluster.add_node(node).map_err(|error| error.to_string())?;
        }
        Ok(cluster)
    }

    /// The scheduler, with tenants if the policy has some.
    fn scheduler(
        &self,
        trace: &Trace,
        cluster: Cluster,
        framework: Framework,
    ) -> Result<Scheduler, String> {
        let scheduler = Scheduler::new(cluster, framework, settings(self.policy));
        if !self.has_tenants() {
            return Ok(scheduler);
        }
        let Machines::Nodes(nodes, gpus) = self.machines else {
            return Err(format!("--policy {}: needs nodes of GPUs", self.policy));
        };
        let resource = self.resource(trace);
        let unit = if resource == GPU_MILLI { 1_000 } else { 1 };
        let half = i64::from(nodes) * i64::from(gpus) * unit / TENANTS.len() as i64;
        let mut tenants = Tenants::default();
        tenants.set_flavor(Flavor::new("all"));
        for name in TENANTS {
            let queue =
                Queue::leaf(name).parent("all").quota("all", resource, Quota::nominal(half));
            tenants.set_queue(queue).map_err(|error| error.to_string())?;
        }
        Ok(scheduler.with_tenants(tenants))
    }

    /// A job as a gang: processors one by one, or whole nodes and one pod for the rest.
    fn gang(&self, index: usize, job: &TraceJob) -> PodGroup {
        let name = format!("job-{index}");
        match self.machines {
            Machines::Processors(most) => {
                // One more than there are fits as little as any larger number.
                let size = job.size.min(most.saturating_add(1)).max(1);
                PodGroup::gang(name, size).pods(size as usize, Pod::new().request("cpu", 1))
            }
            Machines::Nodes(nodes, gpus) => {
                if let Some(milli) = job.milli.filter(|_| job.size <= 1) {
                    let pod = Pod::new().request(GPU_MILLI, milli);
                    return PodGroup::gang(name, 1).pods(1, pod);
                }
                let of = |count: u32| match job.milli {
                    Some(_) => Pod::new().request(GPU_MILLI, i64::from(count) * 1_000),
                    None => Pod::new().request(GPU, count),
                };
                let whole = (job.size / gpus).min(nodes.saturating_add(1));
                let rest = job.size % gpus;
                let pods = (whole + u32::from(rest > 0)).max(1);
                let mut gang = PodGroup::gang(name, pods).pods(whole as usize, of(gpus));
                if rest > 0 || whole == 0 {
                    gang = gang.pods(1, of(rest));
                }
                gang
            }
        }
    }

    /// Runs the cell. Recorded lines go to `record`.
    ///
    /// # Errors
    /// The trace cannot be simulated.
    pub(crate) fn run(
        &self,
        trace: &Trace,
        with_starts: bool,
        with_bars: bool,
        record: Option<&mut dyn Write>,
        mut progress: impl FnMut(usize),
    ) -> Result<Done, String> {
        let cluster = self.cluster()?;
        // Room is the only filter, and nodes of one kind are taken in their order.
        let framework = Framework::builder().filter(Fit).strategy(Strategy::Kubernetes).build();
        let framework = framework.map_err(|error| error.to_string())?;
        let mut fits: BTreeMap<(u32, Option<i64>), bool> = BTreeMap::new();
        let mut order: Vec<usize> = Vec::new();
        let mut never = Vec::new();
        for (index, job) in trace.jobs.iter().enumerate() {
            let key = (job.size, job.milli);
            let fits = if let Some(fits) = fits.get(&key) {
                *fits
            } else {
                let gang = self.gang(index, job);
                let outcome = place_gang(&cluster, &framework, &gang);
                let found = (job.size > 0 || job.milli.is_some())
                    && outcome.map_err(|error| error.to_string())?.is_placed();
                fits.insert(key, found);
                found
            };
            if fits {
                order.push(index);
            } else {
                never.push(job.id.to_string());
            }
        }
        order.sort_by_key(|index| trace.jobs[*index].submit);
        let mut ran = if matches!(self.policy, "srtf" | "srsf") {
            self.preempt(trace, &order, &cluster, &framework, &mut progress)?
        } else {
            let scheduler = self.scheduler(trace, cluster, framework)?;
            self.schedule(trace, &order, scheduler, with_bars, record, &mut progress)?
        };
        if with_starts {
            let mut starts: Vec<Value> =
                trace.jobs.iter().map(|job| json!([job.id, Value::Null])).collect();
            for (index, start) in order.iter().zip(&ran.starts) {
                starts[*index][1] = start.map_or(Value::Null, Value::from);
            }
            ran.done.figures["starts"] = starts.into();
        }
        if !never.is_empty() {
            ran.done.figures["never_placed"] = never.len().into();
        }
        ran.done.figures["jobs"] = trace.jobs.len().into();
        ran.done.never = never;
        Ok(ran.done)
    }

    fn schedule(
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
        let mut simulation = Simulation::new(scheduler, resource)
            .kill_at_estimate(self.kill)
            .sample_every(Duration::from_secs((last.as_secs() / 500).max(1)));
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
            Happening::Ended(job) => {
                ended += 1;
                progress(ended);
                for bar in open.remove(&job).into_iter().flatten() {
                    bars[bar].to = now.as_nanos() as f64 / 1e9;
                }
            }
            _ => {}
        });
        let results = results.map_err(|error| error.to_string())?;
        if let Some(error) = failed {
            return Err(error);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let summary = results.summary();
        let mut waits: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (job, index) in results.jobs.iter().zip(order) {
            if let Some(wait) = job.wait() {
                waits.entry(trace.jobs[*index].size).or_default().push(wait.as_secs_f64());
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
            "work_lost_s": summary.work_lost,
            "goodput_h": goodput(&results.jobs, last),
            "promises_broken": metrics.promises_broken,
            "backfilled": metrics.backfilled,
            "decisions": results.decisions,
            "decisions_per_s": results.decisions as f64 / seconds.max(1e-9),
        });
        for (key, value) in own.as_object().into_iter().flatten() {
            figures[key] = value.clone();
        }
        let starts = results.jobs.iter().map(|job| job.start.map(Time::as_millis)).collect();
        let samples = results.samples;
        Ok(Ran { done: Done { figures, samples, waits, bars, nodes, never: Vec::new() }, starts })
    }

    fn preempt(
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
        let results = match self.policy {
            "srtf" => simulation.run(&jobs, &Srtf, |_, done| progress(done)),
            _ => simulation.run(&jobs, &Srsf, |_, done| progress(done)),
        };
        let results = results.map_err(|error| error.to_string())?;
        let seconds = begin.elapsed().as_secs_f64();
        let (mut waits, mut by_size) = (Vec::new(), BTreeMap::<u32, Vec<f64>>::new());
        let (mut slowdowns, mut completions, mut busy) = (0.0, 0.0, 0.0);
        for (job, end) in jobs.iter().zip(&results.ends) {
            let Some(end) = end else { continue };
            let run = job.work * job.unit;
            let took = end - job.submit;
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
        Ok(Ran { done: Done { figures, samples, waits: by_size, bars, nodes, never }, starts })
    }
}

/// A run, with the start of each job in milliseconds, in the order of arrival.
struct Ran {
    done: Done,
    starts: Vec<Option<u64>>,
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
