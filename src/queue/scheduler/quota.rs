//! Quota: steps in which the tenancy is told, and answers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::{Scheduler, Timer};
use crate::base::Time;
use crate::model::PodGroup;
use crate::preempt::{Move, Victim};
use crate::queue::groups::Groups;
use crate::queue::holds::KeptQuota;
use crate::queue::removals::{Removal, pod_name};
use crate::queue::tenancy::{
    self, Admitted, Lifted, Owners, Refusal, Sought, Tenancy, whole_victim,
};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::GroupId;
use crate::state::Plan;

impl Scheduler {
    /// The tenancy, and the owners that it reads; `None` without tenants.
    pub(super) fn tenancy_and_owners(&mut self) -> Option<(&mut Tenancy, Owners<'_>)> {
        let (world, groups, holds) = (&self.world, &self.groups, &self.holds);
        let owners = Owners { world, groups, holds, removals: &self.removals };
        let tenancy = self.tenancy.as_mut()?;
        tenancy::advance(tenancy, world.now());
        Some((tenancy, owners))
    }

    /// Sets timers for searches for victims.
    pub(super) fn search_at(&mut self, times: Vec<Time>) {
        self.timers.extend(times.into_iter().map(|time| (time, Timer::Searches)));
    }

    /// Admits groups to quota, all or none, and keeps the tree on the nodes of their flavors. The
    /// quota is kept for them until [`Scheduler::charge_plan`] or [`Scheduler::withdraw`].
    pub(super) fn admit(
        &mut self,
        gang: &[GroupId],
        tree: &mut PodGroup,
    ) -> Result<Vec<Admitted>, Refusal> {
        let Some((tenancy, owners)) = self.tenancy_and_owners() else { return Ok(Vec::new()) };
        let (admitted, times) = tenancy.admit(owners, gang, tree);
        self.search_at(times);
        admitted
    }

    /// Gives up the quota that groups were admitted with.
    pub(super) fn withdraw(&mut self, admitted: Vec<Admitted>) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.withdraw(admitted);
        }
    }

    /// Charges the groups of a plan for the pods that are placed.
    pub(super) fn charge_plan(&mut self, admitted: Vec<Admitted>, plan: &Plan) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy::advance(tenancy, self.world.now());
            tenancy.charge_plan(admitted, plan, self.world.now());
        }
    }

    /// Ends the charge for a pod that is gone and has no place that is held for it.
    pub(super) fn discharge(&mut self, pod: &str) {
        let Some(tenancy) = &mut self.tenancy else { return };
        let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
        let is_there = self.world.cluster().pod(namespace, name).is_some();
        if !is_there && !self.holds.has_place(pod) {
            tenancy::advance(tenancy, self.world.now());
            tenancy.discharge(pod);
        }
    }

    /// Whether a pod that moves keeps the quota that it is charged with; true without tenants.
    pub(super) fn keeps_quota(&self, step: &Move) -> bool {
        let Some(tenancy) = &self.tenancy else { return true };
        let node = self.world.cluster().node(&step.to);
        node.is_some_and(|node| tenancy.keeps_flavors(&pod_name(&step.pod), node))
    }

    /// Charges a member that was found bound, for the flavor of its node.
    pub(super) fn charge_bound(&mut self, id: GroupId, seq: u64) {
        if let Some((tenancy, owners)) = self.tenancy_and_owners() {
            tenancy.charge_bound(owners, id, seq);
        }
    }

    /// Enters a group that waits for quota.
    pub(super) fn sleep_for_quota(&mut self, id: GroupId) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.sleep_for_quota(&self.groups, id);
        }
    }

    /// Counts the request of a group that was refused.
    pub(super) fn ask_for_quota(&mut self, id: GroupId) {
        if let Some((tenancy, owners)) = self.tenancy_and_owners() {
            tenancy.ask_for_quota(owners, id);
        }
    }

    /// Lets a group that has changed be named again.
    pub(super) fn release_kept(&mut self, id: GroupId) {
        if self.tenancy.as_mut().is_some_and(|tenancy| tenancy.release_kept(id)) {
            self.removals.set_searches_due();
        }
    }

    /// A group that gives back, as one unit.
    pub(super) fn whole_victim(&self, id: GroupId) -> Option<Victim> {
        Some(whole_victim(&self.world, self.groups.get(&id)?))
    }

    /// Quota for a group that does not fit, for a search of victims; `None` if there is nothing to search for.
    pub(super) fn seek_quota(&mut self, id: GroupId, tree: &mut PodGroup) -> Option<Sought> {
        let (tenancy, owners) = self.tenancy_and_owners()?;
        let (found, times) = tenancy.seek(owners, id, tree);
        self.search_at(times);
        found
    }

    /// Reserves the quota that groups were given, until their victims have gone; their claim is to
    /// keep it.
    pub(super) fn reserve(&mut self, admitted: Vec<Admitted>) -> BTreeMap<GroupId, KeptQuota> {
        self.tenancy.as_mut().map(|tenancy| tenancy.reserve(admitted)).unwrap_or_default()
    }

    /// Gives up the quota that is reserved for a group. `used` says that it was charged instead.
    pub(super) fn unreserve(&mut self, id: GroupId, used: bool) {
        if let Some((tenancy, owners)) = self.tenancy_and_owners() {
            tenancy.unreserve(owners, id, used);
        }
    }

    /// Whether the quota that is reserved for a group suffices once all groups that are going have
    /// gone; true without tenants.
    pub(super) fn quota_suffices(&mut self, id: GroupId) -> bool {
        let tenancy = self.tenancy_and_owners();
        tenancy.is_none_or(|(tenancy, owners)| tenancy.suffices(owners, id))
    }

    /// Whether the quota that is reserved for groups suffices once all that leave have gone: whole groups,
    /// and members of groups that stay.
    pub(super) fn quota_suffices_for(&mut self, owners: &[GroupId]) -> bool {
        let Some(tenancy) = &mut self.tenancy else { return true };
        let leaves = |own: &&Removal| own.is_victim() && own.retry_at().is_none();
        let going = self.removals.iter().filter(leaves).flat_map(Removal::names).collect();
        let lifted = lift_members(&self.groups, tenancy, &going);
        let suffices = owners.iter().all(|own| self.quota_suffices(*own));
        if let Some(tenancy) = &mut self.tenancy {
            lifted.into_iter().rev().for_each(|own| tenancy.restore_charges(own));
        }
        suffices
    }

    /// Whether quota would still name a victim of another queue; true without tenants.
    pub(super) fn is_still_named(&mut self, by: GroupId, root: GroupId) -> bool {
        let Some((tenancy, owners)) = self.tenancy_and_owners() else { return true };
        let (named, times) = tenancy.is_still_named(owners, by, root);
        self.search_at(times);
        named
    }

    /// Records for quota whether a group is being evicted whole.
    pub(super) fn set_leaving(&mut self, id: GroupId, leaving: bool) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.set_leaving(id, leaving);
            self.holds.set_due(None);
        }
    }

    /// Takes a group of this scheduler in among those that run.
    pub(super) fn group_changed(&mut self, id: GroupId) -> Result<(), QueueError> {
        let Some(queued) = self.groups.get(&id) else { return Ok(()) };
        let added = self.removals.put_own_group(queued.root());
        if let Some((tenancy, owners)) = self.tenancy_and_owners() {
            tenancy.group_changed(owners, id);
        }
        self.release_kept(id);
        added
    }
}

/// Takes charges of members out of the sums for a moment, of groups that stay.
fn lift_members(groups: &Groups, tenancy: &mut Tenancy, pods: &BTreeSet<String>) -> Vec<Lifted> {
    let mut of_root: BTreeMap<GroupId, Vec<String>> = BTreeMap::new();
    for pod in pods {
        let Some((root, _)) = groups.member(pod) else { continue };
        if groups.get(&root).is_some_and(|own| !own.leaves_whole()) {
            of_root.entry(root).or_default().push(pod.clone());
        }
    }
    let lift = |(root, pods): (GroupId, Vec<String>)| tenancy.lift_charges(root, &pods);
    of_root.into_iter().filter_map(lift).collect()
}

/// Whether a group may have the quota that it wants once pods have gone.
pub(super) fn fits_without(
    groups: &Groups,
    tenancy: &mut Tenancy,
    pods: &BTreeSet<String>,
    wanted: &Admitted,
) -> bool {
    let lifted = lift_members(groups, tenancy, pods);
    let fits = tenancy.fits_with(wanted);
    lifted.into_iter().rev().for_each(|own| tenancy.restore_charges(own));
    fits
}
