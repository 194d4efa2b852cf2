//! How many decisions EASY takes a second with a thousand jobs and more waiting, and how that moves
//! with the number that wait.
//!
//! `cargo bench --features full --bench backfill` simulates 100,000 jobs on 1,000 nodes at load 0.95, under EASY,
//! for backlogs of 1,000, 4,000 and 16,000 jobs: so many wait from the first moment to the last
//! arrival. `-- --jobs N` takes another number of jobs, and `-- NAME` one of the machines. Times
//! are of one core, and of the whole simulation; a decision is a job that is started.
//!
//! `-- ends` is the conservative rule: the time of a pass after the end of one job with 500, 1,000 and
//! 2,000 waiting, each of which has a promise. `--backlog N` takes another number. `--one-in N` makes
//! each so many-th job one that is judged by more than room: in turn one of subgroups, with pods
//! that keep apart, with host ports, and with devices. The line is then promised otherwise.

use std::time::{Duration, Instant};

use phalanx::model::{Device, DeviceRequest, LabelSelector, PodAffinityTerm};
use phalanx::plugins::{DeviceFit, Fit, InterPodAffinity, NodePorts};
use phalanx::queue::{Backfill, Gone, Settings};
use phalanx::simulate::{Estimates, Job, Random, Simulation};
use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Strategy, Time};

const NODES: u32 = 1_000;
const SEED: u64 = 18;
const HOST: &str = "kubernetes.io/hostname";

/// Machines that jobs run on, and the size of jobs.
#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    resource: &'static str,
    per_node: u32,
    /// Sizes of jobs, each as likely as any other.
    sizes: &'static [u32],
}

/// GPUs as in Philly, where most jobs want one and few more than a node has; and processors by
/// powers of two, as in the archive of parallel workloads.
const MACHINES: [Machine; 2] = [
    Machine {
        name: "gpus",
        resource: "nvidia.com/gpu",
        per_node: 8,
        sizes: &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 16, 32],
    },
    Machine {
        name: "processors",
        resource: "cpu",
        per_node: 1,
        sizes: &[1, 1, 1, 1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 24, 32],
    },
];

impl Machine {
    fn cluster(self) -> Cluster {
        let mut cluster = Cluster::new();
        for index in 0..NODES {
            let node = Node::new(format!("node-{index}")).tie_rank(i64::from(index));
            let node =
                node.capacity(self.resource, self.per_node).label(HOST, format!("node-{index}"));
            let device = || Device::new("gpu", "A100").capacity("share", 1_000);
            cluster.add_node(node.device(device()).device(device())).expect("names differ");
        }
        cluster
    }

    /// A job that more than room decides about: which of the kinds, and its size.
    fn odd(self, name: String, size: u32, kind: usize) -> PodGroup {
        let size = size.min(4);
        let pod = Pod::new().request(self.resource, 1);
        let apart = PodAffinityTerm::new(HOST, LabelSelector::label("kind", "apart"));
        let pod = match kind % 4 {
            0 => {
                let part = |at| {
                    PodGroup::gang(format!("{name}-{at}"), size).pods(size as usize, pod.clone())
                };
                return PodGroup::gang(&name, 2).group(part(0)).group(part(1));
            }
            1 => pod.label("kind", "apart").anti_affinity(apart),
            2 => pod.host_port("TCP", 8_080),
            _ => pod.device(DeviceRequest::share("gpu", "share", 300)),
        };
        PodGroup::gang(name, size).pods(size as usize, pod)
    }

    /// Whole nodes, and one pod for the rest.
    fn gang(self, name: String, size: u32) -> PodGroup {
        let of = |amount| Pod::new().request(self.resource, amount);
        let (whole, rest) = (size / self.per_node, size % self.per_node);
        let gang = PodGroup::gang(name, whole + u32::from(rest > 0));
        let gang = gang.pods(whole as usize, of(self.per_node));
        if rest > 0 { gang.pods(1, of(rest)) } else { gang }
    }

    /// Jobs at load 0.95, the first of them all at once: those that fill the machine, those that
    /// are to wait, and what the machine catches up with until the last one arrives.
    fn jobs(self, count: usize, backlog: usize) -> Vec<Job> {
        let mut random = Random::new(SEED);
        let mean = f64::from(self.sizes.iter().sum::<u32>()) / self.sizes.len() as f64;
        let at_once = f64::from(NODES * self.per_node) / mean;
        let first = (at_once * 1.5) as usize + backlog + count / 10;
        // A minute to four hours, each as likely as any other.
        let (least, most) = (60_000, 14_400_000);
        let every = (least + most) as f64 / 2.0 / at_once / 0.95;
        (0..count)
            .map(|index| {
                let size = self.sizes[random.below(self.sizes.len() as u64) as usize];
                let run = Duration::from_millis(random.within(least, most));
                let estimate = Estimates::Over { most: 3_000 }.of(run, &mut random);
                let gang = self.gang(format!("job-{index}"), size).run_time_estimate(estimate);
                let submit = (index.saturating_sub(first)) as f64 * every;
                Job::new(gang, Time::from_millis(submit as u64), run)
            })
            .collect()
    }

    fn run(self, count: usize, backlog: usize) {
        let framework = Framework::builder().filter(Fit).strategy(Strategy::Kubernetes).build();
        let framework = framework.expect("one filter");
        let settings = Settings::new().backfill(Backfill::easy());
        let scheduler = Scheduler::new(self.cluster(), framework, settings);
        let jobs = self.jobs(count, backlog);
        let last = jobs.last().expect("there are jobs").submit;
        let begin = Instant::now();
        let results = Simulation::new(scheduler, self.resource).run(jobs, |_, _| ());
        let seconds = begin.elapsed().as_secs_f64();
        let results = results.expect("jobs are sound");
        let until = results.samples.iter().filter(|sample| sample.at <= last).skip(1);
        let waiting: Vec<usize> = until.map(|sample| sample.queue).collect();
        let (least, most) = (waiting.iter().min(), waiting.iter().max());
        let summary = results.summary();
        println!(
            "{:<11} {:>7} {:>8} {:>7} {:>7} {:>9} {:>8.2} {:>11.0} {:>8.1} {:>11.3}",
            self.name,
            count,
            backlog,
            least.copied().unwrap_or(0),
            most.copied().unwrap_or(0),
            results.decisions,
            seconds,
            results.decisions as f64 / seconds,
            results.metrics.attempts as f64 / results.decisions as f64,
            summary.utilisation,
        );
    }

    /// Ends jobs one by one under the conservative rule while so many wait, and prints the median
    /// time of an end with its pass, and a sum of the promised starts.
    fn ends(self, backlog: usize, rounds: usize, one_in: usize) {
        let framework = Framework::builder().filter(Fit);
        let framework = if one_in > 0 {
            framework.filter(InterPodAffinity::default()).filter(NodePorts).filter(DeviceFit)
        } else {
            framework
        };
        let framework = framework.strategy(Strategy::Kubernetes).build().expect("filters");
        let settings = Settings::new().backfill(Backfill::conservative());
        let mut scheduler = Scheduler::new(self.cluster(), framework, settings);
        let mut random = Random::new(SEED);
        let mut submit = |scheduler: &mut Scheduler, index: usize, now: Time| {
            let size = self.sizes[random.below(self.sizes.len() as u64) as usize];
            let run = Duration::from_millis(random.within(3_600_000, 14_400_000));
            let name = format!("job-{index}");
            let is_odd = one_in > 0 && index.is_multiple_of(one_in);
            let gang =
                if is_odd { self.odd(name, size, index / one_in) } else { self.gang(name, size) };
            let gang = gang.run_time_estimate(run);
            scheduler.handle_group(gang, now).expect("jobs are sound");
        };
        let mut running = Vec::new();
        let (mut count, mut clock) = (0, 0_u64);
        // Jobs arrive one at a time until the machine is full.
        let mut full = 0;
        while full < 3 {
            clock += 1;
            let now = Time::from_millis(clock);
            submit(&mut scheduler, count, now);
            count += 1;
            let started = poll(&mut scheduler, now);
            full = if started.is_empty() { full + 1 } else { 0 };
            running.extend(started);
        }
        clock += 1;
        for _ in full..backlog {
            submit(&mut scheduler, count, Time::from_millis(clock));
            count += 1;
        }
        let begin = Instant::now();
        running.extend(poll(&mut scheduler, Time::from_millis(clock)));
        let first = begin.elapsed();
        let mut times = Vec::new();
        for round in 0..rounds {
            clock += 60_000;
            let now = Time::from_millis(clock);
            let pods = running.swap_remove(round * 31 % running.len());
            let begin = Instant::now();
            for pod in &pods {
                scheduler.handle_gone(Gone::deleted("default", pod), now).expect("it runs");
            }
            let started = poll(&mut scheduler, now);
            times.push(begin.elapsed());
            for _ in &started {
                submit(&mut scheduler, count, now);
                count += 1;
            }
            running.extend(started);
            running.extend(poll(&mut scheduler, now));
        }
        times.sort_unstable();
        let promises = scheduler.promises();
        let sum = promises
            .iter()
            .fold(0_u64, |sum, promise| sum.wrapping_mul(31).wrapping_add(promise.at.as_nanos()));
        println!(
            "{:<11} {backlog:>8} {:>9} {:>14.1} {:>13.1} {:>14.1} {sum:>21}",
            self.name,
            promises.len(),
            first.as_secs_f64() * 1e3,
            times[times.len() / 2].as_secs_f64() * 1e3,
            times[times.len() - 1].as_secs_f64() * 1e3,
        );
    }
}

/// The names of the pods of each gang that starts now. Bindings succeed at once.
fn poll(scheduler: &mut Scheduler, now: Time) -> Vec<Vec<String>> {
    let mut started = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
        started.push(plan.assignments().map(|own| own.pod().name.clone()).collect());
        scheduler.handle_bound(ticket, now).expect("it is in flight");
    }
    started
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str, default: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        let text = at.and_then(|at| arguments.get(at + 1));
        text.map_or(default, |text| text.parse().expect("a whole number"))
    };
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let count = value("--jobs", if is_test { 3_000 } else { 100_000 });
    let backlogs = match value("--backlog", 0) {
        0 if is_test => vec![1_000],
        0 => vec![1_000, 4_000, 16_000],
        one => vec![one],
    };
    let named: Vec<&Machine> = MACHINES
        .iter()
        .filter(|machine| arguments.iter().any(|argument| machine.name == argument))
        .collect();
    let named = if named.is_empty() { MACHINES.iter().collect() } else { named };
    if arguments.iter().any(|argument| argument == "ends") {
        let backlogs = match value("--backlog", 0) {
            0 => vec![500, 1_000, 2_000],
            one => vec![one],
        };
        println!("machine     backlog  promises  promising ms  median end ms  slowest end ms  sum");
        for machine in named {
            for &backlog in &backlogs {
                machine.ends(backlog, value("--rounds", 5), value("--one-in", 0));
            }
        }
        return;
    }
    println!(
        "machine        jobs  backlog   least    most decisions  seconds decisions/s attempts utilisation"
    );
    for machine in named {
        for &backlog in &backlogs {
            machine.run(count, backlog);
        }
    }
}
