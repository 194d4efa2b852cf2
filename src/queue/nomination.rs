//! Nominations: where a group goes once preemption has made room.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::error::QueueError;
use super::ids::GroupId;
use super::observe::ReservationEnd;
use super::queued_group::{MemberState, Reservation, full_name};
use super::scheduler::{Scheduler, Timer};
use crate::base::Time;
use crate::model::{Pod, PodShape};
use crate::state::{Assignment, Plan};

impl Scheduler {
    /// A nomination: where a group goes once preemption has made room. Capacity for the plan is
    /// reserved, even beyond what nodes have free now, until the group is placed or
    /// [`Settings::permit_timeout`](super::Settings::permit_timeout) has passed. The nomination
    /// itself outlasts failed bindings, holds and conflicts, until the group starts or a reservation
    /// by [`Settings::reservation`](super::Settings::reservation) takes its place.
    ///
    /// While the plan does not hold, the group is tried as any other. The nomination is dropped, and
    /// what it reserved is given back, once it no longer suits the group: a pod of it is not pending
    /// any more, is gated or requests something else, or a group of the tree would get part of its
    /// minimum.
    ///
    /// # Errors
    /// There is no root group of the plan's name; the plan is empty; a pod of it is not one of the
    /// group's members; or a group of the tree would be below its minimum, members that run or are
    /// planned counted.
    pub fn handle_nomination(&mut self, plan: Plan, now: Time) -> Result<(), QueueError> {
        self.expire(now, false);
        let name = plan.group();
        let id = self.root(&name)?;
        if plan.is_empty() {
            return Err(QueueError::EmptyNomination(name));
        }
        let mut nominated = BTreeSet::new();
        for assignment in plan.assignments() {
            let name = full_name(assignment.pod());
            match self.pods.get(&name) {
                Some((group, seq)) if *group == id => nominated.insert(*seq),
                _ => return Err(QueueError::UnknownPod(assignment.pod().full_name())),
            };
        }
        let queued = self.groups.get(&id);
        if let Some(gate) = queued.and_then(|queued| queued.part_of(&self.cluster, &nominated)) {
            return Err(QueueError::NominationBelowMinimum(gate));
        }
        self.nominate(id, plan);
        Ok(())
    }

    /// Start of a nomination, and of its reservation if the group waits.
    pub(super) fn nominate(&mut self, id: GroupId, plan: Plan) {
        self.end_reservation(id, ReservationEnd::Outranked);
        let until = self.now.after(self.settings.permit_timeout);
        let since = self.now;
        let Some(queued) = self.groups.get_mut(&id) else { return };
        queued.nominated = Some(plan);
        if queued.phase.waits() {
            queued.reservation = Some(Reservation::new((since, until), None, Vec::new()));
            self.reserving.insert(id);
            self.timers.insert((until, Timer::Reservation(id)));
        }
        self.reservations_due = true;
    }

    /// The nominated plan of a group, committed, if it holds now.
    pub(super) fn commit_nomination(&mut self, id: GroupId, gang: &[GroupId]) -> Option<Plan> {
        if gang.len() != 1 {
            return None;
        }
        let plan = self.groups.get(&id)?.nominated.clone()?;
        if self.cluster.commit(&self.framework, &plan).is_ok() {
            return Some(plan);
        }
        if self.preemption.is_moving(id) {
            return self.commit_moved(id, plan);
        }
        if !self.groups.get(&id)?.preempting || self.preemption.units().any(|(own, _)| own == id) {
            return None;
        }
        // Its own victims have gone. Where others wait for theirs, these and the placeholders stand
        // for the same room.
        let waits = |other: &&GroupId| {
            **other != id && self.groups.get(other).is_some_and(|own| own.preempting)
        };
        let others = self.reserving.iter().filter(waits).filter_map(|own| self.groups.get(own));
        let held = others.filter_map(|own| own.reservation.as_ref());
        let mut aside: Vec<Pod> =
            held.flat_map(|own| own.placeholders.iter().map(|(pod, _)| pod.clone())).collect();
        aside.retain(|pod| self.cluster.remove_pod(pod.namespace(), &pod.name).is_ok());
        let is_placed = !aside.is_empty() && self.cluster.commit(&self.framework, &plan).is_ok();
        for pod in aside {
            let _ = self.cluster.add_pod(pod);
        }
        is_placed.then_some(plan)
    }

    /// Drops a nomination that no longer suits its group, with its reservation. Returns whether
    /// there was one.
    pub(super) fn drop_unsuitable_nomination(&mut self, id: GroupId) -> bool {
        let Some(queued) = self.groups.get(&id) else { return false };
        let Some(plan) = &queued.nominated else { return false };
        let is_reserved =
            self.tenancy.as_ref().is_some_and(|tenancy| tenancy.reserved.contains_key(&id));
        let mut nominated = BTreeSet::new();
        let is_member = |pod: &Pod| {
            let Some((_, seq)) = self.pods.get(&full_name(pod)) else { return false };
            nominated.insert(*seq);
            queued.members.get(seq).is_some_and(|member| {
                member.state == MemberState::Pending
                    && member.pod.scheduling_gates.is_empty()
                    && is_same_shape(member.pod.shape(), pod.shape(), is_reserved)
                    && member.pod.group == pod.group
            })
        };
        let suits = !plan.is_empty()
            && plan.assignments().map(Assignment::pod).all(is_member)
            && queued.part_of(&self.cluster, &nominated).is_none();
        if suits {
            return false;
        }
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.nominated = None;
        }
        self.end_reservation(id, ReservationEnd::Outranked);
        true
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
