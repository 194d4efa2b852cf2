//! Volcano's queues: deserved amounts, turns, and victims.
//!
//! [`Quotas`] decides as the plugins `proportion` and `capacity` do, on amounts of floats with their
//! tolerance; [`HierarchicalShares`] orders queues as `drf` with a hierarchy does.
//! [`Tenants::volcano_proportion`](crate::quota::Tenants::volcano_proportion) and its siblings put them in
//! charge of a scheduler; a whole session is in `examples/conformance`.

mod attributes;
pub(in crate::quota) mod dialect;
mod drf;
mod quotas;
mod resources;
mod session;
mod settings;
mod yields;

pub use attributes::{Attributes, ROOT, capacity, capacity_tree, inqueue, proportion};
pub use drf::{HierarchicalShares, VolcanoJobStanding, may_take};
pub use quotas::Quotas;
pub use resources::{Missing, Resources, TOLERANCE, dominant_share, share};
pub use settings::VolcanoRule;
