//! Preemption on a full cluster: how long it takes to find who must go, with tenants or without.

use std::time::Instant;

use phalanx::model::Amounts;
use phalanx::preempt::{PreemptingPlanner, Preemption, PreemptionRequest, RunningWork};
use phalanx::quota::{Claim, Flavor, PodSet, Queue, Quota, QuotaError, Tenants};
use phalanx::reclaim::reclaim;
use phalanx::{Cluster, Framework, Pod, PodGroup, Request, Time};

use crate::scene::{Dice, GPU, Scene};

/// Priorities of what runs; the preemptor's is above.
const PRIORITIES: [i32; 3] = [10, 20, 30];
const ABOVE: i32 = 100;
/// The time of the requests, in seconds; what runs has started before.
const NOW: u64 = 100_000;
const TIMES: usize = 25;

/// The figures of a measurement. Times are the least of several.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    nodes: usize,
    running_pods: usize,
    running_gangs: usize,
    queues: usize,
    gang: usize,
    cold_us: f64,
    warm_us: f64,
    refused_cold_us: f64,
    refused_warm_us: f64,
    victims: u64,
    victim_pods: u64,
    least: bool,
    trials: u64,
    steps: u64,
    straight_pass_us: f64,
}

/// Fills all nodes with gangs of 8 to 64 pods of one GPU each, one after another. With a topology
/// the racks are filled in turn, as gangs that require a rack would fill them.
fn fill(scene: &Scene, cluster: &mut Cluster) -> (RunningWork, Vec<i64>) {
    let mut order: Vec<usize> = (0..scene.nodes).collect();
    if scene.topology {
        order.sort_by_key(|node| (node % scene.racks, *node));
    }
    let mut running = RunningWork::new();
    let mut sizes: Vec<i64> = Vec::new();
    let mut dice = Dice(7);
    let mut left = 0;
    let mut gang = 0;
    let (mut name, mut template) = (String::new(), Pod::new());
    for node in order {
        let gpus = if (node % scene.node_shapes).is_multiple_of(2) { 8 } else { 4 };
        for slot in 0..gpus {
            if left == 0 {
                left = 8 + dice.below(57);
                name = format!("run-{gang}");
                let priority = PRIORITIES[dice.below(PRIORITIES.len())];
                let group = PodGroup::gang(&name, left as u32).priority(priority).evicted_whole();
                // Groups of a name are sound.
                let _ = running.set_group(&group);
                let start = Time::from_secs(dice.below(NOW as usize) as u64);
                template = Pod::new().request("cpu", 1).request("memory", "2Gi").request(GPU, 1);
                template = template.priority(priority).since(start).in_group(&name);
                gang += 1;
                sizes.push(0);
            }
            left -= 1;
            if let Some(size) = sizes.last_mut() {
                *size += 1;
            }
            let pod = template.clone().name(format!("{name}-{node}-{slot}"));
            let _ = cluster.add_pod(pod.on(format!("n{node:06}")));
        }
    }
    (running, sizes)
}

fn claim(name: &str, queue: usize, gpus: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set(GPU, gpus);
    Claim::new(name, format!("q{queue}")).pods(PodSet::new("main", 1, requests))
}

/// Queues that have borrowed all that the first of them is promised: the others have their gangs in
/// turn, and are promised 8 GPUs each.
fn tenants(queues: usize, sizes: &[i64]) -> Result<Tenants, QuotaError> {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    let others = queues.max(2) - 1;
    let rest = (sizes.iter().sum::<i64>() - 8 * others as i64).max(0);
    for queue in 0..=others {
        let promised = if queue == 0 { rest } else { 8 };
        let own = Queue::leaf(format!("q{queue}")).parent("all");
        tenants.set_queue(own.quota("all", GPU, Quota::nominal(promised)))?;
    }
    let of = tenants.intern("all", GPU);
    for (gang, size) in sizes.iter().enumerate() {
        let own = claim(&format!("default/run-{gang}"), 1 + gang % others, *size);
        tenants.restore(&own, &[(of, *size)].into_iter().collect(), Time::ZERO)?;
    }
    Ok(tenants)
}

/// Measures a scene, with so many queues of tenants if there are any: then nothing is refused.
///
/// # Errors
/// More queues than there is quota for.
pub(crate) fn measure_tenants(
    scene: &Scene,
    queues: usize,
    straight_pass_us: f64,
) -> Result<Figures, QuotaError> {
    let framework = scene.framework();
    let mut cluster = scene.nodes();
    let (running, sizes) = fill(scene, &mut cluster);
    let mut tenants = tenants(queues, &sizes)?;
    let mut figures = Figures {
        nodes: scene.nodes,
        running_pods: cluster.pod_count(),
        running_gangs: running.groups().count(),
        queues,
        gang: scene.gang,
        straight_pass_us,
        ..Figures::default()
    };
    let mut churn = scene.churn();
    let mut warm = PreemptingPlanner::new();
    let mut once = |planner: &mut PreemptingPlanner, cluster: &Cluster, number: usize| {
        let mut group = scene.group(0).queue("q0").priority(ABOVE);
        group.name = format!("new-{number}");
        let own = claim(&format!("default/new-{number}"), 0, scene.gang as i64);
        let request = PreemptionRequest::new(Request::new(&group).now(Time::from_secs(NOW)));
        let start = Instant::now();
        let known = (cluster, &framework, &running);
        let found = reclaim(planner, known, (&mut tenants, &own), request);
        let micros = start.elapsed().as_secs_f64() * 1e6;
        if let Ok(Preemption::Preempt(preempt)) = found.map(|found| found.answer) {
            figures.victims = preempt.cost.units;
            figures.victim_pods = preempt.cost.pods;
            figures.least = preempt.is_least();
            figures.trials = planner.trials();
            figures.steps = preempt.steps;
        }
        micros
    };
    let (mut cold_us, mut warm_us) = (f64::INFINITY, f64::INFINITY);
    for number in 0..TIMES {
        cold_us = cold_us.min(once(&mut PreemptingPlanner::new(), &cluster, number));
    }
    for number in 0..TIMES {
        churn.step(&mut cluster);
        warm_us = warm_us.min(once(&mut warm, &cluster, number));
    }
    (figures.cold_us, figures.warm_us) = (cold_us, warm_us);
    Ok(figures)
}

pub(crate) fn measure(scene: &Scene, straight_pass_us: f64) -> Figures {
    let framework = scene.framework();
    let mut cluster = scene.nodes();
    let (running, _) = fill(scene, &mut cluster);
    let mut figures = Figures {
        nodes: scene.nodes,
        running_pods: cluster.pod_count(),
        running_gangs: running.groups().count(),
        gang: scene.gang,
        straight_pass_us,
        ..Figures::default()
    };
    let group = |number: usize, priority: i32| {
        let mut group = scene.group(0);
        group.name = format!("new-{number}");
        group.priority(priority)
    };
    let mut churn = scene.churn();
    let mut warm = PreemptingPlanner::new();
    let mut once = |planner: &mut PreemptingPlanner, cluster: &Cluster, group: &PodGroup| {
        let (micros, answer) = ask(planner, cluster, &framework, &running, group);
        if let Some(Preemption::Preempt(preempt)) = &answer {
            figures.victims = preempt.cost.units;
            figures.victim_pods = preempt.cost.pods;
            figures.least = preempt.is_least();
            figures.trials = planner.trials();
            figures.steps = preempt.steps;
        }
        (micros, answer)
    };
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let mut times: [Vec<f64>; 4] = Default::default();
    for number in 0..TIMES {
        times[0].push(once(&mut PreemptingPlanner::new(), &cluster, &group(number, ABOVE)).0);
        times[2].push(once(&mut PreemptingPlanner::new(), &cluster, &group(number, 0)).0);
    }
    once(&mut warm, &cluster, &group(TIMES, ABOVE));
    for number in 0..TIMES {
        churn.step(&mut cluster);
        let mut asked = (0.0, None);
        warm_part(&mut || asked = once(&mut warm, &cluster, &group(number, ABOVE)));
        times[1].push(asked.0);
        times[3].push(once(&mut warm, &cluster, &group(number, 0)).0);
    }
    figures.cold_us = least(&times[0]);
    figures.warm_us = least(&times[1]);
    figures.refused_cold_us = least(&times[2]);
    figures.refused_warm_us = least(&times[3]);
    figures
}

/// The part that valgrind counts where it is told this function's name: [`TIMES`] warm answers.
#[inline(never)]
fn warm_part(part: &mut dyn FnMut()) {
    part();
    std::hint::black_box(());
}

fn ask(
    planner: &mut PreemptingPlanner,
    cluster: &Cluster,
    framework: &Framework,
    running: &RunningWork,
    group: &PodGroup,
) -> (f64, Option<Preemption>) {
    let request = Request::new(group).now(Time::from_secs(NOW));
    let start = Instant::now();
    let answer = planner.place(cluster, framework, running, request);
    (start.elapsed().as_secs_f64() * 1e6, answer.ok())
}

impl Figures {
    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("nodes", self.nodes.to_string()),
            ("running_pods", self.running_pods.to_string()),
            ("running_gangs", self.running_gangs.to_string()),
            ("queues", self.queues.to_string()),
            ("gang", self.gang.to_string()),
            ("preempt_cold_us", format!("{:.3}", self.cold_us)),
            ("preempt_warm_us", format!("{:.3}", self.warm_us)),
            ("refused_cold_us", format!("{:.3}", self.refused_cold_us)),
            ("refused_warm_us", format!("{:.3}", self.refused_warm_us)),
            ("victims", self.victims.to_string()),
            ("victim_pods", self.victim_pods.to_string()),
            ("least", self.least.to_string()),
            ("trials", self.trials.to_string()),
            ("steps", self.steps.to_string()),
            ("straight_pass_us", format!("{:.3}", self.straight_pass_us)),
            ("simd", crate::report::simd()),
        ]
    }

    pub(crate) fn json(&self) -> String {
        crate::report::json(&self.fields())
    }

    pub(crate) fn text(&self) -> String {
        crate::report::text(&self.fields())
    }
}
