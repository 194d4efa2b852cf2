//! Resource claims: which devices serve them on a node.
//!
//! The order is that of kube-scheduler 1.36. Pools go by driver and name, slices by name, devices
//! as listed; claims, requests and alternatives as given. The first solution counts of a search
//! that goes back wherever it has to. A [`SelectorEvaluator`] tells whether an expression holds;
//! with the feature `cel` there is one for the expressions of Kubernetes.
//!
//! Source: kube-scheduler 1.36, `dynamicresources`, `dynamic-resource-allocation/structured`.

mod alike;
mod allocator;
mod capacity;
#[cfg(feature = "cel")]
mod cel;
mod constraints;
mod counters;
mod extended;
mod held;
mod pools;
mod prepared;
mod selector;
mod supply;
mod wanted;

pub(crate) use alike::{Alike, scarcity};
pub(crate) use allocator::Paused;
#[cfg(feature = "cel")]
pub use cel::Cel;
pub(crate) use held::lost;
pub(crate) use pools::{can_use, only_node};
#[cfg(feature = "kubernetes")]
pub(crate) use prepared::EXTENDED;
pub(crate) use prepared::{CONSUMERS, How, rank};
pub use prepared::{ClaimRefusal, ClaimVerdict, PreparedClaims};
pub use selector::{DeviceFacts, NoSelectors, SelectorEvaluator, SelectorFault, SelectorProgram};
pub(crate) use supply::{Bundles, Supply};
pub(crate) use wanted::Steps;
