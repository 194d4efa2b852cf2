//! Placeholders: pods that stand in the cluster for room that is kept free.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Holds;
use super::booking::{Booked, BookingStep};
use super::hold::{Cause, Hold, HoldId};
use super::kept_devices::{HeldClaims, hold_claims};
use crate::base::Time;
use crate::model::{Pod, PodShape};
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::booking::{Booking, BookingChange, BookingView};
use crate::queue::terms::ids::GroupId;
use crate::queue::world::World;
use crate::state::Plan;

/// Placeholders with their nodes.
pub(in crate::queue) type Placeholders = Vec<(Pod, String)>;

/// A pod that holds a place for another.
pub(in crate::queue) fn placeholder(
    name: String,
    own: &Pod,
    node: &str,
    devices: &[Vec<u32>],
) -> Pod {
    let mut pod =
        Pod::new().in_namespace(RESERVED_NAMESPACE).name(name).priority(own.priority).on(node);
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

/// The nodes on which two lists of placeholders hold something else.
pub(in crate::queue) fn differing_nodes(
    before: &[(Pod, String)],
    after: &[(Pod, String)],
) -> Vec<String> {
    let (before, after) = (by_node_and_shape(before), by_node_and_shape(after));
    let differs = |place: &&(&str, &PodShape)| before.get(*place) != after.get(*place);
    let nodes = before.keys().chain(after.keys()).filter(differs);
    nodes.map(|(node, _)| (*node).to_owned()).collect()
}

/// Begins a booking. Its room is searched for at the next update.
pub(in crate::queue) fn book(holds: &mut Holds, number: u64, booking: Booking) {
    let span = (booking.from.min(booking.until), booking.until);
    let cause = Cause::Booking(Box::new(Booked::new(booking)));
    holds.entries.insert(HoldId::Booking(number), Hold::new(Vec::new(), cause, None, span));
    holds.set_due(None);
}

/// All bookings, in the order in which they came.
pub(in crate::queue) fn bookings(holds: &Holds) -> impl Iterator<Item = BookingView> {
    holds.booked().map(|(_, hold, own)| {
        let mut kept = BTreeMap::new();
        for (_, node) in &hold.placeholders {
            *kept.entry(node.clone()).or_default() += 1;
        }
        let (all, taken) = (own.booking.room.all_pods().len(), own.taken());
        BookingView {
            booking: own.booking.clone(),
            begun: own.begun,
            kept,
            taken,
            missing: all.saturating_sub(hold.placeholders.len() + taken),
        }
    })
}

impl Holds {
    /// Adds placeholders for a plan of a group to the cluster: those that its nodes take.
    pub(in crate::queue) fn put_for_plan(
        world: &mut World,
        id: GroupId,
        plan: &Plan,
    ) -> Placeholders {
        let (mut placeholders, mut held) = (Vec::with_capacity(plan.len()), HeldClaims::new());
        for (index, assignment) in plan.assignments().enumerate() {
            let node = assignment.node();
            if world.cluster().node(node).is_none() {
                continue;
            }
            let name = format!("{id}-{index}");
            let mut pod = placeholder(name, assignment.pod(), node, assignment.devices());
            pod.zone_shares = assignment.zone_shares().to_vec();
            hold_claims(&mut pod, assignment.pod(), assignment.allocations(), &mut held);
            if world.add_pod(pod.clone()).is_ok() {
                placeholders.push((pod, node.to_owned()));
            }
        }
        placeholders
    }

    /// Takes placeholders out of the cluster. Returns the nodes that have room now.
    pub(in crate::queue) fn take_out(
        world: &mut World,
        placeholders: &[(Pod, String)],
    ) -> Vec<String> {
        let is_out = |(pod, _): &&(Pod, String)| {
            // The embedder may have deleted it.
            world.remove_pod(pod.namespace(), &pod.name).is_ok()
        };
        placeholders.iter().filter(is_out).map(|(_, node)| node.clone()).collect()
    }

    /// Puts placeholders back that were taken out.
    pub(in crate::queue) fn put_back(world: &mut World, pods: Vec<Pod>) {
        for pod in pods {
            let _ = world.add_pod(pod);
        }
    }

    /// The placeholders of some holds that are in the cluster, taken out of it.
    pub(in crate::queue) fn set_aside(
        &self,
        world: &mut World,
        holds: impl Iterator<Item = HoldId>,
    ) -> Vec<Pod> {
        let mut aside = Vec::new();
        for id in holds {
            for pod in self.placeholders_of(id) {
                if world.remove_pod(pod.namespace(), &pod.name).is_ok() {
                    aside.push(pod.clone());
                }
            }
        }
        aside
    }

    /// The placeholders of a hold, those of its places among them.
    pub(in crate::queue) fn placeholders_of(&self, id: HoldId) -> impl Iterator<Item = &Pod> {
        self.get(id).into_iter().flat_map(|own| {
            let places = own.unit_move().into_iter().flat_map(|own| &own.places);
            let held = places.filter_map(|place| place.placeholder.as_ref());
            own.placeholders.iter().map(|(pod, _)| pod).chain(held)
        })
    }

    // Room that is kept under a name.

    pub(super) fn booked(&self) -> impl Iterator<Item = (u64, &Hold, &Booked)> {
        let all = self.entries.range(HoldId::Booking(0)..=HoldId::Booking(u64::MAX));
        all.filter_map(|(id, own)| match (id, &own.cause) {
            (HoldId::Booking(number), Cause::Booking(booked)) => Some((*number, own, &**booked)),
            _ => None,
        })
    }

    /// The number of a booking.
    pub(in crate::queue) fn booking(&self, name: &str) -> Option<u64> {
        self.booked().find(|(_, _, own)| own.booking.name == name).map(|(number, ..)| number)
    }

    /// Ends a booking. Returns the nodes that have room now.
    pub(in crate::queue) fn end_booking(&mut self, world: &mut World, number: u64) -> Vec<String> {
        let own = self.entries.remove(&HoldId::Booking(number));
        own.map_or_else(Vec::new, |own| Holds::take_out(world, &own.placeholders))
    }

    /// Follows the time and the cluster: bookings begin, end, keep their room again, and find it.
    /// Returns the times of next searches for room too.
    ///
    /// Room that an owner gave up is kept before room that is lent, and that of windows that have
    /// begun before that of others. No booking finds a place before each has kept its own again.
    pub(in crate::queue) fn update_bookings(
        &mut self,
        world: &mut World,
    ) -> (Vec<BookingStep>, Vec<(Time, u64)>) {
        let (mut steps, mut searches, now) = (Vec::new(), Vec::new(), world.now());
        let mut numbers: Vec<u64> = self.booked().map(|(number, ..)| number).collect();
        for number in &numbers {
            let Some((_, own)) = self.booked_mut(*number) else { continue };
            let name = own.booking.name.clone();
            let begins = own.begin(now);
            if own.used || own.booking.until <= now {
                let ended = BookingChange::Ended { used: own.used };
                let mut step = BookingStep::new(&name, Some(ended));
                step.nodes = self.end_booking(world, *number);
                steps.push(step);
            } else if begins {
                let mut step = BookingStep::new(&name, Some(BookingChange::Began));
                step.owners.clone_from(&own.booking.owners);
                steps.push(step);
            }
        }
        let mut kept = self.keep_bookings(world, &mut numbers);
        numbers.sort_unstable();
        let borrowers: BTreeSet<GroupId> =
            self.booked().flat_map(|(.., own)| own.borrowers()).copied().collect();
        let mut is_missing = false;
        for number in numbers {
            let Some((standing, own)) = self.booked_mut(number) else { continue };
            let mut step = BookingStep::new(&own.booking.name, None);
            step.nodes = kept.remove(&number).unwrap_or_default();
            if standing.is_empty()
                && own.taken() == 0
                && let Some(plan) = own.search(world)
            {
                *standing = Holds::put_for_plan(world, number, &plan);
                own.placed(standing, &plan);
                step.nodes = standing.iter().map(|(_, node)| node.clone()).collect();
                step.change = Some(BookingChange::Placed { nodes: step.nodes.clone() });
            }
            if !step.nodes.is_empty() && own.begun {
                step.owners.clone_from(&own.booking.owners);
            }
            searches.extend(own.next_search().map(|time| (time, number)));
            step.lent_nodes = own.nodes_of_missing();
            is_missing |= !step.lent_nodes.is_empty();
            let is_due = own.begun && !step.lent_nodes.is_empty();
            if is_due {
                let lent = own.borrowers().iter().copied().collect();
                step.lent = [lent, borrowers.iter().copied().collect()];
            }
            if step.change.is_some() || !step.nodes.is_empty() || is_due {
                steps.push(step);
            }
        }
        if !is_missing {
            let all: Vec<u64> = self.booked().map(|(number, ..)| number).collect();
            for number in all {
                if let Some((_, own)) = self.booked_mut(number) {
                    own.forget_borrowers();
                }
            }
        }
        (steps, searches)
    }

    /// Keeps room of bookings again where it is free. Returns its nodes by booking. Orders the numbers.
    fn keep_bookings(
        &mut self,
        world: &mut World,
        numbers: &mut [u64],
    ) -> BTreeMap<u64, Vec<String>> {
        let mut kept: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        numbers.sort_by_key(|number| self.booked_mut(*number).is_none_or(|(_, own)| !own.begun));
        for number in &*numbers {
            if let Some((standing, own)) = self.booked_mut(*number) {
                own.drop_gone(world, standing);
            }
        }
        for of_owners in [true, false] {
            for number in &*numbers {
                let Some((standing, own)) = self.booked_mut(*number) else { continue };
                kept.entry(*number).or_default().extend(own.keep_again(world, standing, of_owners));
            }
        }
        kept
    }

    fn booked_mut(&mut self, number: u64) -> Option<(&mut Vec<(Pod, String)>, &mut Booked)> {
        let hold = self.entries.get_mut(&HoldId::Booking(number))?;
        let Cause::Booking(own) = &mut hold.cause else { return None };
        Some((&mut hold.placeholders, own))
    }
}
