//! The state that a placement under way reads.

use crate::framework::Framework;
use crate::state::{Cluster, NodeView, Overlay, Row};

/// A framework, a cluster, and what was placed beside the cluster so far.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) framework: &'a Framework,
    pub(crate) cluster: &'a Cluster,
    pub(crate) overlay: &'a Overlay,
}

impl<'a> View<'a> {
    /// The node of a row with what was placed on it; `None` if the row is not in use.
    #[inline]
    pub(crate) fn node(self, row: Row) -> Option<NodeView<'a>> {
        self.overlay.view(self.cluster, row)
    }
}
