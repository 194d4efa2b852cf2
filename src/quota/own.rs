//! The dialect of this crate: guarantees, limits, weighted shares, and age in the end.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::amount::{UNLIMITED, minus};
use super::cells::{Cells, NONE};
use super::claim::{AssignmentMode, Claim, QuotaAssignment, QuotaDecision, Usage};
use super::dialect::{Aside, Dialect, TenantSettings};
use super::division::{Part, water_filling};
use super::error::QuotaError;
use super::queue::QueueKind;
use super::share::PLACES;
use super::tenants::Tenants;
use super::tree::{FlavorResource, QueueId, Sums};
use crate::Time;

impl Default for Tenants {
    /// [`Tenants::with`] the default settings.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::model::Amounts;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
    ///
    /// let mut tenants = Tenants::default();
    /// tenants.set_flavor(Flavor::new("all"));
    /// for team in ["vision", "speech"] {
    ///     tenants.set_queue(Queue::leaf(team).parent("labs").quota("all", "gpu", Quota::nominal(8)))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     let mut requests = Amounts::new();
    ///     requests.set("gpu", gpus);
    ///     Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
    /// };
    /// // `speech` is idle, so `vision` borrows.
    /// for name in ["one", "two", "three"] {
    ///     let claim = gang(name, "vision", 4);
    ///     let decision = tenants.decide(&claim)?;
    ///     tenants.admit(&claim, &decision.assignment, Time::ZERO)?;
    /// }
    /// // Once it is not, it takes back what is guaranteed to it, and no more.
    /// let decision = tenants.decide(&gang("own", "speech", 8))?;
    /// assert_eq!((decision.assignment.mode, decision.victims.len()), (AssignmentMode::Preempt, 1));
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    fn default() -> Tenants {
        Tenants::with(TenantSettings::default())
    }
}

/// A resource in a flavor, at one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct ResourceReport {
    /// The flavor.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// Guarantee, usage and waiting requests.
    pub sums: Sums,
    /// Usage beyond the guarantees of the subtree.
    pub borrowed: i64,
    /// Amount that may still be used, without taking from others. Negative where more is used than
    /// may be.
    pub available: i64,
    /// Amount that the queue would have, if all claims were of one unit.
    pub deserved: i64,
}

/// The amounts of a queue, and the queues from which it could take.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct QueueReport {
    /// The queue.
    pub queue: String,
    /// By flavor and resource, in order of names.
    pub resources: Vec<ResourceReport>,
    /// The share of what is borrowed, in thousandths of what its siblings and itself could have, over
    /// the weight; rounded up. The largest integer for a queue that borrows with a weight of 0.
    pub share: i64,
    /// The resource that the share is of; `None` if nothing is borrowed.
    pub dominant: Option<String>,
    /// Leaves of the same tree that borrow, and from which a claim of this queue could take as
    /// shares stand, by name. They are all such leaves while some of this queue's guarantees is
    /// unused, otherwise those on sides of the tree with larger shares.
    pub may_take_from: Vec<String>,
}

impl Tenants {
    /// Whether resources that no queue has quota of are not counted.
    pub fn counts_known_only(&self) -> bool {
        matches!(self.dialect, Dialect::Own(_) | Dialect::Kai(_))
    }

    /// How long a claim waits before quota is put aside for it; `None` in other dialects.
    pub fn patience(&self) -> Option<Duration> {
        self.dialect.own().map(|own| own.settings.patience)
    }

    /// Puts quota aside for a claim that has waited beyond its patience, in place of what was put
    /// aside before; whether it did. From now on, claims that borrow have to leave room for it, and
    /// so have all of its own queue. Nothing is put aside for a claim that limits keep out, whatever
    /// others use, nor in other dialects.
    ///
    /// # Errors
    /// The claim is unsound, or its queue is not known.
    pub fn put_aside(&mut self, claim: &Claim, now: Time) -> Result<bool, QuotaError> {
        let Dialect::Own(own) = &mut self.dialect else { return Ok(false) };
        own.aside = None;
        if now.since(claim.created) < own.settings.patience {
            return Ok(false);
        }
        let decision = self.decide(claim)?;
        let tree = &self.books.tree;
        let queue = tree.queue(QueueKind::Leaf, &claim.queue);
        let queue = queue.ok_or_else(|| QuotaError::UnknownQueue(claim.queue.clone()))?;
        let usage = decision.assignment.usage;
        let bounded = |&(of, amount): &(FlavorResource, i64)| {
            tree.cell_above(queue.slot, of.0).is_none_or(|cell| {
                amount <= tree.cells.potential(cell).min(tree.cells.headroom(cell))
                    && amount <= borrowable(&tree.cells, cell)
            })
        };
        let can = decision.assignment.mode != AssignmentMode::NoFit && usage.iter().all(bounded);
        if can && let Dialect::Own(own) = &mut self.dialect {
            own.aside = Some(Aside { claim: claim.name.clone(), queue, usage });
        }
        Ok(can)
    }

    /// Gives up what is put aside.
    pub fn take_aside(&mut self) {
        if let Dialect::Own(own) = &mut self.dialect {
            own.aside = None;
        }
    }

    /// The claim that quota is put aside for.
    pub fn aside(&self) -> Option<&str> {
        Some(self.dialect.own()?.aside.as_ref()?.claim.as_str())
    }

    /// Usage put aside for it.
    pub fn aside_usage(&self) -> Option<(QueueId, &Usage)> {
        let aside = self.dialect.own()?.aside.as_ref()?;
        Some((aside.queue, &aside.usage))
    }

    /// The decision on a claim, which leaves what is put aside for another, unless it is within its
    /// queue's guarantee.
    pub(super) fn decide_own(&mut self, queue: QueueId, claim: &Claim) -> QuotaDecision {
        let aside = self.dialect.own().and_then(|own| own.aside.clone());
        let Some(aside) = aside.filter(|aside| aside.claim != claim.name) else {
            return self.decide_plain(queue, claim);
        };
        if self.books.tree.slot(aside.queue).is_err() {
            self.take_aside();
            return self.decide_plain(queue, claim);
        }
        let kept = self.trial(|trial, _| {
            trial.add(aside.queue.slot, &aside.usage);
            let mut none =
                |_: &mut super::kueue::trial::Trial<'_>, _, _| (super::Outlook::NoCandidates, None);
            let found = super::kueue::assign(trial, queue.slot, claim, None, &mut none);
            trial.take(aside.queue.slot, &aside.usage);
            found
        });
        if kept.mode == AssignmentMode::Fit {
            return QuotaDecision { assignment: kept, victims: Vec::new() };
        }
        let mut decision = self.decide_plain(queue, claim);
        let within = aside.queue != queue && self.is_within(queue, &decision.assignment);
        if !within && decision.assignment.mode != AssignmentMode::NoFit {
            decision.assignment.set_mode(AssignmentMode::Preempt);
            decision.victims.clear();
        }
        decision
    }

    /// Whether a leaf stays within its guarantees with what is assigned to a claim.
    pub fn is_within(&self, queue: QueueId, assignment: &QuotaAssignment) -> bool {
        assignment.usage.iter().all(|&(of, amount)| {
            let sums = self.books.tree.sums(queue, of);
            amount == 0 || sums.drawn.saturating_add(amount) <= sums.subtree
        })
    }

    /// Amount that a queue would have of a resource in a flavor if all claims were of one unit. The
    /// tree's guarantees are divided from the root down by water filling among the queues that use
    /// and want some. Guarantees come first, the rest goes by weight. O(queues below those on the
    /// path).
    pub fn deserved(&self, queue: QueueId, of: FlavorResource) -> i64 {
        if let Dialect::Kai(kai) = &self.dialect {
            return self.kai_tables(kai).fair_share(queue, of);
        }
        let tree = &self.books.tree;
        let mut path: Vec<QueueId> = tree.path(queue).collect();
        let Some(root) = path.pop() else { return 0 };
        let wants = |queue: QueueId| {
            let limit = tree.quota(queue, of).and_then(|quota| quota.limit);
            tree.sums(queue, of).requested().min(limit.unwrap_or(UNLIMITED))
        };
        let mut total = tree.sums(root, of).subtree.min(wants(root));
        let mut parent = root;
        while let Some(next) = path.pop() {
            let children: Vec<QueueId> = tree.children(parent).collect();
            let parts: Vec<Part<'_>> = children
                .iter()
                .map(|&child| {
                    let spec = tree.spec(child);
                    Part {
                        name: spec.map_or("", |spec| &spec.name),
                        floor: tree.sums(child, of).subtree,
                        wants: wants(child),
                        weight: spec.map_or_else(Default::default, |spec| spec.weight),
                    }
                })
                .collect();
            let shares = water_filling(total, &parts);
            let at = children.iter().position(|&child| child == next);
            total = at.and_then(|at| shares.get(at).copied()).unwrap_or(0);
            parent = next;
        }
        total
    }

    /// The amounts of a leaf, and the queues from which it could take; `None` if it is not known.
    /// O(queues · depth), and more for what is deserved.
    pub fn report(&self, queue: QueueId) -> Option<QueueReport> {
        let tree = &self.books.tree;
        let spec = tree.spec(queue)?;
        let kai = match &self.dialect {
            Dialect::Kai(kai) => Some(self.kai_tables(kai)),
            _ => None,
        };
        let mut resources: Vec<ResourceReport> = tree
            .books(queue)
            .map(|(of, _)| {
                let (flavor, resource) = tree.names(of);
                let sums = tree.sums(queue, of);
                ResourceReport {
                    flavor: flavor.into(),
                    resource: resource.into(),
                    sums,
                    borrowed: sums.borrowed(),
                    available: tree.available(queue, of),
                    deserved: match &kai {
                        Some(tables) => tables.fair_share(queue, of),
                        None => self.deserved(queue, of),
                    },
                }
            })
            .collect();
        resources.sort_by(|a, b| (&a.flavor, &a.resource).cmp(&(&b.flavor, &b.resource)));
        let share = self.share(queue);
        let within = resources.iter().any(|own| own.sums.drawn < own.sums.subtree);
        let root = tree.root_of(queue.slot);
        let mut may_take_from = Vec::new();
        for other in tree.queues(QueueKind::Leaf) {
            let borrows = || tree.books(other).any(|(of, _)| tree.sums(other, of).borrowed() > 0);
            if other == queue || tree.root_of(other.slot) != root || !borrows() {
                continue;
            }
            let may = if let Some(tables) = &kai {
                tables.may_take(queue, other)
            } else {
                let (own, others) = self.sides(queue, other);
                within || self.share(own) < self.share(others)
            };
            if may {
                may_take_from.extend(tree.spec(other).map(|spec| spec.name.clone()));
            }
        }
        let scaled = if self.dialect.own().is_none() || share.weighted().is_infinite() {
            share.rounded()
        } else {
            let share = share.rounded().unsigned_abs();
            i64::try_from((u128::from(share) * 1000).div_ceil(1 << PLACES)).unwrap_or(i64::MAX)
        };
        Some(QueueReport {
            queue: spec.name.clone(),
            resources,
            share: scaled,
            dominant: share.dominant(tree).map(Into::into),
            may_take_from,
        })
    }

    /// The children of the lowest queue above both leaves, on each side.
    fn sides(&self, a: QueueId, b: QueueId) -> (QueueId, QueueId) {
        let tree = &self.books.tree;
        let (one, other): (Vec<_>, Vec<_>) = (tree.path(a).collect(), tree.path(b).collect());
        let common = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        let side = |path: &[QueueId], leaf| {
            path.len().checked_sub(common + 1).and_then(|at| path.get(at).copied()).unwrap_or(leaf)
        };
        (side(&one, a), side(&other, b))
    }
}

/// Amount that limits on borrowing leave to a queue, whatever others use.
fn borrowable(cells: &Cells, mut at: u32) -> i64 {
    let mut least = UNLIMITED;
    while at != NONE {
        let cell = &cells[at];
        if cell.borrowing_limit != UNLIMITED {
            let most = super::amount::plus(cell.subtree, cell.borrowing_limit);
            least = least.min(minus(most, cell.drawn));
        }
        at = cell.parent;
    }
    least
}
