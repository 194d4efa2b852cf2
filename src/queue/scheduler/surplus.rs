//! Members above the minima of their gangs: they yield before any gang falls.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use super::Scheduler;
use super::quota::fits_without;
use super::seek::{Found, Yielding};
use crate::model::PodGroup;
use crate::preempt::{Policy, Preemption, PreemptionRequest};
use crate::queue::groups::{Groups, Member, QueuedGroup, full_name};
use crate::queue::holds::{Holds, View};
use crate::queue::removals::{Removals, Surplus, SurplusGang, Takeable, pod_name};
use crate::queue::tenancy::{Admitted, Tenancy};
use crate::queue::terms::ids::GroupId;
use crate::queue::world::World;
use crate::reclaim::Entitled;

impl Scheduler {
    /// The least set of members above the minima of their gangs that makes room for a group, and gives
    /// it its quota; `None` if no such set suffices.
    pub(super) fn find_surplus(&mut self, id: GroupId, tree: &PodGroup) -> Option<Found> {
        let settings = self.world.settings();
        if settings.preemption.is_none() || !settings.elastic.takes_surplus_first() {
            return None;
        }
        let is_alone = self.groups.gang_group(id).is_ok_and(|gang| gang.len() == 1);
        let is_joint = |own: &Tenancy| own.searches_jointly(&self.world);
        if !self.tenancy.as_ref().is_none_or(|own| is_alone && is_joint(own)) {
            return None;
        }
        let known = (&self.world, &self.groups, &self.removals);
        let gangs = surplus_gangs(id, known, self.tenancy.as_mut());
        if gangs.is_empty() {
            return None;
        }
        let holds = self.holds_that_yield(id, &Yielding::of_less_important());
        let aside = self.holds.set_aside(&mut self.world, holds.into_iter());
        let less_important = self.less_important(id);
        let back = match self.tenancy_and_owners() {
            Some((tenancy, owners)) => tenancy.hold_back(owners, &less_important),
            None => Vec::new(),
        };
        let found = self.search_surplus(id, tree, &gangs);
        let found = found.filter(|(found, _)| self.is_suitable(id, found));
        Holds::put_back(&mut self.world, aside);
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.let_go(back);
        }
        let (mut found, wanted) = found?;
        found.plan.forget_avoided();
        let Some(wanted) = wanted else { return Some(found) };
        let names: BTreeSet<String> = found.pods().map(pod_name).collect();
        let tenancy = self.tenancy.as_mut()?;
        if !fits_without(&self.groups, tenancy, &names, &wanted) {
            return None;
        }
        let admitted = tenancy.keep_wanted(wanted)?;
        Some(Found { admitted: alloc::vec![admitted], ..found })
    }

    /// The set, with the quota that the group gets once it has gone.
    fn search_surplus(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        gangs: &[SurplusGang],
    ) -> Option<(Found, Option<Admitted>)> {
        let settings = self.world.settings().preemption?;
        let mut tree = tree.clone();
        let mut wanted = None;
        if let Some((tenancy, owners)) = self.tenancy_and_owners() {
            let (found, times) = tenancy.wanted(owners, id, &mut tree);
            self.search_at(times);
            wanted = Some(found?);
        }
        let now = self.world.now();
        if let Some(avoiding) = self.refusals.avoid(&tree, now, |pod| self.groups.shape_of(pod)) {
            tree = avoiding.tree;
        }
        self.report.count(|metrics| &mut metrics.victim_searches);
        let way = Yielding::of_less_important();
        let victims = self.victims_before(id, &way);
        let without = self.without_claims(id, &[], &way);
        let cluster = without.as_ref().map_or(self.world.cluster(), View::cluster);
        let strategy = self.groups.get(&id).and_then(QueuedGroup::strategy);
        let policy = Arc::clone(&self.policy);
        let partners = self.partners_of(id);
        let yields = match (&mut self.tenancy, &wanted) {
            (Some(tenancy), Some(wanted)) => Some(tenancy.yields(wanted)?),
            _ => None,
        };
        let rule = Surplus::new(gangs, yields);
        let entitled = Entitled { own: &*policy, names: rule.own_names() };
        let policy: &dyn Policy = if wanted.is_some() { &entitled } else { &*policy };
        let takeable = Takeable {
            policy,
            cluster,
            groups: &self.groups,
            removals: &self.removals,
            victims,
            queue: None,
            spared: &partners,
            movable: None,
        };
        let request = self.world.request(&tree, strategy, now);
        let request = PreemptionRequest::new(request).policy(&takeable).yielding(&rule);
        let request = request.budget(settings.budget);
        let mut planner = mem::take(&mut self.victim_planner);
        let (framework, running) = (self.world.framework(), self.removals.running_work());
        let answer = planner.place(cluster, framework, running, request);
        drop(rule);
        self.victim_planner = planner;
        let Ok(Preemption::Preempt(preempt)) = answer else { return None };
        if preempt.victims.is_empty() {
            return None;
        }
        let found = Found::new(preempt.victims, Vec::new(), preempt.plan)?;
        self.is_admitted(&tree, &found).then_some((found, wanted))
    }
}

/// The gangs of which members may go one by one, but for a group's own.
fn surplus_gangs(
    id: GroupId,
    (world, groups, removals): (&World, &Groups, &Removals),
    mut tenancy: Option<&mut Tenancy>,
) -> Vec<SurplusGang> {
    let going = removals.members(|name| groups.member(name));
    let mut gangs = Vec::new();
    for (root, queued) in groups.iter() {
        let is_free = *root != id && queued.started() && !queued.leaves_whole();
        let surplus = if is_free { queued.surplus() } else { 0 };
        if surplus == 0 || queued.phase().busy() {
            continue;
        }
        let none = BTreeSet::new();
        let going = going.get(root).unwrap_or(&none);
        let stays = |member: &Member| {
            let pod = member.pod();
            let view = world.cluster().pod(pod.namespace(), &pod.name);
            view.is_some_and(|own| own.node().is_some() && !own.deleting())
        };
        let running = || queued.members().iter().filter(|(_, member)| member.runs());
        let pods: Vec<String> = running()
            .filter(|(seq, member)| !going.contains(seq) && stays(member))
            .map(|(_, member)| full_name(member.pod()))
            .collect();
        let leaving = running().count().saturating_sub(pods.len()) as u64;
        let surplus = surplus.saturating_sub(leaving);
        if surplus > 0 {
            gangs.push((String::from(queued.name().as_str()), surplus, pods));
        }
    }
    let mut charged = |pod: String| {
        let charge = tenancy.as_mut().map(|own| own.charge_of(&pod));
        (pod, charge.unwrap_or_default())
    };
    gangs
        .into_iter()
        .map(|(name, surplus, pods)| {
            let pods = pods.into_iter().map(&mut charged).collect();
            SurplusGang { name, surplus, pods }
        })
        .collect()
}
