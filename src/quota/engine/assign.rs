//! Flavors for a claim, and how they can be had.
//!
//! Source: Kueue's `flavorassigner.go`.

use core::cmp::Ordering;

use smallvec::SmallVec;

use crate::model::resources::PODS;
use crate::quota::books::cells::{Cells, NONE};
use crate::quota::books::tree::{Group, GroupFlavor, QueueTree};
use crate::quota::engine::trial::Trial;
use crate::quota::model::amount::MOST;
use crate::quota::model::claim::{
    AssignmentMode, Claim, FlavorChoice, FlavorResource, PodSetAssignment, QuotaAssignment, Usage,
    add_usage,
};
use crate::quota::model::queue::{Fungibility, QueuePreemption, QueuePreemptionPolicy};

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

impl Outlook {
    /// Compares two ways to have flavors by a rule: how each can be had, and how far up the tree is
    /// borrowed from. `Greater` if the first is preferred.
    pub fn compare(rule: Fungibility, a: (Outlook, u32), b: (Outlook, u32)) -> Ordering {
        let prefer = |(outlook, level)| Prefer { outlook, level };
        flavor_order(rule, prefer(a), prefer(b))
    }
}

/// An outlook, and how far up the tree is borrowed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefer {
    outlook: Outlook,
    level: u32,
}

/// Compares two ways by preference; `Greater` if the first is preferred.
fn flavor_order(rule: Fungibility, a: Prefer, b: Prefer) -> Ordering {
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

/// How far up the tree a leaf borrows from to have so much more. The flag says whether the
/// subtree that suffices has others around it, from which it could be taken back.
pub(in crate::quota) fn borrow_level(
    tree: &QueueTree,
    cells: &Cells,
    cell: u32,
    amount: i64,
) -> (u32, bool) {
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

/// The request of one resource of a pod set.
struct Request {
    /// `None`: no queue has quota of it.
    resource: Option<u32>,
    amount: i64,
    choice: Option<(FlavorChoice, u32)>,
}

/// A claim that asks for flavors.
#[derive(Debug, Clone, Copy)]
pub(in crate::quota) struct Ask<'a> {
    pub(in crate::quota) leaf: u32,
    pub(in crate::quota) claim: &'a Claim,
    /// How many pods of each set; `None`: all.
    pub(in crate::quota) counts: Option<&'a [u32]>,
    /// Whose claims the claim may evict; `None`: as its queue says.
    pub(in crate::quota) policy: Option<QueuePreemption>,
}

impl<'a> Ask<'a> {
    /// All pods of a claim.
    pub(in crate::quota) fn new(leaf: u32, claim: &'a Claim) -> Ask<'a> {
        Ask { leaf, claim, counts: None, policy: None }
    }
}

/// Flavors for a claim that takes nothing from others.
pub(in crate::quota) fn assign_free(trial: &mut Trial<'_>, ask: Ask<'_>) -> QuotaAssignment {
    assign(trial, ask, &mut |_, _, _| (Outlook::NoCandidates, None))
}

/// Flavors for a claim, of some of its pods or all.
pub(in crate::quota) fn assign(
    trial: &mut Trial<'_>,
    ask: Ask<'_>,
    simulate: Simulate<'_>,
) -> QuotaAssignment {
    let Ask { leaf, claim, counts, policy } = ask;
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
        for (name, amount) in set.asks(count) {
            let resource = books.tree.resource_number(name);
            requests.push(Request { resource, amount, choice: None });
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
                    let usage = &assignment.usage;
                    let search = Search { leaf, claim, policy, set: at, group, usage };
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
    policy: Option<QueuePreemption>,
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
        let stated = trial.books.tree.slots[self.leaf as usize].spec.preemption;
        let policy = self.policy.unwrap_or(stated);
        let reclaims = policy.reclaim_within_cohort != QueuePreemptionPolicy::Never;
        let worth_it = sums.nominal >= amount
            || may_reclaim
            || policy.borrow_within_cohort.lower_priority
            || (trial.books.fair && reclaims);
        if !worth_it {
            return prefer(Outlook::NoFit);
        }
        let (outlook, after) = simulate(trial, of, amount);
        (of, Prefer { outlook, level: after.unwrap_or(level) })
    }
}
