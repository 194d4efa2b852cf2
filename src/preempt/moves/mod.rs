//! Moves: running units that go elsewhere, so that a group can start and nothing is lost for good.
//!
//! [`Consolidation`] says how many units may move; [`MoveCost`] is what a set of moves costs.
//! Files import downwards only, in this order: `settings`, `cost`; `repack`; `sequence`; `stops`;
//! `prices`; `search`; `consolidate`; `relocate`; `names`; `defragment`.

mod consolidate;
mod defragment;
mod names;
mod prices;
mod relocate;
mod repack;
mod search;
mod sequence;
mod stops;

pub(crate) use consolidate::{Moved, consolidate, exchange, movable};
pub use defragment::{Defragmentation, Room};
pub(crate) use defragment::{domain_rows, room};
pub(crate) use names::{make, named};
pub(crate) use relocate::{Relocated, relocate};
pub(crate) use repack::{Joint, Repack};
pub(crate) use search::Best;
