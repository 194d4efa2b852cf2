//! Cliques: a gang wants a whole rack of 16 nodes, and small jobs of two other queues have borrowed
//! all that its queue is promised.

use phalanx::model::Amounts;
use phalanx::preempt::{PreemptingPlanner, PreemptionRequest, RunningWork};
use phalanx::quota::{
    Claim, Flavor, KueueSettings, PodSet, Queue, QueuePreemption, QueuePreemptionPolicy, Quota,
    Tenants, Usage,
};
use phalanx::reclaim::reclaim;
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Request, Time};

use crate::support::budget;
use crate::support::dice::Dice;

const NODES: usize = 16;
const GPUS: i64 = 4;
const NOW: u64 = 100_000;

struct Job {
    queue: usize,
    node: usize,
    gpus: i64,
    start: u64,
}

struct Clique {
    racks: usize,
    /// Promised to the queues of the gang and of both kinds of jobs.
    promised: [i64; 3],
    jobs: Vec<Job>,
}

const QUEUES: [&str; 3] = ["train", "serve", "batch"];

impl Clique {
    fn random(seed: u64) -> Clique {
        let mut dice = Dice(seed ^ 0xc11c);
        loop {
            let racks = 3 + dice.roll(3) as usize;
            let whole = (racks * NODES) as i64 * GPUS;
            let train = (1 + dice.roll(racks as u64 - 1) as i64) * NODES as i64 * GPUS;
            let serve = dice.roll((whole - train) as u64 + 1) as i64;
            let share = 20 + dice.roll(61);
            let mut jobs = Vec::new();
            for node in 0..racks * NODES {
                let mut free = GPUS;
                while free > 0 {
                    let gpus = (1 + dice.roll(4) as i64).min(free);
                    free -= gpus;
                    let queue = if dice.chance(share) { 1 } else { 2 };
                    jobs.push(Job { queue, node, gpus, start: dice.roll(NOW) });
                }
            }
            let clique = Clique { racks, promised: [train, serve, whole - train - serve], jobs };
            if clique.has_rack() {
                return clique;
            }
        }
    }

    fn used(&self, queue: usize) -> i64 {
        self.jobs.iter().filter(|job| job.queue == queue).map(|job| job.gpus).sum()
    }

    /// Whether there is a rack whose jobs may yield: each queue still borrows when its last job goes.
    fn has_rack(&self) -> bool {
        let may = |rack: usize, queue: usize| {
            let own =
                || self.jobs.iter().filter(|job| job.node / NODES == rack && job.queue == queue);
            let (sum, last) = (
                own().map(|job| job.gpus).sum::<i64>(),
                own().map(|job| job.gpus).max().unwrap_or(0),
            );
            sum == 0 || sum - last < self.used(queue) - self.promised[queue]
        };
        (0..self.racks).any(|rack| may(rack, 1) && may(rack, 2))
    }

    fn tenants(&self, mut tenants: Tenants) -> Tenants {
        tenants.set_flavor(Flavor::new("all"));
        let reclaim = QueuePreemption::default().reclaim_within_cohort(QueuePreemptionPolicy::Any);
        for (name, promised) in QUEUES.iter().zip(self.promised) {
            let queue = Queue::leaf(*name).parent("all").preemption(reclaim);
            tenants.set_queue(queue.quota("all", "gpu", Quota::nominal(promised))).unwrap();
        }
        let of = tenants.intern("all", "gpu");
        for (number, job) in self.jobs.iter().enumerate() {
            let claim = claim(&format!("default/j{number}"), QUEUES[job.queue], job.gpus);
            let usage: Usage = [(of, job.gpus)].into_iter().collect();
            tenants.restore(&claim, &usage, Time::from_secs(job.start)).unwrap();
        }
        tenants
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        for number in 0..self.racks * NODES {
            let node = Node::new(format!("n{number}")).capacity("gpu", GPUS);
            cluster.add_node(node.label("rack", format!("k{}", number / NODES))).unwrap();
        }
        for (number, job) in self.jobs.iter().enumerate() {
            let pod = Pod::new().name(format!("j{number}")).request("gpu", job.gpus);
            let pod = pod.since(Time::from_secs(job.start));
            cluster.add_pod(pod.on(format!("n{}", job.node))).unwrap();
        }
        cluster
    }
}

fn claim(name: &str, queue: &str, gpus: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("gpu", gpus);
    Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
}

/// Whether the gang has a place if quota alone names victims, and the pod-hours that they have run.
fn by_quota_alone(
    clique: &Clique,
    cluster: &Cluster,
    tenants: Tenants,
    gang: &PodGroup,
) -> (bool, u64) {
    let mut tenants = clique.tenants(tenants);
    let own = claim("default/clique", "train", NODES as i64 * GPUS);
    let decision = tenants.decide(&own).unwrap();
    let mut txn = cluster.txn();
    let mut lost = 0;
    for victim in &decision.victims {
        let name = &tenants.holder(victim.holder).unwrap().name;
        let job: usize = name.strip_prefix("default/j").unwrap().parse().unwrap();
        lost += NOW - clique.jobs[job].start;
        txn.evict("default", &format!("j{job}")).unwrap();
    }
    let placed = Planner::new().place(&txn, &Framework::default(), gang).unwrap().is_placed();
    (placed, lost / 3_600)
}

#[test]
fn a_clique_of_borrowed_nodes_is_assembled() {
    let framework = Framework::default();
    let mut planner = PreemptingPlanner::new();
    let gang = PodGroup::gang("clique", NODES as u32).pods(NODES, Pod::new().request("gpu", GPUS));
    let gang = gang.require("rack").queue("train");
    let clusters = budget::of(8, 500);
    let (mut placed, mut hours, mut least) = (0, 0, 0);
    let mut alone = [(0, 0); 3];
    for seed in 0..clusters {
        let clique = Clique::random(seed);
        let cluster = clique.cluster();
        let mut tenants = clique.tenants(Tenants::default());
        let own = claim("default/clique", "train", NODES as i64 * GPUS);
        let request = PreemptionRequest::new(Request::new(&gang).now(Time::from_secs(NOW)));
        let running = RunningWork::new();
        let found =
            reclaim(&mut planner, (&cluster, &framework, &running), (&mut tenants, &own), request);
        let answer = found.unwrap().answer;
        let preempt = answer.preempt().unwrap_or_else(|| panic!("seed {seed}: {answer}"));
        placed += 1;
        least += u64::from(preempt.is_least());
        hours += preempt.cost.work_lost / 3_600_000;
        let fair = Tenants::kueue_with(KueueSettings::default().fair());
        for (at, dialect) in [Tenants::default(), Tenants::kueue(), fair].into_iter().enumerate() {
            let (is_placed, lost) = by_quota_alone(&clique, &cluster, dialect, &gang);
            alone[at] = (alone[at].0 + u64::from(is_placed), alone[at].1 + lost);
        }
    }
    println!(
        "of {clusters}: {placed} placed, {least} proved least, {hours} pod-hours; alone {alone:?}"
    );
    assert_eq!((placed, least), (clusters, clusters));
    assert!(alone.iter().all(|(placed, _)| *placed < clusters / 2), "{alone:?}");
}
