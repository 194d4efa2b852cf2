//! The default dialect over random events, against a model that makes every sum anew.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::Time;
use phalanx::model::Amounts;
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, HolderId, PodSet, Queue, QueueId, QueueKind, Quota,
    QuotaDecision, TenantSettings, Tenants, Weight,
};

use crate::support::budget;
use crate::support::dice::Dice;

const RESOURCES: [&str; 2] = ["gpu", "cpu"];
const PATIENCE: u64 = 500;

/// Held amounts by claim, with the leaf.
type Held = BTreeMap<String, (usize, [i64; 2])>;

struct World {
    tenants: Tenants,
    /// By leaf: inner queue, guarantees, limits, weight.
    leaves: Vec<(usize, [i64; 2], [i64; 2], u64)>,
    inner: usize,
    held: Held,
    waiting: Vec<(Claim, usize, [i64; 2])>,
    now: u64,
    next: u64,
}

impl World {
    fn new(dice: &mut Dice) -> World {
        let settings = TenantSettings::default().patience(Duration::from_secs(PATIENCE));
        let mut world = World {
            tenants: Tenants::with(settings),
            leaves: Vec::new(),
            inner: 1 + dice.roll(3) as usize,
            held: Held::new(),
            waiting: Vec::new(),
            now: 0,
            next: 0,
        };
        world.tenants.set_flavor(Flavor::new("all"));
        for at in 0..2 + dice.roll(6) as usize {
            let inner = dice.roll(world.inner as u64) as usize;
            world.leaves.push((inner, [0; 2], [i64::MAX; 2], 1));
            world.resize(at, dice);
        }
        world
    }

    fn resize(&mut self, at: usize, dice: &mut Dice) {
        let guaranteed = [dice.roll(12) as i64, dice.roll(30) as i64];
        let limit = |own: i64, dice: &mut Dice| own + dice.roll(20) as i64;
        let limits = if dice.one_in(3) {
            [limit(guaranteed[0], dice), limit(guaranteed[1], dice)]
        } else {
            [i64::MAX; 2]
        };
        let weight = dice.roll(4);
        let inner = self.leaves[at].0;
        self.leaves[at] = (inner, guaranteed, limits, weight);
        let mut queue =
            Queue::leaf(format!("q{at}")).parent(format!("c{inner}")).weight(Weight::new(weight));
        for (number, resource) in RESOURCES.into_iter().enumerate() {
            let quota = Quota::nominal(guaranteed[number]).limit(limits[number]);
            queue = queue.quota("all", resource, quota);
        }
        self.tenants.set_queue(queue).expect("sound");
        let inner = Queue::inner(format!("c{inner}")).parent("root");
        self.tenants.set_queue(inner).expect("sound");
    }

    fn leaf(&self, at: usize) -> QueueId {
        self.tenants.tree().queue(QueueKind::Leaf, &format!("q{at}")).expect("known")
    }

    fn used(&self, at: usize) -> [i64; 2] {
        let own = self.held.values().filter(|(leaf, _)| *leaf == at);
        own.fold([0; 2], |sum, (_, more)| [sum[0] + more[0], sum[1] + more[1]])
    }

    fn total(&self, of: usize) -> i64 {
        self.leaves.iter().map(|leaf| leaf.1[of]).sum()
    }

    fn claim(&mut self, dice: &mut Dice) {
        let at = dice.roll(self.leaves.len() as u64) as usize;
        let amounts = [1 + dice.roll(6) as i64, dice.roll(10) as i64];
        let mut requests = Amounts::new();
        for (resource, amount) in RESOURCES.into_iter().zip(amounts) {
            requests.set(resource, amount);
        }
        self.next += 1;
        let claim = Claim::new(format!("w{:06}", self.next), format!("q{at}"))
            .priority(dice.roll(3) as i64)
            .created(Time::from_secs(self.now))
            .pods(PodSet::new("main", 1, requests));
        self.waiting.push((claim, at, amounts));
    }

    /// Checks that hold of any decision, whatever led to it.
    fn judge(&self, claim: &Claim, at: usize, amounts: [i64; 2], decision: &QuotaDecision) {
        let mut after: Vec<[i64; 2]> = (0..self.leaves.len()).map(|at| self.used(at)).collect();
        let before = after.clone();
        for victim in &decision.victims {
            let holder = self.tenants.holder(victim.holder).expect("it holds");
            let (leaf, held) = self.held[&holder.name];
            for of in 0..2 {
                after[leaf][of] -= held[of];
            }
        }
        for of in 0..2 {
            after[at][of] += amounts[of];
        }
        let fits = |sums: &[[i64; 2]]| {
            (0..2).all(|of| {
                let sum: i64 = sums.iter().map(|own| own[of]).sum();
                amounts[of] == 0 || sum <= self.total(of) && sums[at][of] <= self.leaves[at].2[of]
            })
        };
        // With the claim, and before anything is given back.
        let within = (0..2)
            .all(|of| amounts[of] == 0 || before[at][of] + amounts[of] <= self.leaves[at].1[of]);
        match decision.assignment.mode {
            AssignmentMode::Fit => assert!(fits(&after), "{claim:?} goes beyond a limit"),
            AssignmentMode::Preempt if decision.victims.is_empty() => {}
            AssignmentMode::Preempt => {
                assert!(fits(&after), "the victims of {claim:?} suffice");
                for (other, own) in self.leaves.iter().enumerate().filter(|(other, _)| *other != at)
                {
                    for of in 0..2 {
                        let taken = after[other][of] < before[other][of] && amounts[of] > 0;
                        let below = after[other][of] < own.1[of];
                        // Of what the claim needs and cannot have as it is.
                        let needs = {
                            let sum: i64 = before.iter().map(|own| own[of]).sum();
                            sum + amounts[of] > self.total(of)
                        };
                        let own_part = before[at][of] + amounts[of] <= self.leaves[at].1[of];
                        assert!(
                            !(taken && below && needs) || own_part,
                            "{claim:?} takes a guarantee of {}",
                            RESOURCES[of]
                        );
                    }
                }
            }
            AssignmentMode::NoFit => {
                let never =
                    (0..2).any(|of| amounts[of] > self.total(of).min(self.leaves[at].2[of]));
                assert!(never, "{claim:?} could be had some day");
            }
        }
        if self.tenants.aside().is_none() && decision.assignment.mode != AssignmentMode::Fit {
            let mut sums = before.clone();
            for of in 0..2 {
                sums[at][of] += amounts[of];
            }
            assert!(!fits(&sums), "{claim:?} waits though there is room: not work-conserving");
        }
        // What is guaranteed comes back: nobody is protected here, so that it suffices that others
        // borrow.
        let own_oldest = self.tenants.aside_usage().is_some_and(|(leaf, _)| leaf == self.leaf(at));
        if within && !own_oldest && decision.assignment.mode == AssignmentMode::Preempt {
            let aside = self.tenants.aside_usage();
            let leaves: Vec<_> = self.leaves.iter().zip(&before).collect();
            assert!(
                !decision.victims.is_empty(),
                "{claim:?} does not get what is its own: {leaves:?}, {aside:?}"
            );
        }
    }

    fn admit(&mut self, index: usize) {
        let (claim, at, amounts) = self.waiting[index].clone();
        let decision = self.tenants.decide(&claim).expect("sound");
        let again = self.tenants.clone().decide(&claim).expect("sound");
        assert_eq!(decision, again, "one state, one decision");
        self.judge(&claim, at, amounts, &decision);
        let victims: Vec<HolderId> = decision.victims.iter().map(|victim| victim.holder).collect();
        for victim in victims {
            let holder = self.tenants.release(victim).expect("it holds");
            self.held.remove(&holder.name);
        }
        if decision.assignment.mode == AssignmentMode::Fit || !decision.victims.is_empty() {
            let now = Time::from_secs(self.now);
            self.tenants.admit(&claim, &decision.assignment, now).expect("in range");
            self.held.insert(claim.name.clone(), (at, amounts));
            self.waiting.swap_remove(index);
            if self.tenants.aside() == Some(&claim.name) {
                self.tenants.take_aside();
            }
        } else if self.tenants.aside().is_none() {
            self.tenants.put_aside(&claim, Time::from_secs(self.now)).expect("sound");
        }
    }

    fn check(&self) {
        let tree = self.tenants.tree();
        for at in 0..self.leaves.len() {
            let used = self.used(at);
            for (of, resource) in RESOURCES.into_iter().enumerate() {
                let number = tree.flavor_resource("all", resource).expect("known");
                let sums = tree.sums(self.leaf(at), number);
                assert_eq!(sums.used, used[of], "sum of {resource} in q{at}");
            }
        }
        for inner in 0..self.inner {
            let Some(queue) = tree.queue(QueueKind::Inner, &format!("c{inner}")) else { continue };
            for (of, resource) in RESOURCES.into_iter().enumerate() {
                let number = tree.flavor_resource("all", resource).expect("known");
                let own = (0..self.leaves.len()).filter(|at| self.leaves[*at].0 == inner);
                let used: i64 = own.map(|at| self.used(at)[of]).sum();
                assert_eq!(tree.sums(queue, number).used, used);
            }
        }
    }

    fn step(&mut self, dice: &mut Dice) {
        self.now += dice.roll(20);
        match dice.roll(10) {
            0..=3 if self.waiting.len() < 40 => self.claim(dice),
            0..=6 if !self.waiting.is_empty() => {
                self.admit(dice.roll(self.waiting.len() as u64) as usize);
            }
            7 | 8 if !self.held.is_empty() => {
                let at = dice.roll(self.held.len() as u64) as usize;
                let name = self.held.keys().nth(at).expect("in range").clone();
                let holder = self.tenants.find(&name).expect("it holds");
                self.tenants.release(holder).expect("it holds");
                self.held.remove(&name);
            }
            9 if dice.one_in(8) => {
                let at = dice.roll(self.leaves.len() as u64) as usize;
                self.resize(at, dice);
                self.tenants.take_aside();
            }
            _ => {}
        }
    }
}

#[test]
fn promises_hold_over_random_events() {
    let events = budget::of(20_000, 1_000_000);
    let mut dice = Dice(budget::number("PHALANX_SEED").unwrap_or(7));
    let mut done = 0;
    while done < events {
        let mut world = World::new(&mut dice);
        for _ in 0..500 {
            world.step(&mut dice);
            done += 1;
            if done % 10 == 0 {
                world.check();
            }
        }
    }
}

/// Queues that all want everything, with claims of one unit: what they have in the end is what water
/// filling gives them, to one unit.
#[test]
fn unit_claims_end_at_the_water_level() {
    let mut dice = Dice(11);
    for _ in 0..budget::of(40, 2_000) {
        let mut tenants = Tenants::default();
        tenants.set_flavor(Flavor::new("all"));
        let queues = 2 + dice.roll(5) as usize;
        let mut weights = Vec::new();
        for at in 0..queues {
            let weight = 1 + dice.roll(4);
            weights.push(weight);
            let quota = Quota::nominal(dice.roll(8) as i64);
            let queue = Queue::leaf(format!("q{at}")).parent("root").weight(Weight::new(weight));
            tenants.set_queue(queue.quota("all", "gpu", quota)).expect("sound");
        }
        let pool = Queue::inner("root").quota("all", "gpu", Quota::nominal(30));
        tenants.set_queue(pool).expect("sound");
        let gpu = tenants.intern("all", "gpu");
        let mut requests = Amounts::new();
        requests.set("gpu", 1);
        let ids: Vec<QueueId> = (0..queues)
            .map(|at| tenants.tree().queue(QueueKind::Leaf, &format!("q{at}")).expect("known"))
            .collect();
        // Claims come in any order, and as long as one of them can be had.
        let (mut quiet, mut number) = (0, 0);
        while quiet < queues * 20 {
            let at = dice.roll(queues as u64) as usize;
            number += 1;
            assert!(number < 20_000, "it comes to rest");
            let claim = Claim::new(format!("w{number}"), format!("q{at}")).pods(PodSet::new(
                "main",
                1,
                requests.clone(),
            ));
            let decision = tenants.decide(&claim).expect("sound");
            quiet += 1;
            if decision.assignment.mode == AssignmentMode::Fit || !decision.victims.is_empty() {
                for victim in &decision.victims {
                    tenants.release(victim.holder).expect("it holds");
                }
                tenants
                    .admit(&claim, &decision.assignment, Time::from_secs(number))
                    .expect("in range");
                quiet = 0;
            }
        }
        for &id in &ids {
            tenants.wait(id, gpu, 1_000).expect("in range");
        }
        let level: Vec<(i64, i64)> = ids
            .iter()
            .map(|&id| (tenants.tree().sums(id, gpu).used, tenants.deserved(id, gpu)))
            .collect();
        for (at, (used, deserved)) in level.iter().enumerate() {
            let unit = weights[at] as i64 + 1;
            assert!((used - deserved).abs() <= unit, "q{at} of {level:?}, weights {weights:?}");
        }
        // No queue envies another beyond one claim, over weights, of what it borrows.
        for (one, &id) in ids.iter().enumerate() {
            for (other, &with) in ids.iter().enumerate() {
                let borrowed = |id| tenants.tree().sums(id, gpu).borrowed();
                let (own, others) = (borrowed(id), borrowed(with));
                assert!(
                    (others - 1) * weights[one] as i64 <= (own + 1) * weights[other] as i64,
                    "q{one} envies q{other}: {level:?}, weights {weights:?}"
                );
            }
        }
    }
}

/// A queue that borrows, with the claims that it holds and the one that waits.
struct Borrower {
    id: QueueId,
    weight: u64,
    held: Vec<(HolderId, i64)>,
    waiting: i64,
}

/// Queues that all want more, with claims of any size: what one borrows, less one of its claims, is over
/// weights no more than what another would borrow with the claim that it waits for. Where no single claim
/// makes room for that, it is less as many as do: all but the last are smaller than what is missing.
#[test]
fn no_queue_envies_another_beyond_one_claim() {
    let mut dice = Dice(13);
    let (mut borrowed_from, mut large) = (0, 0);
    for _ in 0..budget::of(60, 3_000) {
        let mut tenants = Tenants::default();
        tenants.set_flavor(Flavor::new("all"));
        let pool = Queue::inner("root").quota("all", "gpu", Quota::nominal(40));
        tenants.set_queue(pool).expect("sound");
        let gpu = tenants.intern("all", "gpu");
        let size = |dice: &mut Dice| 1 + dice.roll(6) as i64;
        let mut queues: Vec<Borrower> = Vec::new();
        for at in 0..2 + dice.roll(4) {
            let weight = 1 + dice.roll(3);
            let queue = Queue::leaf(format!("q{at}")).parent("root").weight(Weight::new(weight));
            let queue = queue.quota("all", "gpu", Quota::nominal(dice.roll(6) as i64));
            let id = tenants.set_queue(queue).expect("sound");
            queues.push(Borrower { id, weight, held: Vec::new(), waiting: size(&mut dice) });
        }
        // As long as one of them can be had; what is refused stays the next of its queue.
        let mut refused = vec![false; queues.len()];
        let mut number = 0;
        while !refused.iter().all(|own| *own) {
            let at = dice.roll(queues.len() as u64) as usize;
            number += 1;
            assert!(number < 20_000, "it comes to rest");
            let mut requests = Amounts::new();
            requests.set("gpu", queues[at].waiting);
            let claim = Claim::new(format!("w{number}"), format!("q{at}"))
                .pods(PodSet::new("main", 1, requests));
            let decision = tenants.decide(&claim).expect("sound");
            if decision.assignment.mode != AssignmentMode::Fit && decision.victims.is_empty() {
                refused[at] = true;
                continue;
            }
            for victim in &decision.victims {
                tenants.release(victim.holder).expect("it holds");
                for other in &mut queues {
                    other.held.retain(|(holder, _)| *holder != victim.holder);
                }
            }
            let now = Time::from_secs(number);
            let holder = tenants.admit(&claim, &decision.assignment, now).expect("in range");
            let waiting = queues[at].waiting;
            queues[at].held.push((holder, waiting));
            queues[at].waiting = size(&mut dice);
            refused.fill(false);
        }
        let borrowed = |own: &Borrower| tenants.tree().sums(own.id, gpu).borrowed();
        let all = queues.iter().map(|own| tenants.tree().sums(own.id, gpu));
        let free = 40 + all.map(|sums| sums.nominal - sums.used).sum::<i64>();
        for own in &queues {
            let sums = tenants.tree().sums(own.id, gpu);
            if sums.drawn + own.waiting <= sums.subtree {
                // Within its guarantee it is not refused while others borrow.
                assert!(
                    queues.iter().all(|other| borrowed(other) == 0),
                    "the guarantee of a queue"
                );
                continue;
            }
            let with = sums.drawn + own.waiting - sums.subtree;
            for other in queues.iter().filter(|other| other.id != own.id) {
                let most = other.held.iter().map(|(_, size)| *size).max().unwrap_or(0);
                let missing = own.waiting - free;
                let goes = if most >= missing { most } else { missing - 1 + most };
                let left = (borrowed(other) - goes).max(0);
                borrowed_from += usize::from(borrowed(other) > 0);
                large += usize::from(most > 1 && borrowed(other) > most);
                assert!(
                    left * own.weight as i64 <= with * other.weight as i64,
                    "{left} of weight {} against {with} of weight {}",
                    other.weight,
                    own.weight
                );
            }
        }
    }
    assert!(borrowed_from > 100 && large > 30, "{borrowed_from} pairs, {large} with large claims");
}
