//! One cycle of Kueue's scheduler: all heads decided on at once, then one after the other.
//!
//! A scheduler of this crate decides on one claim at a time, and needs none of this. It is here to
//! be compared with what Kueue does: everything it asks of [`Tenants`] is what a scheduler asks.
//!
//! Source: Kueue's `scheduler.go`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

use phalanx::Time;
use phalanx::quota::{
    AssignmentMode, Claim, FlavorResource, Head, HolderId, QueueId, QueueKind,
    QueuePreemptionPolicy, QueueingStrategy, QuotaAssignment, QuotaDecision, QuotaError,
    QuotaVictim, Tenants, Usage, VictimReason, minus, plus,
};

/// A claim that waits for a cycle.
#[derive(Debug, Clone)]
pub struct Pending {
    /// The claim.
    pub claim: Claim,
    /// Whether its queue takes claims from its namespace.
    pub in_namespace: bool,
    /// Whether its victims are leaving: it goes first in a queue that is not strict.
    pub awaits_victims: bool,
}

/// The outcome of a cycle.
#[derive(Debug, Clone, Default)]
pub struct Cycle {
    /// Claims that hold quota from now on.
    pub admitted: Vec<(String, QuotaAssignment)>,
    /// Holders to be evicted, in the order in which they were claimed.
    pub evicted: Vec<(String, VictimReason)>,
    /// Claims that are tried again, by queue.
    pub queued: BTreeMap<String, BTreeSet<String>>,
    /// Claims that wait for a change, by queue.
    pub parked: BTreeMap<String, BTreeSet<String>>,
    /// Preemptions that were given up because others had come before, by queue.
    pub skipped: BTreeMap<String, u32>,
    /// Claims whose victims are to be evicted.
    pub preempting: BTreeSet<String>,
    /// Where the search of claims that are tried again goes on.
    pub bookmarks: BTreeMap<String, Vec<Vec<(String, u32)>>>,
}

/// The end of a head.
enum End {
    Admitted,
    /// It has lost to others of the cycle, or awaits victims.
    Again,
    /// There is no room and there are no victims.
    NoRoom,
    Namespace,
}

/// Runs a cycle. Admitted claims hold quota since `now`; victims keep theirs.
///
/// `recompute` is Kueue's gate of what is done when victims are claimed twice.
///
/// # Errors
/// A claim is unsound.
pub fn cycle(
    tenants: &mut Tenants,
    pending: &[Pending],
    now: Time,
    recompute: bool,
) -> Result<Cycle, QuotaError> {
    let mut result = Cycle::default();
    let heads = pick_heads(tenants, pending);
    let mut ends: BTreeMap<usize, End> = BTreeMap::new();
    let mut decisions: BTreeMap<QueueId, (usize, QuotaDecision)> = BTreeMap::new();
    let mut order = tenants.heads();
    for (queue, at) in heads {
        let claim = &pending[at].claim;
        if !pending[at].in_namespace {
            ends.insert(at, End::Namespace);
            continue;
        }
        let decision = tenants.decide(claim)?;
        result.bookmarks.insert(claim.name.clone(), bookmark(tenants, claim, &decision.assignment));
        if decision.assignment.mode == AssignmentMode::NoFit {
            ends.insert(at, End::NoRoom);
            continue;
        }
        let mut head = Head::new(claim.name.clone(), decision.assignment.usage.clone());
        head.uid.clone_from(&claim.uid);
        (head.priority, head.since) = (claim.priority, claim.created);
        head.level = decision.assignment.level;
        head.preempts =
            decision.assignment.mode == AssignmentMode::Preempt && !decision.victims.is_empty();
        order.set(tenants, queue, head);
        decisions.insert(queue, (at, decision));
    }
    let mut claimed: Vec<HolderId> = Vec::new();
    let mut kept: Vec<(QueueId, Usage)> = Vec::new();
    while let Some((queue, _)) = order.pop(tenants) {
        let Some((at, decision)) = decisions.remove(&queue) else { continue };
        let claim = &pending[at].claim;
        let mut turn = Turn {
            tenants,
            queue,
            claim,
            claimed: &mut claimed,
            kept: &mut kept,
            result: &mut result,
        };
        ends.insert(at, turn.take(decision, recompute)?);
        order.changed(tenants, queue);
    }
    // Usage is kept for the length of the cycle.
    for (queue, usage) in kept {
        tenants.keep(queue, &usage, -1)?;
    }
    for (name, assignment) in &result.admitted {
        let Some(found) = pending.iter().find(|pending| pending.claim.name == *name) else {
            continue;
        };
        if tenants.tree().queue(QueueKind::Leaf, &found.claim.queue).is_some() {
            tenants.admit(&found.claim, assignment, now)?;
        }
    }
    requeue(tenants, pending, &ends, &mut result);
    Ok(result)
}

/// The order of claims in one queue: the higher priority first, then the older, then uid and name.
#[must_use]
pub fn claim_order(a: &Claim, b: &Claim) -> Ordering {
    let identity = |claim: &Claim| (claim.uid.clone(), claim.name.clone());
    (b.priority.cmp(&a.priority))
        .then(a.created.cmp(&b.created))
        .then_with(|| identity(a).cmp(&identity(b)))
}

/// Usage kept for a claim that needs victims and has found none, so that others do not take it
/// meanwhile: nothing if the queue may reclaim from all. For a claim that fits, its usage.
#[must_use]
pub fn kept_for(tenants: &Tenants, queue: QueueId, assignment: &QuotaAssignment) -> Usage {
    if assignment.mode != AssignmentMode::Preempt {
        return assignment.usage.clone();
    }
    let tree = tenants.tree();
    let reclaims = tree
        .spec(queue)
        .is_none_or(|spec| spec.preemption.reclaim_within_cohort == QueuePreemptionPolicy::Any);
    if reclaims {
        return Usage::new();
    }
    let kept = |&(of, amount): &(FlavorResource, i64)| {
        let sums = tree.sums(queue, of);
        let limit = tree.quota(queue, of).and_then(|quota| quota.borrowing_limit);
        let kept = if assignment.level == 0 {
            amount.min(minus(sums.nominal, sums.drawn)).max(0)
        } else if let Some(limit) = limit {
            amount.min(minus(plus(sums.nominal, limit), sums.drawn))
        } else {
            amount
        };
        (of, kept)
    };
    assignment.usage.iter().map(kept).collect()
}

/// The head of each active queue.
fn pick_heads(tenants: &Tenants, pending: &[Pending]) -> Vec<(QueueId, usize)> {
    let mut heads: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, Pending { claim, .. }) in pending.iter().enumerate() {
        let head = heads.entry(&claim.queue).or_insert(at);
        let sticks = |at: usize| pending[at].awaits_victims && !is_strict(tenants, claim);
        let order = claim_order(claim, &pending[*head].claim);
        if sticks(*head).cmp(&sticks(at)).then(order).is_lt() {
            *head = at;
        }
    }
    let queue = |name: &str| tenants.tree().queue(QueueKind::Leaf, name);
    let heads = heads.into_iter().filter_map(|(name, at)| Some((queue(name)?, at)));
    heads.filter(|(queue, _)| tenants.is_active(*queue)).collect()
}

/// Whether a claim keeps those behind it waiting.
fn is_strict(tenants: &Tenants, claim: &Claim) -> bool {
    let queue = tenants.tree().queue(QueueKind::Leaf, &claim.queue);
    let spec = queue.and_then(|queue| tenants.tree().spec(queue));
    spec.is_some_and(|spec| spec.strategy == QueueingStrategy::StrictFifo)
}

/// Where the search for a claim's flavors goes on.
fn bookmark(
    tenants: &Tenants,
    claim: &Claim,
    assignment: &QuotaAssignment,
) -> Vec<Vec<(String, u32)>> {
    let mut marks: Vec<Vec<(String, u32)>> = claim.pod_sets.iter().map(|_| Vec::new()).collect();
    for set in &assignment.pod_sets {
        for choice in &set.flavors {
            if let Some(tried) = choice.tried {
                let resource = tenants.tree().names(choice.of).1;
                marks[set.pod_set].push((resource.into(), tried + 1));
            }
        }
    }
    marks
}

/// One head's turn.
struct Turn<'a> {
    tenants: &'a mut Tenants,
    queue: QueueId,
    claim: &'a Claim,
    claimed: &'a mut Vec<HolderId>,
    kept: &'a mut Vec<(QueueId, Usage)>,
    result: &'a mut Cycle,
}

impl Turn<'_> {
    fn take(&mut self, mut decision: QuotaDecision, recompute: bool) -> Result<End, QuotaError> {
        if recompute && self.overlaps(&decision.victims) {
            decision = self.again(&decision.assignment)?;
            let marks = bookmark(self.tenants, self.claim, &decision.assignment);
            self.result.bookmarks.insert(self.claim.name.clone(), marks);
            if decision.assignment.mode == AssignmentMode::Fit {
                self.keep(&decision.assignment.usage)?;
                // All flavors are tried again once the victims of others are gone.
                self.result.bookmarks.remove(&self.claim.name);
                return Ok(End::Again);
            }
        }
        let assignment = &decision.assignment;
        if assignment.mode == AssignmentMode::NoFit {
            return Ok(End::NoRoom);
        }
        if assignment.mode == AssignmentMode::Preempt && decision.victims.is_empty() {
            let kept = kept_for(self.tenants, self.queue, assignment);
            self.keep(&kept)?;
            return Ok(End::NoRoom);
        }
        let mut without: Vec<HolderId> = self.claimed.clone();
        without.extend(decision.victims.iter().map(|victim| victim.holder));
        without.sort_unstable();
        without.dedup();
        let fits = self.tenants.fits(self.queue, &assignment.usage, &without);
        if self.overlaps(&decision.victims) || !fits {
            if assignment.mode == AssignmentMode::Preempt {
                *self.result.skipped.entry(self.claim.queue.clone()).or_default() += 1;
            }
            return Ok(End::Again);
        }
        self.keep(&assignment.usage.clone())?;
        if decision.victims.is_empty() {
            self.result.admitted.push((self.claim.name.clone(), decision.assignment));
            return Ok(End::Admitted);
        }
        for QuotaVictim { holder, reason, .. } in decision.victims {
            let name = self.tenants.holder(holder).map_or("", |holder| &holder.name);
            self.result.evicted.push((name.into(), reason));
            self.claimed.push(holder);
        }
        self.result.bookmarks.remove(&self.claim.name);
        self.result.preempting.insert(self.claim.name.clone());
        Ok(End::Again)
    }

    fn overlaps(&self, victims: &[QuotaVictim]) -> bool {
        victims.iter().any(|victim| self.claimed.contains(&victim.holder))
    }

    /// Lowers the available amounts by a usage; amounts below zero keep nothing.
    fn keep(&mut self, usage: &Usage) -> Result<(), QuotaError> {
        let usage: Usage = usage.iter().map(|(of, amount)| (*of, (*amount).max(0))).collect();
        self.tenants.keep(self.queue, &usage, 1)?;
        self.kept.push((self.queue, usage));
        Ok(())
    }

    /// The claim once more, whole and in the flavors it was given, as if the victims of others were
    /// gone.
    fn again(&mut self, assignment: &QuotaAssignment) -> Result<QuotaDecision, QuotaError> {
        let mut without = self.tenants.clone();
        for holder in &*self.claimed {
            without.release(*holder)?;
        }
        let mut claim = self.claim.clone();
        claim.bookmark.clear();
        claim.settled = claim.pod_sets.iter().map(|_| Vec::new()).collect();
        for set in &assignment.pod_sets {
            for choice in &set.flavors {
                let (flavor, resource) = self.tenants.tree().names(choice.of);
                claim.settled[set.pod_set].push((resource.into(), flavor.into()));
            }
        }
        without.decide(&claim)
    }
}

/// Sorts claims into those that are tried again and those that wait for a change.
fn requeue(
    tenants: &Tenants,
    pending: &[Pending],
    ends: &BTreeMap<usize, End>,
    result: &mut Cycle,
) {
    let mut shapes: Vec<&Claim> = Vec::new();
    let is_there = |claim: &Claim| tenants.tree().queue(QueueKind::Leaf, &claim.queue).is_some();
    for (at, end) in ends {
        let claim = &pending[*at].claim;
        let marks = result.bookmarks.get(&claim.name);
        let untried = marks.is_some_and(|sets| sets.iter().any(|marks| !marks.is_empty()));
        let parked = match end {
            End::Admitted => continue,
            End::Again => false,
            End::NoRoom => !is_strict(tenants, claim) && !untried,
            End::Namespace => true,
        };
        if parked && matches!(end, End::NoRoom) {
            shapes.push(claim);
        }
        let to = if parked { &mut result.parked } else { &mut result.queued };
        to.entry(claim.queue.clone()).or_default().insert(claim.name.clone());
    }
    for (at, Pending { claim, .. }) in pending.iter().enumerate() {
        // Claims of queues that are not there are in no queue.
        if ends.contains_key(&at) || !is_there(claim) {
            continue;
        }
        let same = |other: &&Claim| {
            other.queue == claim.queue
                && other.priority == claim.priority
                && other.pod_sets == claim.pod_sets
        };
        let to = if shapes.iter().any(same) { &mut result.parked } else { &mut result.queued };
        to.entry(claim.queue.clone()).or_default().insert(claim.name.clone());
    }
}
