//! Bookings: room that is kept under a name, for some groups, from a time until another.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::{ObjectName, Time};
use crate::model::{LabelSelector, PodGroup};

/// Room that is kept under a name: for a group that will come, for a queue, in a window of time.
///
/// | time | who may use the room |
/// |---|---|
/// | before `from` | groups that end before it, by their estimate or their bound; with [`lends`](Booking::lends) each group that may be evicted |
/// | from `from` until `until` | its owners |
///
/// The room is placed as a gang is, as soon as it fits, and takes nothing from anybody. A borrower that
/// is still there at `from` is evicted ([`Decision::EvictDue`](crate::queue::Decision::EvictDue)),
/// unless it is an owner.
/// Room that an owner has taken is kept again when its pods are gone. Quota is not booked.
///
/// ```
/// use phalanx::queue::{Booking, BookingOwner, Settings};
/// use phalanx::{Cluster, Decision, Framework, Node, ObjectName, Pod, PodGroup, Scheduler, Time};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("gpu", 8))?;
/// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
/// let pods = |name| PodGroup::of(name, 2, Pod::new().request("gpu", 4));
/// let window = (Time::ZERO, Time::from_secs(3_600));
/// let booking = Booking::new("friday", pods("room"), window)
///     .owner(BookingOwner::Group(ObjectName::new("default", "release")));
/// scheduler.handle_booking(booking, Time::ZERO)?;
/// while let Some(Decision::Booking { .. }) = scheduler.poll_decision(Time::ZERO) {}
/// // The room is kept from others, and is there for the owner.
/// scheduler.handle_group(pods("other"), Time::from_secs(1))?;
/// assert_eq!(scheduler.poll_decision(Time::from_secs(1)), None);
/// scheduler.handle_group(pods("release"), Time::from_secs(2))?;
/// assert!(matches!(scheduler.poll_decision(Time::from_secs(2)), Some(Decision::Bind { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Booking {
    /// The name, unique among bookings.
    pub name: String,
    /// A group that would fit into the room: its pods and its topology. Its name means nothing.
    pub room: PodGroup,
    /// Begin of the window.
    pub from: Time,
    /// End of the window. The room is given up then.
    pub until: Time,
    /// Groups that the room is for.
    pub owners: Vec<BookingOwner>,
    /// Whether the booking ends when an owner has taken room of it.
    pub once: bool,
    /// Whether groups that may be evicted use the room before the window, whatever their end.
    pub lends: bool,
}

/// An owner of a booking.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum BookingOwner {
    /// The root group of this full name.
    Group(ObjectName),
    /// All groups of a queue.
    Queue(String),
    /// Gangs that failing nodes took members from, until these are replaced: of one queue, or of all.
    /// See [`Spares`](crate::queue::Spares).
    Repairs {
        /// The queue; `None`: all.
        queue: Option<String>,
    },
    /// The pod of this full name: a group that places no other.
    Pod(ObjectName),
    /// Pods with labels, in one namespace or in all: groups that place no others.
    Pods {
        /// The namespace; `None`: all.
        namespace: Option<String>,
        /// The labels.
        selector: LabelSelector,
    },
}

impl Booking {
    /// A booking of room for a window of time, without owners.
    pub fn new(name: impl Into<String>, room: PodGroup, (from, until): (Time, Time)) -> Booking {
        let owners = Vec::new();
        Booking { name: name.into(), room, from, until, owners, once: false, lends: false }
    }

    /// Adds an owner.
    #[must_use]
    pub fn owner(mut self, owner: BookingOwner) -> Booking {
        self.owners.push(owner);
        self
    }

    /// Ends the booking when an owner has taken room of it.
    #[must_use]
    pub fn once(mut self) -> Booking {
        self.once = true;
        self
    }

    /// Lets groups that may be evicted use the room before the window.
    #[must_use]
    pub fn lends(mut self) -> Booking {
        self.lends = true;
        self
    }
}

/// A change of a booking.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum BookingChange {
    /// The room is kept on these nodes, one entry a pod.
    Placed {
        /// Names of the nodes.
        nodes: Vec<String>,
    },
    /// The window began.
    Began,
    /// The booking ended: its window, or an owner has used it up.
    Ended {
        /// Whether an owner has used it up.
        used: bool,
    },
}

/// A booking and how much of it is kept; see [`Scheduler::bookings`](crate::Scheduler::bookings).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct BookingView {
    /// The booking.
    pub booking: Booking,
    /// Whether its window has begun.
    pub begun: bool,
    /// Number of pods for which room is kept now, by node.
    pub kept: BTreeMap<String, usize>,
    /// Number of pods whose room an owner uses.
    pub taken: usize,
    /// Number of pods whose room is not there: others use it, its node is gone, or it never was.
    pub missing: usize,
}
