//! The search for room: victims of least cost, or moves, beside pods that leave anyway.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::moves::by_unit;
use super::{Scheduler, Timer};
use crate::base::{ObjectName, Time};
use crate::framework::{PermitContext, PermitVerdict};
use crate::model::PodGroup;
use crate::preempt::{
    Candidate, Consolidation, EvictedPod, Move, Policy, Preemption, PreemptionRequest, Preemptor,
    Victim,
};
use crate::queue::groups::{MemberState, QueuedGroup};
use crate::queue::holds::{HoldId, Holds, UnitMove, View};
use crate::queue::removals::{Removal, Takeable, parted, pod_name};
use crate::queue::tenancy::{Admitted, Sought};
use crate::queue::terms::ids::GroupId;
use crate::state::journal::Moment;
use crate::state::{Plan, PodView};

impl Scheduler {
    /// The victims of least cost. With tenants, the groups that quota names are among them, and room
    /// is made in the group's own queue beside them.
    pub(super) fn find_beside_named(&mut self, id: GroupId, tree: &PodGroup) -> Option<Found> {
        let mut tree = tree.clone();
        let Sought { admitted, giving, yields } = match self.tenancy {
            Some(_) => self.seek_quota_of_all(id, &mut tree)?,
            None => Sought::default(),
        };
        self.report.count(|metrics| &mut metrics.victim_searches);
        // Quota names groups beside all that is reserved: what is reserved of room stays, too, where
        // there is a plan beside it.
        let now = self.world.now();
        let avoiding = self.refusals.avoid(&tree, now, |pod| self.groups.shape_of(pod));
        if let Some(avoiding) = avoiding {
            tree = avoiding.tree;
        }
        let named = yields.into_iter().map(|own| self.holds.lead(own)).collect();
        let mut way = Yielding { named, less_important: false };
        let mut found = None;
        if !giving.is_empty() && !self.less_important(id).is_empty() {
            found = self.find_room(id, &tree, &giving, &way);
        }
        if found.is_none() {
            way.less_important = true;
            found = self.find_room(id, &tree, &giving, &way);
        }
        if let Some(mut found) = found {
            found.plan.forget_avoided();
            Some(Found { admitted, ..found })
        } else {
            self.withdraw(admitted);
            // Where quota is short, those that it may not name are known by themselves.
            self.wait_for_protections();
            None
        }
    }

    /// Quota for a group, with those that it starts together with, and the groups that give it back.
    /// Where there are several, each is to have its quota: dialects name victims for one claim at a
    /// time.
    fn seek_quota_of_all(&mut self, id: GroupId, tree: &mut PodGroup) -> Option<Sought> {
        let gang = self.groups.gang_group(id).ok()?;
        if gang.len() == 1 {
            return self.seek_quota(id, tree);
        }
        let mut admitted = Vec::new();
        for own in gang {
            let found = self.seek_quota(own, tree);
            let has_quota = found.as_ref().is_some_and(Sought::takes_nothing);
            admitted.extend(found.into_iter().flat_map(|found| found.admitted));
            if !has_quota {
                self.withdraw(admitted);
                return None;
            }
        }
        Some(Sought { admitted, ..Sought::default() })
    }

    /// Whether groups that start together are of one queue: with tenants, victims are of that queue.
    pub(super) fn is_of_one_queue(&self, gang: &[GroupId]) -> bool {
        let mut queues = gang.iter().filter_map(|id| Some(&self.groups.get(id)?.root().queue));
        let first = queues.next();
        self.tenancy.is_none() || queues.all(|other| Some(other) == first)
    }

    /// The plan beside groups that go anyway, with moves or the victims of least cost.
    fn find_room(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        giving: &[GroupId],
        way: &Yielding,
    ) -> Option<Found> {
        let holds = self.holds_that_yield(id, way);
        let aside = self.holds.set_aside(&mut self.world, holds.into_iter());
        let movable = self.movable(id);
        let mut found = None;
        if !movable.is_empty() {
            found = self.search_sparing(id, tree, giving, Some(&movable), way);
        }
        if found.is_none() {
            found = self.search_sparing(id, tree, giving, None, way);
        }
        Holds::put_back(&mut self.world, aside);
        found
    }

    /// The holds that a group does not meet: its own, and those of groups that yield.
    pub(super) fn holds_that_yield(&self, id: GroupId, way: &Yielding) -> Vec<HoldId> {
        let mut yielding = self.yielding(id, way);
        yielding.insert(id);
        let rooms = yielding.iter().copied().map(HoldId::Room);
        let is_own = |own: &UnitMove| yielding.contains(&own.by());
        let moves = self.holds.moves_with_ids();
        let moves = moves.filter(|(_, own)| is_own(own) && self.has_not_begun(own));
        rooms.chain(moves.map(|(hold, _)| hold)).collect()
    }

    /// The victims of decisions before, with whether they may be taken instead.
    pub(super) fn victims_before(&self, id: GroupId, way: &Yielding) -> BTreeMap<String, bool> {
        let mut victims = BTreeMap::new();
        for own in self.removals.iter() {
            let by = own.by();
            let yields = !self.groups.contains_key(&by) || self.yields(id, by, way);
            let is_free = !own.has_begun() && (by == id || yields);
            victims.extend(own.names().map(|name| (name, is_free)));
        }
        victims
    }

    /// The search for victims, again without groups that are to be spared.
    fn search_sparing(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        giving: &[GroupId],
        movable: Option<&BTreeSet<GroupId>>,
        way: &Yielding,
    ) -> Option<Found> {
        let mut spared = BTreeSet::new();
        loop {
            let found = self.search_beside(id, tree, giving, (movable.cloned(), &spared), way)?;
            if self.is_sparing(id, &found, &mut spared)? {
                return Some(found);
            }
        }
    }

    /// Whether a result leaves no group with too little of which a unit moves for another claim: such groups
    /// are spared from then on. `None` if it is not suitable otherwise, or they were spared.
    pub(super) fn is_sparing(
        &self,
        id: GroupId,
        found: &Found,
        spared: &mut BTreeSet<GroupId>,
    ) -> Option<bool> {
        let mut parts = BTreeSet::new();
        if !self.removals.iter().all(Removal::is_victim) {
            let before = self.victims_before(id, &found.way);
            parts = parted((&self.removals, &self.groups), &before, found.pods());
        }
        if parts.is_empty() {
            return self.is_suitable(id, found).then_some(true);
        }
        let known = spared.len();
        spared.extend(parts);
        (spared.len() > known).then_some(false)
    }

    /// The search for victims beside groups that go anyway. With `movable` units of some groups move
    /// in place of them: alone if that suffices, else as many of the victims as can. Moves that break
    /// a budget are none, nor are those to nodes on which the unit has no quota.
    fn search_beside(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        giving: &[GroupId],
        (movable, spared): (Option<BTreeSet<GroupId>>, &BTreeSet<GroupId>),
        way: &Yielding,
    ) -> Option<Found> {
        let settings = self.world.settings().preemption?;
        let mut named: Vec<Victim> =
            giving.iter().filter_map(|&other| self.whole_victim(other)).collect();
        Victim::sort(&mut named);
        let without = self.without_claims(id, &named, way);
        let cluster = without.as_ref().map_or(self.world.cluster(), View::cluster);
        let queued = self.groups.get(&id)?;
        let queue = self.tenancy.is_some().then_some(queued.root().queue.as_str());
        let (policy, move_policy) =
            (alloc::sync::Arc::clone(&self.policy), alloc::sync::Arc::clone(&self.move_policy));
        let (victims, spared) = (self.victims_before(id, way), &self.partners_of(id) | spared);
        let takeable = Takeable {
            policy: &*policy,
            cluster,
            groups: &self.groups,
            removals: &self.removals,
            victims: victims.clone(),
            queue,
            spared: &spared,
            movable: None,
        };
        let moves = Takeable { policy: &*move_policy, victims, queue: None, movable, ..takeable };
        let policy: &dyn Policy = if named.is_empty() { &takeable } else { &Nothing };
        let request = self.world.request(tree, queued.strategy(), self.world.now());
        let mut request = PreemptionRequest::new(request).policy(policy).budget(settings.budget);
        if moves.movable.is_some() {
            let units = Consolidation::new(settings.consolidation).policy(&moves).or_evict();
            request = request.consolidation(units);
        }
        let mut planner = mem::take(&mut self.victim_planner);
        let answer =
            planner.place(cluster, self.world.framework(), self.removals.running_work(), request);
        self.victim_planner = planner;
        let (moves, plan) = match answer {
            Ok(Preemption::Placed(plan)) => (Vec::new(), plan),
            Ok(Preemption::Preempt(preempt)) if preempt.move_cost.budgets_broken == 0 => {
                named.extend(preempt.victims);
                (preempt.moves, preempt.plan)
            }
            _ => return None,
        };
        let moves = self.real_moves(moves);
        if !moves.iter().all(|step| self.keeps_quota(step)) {
            return None;
        }
        let found = Found { way: way.clone(), ..Found::new(named, moves, plan)? };
        let goes_now = found.victims.is_empty() && found.moves.is_empty();
        (goes_now || self.is_admitted(tree, &found)).then_some(found)
    }

    /// Moves without those of units that get the place that they have.
    pub(super) fn real_moves(&self, mut moves: Vec<Move>) -> Vec<Move> {
        let stays = |step: &Move| {
            let own = self.world.cluster().pod(&step.pod.namespace, &step.pod.name);
            step.to == step.pod.node && own.is_some_and(|pod| pod.device_indexes() == step.devices)
        };
        let still: BTreeSet<ObjectName> = by_unit(&moves)
            .filter(|unit| unit.iter().all(stays))
            .filter_map(|unit| Some(unit.first()?.unit.clone()))
            .collect();
        moves.retain(|step| !still.contains(&step.unit));
        moves
    }

    /// The groups that a group starts together with: it would wait for those to start again.
    pub(super) fn partners_of(&self, id: GroupId) -> BTreeSet<GroupId> {
        self.groups.partners().groups(id).into_iter().flatten().copied().collect()
    }

    /// The groups whose units may move for another: they run whole and by themselves.
    pub(super) fn movable(&self, id: GroupId) -> BTreeSet<GroupId> {
        if self.world.settings().preemption.is_none_or(|own| own.consolidation == 0) {
            return BTreeSet::new();
        }
        let is_free = |own: &UnitMove| {
            let is_less = own.by() == id || self.is_less_important(id, own.by());
            is_less && self.has_not_begun(own)
        };
        let may = |(root, queued): &(&GroupId, &QueuedGroup)| {
            let mut moves = self.holds.moves().filter(|own| own.root() == **root).peekable();
            let moves_now = moves.peek().is_some();
            queued.started()
                && **root != id
                && !queued.is_paused()
                && queued.below_since().is_none()
                && !queued.phase().busy()
                && (!queued.leaves_whole() || moves_now)
                && self.holds.nominated(**root).is_none()
                && self.holds.room(**root).is_none()
                && moves.all(is_free)
                && !self.groups.partners().contains(**root)
                && queued.members().values().all(|member| match member.state() {
                    MemberState::Done => true,
                    MemberState::Bound => {
                        let pod = member.pod();
                        let pod = self.world.cluster().pod(pod.namespace(), &pod.name);
                        pod.is_some_and(|pod| {
                            pod.node().is_some() && (!pod.deleting() || moves_now)
                        })
                    }
                    _ => false,
                })
        };
        self.groups.iter().filter(may).map(|(root, _)| *root).collect()
    }

    /// The cluster without groups that give quota back, and without pods that are to go for others
    /// that hold their room; `None` if there are none.
    pub(super) fn without_claims(
        &self,
        id: GroupId,
        giving: &[Victim],
        way: &Yielding,
    ) -> Option<View> {
        let others: Vec<&EvictedPod> = self.pods_of_other_claims(id, way).collect();
        (!giving.is_empty() || !others.is_empty()).then(|| {
            let giving = giving.iter().flat_map(|victim| &victim.pods);
            View::of(self.world.cluster()).without(giving.chain(others))
        })
    }

    /// Whether a plan leaves no part of a group below its minimum, and holds once its victims and
    /// all that terminates have gone and its moves are made.
    pub(super) fn is_suitable(&self, id: GroupId, found: &Found) -> bool {
        if self.leaves_in_part(id, &found.plan) || found.moves.iter().any(|to| self.refuses(to)) {
            return false;
        }
        let own = found.victims.iter().flat_map(|victim| &victim.pods);
        let going = own.chain(self.pods_of_other_claims(id, &found.way));
        let mut later = View::of(self.world.cluster()).without_terminating().without(going);
        self.make_moves(&mut later, &found.moves)
            && later.takes(self.world.framework(), &found.plan)
    }

    /// Whether the node that a pod is to move to refuses pods of its shape.
    fn refuses(&self, step: &Move) -> bool {
        let member = self.groups.member(&pod_name(&step.pod));
        let shape = member.and_then(|(root, seq)| Some(self.groups.find(root, seq)?.pod().shape()));
        shape.is_some_and(|shape| self.refusals.refuses(shape, &step.to, self.world.now()))
    }

    /// The pods that are to go for other groups that hold their room: placeholders stand for them
    /// already. Those of groups that yield are left out.
    pub(super) fn pods_of_other_claims(
        &self,
        id: GroupId,
        way: &Yielding,
    ) -> impl Iterator<Item = &EvictedPod> {
        let holds = move |other: GroupId| {
            self.holds.claims(other) && other != id && !self.yields(id, other, way)
        };
        let own = self.removals.iter();
        let own = own.filter(move |own| own.retry_at().is_none() && holds(own.by()));
        own.flat_map(Removal::pods)
    }

    /// Whether a group gives up what it holds for another.
    fn yields(&self, id: GroupId, other: GroupId, way: &Yielding) -> bool {
        way.named.contains(&other) || way.less_important && self.is_less_important(id, other)
    }

    /// The groups with a reservation that give it up for a group.
    pub(super) fn yielding(&self, id: GroupId, way: &Yielding) -> BTreeSet<GroupId> {
        let less_important = if way.less_important { self.less_important(id) } else { Vec::new() };
        way.named.iter().copied().chain(less_important).collect()
    }

    /// Groups with a reservation that are less important than a group.
    /// A group that moves for others keeps its place.
    pub(super) fn less_important(&self, id: GroupId) -> Vec<GroupId> {
        let is_less = |other: &GroupId| {
            *other != id && self.is_less_important(id, *other) && !self.holds.is_moving(*other)
        };
        self.holds.with_room().filter(is_less).collect()
    }

    /// Whether a group has a lower priority than another. Tenants compare those of one queue alone.
    pub(super) fn is_less_important(&self, id: GroupId, other: GroupId) -> bool {
        let (Some(own), Some(theirs)) = (self.groups.get(&id), self.groups.get(&other)) else {
            return false;
        };
        self.importance(other) < self.importance(id)
            && (self.tenancy.is_none() || own.root().queue == theirs.root().queue)
    }

    /// The priority of a group, or of the least important of those that it starts together with.
    fn importance(&self, id: GroupId) -> Option<i32> {
        let gang = self.groups.gang_group(id).unwrap_or_else(|_| alloc::vec![id]);
        gang.iter().filter_map(|own| Some(self.groups.get(own)?.root().priority)).min()
    }

    /// Whether every permit admits a plan once its victims are gone: nothing is evicted for a plan
    /// that is to be held.
    pub(super) fn is_admitted(&self, tree: &PodGroup, found: &Found) -> bool {
        if self.world.framework().permits().is_empty() {
            return true;
        }
        let mut view = View::of(self.world.cluster());
        view.leave(found.pods());
        let (cluster, now) = (view.cluster(), self.world.now());
        let cx = PermitContext { cluster, group: tree, plan: &found.plan, now };
        let permits = self.world.framework().permits();
        permits.iter().all(|permit| permit.permit(&cx) == PermitVerdict::Admit)
    }

    /// The next end of a minimum run time, after which victims may be found.
    fn wait_for_protections(&mut self) {
        let mut next: Option<Time> = None;
        for queued in self.groups.values().filter(|queued| queued.started()) {
            queued.root().visit(&mut |group| {
                let own = group.min_run_time.max(queued.root().min_run_time);
                let Some(least) = own else { return };
                for start in self.world.cluster().pods_of(group).filter_map(PodView::start) {
                    let end = start.after(least);
                    if end > self.world.now() && next.is_none_or(|next| end < next) {
                        next = Some(end);
                    }
                }
            });
        }
        self.timers.extend(next.map(|next| (next, Timer::Searches)));
    }
}

/// The result of a search: with no victims, the plan holds once pods that terminate have gone, or
/// now.
pub(in crate::queue) struct Found {
    pub(in crate::queue) victims: Vec<Victim>,
    pub(in crate::queue) moves: Vec<Move>,
    pub(in crate::queue) plan: Plan,
    /// The quota that the group is given, kept for it.
    pub(super) admitted: Vec<Admitted>,
    /// The groups that give up what they hold.
    pub(super) way: Yielding,
}

impl Found {
    /// The result; `None` if the plan places no pod.
    pub(super) fn new(victims: Vec<Victim>, moves: Vec<Move>, mut plan: Plan) -> Option<Found> {
        // The plan is to be judged in the cluster without the victims, not as it was made.
        plan.basis = Moment::default();
        (!plan.is_empty()).then_some(Found {
            victims,
            moves,
            plan,
            admitted: Vec::new(),
            way: Yielding::of_less_important(),
        })
    }

    /// The pods that leave their nodes.
    pub(super) fn pods(&self) -> impl Iterator<Item = &EvictedPod> {
        let moved = self.moves.iter().map(|step| &step.pod);
        self.victims.iter().flat_map(|victim| &victim.pods).chain(moved)
    }
}

/// The groups that give up what they hold for another.
#[derive(Debug, Clone, Default)]
pub(super) struct Yielding {
    /// Groups whose reserved quota the claim takes.
    pub(super) named: BTreeSet<GroupId>,
    /// Whether less important groups give up what the plan meets.
    pub(super) less_important: bool,
}

impl Yielding {
    /// Less important groups alone.
    pub(super) fn of_less_important() -> Yielding {
        Yielding { less_important: true, ..Yielding::default() }
    }
}

/// The policy that allows nothing.
#[derive(Debug)]
struct Nothing;

impl Policy for Nothing {
    fn allows(&self, _: &Preemptor<'_>, _: &Candidate<'_>) -> bool {
        false
    }
}
