//! The denominator of a queue's share, by dialect.

/// The denominator of a queue's share among its siblings, in the order of heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerShare {
    /// The capacity of the whole cluster.
    Whole,
    /// The amount that the queue's quota states as deserved; 1 without that.
    Deserved,
    /// Its guarantee, or where it has none the lowest limit on its path.
    Guarantee,
}
