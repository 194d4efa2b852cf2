//! Reclaim: groups that give quota back, and what is reserved for the one that waits for them.
//!
//! The dialect names the groups ([`Tenants::decide`](crate::quota::Tenants::decide)); each goes
//! whole, as one unit. One that may not be evicted now is kept from the books' searches until that
//! changes, so that others are named in its place.

use alloc::string::String;
use alloc::vec::Vec;

use super::claims::GroupClaim;
use super::evictions::UnitInFlight;
use super::ids::{GroupId, Ticket};
use super::queued_group::{MemberState, QueuedGroup};
use super::quota_admission::Admitted;
use super::scheduler::{Scheduler, Timer};
use super::tenancy::ReservedClaim;
use crate::base::Time;
use crate::model::{PodGroup, PreemptionPolicy};
use crate::preempt::{EvictedPod, Victim};
use crate::quota::{Decision, HolderId, Mode, QuotaError};
use crate::state::PodView;

/// Whether a group that quota names can give back.
enum Standing {
    /// It can.
    Free,
    /// It is being evicted already.
    Going,
    /// Not before a time; `None`: not before the group changes.
    Kept(Option<Time>),
}

/// The decision on a claim, and the groups that give back for it.
pub(super) struct Reclaim {
    pub(super) decision: Decision,
    /// The groups that are to be evicted, in the order in which quota names them. Those that are
    /// going already are not among them.
    pub(super) groups: Vec<GroupId>,
    /// Named groups that are going already.
    going: Vec<GroupId>,
}

impl Scheduler {
    /// The decision on a claim. Of the holders that quota names, those that may not be evicted now
    /// are kept from it, and it is decided again. Without [`Settings::preemption`] no group is kept,
    /// and none gives back.
    ///
    /// [`Settings::preemption`]: super::Settings::preemption
    pub(super) fn decide_claim(&mut self, claim: &GroupClaim) -> Result<Reclaim, QuotaError> {
        loop {
            let Some(tenancy) = &mut self.tenancy else {
                return Err(QuotaError::UnknownQueue(claim.claim.queue.clone()));
            };
            tenancy.tenants.advance(self.now);
            let decision = tenancy.tenants.decide(&claim.claim)?;
            let (mut groups, mut going) = (Vec::new(), Vec::new());
            if self.settings.preemption.is_none() || decision.victims.is_empty() {
                return Ok(Reclaim { decision, groups, going });
            }
            let mut kept = Vec::new();
            for victim in &decision.victims {
                match self.holding(victim.holder) {
                    Some(id) => match self.standing(id) {
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
                self.keep_holder(holder, id, until);
            }
        }
    }

    /// The group of a holder, if it is known.
    fn holding(&self, holder: HolderId) -> Option<GroupId> {
        let tenancy = self.tenancy.as_ref()?;
        let name = &tenancy.tenants.holder(holder)?.name;
        let (id, _) = self.names.get(name)?;
        let charge = tenancy.charges.get(id)?;
        (charge.holder == *name).then_some(*id)
    }

    fn keep_holder(&mut self, holder: HolderId, id: Option<GroupId>, until: Option<Time>) {
        let Some(tenancy) = &mut self.tenancy else { return };
        let _ = tenancy.tenants.set_kept(holder, true);
        if let Some(id) = id {
            tenancy.kept.insert(id, until);
        }
        self.timers.extend(until.map(|until| (until, Timer::Searches)));
    }

    /// Lets a group that has changed be named again.
    pub(super) fn release_kept(&mut self, id: GroupId) {
        let Some(tenancy) = &mut self.tenancy else { return };
        if tenancy.kept.remove(&id).is_some() {
            tenancy.offer(id);
            self.preemption.searches_due = true;
        }
    }

    /// Lets groups be named again that were protected until now.
    pub(super) fn release_kept_until_now(&mut self) {
        let Some(tenancy) = &mut self.tenancy else { return };
        let is_over = |until: &Option<Time>| until.is_some_and(|until| until <= self.now);
        let over = tenancy.kept.iter().filter(|(_, until)| is_over(until));
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            tenancy.kept.remove(&id);
            tenancy.offer(id);
        }
    }

    fn standing(&self, id: GroupId) -> Standing {
        let Some(queued) = self.groups.get(&id) else { return Standing::Kept(None) };
        if queued.evicting {
            return Standing::Going;
        }
        let mut is_fixed = queued.phase.busy();
        queued.root.visit(&mut |group| is_fixed |= group.non_preemptible);
        if is_fixed {
            return Standing::Kept(None);
        }
        let soon = self.now.after(self.settings.backoff.after(1));
        let is_in_flight = |pod: &PodView<'_>| {
            let mut going = self.preemption.units().flat_map(|(_, unit)| &unit.victim.pods);
            going.any(|other| other.namespace == pod.namespace() && other.name == pod.name())
        };
        let mut until = self.protected_until(queued);
        let mut runs = false;
        for pod in self.pods_of(queued) {
            let name = alloc::format!("{}/{}", pod.namespace(), pod.name());
            until = until.max(self.preemption.refused.get(&name).copied());
            // Some of its members go, or have lost their node: that is settled first.
            if is_in_flight(&pod) || pod.node().is_none() {
                until = until.max(Some(soon));
            }
            runs = true;
        }
        match until.filter(|until| *until > self.now) {
            Some(until) => Standing::Kept(Some(until)),
            None if runs => Standing::Free,
            None => Standing::Kept(Some(soon)),
        }
    }

    /// The end of the minimum run times in a group.
    fn protected_until(&self, queued: &QueuedGroup) -> Option<Time> {
        let mut until = None;
        queued.root.visit(&mut |group| {
            let Some(least) = group.min_run_time.max(queued.root.min_run_time) else { return };
            for pod in self.cluster.pods_of(group) {
                until = until.max(Some(pod.start().unwrap_or(self.now).after(least)));
            }
        });
        until
    }

    /// The pods of a group that are in the cluster.
    fn pods_of<'a>(&'a self, queued: &'a QueuedGroup) -> impl Iterator<Item = PodView<'a>> {
        let members = queued.members.values();
        let bound = members
            .filter(|member| !matches!(member.state, MemberState::Pending | MemberState::Done));
        bound.filter_map(|member| self.cluster.pod(member.pod.namespace(), &member.pod.name))
    }

    /// A group that gives back, as one unit.
    pub(super) fn whole_victim(&self, id: GroupId) -> Option<Victim> {
        let queued = self.groups.get(&id)?;
        let mut work_lost = 0_u64;
        let mut pods = Vec::new();
        for pod in self.pods_of(queued) {
            let run = pod
                .start()
                .map_or(0, |start| self.now.as_millis().saturating_sub(start.as_millis()));
            work_lost = work_lost.saturating_add(run);
            pods.push(EvictedPod::of(pod));
        }
        pods.sort();
        Some(Victim {
            name: queued.name.as_str().into(),
            whole: true,
            group: Some(queued.name.clone()),
            priority: queued.root.priority,
            work_lost,
            pods,
        })
    }

    /// Quota for a group that does not fit, for a search of victims: kept for it until
    /// [`Scheduler::reserve`] or [`Scheduler::withdraw`]. Its tree is kept on the nodes of its
    /// flavors. With it the groups that give back, those that were asked to for this group before
    /// among them; `None` if quota suffices with those that are going already, or not at all, or the
    /// group preempts nothing.
    pub(super) fn seek_quota(
        &mut self,
        id: GroupId,
        tree: &mut PodGroup,
    ) -> Option<(Vec<Admitted>, Vec<GroupId>)> {
        let Some(claim) = self.group_claim(id).filter(|claim| !claim.claim.pod_sets.is_empty())
        else {
            return Some((Vec::new(), Vec::new()));
        };
        let Reclaim { decision, mut groups, going } = self.decide_claim(&claim).ok()?;
        let never = |group: &PodGroup| {
            group.pods.iter().any(|pod| pod.preemption_policy == PreemptionPolicy::Never)
        };
        let is_found = match decision.assignment.mode {
            Mode::Fit => true,
            Mode::Preempt => !groups.is_empty() && !tree.any(&never),
            Mode::NoFit => false,
        };
        if !is_found {
            return None;
        }
        let is_own = |other: &GroupId| {
            let mut own = self.preemption.units().filter(|(group, _)| *group == id);
            own.any(|(_, unit)| unit.root == Some(*other))
        };
        groups.extend(going.into_iter().filter(is_own));
        let given = self.keep_given(id, claim, decision.assignment).ok()?;
        self.restrict_to(tree, core::slice::from_ref(&given));
        Some((alloc::vec![given], groups))
    }

    /// Reserves what groups were given, until their victims have gone.
    pub(super) fn reserve(&mut self, admitted: Vec<Admitted>) {
        let Some(tenancy) = &mut self.tenancy else { return };
        for given in admitted {
            let _ = tenancy.tenants.keep(given.leaf, &given.assignment.usage, -1);
            let name = &given.claim.claim.name;
            let _ = tenancy.tenants.reserve(name, given.leaf, &given.assignment.usage);
            let reserved = ReservedClaim::new(&given.claim, &given.assignment, &tenancy.tenants);
            tenancy.reserved.insert(given.id, reserved);
        }
    }

    /// Gives up what is reserved for a group. `used` says that it was charged instead.
    pub(super) fn unreserve(&mut self, id: GroupId, used: bool) {
        let Some(tenancy) = &mut self.tenancy else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        tenancy.reserved.remove(&id);
        if let Some((leaf, usage)) = tenancy.tenants.unreserve(&queued.name)
            && !used
        {
            tenancy.note_moved(leaf, &usage);
        }
    }

    /// What is reserved for a group, if it may have it now and asks for the same.
    pub(super) fn take_reserved(&mut self, id: GroupId, claim: &GroupClaim) -> Option<Admitted> {
        let tenancy = self.tenancy.as_mut()?;
        let reserved = tenancy.reserved.get(&id)?;
        if reserved.pod_sets != claim.claim.pod_sets
            || !tenancy.tenants.fits_reserved(&claim.claim.name, &[])
        {
            return None;
        }
        let (leaf, usage) = tenancy.tenants.reserved(&claim.claim.name)?;
        let usage = usage.clone();
        let assignment = reserved.assignment(usage, &tenancy.tenants);
        tenancy.tenants.keep(leaf, &assignment.usage, 1).ok()?;
        Some(Admitted { id, leaf, claim: claim.clone(), assignment, is_reserved: true })
    }

    /// Whether what is reserved for a group suffices once all have gone that are going; true without
    /// tenants.
    pub(super) fn quota_suffices(&mut self, id: GroupId) -> bool {
        if self.tenancy.is_none() {
            return true;
        }
        let Some(claim) = self.group_claim(id) else { return false };
        let Some(tenancy) = &mut self.tenancy else { return true };
        let Some(reserved) = tenancy.reserved.get(&id) else {
            // Nothing is counted of what it asks for.
            return claim.claim.pod_sets.is_empty();
        };
        let going = tenancy.leaving.iter().filter_map(|id| tenancy.holder_of(*id));
        let going: Vec<HolderId> = going.collect();
        reserved.pod_sets == claim.claim.pod_sets
            && tenancy.tenants.fits_reserved(&claim.claim.name, &going)
    }

    /// Drops the evictions of other queues' groups that are to be asked for again now, and that quota
    /// would not name any more: what their queues hold has changed since it did. Others are named in
    /// their place, if any are.
    pub(super) fn drop_unentitled(&mut self, ticket: Ticket) {
        let now = self.now;
        let Some(evictions) = self.preemption.of(ticket).filter(|_| self.tenancy.is_some()) else {
            return;
        };
        let by = evictions.group;
        let is_due =
            |unit: &&UnitInFlight| !unit.begun && unit.retry_at.is_some_and(|retry| retry <= now);
        let due = evictions.units.iter().filter(is_due);
        let due: Vec<(GroupId, String)> =
            due.filter_map(|unit| Some((unit.root?, unit.victim.name.clone()))).collect();
        for (root, name) in due {
            if self.is_still_named(by, root) {
                continue;
            }
            let Some(evictions) = self.preemption.of(ticket) else { return };
            let (gone, stay): (Vec<_>, Vec<_>) =
                evictions.units.drain(..).partition(|unit| unit.victim.name == name);
            evictions.units = stay;
            self.preemption.drop_done();
            self.cancel_units(ticket, gone);
            self.reservations_due = true;
            if let Some(queued) = self.groups.get_mut(&by) {
                queued.no_search_before = now;
            }
        }
    }

    /// Whether quota would still name a victim of another queue, were it not leaving already; true of
    /// one of the claim's own queue, which priorities name.
    fn is_still_named(&mut self, by: GroupId, root: GroupId) -> bool {
        let queue = |id| self.groups.get(&id).map(|queued| &queued.root.queue);
        let Some(claim) = self.group_claim(by).filter(|_| queue(by) != queue(root)) else {
            return true;
        };
        self.set_holder_leaving(root, false);
        let found = self.decide_claim(&claim);
        self.set_holder_leaving(root, true);
        found.is_ok_and(|found| found.going.contains(&root))
    }

    fn set_holder_leaving(&mut self, id: GroupId, leaving: bool) {
        let Some(tenancy) = &mut self.tenancy else { return };
        if let Some(holder) = tenancy.holder_of(id) {
            let _ = tenancy.tenants.set_leaving(holder, leaving);
        }
    }

    /// Records for quota whether a group is being evicted whole.
    pub(super) fn set_leaving(&mut self, id: GroupId, leaving: bool) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.set_leaving(id, leaving);
            self.reservations_due = true;
        }
    }
}
