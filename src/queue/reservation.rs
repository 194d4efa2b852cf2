//! Reservations: capacity put aside for the first in line as it frees.
//!
//! What is put aside is held by stand-ins: pods of a namespace of their own that request what the
//! members would, so that every filter that looks at room sees them, and none that looks at labels
//! does. Whenever something changes, the group is tried without its stand-ins; if that is in vain,
//! as many members as fit are placed, and stood in for.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::decide::Found;
use super::observe::{GroupChange, Lacks, ReservationEnd};
use super::queued_group::{Key, Phase, Reserved, Unit, UnitId, shapes};
use super::scheduler::{Scheduler, Timer};
use super::settings::ReservationPolicy;
use super::wake::hints::Watched;
use crate::base::Time;
use crate::framework::Evaluation;
use crate::model::{GroupPolicy, Pod, PodGroup, PodShape};
use crate::place::Outcome;
use crate::state::{Plan, PodView};

/// How many of each queue are looked at for those that may reserve.
const CANDIDATES: usize = 64;

impl Scheduler {
    /// Brings reservations up to date, and places who can be.
    pub(crate) fn claim(&mut self) {
        let is_nominated =
            |id: &UnitId| self.units.get(id).is_some_and(|unit| unit.nominated.is_some());
        let nominated: Vec<UnitId> = self.reserving.iter().copied().filter(is_nominated).collect();
        let Some(policy) = self.settings.reservation else {
            self.refresh_all(&nominated);
            return;
        };
        let mut chosen = Vec::new();
        for key in self.first_in_line() {
            if chosen.len() >= policy.at_most {
                break;
            }
            let Some(unit) = self.units.get(&key.unit) else { continue };
            if unit.reservation.is_some() {
                if unit.nominated.is_none() {
                    chosen.push(key.unit);
                }
            } else if unit.hopeless_at == Some(self.epoch) || self.now < unit.no_reservation_before
            {
                // It lets others go first.
            } else if unit.attempts == 0
                || unit.ready_since.is_none_or(|ready| ready.after(policy.after) > self.now)
            {
                break;
            } else if self.begin(key.unit, policy) {
                chosen.push(key.unit);
            }
        }
        let outranked: Vec<UnitId> = self
            .reserving
            .iter()
            .copied()
            .filter(|id| !nominated.contains(id) && !chosen.contains(id))
            .collect();
        for id in outranked {
            self.end_reservation(id, ReservationEnd::Outranked);
        }
        chosen.extend(nominated);
        self.refresh_all(&chosen);
    }

    fn first_in_line(&self) -> BTreeSet<Key> {
        self.lanes.values().flat_map(|lane| lane.waiting.iter().take(CANDIDATES)).cloned().collect()
    }

    /// Begins a reservation, unless the group would not fit an empty cluster.
    fn begin(&mut self, id: UnitId, policy: ReservationPolicy) -> bool {
        let Ok(cohort) = self.cohort(id) else { return false };
        let alone = cohort.len() == 1;
        let tree = if alone { self.joint_tree(&cohort) } else { None };
        let domain = tree.and_then(|tree| self.domain_for(id, &tree));
        let until = self.now.after(policy.timeout);
        let (now, epoch) = (self.now, self.epoch);
        let Some(unit) = self.units.get_mut(&id) else { return false };
        let Some(domain) = domain else {
            unit.hopeless_at = Some(epoch);
            self.emit(id, GroupChange::ReservationEnded { reason: ReservationEnd::Hopeless });
            return false;
        };
        unit.reservation = Some(Reserved { since: now, until, domain, claims: Vec::new() });
        self.reserving.insert(id);
        self.timers.insert((until, Timer::Reservation(id)));
        self.counters.reservations += 1;
        self.emit(id, GroupChange::Reserving { until });
        true
    }

    /// Where to reserve: `Some(None)` if the group may go anywhere. Of several domains in which it
    /// would fit if they were empty, the one with most room now.
    #[allow(clippy::option_option)]
    fn domain_for(&mut self, id: UnitId, tree: &PodGroup) -> Option<Option<(String, String)>> {
        let strategy = self.units.get(&id)?.strategy;
        let mut empty = self.cluster.txn();
        let pods: Vec<_> = self.cluster.pods().map(PodView::id).collect();
        // Members of its own that run stay where they are.
        let own: BTreeSet<_> = {
            let mut own = BTreeSet::new();
            tree.visit(&mut |group| {
                own.extend(self.cluster.group_pods(&group.full_name()).map(PodView::id));
            });
            own
        };
        for pod in pods.into_iter().filter(|pod| !own.contains(pod)) {
            // Pods whose node is gone are on no node.
            let _ = empty.evict_pod(pod);
        }
        let fits = |scheduler: &mut Scheduler, within: Option<&(String, String)>| {
            let mut request = scheduler.request(tree, strategy, scheduler.now);
            if let Some((key, value)) = within {
                request = request.within(key, value);
            }
            let mut planner = crate::place::Planner::new();
            let outcome = planner.place(&empty, &scheduler.framework, request);
            matches!(outcome, Ok(Outcome::Placed(_) | Outcome::Held { .. }))
        };
        let Some(key) = tree.topology.require.clone() else {
            return fits(self, None).then_some(None);
        };
        let mut values: Vec<(Reverse<usize>, String)> = Vec::new();
        let names: BTreeSet<String> = self
            .cluster
            .nodes()
            .filter_map(|node| node.label(&key).map(ToOwned::to_owned))
            .collect();
        for value in names {
            let domain = (key.clone(), value);
            let now = self.most(id, tree, Some(&domain)).map_or(0, |plan| plan.len());
            values.push((Reverse(now), domain.1));
        }
        values.sort_unstable();
        // Where a reservation was in vain, something may run for ever: other domains come first.
        let given_up = self.units.get(&id).map(|unit| unit.given_up.clone()).unwrap_or_default();
        values.sort_by_key(|(_, value)| given_up.contains(value));
        let domains = values.into_iter().map(|(_, value)| (key.clone(), value));
        let found = domains.into_iter().find(|domain| fits(self, Some(domain)));
        if let Some((_, value)) = &found
            && given_up.contains(value)
            && let Some(unit) = self.units.get_mut(&id)
        {
            unit.given_up.clear();
        }
        found.map(Some)
    }

    /// As many members as can be placed now, whatever the minimum.
    fn most(
        &mut self,
        id: UnitId,
        tree: &PodGroup,
        within: Option<&(String, String)>,
    ) -> Option<Plan> {
        let mut loose = tree.clone();
        loosen(&mut loose);
        let strategy = self.units.get(&id)?.strategy;
        let mut request = self.request(&loose, strategy, self.now);
        if let Some((key, value)) = within {
            request = request.within(key, value);
        }
        match self.planner.place(&self.cluster, &self.framework, request) {
            Ok(Outcome::Placed(plan) | Outcome::Held { plan, .. }) => Some(plan),
            _ => None,
        }
    }

    /// Units that reserve are tried in order, until none of them changes what it puts aside.
    /// What is put aside moves only if it grows, or if what it rested on is gone, so it moves no
    /// more often than there are members; filters that are not monotone are held to that, too.
    fn refresh_all(&mut self, units: &[UnitId]) {
        let mut due: BTreeSet<UnitId> = units.iter().copied().collect();
        let members = units.iter().filter_map(|id| self.units.get(id)).map(Unit::pending);
        let mut left = members.sum::<usize>() + 2 * units.len();
        while let Some(&id) = units.iter().find(|id| due.contains(*id) && left > 0) {
            due.remove(&id);
            left -= 1;
            if self.refresh(id) {
                due.extend(units.iter().filter(|other| **other != id));
            }
            if !self.outbox.is_empty() {
                // The rest has its turn afterwards: a plan has changed something.
                return;
            }
        }
    }

    /// Tries a unit that reserves without its stand-ins, unless it backs off. If that is in vain,
    /// they stay as they are, unless more members can be stood in for elsewhere. Returns whether anything changed.
    pub(crate) fn refresh(&mut self, id: UnitId) -> bool {
        let Some(unit) = self.units.get(&id) else { return false };
        if !unit.phase.waits() || unit.reservation.is_none() {
            return false;
        }
        if !self.cohort(id).is_ok_and(|cohort| cohort.len() == 1) {
            // Whoever starts together with others does not start alone where it has room.
            self.end_reservation(id, ReservationEnd::Outranked);
            return true;
        }
        let Some(reserved) = self.units.get_mut(&id).and_then(|unit| unit.reservation.as_mut())
        else {
            return false;
        };
        let old = core::mem::take(&mut reserved.claims);
        let domain = reserved.domain.clone();
        for (pod, _) in &old {
            let _ = self.cluster.remove_pod(pod.namespace(), &pod.name);
        }
        let Some(tree) = self.joint_tree(&[id]) else {
            self.note_each(&old);
            return !old.is_empty();
        };
        let backs_off =
            self.units.get(&id).is_some_and(|unit| matches!(unit.phase, Phase::BackingOff(_)));
        if !backs_off {
            match self.find(id, &[id], &tree, false) {
                Found::Nothing(lacks, _) => self.keep_asleep(id, &lacks),
                Found::Plan(plan, held) => {
                    self.note_each(&old);
                    self.launch(alloc::vec![id], plan, held);
                    return true;
                }
                Found::Trouble(error) => {
                    self.note_each(&old);
                    self.fail(&[id], &error);
                    return true;
                }
            }
        }
        let nominated = self.units.get(&id).and_then(|unit| unit.nominated.clone());
        let claims = if let Some(plan) = nominated {
            self.stand_ins(id, &plan)
        } else {
            let plan = self.most(id, &tree, domain.as_ref());
            let kept = self.stand_again(&old, &tree);
            match plan.filter(|plan| plan.len() > kept.len()) {
                Some(plan) => {
                    for (pod, _) in &kept {
                        let _ = self.cluster.remove_pod(pod.namespace(), &pod.name);
                    }
                    self.stand_ins(id, &plan)
                }
                None => kept,
            }
        };
        let (before, after) = (by_place(&old), by_place(&claims));
        let changed = before != after;
        if changed {
            let differs = |place: &&(&str, &PodShape)| before.get(*place) != after.get(*place);
            let nodes = before.keys().chain(after.keys()).filter(differs);
            self.moved.nodes.extend(nodes.map(|(node, _)| (*node).to_owned()));
            self.emit(id, GroupChange::Reserved { pods: claims.len() });
        }
        if let Some(reserved) = self.units.get_mut(&id).and_then(|unit| unit.reservation.as_mut()) {
            reserved.claims = claims;
        }
        changed
    }

    /// Who reserves sleeps on nothing: it is tried whenever something changes.
    fn keep_asleep(&mut self, id: UnitId, lacks: &Lacks) {
        let Some(unit) = self.units.get(&id) else { return };
        if unit.phase == Phase::Queued {
            self.sleep(&[id], lacks, &Watched::Nothing);
        } else if unit.watched != Watched::Nothing {
            self.sleep_on(id, Watched::Nothing);
        }
    }

    fn note_each(&mut self, claims: &[(Pod, String)]) {
        for (_, node) in claims {
            self.note(node);
        }
    }

    /// Puts stand-ins for a plan into the cluster.
    fn stand_ins(&mut self, id: UnitId, plan: &Plan) -> Vec<(Pod, String)> {
        let mut claims = Vec::with_capacity(plan.len());
        for (index, assignment) in plan.assignments().enumerate() {
            let node = assignment.node();
            if self.cluster.node(node).is_none() {
                continue;
            }
            let mut pod = Pod::new()
                .in_namespace(Scheduler::RESERVED)
                .name(format!("{id}-{index}"))
                .priority(assignment.pod().priority)
                .on(node);
            let asked = assignment.pod().shape();
            let shape = pod.shape_mut();
            shape.requests.clone_from(&asked.requests);
            shape.incoming_requests.clone_from(&asked.incoming_requests);
            shape.existing_requests = asked.existing_requests;
            shape.devices.clone_from(&asked.devices);
            pod.device_indexes = assignment.devices().to_vec();
            if self.cluster.add_pod(pod.clone()).is_ok() {
                claims.push((pod, node.to_owned()));
            }
        }
        claims
    }

    /// Puts those stand-ins back whose place still suits a member that waits.
    fn stand_again(&mut self, old: &[(Pod, String)], tree: &PodGroup) -> Vec<(Pod, String)> {
        let mut waiting = shapes(tree.all_pods().into_iter());
        let mut kept = Vec::with_capacity(old.len());
        for (pod, node) in old {
            let alike = |shape: &PodShape| {
                shape.requests == pod.shape().requests && shape.devices == pod.shape().devices
            };
            let Some((shape, left)) =
                waiting.iter_mut().find(|(shape, left)| *left > 0 && alike(shape))
            else {
                continue;
            };
            let evaluation = Evaluation::new(&self.framework, &self.cluster, shape, None, self.now);
            let suits = self.cluster.node(node).is_some_and(|node| evaluation.filter(node).is_ok());
            if suits && self.cluster.add_pod(pod.clone()).is_ok() {
                *left -= 1;
                kept.push((pod.clone(), node.clone()));
            }
        }
        kept
    }

    /// Ends a reservation, if there is one.
    pub(crate) fn end_reservation(&mut self, id: UnitId, reason: ReservationEnd) {
        let now = self.now;
        let Some(unit) = self.units.get_mut(&id) else { return };
        let Some(reserved) = unit.reservation.take() else { return };
        self.reserving.remove(&id);
        self.timers.remove(&(reserved.until, Timer::Reservation(id)));
        if reason == ReservationEnd::Timeout {
            let after =
                self.settings.reservation.map_or(Time::MAX, |policy| now.after(policy.after));
            unit.no_reservation_before = after;
            unit.given_up.extend(reserved.domain.as_ref().map(|(_, value)| value.clone()));
            unit.nominated = None;
            if after < Time::MAX {
                self.timers.insert((after, Timer::Reservation(id)));
            }
        }
        for (pod, node) in &reserved.claims {
            if self.cluster.remove_pod(pod.namespace(), &pod.name).is_ok() {
                self.note(node);
            }
        }
        self.emit(id, GroupChange::ReservationEnded { reason });
        // It slept on nothing, for it was tried whenever anything changed.
        let asleep =
            self.units.get(&id).is_some_and(|unit| matches!(unit.phase, Phase::Sleeping(_)));
        if asleep {
            self.set_phase(id, Phase::Queued);
        }
    }

    /// Takes a nomination in.
    pub(crate) fn nominate(&mut self, id: UnitId, plan: Plan) {
        self.end_reservation(id, ReservationEnd::Outranked);
        let until = self.now.after(self.settings.permit_timeout);
        let since = self.now;
        let Some(unit) = self.units.get_mut(&id) else { return };
        unit.nominated = Some(plan);
        if unit.phase.waits() {
            let claims = Vec::new();
            unit.reservation = Some(Reserved { since, until, domain: None, claims });
            self.reserving.insert(id);
            self.timers.insert((until, Timer::Reservation(id)));
        }
        self.stirred = true;
    }
}

/// How many stand-ins of which shape are where.
fn by_place(claims: &[(Pod, String)]) -> BTreeMap<(&str, &PodShape), i64> {
    let mut places = BTreeMap::new();
    for (pod, node) in claims {
        *places.entry((node.as_str(), &**pod.shape())).or_default() += 1;
    }
    places
}

/// Lets a tree count with any one member.
fn loosen(group: &mut PodGroup) {
    group.policy = GroupPolicy::Basic {};
    group.min_pods = None;
    group.groups.iter_mut().for_each(loosen);
}
