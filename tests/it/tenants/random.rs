//! Random events: sums against sums made anew, and the index against one without a past.

use std::collections::BTreeMap;

use phalanx::Time;
use phalanx::model::Amounts;
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, FlavorResource, Head, HolderId, KueueSettings, PodSet, Queue,
    QueueId, QueueKind, QueuePreemption, QueuePreemptionPolicy, QueueTree, Quota, Tenants, Usage,
    Weight,
};

use crate::support::budget;
use crate::support::dice::Dice;

/// Places in a list.
trait Below {
    fn below(&mut self, end: usize) -> usize;
}

impl Below for Dice {
    fn below(&mut self, end: usize) -> usize {
        self.roll(end as u64) as usize
    }
}

const FLAVORS: [&str; 2] = ["f0", "f1"];
const RESOURCES: [&str; 2] = ["cpu", "gpu"];
const LEAVES: usize = 8;
const INNER: usize = 5;

fn quota(dice: &mut Dice) -> Quota {
    let mut quota = Quota::nominal(dice.below(10) as i64);
    if dice.one_in(3) {
        quota = quota.borrowing_limit(dice.below(8) as i64);
    }
    if dice.one_in(3) {
        quota = quota.lending_limit(dice.below(8) as i64);
    }
    quota
}

fn quotas(dice: &mut Dice, mut queue: Queue) -> Queue {
    for flavor in FLAVORS {
        for resource in RESOURCES {
            queue = queue.quota(flavor, resource, quota(dice));
        }
    }
    queue.weight(Weight::from_nanos(dice.below(4) as u64 * 500_000_000))
}

fn leaf(dice: &mut Dice, at: usize) -> Queue {
    let queue = Queue::leaf(format!("q{at}"));
    let mut queue = quotas(dice, queue);
    if !dice.one_in(8) {
        queue = queue.parent(format!("c{}", dice.below(INNER)));
    }
    let policies = [
        QueuePreemptionPolicy::Never,
        QueuePreemptionPolicy::LowerPriority,
        QueuePreemptionPolicy::LowerOrNewerEqualPriority,
        QueuePreemptionPolicy::Any,
    ];
    let mut preemption = QueuePreemption::default()
        .within_cluster_queue(policies[dice.below(3)])
        .reclaim_within_cohort([policies[0], policies[1], policies[3], policies[3]][dice.below(4)]);
    let borrow = &mut preemption.borrow_within_cohort;
    borrow.lower_priority = dice.one_in(3);
    borrow.max_priority_threshold = dice.one_in(2).then(|| dice.below(4) as i64);
    queue.preemption(preemption)
}

fn inner(dice: &mut Dice, at: usize) -> Queue {
    let mut queue = Queue::inner(format!("c{at}"));
    if dice.one_in(2) {
        queue = quotas(dice, queue);
    }
    // Circles are among these.
    if dice.one_in(2) { queue.parent(format!("c{}", dice.below(INNER))) } else { queue }
}

fn claim(dice: &mut Dice, number: usize) -> Claim {
    let mut requests = Amounts::new();
    requests.set("cpu", dice.below(6) as i64);
    if dice.one_in(2) {
        requests.set("gpu", 1 + dice.below(4) as i64);
    }
    Claim::new(format!("w{number}"), format!("q{}", dice.below(LEAVES)))
        .pods(PodSet::new("main", 1, requests))
        .priority(dice.below(4) as i64)
        .created(Time::from_secs(dice.below(50) as u64))
}

/// The expected numbers of a tree for one resource in a flavor, computed from specs and from the
/// use of leaves.
fn expected(
    tree: &QueueTree,
    used: &BTreeMap<(String, FlavorResource), i64>,
    queue: QueueId,
    of: FlavorResource,
) -> (i64, i64, i64, i64) {
    let spec = tree.spec(queue).expect("there");
    let quota = tree.quota(queue, of).cloned().unwrap_or_default();
    let (mut subtree, mut drawn, mut all) = (quota.nominal, 0, 0);
    if spec.kind == QueueKind::Leaf {
        all = used.get(&(spec.name.clone(), of)).copied().unwrap_or(0);
        drawn = all;
    }
    for child in tree.children(queue) {
        let (below, local, taken, used) = expected(tree, used, child, of);
        subtree += below - local;
        drawn += (taken - local).max(0);
        all += used;
    }
    let local = quota.lending_limit.map_or(0, |limit| (subtree - limit).max(0));
    (subtree, local, drawn, all)
}

/// Everything that is said, in words.
fn brief(tenants: &mut Tenants, claims: &[Claim]) -> Vec<String> {
    let mut lines = Vec::new();
    for claim in claims {
        let decision = tenants.decide(claim).expect("sound");
        let mut victims: Vec<_> = decision
            .victims
            .iter()
            .map(|victim| {
                (tenants.holder(victim.holder).expect("held").name.clone(), victim.reason)
            })
            .collect();
        victims.sort();
        let assignment = decision.assignment;
        let usage: BTreeMap<_, _> =
            assignment.usage.iter().map(|(of, n)| (tenants.tree().names(*of), *n)).collect();
        let line = format!("{} {:?} {} {usage:?}", claim.name, assignment.mode, assignment.level);
        lines.push(format!("{line} {victims:?}"));
    }
    lines
}

/// The same queues and holders, fed in another order.
fn anew(
    tenants: &Tenants,
    settings: KueueSettings,
    held: &[(HolderId, Claim, Usage, Time)],
) -> Tenants {
    let mut other = Tenants::kueue_with(settings);
    for flavor in FLAVORS {
        other.set_flavor(Flavor::new(flavor));
    }
    for kind in [QueueKind::Leaf, QueueKind::Inner] {
        let mut specs: Vec<Queue> =
            tenants.tree().queues(kind).filter_map(|id| tenants.tree().spec(id).cloned()).collect();
        specs.reverse();
        for spec in specs {
            other.set_queue(spec).expect("sound");
        }
    }
    for (holder, claim, usage, since) in held.iter().rev() {
        let usage = usage
            .iter()
            .map(|(of, amount)| {
                let (flavor, resource) = tenants.tree().names(*of);
                (other.intern(flavor, resource), *amount)
            })
            .collect();
        let id = other.restore(claim, &usage, *since).expect("in range");
        let leaving = tenants.holder(*holder).expect("held").leaving;
        other.set_leaving(id, leaving).expect("held");
    }
    other
}

/// One stream; how many searches found victims.
pub(crate) fn run(seed: u64, fair: bool) -> usize {
    let mut dice = Dice(seed);
    let settings = KueueSettings::default();
    let settings = if fair { settings.fair() } else { settings };
    let mut tenants = Tenants::kueue_with(settings.clone());
    for flavor in FLAVORS {
        tenants.set_flavor(Flavor::new(flavor));
    }
    for at in 0..INNER {
        tenants.set_queue(inner(&mut dice, at)).expect("sound");
    }
    for at in 0..LEAVES {
        tenants.set_queue(leaf(&mut dice, at)).expect("sound");
    }
    let pairs: Vec<FlavorResource> = FLAVORS
        .iter()
        .flat_map(|flavor| RESOURCES.map(|resource| (flavor, resource)))
        .map(|(flavor, resource)| tenants.intern(flavor, resource))
        .collect();
    let mut held: Vec<(HolderId, Claim, Usage, Time)> = Vec::new();
    let mut found = 0;
    for number in 0..120 {
        match dice.below(10) {
            0 => {
                let queue = leaf(&mut dice, number % LEAVES);
                tenants.set_queue(queue).expect("sound");
            }
            1 => {
                let queue = inner(&mut dice, number % INNER);
                tenants.set_queue(queue).expect("sound");
            }
            2 if !held.is_empty() => {
                let (holder, ..) = held.swap_remove(dice.below(held.len()));
                tenants.release(holder).expect("held");
            }
            3 if !held.is_empty() => {
                let holder = held[dice.below(held.len())].0;
                let leaving = tenants.holder(holder).expect("held").leaving;
                tenants.set_leaving(holder, !leaving).expect("held");
            }
            _ => {
                let claim = claim(&mut dice, number);
                let decision = tenants.decide(&claim).expect("sound");
                // Some are over quota, as after a change of it.
                let usage: Usage = if decision.assignment.mode == AssignmentMode::Fit {
                    decision.assignment.usage
                } else {
                    let amount = |resource| claim.pod_sets[0].requests.of(resource);
                    let flavor = dice.below(2) * 2;
                    [(pairs[flavor], amount("cpu")), (pairs[flavor + 1], amount("gpu"))]
                        .into_iter()
                        .collect()
                };
                let since = Time::from_secs(dice.below(30) as u64);
                let holder = tenants.restore(&claim, &usage, since).expect("in range");
                held.push((holder, claim, usage, since));
            }
        }
        let mut used: BTreeMap<(String, FlavorResource), i64> = BTreeMap::new();
        for (_, claim, usage, _) in &held {
            for (of, amount) in usage {
                *used.entry((claim.queue.clone(), *of)).or_default() += amount;
            }
        }
        let tree = tenants.tree();
        for kind in [QueueKind::Leaf, QueueKind::Inner] {
            for queue in tree.queues(kind) {
                for &of in &pairs {
                    let sums = tree.sums(queue, of);
                    let own = (sums.subtree, sums.local, sums.drawn, sums.used);
                    let name = &tree.spec(queue).expect("there").name;
                    assert_eq!(own, expected(tree, &used, queue, of), "{seed} {number} {name}");
                }
            }
        }
        if number % 4 == 0 {
            let claims: Vec<Claim> = (0..4).map(|at| claim(&mut dice, 1_000 + at)).collect();
            let own = brief(&mut tenants, &claims);
            let mut other = anew(&tenants, settings.clone(), &held);
            assert_eq!(own, brief(&mut other, &claims), "{seed} {number}");
            found += own.iter().filter(|line| line.contains("In")).count();
            // What was tried has left no trace.
            assert_eq!(own, brief(&mut tenants, &claims), "{seed} {number}");
        }
    }
    found
}

#[test]
fn sums_and_searches_are_as_if_made_anew() {
    let mut found = 0;
    for seed in 0..budget::of(30, 60) {
        found += run(seed, seed % 2 == 1);
    }
    assert!(found > 200, "only {found} searches found victims");
}

/// The order of heads by the book: all shares made anew for each head that is taken.
fn plain_order(tenants: &Tenants, mut heads: Vec<(QueueId, Head)>) -> Vec<String> {
    fn winner<'a>(
        tenants: &Tenants,
        queue: QueueId,
        heads: &'a [(QueueId, Head)],
    ) -> Option<&'a (QueueId, Head)> {
        if let Some(own) = heads.iter().find(|(id, _)| *id == queue) {
            return Some(own);
        }
        let tree = tenants.tree();
        let rules = tenants.head_rules();
        let mut best: Option<(phalanx::quota::HeadStanding, &(QueueId, Head))> = None;
        for child in tree.children(queue) {
            let Some(entry) = winner(tenants, child, heads) else { continue };
            let mut with = tenants.clone();
            with.keep(entry.0, &entry.1.usage, 1).expect("in range");
            let standing = phalanx::quota::HeadStanding {
                preempts: entry.1.preempts,
                borrows: entry
                    .1
                    .usage
                    .iter()
                    .any(|(of, _)| with.tree().sums(child, *of).borrowed() > 0),
                share: with.share(child),
                level: entry.1.level,
                priority: entry.1.priority,
                since: entry.1.since,
            };
            let first = best.is_none_or(|(other, chosen)| {
                let order = rules.compare(&standing, &other);
                order.then(entry.1.name.cmp(&chosen.1.name)).is_lt()
            });
            if first {
                best = Some((standing, entry));
            }
        }
        best.map(|(_, entry)| entry)
    }
    let mut tenants = tenants.clone();
    let root = tenants.tree().path(heads[0].0).last().expect("a root");
    let mut order = Vec::new();
    while let Some(entry) = winner(&tenants, root, &heads).cloned() {
        heads.retain(|(id, _)| *id != entry.0);
        order.push(entry.1.name.clone());
        tenants.keep(entry.0, &entry.1.usage, 1).expect("in range");
    }
    order
}

#[test]
fn heads_go_in_the_order_of_a_tournament_held_anew_for_each() {
    for seed in 0..40 {
        let mut dice = Dice(seed + 7_000);
        let mut tenants = Tenants::kueue_with(KueueSettings::default().fair());
        for flavor in FLAVORS {
            tenants.set_flavor(Flavor::new(flavor));
        }
        for at in 1..INNER {
            let queue = quotas(&mut dice, Queue::inner(format!("c{at}")));
            let parent = format!("c{}", dice.below(at));
            tenants.set_queue(queue.parent(parent)).expect("sound");
        }
        let mut heads = Vec::new();
        for at in 0..LEAVES {
            let queue = leaf(&mut dice, at).parent(format!("c{}", dice.below(INNER)));
            let id = tenants.set_queue(queue).expect("sound");
            let mut usage = || -> Usage {
                let of = (FLAVORS[dice.below(2)], RESOURCES[dice.below(2)]);
                let amount = dice.below(12) as i64;
                [(tenants.intern(of.0, of.1), amount)].into_iter().collect()
            };
            let (used, wanted) = (usage(), usage());
            tenants.keep(id, &used, 1).expect("in range");
            let mut head = Head::new(format!("h{at}"), wanted);
            head.priority = dice.below(2) as i64;
            head.since = Time::from_secs(dice.below(2) as u64);
            heads.push((id, head));
        }
        let plain = plain_order(&tenants, heads.clone());
        let mut order = tenants.heads();
        for (id, head) in heads {
            order.set(&mut tenants, id, head);
        }
        let mut names = Vec::new();
        while let Some((id, head)) = order.pop(&mut tenants) {
            names.push(head.name);
            tenants.keep(id, &head.usage, 1).expect("in range");
            order.changed(&mut tenants, id);
        }
        assert_eq!(names, plain, "{seed}");
    }
}
