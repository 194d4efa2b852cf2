//! Holds: the ledger of room that is kept free, for whom, and until when.
//!
//! A hold is a plan in flight, a permit's hold, a reservation or a nomination. It may also be a
//! claim to the room of victims, a place of a unit that moves, a promised start, or a booking. All are
//! entries of one kind, each under its [`HoldId`]. Nothing else puts placeholders into the cluster or takes
//! them out.
//!
//! A claim keeps the quota that is reserved for its groups.

mod booking;
mod checked;
mod drain;
mod entries;
mod hold;
mod kept_devices;
mod lending;
mod moves;
mod placeholders;
mod quota;
mod view;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
#[cfg(feature = "serde")]
use alloc::vec::Vec;

use self::checked::Checked;
use crate::base::Time;
use crate::queue::terms::ids::{GroupId, Ticket};

pub(in crate::queue) use self::booking::{BookingStep, Borrower};
pub(in crate::queue) use self::checked::Basis;
pub(in crate::queue) use self::drain::{Distances, Drain, free_part};
pub(in crate::queue) use self::hold::{Cause, HeldPlace, Hold, HoldId, InFlight, UnitMove};
pub(in crate::queue) use self::kept_devices::put_again;
pub(in crate::queue) use self::lending::{close_bookings, open_bookings};
pub(in crate::queue) use self::placeholders::{
    Placeholders, book, bookings, differing_nodes, placeholder,
};
pub(in crate::queue) use self::quota::KeptQuota;
pub(in crate::queue) use self::view::View;

/// The ledger of holds.
#[derive(Debug, Default)]
pub(in crate::queue) struct Holds {
    entries: BTreeMap<HoldId, Hold>,
    /// Groups that share the room of a partner, with the group that it stands under.
    leads: BTreeMap<GroupId, GroupId>,
    /// Past reservations of groups.
    past: BTreeMap<GroupId, Past>,
    /// How near domains are to having room for groups that reserve.
    distances: BTreeMap<GroupId, Distances>,
    /// Nodes looked at to choose what is reserved.
    looked_at: u64,
    /// Whether something changed that holds may use.
    due: bool,
    /// Rooms that are to be looked at after a change, and claims that are not.
    checked: Checked,
    /// Held plans whose permits are to be asked again.
    permits_due: BTreeSet<Ticket>,
    /// Groups whose nomination or claim has begun or ended since this was taken last.
    renominated: BTreeSet<GroupId>,
}

/// A ledger as it is saved.
#[cfg(feature = "serde")]
#[derive(Debug)]
pub(in crate::queue) struct SavedHolds {
    pub(in crate::queue) holds: Vec<(HoldId, Hold)>,
    pub(in crate::queue) past: BTreeMap<GroupId, Past>,
    pub(in crate::queue) holds_due: bool,
    pub(in crate::queue) permits_due: BTreeSet<Ticket>,
}

/// Past reservations of a group: where they timed out, and when the next one may begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct Past {
    /// Earliest time of the next reservation, after one that timed out.
    pub(super) not_before: Time,
    /// Domains in which a reservation timed out, until every domain has.
    pub(super) tried_domains: BTreeSet<String>,
    /// Epoch of the nodes for which an empty cluster was found too small.
    pub(super) infeasible_at: Option<u64>,
}
