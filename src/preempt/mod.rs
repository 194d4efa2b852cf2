//! Preemption: which running units must go so that a group can start.
//!
//! Files import downwards only, in this order: `budget`, `cost`, `policy`; `running`; `unit`.
//! Beside them stands [`kubernetes`]: preemption as kube-scheduler has it.

mod budget;
mod cost;
pub mod kubernetes;
mod policy;
mod running;
pub(crate) mod unit;

pub use budget::DisruptionBudget;
pub use cost::Cost;
pub use policy::{Candidate, LowerPriority, OtherQueues, Policy, Preemptor, SameQueue};
pub use running::RunningWork;
pub use unit::KeptBy;
