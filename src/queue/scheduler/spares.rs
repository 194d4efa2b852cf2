//! Spares as inputs: bookings of one pod each, for repairs.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Scheduler;
use crate::base::Time;
use crate::model::{
    NodeSelector, NodeSelectorTerm, Operator, Pod, PodGroup, PodShape, Requirement,
};
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::booking::{Booking, BookingOwner};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::spares::{SpareAmount, Spares};
use crate::state::NodeView;

impl Scheduler {
    /// Spares that appeared or changed. Those of the same name are replaced; room of spares that stay as
    /// they are stays where it is. O(nodes + spares · bookings).
    ///
    /// # Errors
    /// A booking of a spare is refused; see [`Scheduler::handle_booking`]. No spare has changed then.
    pub fn handle_spares(&mut self, spares: Spares, now: Time) -> Result<(), QueueError> {
        let wanted = self.spare_bookings(&spares, now);
        if let Some(first) = wanted.values().next() {
            self.check_booking(first)?;
        }
        let own = spares.name + "/";
        let known: BTreeMap<String, Booking> = self
            .bookings()
            .into_iter()
            .filter(|view| view.booking.name.starts_with(&own) && is_spare(&view.booking))
            .map(|view| (view.booking.name.clone(), view.booking))
            .collect();
        for name in known.keys().filter(|name| !wanted.contains_key(*name)) {
            self.handle_booking_removed(name, now)?;
        }
        for (name, booking) in wanted {
            let is_same = known.get(&name).is_some_and(|own| {
                own.owners == booking.owners && shape_of(own) == shape_of(&booking)
            });
            if !is_same {
                self.handle_booking(booking, now)?;
            }
        }
        Ok(())
    }

    /// The end of spares, by their name. Gangs that run in their room stay.
    ///
    /// # Errors
    /// There are no spares of that name.
    pub fn handle_spares_removed(&mut self, name: &str, now: Time) -> Result<(), QueueError> {
        let own = format!("{name}/");
        let all = self.bookings().into_iter().map(|view| view.booking);
        let all: Vec<String> = all
            .filter(|booking| booking.name.starts_with(&own) && is_spare(booking))
            .map(|booking| booking.name)
            .collect();
        if all.is_empty() {
            return Err(QueueError::Booking { name: name.to_owned(), reason: "is not known" });
        }
        for booking in all {
            self.handle_booking_removed(&booking, now)?;
        }
        Ok(())
    }

    /// The bookings of spares, by name.
    fn spare_bookings(&self, spares: &Spares, now: Time) -> BTreeMap<String, Booking> {
        let cluster = self.world.cluster();
        let holds = |node: NodeView<'_>| -> u64 {
            let counts = spares.pod.shape().requests.iter().filter(|(_, amount)| *amount > 0);
            let counts = counts.map(|(name, amount)| {
                let all = cluster.resource(name).map_or(0, |own| node.allocatable(own));
                u64::try_from(all / amount).unwrap_or(0)
            });
            counts.min().unwrap_or(1)
        };
        let mut domains: BTreeMap<String, u64> = BTreeMap::new();
        if spares.per.is_none() {
            domains.insert(String::new(), 0);
        }
        for node in cluster.nodes() {
            let value = match &spares.per {
                Some(label) => node.label(label),
                None => Some(""),
            };
            if let Some(value) = value {
                let sum = domains.entry(value.to_owned()).or_default();
                *sum = sum.saturating_add(holds(node));
            }
        }
        let mut bookings = BTreeMap::new();
        for (value, room) in domains {
            let count = match spares.amount {
                SpareAmount::Count(count) => u64::from(count),
                SpareAmount::Permille(share) => {
                    room.saturating_mul(share.min(1_000).into()).div_ceil(1_000)
                }
            };
            for number in 0..count {
                let mut pod = spares.pod.clone();
                let mut name = format!("{}/{number}", spares.name);
                if let Some(label) = &spares.per {
                    name = format!("{}/{value}/{number}", spares.name);
                    confine(&mut pod, label, &value);
                }
                let room = PodGroup::of("spare", 1, pod);
                let booking = Booking::new(name.clone(), room, (now, Time::MAX));
                let owner = BookingOwner::Repairs { queue: spares.queue.clone() };
                bookings.insert(name, booking.owner(owner));
            }
        }
        bookings
    }
}

/// The pod of a spare, in the namespace of placeholders.
fn shape_of(booking: &Booking) -> Option<PodShape> {
    let mut shape = booking.room.pods.first()?.shape().as_ref().clone();
    shape.namespace = RESERVED_NAMESPACE.into();
    Some(shape)
}

/// Whether a booking is one of spares.
fn is_spare(booking: &Booking) -> bool {
    matches!(booking.owners[..], [BookingOwner::Repairs { .. }])
}

/// Keeps a pod on nodes of a label, beside what it asks for itself.
fn confine(pod: &mut Pod, label: &str, value: &str) {
    let requirement = Requirement::new(label, Operator::In, [value]);
    let mut affinity = pod.shape().node_affinity.clone().unwrap_or_default();
    let mut required = affinity
        .required
        .take()
        .unwrap_or_else(|| NodeSelector { terms: alloc::vec![NodeSelectorTerm::default()] });
    for term in &mut required.terms {
        term.match_expressions.push(requirement.clone());
    }
    affinity.required = Some(required);
    pod.shape_mut().node_affinity = Some(affinity);
}
