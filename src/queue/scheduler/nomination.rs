//! Nominations: where a group goes once preemption has made room.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::places::is_like;
use super::{Scheduler, Timer};
use crate::base::Time;
use crate::model::{Pod, PodShape};
use crate::queue::groups::full_name;
use crate::queue::holds::{HeldPlace, HoldId, Holds, UnitMove};
use crate::queue::tenancy::Lifted;
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::ReservationEnd;
use crate::state::{Assignment, Plan};

impl Scheduler {
    /// A nomination: where a group goes once preemption has made room. Capacity for the plan is
    /// reserved, even beyond what nodes have free now, until the group is placed or
    /// [`Settings::permit_timeout`](crate::queue::Settings::permit_timeout) has passed. The nomination
    /// itself outlasts failed bindings, holds and conflicts, until the group starts or a reservation
    /// by [`Settings::reservation`](crate::queue::Settings::reservation) takes its place.
    ///
    /// While the plan does not hold, the group is tried as any other. The nomination is dropped,
    /// and its reserved room is freed, once it no longer suits the group. That is so if a pod of it
    /// is not pending any more, is gated or requests something else. It is also so if a group of
    /// the tree would get part of its minimum.
    ///
    /// # Errors
    /// There is no root group of the plan's name, the plan is empty, or a pod of it is not one of
    /// the group's members. Or a group of the tree would be below its minimum, running and planned
    /// members counted.
    pub fn handle_nomination(&mut self, plan: Plan, now: Time) -> Result<(), QueueError> {
        self.world.advance(now);
        let name = plan.group();
        let id = self.groups.root(&name)?;
        if plan.is_empty() {
            return Err(QueueError::EmptyNomination(name));
        }
        let mut nominated = BTreeSet::new();
        for assignment in plan.assignments() {
            let name = full_name(assignment.pod());
            match self.groups.member(&name) {
                Some((group, seq)) if group == id => nominated.insert(seq),
                _ => return Err(QueueError::UnknownPod(assignment.pod().full_name())),
            };
        }
        let queued = self.groups.get(&id);
        if let Some(gate) = queued.and_then(|queued| queued.part_of(&nominated)) {
            return Err(QueueError::NominationBelowMinimum(gate));
        }
        self.nominate(id, plan);
        self.follow();
        Ok(())
    }

    /// Start of a nomination, and of its reservation if the group waits.
    pub(super) fn nominate(&mut self, id: GroupId, plan: Plan) {
        self.end_reservation(id, ReservationEnd::Outranked);
        let since = self.world.now();
        let until = since.after(self.world.settings().permit_timeout);
        let Some(queued) = self.groups.get(&id) else { return };
        let waits = queued.phase().waits();
        self.holds.nominate(id, plan, (since, until), !waits);
        if waits {
            self.timers.insert((until, Timer::Reservation(id)));
        }
        self.holds.set_due(None);
    }

    /// The plan that a group is nominated to, or was promised, committed, if it holds now.
    pub(super) fn commit_nomination(
        &mut self,
        id: GroupId,
        gang: &[GroupId],
        plan: &Plan,
    ) -> Option<Plan> {
        let is_joint = self.holds.room(id).is_some_and(|own| own.owners() == gang);
        if gang.len() != 1 && !is_joint {
            return None;
        }
        if self.world.commit(plan).is_ok() {
            return Some(plan.clone());
        }
        if self.holds.is_moving(id) {
            return self.commit_moved(id, plan.clone());
        }
        if !self.holds.claims(id) || self.removals.by(id).next().is_some() {
            return None;
        }
        // Its own victims have gone. Where others wait for theirs, these and the placeholders stand
        // for the same room.
        let waits = |other: &GroupId| *other != id && self.holds.claims(*other);
        let others: Vec<HoldId> = self.holds.with_room().filter(waits).map(HoldId::Room).collect();
        let aside = self.holds.set_aside(&mut self.world, others.into_iter());
        let is_placed = !aside.is_empty() && self.world.commit(plan).is_ok();
        Holds::put_back(&mut self.world, aside);
        is_placed.then(|| plan.clone())
    }

    /// Drops a nomination that no longer suits its group, with its reservation. Returns whether
    /// there was one.
    pub(super) fn drop_unsuitable_nomination(&mut self, id: GroupId) -> bool {
        if self.holds.nominated(id).is_none_or(|plan| self.suits(id, plan)) {
            return false;
        }
        self.holds.forget_unless_claimed(id);
        self.end_reservation(id, ReservationEnd::Outranked);
        true
    }

    /// Whether a plan is still one for its groups: its pods wait as they did, and make the minimum.
    pub(super) fn suits(&self, id: GroupId, plan: &Plan) -> bool {
        let is_member = |pod: &Pod| {
            let Some((own, seq)) = self.groups.member(&full_name(pod)) else { return false };
            let is_reserved = self.holds.quota(own).is_some();
            self.groups.find(own, seq).is_some_and(|member| {
                member.is_ready()
                    && is_same_shape(member.pod().shape(), pod.shape(), is_reserved)
                    && member.pod().group == pod.group
            })
        };
        !plan.is_empty()
            && plan.assignments().map(Assignment::pod).all(is_member)
            && !self.leaves_in_part(id, plan)
    }

    /// Whether a plan for a group, and for those that share its room or start together with it, leaves
    /// one of them below its minimum.
    pub(super) fn leaves_in_part(&self, id: GroupId, plan: &Plan) -> bool {
        let room = self.holds.room(id).map(|own| own.owners().to_vec());
        let gang = self.groups.gang_group(id).ok().or(room);
        let mut members: BTreeMap<GroupId, BTreeSet<u64>> = BTreeMap::new();
        for id in gang.unwrap_or_else(|| alloc::vec![id]) {
            members.insert(id, BTreeSet::new());
        }
        for to in plan.assignments() {
            if let Some((own, seq)) = self.groups.member(&full_name(to.pod())) {
                members.entry(own).or_default().insert(seq);
            }
        }
        members
            .iter()
            .any(|(id, own)| self.groups.get(id).is_none_or(|queued| queued.part_of(own).is_some()))
    }

    /// The nominated plan of a group that moves, committed beside what has not moved yet if it holds.
    pub(super) fn commit_moved(&mut self, root: GroupId, plan: Plan) -> Option<Plan> {
        let own = self.holds.moves().filter(|own| own.root() == root);
        let by: BTreeSet<GroupId> = own.map(UnitMove::by).collect();
        let aside = by.into_iter().flat_map(|by| self.claim_placeholders(by));
        let mut aside: Vec<Pod> = aside.cloned().collect();
        aside.retain(|pod| self.world.remove_pod(pod.namespace(), &pod.name).is_ok());
        let is_placed = self.world.commit(&plan).is_ok();
        Holds::put_back(&mut self.world, aside);
        is_placed.then_some(plan)
    }

    /// The nominated plan of a group that moves, committed with the quota that its places keep.
    pub(super) fn commit_with_quota(&mut self, id: GroupId, plan: &Plan) -> Option<Plan> {
        self.tenancy.as_ref()?;
        let mut open: Vec<(String, &HeldPlace)> = Vec::new();
        for own in self.holds.moves().filter(|own| own.root() == id) {
            let nominated = own.places().iter().filter(|place| place.is_nominated());
            open.extend(nominated.map(|place| (full_name(place.pod()), place)));
        }
        let mut taken = Vec::with_capacity(plan.len());
        for to in plan.assignments() {
            let name = full_name(to.pod());
            let own = open.iter().position(|(pod, _)| *pod == name);
            let suits = |(_, place): &(String, &HeldPlace)| {
                place.to() == to.node() && is_like(place.pod(), to.pod())
            };
            let (pod, _) = open.remove(own.or_else(|| open.iter().position(suits))?);
            taken.push((pod, name));
        }
        let tenancy = self.tenancy.as_ref()?;
        if !taken.iter().all(|(pod, _)| tenancy.is_charged(id, pod)) {
            return None;
        }
        let plan = self.commit_moved(id, plan.clone())?;
        self.tenancy.as_mut()?.pass_charges(id, &taken);
        Some(plan)
    }

    /// Takes what places keep of quota for a group out of the sums, while the group is tried.
    pub(super) fn lift_charges(&mut self, id: GroupId) -> Option<Lifted> {
        let kept: Vec<String> = self
            .holds
            .moves()
            .filter(|own| own.root() == id)
            .flat_map(UnitMove::places)
            .filter(|place| self.node_of(place.pod().namespace(), &place.pod().name).is_none())
            .map(|place| full_name(place.pod()))
            .collect();
        self.tenancy.as_mut()?.lift_charges(id, &kept)
    }

    /// Enters again what places keep of quota for a group.
    pub(super) fn restore_charges(&mut self, lifted: Option<Lifted>) {
        if let (Some(tenancy), Some(lifted)) = (&mut self.tenancy, lifted) {
            tenancy.restore_charges(lifted);
        }
    }
}

/// Whether two shapes are equal, but for what flavors add to one: with a reservation of quota, what
/// the group asks of nodes is compared with that.
fn is_same_shape(own: &Arc<PodShape>, planned: &Arc<PodShape>, is_reserved: bool) -> bool {
    if own == planned || !is_reserved {
        return own == planned;
    }
    let mut planned = PodShape::clone(planned);
    planned.node_selector.clone_from(&own.node_selector);
    planned.node_affinity.clone_from(&own.node_affinity);
    planned.tolerations.clone_from(&own.tolerations);
    **own == planned
}
