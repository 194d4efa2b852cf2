//! Places of units that move: held from the decision until the unit runs there.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::hold::{Cause, HeldPlace, Hold, HoldId, UnitMove};
use super::{Holds, placeholder};
use crate::base::{ObjectName, Time};
use crate::model::{Pod, ZoneShare};
use crate::queue::groups::full_name;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::queue::world::World;

impl Hold {
    /// The unit whose places it holds.
    pub(in crate::queue) fn unit_move(&self) -> Option<&UnitMove> {
        match &self.cause {
            Cause::Move(own) => Some(own),
            _ => None,
        }
    }
}

impl UnitMove {
    pub(in crate::queue) fn new(
        (ticket, unit): (Ticket, ObjectName),
        by: GroupId,
        root: GroupId,
        (places, stops): (Vec<HeldPlace>, bool),
    ) -> UnitMove {
        UnitMove { ticket, by, root, unit, places, stops, arrives: false }
    }

    /// The decision.
    pub(in crate::queue) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The group that room is made for.
    pub(in crate::queue) fn by(&self) -> GroupId {
        self.by
    }

    /// Its own root group.
    pub(in crate::queue) fn root(&self) -> GroupId {
        self.root
    }

    /// Its name, as that of a victim.
    pub(in crate::queue) fn unit(&self) -> &str {
        &self.unit
    }

    /// The places that its pods do not run at yet, in order.
    pub(in crate::queue) fn places(&self) -> &[HeldPlace] {
        &self.places
    }

    /// The placeholders of its places, with their nodes.
    pub(in crate::queue) fn placeholders(&self) -> impl Iterator<Item = (&Pod, &str)> {
        self.places.iter().filter_map(|place| Some((place.placeholder.as_ref()?, &*place.to)))
    }

    /// Whether it is the unit of a decision.
    pub(in crate::queue) fn is(&self, ticket: Ticket, unit: &str) -> bool {
        self.ticket == ticket && *self.unit == *unit
    }
}

impl HeldPlace {
    pub(in crate::queue) fn new(
        pod: Pod,
        to: String,
        (devices, zone_shares): (Vec<Vec<u32>>, Vec<ZoneShare>),
    ) -> HeldPlace {
        HeldPlace { pod, to, devices, zone_shares, nominated: false, placeholder: None }
    }

    /// The pod that leaves its node for it.
    pub(in crate::queue) fn pod(&self) -> &Pod {
        &self.pod
    }

    pub(in crate::queue) fn to(&self) -> &str {
        &self.to
    }

    pub(in crate::queue) fn devices(&self) -> &[Vec<u32>] {
        &self.devices
    }

    /// The amounts of NUMA zones that the pod gets there.
    pub(in crate::queue) fn zone_shares(&self) -> &[ZoneShare] {
        &self.zone_shares
    }

    /// Whether its group is nominated to it.
    pub(in crate::queue) fn is_nominated(&self) -> bool {
        self.nominated
    }
}

impl Holds {
    fn move_entries(&mut self) -> impl Iterator<Item = (&mut Hold, HoldId)> {
        self.entries
            .iter_mut()
            .filter_map(|(id, own)| matches!(id, HoldId::Move(..)).then_some((own, *id)))
    }

    fn moves_mut(&mut self) -> impl Iterator<Item = &mut UnitMove> {
        self.move_entries().filter_map(|(own, _)| match &mut own.cause {
            Cause::Move(own) => Some(own),
            _ => None,
        })
    }

    /// Units that do not run yet where they move to, in the order of the decisions.
    pub(in crate::queue) fn moves(&self) -> impl Iterator<Item = &UnitMove> {
        self.moves_with_ids().map(|(_, own)| own)
    }

    /// As [`Holds::moves`], with the names of their holds.
    pub(in crate::queue) fn moves_with_ids(&self) -> impl Iterator<Item = (HoldId, &UnitMove)> {
        let all = HoldId::Move(Ticket(0), 0)..=HoldId::Move(Ticket(u64::MAX), u32::MAX);
        self.entries.range(all).filter_map(|(id, own)| Some((*id, own.unit_move()?)))
    }

    pub(in crate::queue) fn has_moves(&self) -> bool {
        self.moves().next().is_some()
    }

    /// Whether a unit of a decision stops meanwhile: it leaves first, and starts when the others have
    /// moved.
    pub(in crate::queue) fn stops(&self, ticket: Ticket, unit: &str) -> bool {
        self.moves().any(|own| own.is(ticket, unit) && own.stops)
    }

    /// Whether a place is held for a pod.
    pub(in crate::queue) fn has_place(&self, pod: &str) -> bool {
        self.moves().flat_map(UnitMove::places).any(|place| full_name(&place.pod) == pod)
    }

    /// Whether places are held for a group.
    pub(in crate::queue) fn is_moving(&self, root: GroupId) -> bool {
        self.moves().any(|own| own.root == root)
    }

    /// Holds the places of a unit, the `number`th of its decision.
    pub(in crate::queue) fn begin_move(&mut self, number: u32, own: UnitMove, since: Time) {
        let (id, owners) = (HoldId::Move(own.ticket, number), alloc::vec![own.root]);
        let cause = Cause::Move(own);
        let hold = Hold {
            owners,
            cause,
            plan: None,
            placeholders: Vec::new(),
            quota: BTreeMap::new(),
            since,
            until: Time::MAX,
        };
        self.entries.insert(id, hold);
    }

    /// Puts placeholders at places that have none, where there is room. Returns their nodes.
    pub(in crate::queue) fn hold_places(&mut self, world: &mut World) -> Vec<String> {
        let mut taken = Vec::new();
        for own in self.moves_mut() {
            for (at, place) in own.places.iter_mut().enumerate() {
                let there = |pod: &Pod| world.cluster().pod(pod.namespace(), &pod.name).is_some();
                if place.nominated || place.placeholder.as_ref().is_some_and(there) {
                    continue;
                }
                let name = format!("{}-{}-{at}", own.ticket.0, own.unit.replace('/', "-"));
                let mut pod = placeholder(name, &place.pod, &place.to, &place.devices);
                pod.zone_shares.clone_from(&place.zone_shares);
                if world.add_pod(pod.clone()).is_ok() {
                    place.placeholder = Some(pod);
                    taken.push(place.to.clone());
                }
            }
        }
        taken
    }

    /// A pod of a unit was seen elsewhere before the whole unit left: the embedder moves it itself.
    pub(in crate::queue) fn set_arriving(&mut self, id: HoldId) {
        if let Some(Hold { cause: Cause::Move(own), .. }) = self.entries.get_mut(&id) {
            own.arrives = true;
        }
    }

    /// Whether the embedder moves a unit itself.
    pub(in crate::queue) fn arrives(&self, id: HoldId) -> bool {
        self.get(id).and_then(Hold::unit_move).is_some_and(|own| own.arrives)
    }

    /// A unit has left its nodes: its places are held until a time. Returns whether that is news.
    pub(in crate::queue) fn end_move_at(&mut self, id: HoldId, until: Time) -> bool {
        let own = self.entries.get_mut(&id).filter(|own| own.until == Time::MAX);
        own.map(|own| own.until = until).is_some()
    }

    /// Gives places back that are given by their units. Returns the nodes that have room now, and the
    /// full names of the pods that had the places.
    pub(in crate::queue) fn release_places(
        &mut self,
        world: &mut World,
        is: impl Fn(&UnitMove, &HeldPlace, Time) -> bool,
    ) -> (Vec<String>, Vec<String>) {
        let mut free = Vec::new();
        let mut done = Vec::new();
        for (hold, id) in self.move_entries() {
            let until = hold.until;
            let Cause::Move(own) = &mut hold.cause else { continue };
            let mut kept = Vec::with_capacity(own.places.len());
            for place in core::mem::take(&mut own.places) {
                if is(own, &place, until) { free.push(place) } else { kept.push(place) }
            }
            own.places = kept;
            if own.places.is_empty() {
                done.push(id);
            }
        }
        for id in done {
            self.entries.remove(&id);
        }
        let (mut nodes, mut pods) = (Vec::new(), Vec::new());
        for HeldPlace { pod, placeholder, to, .. } in free {
            pods.push(full_name(&pod));
            let Some(pod) = placeholder else { continue };
            if world.remove_pod(pod.namespace(), &pod.name).is_ok() {
                nodes.push(to);
            }
        }
        (nodes, pods)
    }

    /// Places are nominated: the group's own room holds them from now on. Returns their nodes.
    pub(in crate::queue) fn nominate_places(
        &mut self,
        world: &mut World,
        matched: &BTreeSet<(HoldId, usize)>,
    ) -> Vec<String> {
        let mut nodes = Vec::new();
        for &(id, at) in matched {
            let Some(Hold { cause: Cause::Move(own), .. }) = self.entries.get_mut(&id) else {
                continue;
            };
            let Some(place) = own.places.get_mut(at) else { continue };
            place.nominated = true;
            if let Some(pod) = place.placeholder.take() {
                let _ = world.remove_pod(pod.namespace(), &pod.name);
                nodes.push(place.to.clone());
            }
        }
        nodes
    }

    /// The room of a group ended, and it does not run: its places hold themselves again.
    pub(in crate::queue) fn unnominate_places(&mut self, root: GroupId) {
        for own in self.moves_mut().filter(|own| own.root == root) {
            own.places.iter_mut().for_each(|place| place.nominated = false);
        }
    }
}
