//! Preemption: the search for victims, and the room that is held for the group while they go.
//!
//! A group that does not fit is searched victims for at once, in queue order; one for which none
//! were found is searched again after changes. What is found is a nomination as that of an embedder:
//! placeholders of its plan hold the room, also where victims still use it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::decision::Decision;
use super::evictions::{Evictions, Leave, UnitInFlight, UnitMove, is_there, pod_name};
use super::ids::{GroupId, Ticket};
use super::observe::{GroupChange, ReservationEnd};
use super::queued_group::{Phase, Reservation};
use super::quota_admission::Admitted;
use super::scheduler::{Scheduler, Timer};
use super::settings::HeadOfLine;
use super::shortage::Shortage;
use super::takeable::Takeable;
use super::tenancy::Tenancy;
use crate::base::Time;
use crate::framework::{PermitContext, PermitVerdict};
use crate::model::{Pod, PodGroup};
use crate::preempt::{
    Candidate, EvictedPod, Move, Policy, Preemption, PreemptionRequest, Preemptor, Victim,
};
use crate::state::journal::Moment;
use crate::state::{Assignment, Cluster, Plan, PodView};

/// Number of waiting groups of each queue that are searched victims for again after a change.
const CANDIDATES: usize = 64;

/// Number of claims of one group within an instant, each in place of the one before, after which it
/// backs off: under filters that are not monotone a claim need not hold beside its own placeholders.
const CLAIMS_AT_ONCE: u32 = 8;

/// What a search has found: with no victims, the plan holds once pods that terminate have gone, or
/// now.
pub(super) struct Found {
    pub(super) victims: Vec<Victim>,
    pub(super) moves: Vec<Move>,
    pub(super) plan: Plan,
    /// The quota that the group is given, kept for it.
    admitted: Vec<Admitted>,
    /// Whether less important groups give up what the plan meets.
    gives_way: bool,
}

impl Found {
    /// What was found; `None` if the plan places no pod.
    pub(super) fn new(victims: Vec<Victim>, moves: Vec<Move>, mut plan: Plan) -> Option<Found> {
        // The plan is to be judged in the cluster without the victims, not as it was made.
        plan.basis = Moment::default();
        (!plan.is_empty()).then_some(Found {
            victims,
            moves,
            plan,
            admitted: Vec::new(),
            gives_way: true,
        })
    }

    /// The pods that leave their nodes.
    fn pods(&self) -> impl Iterator<Item = &EvictedPod> {
        let moved = self.moves.iter().map(|step| &step.pod);
        self.victims.iter().flat_map(|victim| &victim.pods).chain(moved)
    }
}

impl Scheduler {
    /// A search for victims, and the claim to their room if there are some. Returns whether the
    /// group is placed or waits for them.
    pub(super) fn preempt(&mut self, id: GroupId, tree: &PodGroup, shortage: &Shortage) -> bool {
        if self.settings.preemption.is_none() || matches!(shortage, Shortage::Permit { .. }) {
            return false;
        }
        if !self.gang_group(id).is_ok_and(|gang| gang.len() == 1) || self.preemption.is_moving(id) {
            // Groups that start together are one plan of several: their room is not reserved. What
            // moves has its places.
            return false;
        }
        if let Some(queued) = self.groups.get(&id)
            && queued.no_search_before > self.now
        {
            self.timers.insert((queued.no_search_before, Timer::Searches));
            return false;
        }
        let found = self.find_victims(id, tree);
        let is_found = found.is_some();
        let (now, backoff) = (self.now, self.settings.backoff);
        if let Some(queued) = self.groups.get_mut(&id) {
            // A claim that is replaced in the instant in which it was made did not hold.
            let is_replaced = queued.preempting
                && queued.reservation.as_ref().is_some_and(|claim| claim.since == now);
            let has_failed = !is_found || is_replaced;
            queued.searches = if has_failed { queued.searches.saturating_add(1) } else { 0 };
            let at_once = is_found && queued.searches < CLAIMS_AT_ONCE;
            let wait = if at_once { now } else { now.after(backoff.after(queued.searches)) };
            queued.no_search_before = wait;
        }
        if let Some(found) = found {
            self.claim(id, found, shortage);
        }
        is_found
    }

    /// The victims of least cost, with the plan that they make room for. With tenants, the groups
    /// that quota names are among them, and room is made in the group's own queue beside them.
    fn find_victims(&mut self, id: GroupId, tree: &PodGroup) -> Option<Found> {
        let mut tree = tree.clone();
        let (admitted, giving) = match self.tenancy {
            Some(_) => self.seek_quota(id, &mut tree)?,
            None => (Vec::new(), Vec::new()),
        };
        self.metrics.add_one(|metrics| &mut metrics.victim_searches);
        // Quota names groups beside all that is reserved: what is reserved of room stays, too, where
        // there is a plan beside it.
        let mut found = None;
        if !giving.is_empty() && !self.less_important(id).is_empty() {
            found = self.find_room(id, &tree, &giving, false);
        }
        if found.is_none() {
            found = self.find_room(id, &tree, &giving, true);
        }
        if let Some(found) = found {
            Some(Found { admitted, ..found })
        } else {
            self.withdraw(admitted);
            // Where quota is short, those that it may not name are known by themselves.
            self.wait_for_protections();
            None
        }
    }

    /// The plan beside groups that go anyway, with moves or the victims of least cost. `gives_way`
    /// says that less important groups give up what it meets.
    fn find_room(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        giving: &[GroupId],
        gives_way: bool,
    ) -> Option<Found> {
        let (aside, victims) = self.set_less_important_aside(id, gives_way);
        let moved = self.find_moves(id, tree, &victims);
        let mut found = moved.filter(|found| self.is_suitable(id, found));
        if found.is_none() {
            found = self.search_beside(id, tree, giving, victims, gives_way);
            found = found.filter(|found| self.is_suitable(id, found));
        }
        for (pod, _) in aside {
            let _ = self.cluster.add_pod(pod);
        }
        found
    }

    /// Takes the placeholders of a group and (if they give way) of less important ones out of the
    /// cluster, and returns them; and the victims of decisions before, with whether they may be taken
    /// instead.
    fn set_less_important_aside(
        &mut self,
        id: GroupId,
        gives_way: bool,
    ) -> (Vec<(Pod, String)>, BTreeMap<String, bool>) {
        let mut aside: Vec<(Pod, String)> = Vec::new();
        let less_important = if gives_way { self.less_important(id) } else { Vec::new() };
        for other in less_important.iter().copied().chain([id]) {
            let reservation =
                self.groups.get(&other).and_then(|queued| queued.reservation.as_ref());
            aside.extend(reservation.into_iter().flat_map(|own| own.placeholders.iter().cloned()));
        }
        for own in &self.preemption.moves {
            let is_own = own.by == id || less_important.contains(&own.by);
            let mut units = self.preemption.units_of(own.ticket);
            if is_own && units.any(|unit| unit.victim.name == own.unit && !unit.begun) {
                aside.extend(own.placeholders().map(|(pod, node)| (pod.clone(), node.into())));
            }
        }
        aside.retain(|(pod, _)| self.cluster.remove_pod(pod.namespace(), &pod.name).is_ok());
        let mut victims = BTreeMap::new();
        for (other, unit) in self.preemption.units() {
            let is_less =
                !self.groups.contains_key(&other) || gives_way && self.is_less_important(id, other);
            let is_free = !unit.begun && (other == id || is_less);
            victims.extend(unit.names().map(|name| (name, is_free)));
        }
        (aside, victims)
    }

    /// The search for victims beside groups that go anyway.
    fn search_beside(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        giving: &[GroupId],
        victims: BTreeMap<String, bool>,
        gives_way: bool,
    ) -> Option<Found> {
        let budget = self.settings.preemption?.budget;
        let mut named: Vec<Victim> =
            giving.iter().filter_map(|&other| self.whole_victim(other)).collect();
        named.sort_by(|a, b| (b.priority, &a.name).cmp(&(a.priority, &b.name)));
        let without = self.without_claims(id, &named, gives_way);
        let cluster = without.as_ref().unwrap_or(&self.cluster);
        let queued = self.groups.get(&id)?;
        let queue = self.tenancy.is_some().then_some(queued.root.queue.as_str());
        let policy = alloc::sync::Arc::clone(&self.policy);
        let takeable = Takeable {
            policy: &*policy,
            cluster,
            groups: &self.groups,
            pods: &self.pods,
            state: &self.preemption,
            victims,
            queue,
            partners: self.partners.groups(id),
            movable: None,
        };
        let policy: &dyn Policy = if named.is_empty() { &takeable } else { &Nothing };
        let request = self.request(tree, queued.strategy, self.now);
        let request = PreemptionRequest::new(request).policy(policy).budget(budget);
        let mut planner = mem::take(&mut self.victim_planner);
        let answer = planner.place(cluster, &self.framework, &self.running_work, request);
        self.victim_planner = planner;
        let plan = match answer {
            Ok(Preemption::Placed(plan)) => plan,
            Ok(Preemption::Preempt(preempt)) => {
                named.extend(preempt.victims);
                preempt.plan
            }
            _ => return None,
        };
        let found = Found { gives_way, ..Found::new(named, Vec::new(), plan)? };
        (found.victims.is_empty() || self.is_admitted(tree, &found)).then_some(found)
    }

    /// The cluster without groups that give quota back, and without pods that are to go for others
    /// that hold their room; `None` if there are none.
    pub(super) fn without_claims(
        &self,
        id: GroupId,
        giving: &[Victim],
        gives_way: bool,
    ) -> Option<Cluster> {
        let others: Vec<&EvictedPod> = self.pods_of_other_claims(id, !gives_way).collect();
        (!giving.is_empty() || !others.is_empty()).then(|| {
            let mut without = self.cluster.clone();
            let giving = giving.iter().flat_map(|victim| &victim.pods);
            for pod in giving.chain(others).filter(|pod| is_there(&self.cluster, pod)) {
                let _ = without.remove_pod(&pod.namespace, &pod.name);
            }
            without
        })
    }

    /// Whether a plan leaves no part of a group below its minimum, and holds once its victims and
    /// all that terminates have gone and its moves are made.
    fn is_suitable(&self, id: GroupId, found: &Found) -> bool {
        let members = found.plan.assignments().map(|to| super::queued_group::full_name(to.pod()));
        let members = members.filter_map(|name| Some(self.pods.get(&name)?.1)).collect();
        let queued = self.groups.get(&id);
        if queued.is_none_or(|queued| queued.part_of(&self.cluster, &members).is_some()) {
            return false;
        }
        let own = found.victims.iter().flat_map(|victim| &victim.pods);
        let mut later = self.without(own.chain(self.pods_of_other_claims(id, !found.gives_way)));
        self.make_moves(&mut later, &found.moves)
            && later.commit(&self.framework, &found.plan).is_ok()
    }

    /// The cluster without pods that are to go, and without those that terminate. O(pods).
    fn without<'a>(&self, going: impl Iterator<Item = &'a EvictedPod>) -> Cluster {
        let mut cluster = self.cluster.clone();
        for pod in self.cluster.pods().filter(|pod| pod.deleting()) {
            let _ = cluster.remove_pod(pod.namespace(), pod.name());
        }
        for pod in going.filter(|pod| is_there(&self.cluster, pod)) {
            let _ = cluster.remove_pod(&pod.namespace, &pod.name);
        }
        cluster
    }

    /// The pods that are to go for other groups that hold their room: placeholders stand for them
    /// already. `all` says that those of less important groups do, too.
    fn pods_of_other_claims(&self, id: GroupId, all: bool) -> impl Iterator<Item = &EvictedPod> {
        let holds = move |other: GroupId| {
            let is_held = self.groups.get(&other).is_some_and(|own| own.preempting);
            is_held && other != id && (all || !self.is_less_important(id, other))
        };
        let units = self.preemption.units();
        let units = units.filter(move |(other, unit)| unit.retry_at.is_none() && holds(*other));
        units.flat_map(|(_, unit)| &unit.victim.pods)
    }

    /// Groups with a reservation that are less important than a group.
    /// What moves for others keeps its place.
    fn less_important(&self, id: GroupId) -> Vec<GroupId> {
        let is_less = |other: &GroupId| {
            *other != id && self.is_less_important(id, *other) && !self.preemption.is_moving(*other)
        };
        self.reserving.iter().copied().filter(is_less).collect()
    }

    /// Whether a group has a lower priority than another. Tenants compare those of one queue alone.
    pub(super) fn is_less_important(&self, id: GroupId, other: GroupId) -> bool {
        let (Some(own), Some(other)) = (self.groups.get(&id), self.groups.get(&other)) else {
            return false;
        };
        other.root.priority < own.root.priority
            && (self.tenancy.is_none() || own.root.queue == other.root.queue)
    }

    /// Whether every permit admits a plan once its victims are gone: nothing is evicted for a plan
    /// that is to be held.
    pub(super) fn is_admitted(&self, tree: &PodGroup, found: &Found) -> bool {
        if self.framework.permits().is_empty() {
            return true;
        }
        let mut cluster = self.cluster.clone();
        for pod in found.pods() {
            let _ = cluster.remove_pod(&pod.namespace, &pod.name);
        }
        let cx = PermitContext { cluster: &cluster, group: tree, plan: &found.plan, now: self.now };
        self.framework.permits().iter().all(|permit| permit.permit(&cx) == PermitVerdict::Admit)
    }

    /// The claim of a group to the room that a plan takes: less important groups give way, what is
    /// still to be evicted goes out as a decision, and placeholders hold the room.
    fn claim(&mut self, id: GroupId, found: Found, shortage: &Shortage) {
        let wanted: BTreeSet<String> = found.pods().map(pod_name).collect();
        if found.gives_way {
            self.give_way(id, &found, &wanted);
        }
        let Found { victims, moves, plan, admitted, .. } = found;
        self.cancel_evictions(id, &wanted);
        self.preemption.drop_put_off(id, &wanted);
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.preempting = false;
            queued.nominated = None;
        }
        let reserved = self.groups.get_mut(&id).and_then(|queued| queued.reservation.as_mut());
        let held = reserved.map(|own| mem::take(&mut own.placeholders)).unwrap_or_default();
        self.remove_placeholders(&held);
        self.unreserve(id, true);
        let is_empty = victims.is_empty() && moves.is_empty();
        if is_empty && self.cluster.commit(&self.framework, &plan).is_ok() {
            self.metrics.add_one(|metrics| &mut metrics.placed);
            self.charge_plan(admitted, &plan);
            self.start_plan(alloc::vec![id], plan, None);
            return;
        }
        self.end_reservation(id, ReservationEnd::Outranked);
        self.reserve(admitted);
        let Some(settings) = self.settings.preemption else { return };
        self.stay_unschedulable(id, shortage);
        let (now, until) = (self.now, self.now.after(settings.timeout));
        let placeholders = self.add_placeholders(id, &plan);
        for (_, node) in &placeholders {
            self.pods_changed(node);
        }
        let Some(queued) = self.groups.get_mut(&id) else { return };
        queued.nominated = Some(plan.clone());
        queued.preempting = true;
        queued.reservation = Some(Reservation::new((now, until), None, placeholders));
        self.reserving.insert(id);
        self.timers.insert((until, Timer::Reservation(id)));
        self.metrics.add_one(|metrics| &mut metrics.preemptions);
        let (count, pods) = (victims.len(), wanted.len());
        let moved: BTreeSet<&String> = moves.iter().map(|step| &step.unit).collect();
        let change = GroupChange::Preempting { victims: count, moves: moved.len(), pods, until };
        self.emit(id, change);
        // Victims that were asked for before are on their way.
        let known: BTreeSet<String> =
            self.preemption.units().flat_map(|(_, unit)| unit.names()).collect();
        let is_new =
            |victim: &Victim| !victim.pods.iter().any(|pod| known.contains(&pod_name(pod)));
        let new: Vec<Victim> = victims.into_iter().filter(is_new).collect();
        if !moves.is_empty() {
            self.begin_moves(id, &moves, plan);
        } else if !new.is_empty() {
            self.ask_for(id, new, plan);
        }
    }

    /// Less important groups give up what a plan takes: their own nominations on its nodes, those
    /// that count on its victims, and those that count on others of a group of which too little
    /// would be left.
    fn give_way(&mut self, id: GroupId, found: &Found, wanted: &BTreeSet<String>) {
        let nodes = found.plan.assignments().map(Assignment::node);
        let nodes: BTreeSet<&str> =
            nodes.chain(found.moves.iter().map(|step| step.to.as_str())).collect();
        let parted = self.left_in_part(&found.victims);
        for other in self.less_important(id) {
            let Some(queued) = self.groups.get(&other) else { continue };
            let held = queued.reservation.iter().flat_map(|own| &own.placeholders);
            let moves = self.preemption.moves.iter().filter(|own| own.by == other);
            let moves = moves.flat_map(UnitMove::placeholders).map(|(_, node)| node);
            let is_met =
                held.map(|(_, node)| &**node).chain(moves).any(|node| nodes.contains(node))
                    || self.preemption.units().any(|(group, unit)| {
                        group == other
                            && (unit.root_name.as_ref().is_some_and(|root| parted.contains(root))
                                || unit.names().any(|name| wanted.contains(&name)))
                    });
            if is_met {
                if let Some(queued) = self.groups.get_mut(&other) {
                    queued.nominated = None;
                }
                self.end_reservation(other, ReservationEnd::Outranked);
            }
        }
    }

    /// A decision to evict victims.
    fn ask_for(&mut self, id: GroupId, victims: Vec<Victim>, plan: Plan) {
        let Some(settings) = self.settings.preemption else { return };
        let ticket = Ticket(self.take_number());
        let until = self.now.after(settings.start_timeout);
        let Some(by) = self.groups.get(&id).map(|queued| queued.name.clone()) else { return };
        let mut roots = BTreeMap::new();
        for victim in &victims {
            self.preemption.charge(&self.cluster, &victim.pods);
            for (root, _) in victim.pods.iter().filter_map(|pod| self.pods.get(&pod_name(pod))) {
                *roots.entry(*root).or_insert(0) += 1;
            }
        }
        self.budgets_changed();
        let in_flight = |victim: &Victim| UnitInFlight {
            root: victim.pods.first().and_then(|pod| Some(self.pods.get(&pod_name(pod))?.0)),
            root_name: self.root_of(victim),
            victim: victim.clone(),
            leave: Leave::Evicted,
            begun: false,
            until,
            retry_at: None,
        };
        let units: Vec<UnitInFlight> = victims.iter().map(in_flight).collect();
        let count = units.len() as u64;
        self.metrics.victims = self.metrics.victims.saturating_add(count);
        let evictions = Evictions { group: id, plan: plan.clone(), units };
        self.preemption.evictions.push((ticket, evictions));
        self.timers.insert((until, Timer::Evictions(ticket)));
        let moves = Vec::new();
        self.outbox.push_back(Decision::Preempt { ticket, victims, moves, plan });
        for (root, pods) in roots {
            self.emit(root, GroupChange::Preempted { by: by.clone(), pods });
        }
        self.settle_victims();
    }

    /// The room of a group that waits for its victims, looked at after a change; its placeholders
    /// are not in the cluster. If what is under way does not suffice any more, victims are searched
    /// again. Returns whether the claim has changed.
    pub(super) fn renew_claim(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        shortage: &Shortage,
    ) -> bool {
        let Some(queued) = self.groups.get(&id) else { return false };
        if !queued.preempting {
            let may = queued.nominated.is_none() && queued.no_search_before <= self.now;
            return may && self.preempt(id, tree, shortage);
        }
        let may_search = queued.no_search_before <= self.now;
        let has_quota = self.quota_suffices(id);
        if has_quota && self.suffices(id, false) {
            return false;
        }
        if may_search && self.preempt(id, tree, shortage) {
            return true;
        }
        if has_quota && self.suffices(id, true) {
            // A victim that could not go is asked for again later.
            return false;
        }
        let wait = self.now.after(self.settings.backoff.after(1));
        if let Some(queued) = self.groups.get_mut(&id) {
            queued.nominated = None;
            queued.no_search_before = queued.no_search_before.max(wait);
        }
        self.end_reservation(id, ReservationEnd::Outranked);
        true
    }

    /// Whether the nominated plan of a group holds without the victims that are to go for it, and
    /// without pods that terminate. `late` counts those that could not go yet, too.
    fn suffices(&self, id: GroupId, late: bool) -> bool {
        let Some(plan) = self.groups.get(&id).and_then(|queued| queued.nominated.as_ref()) else {
            return false;
        };
        let own = self.preemption.units().filter(|(other, _)| *other == id);
        let own = own.filter(|(_, unit)| late || unit.retry_at.is_none());
        let own = own.flat_map(|(_, unit)| &unit.victim.pods);
        let mut later = self.without(own.chain(self.pods_of_other_claims(id, true)));
        self.can_move(id, &mut later) && later.commit(&self.framework, plan).is_ok()
    }

    /// Another search for the first waiting groups for which none was found, after changes. Returns
    /// whether one of them was placed or waits for victims now.
    pub(super) fn search_again(&mut self) -> bool {
        if self.settings.preemption.is_none() || !mem::take(&mut self.preemption.searches_due) {
            return false;
        }
        let mut next: Option<Time> = None;
        let mut put_off = BTreeSet::new();
        let due = self.tenancy.as_mut().map(|tenancy| mem::take(&mut tenancy.reclaim_due));
        let due = due.unwrap_or_default();
        let root_of = |queue: &str, tenancy: &Option<Tenancy>| {
            tenancy.as_ref()?.root_of(queue).filter(|root| due.contains(root))
        };
        for key in self.queues.first_of_each(CANDIDATES) {
            let id = key.group;
            let Some(queued) = self.groups.get(&id) else { continue };
            let queue = &queued.root.queue;
            let is_behind = self.settings.rule(queue) == HeadOfLine::StrictFifo
                && self.queues.waiting(queue).next() != Some(&key);
            let sleeps = matches!(queued.phase, Phase::Unschedulable(_));
            if is_behind || !sleeps || queued.preempting {
                continue;
            }
            let due_root = root_of(queue, &self.tenancy);
            if queued.no_search_before > self.now {
                put_off.extend(due_root);
                let earlier =
                    next.map_or(queued.no_search_before, |next| next.min(queued.no_search_before));
                next = Some(earlier);
                continue;
            }
            let Some(shortage) = queued.shortage.clone() else { continue };
            if due_root.is_none() && shortage.waits_for_quota_alone() {
                continue;
            }
            let Some(tree) = self.joint_tree(&[id]) else { continue };
            if self.preempt(id, &tree, &shortage) {
                self.preemption.searches_due = true;
                if let Some(tenancy) = &mut self.tenancy {
                    tenancy.reclaim_due.extend(due);
                }
                return true;
            }
        }
        self.timers.extend(next.map(|next| (next, Timer::Searches)));
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.reclaim_due.extend(put_off);
        }
        false
    }

    /// The next end of a minimum run time, after which victims may be found.
    fn wait_for_protections(&mut self) {
        let mut next: Option<Time> = None;
        for queued in self.groups.values().filter(|queued| queued.started) {
            queued.root.visit(&mut |group| {
                let own = group.min_run_time.max(queued.root.min_run_time);
                let Some(least) = own else { return };
                for start in self.cluster.pods_of(group).filter_map(PodView::start) {
                    let end = start.after(least);
                    if end > self.now && next.is_none_or(|next| end < next) {
                        next = Some(end);
                    }
                }
            });
        }
        self.timers.extend(next.map(|next| (next, Timer::Searches)));
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
