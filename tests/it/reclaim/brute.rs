//! Small clusters under trees of queues: the least set that may yield and gives room and quota, by
//! trying all sets in all orders. Rules of this crate's own dialect and of Kueue; `peers.rs` has those
//! of Volcano and KAI.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx::model::{Amounts, LabelSelector};
use phalanx::preempt::{
    Cost, DisruptionBudget, PreemptingPlanner, Preemption, PreemptionRequest, RunningWork,
};
use phalanx::quota::kai::CLUSTER;
use phalanx::quota::{
    AssignmentMode, BorrowWithinCohort, Claim, FairStrategy, Flavor, FlavorResource, HolderId,
    KueueSettings, PodSet, Queue, QueueId, QueueKind, QueuePreemption, QueuePreemptionPolicy,
    Quota, QuotaAssignment, TenantSettings, Tenants, Usage, Weight,
};
use phalanx::reclaim::reclaim;
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Strategy, Time};

use crate::support::budget;
use crate::support::dice::Dice;

const NOW: u64 = 1_000;
pub(super) const RESOURCES: [&str; 2] = ["gpu", "cpu"];

/// A set of jobs, by their places in the world.
pub(super) type Set = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rules {
    Own,
    Fair,
    Classical,
    Proportion,
    Capacity,
    Drf,
    Kai,
}

/// The sets that may yield by the words of a guide, and whether one gives the claim its quota.
pub(super) trait Legal {
    fn sets(&self) -> Vec<Set>;
    fn has_quota(&self, set: Set) -> bool;
}

#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) inner: Option<usize>,
    pub(super) guarantee: [i64; 2],
    pub(super) limit: Option<i64>,
    pub(super) weight: u64,
    policy: QueuePreemption,
}

/// A job: pods on nodes, all of one size, that go together.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) leaf: usize,
    pub(super) nodes: Vec<usize>,
    pub(super) each: [i64; 2],
    pub(super) priority: i32,
    start: u64,
    pub(super) is_fixed: bool,
    app: u64,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) kinds: usize,
    pub(super) leaves: Vec<Leaf>,
    /// Rack and capacity.
    pub(super) nodes: Vec<(u64, [i64; 2])>,
    pub(super) jobs: Vec<Job>,
    budgets: Vec<(u64, i64)>,
    /// The leaf of a claim that quota is put aside for, and its amounts.
    aside: Option<(usize, [i64; 2])>,
    pub(super) members: usize,
    pub(super) each: [i64; 2],
    in_rack: bool,
    pub(super) leaf: usize,
    pub(super) priority: i32,
}

impl World {
    pub(super) fn random(seed: u64, rules: &[Rules]) -> World {
        let mut dice = Dice(seed ^ 0x0f1e_1d00);
        let rules = dice.of(rules);
        let kinds = 1 + dice.roll(2) as usize;
        let racks = 1 + dice.roll(3);
        let amounts = |dice: &mut Dice, least: u64, sides: u64| {
            let mut amounts = [0; 2];
            for amount in amounts.iter_mut().take(kinds) {
                *amount = (least + dice.roll(sides)) as i64;
            }
            amounts
        };
        let nodes: Vec<(u64, [i64; 2])> =
            (0..3 + dice.roll(3)).map(|_| (dice.roll(racks), amounts(&mut dice, 2, 3))).collect();
        let is_nested = matches!(rules, Rules::Own | Rules::Fair | Rules::Kai);
        let inner = if is_nested { dice.roll(3) } else { 0 };
        let policies = [QueuePreemptionPolicy::Any, QueuePreemptionPolicy::LowerPriority];
        // Under small guarantees inner queues borrow too, and those beside a claim matter for others.
        let most = if dice.one_in(2) { 2 } else { 9 };
        let mut leaves = Vec::new();
        for number in 0..2 + dice.roll(3) {
            let mut borrow = BorrowWithinCohort::default();
            borrow.lower_priority = dice.one_in(2);
            borrow.max_priority_threshold = dice.one_in(2).then(|| dice.roll(3) as i64);
            leaves.push(Leaf {
                name: format!("q{number}"),
                inner: (inner > 0 && !dice.one_in(4)).then(|| dice.roll(inner) as usize),
                guarantee: amounts(&mut dice, 1, most),
                limit: dice.one_in(6).then(|| 4 + dice.roll(6) as i64),
                weight: 1 + dice.roll(3),
                policy: QueuePreemption::default()
                    .within_cluster_queue(QueuePreemptionPolicy::LowerPriority)
                    .reclaim_within_cohort(dice.of(&policies))
                    .borrow_within_cohort(borrow),
            });
        }
        let mut free: Vec<[i64; 2]> = nodes.iter().map(|(_, own)| *own).collect();
        let mut jobs = Vec::new();
        for _ in 0..4 + dice.roll(6) {
            let each = amounts(&mut dice, 1, 2);
            let mut own = Vec::new();
            for _ in 0..if dice.one_in(3) { 2 } else { 1 } {
                let node = dice.roll(nodes.len() as u64) as usize;
                if (0..2).all(|at| free[node][at] >= each[at]) {
                    (0..2).for_each(|at| free[node][at] -= each[at]);
                    own.push(node);
                }
            }
            if !own.is_empty() {
                jobs.push(Job {
                    leaf: dice.roll(leaves.len() as u64) as usize,
                    nodes: own,
                    each,
                    priority: dice.roll(4) as i32,
                    start: dice.roll(NOW),
                    is_fixed: dice.one_in(12),
                    app: dice.roll(2),
                });
            }
        }
        World {
            rules,
            kinds,
            nodes,
            jobs,
            budgets: if dice.one_in(4) { vec![(0, dice.roll(3) as i64)] } else { Vec::new() },
            members: 1 + dice.roll(3) as usize,
            each: amounts(&mut dice, 1, 3),
            in_rack: dice.one_in(2),
            leaf: dice.roll(leaves.len() as u64) as usize,
            priority: dice.roll(4) as i32,
            aside: dice
                .one_in(4)
                .then(|| (dice.roll(leaves.len() as u64) as usize, amounts(&mut dice, 1, 8))),
            leaves,
        }
    }

    fn total(&self, at: usize) -> i64 {
        self.nodes.iter().map(|(_, own)| own[at]).sum()
    }

    fn empty_tenants(&self) -> Tenants {
        let mut tenants = match self.rules {
            Rules::Own => Tenants::with(TenantSettings::default().patience(Duration::ZERO)),
            Rules::Fair => {
                let strategy = FairStrategy::LessThanOrEqualToFinalShare;
                Tenants::kueue_with(KueueSettings::default().fair_with([strategy]))
            }
            Rules::Classical => Tenants::kueue(),
            Rules::Proportion => Tenants::volcano_proportion(),
            Rules::Capacity => Tenants::volcano_capacity(),
            Rules::Drf => Tenants::volcano_drf(),
            Rules::Kai => Tenants::kai(),
        };
        tenants.set_flavor(Flavor::new("all"));
        if self.is_volcano() {
            let mut root = Queue::inner("root");
            for at in 0..self.kinds {
                root = root.quota("all", RESOURCES[at], Quota::nominal(self.total(at)));
            }
            tenants.set_queue(root).unwrap();
        }
        tenants
    }

    pub(super) fn is_volcano(&self) -> bool {
        matches!(self.rules, Rules::Proportion | Rules::Capacity | Rules::Drf)
    }

    /// The quota of a leaf, in the words of the dialect.
    fn quota(&self, leaf: &Leaf, at: usize) -> Quota {
        let guarantee = leaf.guarantee[at];
        let quota = match self.rules {
            Rules::Capacity => Quota::nominal(0).deserved(guarantee),
            Rules::Proportion | Rules::Drf => Quota::nominal(0),
            _ => Quota::nominal(guarantee),
        };
        let has_limits = !matches!(self.rules, Rules::Fair | Rules::Classical);
        match leaf.limit.filter(|_| has_limits) {
            Some(limit) => quota.limit(limit),
            None => quota,
        }
    }

    pub(super) fn tenants(&self) -> Tenants {
        let mut tenants = self.empty_tenants();
        let root = (!matches!(self.rules, Rules::Kai)).then_some("root");
        for leaf in &self.leaves {
            let parent = leaf.inner.map(|inner| format!("i{inner}"));
            if let Some(parent) = &parent {
                let inner = Queue::inner(parent);
                let inner = root.into_iter().fold(inner, |inner, root| inner.parent(root));
                tenants.set_queue(inner).unwrap();
            }
            let queue = Queue::leaf(&leaf.name).weight(Weight::new(leaf.weight));
            let parent = parent.or_else(|| root.map(String::from));
            let mut queue = parent.into_iter().fold(queue, |queue, parent| queue.parent(parent));
            for at in 0..self.kinds {
                queue = queue.quota("all", RESOURCES[at], self.quota(leaf, at));
            }
            tenants.set_queue(queue.preemption(leaf.policy)).unwrap();
        }
        if self.rules == Rules::Kai {
            let whole = (0..self.kinds).fold(Queue::inner(CLUSTER), |whole, at| {
                whole.quota("all", RESOURCES[at], Quota::nominal(self.total(at)))
            });
            tenants.set_queue(whole).unwrap();
        }
        for (number, job) in self.jobs.iter().enumerate() {
            let mut claim =
                self.claim(&format!("default/j{number}"), job.leaf, job.each, job.nodes.len());
            claim.priority = i64::from(job.priority);
            claim.preemptible = job.is_fixed.then_some(false);
            let usage: Usage = (0..self.kinds)
                .map(|at| {
                    let amount = job.each[at] * job.nodes.len() as i64;
                    (tenants.intern("all", RESOURCES[at]), amount)
                })
                .collect();
            tenants.restore(&claim, &usage, Time::from_secs(job.start)).unwrap();
        }
        if let Some((leaf, each)) = self.aside.filter(|_| self.rules == Rules::Own) {
            let old = self.claim("default/old", leaf, each, 1);
            tenants.put_aside(&old, Time::from_secs(NOW)).unwrap();
        }
        tenants
    }

    pub(super) fn claim(&self, name: &str, leaf: usize, each: [i64; 2], pods: usize) -> Claim {
        let mut requests = Amounts::new();
        for at in 0..self.kinds {
            requests.set(RESOURCES[at], each[at] * pods as i64);
        }
        let set = PodSet::new("main", pods as u32, requests);
        Claim::new(name, &self.leaves[leaf].name).pods(set)
    }

    fn pod(&self, each: [i64; 2]) -> Pod {
        (0..self.kinds).fold(Pod::new(), |pod, at| pod.request(RESOURCES[at], each[at]))
    }

    fn cluster(&self) -> (Cluster, RunningWork) {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        let mut running = RunningWork::new();
        for (number, (rack, amounts)) in self.nodes.iter().enumerate() {
            let mut node = Node::new(format!("n{number}")).label("rack", format!("k{rack}"));
            for at in 0..self.kinds {
                node = node.capacity(RESOURCES[at], amounts[at]);
            }
            cluster.add_node(node).unwrap();
        }
        for (number, job) in self.jobs.iter().enumerate() {
            let name = format!("j{number}");
            let mut group = PodGroup::gang(&name, 1).priority(job.priority).evicted_whole();
            group.non_preemptible = job.is_fixed;
            group.queue = self.leaves[job.leaf].name.clone();
            running.set_group(&group).unwrap();
            for (member, node) in job.nodes.iter().enumerate() {
                let pod = self.pod(job.each).name(format!("{name}-{member}")).in_group(&name);
                let pod = pod.label("app", format!("a{}", job.app)).priority(job.priority);
                let pod = pod.since(Time::from_secs(job.start));
                cluster.add_pod(pod.on(format!("n{node}"))).unwrap();
            }
        }
        for (app, allowed) in &self.budgets {
            let selector = LabelSelector::label("app", format!("a{app}"));
            running.set_budget(DisruptionBudget::new(format!("b{app}"), selector, *allowed));
        }
        (cluster, running)
    }

    /// Whether the gang has room without some jobs.
    fn has_room(&self, gone: Set) -> bool {
        let mut free: Vec<[i64; 2]> = self.nodes.iter().map(|(_, own)| *own).collect();
        for (at, job) in self.jobs.iter().enumerate().filter(|(at, _)| gone & 1 << at == 0) {
            let _ = at;
            for &node in &job.nodes {
                (0..2).for_each(|at| free[node][at] -= job.each[at]);
            }
        }
        let mut by_rack: BTreeMap<u64, i64> = BTreeMap::new();
        for (node, (rack, _)) in self.nodes.iter().enumerate() {
            let fits = (0..self.kinds).map(|at| free[node][at] / self.each[at]).min().unwrap();
            *by_rack.entry(if self.in_rack { *rack } else { 0 }).or_default() += fits;
        }
        by_rack.values().any(|fits| *fits >= self.members as i64)
    }

    /// The cost of some jobs: budgets, priority, work, units, pods.
    fn cost(&self, set: Set) -> Cost {
        let jobs =
            || self.jobs.iter().enumerate().filter(|(at, _)| set & 1 << at != 0).map(|own| own.1);
        let pods = |job: &Job| job.nodes.len() as u64;
        let mut cost = Cost::NOTHING;
        for (app, allowed) in &self.budgets {
            let taken: u64 = jobs().filter(|job| job.app == *app).map(pods).sum();
            cost.budgets_broken += taken.saturating_sub(*allowed as u64);
        }
        cost.highest_priority = jobs().map(|job| job.priority).max();
        cost.work_lost = jobs().map(|job| (NOW - job.start) * 1_000 * pods(job)).sum();
        cost.units = u64::from(set.count_ones());
        cost.pods = jobs().map(pods).sum();
        cost
    }
}

/// Who may yield, by the words of the guide: one after another, in any order, each by the sums as
/// they stand at its turn.
struct Definition<'w> {
    world: &'w World,
    start: Tenants,
    holders: Vec<HolderId>,
    leaf: QueueId,
    usage: Usage,
    pairs: Vec<FlavorResource>,
    within: bool,
    /// Whether the claim has to leave what is put aside for another, and does not fit beside it.
    is_barred: bool,
}

impl<'w> Definition<'w> {
    fn new(world: &'w World, tenants: &Tenants, assignment: &QuotaAssignment) -> Definition<'w> {
        let usage = &assignment.usage;
        let mut start = tenants.clone();
        let leaf = start.tree().queue(QueueKind::Leaf, &world.leaves[world.leaf].name).unwrap();
        let holders =
            (0..world.jobs.len()).map(|at| start.find(&format!("default/j{at}")).unwrap());
        let holders = holders.collect();
        let is_short = |tenants: &mut Tenants, own: &(FlavorResource, i64)| {
            !tenants.fits(leaf, &[*own].into_iter().collect(), &[])
        };
        let mut pairs: Vec<FlavorResource> =
            usage.iter().filter(|own| is_short(&mut start, own)).map(|own| own.0).collect();
        if pairs.is_empty() {
            pairs = usage.iter().map(|own| own.0).collect();
        }
        let own = |of: &FlavorResource| usage.iter().find(|own| own.0 == *of).unwrap().1;
        let within = pairs.iter().all(|of| {
            let sums = start.tree().sums(leaf, *of);
            sums.drawn + own(of) <= sums.nominal
        });
        let aside = start.aside_usage().map(|(queue, usage)| (queue, usage.clone()));
        let guaranteed = usage.iter().all(|&(of, amount)| {
            let sums = start.tree().sums(leaf, of);
            amount == 0 || sums.drawn + amount <= sums.subtree
        });
        let is_bound = |own: &(QueueId, Usage)| own.0 == leaf || !guaranteed;
        let is_barred = aside.filter(is_bound).is_some_and(|(queue, aside)| {
            let mut beside = start.clone();
            beside.keep(queue, &aside, 1).unwrap();
            !beside.fits(leaf, usage, &[])
        });
        // With fair shares the claim counts as used.
        if world.rules != Rules::Classical {
            start.keep(leaf, usage, 1).unwrap();
        }
        Definition { world, start, holders, leaf, usage: usage.clone(), pairs, within, is_barred }
    }

    fn without(&self, gone: Set) -> Tenants {
        let mut tenants = self.start.clone();
        for at in (0..self.holders.len()).filter(|at| gone & 1 << at != 0) {
            tenants.release(self.holders[at]).unwrap();
        }
        tenants
    }

    /// The queues of a leaf below the one in common, the leaf first; and the claim's side.
    fn sides(&self, leaf: QueueId) -> (Vec<QueueId>, QueueId) {
        let tree = self.start.tree();
        let path: Vec<QueueId> = tree.path(self.leaf).collect();
        let below: Vec<QueueId> = tree.path(leaf).take_while(|at| !path.contains(at)).collect();
        let common = tree.path(leaf).find(|at| path.contains(at)).unwrap();
        let level = path.iter().position(|at| *at == common).unwrap();
        (below, path[level - 1])
    }

    fn is_candidate(&self, job: usize) -> bool {
        let (world, own) = (self.world, &self.world.jobs[job]);
        let of = |of: &FlavorResource| {
            let at = RESOURCES.iter().position(|name| *name == self.start.tree().names(*of).1);
            own.each[at.unwrap()] > 0
        };
        if own.is_fixed || !self.pairs.iter().any(of) {
            return false;
        }
        let lower = own.priority < world.priority;
        if own.leaf == world.leaf {
            return lower;
        }
        let policy = world.leaves[world.leaf].policy.reclaim_within_cohort;
        world.rules == Rules::Own || policy == QueuePreemptionPolicy::Any || lower
    }

    /// Whether a job may go next.
    fn may_go(&self, job: usize, gone: Set) -> bool {
        if !self.is_candidate(job) {
            return false;
        }
        if self.world.jobs[job].leaf == self.world.leaf {
            return true;
        }
        let now = self.without(gone);
        let name = &self.world.leaves[self.world.jobs[job].leaf].name;
        let leaf = now.tree().queue(QueueKind::Leaf, name).unwrap();
        let (below, own_side) = self.sides(leaf);
        let beyond = |at: &QueueId| {
            self.pairs.iter().any(|of| {
                let sums = now.tree().sums(*at, *of);
                sums.drawn > sums.subtree
            })
        };
        if self.world.rules == Rules::Classical {
            return below.iter().all(beyond);
        }
        if !beyond(&leaf) || !below.iter().all(|at| now.share(*at).borrowing) {
            return false;
        }
        if self.within {
            return true;
        }
        let later = self.without(gone | 1 << job);
        let keeps = |of: &FlavorResource| {
            let at = RESOURCES.iter().position(|name| *name == later.tree().names(*of).1).unwrap();
            let sums = later.tree().sums(leaf, *of);
            self.world.jobs[job].each[at] == 0 || sums.drawn >= sums.subtree
        };
        let keeps = self.world.rules == Rules::Fair || self.pairs.iter().all(keeps);
        let (own, side) = (later.share(own_side), *below.last().unwrap());
        let is_less = self.world.rules == Rules::Fair || own < now.share(side);
        keeps && is_less && own <= later.share(side)
    }

    /// Without fair shares: a claim that borrows in the end takes by the rules for borrowers alone.
    fn may_end(&self, set: Set) -> bool {
        if self.world.rules != Rules::Classical || self.within_own(0) {
            return true;
        }
        let borrow = self.world.leaves[self.world.leaf].policy.borrow_within_cohort;
        let yields = |job: &Job| {
            job.leaf == self.world.leaf
                || borrow.lower_priority
                    && job.priority < self.world.priority
                    && borrow
                        .max_priority_threshold
                        .is_none_or(|most| i64::from(job.priority) <= most)
        };
        let jobs = self.world.jobs.iter().enumerate().filter(|(at, _)| set & 1 << at != 0);
        jobs.map(|own| own.1).all(yields) || self.within_own(set)
    }

    /// Whether the claim is within its own quota once a set has gone.
    fn within_own(&self, set: Set) -> bool {
        let later = self.without(set);
        self.usage.iter().all(|(of, amount)| {
            let sums = later.tree().sums(self.leaf, *of);
            sums.drawn + amount <= sums.nominal
        })
    }
}

impl Legal for Definition<'_> {
    /// All sets that may yield.
    fn sets(&self) -> Vec<Set> {
        let mut known: BTreeSet<Set> = BTreeSet::from([0]);
        if self.is_barred {
            return vec![0];
        }
        let mut open: Vec<Set> = vec![0];
        while let Some(gone) = open.pop() {
            for job in (0..self.holders.len()).filter(|job| gone & 1 << job == 0) {
                if !known.contains(&(gone | 1 << job)) && self.may_go(job, gone) {
                    known.insert(gone | 1 << job);
                    open.push(gone | 1 << job);
                }
            }
        }
        known.into_iter().filter(|set| self.may_end(*set)).collect()
    }

    fn has_quota(&self, set: Set) -> bool {
        if self.is_barred {
            return false;
        }
        let mut later = self.without(set);
        if self.world.rules != Rules::Classical {
            later.keep(self.leaf, &self.usage, -1).unwrap();
        }
        later.fits(self.leaf, &self.usage, &[])
    }
}

/// Holds what is said of each set to the definition: it may yield or not, in whatever order holders were
/// numbered, and each part of one that may is said to begin one.
fn check_sets(
    seed: u64,
    (tenants, claim, assignment): (&mut Tenants, &Claim, &QuotaAssignment),
    of_jobs: &[HolderId],
    sets: &[Set],
) {
    let yields = tenants.yields(claim, assignment).unwrap().unwrap();
    let ids = |set: Set| {
        let own = (0..of_jobs.len()).filter(|at| set & 1 << at != 0);
        own.map(|at| of_jobs[at]).collect::<Vec<_>>()
    };
    let legal: BTreeSet<Set> = sets.iter().copied().collect();
    let candidates = yields.candidates();
    let mut begun: BTreeSet<Set> = BTreeSet::new();
    for set in 0..1 << of_jobs.len() {
        let mut own = ids(set);
        for _ in 0..2 {
            assert_eq!(yields.may_yield(&own), legal.contains(&set), "seed {seed}: {own:?}");
            own.reverse();
        }
        if legal.contains(&set) {
            begun.extend((0..=set).filter(|part| part & !set == 0));
            assert!(own.iter().all(|own| candidates.contains(own)), "seed {seed}: {own:?}");
        }
    }
    for part in begun {
        assert!(yields.may_begin(&ids(part)), "seed {seed}: {:?} of a set", ids(part));
    }
}

/// Holds the answer in a world to a definition.
#[allow(
    clippy::elidable_lifetime_names,
    clippy::needless_lifetimes,
    reason = "a definition borrows the world"
)]
pub(super) fn holds<'w>(
    seed: u64,
    world: &'w World,
    planner: &mut PreemptingPlanner,
    define: impl FnOnce(&Tenants, &QuotaAssignment) -> Box<dyn Legal + 'w>,
) -> &'static str {
    let mut tenants = world.tenants();
    let (cluster, running) = world.cluster();
    let mut claim = world.claim("default/new", world.leaf, world.each, world.members);
    claim.priority = i64::from(world.priority);
    let gang =
        PodGroup::gang("new", world.members as u32).pods(world.members, world.pod(world.each));
    let gang = gang.priority(world.priority).queue(&world.leaves[world.leaf].name);
    let gang = if world.in_rack { gang.require("rack") } else { gang };
    let before = tenants.decide(&claim).unwrap();
    let request = || {
        let request = Request::new(&gang).now(Time::from_secs(NOW)).strategy(Strategy::Search);
        PreemptionRequest::new(request).budget(1_000_000)
    };
    let framework = Framework::default();
    let found =
        reclaim(planner, (&cluster, &framework, &running), (&mut tenants, &claim), request());
    let found = found.unwrap();
    assert_eq!(before, tenants.decide(&claim).unwrap(), "seed {seed}: the books have changed");
    if found.assignment.mode == AssignmentMode::NoFit {
        return "limits";
    }
    let definition = define(&tenants, &found.assignment);
    let of_job = |at: usize| tenants.find(&format!("default/j{at}")).unwrap();
    let of_jobs: Vec<HolderId> = (0..world.jobs.len()).map(of_job).collect();
    let sets = definition.sets();
    check_sets(seed, (&mut tenants, &claim, &found.assignment), &of_jobs, &sets);
    let fits = |set: &Set| world.has_room(*set) && definition.has_quota(*set);
    let mut costs: Vec<(Cost, Set)> =
        sets.iter().filter(|set| fits(set)).map(|set| (world.cost(*set), *set)).collect();
    costs.sort_unstable();
    let least = costs.first().copied();
    let text = || {
        format!(
            "seed {seed}: {} {least:?} {:?} {world:#?}",
            found.answer,
            found.answer.preempt().map(|own| &own.victims)
        )
    };
    match &found.answer {
        Preemption::Placed(_) => {
            assert_eq!(least.map(|own| own.1), Some(0), "{}", text());
            "placed"
        }
        Preemption::Preempt(preempt) => {
            let place =
                |name: &str| name.strip_prefix("default/j").unwrap().parse::<usize>().unwrap();
            let set: Set = preempt.victims.iter().map(|victim| 1 << place(&victim.name)).sum();
            assert!(sets.contains(&set), "illegal, {}", text());
            assert!(fits(&set), "not enough, {}", text());
            let (cost, _) = least.unwrap_or_else(|| panic!("{}", text()));
            assert_eq!((preempt.cost, preempt.lower_bound), (cost, cost), "{}", text());
            let holders: BTreeSet<HolderId> =
                preempt.victims.iter().map(|own| of_jobs[place(&own.name)]).collect();
            assert_eq!(found.holders, holders.into_iter().collect::<Vec<_>>(), "{}", text());
            // What is taken gives room and quota.
            let mut after = cluster.clone();
            for pod in preempt.victims.iter().flat_map(|victim| &victim.pods) {
                after.remove_pod("default", &pod.name).unwrap();
            }
            after.commit(&framework, &preempt.plan).unwrap();
            for holder in &found.holders {
                tenants.release(*holder).unwrap();
            }
            assert_eq!(
                tenants.decide(&claim).unwrap().assignment.mode,
                AssignmentMode::Fit,
                "{}",
                text()
            );
            tenants.admit(&claim, &found.assignment, Time::from_secs(NOW)).unwrap();
            if before.victims.iter().map(|own| own.holder).collect::<BTreeSet<_>>()
                == found.holders.iter().copied().collect()
            {
                "as quota alone"
            } else {
                "other victims"
            }
        }
        Preemption::NoVictimsHelp(_) => {
            assert_eq!(least, None, "{}", text());
            "none"
        }
        _ => panic!("{}", text()),
    }
}

/// Rules of a stream of worlds.
const RULES: [Rules; 5] = [Rules::Own, Rules::Own, Rules::Own, Rules::Fair, Rules::Classical];

/// Holds the answer in a world from a seed to the definition.
pub(crate) fn one(seed: u64, planner: &mut PreemptingPlanner) -> &'static str {
    let world = World::random(seed, &RULES);
    holds(seed, &world, planner, |tenants, assignment| {
        Box::new(Definition::new(&world, tenants, assignment))
    })
}

#[test]
fn the_least_set_that_may_yield_is_found_wherever_there_is_one() {
    let mut planner = PreemptingPlanner::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let from = budget::number("PHALANX_RECLAIM_SEED").unwrap_or(0);
    let worlds = budget::of(150, 10_000);
    for seed in from..from + worlds {
        *counts.entry(one(seed, &mut planner)).or_default() += 1;
    }
    println!("{counts:?}");
    for word in ["as quota alone", "other victims", "none", "placed"] {
        assert!(counts.get(word).is_some_and(|count| count * 60 > worlds), "{counts:?}");
    }
}
