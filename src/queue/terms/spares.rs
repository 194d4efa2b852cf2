//! Spares: room that is kept for repairs.

use alloc::string::String;

use crate::model::Pod;

/// Room that placements do not use, and repairs do: nodes or devices that stand in for those that fail.
///
/// Each spare is a [`Booking`](crate::queue::Booking) of one pod, with the owner
/// [`BookingOwner::Repairs`](crate::queue::BookingOwner::Repairs). It is placed as soon as it fits, takes
/// nothing from anybody, and is kept again when the repaired gang has ended. If its node fails, another
/// place is searched for it.
///
/// ```
/// use phalanx::queue::{Settings, SpareAmount, Spares};
/// use phalanx::{Cluster, Framework, Node, Pod, Scheduler, Time};
///
/// let mut cluster = Cluster::new();
/// for name in ["n1", "n2", "n3", "n4"] {
///     cluster.add_node(Node::new(name).capacity("gpu", 8).label("rack", "a"))?;
/// }
/// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
/// // A quarter of the nodes of each rack, for repairs alone.
/// let spares = Spares::new("spare", Pod::new().request("gpu", 8), SpareAmount::Permille(250));
/// scheduler.handle_spares(spares.per("rack"), Time::ZERO)?;
/// assert_eq!(scheduler.bookings().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Spares {
    /// The name, unique among spares. Their bookings are `name/0`, `name/1`, ..., or
    /// `name/domain/0`, ....
    pub name: String,
    /// A pod that fills one spare: all that a node has to give, or one device. Its selectors say where
    /// spares may be.
    pub pod: Pod,
    /// How many there are.
    pub amount: SpareAmount,
    /// The queue whose groups they are for; `None`: for all.
    pub queue: Option<String>,
    /// A node label: the amount holds for each of its values.
    pub per: Option<String>,
}

/// An amount of spares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum SpareAmount {
    /// So many.
    Count(u32),
    /// A share, in thousandths, of all that the empty nodes could hold; rounded up, at most all. Nodes
    /// that come or go later do not change it until the spares are stated again.
    Permille(u32),
}

impl Spares {
    /// Spares for the groups of all queues.
    pub fn new(name: impl Into<String>, pod: Pod, amount: SpareAmount) -> Spares {
        Spares { name: name.into(), pod, amount, queue: None, per: None }
    }

    /// Keeps them for the groups of one queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Spares {
        self.queue = Some(queue.into());
        self
    }

    /// Keeps the amount for each value of a node label.
    #[must_use]
    pub fn per(mut self, label: impl Into<String>) -> Spares {
        self.per = Some(label.into());
        self
    }
}
