//! `AntMan`'s rule as Muri's authors simulated it: two jobs share a GPU, and the second is slowed down
//! by the first.
//!
//! A job is guaranteed or opportunistic. Guaranteed ones go first, in order of arrival. One of up to a
//! node takes the first node that has room for it. If there is none, it takes what the node with most
//! room has, and waits there for the rest. A larger one takes whole nodes as they come. Opportunistic
//! ones take the least loaded GPUs that have no other opportunistic job, all of them or none. Every
//! place is the planner's, and so is the GPU.

use std::collections::BTreeMap;
use std::error::Error;

use phalanx::framework::{Context, Declaration, DeviceChoice, DeviceOffer};
use phalanx::model::{Device, DeviceRequest, PodShape};
use phalanx::plugins::{DeviceFit, Fit, LowestIndex, NodeAffinityPlugin};
use phalanx::state::NodeView;
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Score, Strategy};

use super::simulation::{Machines, Summary};
use super::trace::Job;

/// The kind of devices. Each has room for one job of either unit.
const GPU: &str = "gpu";
const GUARANTEED: &str = "guaranteed";
const OPPORTUNISTIC: &str = "opportunistic";
/// The label by which a job stays on its node.
const NODE: &str = "node";
/// The load of a GPU by its jobs. A guaranteed one that waits for more GPUs has the difference less.
const LOADS: [f64; 2] = [0.1, 0.9];
const WAITING: f64 = 0.01;
/// Times that differ by less, relatively, are one.
const SAME: f64 = 1e-9;
/// The most GPUs: a score has a hundred steps.
pub(crate) const MOST: u32 = 100;

/// The seconds that an iteration of an opportunistic job takes beside a guaranteed one.
///
/// Each iteration has three stages: data, GPU, network. A stage runs while the guaranteed job is in
/// its other two. It takes as many of that job's iterations as it needs. What is left of the last
/// one's gap goes to the next stage.
pub(crate) fn beside(own: &Job, first: &Job) -> f64 {
    let [data, mut compute, mut network] = own.stages;
    let [a, b, c] = first.stages;
    let mut iterations = 0.0;
    let mut whole = |stage: f64, gap: f64| {
        iterations += (stage / gap).floor();
        stage % gap
    };
    let rest = whole(data, b + c);
    let mut more = 0.0;
    if rest > 0.0 {
        more += 1.0;
        compute -= compute.min(c).min(b + c - rest);
    }
    let rest = whole(compute, a + c);
    if rest > 0.0 {
        more += 1.0;
        if rest < a {
            network -= network.min(a + b - rest);
        }
    }
    // A rest of the network that fits into the gap's first part costs no iteration.
    if whole(network, a + b) > a {
        more += 1.0;
    }
    own.iteration.max((iterations + more) * first.iteration)
}

/// The order of GPUs from the least loaded to the most, as it was when a job was asked for.
#[derive(Debug, Clone)]
struct Least {
    /// By GPU, its place in that order.
    places: Vec<usize>,
    gpus: usize,
}

impl Least {
    fn place(&self, node: NodeView<'_>, device: usize) -> usize {
        let index = node.label(NODE).and_then(|label| label.parse::<usize>().ok()).unwrap_or(0);
        self.places.get(index * self.gpus + device).copied().unwrap_or(usize::MAX)
    }
}

impl Score for Least {
    fn name(&self) -> &str {
        "Least"
    }

    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        let term = cx.cluster().device_term(OPPORTUNISTIC);
        let Some((room, unit)) =
            node.device_room().zip(term).and_then(|(room, term)| Some((room, room.unit(term)?)))
        else {
            return 0;
        };
        let open = (0..room.len()).filter(|device| room.free(*device, unit) > 0);
        let best = open.map(|device| self.place(node, device)).min();
        best.map_or(0, |place| i64::from(MOST) - place as i64)
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::usage()
    }
}

impl DeviceChoice for Least {
    fn name(&self) -> &str {
        "Least"
    }

    fn choose(&self, _: &Context<'_>, offer: &DeviceOffer<'_>) -> Vec<u32> {
        let mut open = offer.candidates().to_vec();
        open.sort_by_key(|device| self.place(offer.node(), *device as usize));
        open.truncate(offer.count());
        open
    }
}

/// A job that has arrived.
struct State {
    left: f64,
    /// Seconds of an iteration as things are.
    unit: f64,
    gpus: Vec<usize>,
    /// The node on which a guaranteed job waits for the rest.
    node: Option<usize>,
    missing: u32,
    runs: bool,
    pods: Vec<String>,
}

struct Sharing<'a> {
    jobs: &'a [Job],
    machines: Machines,
    cluster: Cluster,
    plain: Framework,
    planner: Planner,
    /// By GPU: the guaranteed and the opportunistic job, and the load.
    taken: Vec<[Option<usize>; 2]>,
    loads: Vec<f64>,
    states: BTreeMap<usize, State>,
    summary: Summary,
}

/// Replays a trace. `progress` is told how many jobs are finished, after every event.
///
/// # Errors
/// There are more than [`MOST`] GPUs, or the planner refuses a request; none that this program makes is
/// refused.
pub(crate) fn replay(
    jobs: &[Job],
    machines: Machines,
    mut progress: impl FnMut(usize),
) -> Result<Summary, Box<dyn Error>> {
    let gpus = machines.nodes.saturating_mul(machines.gpus);
    if gpus > MOST {
        return Err(format!("antman: {gpus} GPUs are more than {MOST}").into());
    }
    let mut cluster = Cluster::new();
    for index in 0..machines.nodes {
        let node = Node::new(format!("node-{index}")).tie_rank(i64::from(index));
        let mut node = node.label(NODE, index.to_string());
        for _ in 0..machines.gpus {
            let device = Device::new(GPU, "").capacity(GUARANTEED, 1).capacity(OPPORTUNISTIC, 1);
            node = node.device(device);
        }
        cluster.add_node(node)?;
    }
    let builder = Framework::builder().strategy(Strategy::Kubernetes);
    let builder = builder.filter(Fit).filter(NodeAffinityPlugin::new()).filter(DeviceFit);
    let sharing = Sharing {
        jobs,
        machines,
        cluster,
        plain: builder.device_choice(LowestIndex).build()?,
        planner: Planner::new(),
        taken: vec![[None; 2]; gpus as usize],
        loads: vec![0.0; gpus as usize],
        states: BTreeMap::new(),
        summary: Summary {
            average_jct: 0.0,
            makespan: 0.0,
            p99_jct: 0.0,
            asked: 0,
            placed: 0,
            events: 0,
            never_placed: Vec::new(),
        },
    };
    sharing.run(&mut progress)
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.abs().max(b.abs())
}

impl Sharing<'_> {
    fn run(mut self, progress: &mut impl FnMut(usize)) -> Result<Summary, Box<dyn Error>> {
        let jobs = self.jobs;
        let is_larger = |job: &Job| job.gpus as usize > self.taken.len();
        let (larger, mut arrivals): (Vec<usize>, Vec<usize>) =
            (0..jobs.len()).partition(|job| is_larger(&jobs[*job]));
        self.summary.never_placed = larger.iter().map(|job| jobs[*job].id.clone()).collect();
        arrivals.sort_by(|a, b| jobs[*a].submit.total_cmp(&jobs[*b].submit));
        let mut arrivals = arrivals.into_iter().peekable();
        // The order in which those that have arrived are asked for.
        let mut line: Vec<usize> = Vec::new();
        let (mut spans, mut last): (Vec<f64>, f64) = (Vec::new(), 0.0);
        let mut ends: Vec<(f64, Vec<usize>)> = Vec::new();
        loop {
            let next = arrivals.peek().map(|job| jobs[*job].submit);
            let end = ends.first().map(|(end, _)| *end);
            let Some(now) = [next, end].into_iter().flatten().min_by(f64::total_cmp) else { break };
            self.summary.events += 1;
            if end == Some(now) {
                for job in ends.swap_remove(0).1 {
                    self.leave(job)?;
                    line.retain(|other| *other != job);
                    spans.push(now - jobs[job].submit);
                    self.summary.makespan = now;
                }
            }
            self.pass(now - last);
            last = now;
            while let Some(job) = arrivals.next_if(|job| jobs[*job].submit == now) {
                let (left, missing) = (jobs[job].iterations, jobs[job].gpus);
                let unit = jobs[job].iteration;
                let (gpus, pods) = (Vec::new(), Vec::new());
                let state = State { left, unit, gpus, node: None, missing, runs: false, pods };
                self.states.insert(job, state);
                line.push(job);
            }
            line.sort_by(|a, b| {
                let key = |job: &usize| (jobs[*job].is_opportunistic, jobs[*job].submit, *job);
                let (a, b) = (key(a), key(b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
            });
            for &job in &line {
                if !self.states[&job].runs {
                    let runs = if jobs[job].is_opportunistic {
                        self.take_least(job)?
                    } else {
                        self.take_guaranteed(job)?
                    };
                    if let Some(state) = self.states.get_mut(&job) {
                        state.runs = runs;
                    }
                }
            }
            ends = self.ends(now, &line);
            progress(spans.len());
        }
        spans.sort_by(f64::total_cmp);
        let mut summary = self.summary;
        summary.average_jct = spans.iter().sum::<f64>() / spans.len().max(1) as f64;
        summary.p99_jct = spans.get((0.99 * spans.len() as f64) as usize).copied().unwrap_or(0.0);
        Ok(summary)
    }

    /// Work of a span. Every job that runs pays for its start anew.
    fn pass(&mut self, span: f64) {
        for (job, state) in self.states.iter_mut().filter(|(_, state)| state.runs) {
            state.left -= (span - self.jobs[*job].overhead).max(0.0) / state.unit;
        }
    }

    /// The ends of what runs, as things are: the time, and the jobs that end then.
    fn ends(&mut self, now: f64, line: &[usize]) -> Vec<(f64, Vec<usize>)> {
        let mut ends: Vec<(f64, Vec<usize>)> = Vec::new();
        for &job in line {
            let own = &self.jobs[job];
            let Some(state) = self.states.get(&job).filter(|state| state.runs) else { continue };
            let mut unit = own.iteration;
            if own.is_opportunistic {
                let firsts = state.gpus.iter().filter_map(|gpu| self.taken[*gpu][0]);
                // One that waits for more GPUs does not work yet.
                for first in firsts.filter(|first| self.states[first].missing == 0) {
                    unit = unit.max(beside(own, &self.jobs[first]));
                }
            }
            let end = now + state.left * unit;
            if let Some(state) = self.states.get_mut(&job) {
                state.unit = unit;
            }
            match ends.iter_mut().find(|(other, _)| same(*other, end)) {
                Some((_, jobs)) => jobs.push(job),
                None => ends.push((end, vec![job])),
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    }

    /// Asks the planner for pods of a job, and binds them. Returns their GPUs, none if it has no place.
    fn ask(
        &mut self,
        job: usize,
        pods: impl Iterator<Item = Pod>,
        framework: Option<&Framework>,
    ) -> Result<Vec<usize>, Box<dyn Error>> {
        let state = &self.states[&job];
        let name = |number: usize| format!("job-{job}-{number}");
        let pods: Vec<Pod> =
            pods.enumerate().map(|(at, pod)| pod.name(name(state.pods.len() + at))).collect();
        let names: Vec<String> = pods.iter().map(|pod| pod.name.clone()).collect();
        let mut gang = PodGroup::gang(format!("ask-{job}-{}", state.pods.len()), pods.len() as u32);
        gang.pods = pods;
        let framework = framework.unwrap_or(&self.plain);
        self.summary.asked += 1;
        let outcome = self.planner.place(&self.cluster, framework, &gang)?;
        let Some(plan) = outcome.plan() else { return Ok(Vec::new()) };
        self.summary.placed += 1;
        let mut gpus = Vec::new();
        for assignment in plan.assignments() {
            let node: usize = assignment.node().trim_start_matches("node-").parse()?;
            let devices = assignment.devices().iter().flatten();
            gpus.extend(
                devices.map(|device| node * self.machines.gpus as usize + *device as usize),
            );
        }
        self.cluster.commit(framework, plan)?;
        let unit = usize::from(self.jobs[job].is_opportunistic);
        for &gpu in &gpus {
            self.taken[gpu][unit] = Some(job);
            self.loads[gpu] += if unit == 0 { LOADS[0] - WAITING } else { LOADS[1] };
        }
        if let Some(state) = self.states.get_mut(&job) {
            state.gpus.extend(&gpus);
            state.missing -= gpus.len() as u32;
            state.pods.extend(names);
        }
        Ok(gpus)
    }

    /// So many GPUs of one node, which may be given.
    fn take(
        &mut self,
        job: usize,
        count: u32,
        node: Option<usize>,
    ) -> Result<Option<usize>, Box<dyn Error>> {
        let mut pod = Pod::new().device(DeviceRequest::shares(GPU, count, GUARANTEED, 1));
        if let Some(node) = node {
            pod = pod.node_selector(NODE, node.to_string());
        }
        let gpus = self.ask(job, [pod].into_iter(), None)?;
        Ok(gpus.first().map(|gpu| gpu / self.machines.gpus as usize))
    }

    /// Gives a guaranteed job what it can have. Returns whether it has all.
    fn take_guaranteed(&mut self, job: usize) -> Result<bool, Box<dyn Error>> {
        let free = |sharing: &Sharing<'_>| {
            sharing.taken.iter().filter(|taken| taken[0].is_none()).count() as u32
        };
        if self.jobs[job].gpus > self.machines.gpus {
            let whole = self.machines.gpus;
            loop {
                let count = self.states[&job].missing.min(whole);
                let enough = count > 0 && free(self) >= count;
                if !enough || self.take(job, count, None)?.is_none() {
                    break;
                }
            }
        } else {
            let node = self.states[&job].node;
            for count in (1..=self.states[&job].missing.min(free(self))).rev() {
                if let Some(node) = self.take(job, count, node)? {
                    if let Some(state) = self.states.get_mut(&job) {
                        state.node = Some(node);
                    }
                    break;
                }
            }
        }
        let state = &self.states[&job];
        if state.missing == 0 {
            for &gpu in &state.gpus {
                self.loads[gpu] += WAITING;
            }
        }
        Ok(state.missing == 0)
    }

    /// Gives an opportunistic job the least loaded GPUs. Returns whether it has them.
    fn take_least(&mut self, job: usize) -> Result<bool, Box<dyn Error>> {
        let open = self.taken.iter().filter(|taken| taken[1].is_none()).count();
        let wanted = self.jobs[job].gpus as usize;
        if open < wanted {
            return Ok(false);
        }
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        order.sort_by(|a, b| self.loads[*a].total_cmp(&self.loads[*b]));
        let mut places = vec![0; order.len()];
        for (place, gpu) in order.into_iter().enumerate() {
            places[gpu] = place;
        }
        let least = Least { places, gpus: self.machines.gpus as usize };
        let builder = Framework::builder().strategy(Strategy::Kubernetes);
        let builder = builder.filter(Fit).filter(DeviceFit);
        let framework = builder.score(1, least.clone()).device_choice(least).build()?;
        let pod = Pod::new().device(DeviceRequest::shares(GPU, 1, OPPORTUNISTIC, 1));
        let pods = std::iter::repeat_n(pod, wanted);
        Ok(self.ask(job, pods, Some(&framework))?.len() == wanted)
    }

    /// A job that has ended leaves its GPUs.
    fn leave(&mut self, job: usize) -> Result<(), Box<dyn Error>> {
        let Some(state) = self.states.remove(&job) else { return Ok(()) };
        for pod in &state.pods {
            self.cluster.remove_pod("default", pod)?;
        }
        let unit = usize::from(self.jobs[job].is_opportunistic);
        for gpu in state.gpus {
            self.taken[gpu][unit] = None;
            self.loads[gpu] -= LOADS[unit];
        }
        Ok(())
    }
}
