//! Reservations: capacity set aside for the first groups in line as it frees.
//!
//! Reserved capacity is held by placeholder pods: pods in a namespace of their own that request
//! what the members would, so that filters on capacity see them and filters on labels do not. After
//! every change the group is tried without its placeholders; if no placement is found, placeholders
//! are placed for as many members as fit, and for the others on what is free of the nodes on which
//! least is missing for one ([`Drain`]).

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::decide::AttemptResult;
use super::drain::{Drain, Places, free_part};
use super::ids::GroupId;
use super::observe::{GroupChange, ReservationEnd};
use super::queued_group::{Phase, QueuedGroup, Reservation};
use super::scheduler::{Scheduler, Timer};
use super::settings::ReservationPolicy;
use super::shortage::{KnownRoom, Shortage, needed_members, shapes};
use super::wake::hints::WakeCondition;
use crate::base::Time;
use crate::framework::Evaluation;
use crate::model::{GroupPolicy, Pod, PodGroup, PodShape};
use crate::place::Outcome;
use crate::state::{NodeView, Plan, PodView, Row};

/// Number of waiting groups of each queue that are considered for a reservation.
const CANDIDATES: usize = 64;

impl Scheduler {
    /// Updates all reservations, and places the groups that fit.
    pub(super) fn update_reservations(&mut self) {
        self.update_evictions();
        self.update_places();
        self.ask_next_moves();
        let is_nominated =
            |id: &GroupId| self.groups.get(id).is_some_and(|queued| queued.nominated.is_some());
        let mut nominated: Vec<GroupId> =
            self.reserving.iter().copied().filter(is_nominated).collect();
        // What moves for others finds its place before they do.
        nominated.sort_by_key(|id| !self.preemption.is_moving(*id));
        let reservation = self.settings.reservation.filter(|_| self.settings.backfill.is_none());
        let Some(policy) = reservation else {
            self.refresh_reservations(&nominated);
            return;
        };
        let mut chosen = Vec::new();
        for key in self.queues.first_of_each(CANDIDATES) {
            if chosen.len() >= policy.at_most {
                break;
            }
            let Some(queued) = self.groups.get(&key.group) else { continue };
            if queued.reservation.is_some() {
                if queued.nominated.is_none() {
                    chosen.push(key.group);
                }
            } else if queued.infeasible_at == Some(self.epoch)
                || self.now < queued.no_reservation_before
            {
                // The group stays behind, and the next in line may reserve.
            } else if matches!(queued.wake_on, WakeCondition::Quota { .. }) {
                // Room would not help it.
            } else if queued.attempts == 0
                || queued.ready_since.is_none_or(|ready| ready.after(policy.after) > self.now)
            {
                break;
            } else if self.begin_reservation(key.group, policy) {
                chosen.push(key.group);
            }
        }
        let outranked: Vec<GroupId> = self
            .reserving
            .iter()
            .copied()
            .filter(|id| !nominated.contains(id) && !chosen.contains(id))
            .collect();
        for id in outranked {
            self.end_reservation(id, ReservationEnd::Outranked);
        }
        chosen.extend(nominated);
        self.refresh_reservations(&chosen);
    }

    /// Start of a reservation, unless the group would not fit an empty cluster.
    fn begin_reservation(&mut self, id: GroupId, policy: ReservationPolicy) -> bool {
        let Ok(gang) = self.gang_group(id) else { return false };
        let alone = gang.len() == 1;
        let tree = if alone { self.joint_tree(&gang) } else { None };
        let domain = tree.and_then(|tree| self.reservation_domain(id, &tree));
        let until = self.now.after(policy.timeout);
        let (now, epoch) = (self.now, self.epoch);
        let Some(queued) = self.groups.get_mut(&id) else { return false };
        let Some(domain) = domain else {
            queued.infeasible_at = Some(epoch);
            self.distances.remove(&id);
            self.emit(id, GroupChange::ReservationEnded { reason: ReservationEnd::Infeasible });
            return false;
        };
        // What is left of a nomination, after a failed binding, holds no room.
        queued.nominated = None;
        queued.reservation = Some(Reservation::new((now, until), domain, Vec::new()));
        self.reserving.insert(id);
        self.timers.insert((until, Timer::Reservation(id)));
        self.metrics.add_one(|metrics| &mut metrics.reservations);
        self.emit(id, GroupChange::Reserving { until });
        true
    }

    /// The domain to reserve in; `Some(None)` if the group may go anywhere. Among the domains that
    /// would fit the group if empty, the one in which least is missing; those in which a reservation
    /// timed out may hold pods that never end, and come last.
    #[allow(clippy::option_option)]
    fn reservation_domain(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
    ) -> Option<Option<(String, String)>> {
        let Some(key) = tree.topology.require.clone() else {
            return self.fits_if_empty(id, tree, None).then_some(None);
        };
        let tried =
            self.groups.get(&id).map(|queued| queued.tried_domains.clone()).unwrap_or_default();
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
        if tried && let Some(queued) = self.groups.get_mut(&id) {
            queued.tried_domains.clear();
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
        let mut empty = self.cluster.txn();
        // Running members of the group keep their places.
        let mut own = BTreeSet::new();
        tree.visit(&mut |group| own.extend(self.cluster.pods_of(group).map(PodView::id)));
        let pods: Vec<_> = self.cluster.pods().map(PodView::id).collect();
        for pod in pods.into_iter().filter(|pod| !own.contains(pod)) {
            // Pods whose node was removed use no capacity.
            let _ = empty.evict_pod(pod);
        }
        let mut request = self.request(tree, queued.strategy, self.now);
        if let Some((key, value)) = within {
            request = request.within(key, value);
        }
        let outcome = crate::place::Planner::new().place(&empty, &self.framework, request);
        matches!(outcome, Ok(Outcome::Placed(_) | Outcome::Held { .. }))
    }

    /// What is missing for the group in each domain of a key; see [`Distances::update`].
    fn missing_by_domain(
        &mut self,
        id: GroupId,
        tree: &PodGroup,
        key: &str,
    ) -> BTreeMap<String, u64> {
        let members = needed_members(&self.cluster, tree);
        let own = self.own_pods(tree, &[]);
        let distances = self.distances.entry(id).or_default();
        let (cluster, framework) = (&self.cluster, &self.framework);
        distances.update(cluster, framework, key, members, own, &mut self.reserved_nodes)
    }

    /// Shapes of the group's pods in the cluster, by node, with those of placeholders.
    fn own_pods(
        &self,
        tree: &PodGroup,
        placeholders: &[(Pod, String)],
    ) -> BTreeMap<Row, Vec<Arc<PodShape>>> {
        let mut own: BTreeMap<Row, Vec<Arc<PodShape>>> = BTreeMap::new();
        tree.visit(&mut |group| {
            for pod in self.cluster.pods_of(group) {
                let Some(node) = pod.node() else { continue };
                own.entry(node.row()).or_default().push(Arc::new(pod.shape().clone()));
            }
        });
        for (pod, node) in placeholders {
            let Some(node) = self.cluster.node(node) else { continue };
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
        let Some(queued) = self.groups.get(&id) else { return (key, chosen) };
        let own = missing.get(&chosen).copied().unwrap_or(u64::MAX);
        let mut nearer: Vec<(u64, String)> = missing
            .into_iter()
            .filter(|(value, missing)| *missing < own && !queued.tried_domains.contains(value))
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
        let strategy = self.groups.get(&id)?.strategy;
        let mut request = self.request(&relaxed, strategy, self.now);
        if let Some((key, value)) = within {
            request = request.within(key, value);
        }
        match self.planner.place(&self.cluster, &self.framework, request) {
            Ok(Outcome::Placed(plan) | Outcome::Held { plan, .. }) => Some(plan),
            _ => None,
        }
    }

    /// Refreshes reservations in order until none changes. Placeholders move only if their number
    /// grows or their place has become unsuitable, so they move no more often than there are
    /// members; filters that are not monotone are held to the same limit.
    fn refresh_reservations(&mut self, groups: &[GroupId]) {
        let mut due: BTreeSet<GroupId> = groups.iter().copied().collect();
        let members = groups.iter().filter_map(|id| self.groups.get(id)).map(QueuedGroup::pending);
        let mut left = members.sum::<usize>() + 2 * groups.len();
        while let Some(&id) = groups.iter().find(|id| due.contains(*id) && left > 0) {
            due.remove(&id);
            left -= 1;
            if self.refresh_reservation(id) {
                due.extend(groups.iter().filter(|other| **other != id));
            }
            if !self.outbox.is_empty() {
                // The rest is refreshed after the decision, which has changed the cluster.
                return;
            }
        }
    }

    /// An attempt without the placeholders of the group, unless it backs off. If no placement is
    /// found, placeholders stay where they are, unless more of them fit elsewhere. Returns whether
    /// anything changed.
    pub(super) fn refresh_reservation(&mut self, id: GroupId) -> bool {
        let Some(queued) = self.groups.get(&id) else { return false };
        if !queued.phase.waits() || queued.reservation.is_none() {
            return false;
        }
        if self.drop_unsuitable_nomination(id) {
            return true;
        }
        if !self.gang_group(id).is_ok_and(|gang| gang.len() == 1) {
            // A group with partners cannot start alone on its reserved capacity.
            self.end_reservation(id, ReservationEnd::Outranked);
            return true;
        }
        let Some(reserved) =
            self.groups.get_mut(&id).and_then(|queued| queued.reservation.as_mut())
        else {
            return false;
        };
        let old = core::mem::take(&mut reserved.placeholders);
        let old_whole = core::mem::take(&mut reserved.whole).min(old.len());
        let mut domain = reserved.domain.clone();
        for (pod, _) in &old {
            let _ = self.cluster.remove_pod(pod.namespace(), &pod.name);
        }
        let Some(tree) = self.joint_tree(&[id]) else {
            self.placeholders_changed(&old);
            return !old.is_empty();
        };
        let backs_off =
            self.groups.get(&id).is_some_and(|queued| matches!(queued.phase, Phase::BackingOff(_)));
        if !backs_off {
            match self.find_plan(id, &[id], &tree, KnownRoom::Unknown) {
                AttemptResult::Unschedulable(shortage, _) => {
                    self.stay_unschedulable(id, &shortage);
                    if self.renew_claim(id, &tree, &shortage) {
                        self.placeholders_changed(&old);
                        return true;
                    }
                }
                AttemptResult::Plan(plan, held) => {
                    self.placeholders_changed(&old);
                    self.start_plan(alloc::vec![id], plan, held);
                    return true;
                }
                AttemptResult::Error(error) => {
                    self.placeholders_changed(&old);
                    self.fail(&[id], &error);
                    return true;
                }
            }
        }
        let nominated = self.groups.get(&id).and_then(|queued| queued.nominated.clone());
        let mut placeholders = if let Some(plan) = &nominated {
            self.add_placeholders(id, plan)
        } else {
            domain = domain.map(|domain| self.nearest_domain(id, &tree, domain));
            let plan = self.largest_partial_plan(id, &tree, domain.as_ref());
            let kept = self.keep_placeholders(&old[..old_whole], &tree, domain.as_ref());
            match plan.filter(|plan| plan.len() > kept.len()) {
                Some(plan) => {
                    for (pod, _) in &kept {
                        let _ = self.cluster.remove_pod(pod.namespace(), &pod.name);
                    }
                    self.add_placeholders(id, &plan)
                }
                None => kept,
            }
        };
        let whole = placeholders.len();
        // What a claim leaves over may make some of its victims needless.
        let is_claim = |other: &GroupId| self.groups.get(other).is_some_and(|own| own.preempting);
        if nominated.is_none() && !self.reserving.iter().any(is_claim) {
            let parts = self.add_parts(id, &tree, domain.as_ref(), &placeholders, &old);
            placeholders.extend(parts);
        }
        let (before, after) = (by_node_and_shape(&old), by_node_and_shape(&placeholders));
        let changed = before != after;
        if changed {
            let differs = |place: &&(&str, &PodShape)| before.get(*place) != after.get(*place);
            let nodes = before.keys().chain(after.keys()).filter(differs);
            self.changes.pods.extend(nodes.map(|(node, _)| (*node).to_owned()));
            self.emit(id, GroupChange::Reserved { pods: whole });
        }
        if let Some(reserved) =
            self.groups.get_mut(&id).and_then(|queued| queued.reservation.as_mut())
        {
            *reserved = Reservation { domain, placeholders, whole, ..*reserved };
        }
        changed
    }

    /// A group with a reservation has no wake condition: it is tried after every change.
    pub(super) fn stay_unschedulable(&mut self, id: GroupId, shortage: &Shortage) {
        let Some(queued) = self.groups.get(&id) else { return };
        if queued.phase == Phase::Queued {
            self.mark_unschedulable(&[id], shortage, &WakeCondition::Never);
        } else if queued.wake_on != WakeCondition::Never {
            self.wait_for(id, WakeCondition::Never);
        }
    }

    fn placeholders_changed(&mut self, placeholders: &[(Pod, String)]) {
        for (_, node) in placeholders {
            self.pods_changed(node);
        }
    }

    /// Takes placeholders out of the cluster.
    pub(super) fn remove_placeholders(&mut self, placeholders: &[(Pod, String)]) {
        for (pod, node) in placeholders {
            if self.cluster.remove_pod(pod.namespace(), &pod.name).is_ok() {
                self.pods_changed(node);
            }
        }
    }

    /// Adds placeholders for a plan to the cluster.
    pub(super) fn add_placeholders(&mut self, id: GroupId, plan: &Plan) -> Vec<(Pod, String)> {
        let mut placeholders = Vec::with_capacity(plan.len());
        for (index, assignment) in plan.assignments().enumerate() {
            let node = assignment.node();
            if self.cluster.node(node).is_none() {
                continue;
            }
            let name = format!("{id}-{index}");
            let pod = placeholder(name, assignment.pod(), node, assignment.devices());
            if self.cluster.add_pod(pod.clone()).is_ok() {
                placeholders.push((pod, node.to_owned()));
            }
        }
        placeholders
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
        let mut members = needed_members(&self.cluster, tree);
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
            .cluster
            .nodes()
            .filter(|node| domain.is_none_or(|(key, value)| node.has_label(key, value)))
            .map(NodeView::row)
            .collect();
        let held =
            old.iter().filter_map(|(_, node)| Some(self.cluster.node(node)?.row())).collect();
        self.reserved_nodes += rows.len() as u64;
        let own = self.own_pods(tree, whole);
        let drain = Drain::new(&self.cluster, &self.framework, &members, own);
        let Some(Places { of: places, .. }) = drain.places(&rows, &held) else { return Vec::new() };
        let mut parts = Vec::new();
        for (index, (shape, row)) in places.into_iter().enumerate() {
            let Some(node) = self.cluster.view(row) else { continue };
            let Some((part, indexes)) = free_part(&self.cluster, node, &shape) else { continue };
            let node = node.name().to_owned();
            let mut pod = Pod::new().with_shape(Arc::new(part));
            pod =
                pod.in_namespace(Scheduler::RESERVED_NAMESPACE).name(format!("{id}-part-{index}"));
            pod = pod.priority(tree.priority).on(&*node);
            pod.device_indexes = indexes;
            if self.cluster.add_pod(pod.clone()).is_ok() {
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
            let evaluation = Evaluation::new(&self.framework, &self.cluster, shape, None, self.now);
            let suits = self.cluster.node(node).is_some_and(|node| {
                domain.is_none_or(|(key, value)| node.has_label(key, value))
                    && evaluation.filter(node).is_ok()
            });
            if suits && self.cluster.add_pod(pod.clone()).is_ok() {
                *left -= 1;
                kept.push((pod.clone(), node.clone()));
            }
        }
        kept
    }

    /// End of a reservation, if there is one.
    pub(super) fn end_reservation(&mut self, id: GroupId, reason: ReservationEnd) {
        let now = self.now;
        let Some(queued) = self.groups.get_mut(&id) else { return };
        let Some(reserved) = queued.reservation.take() else { return };
        let preempting = core::mem::take(&mut queued.preempting);
        if preempting && reason != ReservationEnd::Used {
            queued.nominated = None;
            // Whatever ended the claim, the next one does not come in the same instant.
            let wait = now.after(self.settings.backoff.after(1));
            queued.no_search_before = queued.no_search_before.max(wait);
        }
        if preempting && self.tenancy.is_some() {
            queued.nominated = None;
        }
        self.reserving.remove(&id);
        self.distances.remove(&id);
        self.timers.remove(&(reserved.until, Timer::Reservation(id)));
        if reason == ReservationEnd::Timeout {
            let after =
                self.settings.reservation.map_or(Time::MAX, |policy| now.after(policy.after));
            queued.no_reservation_before = after;
            queued.tried_domains.extend(reserved.domain.as_ref().map(|(_, value)| value.clone()));
            queued.nominated = None;
            if after < Time::MAX {
                self.timers.insert((after, Timer::Reservation(id)));
            }
        }
        self.remove_placeholders(&reserved.placeholders);
        self.emit(id, GroupChange::ReservationEnded { reason });
        self.places_after(id, reason);
        if preempting {
            self.unreserve(id, reason == ReservationEnd::Used);
            self.cancel_evictions(id, &BTreeSet::new());
        }
        // The group had no wake condition, since it was tried after every change.
        let asleep = self
            .groups
            .get(&id)
            .is_some_and(|queued| matches!(queued.phase, Phase::Unschedulable(_)));
        if asleep {
            self.set_phase(id, Phase::Queued);
        }
    }
}

/// A pod that holds a place for another.
pub(super) fn placeholder(name: String, own: &Pod, node: &str, devices: &[Vec<u32>]) -> Pod {
    let mut pod = Pod::new()
        .in_namespace(Scheduler::RESERVED_NAMESPACE)
        .name(name)
        .priority(own.priority)
        .on(node);
    let (asked, shape) = (own.shape(), pod.shape_mut());
    shape.requests.clone_from(&asked.requests);
    shape.incoming_requests.clone_from(&asked.incoming_requests);
    shape.existing_requests = asked.existing_requests;
    shape.devices.clone_from(&asked.devices);
    pod.device_indexes = devices.to_vec();
    pod
}

/// Number of placeholders by node and shape.
fn by_node_and_shape(placeholders: &[(Pod, String)]) -> BTreeMap<(&str, &PodShape), i64> {
    let mut places = BTreeMap::new();
    for (pod, node) in placeholders {
        *places.entry((node.as_str(), &**pod.shape())).or_default() += 1;
    }
    places
}

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
