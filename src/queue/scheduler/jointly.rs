//! Victims over quota and room at once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use super::Scheduler;
use super::seek::{Found, Yielding};
use crate::model::PodGroup;
use crate::preempt::{Consolidation, Preemption, PreemptionRequest, Victim};
use crate::queue::PreemptionSettings;
use crate::queue::holds::{Holds, View};
use crate::queue::removals::{Takeable, pod_name};
use crate::queue::tenancy::Admitted;
use crate::queue::terms::ids::GroupId;
use crate::reclaim::{Entitled, Quota};

impl Scheduler {
    /// The least set of units that may yield, and that gives a group quota and room; `None` without
    /// tenants, and in dialects that name victims by their own search alone.
    pub(super) fn find_jointly(&mut self, id: GroupId, tree: &PodGroup) -> Option<Found> {
        let settings = self.world.settings().preemption?;
        let is_alone = self.groups.gang_group(id).is_ok_and(|gang| gang.len() == 1);
        let is_joint = self.tenancy.as_ref().is_some_and(|own| own.searches_jointly(&self.world));
        if !is_joint || !is_alone {
            return None;
        }
        let holds = self.holds_that_yield(id, &Yielding::of_less_important());
        let aside = self.holds.set_aside(&mut self.world, holds.into_iter());
        let less_important = self.less_important(id);
        let back = match self.tenancy_and_owners() {
            Some((tenancy, owners)) => tenancy.hold_back(owners, &less_important),
            None => Vec::new(),
        };
        let movable = self.movable(id);
        let mut found = None;
        if !movable.is_empty() {
            found = self.search_for_both(id, tree, settings, Some(&movable));
        }
        if found.is_none() {
            found = self.search_for_both(id, tree, settings, None);
        }
        Holds::put_back(&mut self.world, aside);
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.let_go(back);
        }
        let (mut found, wanted) = found?;
        found.plan.forget_avoided();
        // Groups that leave for others give quota back, and have not yet.
        if found.victims.is_empty() && !self.tenancy.as_mut()?.fits_now(&wanted) {
            return None;
        }
        let admitted = self.tenancy.as_mut()?.keep_wanted(wanted)?;
        Some(Found { admitted: alloc::vec![admitted], ..found })
    }

    /// The set, again without groups that are to be spared.
    fn search_for_both(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        settings: PreemptionSettings,
        movable: Option<&BTreeSet<GroupId>>,
    ) -> Option<(Found, Admitted)> {
        let mut spared = BTreeSet::new();
        loop {
            let found = self.search_jointly(id, tree, settings, (movable.cloned(), &spared))?;
            if self.is_sparing(id, &found.0, &mut spared)? {
                return Some(found);
            }
        }
    }

    /// The set, with the quota that the group gets once it has gone. With `movable`, units of some
    /// groups move in place of victims where quota suffices: alone if that is enough.
    fn search_jointly(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        settings: PreemptionSettings,
        (movable, spared): (Option<BTreeSet<GroupId>>, &BTreeSet<GroupId>),
    ) -> Option<(Found, Admitted)> {
        let mut tree = tree.clone();
        let (tenancy, owners) = self.tenancy_and_owners()?;
        let (wanted, times) = tenancy.wanted(owners, id, &mut tree);
        self.search_at(times);
        let wanted = wanted?;
        let now = self.world.now();
        if let Some(avoiding) = self.refusals.avoid(&tree, now, |pod| self.groups.shape_of(pod)) {
            tree = avoiding.tree;
        }
        let victims = self.victims_before(id, &Yielding::of_less_important());
        let without = self.without_claims(id, &[], &Yielding::of_less_important());
        let cluster = without.as_ref().map_or(self.world.cluster(), View::cluster);
        let strategy = self.groups.get(&id)?.strategy();
        let (policy, move_policy) = (Arc::clone(&self.policy), Arc::clone(&self.move_policy));
        let spared = &self.partners_of_reserved(id) | spared;
        let rule = Quota::new(self.tenancy.as_mut()?.yields(&wanted)?);
        let entitled = Entitled { own: &*policy, names: rule.own_names() };
        let takeable = Takeable {
            policy: &entitled,
            cluster,
            groups: &self.groups,
            removals: &self.removals,
            victims: victims.clone(),
            queue: None,
            spared: &spared,
            movable: None,
        };
        let moves = Takeable { policy: &*move_policy, victims, movable, ..takeable };
        let request = self.world.request(&tree, strategy, self.world.now());
        let request = PreemptionRequest::new(request).policy(&takeable).yielding(&rule);
        let mut request = request.budget(settings.budget);
        if moves.movable.is_some() {
            let units = Consolidation::new(settings.consolidation).policy(&moves).or_evict();
            request = request.consolidation(units);
        }
        let mut planner = mem::take(&mut self.victim_planner);
        let (framework, running) = (self.world.framework(), self.removals.running_work());
        let answer = planner.place(cluster, framework, running, request);
        drop(rule);
        self.victim_planner = planner;
        let (victims, moves, plan) = match answer {
            Ok(Preemption::Placed(plan)) => (Vec::new(), Vec::new(), plan),
            Ok(Preemption::Preempt(preempt)) if preempt.move_cost.budgets_broken == 0 => {
                (preempt.victims, preempt.moves, preempt.plan)
            }
            _ => return None,
        };
        let moves = self.real_moves(moves);
        if !moves.iter().all(|step| self.keeps_quota(step)) {
            return None;
        }
        let found = Found::new(self.joined(victims), moves, plan)?;
        let goes_now = found.victims.is_empty() && found.moves.is_empty();
        let is_admitted = goes_now || self.is_admitted(&tree, &found);
        is_admitted.then_some((found, wanted))
    }

    /// The partners of a group, and in other queues those of claims. The quota that is reserved for such a
    /// claim counts as used by its queue, and would end with the partner that goes for it.
    fn partners_of_reserved(&self, id: GroupId) -> BTreeSet<GroupId> {
        let is_other = |other: &GroupId| {
            let queue = |id| self.groups.get(&id).map(|queued| &queued.root().queue);
            queue(*other) != queue(id)
        };
        let others = self.holds.with_quota().filter(is_other);
        let theirs = others.flat_map(|other| self.partners_of(other)).filter(is_other);
        theirs.chain(self.partners_of(id)).collect()
    }

    /// Victims with those of one group as one unit, if all of it goes.
    fn joined(&self, victims: Vec<Victim>) -> Vec<Victim> {
        let mut of_root: BTreeMap<GroupId, Vec<Victim>> = BTreeMap::new();
        let mut all = Vec::new();
        for victim in victims {
            let member = victim.pods.first().and_then(|pod| self.groups.member(&pod_name(pod)));
            match member {
                Some((root, _)) => of_root.entry(root).or_default().push(victim),
                None => all.push(victim),
            }
        }
        for (root, own) in of_root {
            let count: usize = own.iter().map(|victim| victim.pods.len()).sum();
            match self.whole_victim(root).filter(|whole| whole.pods.len() == count) {
                Some(whole) => all.push(whole),
                None => all.extend(own),
            }
        }
        Victim::sort(&mut all);
        all
    }
}
