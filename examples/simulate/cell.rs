//! A cell of the grid: one policy on one machine with one seed.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use phalanx::model::{Device, DeviceRequest};
use phalanx::plugins::{DeviceFit, Fit};
use phalanx::quota::{Flavor, Queue, Quota, Tenants};
use phalanx::simulate::{Estimates, JobRecord, Random, Sample};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Strategy, Time, place_gang};
use serde_json::{Value, json};

use super::model::Model;
use super::policy;
use super::scaling::{Kind, Pools, Scaling};
use super::trace::{Trace, TraceJob};

/// The resource of GPUs; shares of one are in thousandths.
pub(super) const GPU: &str = "nvidia.com/gpu";
pub(super) const GPU_MILLI: &str = "gpu-milli";
/// Nodes of a rack.
pub(super) const RACK: u32 = 5;

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
    pub(crate) policy: String,
    pub(crate) machines: Machines,
    pub(crate) seed: u64,
    pub(crate) estimates: Option<Estimates>,
    pub(crate) kill: bool,
    /// Seconds in which the machine fills up: jobs that arrive in them are in no figure of jobs.
    pub(crate) warmup: u32,
    pub(crate) model: Arc<Model>,
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
    /// The id and the fate of each job, in the order of arrival; none under srtf and srsf.
    pub(crate) records: Vec<(Value, JobRecord)>,
    pub(crate) nodes: usize,
    /// Jobs that no empty machine would hold.
    pub(crate) never: Vec<String>,
}

/// The queues of the policies with tenants, each with half of the GPUs that there can be.
const TENANTS: [&str; 2] = ["left", "right"];

fn bare(index: u32) -> Node {
    Node::new(format!("node-{index}")).tie_rank(i64::from(index))
}

/// A node of GPUs, by its number.
fn node(index: u32, rack: &str, gpus: u32, device: &str, has_devices: bool) -> Node {
    let mut node = bare(index)
        .capacity(GPU, gpus)
        .capacity(GPU_MILLI, i64::from(gpus) * 1_000)
        .label("rack", rack);
    if !device.is_empty() {
        node = node.label("device", device);
    }
    if has_devices {
        for _ in 0..gpus {
            node = node.device(Device::new("gpu", device).capacity("milli", 1_000));
        }
    }
    node
}

/// A node that is bought, by its number.
fn bought(index: usize, kind: Kind<'_>, has_devices: bool) -> Node {
    node(index as u32, &format!("pool-{}", kind.pool), kind.gpus, kind.device, has_devices)
}

impl Cell {
    pub(super) fn has_tenants(&self) -> bool {
        policy::has_tenants(&self.policy)
    }

    /// Whether its policy places all jobs anew at every event.
    pub(crate) fn is_preemptive(&self) -> bool {
        matches!(self.policy.as_str(), "srtf" | "srsf")
    }

    /// The tenant of each job: that of its virtual cluster, by the seed; of its own without one.
    pub(super) fn tenants(&self, trace: &Trace) -> Vec<&'static str> {
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
        if self.warmup > 0 {
            line["warmup"] = self.warmup.into();
        }
        if !self.model.line().is_null() {
            line["model"] = self.model.line().clone();
        }
        for (key, value) in machines.as_object().into_iter().flatten() {
            line[key] = value.clone();
        }
        line
    }

    /// The resource that is measured.
    pub(super) fn resource(&self, trace: &Trace) -> &'static str {
        match self.machines {
            Machines::Processors(_) => "cpu",
            Machines::Nodes(..) if trace.jobs.iter().any(|job| job.milli.is_some()) => GPU_MILLI,
            Machines::Nodes(..) => GPU,
        }
    }

    /// The nodes, in their order.
    pub(super) fn nodes(&self) -> Vec<Node> {
        let (count, gpus) = match self.machines {
            Machines::Processors(count) => (count, None),
            Machines::Nodes(count, gpus) => (count, Some(gpus)),
        };
        let has_devices = self.model.has_devices();
        let node = |index| match gpus {
            None => bare(index).capacity("cpu", 1),
            Some(gpus) => {
                let rack = index / RACK;
                let device = self.model.device(rack as usize);
                node(index, &format!("rack-{rack}"), gpus, device, has_devices)
            }
        };
        (0..count).map(node).collect()
    }

    /// The world: failures, and nodes that are bought.
    pub(super) fn world(&self, until: Time) -> Result<Scaling, String> {
        let nodes = self.nodes();
        let faults = self.model.faults(&nodes, self.seed, until);
        if self.model.pools.is_some() && matches!(self.machines, Machines::Processors(_)) {
            return Err("--autoscale: needs nodes of GPUs".into());
        }
        let (pools, has_devices) = (self.model.pools.clone(), self.model.has_devices());
        let make = move |index: usize, kind: Kind<'_>| bought(index, kind, has_devices);
        Ok(Scaling::new(faults, pools, nodes.len(), make))
    }

    fn cluster(&self) -> Result<Cluster, String> {
        let mut cluster =
            Cluster::builder().levels(["rack"]).build().map_err(|error| error.to_string())?;
        for node in self.nodes() {
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
        let scheduler = Scheduler::new(cluster, framework, policy::settings(&self.policy));
        if !self.has_tenants() {
            return Ok(scheduler);
        }
        let Machines::Nodes(nodes, gpus) = self.machines else {
            return Err(format!("--policy {}: needs nodes of GPUs", self.policy));
        };
        let resource = self.resource(trace);
        let unit = if resource == GPU_MILLI { 1_000 } else { 1 };
        // Quota counts what can be bought.
        let most = self.model.pools.as_ref().map_or(0, Pools::gpus);
        let all = i64::from(nodes) * i64::from(gpus) + most;
        let half = all * unit / TENANTS.len() as i64;
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
    pub(super) fn gang(&self, index: usize, job: &TraceJob) -> PodGroup {
        let name = format!("job-{index}");
        match self.machines {
            Machines::Processors(most) => {
                // One more than there are fits as little as any larger number.
                let size = job.size.min(most.saturating_add(1)).max(1);
                PodGroup::gang(name, size).pods(size as usize, Pod::new().request("cpu", 1))
            }
            Machines::Nodes(nodes, gpus) => {
                if let Some(milli) = job.milli.filter(|_| job.size <= 1) {
                    let mut pod = Pod::new().request(GPU_MILLI, milli);
                    if self.model.has_devices() && milli > 0 {
                        pod = pod.device(DeviceRequest::share("gpu", "milli", milli));
                    }
                    return PodGroup::of(name, 1, pod);
                }
                let of = |count: u32| {
                    let pod = match job.milli {
                        Some(_) => Pod::new().request(GPU_MILLI, i64::from(count) * 1_000),
                        None => Pod::new().request(GPU, count),
                    };
                    let is_device = self.model.has_devices() && count > 0;
                    if is_device { pod.device(DeviceRequest::whole("gpu", count)) } else { pod }
                };
                let most = self.model.pools.as_ref().map_or(0, Pools::largest);
                let most = nodes.saturating_add(most).saturating_add(1);
                let whole = (job.size / gpus).min(most);
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
        let framework = Framework::builder().filter(Fit).strategy(Strategy::Kubernetes);
        let has_devices = self.model.has_devices();
        let framework = if has_devices { framework.filter(DeviceFit) } else { framework };
        let framework = framework.build().map_err(|error| error.to_string())?;
        // A job is too large if all nodes that can be bought would not hold it either.
        let mut full = cluster.clone();
        let kinds = self.model.pools.iter().flat_map(Pools::all);
        for (number, kind) in (cluster.node_count()..).zip(kinds) {
            let node = bought(number, kind, has_devices);
            full.add_node(node).map_err(|error| error.to_string())?;
        }
        let mut fits: BTreeMap<(u32, Option<i64>), bool> = BTreeMap::new();
        let mut order: Vec<usize> = Vec::new();
        let mut never = Vec::new();
        for (index, job) in trace.jobs.iter().enumerate() {
            let key = (job.size, job.milli);
            let fits = if let Some(fits) = fits.get(&key) {
                *fits
            } else {
                let gang = self.gang(index, job);
                let outcome = place_gang(&full, &framework, &gang);
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
        if self.is_preemptive() && !self.model.line().is_null() {
            return Err(format!("--policy {}: has no job model of its own", self.policy));
        }
        let mut ran = if self.is_preemptive() {
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
}
