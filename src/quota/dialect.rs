//! The dialect of tenants: the scheduler by whose rules quota is given and taken back.

use alloc::boxed::Box;

use super::kai::Kai;
use super::koordinator::Koordinator;
use super::own::Own;
use super::peer::Peer;

/// A dialect, with its state beside the books.
#[derive(Debug, Clone)]
pub(super) enum Dialect {
    Kueue,
    /// This crate's own.
    Own(Own),
    Koordinator(Box<Koordinator>),
    Peer(Peer),
    Kai(Kai),
}

impl Dialect {
    pub(super) fn own(&self) -> Option<&Own> {
        match self {
            Dialect::Own(own) => Some(own),
            _ => None,
        }
    }

    pub(super) fn koordinator(&self) -> Option<&Koordinator> {
        match self {
            Dialect::Koordinator(own) => Some(own),
            _ => None,
        }
    }
}
