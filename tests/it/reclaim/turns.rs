//! No taking of turns: in worlds where nothing arrives and nothing ends, whoever was evicted does not
//! take back what it lost, and evictions come to an end. The loser may take from the side that took
//! where that has grown since, by a group that started without victims, or where its own queue gives
//! up a group of lower priority too. `PHALANX_RECLAIM_TRACE` tells the evictions.
//!
//! Every eviction from other queues lowers a potential: the shares of the queues, largest first, if
//! all queues stand side by side. In deeper trees the same holds of the two sides that are compared.

use std::collections::BTreeSet;

use phalanx::model::Amounts;
use phalanx::preempt::{PreemptingPlanner, Preemption, PreemptionRequest, RunningWork};
use phalanx::quota::{
    Claim, Flavor, FlavorResource, PodSet, Queue, QueueId, Quota, QuotaAssignment, Tenants, Weight,
};
use phalanx::reclaim::reclaim;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Time};

use crate::support::budget;
use crate::support::dice::Dice;

const GPUS: i64 = 4;

struct Job {
    queue: usize,
    members: usize,
    each: i64,
    gang: PodGroup,
}

struct World {
    dice: Dice,
    cluster: Cluster,
    framework: Framework,
    running: RunningWork,
    tenants: Tenants,
    of: FlavorResource,
    /// Leaves with guarantee and weight.
    leaves: Vec<(QueueId, i64, i64)>,
    is_flat: bool,
    jobs: Vec<Job>,
    runs: BTreeSet<usize>,
    now: u64,
}

/// Sums over the events of a world.
#[derive(Debug, Default)]
struct Sums {
    evictions: usize,
    starts: usize,
    /// Groups that took back what they lost, from a side that had grown since.
    returns: usize,
}

impl World {
    fn random(seed: u64) -> World {
        let mut dice = Dice(seed ^ 0x7a1e_0ff5);
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        let racks = 1 + dice.roll(3) as i64;
        let nodes = racks * (1 + dice.roll(3) as i64);
        for number in 0..nodes {
            let node = Node::new(format!("n{number}")).capacity("gpu", GPUS);
            let node = node.label("rack", format!("k{}", number % racks));
            cluster.add_node(node).unwrap();
        }
        let mut tenants = Tenants::default();
        tenants.set_flavor(Flavor::new("all"));
        let is_flat = dice.one_in(2);
        let mut left = nodes * GPUS;
        let mut leaves = Vec::new();
        for number in 0..2 + dice.roll(4) {
            let guarantee = dice.roll(left as u64 / 2 + 2) as i64;
            let guarantee = guarantee.min(left);
            left -= guarantee;
            let weight = 1 + dice.roll(3);
            let parent = if is_flat || dice.one_in(3) {
                "root".to_string()
            } else {
                let inner = format!("i{}", dice.roll(2));
                tenants.set_queue(Queue::inner(&inner).parent("root")).unwrap();
                inner
            };
            let queue = Queue::leaf(format!("q{number}")).parent(parent);
            let queue = queue.weight(Weight::new(weight));
            let id = tenants.set_queue(queue.quota("all", "gpu", Quota::nominal(guarantee)));
            leaves.push((id.unwrap(), guarantee, weight as i64));
        }
        // The rest is nobody's.
        let root = Queue::inner("root").quota("all", "gpu", Quota::nominal(left));
        tenants.set_queue(root).unwrap();
        let of = tenants.intern("all", "gpu");
        let mut running = RunningWork::new();
        let mut jobs = Vec::new();
        for number in 0..6 + dice.roll(12) {
            let members = 1 + dice.roll(4) as usize;
            let each = 1 + dice.roll(GPUS as u64) as i64;
            let queue = dice.roll(leaves.len() as u64) as usize;
            let gang = PodGroup::gang(format!("g{number}"), members as u32);
            let gang = gang.pods(members, Pod::new().request("gpu", each)).evicted_whole();
            let gang = gang.queue(format!("q{queue}")).priority(dice.roll(3) as i32);
            let gang = if dice.one_in(3) { gang.require("rack") } else { gang };
            running.set_group(&gang).unwrap();
            jobs.push(Job { queue, members, each, gang });
        }
        World {
            dice,
            cluster,
            framework: Framework::default(),
            running,
            tenants,
            of,
            leaves,
            is_flat,
            jobs,
            runs: BTreeSet::new(),
            now: 1,
        }
    }

    fn claim(&self, at: usize) -> Claim {
        let job = &self.jobs[at];
        let mut requests = Amounts::new();
        requests.set("gpu", job.each * job.members as i64);
        let set = PodSet::new("main", 1, requests);
        let mut claim = Claim::new(format!("default/g{at}"), format!("q{}", job.queue)).pods(set);
        claim.priority = i64::from(job.gang.priority);
        claim
    }

    /// Borrowed amounts over weights, largest first, in sixths.
    fn potential(&self) -> Vec<i64> {
        let share = |&(leaf, guarantee, weight): &(QueueId, i64, i64)| {
            (self.tenants.tree().sums(leaf, self.of).used - guarantee).max(0) * 6 / weight
        };
        let mut shares: Vec<i64> = self.leaves.iter().map(share).collect();
        shares.sort_unstable_by(|a, b| b.cmp(a));
        shares
    }

    /// The two queues right below the lowest that is above both leaves.
    fn sides(&self, a: usize, b: usize) -> (QueueId, QueueId) {
        let path = |at: usize| {
            let mut path: Vec<QueueId> = self.tenants.tree().path(self.leaves[at].0).collect();
            path.reverse();
            path
        };
        let (one, other) = (path(a), path(b));
        let at = one.iter().zip(&other).position(|(a, b)| a != b).unwrap();
        (one[at], other[at])
    }

    /// Tries a job that waits: the victims, if it started.
    fn attempt(&mut self, at: usize) -> Option<Vec<usize>> {
        let claim = self.claim(at);
        let gang = self.jobs[at].gang.clone();
        let request = PreemptionRequest::new(Request::new(&gang).now(Time::from_secs(self.now)));
        let known = (&self.cluster, &self.framework, &self.running);
        let mut planner = PreemptingPlanner::new();
        let found = reclaim(&mut planner, known, (&mut self.tenants, &claim), request).unwrap();
        let (plan, victims) = match found.answer {
            Preemption::Placed(plan) => (plan, Vec::new()),
            Preemption::Preempt(preempt) => (preempt.plan, preempt.victims),
            _ => return None,
        };
        let place = |name: &str| name.strip_prefix("default/g").unwrap().parse::<usize>().unwrap();
        let taken: Vec<usize> = victims.iter().map(|victim| place(&victim.name)).collect();
        for pod in victims.iter().flat_map(|victim| &victim.pods) {
            self.cluster.remove_pod("default", &pod.name).unwrap();
        }
        for holder in &found.holders {
            self.tenants.release(*holder).unwrap();
        }
        for victim in &taken {
            assert!(self.runs.remove(victim));
        }
        self.cluster.commit(&self.framework, &plan).unwrap();
        self.admit(&claim, &found.assignment);
        self.runs.insert(at);
        Some(taken)
    }

    fn admit(&mut self, claim: &Claim, assignment: &QuotaAssignment) {
        let amount = assignment.usage.iter().map(|(_, amount)| *amount).sum::<i64>();
        assert!(amount > 0);
        self.tenants.restore(claim, &assignment.usage, Time::from_secs(self.now)).unwrap();
    }

    /// An eviction: queue, size and priority of each job, then what each queue uses now, its guarantee
    /// and its weight.
    fn told(&self, at: usize, taken: &[usize]) -> String {
        let told = |job: usize| {
            let own = &self.jobs[job];
            let size = own.members as i64 * own.each;
            format!("g{job} (q{}, {size}, {})", own.queue, own.gang.priority)
        };
        let tree = self.tenants.tree();
        let used = self.leaves.iter().map(|&(leaf, guarantee, weight)| {
            (tree.parent(leaf), tree.sums(leaf, self.of).used, guarantee, weight)
        });
        let victims: Vec<String> = taken.iter().map(|job| told(*job)).collect();
        format!("{} takes {victims:?}: {:?}", told(at), used.collect::<Vec<_>>())
    }

    /// Runs a world until no job that waits can start.
    fn run(&mut self, seed: u64) -> Sums {
        let mut sums = Sums::default();
        let most = self.jobs.len() * self.jobs.len();
        let is_loud = std::env::var_os("PHALANX_RECLAIM_TRACE").is_some();
        // The last claim with victims, these, and what has started without victims since.
        let mut last: Option<(usize, Vec<usize>, Vec<usize>)> = None;
        loop {
            let mut waiting: Vec<usize> =
                (0..self.jobs.len()).filter(|at| !self.runs.contains(at)).collect();
            for at in (1..waiting.len()).rev() {
                waiting.swap(at, self.dice.roll(at as u64 + 1) as usize);
            }
            let mut is_quiet = true;
            for at in waiting {
                self.now += 1;
                let before = self.potential();
                let Some(taken) = self.attempt(at) else { continue };
                is_quiet = false;
                sums.starts += 1;
                if taken.is_empty() {
                    if let Some((_, _, since)) = &mut last {
                        since.push(at);
                    }
                    continue;
                }
                sums.evictions += taken.len();
                assert!(sums.evictions <= most, "seed {seed}: evictions never end");
                let own = self.jobs[at].queue;
                if is_loud {
                    eprintln!("{}", self.told(at, &taken));
                }
                let others: Vec<usize> = taken.iter().map(|job| self.jobs[*job].queue).collect();
                let others: Vec<usize> = others.into_iter().filter(|queue| *queue != own).collect();
                if let Some((winner, losers, since)) = &last {
                    let is_back = losers.contains(&at) && taken.contains(winner);
                    let theirs = self.jobs[*winner].queue;
                    let has_grown = |(_, side): (QueueId, QueueId)| {
                        since.iter().any(|job| {
                            let leaf = self.leaves[self.jobs[*job].queue].0;
                            self.tenants.tree().path(leaf).any(|queue| queue == side)
                        })
                    };
                    sums.returns += usize::from(is_back && theirs != own);
                    // A queue that gives up a group of lower priority has a smaller share.
                    let gives = taken.iter().any(|job| self.jobs[*job].queue == own);
                    let may = theirs == own || gives || has_grown(self.sides(own, theirs));
                    assert!(!is_back || may, "seed {seed}: g{at} takes back from g{winner}");
                }
                last = Some((at, taken.clone(), Vec::new()));
                let (leaf, guarantee, _) = self.leaves[own];
                let is_within = self.tenants.tree().sums(leaf, self.of).used <= guarantee;
                for &other in others.iter().filter(|_| !is_within) {
                    let (side, theirs) = self.sides(own, other);
                    let (side, theirs) = (self.tenants.share(side), self.tenants.share(theirs));
                    assert!(side <= theirs, "seed {seed}: g{at} stands above q{other} now");
                }
                if self.is_flat && !others.is_empty() {
                    let after = self.potential();
                    assert!(
                        after < before,
                        "seed {seed}: g{at} took {taken:?}: {before:?} {after:?}"
                    );
                }
            }
            if is_quiet {
                return sums;
            }
        }
    }
}

#[test]
fn evictions_lower_a_potential_and_come_to_an_end() {
    let from = budget::number("PHALANX_RECLAIM_SEED").unwrap_or(0);
    let worlds = budget::of(30, 5_000);
    let (mut evictions, mut starts, mut returns, mut worst) = (0, 0, 0, 0);
    for seed in from..from + worlds {
        let sums = World::random(seed).run(seed);
        evictions += sums.evictions;
        starts += sums.starts;
        returns += sums.returns;
        worst = worst.max(sums.evictions);
    }
    println!(
        "{starts} starts, {evictions} evictions, {worst} at most in one world; {returns} taken back"
    );
    assert!(evictions as u64 > worlds, "{evictions} evictions in {worlds} worlds");
}
