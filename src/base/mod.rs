//! The bottom layer: quantities, time, identifiers, interning, bit sets. It knows nothing of
//! scheduling.

pub(crate) mod chunks;
pub(crate) mod clip;
pub(crate) mod hash;
pub(crate) mod index;
pub(crate) mod intern;
pub(crate) mod name;
#[cfg(test)]
pub(crate) mod numbers;
pub(crate) mod quantity;
pub(crate) mod row;
pub(crate) mod rowset;
pub(crate) mod simd;
pub(crate) mod slab;
pub(crate) mod sparse;
pub(crate) mod sum;
pub(crate) mod time;
pub(crate) mod tournament;

pub use name::{NameError, ObjectName};
pub use quantity::{Quantity, QuantityError};
pub use row::Row;
pub use rowset::RowSet;
pub use time::{Time, TimeError};
