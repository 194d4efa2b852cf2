//! Claims: the room of victims is held for a group while they go.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::time::Duration;

use super::repair::{booking_of, own_work, room_elsewhere, work_of};
use super::seek::{Found, Yielding};
use super::{Scheduler, Timer};
use crate::base::Time;
use crate::model::{Pod, PodGroup};
use crate::preempt::Victim;
use crate::queue::groups::{Phase, QueuedGroup};
use crate::queue::holds::{self, Hold, Holds, UnitMove, View};
use crate::queue::removals::{Removal, Stage, Why, pod_name};
use crate::queue::tenancy::Tenancy;
use crate::queue::terms::booking::{Booking, BookingOwner};
use crate::queue::terms::decision::{Decision, EvictionCause, RepairCosts, RepairWay};
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::terms::observe::{GroupChange, ReservationEnd};
use crate::queue::terms::shortage::Shortage;
use crate::state::{Assignment, Plan};

/// Number of waiting groups of each queue that are searched victims for again after a change.
const CANDIDATES: usize = 64;

/// Number of claims of one group in a row, none of which has let it start, after which it backs off.
/// Under filters that are not monotone a claim need not hold beside its own placeholders, and another
/// scheduler may take the room of its victims each time.
const CLAIMS_AT_ONCE: u32 = 8;

/// The result of a look at the room of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// It has room once all that is to go has gone.
    Holds,
    /// It waits for something else: a time, say.
    Waits,
    /// The claim has changed.
    Changed,
}

impl Scheduler {
    /// The victims of least cost, with the plan that they make room for. Members above the minima of
    /// their gangs come first, if settings say so. No gang falls or moves so that others only grow.
    fn find_victims(&mut self, id: GroupId, tree: &PodGroup) -> Option<Found> {
        let elastic = self.world.settings().elastic;
        if !elastic.by_turns && !elastic.takes_surplus_first() {
            return self.find_any(id, tree);
        }
        let found = self.find_surplus(id, tree);
        let gang = self.groups.gang_group(id).unwrap_or_default();
        let grows = |own: &GroupId| self.groups.get(own).is_some_and(QueuedGroup::only_grows);
        if found.is_some() || gang.iter().all(grows) {
            return found;
        }
        self.find_any(id, tree)
    }

    /// The victims of least cost among all. With tenants, the groups that quota names are tried first,
    /// then quota and room are searched at once.
    fn find_any(&mut self, id: GroupId, tree: &PodGroup) -> Option<Found> {
        self.find_beside_named(id, tree).or_else(|| self.find_jointly(id, tree))
    }

    /// The cheapest way for a gang that failing nodes took members from, if it is one. `found` is what
    /// the search for victims came to. It breaks off if the gang moves.
    fn repair(&mut self, id: GroupId, found: Option<Found>) -> ControlFlow<(), Option<Found>> {
        let Some(settings) = self.world.settings().elastic.repair else {
            return ControlFlow::Continue(found);
        };
        let Some(queued) = self.groups.get(&id).filter(|own| own.is_repaired()) else {
            return ControlFlow::Continue(found);
        };
        let goes_now = |own: &Found| own.victims.is_empty() && own.moves.is_empty();
        let missing = queued.missing();
        if missing == 0 || self.holds.claims(id) || found.as_ref().is_some_and(goes_now) {
            return ControlFlow::Continue(found);
        }
        let worth = u64::try_from(settings.worth.as_millis()).unwrap_or(u64::MAX);
        let is_alone = self.groups.gang_group(id).is_ok_and(|gang| gang.len() == 1);
        let name = booking_of(queued);
        let may_move = is_alone
            && !self.holds.is_moving(id)
            && !holds::bookings(&self.holds).any(|own| own.booking.name == name);
        let room = may_move.then(|| room_elsewhere(&self.world, queued)).flatten();
        let (work, policy) = (self.removals.running_work(), &*self.policy);
        let costs = RepairCosts {
            stays: queued.runs_minimum().then(|| worth.saturating_mul(missing.into())),
            yields: found.as_ref().map(|found| work_of(&self.world, found)),
            moves: room.as_ref().and_then(|_| own_work(&self.world, work, policy, queued)),
        };
        let mut way = costs.cheapest();
        if let (Some(RepairWay::Move), Some(room)) = (way, room)
            && !self.keep_elsewhere(id, room)
        {
            way = RepairCosts { moves: None, ..costs }.cheapest();
        }
        let Some(way) = way else { return ControlFlow::Continue(found) };
        if self.groups.get_mut(&id).is_some_and(|queued| queued.say_repair(way))
            && let Some(group) = self.groups.get(&id).map(|queued| queued.name().clone())
        {
            self.report.decide(Decision::Repair { group, missing, way, costs });
        }
        if way == RepairWay::Yield {
            return ControlFlow::Continue(found);
        }
        if let Some(found) = found {
            self.withdraw(found.admitted);
        }
        if way == RepairWay::Stay {
            return ControlFlow::Continue(None);
        }
        self.evict_overdue(id, self.world.now(), EvictionCause::Repair);
        ControlFlow::Break(())
    }

    /// Keeps room for all of a group under a name, until it starts there. Returns whether it is kept.
    fn keep_elsewhere(&mut self, id: GroupId, room: PodGroup) -> bool {
        let Some(settings) = self.world.settings().elastic.repair else { return false };
        let Some(queued) = self.groups.get(&id) else { return false };
        let pods = room.all_pods().len();
        let now = self.world.now();
        let until = now.after(settings.move_within);
        if until <= now {
            return false;
        }
        let name = booking_of(queued);
        let owner = BookingOwner::Group(queued.name().clone());
        let booking = Booking::new(name.clone(), room, (now, until)).owner(owner).once();
        let number = self.take_number();
        self.timers.insert((until, Timer::Booking(number)));
        holds::book(&mut self.holds, number, booking);
        self.update_bookings();
        let kept = holds::bookings(&self.holds).find(|view| view.booking.name == name);
        let is_kept = kept.is_some_and(|view| view.kept.values().sum::<usize>() == pods);
        if !is_kept {
            let free = self.holds.end_booking(&mut self.world, number);
            self.room_released(&free);
        }
        is_kept
    }

    /// A search for victims, and the claim to their room if there are some. Returns whether the
    /// group is placed or waits for them.
    pub(super) fn preempt(&mut self, id: GroupId, tree: &PodGroup, shortage: &Shortage) -> bool {
        let settings = self.world.settings();
        let waits = match shortage {
            Shortage::Permit { .. } => true,
            // Nothing goes for a binding that was refused once or twice.
            Shortage::Refused { .. } => !self.refusals.last(self.world.now()),
            _ => false,
        };
        if waits {
            return false;
        }
        if settings.preemption.is_none() {
            return self.repair(id, None).is_break();
        }
        let Ok(gang) = self.groups.gang_group(id) else { return false };
        let id = gang.first().copied().unwrap_or(id);
        let strict = self.groups.get(&id).filter(|_| gang.len() == 1);
        let strict = strict.and_then(QueuedGroup::repair_tree);
        let tree = strict.as_ref().unwrap_or(tree);
        // A group that moves has its places.
        if gang.iter().any(|own| self.holds.is_moving(*own)) || !self.is_of_one_queue(&gang) {
            return false;
        }
        if self.owes_a_place(id) {
            return true;
        }
        let (now, backoff) = (self.world.now(), settings.backoff);
        let delay = settings.preemption.map_or(Duration::ZERO, |own| own.delay);
        let from = self.groups.get(&id).and_then(|queued| Some(queued.ready_since()?.after(delay)));
        if let Some(from) = from.filter(|from| *from > now)
            && let Some(queued) = self.groups.get_mut(&id)
        {
            queued.put_search_off(from);
        }
        if let Some(queued) = self.groups.get(&id)
            && queued.no_search_before() > now
        {
            self.timers.insert((queued.no_search_before(), Timer::Searches));
            return false;
        }
        let found = self.find_victims(id, tree);
        let ControlFlow::Continue(found) = self.repair(id, found) else { return true };
        let is_found = found.is_some();
        if let Some(queued) = self.groups.get_mut(&id) {
            let in_row = queued.count_search(is_found);
            let at_once = is_found && in_row < CLAIMS_AT_ONCE;
            let wait = if at_once { now } else { now.after(backoff.after(in_row)) };
            queued.set_no_search_before(wait);
        }
        if let Some(found) = found {
            self.claim(&gang, found, shortage);
        }
        is_found
    }

    /// The claim of groups that start together, or of one, to the room that a plan takes. Less
    /// important groups give way, the remaining evictions go out as a decision, and placeholders
    /// hold the room.
    fn claim(&mut self, gang: &[GroupId], found: Found, shortage: &Shortage) {
        let Some(&id) = gang.first() else { return };
        for &other in gang {
            if self.holds.room(other).is_some_and(|own| own.owners() != gang) {
                self.end_reservation(other, ReservationEnd::Outranked);
            }
        }
        let wanted: BTreeSet<String> = found.pods().map(pod_name).collect();
        self.give_way(id, &found, &wanted);
        let Found { victims, moves, plan, admitted, .. } = found;
        // A victim that is to move instead is taken back first.
        let kept = victims.iter().flat_map(|victim| &victim.pods).map(pod_name).collect();
        self.cancel_evictions(id, &kept);
        self.removals.drop_put_off(id, &wanted);
        self.holds.forget_nomination(id);
        let (held, _) = self.holds.take_placeholders(id);
        self.remove_placeholders(&held);
        for &own in gang {
            self.unreserve(own, true);
        }
        let is_empty = victims.is_empty() && moves.is_empty();
        if is_empty && self.world.commit(&plan).is_ok() {
            self.report.count(|metrics| &mut metrics.placed);
            self.charge_plan(admitted, &plan);
            self.start_plan(gang.to_vec(), plan, None);
            return;
        }
        self.end_reservation(id, ReservationEnd::Outranked);
        let quota = self.reserve(admitted);
        let Some(settings) = self.world.settings().preemption else { return };
        for &own in gang {
            self.stay_unschedulable(own, shortage);
        }
        let now = self.world.now();
        let until = now.after(settings.timeout);
        let placeholders = Holds::put_for_plan(&mut self.world, id, &plan);
        let nodes: Vec<String> = placeholders.iter().map(|(_, node)| node.clone()).collect();
        self.note_pods_on(&nodes);
        self.holds.claim(gang, plan.clone(), (now, until), placeholders, quota);
        self.timers.insert((until, Timer::Reservation(id)));
        self.report.count(|metrics| &mut metrics.preemptions);
        let (count, pods) = (victims.len(), wanted.len());
        let moved: BTreeSet<&str> = moves.iter().map(|step| &*step.unit).collect();
        let change = GroupChange::Preempting { victims: count, moves: moved.len(), pods, until };
        for &own in gang {
            self.emit(own, change.clone());
        }
        // Victims that were asked for before are on their way.
        let known: BTreeSet<String> = self.removals.iter().flat_map(Removal::names).collect();
        let is_new =
            |victim: &Victim| !victim.pods.iter().any(|pod| known.contains(&pod_name(pod)));
        let new: Vec<Victim> = victims.into_iter().filter(is_new).collect();
        if !new.is_empty() {
            self.ask_for(id, new, plan.clone());
        }
        if !moves.is_empty() && self.holds.claims(id) {
            self.begin_moves(id, &moves, plan);
        }
    }

    /// Groups whose reserved quota is taken give up their holds. Less important groups give up the
    /// room that a plan takes. These are nominations on its nodes, claims on its victims, and
    /// claims on other members of a group of which too little would be left.
    fn give_way(&mut self, id: GroupId, found: &Found, wanted: &BTreeSet<String>) {
        let way = &found.way;
        let (mut yields, mut others): (BTreeSet<GroupId>, BTreeSet<GroupId>) = self
            .yielding(id, way)
            .into_iter()
            .partition(|other| way.named.contains(other) || self.is_met(*other, found, wanted));
        // Cancelled evictions leave more of their groups: that may be too little of them then.
        yields.insert(id);
        loop {
            let known = (self.world.cluster(), &self.groups);
            let parted = self.removals.left_in_part(known, &found.victims, &yields);
            let counts_on = |own: &Removal| own.root_name().is_some_and(|of| parted.contains(of));
            let is_next = |other: &GroupId| self.removals.by(*other).any(counts_on);
            let (next, rest): (BTreeSet<GroupId>, BTreeSet<GroupId>) =
                others.into_iter().partition(is_next);
            others = rest;
            if next.is_empty() {
                break;
            }
            yields.extend(next);
        }
        yields.remove(&id);
        for other in yields {
            self.holds.forget_unless_claimed(other);
            self.end_reservation(other, ReservationEnd::Outranked);
        }
    }

    /// Whether the hold of a group is on a node of a plan, or counts on a unit that leaves for it.
    fn is_met(&self, other: GroupId, found: &Found, wanted: &BTreeSet<String>) -> bool {
        let nodes = found.plan.assignments().map(Assignment::node);
        let nodes: BTreeSet<&str> =
            nodes.chain(found.moves.iter().map(|step| step.to.as_str())).collect();
        let held = self.holds.room(other).into_iter().flat_map(Hold::placeholders);
        let moves = self.holds.moves().filter(|own| own.by() == other);
        let moves = moves.flat_map(UnitMove::placeholders).map(|(_, node)| node);
        held.map(|(_, node)| &**node).chain(moves).any(|node| nodes.contains(node))
            || self.removals.by(other).flat_map(Removal::names).any(|name| wanted.contains(&name))
    }

    /// A decision to evict victims.
    fn ask_for(&mut self, id: GroupId, victims: Vec<Victim>, plan: Plan) {
        let Some(settings) = self.world.settings().preemption else { return };
        let ticket = Ticket(self.take_number());
        let until = self.world.now().after(settings.start_timeout);
        let Some(by) = self.groups.get(&id).map(|queued| queued.name().clone()) else { return };
        let mut roots = BTreeMap::new();
        let mut units = Vec::with_capacity(victims.len());
        let pods = victims.iter().flat_map(|victim| &victim.pods);
        self.removals.charge(self.world.cluster(), pods);
        for victim in &victims {
            let members = victim.pods.iter().filter_map(|pod| self.groups.member(&pod_name(pod)));
            for (root, _) in members {
                *roots.entry(root).or_insert(0) += 1;
            }
            let first = victim.pods.first();
            let root = first.and_then(|pod| Some(self.groups.member(&pod_name(pod))?.0));
            let root = (root, self.removals.root_of(&self.groups, victim));
            let stage = (Why::Victim, Stage::Asked { until });
            units.push(Removal::new((ticket, id), stage, root, victim.clone()));
        }
        let count = units.len() as u64;
        self.report.totals().add(count, |metrics| &mut metrics.victims);
        self.removals.begin(ticket, plan.clone(), units);
        self.timers.insert((until, Timer::Evictions(ticket)));
        self.report.decide(Decision::Evict { ticket, victims, plan });
        for (root, pods) in roots {
            self.emit(root, GroupChange::Preempted { by: by.clone(), pods });
        }
        self.settle_victims();
    }

    /// The room of a group that waits for its victims, looked at after a change; its placeholders, `old`,
    /// are not in the cluster. If what is under way does not suffice any more, victims are searched
    /// again. The `parts` of members that less important groups hold are in nobody's way.
    pub(super) fn renew_claim(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        shortage: &Shortage,
        (old, parts, future): (&[(Pod, String)], &[Pod], &mut Option<View>),
    ) -> Renewal {
        let Some(queued) = self.groups.get(&id) else { return Renewal::Waits };
        let may_search = queued.no_search_before() <= self.world.now();
        if !self.holds.claims(id) {
            let may = self.holds.nominated(id).is_none() && may_search;
            let is_placed = may && self.preempt(id, tree, shortage);
            return if is_placed { Renewal::Changed } else { Renewal::Waits };
        }
        let owners = self.holds.room(id).map_or_else(Vec::new, |own| own.owners().to_vec());
        let has_quota = self.quota_suffices_for(&owners);
        if has_quota && self.suffices_in(id, (old, parts), future) {
            return Renewal::Holds;
        }
        if may_search && self.preempt(id, tree, shortage) {
            return Renewal::Changed;
        }
        if has_quota && self.holds_in(id, self.future(id, true).without_pods(parts)) {
            // A victim that could not go is asked for again later.
            return Renewal::Waits;
        }
        let wait = self.world.now().after(self.world.settings().backoff.after(1));
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.put_search_off(wait);
        }
        self.end_reservation(id, ReservationEnd::Outranked);
        Renewal::Changed
    }

    /// Whether the nominated plan of a group holds in its [future](Scheduler::future).
    ///
    /// Groups with claims have one future, but for their own placeholders, which are not in the
    /// cluster while they are checked. `future` keeps it, with all placeholders, while nothing changes.
    fn suffices_in(
        &self,
        id: GroupId,
        (old, parts): (&[(Pod, String)], &[Pod]),
        future: &mut Option<View>,
    ) -> bool {
        let own = old.iter().map(|(pod, _)| pod).chain(parts);
        let later = if let Some(known) = future {
            known.clone().without_pods(own)
        } else {
            let later = self.future(id, false).without_pods(parts);
            let mut known = later.clone();
            *future = known.put(own).then_some(known);
            later
        };
        self.holds_in(id, later)
    }

    /// The cluster without the victims that are to go for a group and for others with claims, and
    /// without pods that terminate. `late` counts victims that could not go yet, too. O(pods).
    fn future(&self, id: GroupId, late: bool) -> View {
        let none = Yielding::default();
        let own = self.removals.by(id).filter(|own| late || own.retry_at().is_none());
        let going = own.flat_map(Removal::pods).chain(self.pods_of_other_claims(id, &none));
        View::of(self.world.cluster()).without_terminating().without(going)
    }

    /// Whether the nominated plan of a group holds in a cluster, after its moves.
    fn holds_in(&self, id: GroupId, mut later: View) -> bool {
        let Some(plan) = self.holds.nominated(id) else { return false };
        self.can_move(id, &mut later) && later.takes(self.world.framework(), plan)
    }

    /// Another search for the first waiting groups for which none was found, after changes. Returns
    /// whether one of them was placed or waits for victims now.
    pub(super) fn search_again(&mut self) -> bool {
        if self.world.settings().preemption.is_none() || !self.removals.take_searches_due() {
            return false;
        }
        let mut next: Option<Time> = None;
        let mut put_off = BTreeSet::new();
        let due = self.tenancy.as_mut().map(Tenancy::take_reclaim_due);
        let due = due.unwrap_or_default();
        let root_of = |queue: &str, tenancy: &Option<Tenancy>| {
            tenancy.as_ref()?.root_of(queue).filter(|root| due.contains(root))
        };
        for key in self.line.first_of_each(CANDIDATES) {
            let id = key.group;
            let Some(queued) = self.groups.get(&id) else { continue };
            let queue = &queued.root().queue;
            let is_behind = self.line.is_behind(self.world.settings().rule(queue), queue, &key);
            let sleeps = matches!(queued.phase(), Phase::Unschedulable(_));
            if is_behind || !sleeps || self.holds.claims(id) {
                continue;
            }
            let due_root = root_of(queue, &self.tenancy);
            if queued.no_search_before() > self.world.now() {
                put_off.extend(due_root);
                let earlier = next
                    .map_or(queued.no_search_before(), |next| next.min(queued.no_search_before()));
                next = Some(earlier);
                continue;
            }
            let Some(shortage) = queued.shortage().cloned() else { continue };
            if due_root.is_none() && shortage.waits_for_quota_alone() {
                continue;
            }
            let Ok(gang) = self.groups.gang_group(id) else { continue };
            let Some(tree) = self.groups.joint_tree(&gang) else { continue };
            if self.preempt(id, &tree, &shortage) {
                self.removals.set_searches_due();
                if let Some(tenancy) = &mut self.tenancy {
                    tenancy.put_off_reclaim(due);
                }
                return true;
            }
        }
        self.timers.extend(next.map(|next| (next, Timer::Searches)));
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.put_off_reclaim(put_off);
        }
        false
    }
}
