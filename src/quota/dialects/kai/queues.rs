//! Queues with their deserved, held and fair amounts, and the tests on them.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use smallvec::SmallVec;

use super::division::{DivisionRules, Sibling, divide};
use crate::quota::model::amount::{UNLIMITED, minus, plus};
use crate::quota::model::queue::Weight;

/// Amounts of the resources that are divided, in one order. A missing place is nothing.
pub type KaiQuantities = SmallVec<[i64; 4]>;

/// One resource of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceShare {
    /// The promised amount; [`UNLIMITED`]: all that the level has.
    pub deserved: i64,
    /// The most that it and those below may hold.
    pub limit: i64,
    /// Its weight in the division of the surplus.
    pub weight: Weight,
    /// Past usage, in billionths of the whole.
    pub usage: u64,
    /// Usage and waiting requests.
    pub request: i64,
    /// Usage.
    pub allocated: i64,
    /// Usage of work that is not preemptible.
    pub non_preemptible: i64,
    /// The amount that [`QueueShares::divide`] has given.
    pub fair_share: i64,
}

impl Default for ResourceShare {
    /// Nothing promised, nothing held, no limit, weight 0.
    fn default() -> ResourceShare {
        ResourceShare {
            deserved: 0,
            limit: UNLIMITED,
            weight: Weight::ZERO,
            usage: 0,
            request: 0,
            allocated: 0,
            non_preemptible: 0,
            fair_share: 0,
        }
    }
}

impl ResourceShare {
    /// Amount that the queue may hold in the eyes of order and reclaim: the larger of the deserved
    /// and what is fair, within its limit.
    pub fn allocatable(&self) -> i64 {
        if self.deserved == UNLIMITED {
            self.limit
        } else {
            self.deserved.max(self.fair_share).min(self.limit)
        }
    }
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueShare {
    /// The name; decides the last ties.
    pub name: String,
    /// The place of the queue above.
    pub parent: Option<usize>,
    /// Higher goes first.
    pub priority: i32,
    /// The place in the order of creation.
    pub created: u64,
    /// By resource.
    pub resources: Vec<ResourceShare>,
}

/// Why work may not be given what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverCapacity {
    /// The limit of a queue.
    Limit {
        /// The queue.
        queue: usize,
        /// The resource.
        resource: usize,
    },
    /// Work that is not preemptible stays within what its queues deserve.
    Quota {
        /// The queue.
        queue: usize,
        /// The resource.
        resource: usize,
    },
}

/// A queue among those whose turn it may be.
#[derive(Debug, Clone, Default)]
pub struct Contender {
    /// The queue.
    pub queue: usize,
    /// Request of its next job.
    pub request: KaiQuantities,
    /// Former usage of the victims that were taken from it.
    pub taken: KaiQuantities,
}

/// Work that takes back.
#[derive(Debug, Clone)]
pub struct Reclaimer {
    /// Its leaf.
    pub queue: usize,
    /// Its request.
    pub request: KaiQuantities,
    /// Whether it may be taken back itself.
    pub preemptible: bool,
}

/// A reason to take from another queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimStrategy {
    /// The other holds more than it may.
    MaintainFairShare,
    /// The reclaimer stays within what it deserves, and the other holds more than that.
    GuaranteeDeserved,
}

/// A tree of queues.
#[derive(Debug, Clone)]
pub struct QueueShares {
    /// The queues, in no order.
    pub queues: Vec<QueueShare>,
    /// Amounts of the whole cluster, by resource.
    pub totals: Vec<i64>,
    /// The whole of each resource.
    pub units: Vec<i64>,
    /// How much past usage counts, in billionths.
    pub usage_factor: u64,
    /// How much better served a reclaimer's siblings have to stay, in thousandths; at least 1000.
    pub saturation: u64,
}

impl QueueShares {
    /// No queues.
    pub fn new(totals: Vec<i64>, units: Vec<i64>) -> QueueShares {
        QueueShares { queues: Vec::new(), totals, units, usage_factor: 0, saturation: 1000 }
    }

    /// The place of a queue.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.queues.iter().position(|queue| queue.name == name)
    }

    /// A queue and those above it, up to the root.
    pub fn path(&self, queue: usize) -> impl Iterator<Item = usize> + '_ {
        let next = |at: &usize| self.queues.get(*at).and_then(|queue| queue.parent);
        // A circle ends at the number of queues.
        core::iter::successors(self.queues.get(queue).map(|_| queue), next).take(self.queues.len())
    }

    /// The queues right below one, or at the top.
    pub fn children(&self, parent: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        (0..self.queues.len()).filter(move |&at| self.queues[at].parent == parent)
    }

    /// Divides what there is, level by level: top queues have all of it, others what is fair for the
    /// queue above. O(queues² · resources) at worst.
    pub fn divide(&mut self) {
        let resources = self.totals.len();
        let totals = self.totals.clone();
        let mut levels: Vec<(Option<usize>, Vec<i64>)> = alloc::vec![(None, totals)];
        while let Some((parent, amounts)) = levels.pop() {
            let level: Vec<usize> = self.children(parent).collect();
            for (at, &amount) in amounts.iter().enumerate() {
                let rules = DivisionRules { unit: self.units[at], usage_factor: self.usage_factor };
                let siblings: Vec<Sibling<'_>> =
                    level.iter().map(|&queue| self.sibling(queue, at)).collect();
                let (shares, _) = divide(amount, rules, &siblings);
                for (&queue, share) in level.iter().zip(shares) {
                    if let Some(own) = self.queues[queue].resources.get_mut(at) {
                        own.fair_share = share;
                    }
                }
            }
            for queue in level {
                let amounts = (0..resources).map(|at| self.share(queue, at).fair_share).collect();
                levels.push((Some(queue), amounts));
            }
        }
    }

    fn sibling(&self, queue: usize, resource: usize) -> Sibling<'_> {
        let (spec, own) = (&self.queues[queue], self.share(queue, resource));
        Sibling {
            name: &spec.name,
            priority: spec.priority,
            created: spec.created,
            deserved: own.deserved,
            limit: own.limit,
            weight: own.weight,
            request: own.request,
            usage: own.usage,
            share: 0,
        }
    }

    /// A resource of a queue.
    pub fn share(&self, queue: usize, resource: usize) -> ResourceShare {
        let own = self.queues.get(queue).and_then(|queue| queue.resources.get(resource));
        own.copied().unwrap_or_default()
    }

    fn resources(&self) -> core::ops::Range<usize> {
        0..self.totals.len()
    }

    /// Adds to what a leaf and those above it hold, and to nothing else.
    pub fn charge(&mut self, leaf: usize, amounts: &[i64], preemptible: bool, sign: i64) {
        let path: Vec<usize> = self.path(leaf).collect();
        for queue in path {
            for (own, amount) in self.queues[queue].resources.iter_mut().zip(amounts) {
                own.allocated = own.allocated.saturating_add(sign * amount);
                if !preemptible {
                    own.non_preemptible = own.non_preemptible.saturating_add(sign * amount);
                }
            }
        }
    }

    /// Whether a request stays within the limits of a leaf and those above it, and within what they
    /// deserve if it is not preemptible. Only what is requested at all counts.
    ///
    /// # Errors
    /// The first bound in the way, from the leaf up.
    pub fn fits(
        &self,
        leaf: usize,
        request: &[i64],
        preemptible: bool,
    ) -> Result<(), OverCapacity> {
        let asked = |at: &usize| amount(request, *at) > 0;
        for queue in self.path(leaf) {
            for resource in self.resources().filter(asked) {
                let own = self.share(queue, resource);
                if plus(own.allocated, amount(request, resource)) > own.limit {
                    return Err(OverCapacity::Limit { queue, resource });
                }
            }
        }
        if preemptible {
            return Ok(());
        }
        for queue in self.path(leaf) {
            for resource in self.resources().filter(asked) {
                let own = self.share(queue, resource);
                if plus(own.non_preemptible, amount(request, resource)) > own.deserved {
                    return Err(OverCapacity::Quota { queue, resource });
                }
            }
        }
        Ok(())
    }

    /// The order of two queues: `Less` if the first goes first. A queue goes first that is not over
    /// its fair share of all resources, then one that stays within its deserved amounts. Then
    /// priority counts, and using nothing that it has no share of. Then come the dominant share
    /// with the request and without, the smaller share, age, and the name.
    pub fn compare(&self, a: &Contender, b: &Contender) -> Ordering {
        let sides = [a, b];
        let over = sides.map(|side| {
            self.resources().all(|at| {
                let own = self.share(side.queue, at);
                own.fair_share < own.allocated
            })
        });
        let beyond = sides.map(|side| {
            self.resources().any(|at| {
                let own = self.share(side.queue, at);
                plus(own.allocated, amount(&side.request, at)) > own.deserved
            })
        });
        let shareless = sides.map(|side| {
            self.resources().any(|at| {
                let own = self.share(side.queue, at);
                own.allocatable() == 0 && plus(own.allocated, amount(&side.request, at)) > 0
            })
        });
        let with = sides.map(|side| {
            self.dominant(side.queue, |at, held| {
                minus(plus(held, amount(&side.request, at)), amount(&side.taken, at))
            })
        });
        let without = sides.map(|side| self.dominant(side.queue, |_, held| held));
        let spec = |side: &Contender| self.queues.get(side.queue);
        let priority = sides.map(|side| spec(side).map_or(0, |queue| queue.priority));
        let age = sides.map(|side| spec(side).map(|queue| (queue.created, queue.name.as_str())));
        (over[0].cmp(&over[1]))
            .then(beyond[0].cmp(&beyond[1]))
            .then(priority[1].cmp(&priority[0]))
            .then(shareless[0].cmp(&shareless[1]))
            .then(with[0].compare(with[1]))
            .then(without[0].compare(without[1]))
            .then_with(|| self.weaker_first(a.queue, b.queue))
            .then(age[0].cmp(&age[1]))
    }

    /// The order of two queues by what they may hold: the one that may hold no more of anything.
    fn weaker_first(&self, a: usize, b: usize) -> Ordering {
        let mut sides = self
            .resources()
            .map(|at| self.share(a, at).allocatable().cmp(&self.share(b, at).allocatable()))
            .filter(|order| order.is_ne());
        match sides.next() {
            Some(first) if sides.all(|order| order == first) => first,
            _ => Ordering::Equal,
        }
    }

    /// The largest, over resources, of what a queue would hold over what it may.
    pub fn dominant(&self, queue: usize, held: impl Fn(usize, i64) -> i64) -> Ratio {
        let mut most = Ratio::NONE;
        for at in self.resources() {
            let own = self.share(queue, at);
            let allocatable = match own.allocatable() {
                UNLIMITED => self.totals[at],
                amount => amount,
            };
            let amount = held(at, own.allocated);
            let ratio = if allocatable == 0 {
                Ratio::new(amount.saturating_mul(SHARELESS), self.units[at])
            } else {
                Ratio::new(amount, allocatable)
            };
            if ratio.compare(most).is_gt() {
                most = ratio;
            }
        }
        most
    }

    /// Whether work may take from other queues at all. With it, its leaf holds no more than its
    /// fair share of anything. If the work is not preemptible, the leaf holds no more such work
    /// than it deserves.
    pub fn may_reclaim(&self, reclaimer: &Reclaimer) -> bool {
        self.resources().all(|at| {
            let own = self.share(reclaimer.queue, at);
            let more = amount(&reclaimer.request, at);
            plus(own.allocated, more) <= own.fair_share
                && (reclaimer.preemptible || plus(own.non_preemptible, more) <= own.deserved)
        })
    }

    /// Whether a strategy lets a side of the tree, which has a request, take from another side that
    /// still holds so much.
    pub fn strategy_allows(
        &self,
        strategy: ReclaimStrategy,
        (side, request): (usize, &[i64]),
        (other, held): (usize, &[i64]),
    ) -> bool {
        let exceeds = |bound: fn(&ResourceShare) -> i64| {
            self.resources().any(|at| amount(held, at) > bound(&self.share(other, at)))
        };
        match strategy {
            ReclaimStrategy::MaintainFairShare => exceeds(ResourceShare::allocatable),
            ReclaimStrategy::GuaranteeDeserved => {
                self.resources().all(|at| {
                    let own = self.share(side, at);
                    plus(own.allocated, amount(request, at)) <= own.deserved
                }) && exceeds(|own| own.deserved)
            }
        }
    }

    /// Whether work may take victims: each a leaf and what it gives back, in the order in which they
    /// are taken.
    ///
    /// Sides of the tree are compared right below the lowest queue above both. Afterwards no queue
    /// from the reclaimer's leaf up may be beyond its fair share and at least as well served as a
    /// sibling that victims were taken from.
    pub fn allows_victims(
        &self,
        reclaimer: &Reclaimer,
        victims: &[(usize, KaiQuantities)],
    ) -> bool {
        let mut left: Vec<Option<(KaiQuantities, KaiQuantities)>> =
            alloc::vec![None; self.queues.len()];
        for (leaf, given) in victims {
            let (side, other) = self.sides(reclaimer.queue, *leaf);
            let held = match &left[other] {
                Some((held, _)) => held.clone(),
                None => self.held(other),
            };
            let strategies =
                [ReclaimStrategy::MaintainFairShare, ReclaimStrategy::GuaranteeDeserved];
            let allowed = |strategy| {
                self.strategy_allows(strategy, (side, &reclaimer.request), (other, &held))
            };
            if !strategies.into_iter().any(allowed) {
                return false;
            }
            let path: Vec<usize> = self.path(*leaf).collect();
            for queue in path {
                let (held, gone) = left[queue].get_or_insert_with(|| {
                    (self.held(queue), self.resources().map(|_| 0).collect())
                });
                for at in self.resources() {
                    held[at] = minus(held[at], amount(given, at));
                    gone[at] = plus(gone[at], amount(given, at));
                }
            }
        }
        let path: Vec<usize> = self.path(reclaimer.queue).collect();
        path.into_iter().all(|queue| self.stays_below(reclaimer, queue, &left))
    }

    /// Whether a queue above a reclaimer stays within its bounds, beside siblings that have given.
    fn stays_below(
        &self,
        reclaimer: &Reclaimer,
        queue: usize,
        left: &[Option<(KaiQuantities, KaiQuantities)>],
    ) -> bool {
        let held = |at: usize| {
            let own = match &left[queue] {
                Some((held, _)) => held[at],
                None => self.share(queue, at).allocated,
            };
            plus(own, amount(&reclaimer.request, at))
        };
        let siblings = self.children(self.queues[queue].parent).filter(|&other| other != queue);
        for other in siblings {
            let Some((kept, gone)) = &left[other] else { continue };
            let involved =
                |at: &usize| amount(&reclaimer.request, *at) > 0 || amount(gone, *at) > 0;
            for at in self.resources().filter(involved) {
                let (own, others) = (self.share(queue, at), self.share(other, at));
                if own.fair_share == UNLIMITED && others.fair_share == UNLIMITED {
                    continue;
                }
                let ratio = utilization(held(at), own.fair_share);
                let sibling = utilization(kept[at], others.fair_share);
                let beyond = ratio.compare(Ratio::new(1, 1)).is_gt();
                let scaled = ratio.times(self.saturation.max(1000));
                if beyond && others.fair_share > 0 && scaled.compare(sibling.times(1000)).is_ge() {
                    return false;
                }
            }
        }
        reclaimer.preemptible
            || self.resources().all(|at| {
                let own = self.share(queue, at);
                plus(own.non_preemptible, amount(&reclaimer.request, at)) <= own.deserved
            })
    }

    fn held(&self, queue: usize) -> KaiQuantities {
        self.resources().map(|at| self.share(queue, at).allocated).collect()
    }

    /// The queues of two paths right below the lowest that both have.
    pub fn sides(&self, a: usize, b: usize) -> (usize, usize) {
        let mut one: Vec<usize> = self.path(a).collect();
        let mut other: Vec<usize> = self.path(b).collect();
        let mut last = (a, b);
        while let (Some(a), Some(b)) = (one.pop(), other.pop()) {
            last = (a, b);
            if a != b {
                break;
            }
        }
        last
    }
}

/// How much worse it is to hold what one has no share of.
const SHARELESS: i64 = 1000;

fn amount(of: &[i64], at: usize) -> i64 {
    of.get(at).copied().unwrap_or(0)
}

/// Usage divided by the fair share.
fn utilization(held: i64, fair: i64) -> Ratio {
    match fair {
        0 if held > 0 => Ratio::INFINITE,
        0 | UNLIMITED => Ratio::NONE,
        fair => Ratio::new(held, fair),
    }
}

/// A quotient of two amounts, not rounded; nothing is below zero.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    over: u128,
    /// Zero: without bound.
    under: u128,
}

impl Ratio {
    /// Nothing.
    pub const NONE: Ratio = Ratio { over: 0, under: 1 };
    /// Without bound.
    pub const INFINITE: Ratio = Ratio { over: 1, under: 0 };

    /// The quotient; nothing if it would be negative.
    pub fn new(over: i64, under: i64) -> Ratio {
        match (u64::try_from(over), u64::try_from(under)) {
            (Ok(over), Ok(under)) if under > 0 => {
                Ratio { over: u128::from(over), under: u128::from(under) }
            }
            _ => Ratio::NONE,
        }
    }

    /// So many times the quotient.
    fn times(self, factor: u64) -> Ratio {
        Ratio { over: self.over.saturating_mul(u128::from(factor)), under: self.under }
    }

    /// Compares two ratios.
    pub fn compare(self, other: Ratio) -> Ordering {
        if self.under == 0 || other.under == 0 {
            return (self.under == 0).cmp(&(other.under == 0));
        }
        let whole = (self.over / self.under).cmp(&(other.over / other.under));
        // A ratio below one has parts below 2⁶³.
        whole.then_with(|| {
            let (one, two) = (self.over % self.under, other.over % other.under);
            (one * other.under).cmp(&(two * self.under))
        })
    }
}

#[cfg(test)]
mod tests;
