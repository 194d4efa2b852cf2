//! Held places: put up, given up, nominated.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::places::{Places, is_bound_together, is_like};
use super::{Scheduler, Timer};
use crate::model::Pod;
use crate::queue::groups::{Member, full_name};
use crate::queue::holds::{HeldPlace, Hold, HoldId, UnitMove};
use crate::queue::removals::{Among, Removal, pod_name};
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::terms::observe::ReservationEnd;
use crate::state::{NodeView, PodView};

impl Scheduler {
    /// Holds places that are not held yet, and frees those that are not needed any more: a pod runs
    /// elsewhere. Members that are back are nominated to theirs.
    pub(super) fn update_places(&mut self) {
        if !self.holds.has_moves() {
            return;
        }
        self.release_reached();
        let taken = self.holds.hold_places(&mut self.world);
        self.pods_changed_on(&taken);
        let roots: BTreeSet<GroupId> = self.holds.moves().map(UnitMove::root).collect();
        for root in roots {
            if self.groups.get(&root).is_some_and(|queued| queued.phase().waits()) {
                self.nominate_moved(root);
            }
        }
    }

    /// Gives places back whose pods run again, here or elsewhere.
    fn release_reached(&mut self) {
        let mut reached: Vec<(Ticket, String, BTreeSet<String>)> = Vec::new();
        let timeout = self.world.settings().preemption.unwrap_or_default().timeout;
        let until = self.world.now().after(timeout);
        let ids: Vec<HoldId> = self.holds.moves_with_ids().map(|(id, _)| id).collect();
        for id in ids {
            let Some(own) = self.holds.get(id).and_then(Hold::unit_move) else { continue };
            let leaving: BTreeSet<String> = self
                .removals
                .of(own.ticket())
                .filter(|unit| unit.name() == own.unit())
                .flat_map(Removal::names)
                .collect();
            let node = |place: &HeldPlace| self.pod_of(place)?.node().map(NodeView::name);
            let mut done: BTreeSet<String> = own
                .places()
                .iter()
                .filter(|place| !leaving.contains(&full_name(place.pod())) && node(place).is_some())
                .map(|place| full_name(place.pod()))
                .collect();
            // A unit that gets other devices of its node has moved without leaving it.
            let has_devices =
                |place: &HeldPlace| !place.devices().is_empty() && self.is_in_place(place);
            let arrives = self.holds.arrives(id)
                || !leaving.is_empty()
                    && (!done.is_empty() || own.places().iter().all(has_devices));
            let mut rest =
                own.places().iter().filter(|place| !done.contains(&full_name(place.pod())));
            // If the embedder moves the unit itself, some pods may be where they are to be.
            if arrives && rest.all(|place| node(place) == Some(place.to())) {
                done.extend(own.places().iter().map(|place| full_name(place.pod())));
            }
            let (ticket, unit) = (own.ticket(), String::from(own.unit()));
            if arrives {
                self.holds.set_arriving(id);
            }
            if leaving.is_empty() && self.holds.end_move_at(id, until) {
                self.timers.insert((until, Timer::Evictions(ticket)));
            }
            if !done.is_empty() {
                reached.push((ticket, unit, done));
            }
        }
        for (ticket, unit, pods) in reached {
            self.release_places(|own, place, _| {
                own.is(ticket, &unit) && pods.contains(&full_name(place.pod()))
            });
            self.stays_moved(ticket, &unit, &pods);
        }
    }

    /// The pod of a place, where it is in the cluster.
    fn pod_of(&self, place: &HeldPlace) -> Option<PodView<'_>> {
        let pod = place.pod();
        self.world.cluster().pod(pod.namespace(), &pod.name)
    }

    /// Whether a pod is on the node and on the devices that it is to have.
    fn is_in_place(&self, place: &HeldPlace) -> bool {
        self.pod_of(place).is_some_and(|pod| {
            pod.node().is_some_and(|node| node.name() == place.to())
                && pod.device_indexes() == place.devices()
        })
    }

    /// A pod is about to end. If all others of its unit are where they are to be, the unit moves no more: it
    /// is taken back, unless it has begun to leave.
    pub(super) fn end_in_place(&mut self, pod: &str) {
        let is_last = |own: &UnitMove| {
            let is_pod = |place: &&HeldPlace| full_name(place.pod()) == pod;
            let mut rest = own.places().iter().filter(|place| !is_pod(place)).peekable();
            own.places().iter().any(|place| is_pod(&place))
                && rest.peek().is_some()
                && rest.all(|place| self.is_in_place(place))
        };
        let last = self.holds.moves().filter(|own| is_last(own));
        let last: Vec<_> = last.map(|own| (own.ticket(), String::from(own.unit()))).collect();
        for (ticket, unit) in last {
            let back = self.removals.take(Among::Unit(ticket, &unit), |own| !own.has_begun());
            for (ticket, units) in back {
                self.cancel_units(ticket, units);
                self.holds.set_due(None);
            }
        }
    }

    /// Pods of a unit that were to leave for where they are: the embedder has moved the others.
    pub(super) fn stays_moved(&mut self, ticket: Ticket, name: &str, pods: &BTreeSet<String>) {
        let Some((root, stay)) = self.removals.keep_pods(ticket, name, pods) else { return };
        for pod in &stay {
            self.set_deleting(pod, false);
            self.removals.set_assumed(pod_name(pod), Some(false));
        }
        self.removals.give_back(&stay);
        if let Some(root) = root {
            self.stay_in_place(root);
        }
    }

    /// The nomination of members that are back to the places held for them.
    fn nominate_moved(&mut self, root: GroupId) {
        if !self.groups.starts_alone(root) {
            return;
        }
        let Some(queued) = self.groups.get(&root) else { return };
        let mut waiting: BTreeMap<u64, &Member> =
            queued.members().iter().map(|(seq, member)| (*seq, member)).collect();
        waiting.retain(|_, member| member.is_ready());
        let own = self.holds.moves_with_ids();
        let own = own.filter(|(_, own)| {
            own.root() == root && !self.is_leaving(own) && !self.waits_for_moves(own)
        });
        let mut open: Vec<((HoldId, usize), &HeldPlace)> = own
            .flat_map(|(id, own)| {
                own.places().iter().enumerate().map(move |(inner, place)| ((id, inner), place))
            })
            .collect();
        let mut places: Places<'_> = BTreeMap::new();
        let mut matched: BTreeSet<(HoldId, usize)> = BTreeSet::new();
        let mut is_new = false;
        // The same pod, then one like it, then one that requests the same.
        let ways: [fn(&Pod, &Pod) -> bool; 3] = [
            |own, other| full_name(own) == full_name(other),
            |own, other| own.group == other.group && own.shape() == other.shape(),
            is_like,
        ];
        for suits in ways {
            open.retain(|(at, place)| {
                let mut found =
                    waiting.iter().filter(|(_, member)| suits(place.pod(), member.pod()));
                let Some(seq) = found.next().map(|(seq, _)| *seq) else { return true };
                waiting.remove(&seq);
                places.insert(seq, (place.to(), place.devices(), place.zone_shares()));
                matched.insert(*at);
                is_new |= !place.is_nominated();
                false
            });
        }
        let is_bound = queued.root().any(&is_bound_together);
        if !is_new || is_bound && !open.is_empty() {
            return;
        }
        let Some(plan) = self.plan_of_places(self.world.cluster(), root, &places) else { return };
        if queued.part_of(&places.keys().copied().collect()).is_some() {
            return;
        }
        // Room that is kept for the group ends before its places are the nomination's.
        self.end_reservation(root, ReservationEnd::Outranked);
        let nodes = self.holds.nominate_places(&mut self.world, &matched);
        self.pods_changed_on(&nodes);
        self.nominate(root, plan);
    }

    /// Whether a unit that has stopped waits for others of its decision to move first.
    fn waits_for_moves(&self, own: &UnitMove) -> bool {
        let mut others = self.removals.of(own.ticket());
        self.holds.stops(own.ticket(), own.unit())
            && others.any(|other| !self.holds.stops(own.ticket(), other.name()))
    }

    /// Whether a unit that has stopped for a group is still to get its place by moves of the same
    /// decision. The group starts after them: with its claim those moves would end.
    pub(super) fn owes_a_place(&self, id: GroupId) -> bool {
        let id = self.holds.lead(id);
        let mut own = self.holds.moves().filter(|own| own.by() == id);
        self.holds.claims(id) && own.any(|own| !self.is_leaving(own) && self.waits_for_moves(own))
    }

    /// A node is gone, and with it the places on it. A unit that has a place there moves no more: it is
    /// taken back, or goes as a victim if it has begun to leave.
    pub(super) fn lose_places(&mut self, node: &str) {
        let is_lost = |own: &UnitMove| own.places().iter().any(|place| place.to() == node);
        let lost: Vec<(Ticket, String)> = self
            .holds
            .moves()
            .filter(|own| is_lost(own))
            .map(|own| (own.ticket(), String::from(own.unit())))
            .collect();
        for (ticket, unit) in lost {
            self.release_places(|own, _, _| own.is(ticket, &unit));
            if !self.removals.goes_for_good(ticket, &unit) {
                let back = self.removals.take(Among::Unit(ticket, &unit), |_| true);
                for (ticket, units) in back {
                    self.cancel_units(ticket, units);
                }
            }
            self.holds.set_due(None);
        }
    }
}
