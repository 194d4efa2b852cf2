//! A domain in the search: its nodes, and their free resources.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::RowSet;
use crate::place::cache::capacity::Extent;
use crate::place::topology::tiers::Path;
use crate::state::{LabelValue, Row};

/// A domain in the search.
#[derive(Debug)]
pub(crate) struct Domain {
    /// The key, as a place in the solver's list, and the value; `None` for all nodes.
    pub(crate) key: Option<usize>,
    pub(crate) path: Path,
    pub(crate) nodes: Arc<[u32]>,
    pub(crate) rows: Arc<[Row]>,
    pub(crate) area: Area,
    /// Sums of free amounts, a dimension each.
    pub(crate) sums: Vec<i64>,
    /// How many pods of a class fit; -1 where not yet known.
    pub(crate) counts: Vec<i64>,
}

/// The extent of a domain.
#[derive(Debug)]
pub(crate) enum Area {
    /// A domain with sums in the cache.
    Kept(Extent),
    /// Any other set of nodes.
    Own(RowSet),
}

impl Domain {
    pub(crate) fn value(&self) -> Option<LabelValue> {
        self.path.last().copied().flatten()
    }
}
