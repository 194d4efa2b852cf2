//! Places that are held for units that move, until they run there.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::evictions::{HeldPlace, UnitInFlight, UnitMove};
use super::ids::{GroupId, Ticket};
use super::observe::ReservationEnd;
use super::queued_group::{Member, MemberState, full_name};
use super::reservation::placeholder;
use super::scheduler::{Scheduler, Timer};
use crate::base::Row;
use crate::model::{Pod, PodGroup};
use crate::place::topology::partition::path_of;
use crate::place::topology::tiers::{DomainKey, DomainSense};
use crate::state::plan::PlanDomain;
use crate::state::{Assignment, Cluster, Devices, NodeView, Plan};

/// The nodes and devices that members go to, by number of arrival.
pub(super) type Places<'a> = BTreeMap<u64, (&'a str, &'a [Vec<u32>])>;

impl Scheduler {
    /// Holds places that are not, and gives back those that are not needed any more: a pod runs
    /// elsewhere. Members that are back are nominated to theirs.
    pub(super) fn update_places(&mut self) {
        if self.preemption.moves.is_empty() {
            return;
        }
        self.release_reached();
        let mut moves = core::mem::take(&mut self.preemption.moves);
        for own in &mut moves {
            for (at, place) in own.places.iter_mut().enumerate() {
                let there = |pod: &Pod| self.cluster.pod(pod.namespace(), &pod.name).is_some();
                if !place.nominated && !place.placeholder.as_ref().is_some_and(there) {
                    let name = format!("{}-{}-{at}", own.ticket.0, own.unit.replace('/', "-"));
                    let pod = placeholder(name, &place.pod, &place.to, &place.devices);
                    if self.cluster.add_pod(pod.clone()).is_ok() {
                        place.placeholder = Some(pod);
                        self.pods_changed(&place.to);
                    }
                }
            }
        }
        self.preemption.moves = moves;
        let roots: BTreeSet<GroupId> = self.preemption.moves.iter().map(|own| own.root).collect();
        for root in roots {
            if self.groups.get(&root).is_some_and(|queued| queued.phase.waits()) {
                self.nominate_moved(root);
            }
        }
    }

    /// Gives places back whose pods run again, here or elsewhere.
    fn release_reached(&mut self) {
        let mut reached: Vec<(Ticket, String, BTreeSet<String>)> = Vec::new();
        let (now, timeout) = (self.now, self.settings.preemption.unwrap_or_default().timeout);
        let mut moves = core::mem::take(&mut self.preemption.moves);
        for own in &mut moves {
            let leaving: BTreeSet<String> = self
                .preemption
                .units_of(own.ticket)
                .filter(|unit| unit.victim.name == own.unit)
                .flat_map(UnitInFlight::names)
                .collect();
            let node = |place: &HeldPlace| {
                let pod = self.cluster.pod(place.pod.namespace(), &place.pod.name)?;
                pod.node().map(NodeView::name)
            };
            let mut done: BTreeSet<String> = own
                .places
                .iter()
                .filter(|place| !leaving.contains(&full_name(&place.pod)) && node(place).is_some())
                .map(|place| full_name(&place.pod))
                .collect();
            own.arrives |= !done.is_empty() && !leaving.is_empty();
            let mut rest = own.places.iter().filter(|place| !done.contains(&full_name(&place.pod)));
            // Of a unit that the embedder moves itself, some pods may be where they are to be.
            if own.arrives && rest.all(|place| node(place) == Some(&*place.to)) {
                done.extend(own.places.iter().map(|place| full_name(&place.pod)));
            }
            if leaving.is_empty() && own.until.is_none() {
                let until = now.after(timeout);
                own.until = Some(until);
                self.timers.insert((until, Timer::Evictions(own.ticket)));
            }
            if !done.is_empty() {
                reached.push((own.ticket, own.unit.clone(), done));
            }
        }
        self.preemption.moves = moves;
        for (ticket, unit, pods) in reached {
            self.release_places(|own, place| {
                own.ticket == ticket && own.unit == unit && pods.contains(&full_name(&place.pod))
            });
            self.stays_moved(ticket, &unit, &pods);
        }
    }

    /// Gives some held places back.
    pub(super) fn release_places(&mut self, is: impl Fn(&UnitMove, &HeldPlace) -> bool) {
        let mut free = Vec::new();
        for own in &mut self.preemption.moves {
            let mut kept = Vec::with_capacity(own.places.len());
            for place in core::mem::take(&mut own.places) {
                if is(own, &place) { free.push(place) } else { kept.push(place) }
            }
            own.places = kept;
        }
        self.preemption.moves.retain(|own| !own.places.is_empty());
        for HeldPlace { placeholder, to, .. } in free {
            let Some(pod) = placeholder else { continue };
            if self.cluster.remove_pod(pod.namespace(), &pod.name).is_ok() {
                self.pods_changed(&to);
            }
        }
    }

    /// The places whose time is over are given back.
    pub(super) fn places_due(&mut self) {
        let now = self.now;
        self.release_places(|own, place| {
            !place.nominated && own.until.is_some_and(|until| until <= now)
        });
    }

    /// A member that was bound from outside takes the place of one that moves.
    pub(super) fn place_taken(&mut self, id: GroupId, seq: u64) {
        if !self.preemption.is_moving(id) {
            return;
        }
        let Some(member) = self.groups.get(&id).and_then(|own| own.members.get(&seq)) else {
            return;
        };
        let node = self.node_of(member.pod.namespace(), &member.pod.name);
        let pod = member.pod.clone();
        let own = self.preemption.moves.iter().filter(|own| own.root == id);
        let own = own.filter(|own| !self.preemption.is_leaving(own));
        let fits = own.flat_map(|own| own.places.iter().map(move |place| (own, place)));
        let fits = fits.filter(|(_, place)| is_like(&place.pod, &pod));
        let best = fits.min_by_key(|(_, place)| {
            (full_name(&place.pod) != full_name(&pod), Some(&place.to) != node.as_ref())
        });
        let Some((ticket, name)) = best.map(|(own, place)| (own.ticket, full_name(&place.pod)))
        else {
            return;
        };
        self.release_places(|own, place| own.ticket == ticket && full_name(&place.pod) == name);
    }

    /// The nomination of members that are back to the places held for them.
    fn nominate_moved(&mut self, root: GroupId) {
        if !self.gang_group(root).is_ok_and(|gang| gang.len() == 1) {
            return;
        }
        let Some(queued) = self.groups.get(&root) else { return };
        let mut waiting: BTreeMap<u64, &Member> =
            queued.members.iter().map(|m| (*m.0, m.1)).collect();
        waiting.retain(|_, member| {
            member.state == MemberState::Pending && member.pod.scheduling_gates.is_empty()
        });
        let own = self.preemption.moves.iter().enumerate();
        let own = own.filter(|(_, own)| own.root == root && !self.preemption.is_leaving(own));
        let mut open: Vec<((usize, usize), &HeldPlace)> = own
            .flat_map(|(at, own)| {
                own.places.iter().enumerate().map(move |(inner, place)| ((at, inner), place))
            })
            .collect();
        let mut places: Places<'_> = BTreeMap::new();
        let mut matched: BTreeSet<(usize, usize)> = BTreeSet::new();
        let mut is_new = false;
        // The same pod, then one like it, then one that requests the same.
        let ways: [fn(&Pod, &Pod) -> bool; 3] = [
            |own, other| full_name(own) == full_name(other),
            |own, other| own.group == other.group && own.shape() == other.shape(),
            is_like,
        ];
        for suits in ways {
            open.retain(|(at, place)| {
                let mut found = waiting.iter().filter(|(_, member)| suits(&place.pod, &member.pod));
                let Some(seq) = found.next().map(|(seq, _)| *seq) else { return true };
                waiting.remove(&seq);
                places.insert(seq, (&place.to, &place.devices));
                matched.insert(*at);
                is_new |= !place.nominated;
                false
            });
        }
        if !is_new {
            return;
        }
        let Some(plan) = self.plan_of_places(&self.cluster, root, &places) else { return };
        if queued.part_of(&self.cluster, &places.keys().copied().collect()).is_some() {
            return;
        }
        let mut moves = core::mem::take(&mut self.preemption.moves);
        for (at, own) in moves.iter_mut().enumerate() {
            for (inner, place) in own.places.iter_mut().enumerate() {
                if !matched.contains(&(at, inner)) {
                    continue;
                }
                place.nominated = true;
                if let Some(pod) = place.placeholder.take() {
                    let _ = self.cluster.remove_pod(pod.namespace(), &pod.name);
                    self.pods_changed(&place.to);
                }
            }
        }
        self.nominate(root, plan);
        self.preemption.moves = moves;
    }

    /// The nominated plan of a group that moves, committed beside what has not moved yet if it holds.
    pub(super) fn commit_moved(&mut self, root: GroupId, plan: Plan) -> Option<Plan> {
        let own = self.preemption.moves.iter().filter(|own| own.root == root);
        let by: BTreeSet<GroupId> = own.map(|own| own.by).collect();
        let mut cluster = self.cluster.clone();
        let aside: Vec<Pod> =
            by.into_iter().flat_map(|by| self.set_claim_aside(by, &mut cluster)).collect();
        for pod in &aside {
            let _ = self.cluster.remove_pod(pod.namespace(), &pod.name);
        }
        let is_placed = self.cluster.commit(&self.framework, &plan).is_ok();
        for pod in aside {
            let _ = self.cluster.add_pod(pod);
        }
        is_placed.then_some(plan)
    }

    /// The end of a nomination to held places: they are taken, not held any more, or held again.
    pub(super) fn places_after(&mut self, root: GroupId, reason: ReservationEnd) {
        if reason == ReservationEnd::Outranked {
            for own in self.preemption.moves.iter_mut().filter(|own| own.root == root) {
                own.places.iter_mut().for_each(|place| place.nominated = false);
            }
            self.reservations_due = true;
        } else {
            self.release_places(|own, place| own.root == root && place.nominated);
        }
    }

    /// The placeholders, but for those of the places that units of a claim have begun to move to,
    /// that stand for room which pods of the same claim still use: they are taken out of a cluster.
    pub(super) fn set_claim_aside(&self, by: GroupId, cluster: &mut Cluster) -> Vec<Pod> {
        let claim = self.groups.get(&by).filter(|own| own.preempting);
        let claim = claim.and_then(|own| own.reservation.as_ref());
        let later = self.preemption.moves.iter().filter(|own| {
            let mut units = self.preemption.units_of(own.ticket);
            own.by == by && units.any(|unit| unit.victim.name == own.unit && unit.is_later())
        });
        let held = claim.into_iter().flat_map(|own| own.placeholders.iter().map(|(pod, _)| pod));
        let all = held.chain(later.flat_map(|own| own.placeholders().map(|(pod, _)| pod)));
        let is_out = |pod: &&Pod| cluster.remove_pod(pod.namespace(), &pod.name).is_ok();
        all.filter(is_out).cloned().collect()
    }

    /// The plan that puts members on nodes, as if they were pending; `None` if they are not all of
    /// the group any more, or a required domain does not hold them together. It is still to be
    /// judged.
    pub(super) fn plan_of_places(
        &self,
        cluster: &Cluster,
        root: GroupId,
        places: &Places<'_>,
    ) -> Option<Plan> {
        let mut queued = self.groups.get(&root)?.clone();
        queued
            .members
            .retain(|seq, member| places.contains_key(seq) || member.state != MemberState::Pending);
        let mut rows: BTreeMap<String, (Row, Option<Devices>)> = BTreeMap::new();
        for (seq, (node, devices)) in places {
            let member = queued.members.get_mut(seq)?;
            member.state = MemberState::Pending;
            (member.pod.node, member.pod.device_indexes) = (None, Vec::new());
            let devices = (!devices.is_empty()).then(|| devices.to_vec().into());
            rows.insert(full_name(&member.pod), (cluster.row_of(node)?, devices));
        }
        let tree = queued.pending_tree(&queued.counts(cluster));
        let strategy = queued.strategy.or(self.settings.strategy);
        let sense = DomainSense::of(strategy.unwrap_or_else(|| self.framework.strategy()));
        let mut plan =
            Plan::of_places(tree.clone(), cluster, |pod| rows.get(&full_name(pod)).cloned());
        let (mut domains, mut first) = (Vec::new(), 0);
        enter_domains(cluster, sense, (&tree, &plan), &mut first, &mut domains)?;
        plan.domains = domains;
        (plan.len() == places.len()).then_some(plan)
    }
}

/// Whether a pod may take the place of another of its leaf: it requests the same.
fn is_like(own: &Pod, other: &Pod) -> bool {
    let (mine, theirs) = (own.shape(), other.shape());
    own.group == other.group
        && own.namespace() == other.namespace()
        && (Arc::ptr_eq(mine, theirs)
            || mine.requests == theirs.requests && mine.devices == theirs.devices)
}

/// Adds the required domains of a tree to those of a plan; `None` if a node is in none. `first` is
/// the number of the plan's next member.
fn enter_domains(
    cluster: &Cluster,
    sense: DomainSense,
    (group, plan): (&PodGroup, &Plan),
    first: &mut usize,
    domains: &mut Vec<PlanDomain>,
) -> Option<()> {
    let start = *first;
    let planned = |pod: &Pod| plan.assignments().any(|to| full_name(to.pod()) == full_name(pod));
    *first += group.pods.iter().filter(|pod| planned(pod)).count();
    for inner in &group.groups {
        enter_domains(cluster, sense, (inner, plan), first, domains)?;
    }
    let require = group.topology.require.as_deref().filter(|_| *first > start);
    if let Some(key) = require {
        let node = plan.assignments().nth(start).map(Assignment::node)?;
        let key = DomainKey::new(cluster, sense, Some(key), key)?;
        let path = path_of(cluster.node(node)?, &key.keys)?;
        let asked = (group.full_name().into(), Some(&group.topology));
        domains.push(key.record(cluster, asked, &path, (start, *first)));
    }
    Some(())
}
