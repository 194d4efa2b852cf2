//! The check of the scheduler's own state: each owner against the others.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::Scheduler;
use crate::queue::groups::{MemberState, Phase, QueuedGroup, full_name};
use crate::queue::holds::{Cause, Hold, HoldId};
use crate::queue::tenancy::Owners;
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::GroupId;

impl Scheduler {
    /// Checks that the parts of the state agree: for tests and for embedders that look for a fault.
    ///
    /// - Each placeholder in the cluster is of one hold.
    /// - Each plan in flight is of groups that are in its phase, and the other way round.
    /// - Quota is reserved for groups that claim room, as their claims keep it, and for no others.
    /// - Quota is charged for pods in the cluster and for held places, and its sums are theirs.
    /// - Quota is put aside for one group at most, which is known.
    /// - Each removal that can still be taken back is for a group that claims room.
    /// - Names, members, counts and queues agree with the groups.
    ///
    /// It is right after any input and any poll. O(state).
    ///
    /// ```
    /// use phalanx::queue::Settings;
    /// use phalanx::{Cluster, Framework, Scheduler};
    ///
    /// let scheduler = Scheduler::new(Cluster::new(), Framework::default(), Settings::default());
    /// scheduler.check()?;
    /// # Ok::<(), phalanx::QueueError>(())
    /// ```
    ///
    /// # Errors
    /// [`QueueError::Inconsistent`] with the first disagreement.
    pub fn check(&self) -> Result<(), QueueError> {
        let checks = [
            self.check_placeholders(),
            self.check_plans(),
            self.check_claims(),
            self.check_quota(),
            self.check_members(),
            self.check_line(),
        ];
        match checks.into_iter().find_map(Result::err) {
            Some(what) => Err(QueueError::Inconsistent(what)),
            None => Ok(()),
        }
    }

    fn check_placeholders(&self) -> Result<(), String> {
        let mut held = BTreeSet::new();
        for (id, _) in self.holds.iter() {
            for pod in self.holds.placeholders_of(*id) {
                if !held.insert(full_name(pod)) {
                    return Err(format!("placeholder {} is of two holds", full_name(pod)));
                }
            }
        }
        let placed = self.world.cluster().pods();
        let placed = placed.filter(|pod| pod.namespace() == RESERVED_NAMESPACE);
        for pod in placed {
            let name = format!("{}/{}", pod.namespace(), pod.name());
            if !held.contains(&name) {
                return Err(format!("placeholder {name} is of no hold"));
            }
        }
        Ok(())
    }

    fn check_plans(&self) -> Result<(), String> {
        for (id, hold) in self.holds.iter() {
            let HoldId::Plan(ticket) = id else { continue };
            for owner in hold.owners() {
                let phase = self.groups.get(owner).map(QueuedGroup::phase);
                let is_of_it = match phase {
                    Some(Phase::Held(own)) => own == ticket && hold.held_by().is_some(),
                    Some(Phase::Binding(own)) => own == ticket && hold.held_by().is_none(),
                    _ => false,
                };
                if !is_of_it {
                    return Err(format!("plan {ticket:?} is of group {owner} in {phase:?}"));
                }
            }
        }
        for (id, queued) in self.groups.iter() {
            let Some(ticket) = queued.ticket() else { continue };
            if !self.holds.plan(ticket).is_some_and(|hold| hold.owners().contains(id)) {
                return Err(format!("group {}: its plan is not in flight", queued.name()));
            }
        }
        Ok(())
    }

    fn check_claims(&self) -> Result<(), String> {
        let claims = self.holds.with_room().filter(|id| self.holds.claims(*id));
        let owners = claims.filter_map(|id| Some(self.holds.room(id)?.owners())).flatten();
        let claims: BTreeSet<GroupId> = owners.copied().collect();
        for own in self.removals.iter() {
            if !own.has_begun() && !claims.contains(&own.by()) {
                let unit = own.name();
                return Err(format!(
                    "unit {unit} is to leave for group {}, which claims no room",
                    own.by()
                ));
            }
            if own.has_gone() {
                return Err(format!("unit {} has left, and is to leave", own.name()));
            }
        }
        for own in self.holds.moves() {
            if own.places().is_empty() {
                return Err(format!("unit {} moves to no place", own.unit()));
            }
        }
        if let Some(id) = self.holds.with_quota().find(|id| !claims.contains(id)) {
            return Err(format!("quota is reserved for group {id}, which claims no room"));
        }
        let mut in_rooms = BTreeSet::new();
        for (id, hold) in self.holds.iter() {
            let is_twice = |owner: &GroupId| !in_rooms.insert(*owner);
            if !hold.suits(*id) {
                return Err(format!("hold {id:?} is of another cause, or of another group"));
            } else if matches!(id, HoldId::Room(_)) && hold.owners().iter().any(is_twice) {
                return Err(format!("hold {id:?} is of a group that another keeps room for"));
            }
            let is_known = hold.owners().iter().all(|owner| self.groups.contains_key(owner));
            if !is_known && !matches!(hold.cause(), Cause::Move(_)) {
                return Err(format!("hold {id:?} is of a group that is not known"));
            }
        }
        Ok(())
    }

    fn check_quota(&self) -> Result<(), String> {
        let Some(tenancy) = &self.tenancy else { return Ok(()) };
        let (world, groups, holds) = (&self.world, &self.groups, &self.holds);
        let owners = Owners { world, groups, holds, removals: &self.removals };
        tenancy.check(owners)
    }

    fn check_members(&self) -> Result<(), String> {
        let cluster = self.world.cluster();
        let mut members = 0;
        for (id, queued) in self.groups.iter() {
            let name = queued.name();
            if self.groups.named(name).map(|(own, _)| own) != Some(*id) {
                return Err(format!("group {name}: its name leads elsewhere"));
            }
            for (seq, member) in queued.members().iter() {
                let pod = full_name(member.pod());
                members += 1;
                if self.groups.member(&pod) != Some((*id, *seq)) {
                    return Err(format!("pod {pod}: its name leads elsewhere"));
                }
                let own = cluster.pod(member.pod().namespace(), &member.pod().name);
                let is_placed = matches!(
                    member.state(),
                    MemberState::Planned | MemberState::Bound | MemberState::Unbinding
                );
                if own.is_some() != is_placed {
                    let state = member.state();
                    return Err(format!("pod {pod} is {state:?}, and the cluster says otherwise"));
                }
            }
            let is_on_node = |member: &crate::queue::groups::Member| {
                let pod = cluster.pod(member.pod().namespace(), &member.pod().name);
                pod.is_some_and(|pod| pod.node().is_some())
            };
            if !queued.members().is_in_step(is_on_node) {
                return Err(format!("group {name}: its counts are not those of its members"));
            }
        }
        if members != self.groups.member_count() {
            return Err(format!(
                "{} names of members, {members} members",
                self.groups.member_count()
            ));
        }
        Ok(())
    }

    fn check_line(&self) -> Result<(), String> {
        let waiting = self.line.first_of_each(usize::MAX);
        for (_, queued) in self.groups.iter() {
            let name = queued.name();
            if queued.key().is_some() != queued.phase().waits() {
                return Err(format!(
                    "group {name}: its place in the queue does not match its phase"
                ));
            }
            if let Some(key) = queued.key()
                && !waiting.contains(key)
            {
                return Err(format!("group {name} is not in its queue"));
            }
        }
        let is_open = |hold: &Hold| hold.since() <= hold.until();
        match self.holds.iter().find(|(_, hold)| !is_open(hold)) {
            Some((id, _)) => Err(format!("hold {id:?} ends before it begins")),
            None => Ok(()),
        }
    }
}
