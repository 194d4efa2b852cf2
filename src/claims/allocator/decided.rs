//! Decisions of a search for devices, as data: so a search can be paused and taken up again.

use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::claims::wanted::{Place, Steps};

/// A decision of a search.
pub(super) enum Decided {
    /// An alternative of a request.
    Choice(Place),
    /// A device of a request that has so many.
    Device {
        place: Place,
        have: usize,
        device: u32,
        /// Its place in the order of devices; `None` for one of all.
        at: Option<u32>,
        class: Option<u32>,
        /// The classes of devices that were tried in its place.
        failed: SmallVec<[u32; 8]>,
    },
}

/// The next thing that a search does.
pub(super) enum Go {
    /// It begins with a request of a claim.
    Request { claim: usize, request: usize },
    /// It finds a device, from one on.
    Device { place: Place, have: usize, from: u32, failed: SmallVec<[u32; 8]> },
    /// It takes the last decision back.
    Back,
}

/// A search that was paused at a solution, or has not begun.
pub(crate) struct Paused {
    pub(super) decided: Vec<Decided>,
    pub(super) steps: u64,
    pub(super) has_begun: bool,
}

impl Paused {
    /// A search that has not begun, with so many steps.
    pub(crate) fn new(steps: Steps) -> Paused {
        Paused { decided: Vec::new(), steps: steps.0, has_begun: false }
    }

    pub(in crate::claims) fn steps(&self) -> Steps {
        Steps(self.steps)
    }
}
