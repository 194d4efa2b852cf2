//! The simulation: preemptive, the shortest remaining job first, every job placed by the crate.
//!
//! At every event the cluster is emptied and all unfinished jobs are placed anew, in order, each
//! whole or not at all. Where a job goes, and whether it fits, is the planner's to say.

use phalanx::plugins::Fit;
use phalanx::simulate::{OrderPolicy, Preemptive, PreemptiveJob, Srsf, Srtf};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Strategy};

use super::trace::Job;

/// The resource that jobs ask for.
const GPU: &str = "nvidia.com/gpu";

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The shortest remaining time.
    Srtf,
    /// The shortest remaining service: time × GPUs.
    Srsf,
    /// Jobs share GPUs; see [`sharing`](super::sharing).
    Antman,
}

/// The machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machines {
    /// How many nodes.
    pub(crate) nodes: u32,
    /// How many GPUs each has.
    pub(crate) gpus: u32,
}

/// The outcome of a replay.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    /// The mean over finished jobs of the time from arrival to end, in seconds.
    pub(crate) average_jct: f64,
    /// The last end, in seconds from the origin of the trace.
    pub(crate) makespan: f64,
    /// The 99th percentile of the time from arrival to end.
    pub(crate) p99_jct: f64,
    /// How often the planner was asked.
    pub(crate) asked: u64,
    /// How many of those times it found a place.
    pub(crate) placed: u64,
    /// Events: ends and arrivals, those at one instant counted once.
    pub(crate) events: u64,
    /// Jobs that never got a place, by id, in the order of the file.
    pub(crate) never_placed: Vec<String>,
}

/// Replays a trace. `progress` is told how many jobs are finished, after every event.
///
/// # Errors
/// The planner refuses a request; none that this program makes is refused.
pub(crate) fn replay(
    jobs: &[Job],
    machines: Machines,
    policy: Policy,
    progress: impl FnMut(usize),
) -> Result<Summary, Box<dyn std::error::Error>> {
    match policy {
        Policy::Srtf => preempt(jobs, machines, &Srtf, progress),
        Policy::Srsf => preempt(jobs, machines, &Srsf, progress),
        Policy::Antman => super::sharing::replay(jobs, machines, progress),
    }
}

/// Replays a trace under a policy that places all unfinished jobs anew at every event.
fn preempt(
    jobs: &[Job],
    machines: Machines,
    order: &impl OrderPolicy,
    mut progress: impl FnMut(usize),
) -> Result<Summary, Box<dyn std::error::Error>> {
    let framework = Framework::builder().filter(Fit).strategy(Strategy::Kubernetes).build()?;
    let cluster = cluster(machines)?;
    let gangs: Vec<PreemptiveJob> = jobs
        .iter()
        .enumerate()
        .map(|(index, job)| PreemptiveJob {
            group: gang(index, job, machines),
            size: job.gpus,
            submit: job.submit,
            work: job.iterations,
            unit: job.iteration,
            overhead: job.overhead,
        })
        .collect();
    let simulation = Preemptive::new(&cluster, &framework);
    let results = simulation.run(&gangs, order, |_, done| progress(done))?;
    let ends = &results.ends;
    let mut spans: Vec<f64> =
        ends.iter().zip(jobs).filter_map(|(end, job)| Some((*end)? - job.submit)).collect();
    spans.sort_by(f64::total_cmp);
    let never = ends.iter().zip(jobs).filter(|(end, _)| end.is_none());
    Ok(Summary {
        average_jct: spans.iter().sum::<f64>() / spans.len().max(1) as f64,
        makespan: ends.iter().flatten().copied().fold(0.0, f64::max),
        p99_jct: spans.get((0.99 * spans.len() as f64) as usize).copied().unwrap_or(0.0),
        asked: results.asked,
        placed: results.placed,
        events: results.events,
        never_placed: never.map(|(_, job)| job.id.clone()).collect(),
    })
}

/// The nodes, in the order in which jobs take them.
fn cluster(machines: Machines) -> Result<Cluster, phalanx::StateError> {
    let mut cluster = Cluster::new();
    for index in 0..machines.nodes {
        let node = Node::new(format!("node-{index}")).tie_rank(i64::from(index));
        cluster.add_node(node.capacity(GPU, machines.gpus))?;
    }
    Ok(cluster)
}

/// A job as a gang: whole nodes, and one pod for the rest.
///
/// A job that needs more nodes than there are asks for one more than there are, so that a size in
/// the billions takes no memory: it fits as little.
fn gang(index: usize, job: &Job, machines: Machines) -> PodGroup {
    let whole = (job.gpus / machines.gpus).min(machines.nodes + 1);
    let rest = job.gpus % machines.gpus;
    let pods = whole + u32::from(rest > 0);
    let mut gang = PodGroup::gang(format!("job-{index}"), pods);
    gang = gang.pods(whole as usize, Pod::new().request(GPU, machines.gpus));
    if rest > 0 {
        gang = gang.pods(1, Pod::new().request(GPU, rest));
    }
    gang
}
