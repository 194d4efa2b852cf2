//! What the shares of queues are of in the dialects of other schedulers.

/// What the share of a queue among its siblings is of, in the order of heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerShare {
    /// What there is in all.
    Whole,
    /// What the queue's quota says that it deserves; 1 without that.
    Deserved,
    /// Its guarantee, or where it has none the lowest limit on its path.
    Guarantee,
}
