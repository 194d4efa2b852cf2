//! Admission: the quota that groups are given and charged for, and the groups that give it back.
//!
//! The dialect names those groups ([`Tenants::decide`](crate::quota::Tenants::decide)); each goes
//! whole, as one unit. A group that may not be evicted now is kept from the searches of the books
//! until that changes, so that others are named in its place.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::base::Time;
use crate::model::{Owner, PodGroup};
use crate::queue::groups::full_name;
use crate::queue::holds::KeptQuota;
use crate::queue::tenancy::charges::Charge;
use crate::queue::tenancy::claims::{GroupClaim, claim_of, restrict};
use crate::queue::tenancy::shortage::{Short, refusal, shortage};
use crate::queue::tenancy::standing::{Standing, standing};
use crate::queue::tenancy::{Owners, Tenancy};
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::shortage::{QuotaReason, Shortage};
use crate::queue::terms::wake::WakeCondition;
use crate::queue::world::World;
use crate::quota::{
    AssignmentMode, Claim, HolderId, QueueId, QuotaAssignment, QuotaDecision, QuotaError, Usage,
    Yields,
};
use crate::state::Plan;

/// The quota that a group has been admitted with, until its pods are placed.
pub(in crate::queue) struct Admitted {
    id: GroupId,
    leaf: QueueId,
    claim: GroupClaim,
    assignment: QuotaAssignment,
    /// Whether the quota was reserved for the group while its victims went.
    pub(in crate::queue) is_reserved: bool,
}

/// The shortage of a claim that is not admitted, and the condition that wakes its group.
pub(in crate::queue) type Refusal = Box<(Shortage, WakeCondition)>;

/// An answer, and times after which a search for victims may find more.
type Timed<T> = (T, Vec<Time>);

/// The decision on a claim, and the groups that give back for it.
struct Reclaim {
    decision: QuotaDecision,
    /// The groups that are to be evicted, in the order in which quota names them. Groups that are
    /// going already are not among them.
    groups: Vec<GroupId>,
    /// Named groups that are going already.
    going: Vec<GroupId>,
}

/// Quota that a group may have, and all that gives it back.
#[derive(Default)]
pub(in crate::queue) struct Sought {
    /// The quota, kept for the group.
    pub(in crate::queue) admitted: Vec<Admitted>,
    /// The groups that are to be evicted.
    pub(in crate::queue) giving: Vec<GroupId>,
    /// The groups that lose the quota that is reserved for them.
    pub(in crate::queue) yields: Vec<GroupId>,
}

impl Sought {
    pub(in crate::queue) fn takes_nothing(&self) -> bool {
        self.giving.is_empty() && self.yields.is_empty()
    }
}

impl Tenancy {
    /// The claim of a group's pending members.
    pub(super) fn group_claim(&self, owners: Owners<'_>, id: GroupId) -> Option<GroupClaim> {
        Some(claim_of(&self.tenants, owners.world, owners.groups.get(&id)?))
    }

    /// Admits groups to quota, all or none, and keeps the tree on the nodes of their flavors. The
    /// quota is kept for them until [`Tenancy::charge_plan`] or [`Tenancy::withdraw`].
    pub(in crate::queue) fn admit(
        &mut self,
        owners: Owners<'_>,
        gang: &[GroupId],
        tree: &mut PodGroup,
    ) -> Timed<Result<Vec<Admitted>, Refusal>> {
        let (mut admitted, mut ends) = (Vec::new(), Vec::new());
        for &id in gang {
            match self.admit_group(owners, id, &mut ends) {
                Ok(given) => admitted.extend(given),
                Err(refused) => {
                    let (claim, short) = *refused;
                    self.withdraw(admitted);
                    return (Err(Box::new(refusal(&self.tenants, &claim, short))), ends);
                }
            }
        }
        self.restrict_to(owners.world, tree, &admitted);
        (Ok(admitted), ends)
    }

    /// Admits one group; `None` if it asks for nothing.
    fn admit_group(
        &mut self,
        owners: Owners<'_>,
        id: GroupId,
        ends: &mut Vec<Time>,
    ) -> Result<Option<Admitted>, Box<(GroupClaim, Short)>> {
        self.unask(id);
        let claim = self.group_claim(owners, id);
        let Some(claim) = claim.filter(|claim| !claim.claim.pod_sets.is_empty()) else {
            return Ok(None);
        };
        if let Some(given) = self.take_reserved(owners, id, &claim) {
            return Ok(Some(given));
        }
        let decision = match self.decide_claim(owners, &claim, ends) {
            Ok(found) => found.decision,
            Err(error) => {
                let reason = QuotaReason::Refused { reason: error.to_string() };
                return Err(Box::new((claim, Short::nowhere(reason))));
            }
        };
        let refused = if decision.assignment.mode == AssignmentMode::Fit {
            match self.keep_given(id, claim, decision.assignment.clone()) {
                Ok(given) => return Ok(Some(given)),
                Err(claim) => *claim,
            }
        } else {
            claim
        };
        let leaf = self.leaf(&refused.claim.queue).filter(|leaf| self.tenants.is_active(*leaf));
        let short = match leaf {
            Some(leaf) => shortage(&mut self.tenants, leaf, &refused.claim, &decision),
            None => Short::nowhere(QuotaReason::Inactive),
        };
        Err(Box::new((refused, short)))
    }

    /// Keeps the quota that a claim is given for its group. If no sum can hold it, the claim is
    /// returned.
    fn keep_given(
        &mut self,
        id: GroupId,
        claim: GroupClaim,
        assignment: QuotaAssignment,
    ) -> Result<Admitted, Box<GroupClaim>> {
        match self.leaf(&claim.claim.queue) {
            Some(leaf) if self.tenants.give(&claim.claim, leaf, &assignment.usage, 1).is_ok() => {
                Ok(Admitted { id, leaf, claim, assignment, is_reserved: false })
            }
            _ => Err(Box::new(claim)),
        }
    }

    /// Keeps a tree on the nodes of the flavors that its groups are given.
    fn restrict_to(&self, world: &World, tree: &mut PodGroup, admitted: &[Admitted]) {
        for given in admitted {
            restrict(tree, &given.claim, &given.assignment, &self.tenants, world.cluster());
        }
    }

    /// Gives up the quota that groups were admitted with.
    pub(in crate::queue) fn withdraw(&mut self, admitted: Vec<Admitted>) {
        for given in admitted {
            self.take_back(&given);
        }
    }

    /// Takes back the quota that one group was admitted with.
    fn take_back(&mut self, given: &Admitted) {
        let Admitted { leaf, claim, assignment, .. } = given;
        let _ = self.tenants.give(&claim.claim, *leaf, &assignment.usage, -1);
    }

    /// Charges the groups of a plan for the pods that are placed.
    pub(in crate::queue) fn charge_plan(
        &mut self,
        admitted: Vec<Admitted>,
        plan: &Plan,
        now: Time,
    ) {
        let placed: BTreeSet<String> =
            plan.assignments().map(|assignment| full_name(assignment.pod())).collect();
        for given in admitted {
            self.take_back(&given);
            let pods = given.claim.charges(&given.assignment, &self.tenants);
            let pods = pods.into_iter().filter(|(pod, _)| placed.contains(pod));
            let mut charge = self.charges.get(&given.id).cloned().unwrap_or_else(|| Charge {
                holder: given.claim.claim.name.clone(),
                queue: given.claim.claim.queue.clone(),
                priority: given.claim.claim.priority,
                created: given.claim.claim.created,
                since: now,
                preemptible: given.claim.claim.preemptible,
                owner: given.claim.claim.owner.clone(),
                pods: BTreeMap::new(),
            });
            charge.pods.extend(pods);
            self.charge(given.id, charge);
        }
    }

    /// The decision on a claim. If a holder that quota names may not be evicted now, it is kept,
    /// and the claim is decided again. Without [`Settings::preemption`] no group is kept or gives back.
    ///
    /// [`Settings::preemption`]: crate::queue::Settings::preemption
    fn decide_claim(
        &mut self,
        owners: Owners<'_>,
        claim: &GroupClaim,
        ends: &mut Vec<Time>,
    ) -> Result<Reclaim, QuotaError> {
        loop {
            self.tenants.advance(owners.world.now());
            let decision = self.tenants.decide(&claim.claim)?;
            let (mut groups, mut going) = (Vec::new(), Vec::new());
            if owners.world.settings().preemption.is_none() || decision.victims.is_empty() {
                return Ok(Reclaim { decision, groups, going });
            }
            let mut kept = Vec::new();
            for victim in &decision.victims {
                match self.holding(owners, victim.holder) {
                    Some(id) if self.is_moving(owners, id) => {
                        let soon =
                            owners.world.now().after(owners.world.settings().backoff.after(1));
                        kept.push((victim.holder, Some(id), Some(soon)));
                    }
                    Some(id) => match standing(owners, id) {
                        Standing::Free => groups.push(id),
                        Standing::Going => going.push(id),
                        Standing::Kept(until) => kept.push((victim.holder, Some(id), until)),
                    },
                    None => kept.push((victim.holder, None, None)),
                }
            }
            if kept.is_empty() {
                return Ok(Reclaim { decision, groups, going });
            }
            for (holder, id, until) in kept {
                let _ = self.tenants.set_kept(holder, true);
                if let Some(id) = id {
                    self.kept.insert(id, until);
                }
                ends.extend(until);
            }
        }
    }

    /// The group of a holder, if it is known.
    fn holding(&self, owners: Owners<'_>, holder: HolderId) -> Option<GroupId> {
        let name = &self.tenants.holder(holder)?.name;
        let (id, _) = owners.groups.named(name)?;
        let charge = self.charges.get(&id)?;
        (charge.holder == *name).then_some(id)
    }

    /// The decision on a claim that preempts, and the groups whose reserved claims end for it. If
    /// another queue gives back, quota that is reserved in its subtree goes before running groups
    /// there, the last in line first. If that spares no running group, no reserved quota is taken.
    /// Where only reserved quota takes a queue beyond its own, nobody gives back.
    fn decide_before_reserved(
        &mut self,
        owners: Owners<'_>,
        claim: &GroupClaim,
        ends: &mut Vec<Time>,
    ) -> Result<(Reclaim, Vec<GroupId>), QuotaError> {
        let first = self.decide_claim(owners, claim, ends)?;
        let mut last = None;
        let mut aside: BTreeMap<GroupId, (String, Owner, QueueId, Usage)> = BTreeMap::new();
        let mut back = Vec::new();
        while let Some(id) = self.last_reserved(owners, claim, last.as_ref().unwrap_or(&first)) {
            let Some(queued) = owners.groups.get(&id) else { break };
            let (name, owner) = (queued.name().to_string(), queued.root().owner.clone());
            let Some((leaf, usage)) = self.tenants.unreserve(&name) else { break };
            aside.insert(id, (name, owner, leaf, usage));
            // Guarantees hold for groups that go for the reserved claim alone: they stay without it.
            back.extend(self.hold_back(owners, &[id]));
            last = self.decide_claim(owners, claim, ends).ok();
            if last.is_none() {
                break;
            }
        }
        self.let_go(back);
        for (name, owner, leaf, usage) in aside.values() {
            let _ = self.tenants.reserve_for(name, owner, *leaf, usage);
        }
        let queues = aside.keys().filter_map(|id| queue_of(owners, *id));
        let sides: BTreeSet<QueueId> = queues.flat_map(|queue| self.side(claim, queue)).collect();
        let running = |found: &Reclaim| {
            let queues_named = found.groups.iter().filter_map(|id| queue_of(owners, *id));
            queues_named.filter(|queue| !self.side(claim, queue).is_disjoint(&sides)).count()
        };
        let is_fit = |found: &Reclaim| found.decision.assignment.mode != AssignmentMode::NoFit;
        let is_better = |found: &Reclaim| is_fit(found) && running(found) < running(&first);
        match last {
            Some(last) if is_better(&last) => Ok((last, aside.into_keys().collect())),
            // Beside what is used, without what is reserved, nobody gives back: so nobody does.
            Some(last) if !is_fit(&last) => Ok((last, Vec::new())),
            _ => Ok((first, Vec::new())),
        }
    }

    /// A queue and those above it that a claim's queue is not below: they give back to the claim.
    fn side(&self, claim: &GroupClaim, queue: &str) -> BTreeSet<QueueId> {
        let tree = self.tenants.tree();
        let path = |queue| self.leaf(queue).into_iter().flat_map(|leaf| tree.path(leaf));
        let own: BTreeSet<QueueId> = path(&claim.claim.queue).collect();
        path(queue).filter(|at| !own.contains(at)).collect()
    }

    /// The groups that are to leave for a reserved claim alone: none of them has begun to go.
    fn leaving_for(&self, owners: Owners<'_>, id: GroupId) -> Vec<GroupId> {
        let by = lead(owners, id);
        let goes_for_it = |root: &GroupId| {
            let mut own = owners.removals.iter().filter(|own| own.root() == Some(*root)).peekable();
            own.peek().is_some() && own.all(|own| own.by() == by && !own.has_begun())
        };
        self.leaving.iter().copied().filter(goes_for_it).collect()
    }

    /// Counts groups as staying that are to leave for some reserved claims alone: another claim that
    /// takes them over ends those, and leaves guarantees as they are. Returns the groups, for
    /// [`Tenancy::let_go`].
    pub(in crate::queue) fn hold_back(
        &mut self,
        owners: Owners<'_>,
        claims: &[GroupId],
    ) -> Vec<GroupId> {
        let mut back = Vec::new();
        for &claim in claims {
            for root in self.leaving_for(owners, claim) {
                self.set_holder_leaving(root, false);
                back.push(root);
            }
        }
        back
    }

    /// Counts groups as leaving that were held back.
    pub(in crate::queue) fn let_go(&mut self, back: Vec<GroupId>) {
        for root in back {
            self.reset_leaving(root);
        }
    }

    /// The last in line of the reserved claims in other queues that a decision names groups of, for
    /// what the claim asks for.
    fn last_reserved(
        &self,
        owners: Owners<'_>,
        claim: &GroupClaim,
        found: &Reclaim,
    ) -> Option<GroupId> {
        let queues = found.groups.iter().filter_map(|id| queue_of(owners, *id));
        let sides: BTreeSet<QueueId> = queues.flat_map(|queue| self.side(claim, queue)).collect();
        let asks_for = |of| found.decision.assignment.usage.iter().any(|(own, _)| *own == of);
        let gives = |id: &GroupId| {
            let queued = owners.groups.get(id)?;
            let (_, usage) = self.tenants.reserved(queued.name())?;
            let takes = usage.iter().any(|&(of, amount)| amount > 0 && asks_for(of));
            let root = queued.root();
            let gives = takes && !self.side(claim, &root.queue).is_disjoint(&sides);
            gives.then_some((Reverse(root.priority), queued.ready_since(), *id))
        };
        let kept = owners.holds.with_quota();
        kept.filter_map(|id| gives(&id)).max().map(|(.., id)| id)
    }

    /// Quota for a group that does not fit, for a search of victims, and the groups that give it
    /// back. The quota is kept until [`Tenancy::reserve`] or [`Tenancy::withdraw`].
    ///
    /// The tree is kept on the nodes of the flavors. Groups that were asked to give back for this
    /// group before are among those that do. The answer is `None` if quota suffices with the groups
    /// that are going already, or not at all, or the group preempts nothing.
    pub(in crate::queue) fn seek(
        &mut self,
        owners: Owners<'_>,
        id: GroupId,
        tree: &mut PodGroup,
    ) -> Timed<Option<Sought>> {
        let claim = self.group_claim(owners, id);
        let Some(claim) = claim.filter(|claim| !claim.claim.pod_sets.is_empty()) else {
            return (Some(Sought::default()), Vec::new());
        };
        let mut ends = Vec::new();
        let Ok((found, yields)) = self.decide_before_reserved(owners, &claim, &mut ends) else {
            return (None, ends);
        };
        let Reclaim { decision, mut groups, going } = found;
        // Groups that go for a claim whose reservation ends go for this one instead.
        let goes_for =
            |root: GroupId, by: GroupId| owners.removals.by(by).any(|own| own.root() == Some(root));
        let (passed_on, going): (Vec<GroupId>, Vec<GroupId>) = going
            .into_iter()
            .partition(|root| yields.iter().any(|own| goes_for(*root, lead(owners, *own))));
        groups.extend(passed_on);
        let is_found = match decision.assignment.mode {
            AssignmentMode::Fit => true,
            AssignmentMode::Preempt => !groups.is_empty() && !tree.never_preempts(),
            AssignmentMode::NoFit => false,
        };
        if !is_found {
            return (None, ends);
        }
        groups.extend(going.into_iter().filter(|root| goes_for(*root, id)));
        let Ok(given) = self.keep_given(id, claim, decision.assignment) else {
            return (None, ends);
        };
        self.restrict_to(owners.world, tree, core::slice::from_ref(&given));
        let admitted = alloc::vec![given];
        (Some(Sought { admitted, giving: groups, yields }), ends)
    }

    /// Whether victims are searched over quota and room at once.
    pub(in crate::queue) fn searches_jointly(&self, world: &World) -> bool {
        let settings = world.settings().preemption;
        settings.is_some_and(|own| own.joint.unwrap_or(self.tenants.yields_jointly()))
    }

    /// The quota that a group would get by victims, for a search over quota and room at once. It is
    /// not kept; the tree is kept on the nodes of the flavors. `None` if limits keep the group out,
    /// or it preempts nothing.
    pub(in crate::queue) fn wanted(
        &mut self,
        owners: Owners<'_>,
        id: GroupId,
        tree: &mut PodGroup,
    ) -> Timed<Option<Admitted>> {
        let mut ends = Vec::new();
        let claim = self.group_claim(owners, id);
        let claim =
            claim.filter(|claim| !claim.claim.pod_sets.is_empty() && !tree.never_preempts());
        let Some(claim) = claim else { return (None, ends) };
        let Ok(found) = self.decide_claim(owners, &claim, &mut ends) else { return (None, ends) };
        let assignment = found.decision.assignment;
        let leaf = self.leaf(&claim.claim.queue);
        let Some(leaf) = leaf.filter(|_| assignment.mode != AssignmentMode::NoFit) else {
            return (None, ends);
        };
        let wanted = Admitted { id, leaf, claim, assignment, is_reserved: false };
        self.restrict_to(owners.world, tree, core::slice::from_ref(&wanted));
        (Some(wanted), ends)
    }

    /// Who may yield for a group that wants quota.
    pub(in crate::queue) fn yields(&mut self, wanted: &Admitted) -> Option<Yields<'_>> {
        self.tenants.yields(&wanted.claim.claim, &wanted.assignment).ok()?
    }

    /// Whether a group may have the quota that it wants now.
    pub(in crate::queue) fn fits_now(&mut self, wanted: &Admitted) -> bool {
        let decision = self.tenants.decide(&wanted.claim.claim);
        decision.is_ok_and(|own| {
            own.assignment == wanted.assignment && own.assignment.mode == AssignmentMode::Fit
        })
    }

    /// Whether a group may have the amounts that it wants now, in whatever way.
    pub(in crate::queue) fn fits_with(&mut self, wanted: &Admitted) -> bool {
        let decision = self.tenants.decide(&wanted.claim.claim);
        decision.is_ok_and(|own| {
            own.assignment.mode == AssignmentMode::Fit
                && own.assignment.usage == wanted.assignment.usage
        })
    }

    /// Keeps the quota that a group wants; `None` if no sum can hold it.
    pub(in crate::queue) fn keep_wanted(&mut self, wanted: Admitted) -> Option<Admitted> {
        let Admitted { leaf, claim, assignment, .. } = &wanted;
        self.tenants.give(&claim.claim, *leaf, &assignment.usage, 1).ok().map(|()| wanted)
    }

    /// Reserves the quota that groups were given, until their victims have gone. Returns the quota,
    /// for the claim that is to keep it.
    pub(in crate::queue) fn reserve(
        &mut self,
        admitted: Vec<Admitted>,
    ) -> BTreeMap<GroupId, KeptQuota> {
        let mut kept = BTreeMap::new();
        for given in admitted {
            self.take_back(&given);
            let Admitted { id, leaf, claim, assignment, .. } = given;
            let claim = &claim.claim;
            let Claim { name, owner, .. } = claim;
            let _ = self.tenants.reserve_for(name, owner, leaf, &assignment.usage);
            kept.insert(id, KeptQuota::new(&claim.pod_sets, &assignment, &self.tenants));
        }
        kept
    }

    /// Gives up the quota that is reserved for a group. `used` says that it was charged instead.
    pub(in crate::queue) fn unreserve(&mut self, owners: Owners<'_>, id: GroupId, used: bool) {
        let Some(queued) = owners.groups.get(&id) else { return };
        let given = self.tenants.reserved(queued.name()).filter(|_| !used);
        if let Some((leaf, usage)) = given.map(|(leaf, usage)| (leaf, usage.clone())) {
            self.note_moved(leaf, &usage);
        }
        self.tenants.unreserve(queued.name());
    }

    /// The quota that is reserved for a group, if it may have it now and asks for the same.
    ///
    /// Later claims hold quota beside the victims that they wait for. If all victims of this claim
    /// have gone, it may have its quota although those of later claims have not.
    fn take_reserved(
        &mut self,
        owners: Owners<'_>,
        id: GroupId,
        claim: &GroupClaim,
    ) -> Option<Admitted> {
        let waiting: BTreeSet<&str> = owners
            .removals
            .iter()
            .filter_map(|own| Some(owners.groups.get(&own.by())?.name().as_str()))
            .collect();
        let name = &claim.claim.name;
        let going: Vec<HolderId> =
            self.leaving.iter().filter_map(|id| self.holder_of(*id)).collect();
        let reserved = owners.holds.quota(id)?;
        let (leaf, usage) = self.tenants.reserved(name)?;
        let is_same = reserved.pod_sets() == claim.claim.pod_sets
            && self.leaf(&claim.claim.queue) == Some(leaf);
        if !is_same || !self.tenants.is_active(leaf) {
            return None;
        }
        let usage = usage.clone();
        let fits = self.tenants.fits_reserved(name, &[])
            || !waiting.contains(name.as_str())
                && self.tenants.fits_reserved(name, &going)
                && self.tenants.fits_beside(name, &waiting);
        if !fits {
            return None;
        }
        let assignment = reserved.assignment(usage, &self.tenants);
        self.tenants.give(&claim.claim, leaf, &assignment.usage, 1).ok()?;
        Some(Admitted { id, leaf, claim: claim.clone(), assignment, is_reserved: true })
    }

    /// Whether the quota that is reserved for a group suffices once all groups that are going have
    /// gone.
    pub(in crate::queue) fn suffices(&mut self, owners: Owners<'_>, id: GroupId) -> bool {
        let Some(claim) = self.group_claim(owners, id) else { return false };
        let Some(reserved) = owners.holds.quota(id) else {
            // Nothing is counted of what it asks for.
            return claim.claim.pod_sets.is_empty();
        };
        let going = self.leaving.iter().filter_map(|id| self.holder_of(*id));
        let going: Vec<HolderId> = going.collect();
        let leaf = self.tenants.reserved(&claim.claim.name).map(|(leaf, _)| leaf);
        reserved.pod_sets() == claim.claim.pod_sets
            && self.leaf(&claim.claim.queue) == leaf
            && leaf.is_some_and(|leaf| self.tenants.is_active(leaf))
            && self.tenants.fits_reserved(&claim.claim.name, &going)
    }

    /// Whether quota would still name a victim of another queue, were it not leaving already; true
    /// for one of the claim's own queue, which priorities name.
    pub(in crate::queue) fn is_still_named(
        &mut self,
        owners: Owners<'_>,
        by: GroupId,
        root: GroupId,
    ) -> Timed<bool> {
        let queue = |id| owners.groups.get(&id).map(|queued| &queued.root().queue);
        let claim = self.group_claim(owners, by).filter(|_| queue(by) != queue(root));
        let mut ends = Vec::new();
        let Some(claim) = claim else { return (true, ends) };
        self.set_holder_leaving(root, false);
        let found = self.decide_claim(owners, &claim, &mut ends);
        self.reset_leaving(root);
        let is_named = found.as_ref().is_ok_and(|found| found.going.contains(&root));
        let Ok(Reclaim { decision, .. }) = found else { return (false, ends) };
        (
            is_named
                || self.searches_jointly(owners.world) && self.may_yield(&claim, &decision, root),
            ends,
        )
    }

    /// Whether a group may yield for a claim, when all that are leaving have.
    fn may_yield(&mut self, claim: &GroupClaim, decision: &QuotaDecision, root: GroupId) -> bool {
        let Some(holder) = self.holder_of(root) else { return false };
        self.set_holder_leaving(root, false);
        let yields = self.tenants.yields(&claim.claim, &decision.assignment);
        let may = yields.is_ok_and(|own| own.is_some_and(|own| own.may_begin(&[holder])));
        self.reset_leaving(root);
        may
    }

    /// Counts a group as leaving if it is: only some of its members may be to go.
    fn reset_leaving(&mut self, id: GroupId) {
        self.set_holder_leaving(id, self.leaving.contains(&id));
    }

    fn set_holder_leaving(&mut self, id: GroupId, leaving: bool) {
        if let Some(holder) = self.holder_of(id) {
            let _ = self.tenants.set_leaving(holder, leaving);
        }
    }
}

/// The queue of a group.
fn queue_of(owners: Owners<'_>, id: GroupId) -> Option<&str> {
    owners.groups.get(&id).map(|queued| queued.root().queue.as_str())
}

/// The first of the groups that start together with a group: their claims are in its name.
fn lead(owners: Owners<'_>, id: GroupId) -> GroupId {
    let gang = owners.groups.gang_group(id).ok();
    gang.and_then(|gang| gang.first().copied()).unwrap_or(id)
}
