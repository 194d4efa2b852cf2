//! Reservations: capacity set aside for the first groups in line as it frees.
//!
//! Reserved capacity is held by placeholder pods. They are in a namespace of their own and request
//! the amounts of the members, so that filters on capacity see them and filters on labels do not.
//! After every change the group is tried without its placeholders. If no placement is found,
//! placeholders are placed for as many members as fit. For the others they take the free capacity
//! of the nodes on which least is missing for one ([`Drain`]).
//!
//! A claim whose victims go is not tried while no change can give it a place or take its own ([`Basis`]).

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::attempt::AttemptResult;
use super::claims::Renewal;
use super::{Scheduler, Timer};
use crate::framework::Evaluation;
use crate::model::{GroupPolicy, Pod, PodGroup, PodShape};
use crate::place::Outcome;
use crate::queue::groups::{Groups, Phase, QueuedGroup};
use crate::queue::holds::{Basis, Drain, Holds, View, differing_nodes, free_part, put_again};
use crate::queue::line::capacity::{CapacityBound, is_by_room};
use crate::queue::line::shortage::{KnownRoom, needed_members, shapes};
use crate::queue::settings::ReservationPolicy;
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::{GroupChange, ReservationEnd};
use crate::queue::terms::wake::WakeCondition;
use crate::state::{NodeView, Plan, PodView, Row};

impl Scheduler {
    /// Updates all reservations, and places the groups that fit.
    pub(super) fn update_reservations(&mut self) {
        self.update_evictions();
        self.follow();
        self.update_bookings();
        self.follow();
        self.update_places();
        self.follow();
        self.ask_next_moves();
        self.follow();
        let (mut nominated, _) = self.nominated_to_look_at();
        let reservation = self.world.settings().discipline.reservation();
        let Some(policy) = reservation else {
            self.refresh_reservations(nominated);
            return;
        };
        let mut chosen = Vec::new();
        for key in self.line.first_of_each(CANDIDATES) {
            if chosen.len() >= policy.at_most {
                break;
            }
            let Some(queued) = self.groups.get(&key.group) else { continue };
            let past = self.holds.past(key.group).cloned().unwrap_or_default();
            if self.holds.room(key.group).is_some() {
                if self.holds.nominated(key.group).is_none() {
                    chosen.push(key.group);
                }
            } else if past.is_infeasible(self.epoch) || self.world.now() < past.not_before() {
                // The group stays behind, and the next in line may reserve.
            } else if matches!(queued.wake_on(), WakeCondition::Quota { .. }) {
                // Room would not help it.
            } else if queued.attempts() == 0
                || queued
                    .ready_since()
                    .is_none_or(|ready| ready.after(policy.after) > self.world.now())
            {
                break;
            } else if self.begin_reservation(key.group, policy) {
                chosen.push(key.group);
            }
        }
        let is_outranked = |id: &GroupId| !nominated.contains(id) && !chosen.contains(id);
        let outranked: Vec<GroupId> = self.holds.with_room().filter(is_outranked).collect();
        for id in outranked {
            self.end_reservation(id, ReservationEnd::Outranked);
        }
        // A nomination is tried before anything else.
        nominated.extend(chosen);
        self.refresh_reservations(nominated);
    }

    /// Start of a reservation, unless the group would not fit an empty cluster.
    fn begin_reservation(&mut self, id: GroupId, policy: ReservationPolicy) -> bool {
        let Ok(gang) = self.groups.gang_group(id) else { return false };
        let alone = gang.len() == 1;
        let tree = if alone { self.groups.joint_tree(&gang) } else { None };
        let domain = tree.and_then(|tree| self.reservation_domain(id, &tree));
        let now = self.world.now();
        let until = now.after(policy.timeout);
        if !self.groups.contains_key(&id) {
            return false;
        }
        let Some(domain) = domain else {
            self.holds.past_mut(id).set_infeasible(Some(self.epoch));
            self.holds.drop_distances(id);
            self.emit(id, GroupChange::ReservationEnded { reason: ReservationEnd::Infeasible });
            return false;
        };
        // A nomination that is left after a failed binding holds no room.
        self.holds.reserve(id, domain, (now, until));
        self.timers.insert((until, Timer::Reservation(id)));
        self.report.count(|metrics| &mut metrics.reservations);
        self.emit(id, GroupChange::Reserving { until });
        true
    }

    /// The domain to reserve in; `Some(None)` if the group may go anywhere. It is the domain with
    /// the least missing share among those that would fit the group if empty. Domains in which a
    /// reservation timed out may hold pods that never end, and come last.
    #[allow(clippy::option_option)]
    fn reservation_domain(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
    ) -> Option<Option<(String, String)>> {
        let Some(key) = tree.topology.require.clone() else {
            return self.fits_if_empty(id, tree, None).then_some(None);
        };
        let past = self.holds.past(id).cloned().unwrap_or_default();
        let tried = past.tried_domains();
        let mut domains: Vec<(bool, u64, String)> = self
            .missing_by_domain(id, tree, &key)
            .into_iter()
            .map(|(value, missing)| (tried.contains(&value), missing, value))
            .collect();
        domains.sort_unstable();
        let mut domains =
            domains.into_iter().map(|(tried, _, value)| (tried, (key.clone(), value)));
        let (tried, found) =
            domains.find(|(_, domain)| self.fits_if_empty(id, tree, Some(domain)))?;
        if tried {
            self.holds.past_mut(id).forget_domains();
        }
        Some(Some(found))
    }

    /// Whether the group would fit if all pods but its own were gone.
    fn fits_if_empty(
        &self,
        id: GroupId,
        tree: &PodGroup,
        within: Option<&(String, String)>,
    ) -> bool {
        let Some(queued) = self.groups.get(&id) else { return false };
        let mut empty = self.world.cluster().txn();
        // Running members of the group keep their places.
        let mut own = BTreeSet::new();
        tree.visit(&mut |group| own.extend(self.world.cluster().pods_of(group).map(PodView::id)));
        let pods: Vec<_> = self.world.cluster().pods().map(PodView::id).collect();
        for pod in pods.into_iter().filter(|pod| !own.contains(pod)) {
            // Pods whose node was removed use no capacity.
            let _ = empty.evict_pod(pod);
        }
        let mut request = self.world.request(tree, queued.strategy(), self.world.now());
        if let Some((key, value)) = within {
            request = request.within(key, value);
        }
        let outcome = crate::place::Planner::new().place(&empty, self.world.framework(), request);
        matches!(outcome, Ok(Outcome::Placed(_) | Outcome::Held { .. }))
    }

    /// The shortfall of the group in each domain of a key; see [`Distances::update`].
    fn missing_by_domain(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        key: &str,
    ) -> BTreeMap<String, u64> {
        let members = needed_members(self.world.cluster(), tree);
        let own = self.own_pods(tree, &[]);
        let (cluster, framework) = (self.world.cluster(), self.world.framework());
        let (distances, looked_at) = self.holds.distances(id);
        distances.update(cluster, framework, key, members, own, looked_at)
    }

    /// Shapes of the group's pods in the cluster, by node, with those of placeholders.
    fn own_pods(
        &self,
        tree: &PodGroup,
        placeholders: &[(Pod, String)],
    ) -> BTreeMap<Row, Vec<Arc<PodShape>>> {
        let mut own: BTreeMap<Row, Vec<Arc<PodShape>>> = BTreeMap::new();
        tree.visit(&mut |group| {
            for pod in self.world.cluster().pods_of(group) {
                let Some(node) = pod.node() else { continue };
                own.entry(node.row()).or_default().push(Arc::new(pod.shape().clone()));
            }
        });
        for (pod, node) in placeholders {
            let Some(node) = self.world.cluster().node(node) else { continue };
            own.entry(node.row()).or_default().push(Arc::clone(pod.shape()));
        }
        own
    }

    /// The domain to go on with: another in which less is missing, or the one that was chosen.
    fn nearest_domain(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        (key, chosen): (String, String),
    ) -> (String, String) {
        let missing = self.missing_by_domain(id, tree, &key);
        let past = self.holds.past(id).cloned().unwrap_or_default();
        let own = missing.get(&chosen).copied().unwrap_or(u64::MAX);
        let mut nearer: Vec<(u64, String)> = missing
            .into_iter()
            .filter(|(value, missing)| *missing < own && !past.tried_domains().contains(value))
            .map(|(value, missing)| (missing, value))
            .collect();
        nearer.sort_unstable();
        let mut nearer = nearer.into_iter().map(|(_, value)| (key.clone(), value));
        nearer.find(|domain| self.fits_if_empty(id, tree, Some(domain))).unwrap_or((key, chosen))
    }

    /// Plan for as many members as can be placed now, whatever the minimum.
    fn largest_partial_plan(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        within: Option<&(String, String)>,
    ) -> Option<Plan> {
        let mut relaxed = tree.clone();
        drop_minimums(&mut relaxed);
        let strategy = self.groups.get(&id)?.strategy();
        let mut request = self.world.request(&relaxed, strategy, self.world.now());
        if let Some((key, value)) = within {
            request = request.within(key, value);
        }
        match self.world.place(request) {
            Ok(Outcome::Placed(plan) | Outcome::Held { plan, .. }) => Some(plan),
            _ => None,
        }
    }

    /// Refreshes reservations in order until none changes. Placeholders move only if their number
    /// grows or their place has become unsuitable, so they move no more often than there are
    /// members. Filters that are not monotone are held to the same limit.
    fn refresh_reservations(&mut self, mut groups: Vec<GroupId>) {
        let mut due: BTreeSet<GroupId> = groups.iter().copied().collect();
        // Groups that wait for victims are all checked in the same future, until something changes.
        let mut future = None;
        let (mut next, mut done, mut most) = (0, 0, most_refreshes(&self.groups, &groups));
        while let Some(&id) = groups.get(next).filter(|_| done < most) {
            next += 1;
            if !due.remove(&id) {
                continue;
            }
            done += 1;
            let has_changed = self.refresh_reservation(id, &mut future);
            if !self.report.decisions().is_empty() {
                // The rest is refreshed after the decision, which has changed the cluster.
                return;
            }
            if has_changed {
                future = None;
                next = 0;
                let (opened, by_room) = self.nominated_to_look_at();
                if by_room {
                    groups.extend(opened);
                    groups.sort_unstable();
                    groups.dedup();
                    most = most_refreshes(&self.groups, &groups);
                }
                due.extend(groups.iter().filter(|other| **other != id));
            }
        }
    }

    /// An attempt without the placeholders of the group, unless it backs off and has no claim. If
    /// no placement is found, placeholders stay where they are, unless more of them fit elsewhere.
    /// Returns whether anything changed.
    /// `future` is that of groups with claims, where it is known.
    pub(super) fn refresh_reservation(&mut self, id: GroupId, future: &mut Option<View>) -> bool {
        let id = self.holds.lead(id);
        let Some(queued) = self.groups.get(&id) else { return false };
        if !queued.phase().waits() || self.holds.room(id).is_none() {
            return false;
        }
        if self.drop_unsuitable_nomination(id) {
            return true;
        }
        let Some(room) = self.holds.room(id) else { return false };
        let owners = room.owners().to_vec();
        if self.groups.gang_group(id).ok().as_deref() != Some(&*owners) {
            // A group with partners cannot start alone on its reserved capacity.
            self.end_reservation(id, ReservationEnd::Outranked);
            return true;
        }
        let mut domain = room.domain().cloned();
        let mut holds = false;
        let (old, old_whole) = self.holds.take_placeholders(id);
        let old_whole = old_whole.min(old.len());
        let _ = Holds::take_out(&mut self.world, &old);
        let Some(tree) = self.groups.joint_tree(&owners) else {
            self.placeholders_changed(&old);
            return !old.is_empty();
        };
        let backs_off = |id: &GroupId| {
            let queued = self.groups.get(id);
            queued.is_some_and(|queued| matches!(queued.phase(), Phase::BackingOff(_)))
        };
        // While its victims go, it is known at once if they do not suffice any more.
        let claims = self.holds.claims(id);
        if claims || !owners.iter().all(backs_off) {
            let parts = self.set_parts_aside(id);
            let result = self.find_plan(id, &owners, &tree, KnownRoom::Unknown, None);
            Holds::put_back(&mut self.world, parts.clone());
            let is_short =
                matches!(&result, AttemptResult::Unschedulable(_, WakeCondition::Capacity { .. }));
            if claims && !is_short {
                self.report.count(|metrics| &mut metrics.attempts);
            }
            match result {
                AttemptResult::Unschedulable(shortage, _) => {
                    for &own in &owners {
                        self.stay_unschedulable(own, &shortage);
                    }
                    match self.renew_claim(id, &tree, &shortage, (&old, &parts, future)) {
                        Renewal::Holds => holds = is_short,
                        Renewal::Waits => {}
                        Renewal::Changed => {
                            self.placeholders_changed(&old);
                            return true;
                        }
                    }
                }
                AttemptResult::Plan(plan, held) => {
                    self.placeholders_changed(&old);
                    self.start_plan(owners, plan, held);
                    return true;
                }
                AttemptResult::Error(error) => {
                    self.placeholders_changed(&old);
                    self.fail(&owners, &error);
                    return true;
                }
            }
        }
        let nominated = self.holds.nominated(id).cloned();
        let mut placeholders = if let Some(plan) = &nominated {
            Holds::put_for_plan(&mut self.world, id, plan)
        } else {
            domain = domain.map(|domain| self.nearest_domain(id, &tree, domain));
            let plan = self.largest_partial_plan(id, &tree, domain.as_ref());
            let kept = self.keep_placeholders(&old[..old_whole], &tree, domain.as_ref());
            match plan.filter(|plan| plan.len() > kept.len()) {
                Some(plan) => {
                    for (pod, _) in &kept {
                        let _ = self.world.remove_pod(pod.namespace(), &pod.name);
                    }
                    Holds::put_for_plan(&mut self.world, id, &plan)
                }
                None => kept,
            }
        };
        let whole = placeholders.len();
        if nominated.is_none() {
            let parts = self.add_parts(id, &tree, domain.as_ref(), &placeholders, &old);
            placeholders.extend(parts);
        }
        let nodes = differing_nodes(&old, &placeholders);
        let changed = !nodes.is_empty();
        if changed {
            self.note_pods_on(&nodes);
            self.emit(id, GroupChange::Reserved { pods: whole });
        }
        let basis = nominated.filter(|_| holds && !changed && owners.len() == 1);
        let basis = basis.and_then(|plan| self.basis_of(&tree, &plan));
        self.holds.set_placeholders(id, placeholders, whole, domain, basis);
        changed
    }

    /// The basis on which a claim to the places of a plan holds. No node but those of the plan can give
    /// the group a place before: none has room, and filters judge its pods by the room of each node alone.
    /// O(nodes · shapes).
    fn basis_of(&self, tree: &PodGroup, plan: &Plan) -> Option<Basis> {
        let (cluster, framework) = (self.world.cluster(), self.world.framework());
        let shape_of = |pod: &Pod| self.groups.shape_of(pod);
        let avoids = || self.refusals.avoid(tree, self.world.now(), shape_of).is_some();
        if !self.decides_by_room() || avoids() {
            return None;
        }
        let pods = tree.all_pods().into_iter();
        let mut shapes: Vec<Arc<PodShape>> = pods.map(|pod| Arc::clone(pod.shape())).collect();
        shapes.sort_unstable();
        shapes.dedup();
        let is_full = |shape: &Arc<PodShape>| {
            let bound = CapacityBound::new(cluster, framework, shape);
            is_by_room(framework, cluster, shape)
                && Row::all(cluster.rows()).all(|row| bound.of(row) == 0)
        };
        let rows = plan.assignments().map(|own| cluster.row_of(own.node()));
        let rows: Option<Vec<Row>> = rows.collect();
        Some(Basis { rows: rows?, shapes: Some(shapes).filter(|own| own.iter().all(is_full))? })
    }

    /// Whether nothing but victims and room decides on claims: neither quota nor an order of starts.
    fn decides_by_room(&self) -> bool {
        let discipline = &self.world.settings().discipline;
        self.tenancy.is_none()
            && discipline.reservation().is_none()
            && discipline.backfill().is_none()
    }

    /// Nominated groups to look at, and those that claim room; second, whether claims are left out that
    /// hold as they did.
    fn nominated_to_look_at(&mut self) -> (Vec<GroupId>, bool) {
        let (cluster, framework) = (self.world.cluster(), self.world.framework());
        let (mut groups, by_room) = self.holds.rooms_due(self.decides_by_room(), |shape, row| {
            CapacityBound::new(cluster, framework, shape).of(row) > 0
        });
        // Groups that move for others find their places before those others do.
        groups.sort_by_key(|id| !self.holds.is_moving(*id));
        (groups, by_room)
    }

    /// Takes the parts of members out of the cluster that less important groups hold beside the claim
    /// of a group: with what they hold its victims may be needless.
    fn set_parts_aside(&mut self, id: GroupId) -> Vec<Pod> {
        let has_parts = |other: GroupId| {
            let own = self.holds.room(other);
            own.is_some_and(|own| own.placeholders().len() > own.whole())
        };
        if !self.holds.claims(id) || !self.holds.with_room().any(has_parts) {
            return Vec::new();
        }
        let others = self.less_important(id);
        let rooms = others.iter().filter_map(|other| self.holds.room(*other));
        let parts = rooms.flat_map(|own| own.placeholders().iter().skip(own.whole()));
        let mut aside: Vec<Pod> = parts.map(|(pod, _)| pod.clone()).collect();
        aside.retain(|pod| self.world.remove_pod(pod.namespace(), &pod.name).is_ok());
        aside
    }

    /// Adds placeholders for the parts of missing members that are free: on the nodes of the domain
    /// on which least is missing for one.
    fn add_parts(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        domain: Option<&(String, String)>,
        whole: &[(Pod, String)],
        old: &[(Pod, String)],
    ) -> Vec<(Pod, String)> {
        let mut members = needed_members(self.world.cluster(), tree);
        for (pod, _) in whole {
            let own = members
                .iter_mut()
                .find(|(shape, left)| *left > 0 && asks_alike(shape, pod.shape()));
            if let Some((_, left)) = own {
                *left -= 1;
            }
        }
        members.retain(|(_, left)| *left > 0);
        if members.is_empty() {
            return Vec::new();
        }
        let rows: Vec<Row> = self
            .world
            .cluster()
            .nodes()
            .filter(|node| domain.is_none_or(|(key, value)| node.has_label(key, value)))
            .map(NodeView::row)
            .collect();
        let held = old
            .iter()
            .filter_map(|(_, node)| Some(self.world.cluster().node(node)?.row()))
            .collect();
        self.holds.count_looked_at(rows.len());
        let own = self.own_pods(tree, whole);
        let drain = Drain::new(self.world.cluster(), self.world.framework(), &members, own);
        let Some(places) = drain.places(&rows, &held) else { return Vec::new() };
        let mut parts = Vec::new();
        for (index, (shape, row)) in places.of.into_iter().enumerate() {
            let Some(node) = self.world.cluster().view(row) else { continue };
            let Some((part, indexes)) = free_part(self.world.cluster(), node, &shape) else {
                continue;
            };
            let node = node.name().to_owned();
            let mut pod = Pod::new().with_shape(Arc::new(part));
            pod = pod.in_namespace(RESERVED_NAMESPACE).name(format!("{id}-part-{index}"));
            pod = pod.priority(tree.priority).on(&*node);
            pod.device_indexes = indexes;
            if self.world.add_pod(pod.clone()).is_ok() {
                parts.push((pod, node));
            }
        }
        parts
    }

    /// Adds those placeholders again whose node still suits a pending member, and is in the domain.
    fn keep_placeholders(
        &mut self,
        old: &[(Pod, String)],
        tree: &PodGroup,
        domain: Option<&(String, String)>,
    ) -> Vec<(Pod, String)> {
        let mut waiting = shapes(tree.all_pods().into_iter());
        let mut kept = Vec::with_capacity(old.len());
        for (pod, node) in old {
            let Some((shape, left)) = waiting
                .iter_mut()
                .find(|(shape, left)| *left > 0 && asks_alike(shape, pod.shape()))
            else {
                continue;
            };
            let evaluation = Evaluation::new(
                self.world.framework(),
                self.world.cluster(),
                shape,
                None,
                self.world.now(),
            );
            let suits = self.world.cluster().node(node).is_some_and(|node| {
                domain.is_none_or(|(key, value)| node.has_label(key, value))
                    && evaluation.filter(node).is_ok()
            });
            let mut pod = pod.clone();
            if suits && put_again(&mut self.world, &mut pod, shape) {
                *left -= 1;
                kept.push((pod, node.clone()));
            }
        }
        kept
    }
}

/// Number of waiting groups of each queue that are considered for a reservation.
const CANDIDATES: usize = 64;

/// Whether two shapes request the same of a node.
fn asks_alike(shape: &PodShape, other: &PodShape) -> bool {
    shape.requests == other.requests && shape.devices == other.devices
}

/// Lowers all minimums of a tree, so that any one member is enough.
fn drop_minimums(group: &mut PodGroup) {
    group.policy = GroupPolicy::Basic {};
    group.min_pods = None;
    group.groups.iter_mut().for_each(drop_minimums);
}

/// The limit of refreshes of groups in one go.
fn most_refreshes(known: &Groups, groups: &[GroupId]) -> usize {
    let members = groups.iter().filter_map(|id| known.get(id)).map(QueuedGroup::pending);
    members.sum::<usize>() + 2 * groups.len()
}
