//! Flavors for a claim, and how they can be had.
//!
//! Source: Kueue's `flavorassigner.go`.

use alloc::vec::Vec;
use core::cmp::Ordering;

use smallvec::SmallVec;

use super::FairStrategy;
use super::Preemptor;
use super::partial::decide_reduced;
use super::trial::{Taken, Trial, named};
use crate::model::resources::PODS;
use crate::quota::amount::MOST;
use crate::quota::books::Books;
use crate::quota::cells::{Cells, NONE};
use crate::quota::claim::{
    AssignmentMode, Claim, FlavorChoice, PodSetAssignment, QuotaAssignment, QuotaDecision, Usage,
    add_usage,
};
use crate::quota::queue::Fungibility;
use crate::quota::tree::{FlavorResource, Group, GroupFlavor, QueueTree};

/// How a resource in a flavor can be had. Later is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outlook {
    /// Not at all.
    NoFit,
    /// When others are done: no victims would suffice.
    NoCandidates,
    /// With victims, some of them of the claim's own queue.
    Preempt,
    /// With victims of other queues.
    Reclaim,
    /// Now.
    Fit,
}

/// An outlook, and how far up the tree is borrowed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::quota) struct Prefer {
    pub(in crate::quota) outlook: Outlook,
    pub(in crate::quota) level: u32,
}

/// Compares two ways by preference; `Greater` if the first is preferred.
pub(in crate::quota) fn flavor_order(rule: Fungibility, a: Prefer, b: Prefer) -> Ordering {
    let rank = |prefer: Prefer| match prefer.outlook {
        Outlook::NoFit => 0,
        Outlook::NoCandidates => 1,
        _ => 2,
    };
    if rank(a) != rank(b) || rank(a) == 0 {
        return rank(a).cmp(&rank(b));
    }
    let outlook = a.outlook.cmp(&b.outlook);
    let level = b.level.cmp(&a.level);
    if rule.preemption_over_borrowing { level.then(outlook) } else { outlook.then(level) }
}

/// How far up the tree a leaf borrows from to have so much more. Also whether the subtree that
/// suffices has others around it, from which the amount could be taken back.
pub(super) fn borrow_level(tree: &QueueTree, cells: &Cells, cell: u32, amount: i64) -> (u32, bool) {
    let own = &cells[cell];
    if own.parent == NONE || own.nominal >= own.drawn.saturating_add(amount) {
        return (0, own.parent != NONE);
    }
    let mut rest = amount.saturating_sub(own.local_available());
    let mut at = own.parent;
    loop {
        let above = &cells[at];
        let height = tree.slots[above.queue as usize].height;
        if above.subtree >= above.drawn.saturating_add(rest) {
            return (height, above.parent != NONE);
        }
        if above.parent == NONE {
            return (height, false);
        }
        rest = rest.saturating_sub(above.local_available());
        at = above.parent;
    }
}

/// The fate of one resource in a flavor that has to be taken from others: the outlook, and the
/// level after that (`None`: as before).
pub(in crate::quota) type Simulate<'s> =
    &'s mut dyn FnMut(&mut Trial<'_>, FlavorResource, i64) -> (Outlook, Option<u32>);

/// The search for victims as a simulation.
pub(in crate::quota) fn simulate_levels<'s>(
    claim: &'s Claim,
    leaf: u32,
    strategies: &'s [FairStrategy],
) -> impl FnMut(&mut Trial<'_>, FlavorResource, i64) -> (Outlook, Option<u32>) + 's {
    move |trial, of, amount| {
        let usage: Usage = [(of, amount)].into_iter().collect();
        let taken =
            search(trial, &preemptor(trial.books, leaf, claim, &usage, &[of.0], strategies));
        if taken.is_empty() {
            return (Outlook::NoCandidates, None);
        }
        let own = taken.iter().any(|(holder, _)| trial.leaf_of(*holder) == leaf);
        for (holder, _) in &taken {
            trial.remove(*holder);
        }
        let tree = &trial.books.tree;
        let cell = tree.slots[leaf as usize].cell(of.0);
        let level = cell.map(|cell| borrow_level(tree, &trial.cells, cell, amount).0);
        trial.give_back(&taken);
        (if own { Outlook::Preempt } else { Outlook::Reclaim }, level)
    }
}

/// Victims for a preemptor, by the rule in force. The sums are as before.
fn search(trial: &mut Trial<'_>, preemptor: &Preemptor<'_>) -> Vec<Taken> {
    if preemptor.pairs.is_empty() {
        return Vec::new();
    }
    if trial.books.fair {
        super::fair::search(trial, preemptor)
    } else {
        super::classical::search(trial, preemptor)
    }
}

fn preemptor<'a>(
    books: &Books,
    leaf: u32,
    claim: &Claim,
    usage: &'a Usage,
    pairs: &'a [u32],
    strategies: &'a [FairStrategy],
) -> Preemptor<'a> {
    let own = books.tree.whole_shares;
    let policy = books.tree.slots[leaf as usize].spec.preemption;
    Preemptor {
        leaf,
        priority: claim.priority,
        created: claim.created,
        policy: if own { crate::quota::queue::OWN_PREEMPTION } else { policy },
        keeps_guarantees: own,
        usage,
        pairs,
        strategies,
    }
}

/// The request of one resource of a pod set.
struct Request {
    /// `None`: no queue has quota of it.
    resource: Option<u32>,
    amount: i64,
    choice: Option<(FlavorChoice, u32)>,
}

/// The answer to a claim, with fewer pods than all where that helps.
pub(in crate::quota) fn decide(
    trial: &mut Trial<'_>,
    leaf: u32,
    claim: &Claim,
    strategies: &[FairStrategy],
    partial: bool,
) -> QuotaDecision {
    let mut simulate = simulate_levels(claim, leaf, strategies);
    let mut attempt = |counts: Option<&[u32]>| {
        let assignment = assign(trial, leaf, claim, counts, &mut simulate);
        let taken = match assignment.mode {
            AssignmentMode::Preempt => victims(trial, leaf, claim, &assignment, strategies),
            AssignmentMode::Fit | AssignmentMode::NoFit => Vec::new(),
        };
        QuotaDecision { assignment, victims: named(trial.books, &taken) }
    };
    if partial { decide_reduced(claim, attempt) } else { attempt(None) }
}

/// Victims for an assignment that needs some.
pub(in crate::quota) fn victims(
    trial: &mut Trial<'_>,
    leaf: u32,
    claim: &Claim,
    assignment: &QuotaAssignment,
    strategies: &[FairStrategy],
) -> Vec<Taken> {
    let mut pairs: SmallVec<[u32; 4]> = SmallVec::new();
    for choice in assignment.pod_sets.iter().flat_map(|set| &set.flavors) {
        if choice.mode == AssignmentMode::Preempt && !pairs.contains(&choice.of.0) {
            pairs.push(choice.of.0);
        }
    }
    pairs.sort_unstable();
    search(trial, &preemptor(trial.books, leaf, claim, &assignment.usage, &pairs, strategies))
}

/// Flavors for a claim, of some of its pods or all.
pub(in crate::quota) fn assign(
    trial: &mut Trial<'_>,
    leaf: u32,
    claim: &Claim,
    counts: Option<&[u32]>,
    simulate: Simulate<'_>,
) -> QuotaAssignment {
    let mut assignment = QuotaAssignment {
        pod_sets: SmallVec::new(),
        usage: Usage::new(),
        mode: AssignmentMode::Fit,
        level: 0,
    };
    let books = trial.books;
    let pods = books.tree.resource_number(PODS);
    let groups = &books.tree.slots[leaf as usize].groups;
    for (at, set) in claim.pod_sets.iter().enumerate() {
        let count = counts.and_then(|counts| counts.get(at).copied()).unwrap_or(set.count);
        let mut requests: SmallVec<[Request; 4]> = SmallVec::new();
        for (name, total) in set.requests.iter().filter(|(name, _)| *name != PODS) {
            requests.push(Request {
                resource: books.tree.resource_number(name),
                amount: set.scaled(total, count),
                choice: None,
            });
        }
        let covered = |pods: &u32| groups.iter().any(|group| group.resources.contains(pods));
        if let Some(pods) = pods.filter(covered) {
            // Behind the others: groups are independent, and a group is searched as a whole.
            let amount = i64::from(count);
            requests.push(Request { resource: Some(pods), amount, choice: None });
        } else if set.requests.of(PODS) != 0 {
            requests.push(Request { resource: None, amount: set.requests.of(PODS), choice: None });
        }
        let mut fits = true;
        for index in 0..requests.len() {
            if requests[index].choice.is_some() {
                continue;
            }
            let resource = requests[index].resource;
            let group = groups
                .iter()
                .find(|group| resource.is_some_and(|resource| group.resources.contains(&resource)));
            let found = match group {
                None => requests[index].amount == 0,
                Some(group) => {
                    let search = Search { leaf, claim, set: at, group, usage: &assignment.usage };
                    search.run(trial, &mut requests, simulate)
                }
            };
            if !found {
                fits = false;
                break;
            }
        }
        let mut chosen = PodSetAssignment {
            pod_set: at,
            count,
            flavors: SmallVec::new(),
            requests: SmallVec::new(),
        };
        if fits {
            for request in &requests {
                let Some((choice, level)) = request.choice else { continue };
                chosen.flavors.push(choice);
                chosen.requests.push(request.amount);
                add_usage(&mut assignment.usage, choice.of, request.amount);
                assignment.mode = assignment.mode.min(choice.mode);
                assignment.level = assignment.level.max(level);
            }
        }
        assignment.pod_sets.push(chosen);
        if !fits {
            assignment.mode = AssignmentMode::NoFit;
            break;
        }
    }
    assignment
}

/// The search for one flavor for all of a pod set's resources in a group.
struct Search<'a> {
    leaf: u32,
    claim: &'a Claim,
    set: usize,
    group: &'a Group,
    /// Usage of the pod sets before.
    usage: &'a Usage,
}

impl Search<'_> {
    /// Fills in the choices; whether there is a flavor.
    fn run(
        &self,
        trial: &mut Trial<'_>,
        requests: &mut SmallVec<[Request; 4]>,
        simulate: Simulate<'_>,
    ) -> bool {
        let rule = trial.books.tree.slots[self.leaf as usize].spec.fungibility;
        let mut best = Prefer { outlook: Outlook::NoFit, level: u32::MAX };
        let mut choices: SmallVec<[(usize, FlavorChoice, u32); 4]> = SmallVec::new();
        let first = self.bookmark(trial, requests);
        let mut tried = first;
        for (at, flavor) in self.group.flavors.iter().enumerate().skip(first) {
            tried = at;
            let name = trial.books.tree.flavor_name(flavor.flavor);
            let allowed = self.claim.allowed_flavors.as_ref();
            let admitted = allowed.is_none_or(|allowed| allowed.iter().any(|own| own == name))
                && self.settled(trial).is_none_or(|settled| settled == name)
                && trial
                    .books
                    .flavor(name)
                    .is_some_and(|flavor| flavor.admits(&self.claim.pod_sets[self.set]));
            if !admitted {
                continue;
            }
            let mut worst = Prefer { outlook: Outlook::Fit, level: 0 };
            let mut own: SmallVec<[(usize, FlavorChoice, u32); 4]> = SmallVec::new();
            for (index, request) in requests.iter().enumerate() {
                let place = request.resource.and_then(|resource| {
                    self.group.resources.iter().position(|own| *own == resource)
                });
                let Some(place) = place else { continue };
                let (of, prefer) = self.outlook(trial, flavor, place, request.amount, simulate);
                let mode = if prefer.outlook == Outlook::Fit {
                    AssignmentMode::Fit
                } else {
                    AssignmentMode::Preempt
                };
                own.push((index, FlavorChoice { of, mode, tried: None }, prefer.level));
                if flavor_order(rule, prefer, worst) == Ordering::Less {
                    worst = prefer;
                }
                if worst.outlook == Outlook::NoFit {
                    break;
                }
            }
            let goes_on = match worst.outlook {
                Outlook::NoFit | Outlook::NoCandidates => true,
                Outlook::Preempt | Outlook::Reclaim if !rule.stop_when_preempting => true,
                _ => worst.level > 0 && rule.try_next_when_borrowing,
            };
            if !goes_on || flavor_order(rule, worst, best) == Ordering::Greater {
                (best, choices) = (worst, own);
            }
            if !goes_on {
                break;
            }
        }
        let tried = (tried + 1 < self.group.flavors.len()).then_some(tried as u32);
        for (index, choice, level) in choices {
            requests[index].choice = Some((FlavorChoice { tried, ..choice }, level));
        }
        best.outlook != Outlook::NoFit
    }

    /// The first flavor to be tried.
    fn bookmark(&self, trial: &Trial<'_>, requests: &[Request]) -> usize {
        let Some(marks) = self.claim.bookmark.get(self.set) else { return 0 };
        let in_group = |request: &&Request| {
            request.resource.is_some_and(|resource| self.group.resources.contains(&resource))
        };
        let first = requests.iter().find(in_group).and_then(|request| request.resource);
        let name = first.map_or("", |first| trial.books.tree.resource_name(first));
        let mark = marks.iter().find(|(own, _)| own == name);
        mark.map_or(0, |(_, mark)| *mark as usize)
    }

    /// The flavor that is settled for the group.
    fn settled(&self, trial: &Trial<'_>) -> Option<&str> {
        let settled = self.claim.settled.get(self.set)?;
        let of_group = |resource: &str| {
            let number = trial.books.tree.resource_number(resource);
            number.is_some_and(|number| self.group.resources.contains(&number))
        };
        settled.iter().find(|(resource, _)| of_group(resource)).map(|(_, flavor)| flavor.as_str())
    }

    /// How a resource in a flavor can be had.
    fn outlook(
        &self,
        trial: &mut Trial<'_>,
        flavor: &GroupFlavor,
        place: usize,
        amount: i64,
        simulate: Simulate<'_>,
    ) -> (FlavorResource, Prefer) {
        let cell = flavor.cells[place];
        let sums = &trial.cells[cell];
        let of = FlavorResource(sums.pair);
        let before = self.usage.iter().find(|(own, _)| *own == of).map_or(0, |(_, sum)| *sum);
        let amount = amount.saturating_add(before);
        let (level, may_reclaim) = borrow_level(&trial.books.tree, &trial.cells, cell, amount);
        let prefer = |outlook| (of, Prefer { outlook, level });
        if amount > trial.cells.potential(cell).min(MOST) {
            return prefer(Outlook::NoFit);
        }
        if amount <= trial.cells.available(cell).max(0) {
            return prefer(Outlook::Fit);
        }
        let policy = trial.books.tree.slots[self.leaf as usize].spec.preemption;
        let reclaims = policy.reclaim_within_cohort != crate::quota::QueuePreemptionPolicy::Never;
        let worth_it = sums.nominal >= amount
            || may_reclaim
            || policy.borrow_within_cohort.lower_priority
            || (trial.books.fair && reclaims)
            || trial.books.tree.whole_shares;
        if !worth_it {
            return prefer(Outlook::NoFit);
        }
        let (outlook, after) = simulate(trial, of, amount);
        (of, Prefer { outlook, level: after.unwrap_or(level) })
    }
}
