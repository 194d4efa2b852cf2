//! Volcano's and KAI's sets against their rules, holder by holder in all orders.

use std::collections::BTreeMap;

use phalanx::preempt::PreemptingPlanner;
use phalanx::quota::kai::{QueueShare, QueueShares, ReclaimStrategy, Reclaimer, ResourceShare};
use phalanx::quota::volcano::{Attributes, Quotas, ROOT, Resources, may_take};
use phalanx::quota::{QueueId, QueueKind, QuotaAssignment, Tenants, UNLIMITED, Usage, Weight};

use super::brute::{Legal, RESOURCES, Rules, Set, World, holds};
use crate::support::budget;

/// The jobs that a claim may take: in its own queue, and in others.
struct Kinds {
    own: Vec<usize>,
    others: Vec<usize>,
}

impl Kinds {
    fn new(world: &World, may_reclaim: bool) -> Kinds {
        let wanted = |at: &usize| {
            let job = &world.jobs[*at];
            let gives = (0..world.kinds).any(|kind| job.each[kind] > 0 && world.each[kind] > 0);
            gives && !job.is_fixed
        };
        let jobs = || (0..world.jobs.len()).filter(wanted);
        let is_own = |at: &usize| world.jobs[*at].leaf == world.leaf;
        let is_lower = |at: &usize| world.jobs[*at].priority < world.priority;
        Kinds {
            own: jobs().filter(is_own).filter(is_lower).collect(),
            others: jobs().filter(|at| !is_own(at) && may_reclaim).collect(),
        }
    }
}

/// The sets that some order leads to, each with one such order.
fn reached(jobs: &[usize], may_go: impl Fn(usize, Set) -> bool) -> BTreeMap<Set, Vec<usize>> {
    let mut known: BTreeMap<Set, Vec<usize>> = BTreeMap::from([(0, Vec::new())]);
    let mut open = vec![0];
    while let Some(gone) = open.pop() {
        for &job in jobs.iter().filter(|job| gone & 1 << **job == 0) {
            let next: Set = gone | 1 << job;
            if !known.contains_key(&next) && may_go(job, gone) {
                let order = known[&gone].iter().copied().chain([job]).collect();
                known.insert(next, order);
                open.push(next);
            }
        }
    }
    known
}

fn members(set: Set, count: usize) -> impl Iterator<Item = usize> {
    (0..count).filter(move |at| set & 1 << at != 0)
}

fn of_job(world: &World, job: usize, kind: usize) -> i64 {
    world.jobs[job].each[kind] * world.jobs[job].nodes.len() as i64
}

fn asked(world: &World, kind: usize) -> i64 {
    world.each[kind] * world.members as i64
}

/// Amounts in Volcano's units.
fn resources(world: &World, amount: impl Fn(usize) -> i64) -> Resources {
    let mut sum = Resources::default();
    for kind in 0..world.kinds {
        match RESOURCES[kind] {
            "cpu" => sum.milli_cpu += amount(kind) as f64,
            name => sum.add_scalar(name, amount(kind) as f64 * 1_000.0),
        }
    }
    sum
}

struct Volcano<'w> {
    world: &'w World,
    tenants: Tenants,
    usage: Usage,
    quotas: Option<Quotas>,
    kinds: Kinds,
}

impl<'w> Volcano<'w> {
    fn new(world: &'w World, tenants: &Tenants, assignment: &QuotaAssignment) -> Volcano<'w> {
        let request = resources(world, |kind| asked(world, kind));
        let attributes = |at: usize| {
            let leaf = &world.leaves[at];
            let jobs = || (0..world.jobs.len()).filter(|job| world.jobs[*job].leaf == at);
            let held = resources(world, |kind| jobs().map(|job| of_job(world, job, kind)).sum());
            let mut own = Attributes::new(&leaf.name);
            (own.parent, own.weight) = (ROOT.into(), leaf.weight as f64);
            own.guarantee = resources(world, |_| 0);
            if world.rules == Rules::Capacity {
                own.deserved = resources(world, |kind| leaf.guarantee[kind]);
            }
            own.capability = leaf.limit.map(|limit| resources(world, |_| limit));
            (own.request, own.allocated) = (held.clone(), held);
            if at == world.leaf {
                own.request.add(&request);
            }
            own
        };
        let asks =
            |own: &Attributes| own.name == world.leaves[world.leaf].name || !own.request.is_empty();
        let queues: Vec<Attributes> =
            (0..world.leaves.len()).map(attributes).filter(asks).collect();
        let total = resources(world, |kind| world.nodes.iter().map(|(_, own)| own[kind]).sum());
        let none = Resources::default();
        let quotas = match world.rules {
            Rules::Proportion => Some(Quotas::proportion(&total, &none, queues)),
            Rules::Capacity => Some(Quotas::capacity(&total, &none, queues)),
            _ => None,
        };
        let name = &world.leaves[world.leaf].name;
        let may_reclaim = quotas.as_ref().is_none_or(|own| own.may_reclaim(name, &request));
        let kinds = Kinds::new(world, may_reclaim);
        Volcano { world, tenants: tenants.clone(), usage: assignment.usage.clone(), quotas, kinds }
    }

    fn of(&self, job: usize) -> (&'w str, Resources) {
        let leaf = &self.world.leaves[self.world.jobs[job].leaf];
        (&leaf.name, resources(self.world, |kind| of_job(self.world, job, kind)))
    }

    fn without(&self, quotas: &Quotas, gone: Set) -> Quotas {
        let mut later = quotas.clone();
        for job in members(gone, self.world.jobs.len()) {
            let (leaf, has) = self.of(job);
            later.take(leaf, &has);
        }
        later
    }

    fn leaf(&self, at: usize) -> QueueId {
        self.tenants.tree().queue(QueueKind::Leaf, &self.world.leaves[at].name).unwrap()
    }

    /// `drf`: the share of a queue once jobs have gone.
    fn share(&self, at: usize, gone: Set) -> f64 {
        let mut later = self.tenants.clone();
        for job in members(gone, self.world.jobs.len()) {
            later.release(later.find(&format!("default/j{job}")).unwrap()).unwrap();
        }
        later.share(self.leaf(at)).weighted()
    }

    fn may_go(&self, job: usize, gone: Set) -> bool {
        let world = self.world;
        if let Some(quotas) = &self.quotas {
            let request = resources(world, |kind| asked(world, kind));
            let later = self.without(quotas, gone);
            let (leaf, has) = self.of(job);
            return later.victims(&world.leaves[world.leaf].name, &request, &[(leaf, &has)])[0];
        }
        if world.jobs[job].leaf == world.leaf {
            return true;
        }
        let mut with = self.tenants.clone();
        with.keep(self.leaf(world.leaf), &self.usage, 1).unwrap();
        let taker = with.share(self.leaf(world.leaf)).weighted();
        may_take(taker, self.share(world.jobs[job].leaf, gone | 1 << job))
    }
}

impl Legal for Volcano<'_> {
    fn sets(&self) -> Vec<Set> {
        let Kinds { own, others } = &self.kinds;
        if self.quotas.is_none() {
            let all: Vec<usize> = own.iter().chain(others).copied().collect();
            return reached(&all, |job, gone| self.may_go(job, gone)).into_keys().collect();
        }
        let mut sets = reached(own, |_, _| true);
        sets.extend(reached(others, |job, gone| self.may_go(job, gone)));
        sets.into_keys().collect()
    }

    fn has_quota(&self, set: Set) -> bool {
        let world = self.world;
        let jobs = || 0..world.jobs.len();
        let enough = (0..world.kinds).all(|kind| {
            let left = jobs().filter(|at| set & 1 << at == 0);
            let used: i64 = left.map(|at| of_job(world, at, kind)).sum();
            let total: i64 = world.nodes.iter().map(|(_, own)| own[kind]).sum();
            used + asked(world, kind) <= total
        });
        let request = resources(world, |kind| asked(world, kind));
        enough
            && match &self.quotas {
                Some(quotas) => {
                    let later = self.without(quotas, set);
                    later.allocatable(&world.leaves[world.leaf].name, &request)
                }
                None => (0..world.kinds).all(|kind| {
                    let own = jobs()
                        .filter(|at| world.jobs[*at].leaf == world.leaf && set & 1 << at == 0);
                    let used: i64 = own.map(|at| of_job(world, at, kind)).sum();
                    let limit = world.leaves[world.leaf].limit;
                    limit.is_none_or(|limit| used + asked(world, kind) <= limit)
                }),
            }
    }
}

struct Kai<'w> {
    world: &'w World,
    shares: QueueShares,
    /// Places of the leaves.
    leaves: Vec<usize>,
    reclaimer: Reclaimer,
    kinds: Kinds,
}

impl<'w> Kai<'w> {
    fn new(world: &'w World, tenants: &Tenants, assignment: &QuotaAssignment) -> Kai<'w> {
        let mut asking = tenants.clone();
        let leaf = tenants.tree().queue(QueueKind::Leaf, &world.leaves[world.leaf].name).unwrap();
        for (of, amount) in &assignment.usage {
            asking.wait(leaf, *of, *amount).unwrap();
        }
        let kinds = 0..world.kinds;
        let total = |kind: usize| world.nodes.iter().map(|(_, own)| own[kind]).sum();
        let mut shares = QueueShares::new(
            kinds.clone().map(total).collect(),
            kinds.clone().map(|_| 1).collect(),
        );
        let names = world.leaves.iter().filter_map(|own| own.inner);
        let inner: std::collections::BTreeSet<usize> = names.collect();
        let inner: Vec<usize> = inner.into_iter().collect();
        let queue = |kind: QueueKind, name: &str, deserved: [i64; 2], limit: Option<i64>| {
            let id = asking.tree().queue(kind, name).unwrap();
            let resource = |at: usize| {
                let of = asking.tree().flavor_resource("all", RESOURCES[at]).unwrap();
                let sums = asking.tree().sums(id, of);
                ResourceShare {
                    deserved: deserved[at],
                    limit: limit.unwrap_or(UNLIMITED),
                    weight: Weight::new(1),
                    request: sums.requested(),
                    allocated: sums.used,
                    fair_share: asking.deserved(id, of),
                    ..ResourceShare::default()
                }
            };
            QueueShare {
                name: name.into(),
                resources: kinds.clone().map(resource).collect(),
                ..QueueShare::default()
            }
        };
        for number in &inner {
            let own = queue(QueueKind::Inner, &format!("i{number}"), [UNLIMITED; 2], None);
            shares.queues.push(own);
        }
        let mut leaves = Vec::new();
        for leaf in &world.leaves {
            let mut own = queue(QueueKind::Leaf, &leaf.name, leaf.guarantee, leaf.limit);
            own.parent = leaf.inner.and_then(|at| inner.iter().position(|other| *other == at));
            leaves.push(shares.queues.len());
            shares.queues.push(own);
        }
        let request = kinds.map(|kind| asked(world, kind)).collect();
        let reclaimer = Reclaimer { queue: leaves[world.leaf], request, preemptible: true };
        let kinds = Kinds::new(world, shares.may_reclaim(&reclaimer));
        Kai { world, shares, leaves, reclaimer, kinds }
    }

    fn of(&self, job: usize) -> (usize, phalanx::quota::kai::KaiQuantities) {
        let given = (0..self.world.kinds).map(|kind| of_job(self.world, job, kind)).collect();
        (self.leaves[self.world.jobs[job].leaf], given)
    }

    fn may_go(&self, job: usize, gone: Set) -> bool {
        let (leaf, _) = self.of(job);
        let (side, other) = self.shares.sides(self.reclaimer.queue, leaf);
        let kinds = 0..self.world.kinds;
        let mut held: Vec<i64> =
            kinds.map(|kind| self.shares.share(other, kind).allocated).collect();
        for before in members(gone, self.world.jobs.len()) {
            let (leaf, given) = self.of(before);
            if self.shares.sides(self.reclaimer.queue, leaf).1 == other {
                held.iter_mut().zip(&given).for_each(|(held, given)| *held -= given);
            }
        }
        [ReclaimStrategy::MaintainFairShare, ReclaimStrategy::GuaranteeDeserved].into_iter().any(
            |strategy| {
                let request = (side, &self.reclaimer.request[..]);
                self.shares.strategy_allows(strategy, request, (other, &held))
            },
        )
    }
}

impl Legal for Kai<'_> {
    fn sets(&self) -> Vec<Set> {
        let mut sets: Vec<Set> = reached(&self.kinds.own, |_, _| true).into_keys().collect();
        let others = reached(&self.kinds.others, |job, gone| self.may_go(job, gone));
        let allowed = others.into_iter().filter(|(set, order)| {
            let order: Vec<_> = order.iter().map(|job| self.of(*job)).collect();
            *set != 0 && self.shares.allows_victims(&self.reclaimer, &order)
        });
        sets.extend(allowed.map(|(set, _)| set));
        sets
    }

    fn has_quota(&self, set: Set) -> bool {
        let mut left = self.shares.clone();
        for (leaf, given) in members(set, self.world.jobs.len()).map(|job| self.of(job)) {
            left.charge(leaf, &given, true, -1);
        }
        let own = &self.reclaimer;
        let whole = (0..self.world.kinds).all(|kind| {
            let held = left.children(None).map(|top| left.share(top, kind).allocated);
            held.sum::<i64>() + own.request[kind] <= left.totals[kind]
        });
        whole && left.fits(own.queue, &own.request, own.preemptible).is_ok()
    }
}

#[test]
fn the_least_set_of_other_dialects_is_found_wherever_there_is_one() {
    let mut planner = PreemptingPlanner::new();
    let mut counts: BTreeMap<(Rules, &str), u64> = BTreeMap::new();
    let from = budget::number("PHALANX_RECLAIM_SEED").unwrap_or(0);
    let worlds = budget::of(400, 10_000);
    let rules = [Rules::Proportion, Rules::Capacity, Rules::Drf, Rules::Kai, Rules::Kai];
    for seed in from..from + worlds {
        let world = World::random(seed, &rules);
        let word = holds(seed, &world, &mut planner, |tenants, assignment| {
            if world.is_volcano() {
                Box::new(Volcano::new(&world, tenants, assignment)) as Box<dyn Legal>
            } else {
                Box::new(Kai::new(&world, tenants, assignment))
            }
        });
        *counts.entry((world.rules, word)).or_default() += 1;
    }
    println!("{counts:?}");
    for rules in [Rules::Proportion, Rules::Capacity, Rules::Drf, Rules::Kai] {
        let found = ["as quota alone", "other victims"].map(|word| counts.get(&(rules, word)));
        assert!(found.iter().flatten().count() == 2, "{counts:?}");
    }
}
