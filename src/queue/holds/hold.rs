//! Hold: one entry of the ledger, with its owners, its cause and its end.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::booking::Booked;
use super::quota::KeptQuota;
use crate::base::{ObjectName, Time};
use crate::model::{Pod, ZoneShare};
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::state::Plan;

/// The name of a hold. What is held for one cause is found by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum HoldId {
    /// A plan that a permit holds, or that is being bound.
    Plan(Ticket),
    /// Room for a group that waits: a reservation, a nomination, or a claim to victims' room.
    Room(GroupId),
    /// The places of a unit that moves: the decision, and the unit's number in it.
    Move(Ticket, u32),
    /// A promised start.
    Promise(GroupId),
    /// Room that is kept under a name, by the number of the booking.
    Booking(u64),
}

/// Room that is kept free.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct Hold {
    /// The groups that it is for.
    pub(super) owners: Vec<GroupId>,
    pub(super) cause: Cause,
    /// Where the owners' pods go, if that is known.
    pub(super) plan: Option<Plan>,
    /// Pods that stand in the cluster for what is kept, with their nodes.
    pub(super) placeholders: Vec<(Pod, String)>,
    /// Quota that is reserved for owners of a claim.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "BTreeMap::is_empty"))]
    pub(super) quota: BTreeMap<GroupId, KeptQuota>,
    pub(super) since: Time,
    /// Its end, if nothing else ends it before.
    pub(super) until: Time,
}

/// Why something is kept free.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum Cause {
    /// A plan in flight: its own pods stand in the cluster.
    Plan(InFlight),
    /// Capacity that is set aside as it frees.
    Reservation {
        /// The chosen domain, as label key and value; `None` if the group may go anywhere.
        domain: Option<(String, String)>,
        /// How many placeholders, from the first on, hold the capacity of a whole member.
        whole: usize,
    },
    /// A place that the embedder, or a move, has named. `dormant`: no room is kept for it now.
    Nomination { dormant: bool },
    /// The room of victims.
    Claim,
    /// Places of a unit that moves.
    Move(UnitMove),
    /// A promised start.
    Promise {
        /// Number of losses up to which the place was checked.
        losses: u64,
    },
    /// Room that is kept under a name.
    Booking(Box<Booked>),
}

/// A plan that is held or being bound.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct InFlight {
    /// The permit that holds the plan; `None` while it is being bound.
    pub(super) held_by: Option<String>,
    /// Pods whose result is not known, by full name.
    pub(super) outstanding: BTreeSet<String>,
    pub(super) failures: u32,
    /// Whether it is being prepared; binding comes after that.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) prepares: bool,
    /// Pods that are gone and still stand in the plan, by full name.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) lost: BTreeSet<String>,
}

/// A unit that moves, from the decision until it runs elsewhere.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct UnitMove {
    pub(super) ticket: Ticket,
    /// The group that room is made for.
    pub(super) by: GroupId,
    /// Its own root group.
    pub(super) root: GroupId,
    /// Its name, as that of a victim.
    pub(super) unit: ObjectName,
    /// The places that its pods do not run at yet, in order.
    pub(super) places: Vec<HeldPlace>,
    /// Whether it leaves before the others of its decision, and starts after them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) stops: bool,
    /// Whether a pod of it was seen on another node: the embedder moves it itself.
    pub(super) arrives: bool,
}

/// A place that is held for a pod.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct HeldPlace {
    /// The pod that leaves its node for it; one in its stead is of the same leaf and requests.
    pub(super) pod: Pod,
    pub(super) to: String,
    pub(super) devices: Vec<Vec<u32>>,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) zone_shares: Vec<ZoneShare>,
    /// Whether the group is nominated to it: its reservation holds it then.
    pub(super) nominated: bool,
    /// The pod that holds it, while it is in the cluster.
    pub(super) placeholder: Option<Pod>,
}

impl Hold {
    pub(super) fn new(
        owners: Vec<GroupId>,
        cause: Cause,
        plan: Option<Plan>,
        span: (Time, Time),
    ) -> Hold {
        let (since, until) = span;
        Hold { owners, cause, plan, placeholders: Vec::new(), quota: BTreeMap::new(), since, until }
    }

    pub(in crate::queue) fn owners(&self) -> &[GroupId] {
        &self.owners
    }

    /// Whether its name is one that such a hold is kept under: by its cause and its owners.
    pub(in crate::queue) fn suits(&self, id: HoldId) -> bool {
        match (id, &self.cause) {
            (HoldId::Plan(_), Cause::Plan(_)) => !self.owners.is_empty(),
            (
                HoldId::Room(lead),
                Cause::Reservation { .. } | Cause::Nomination { .. } | Cause::Claim,
            ) => self.owners.contains(&lead),
            (HoldId::Move(ticket, _), Cause::Move(own)) => {
                own.ticket == ticket && self.owners == [own.root]
            }
            (HoldId::Promise(group), Cause::Promise { .. }) => self.owners == [group],
            (HoldId::Booking(_), Cause::Booking(_)) => self.owners.is_empty(),
            _ => false,
        }
    }

    pub(in crate::queue) fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The plan of a hold that has ended; of one in flight it is [`Holds::plan_in_flight`].
    pub(in crate::queue) fn ended_plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Takes the pods that are gone out of a plan in flight. O(plan) if some are.
    pub(super) fn drop_lost(&mut self) {
        let Cause::Plan(flight) = &mut self.cause else { return };
        let lost = mem::take(&mut flight.lost);
        if let Some(plan) = self.plan.as_mut().filter(|_| !lost.is_empty()) {
            plan.retain(|own| !lost.contains(own.full_name().as_str()));
        }
    }

    pub(in crate::queue) fn since(&self) -> Time {
        self.since
    }

    pub(in crate::queue) fn until(&self) -> Time {
        self.until
    }

    /// The pods that stand in the cluster for it, with their nodes; places of moves have their own.
    pub(in crate::queue) fn placeholders(&self) -> &[(Pod, String)] {
        &self.placeholders
    }

    /// The domain that a reservation has chosen.
    pub(in crate::queue) fn domain(&self) -> Option<&(String, String)> {
        match &self.cause {
            Cause::Reservation { domain, .. } => domain.as_ref(),
            _ => None,
        }
    }

    /// How many placeholders, from the first on, hold the capacity of a whole member.
    pub(in crate::queue) fn whole(&self) -> usize {
        match &self.cause {
            Cause::Reservation { whole, .. } => *whole,
            _ => self.placeholders.len(),
        }
    }

    pub(super) fn keeps_room(&self) -> bool {
        !matches!(self.cause, Cause::Nomination { dormant: true })
    }

    fn flight(&self) -> Option<&InFlight> {
        match &self.cause {
            Cause::Plan(flight) => Some(flight),
            _ => None,
        }
    }

    /// The permit that holds a plan; `None` while it is being bound.
    pub(in crate::queue) fn held_by(&self) -> Option<&str> {
        self.flight()?.held_by.as_deref()
    }

    /// Number of bindings of a plan that failed.
    pub(in crate::queue) fn failures(&self) -> u32 {
        self.flight().map_or(0, |flight| flight.failures)
    }

    /// Whether it is a plan that is being prepared.
    pub(in crate::queue) fn prepares(&self) -> bool {
        self.flight().is_some_and(|flight| flight.held_by.is_none() && flight.prepares)
    }

    /// Pods of a plan whose result is not known, by full name.
    pub(in crate::queue) fn outstanding(&self) -> impl Iterator<Item = &String> {
        self.flight().into_iter().flat_map(|flight| &flight.outstanding)
    }
}

impl InFlight {
    /// A plan with pods whose results are to come, held by a permit or being bound.
    pub(in crate::queue) fn new(
        held_by: Option<String>,
        outstanding: BTreeSet<String>,
    ) -> InFlight {
        InFlight { held_by, outstanding, failures: 0, prepares: false, lost: BTreeSet::new() }
    }

    /// The plan is prepared before it is bound.
    pub(in crate::queue) fn preparing(mut self, prepares: bool) -> InFlight {
        self.prepares = prepares;
        self
    }
}
