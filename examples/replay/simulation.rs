//! The simulation: preemptive, the shortest remaining job first, every job placed by the crate.
//!
//! At every event the cluster is emptied and all unfinished jobs are placed anew, in order, each
//! whole or not at all. Where a job goes, and whether it fits, is the planner's to say.

use phalanx::plugins::Fit;
use phalanx::{Cluster, Framework, Node, Outcome, Planner, Pod, PodGroup, Strategy};

use super::trace::Job;

/// The resource that jobs ask for.
const GPU: &str = "nvidia.com/gpu";
/// Times this close, relatively, are one.
const SAME: f64 = 1e-9;

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The shortest remaining time.
    Srtf,
    /// The shortest remaining service: time × GPUs.
    Srsf,
}

/// The machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machines {
    /// How many nodes.
    pub(crate) nodes: u32,
    /// How many GPUs each has.
    pub(crate) gpus: u32,
}

/// What came of a replay.
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

/// A job while it is unfinished.
struct Waiting {
    job: usize,
    /// What it is sorted by.
    key: f64,
}

/// A job that has a place since the last event.
struct Running {
    job: usize,
    end: f64,
}

/// Replays a trace. `progress` is told how many jobs are finished, after every event.
///
/// # Errors
/// The planner refuses a request; none that this program makes is refused.
pub(crate) fn replay(
    jobs: &[Job],
    machines: Machines,
    policy: Policy,
    mut progress: impl FnMut(usize),
) -> Result<Summary, Box<dyn std::error::Error>> {
    let framework = Framework::builder().filter(Fit).strategy(Strategy::Kubernetes).build()?;
    let mut planner = Planner::new();
    let mut txn = cluster(machines)?.txn();
    let empty = txn.checkpoint();
    let gangs: Vec<PodGroup> =
        jobs.iter().enumerate().map(|(index, job)| gang(index, job, machines)).collect();

    let mut arrivals: Vec<usize> = (0..jobs.len()).collect();
    arrivals.sort_by(|a, b| jobs[*a].submit.total_cmp(&jobs[*b].submit));
    let mut arrivals = arrivals.into_iter().peekable();
    let mut left: Vec<f64> = jobs.iter().map(|job| job.iterations).collect();
    let mut ends: Vec<Option<f64>> = vec![None; jobs.len()];
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut running: Vec<Running> = Vec::new();
    let (mut now, mut finished) = (0.0_f64, 0);
    let (mut asked, mut placed, mut events) = (0, 0, 0);

    loop {
        let next_end = running.iter().map(|running| running.end).min_by(f64::total_cmp);
        let next_arrival = arrivals.peek().map(|job| jobs[*job].submit);
        let times = next_end.into_iter().chain(next_arrival);
        let Some(event) = times.min_by(f64::total_cmp) else { break };
        events += 1;

        for Running { job, end } in running.drain(..) {
            if is_reached(end, event) {
                ends[job] = Some(event);
                finished += 1;
            } else {
                let worked = (event - now - jobs[job].overhead).max(0.0);
                left[job] = (left[job] - worked / jobs[job].iteration).max(0.0);
            }
        }
        waiting.retain(|waiting| ends[waiting.job].is_none());
        while let Some(job) = arrivals.next_if(|job| is_reached(jobs[*job].submit, event)) {
            waiting.push(Waiting { job, key: 0.0 });
        }
        now = event;

        for Waiting { job, key } in &mut waiting {
            let time = left[*job] * jobs[*job].iteration;
            *key = match policy {
                Policy::Srtf => time,
                Policy::Srsf => time * f64::from(jobs[*job].gpus),
            };
        }
        waiting.sort_by(|a, b| a.key.total_cmp(&b.key));

        txn.rollback(empty)?;
        for Waiting { job, .. } in &waiting {
            asked += 1;
            if let Outcome::Placed(plan) = planner.place(&txn, &framework, &gangs[*job])? {
                phalanx::reference::is_sound(&plan, &gangs[*job], &txn, &framework)?;
                txn.apply_plan(&plan)?;
                running.push(Running { job: *job, end: now + left[*job] * jobs[*job].iteration });
                placed += 1;
            }
        }
        progress(finished);
    }

    let mut spans: Vec<f64> =
        ends.iter().zip(jobs).filter_map(|(end, job)| Some((*end)? - job.submit)).collect();
    spans.sort_by(f64::total_cmp);
    let never = waiting.iter().map(|waiting| waiting.job);
    let mut never: Vec<usize> = never.collect();
    never.sort_unstable();
    Ok(Summary {
        average_jct: spans.iter().sum::<f64>() / spans.len().max(1) as f64,
        makespan: ends.iter().flatten().copied().fold(0.0, f64::max),
        p99_jct: spans.get((0.99 * spans.len() as f64) as usize).copied().unwrap_or(0.0),
        asked,
        placed,
        events,
        never_placed: never.into_iter().map(|job| jobs[job].id.clone()).collect(),
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

/// Whether a time has come, to within [`SAME`].
fn is_reached(time: f64, now: f64) -> bool {
    time <= now || time - now <= SAME * time.abs().max(now.abs())
}
