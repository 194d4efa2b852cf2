//! Hold: one entry of the ledger, with its owners, its cause and its end.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

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
