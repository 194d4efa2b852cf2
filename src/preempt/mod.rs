//! Preemption: which running units must go so that a group can start.
//!
//! One call answers a request: [`PreemptingPlanner::place`] places the group if it fits, and else
//! names the least set of units that must go for it. [`RunningWork`] says which groups run and
//! which budgets protect them, a [`Policy`] what may be taken. The guide `docs/preemption.md` has
//! the rules and the algorithm.
//!
//! Files import downwards in this order: `budget`, `cost`, `policy`, `checkpoints`, `answer`;
//! `running`, `yielding`, `request`; `unit`; `devices`, `need`; `verdict`, `price`; `arena`,
//! `trial`; `bound`; `branch`; `sets`; `domains`; `search`; `moves`; `planner`; `explain`.
//! Requests and answers also name the settings and costs of `moves`, and `yielding` a number of
//! `unit`. Beside them stands [`kubernetes`]: preemption as kube-scheduler has it.

mod answer;
mod arena;
mod bound;
mod branch;
mod budget;
mod cost;
mod devices;
mod domains;
mod explain;
#[cfg(feature = "peers")]
pub mod kubernetes;
pub(crate) mod moves;
mod need;
mod planner;
mod policy;
mod price;
mod request;
mod running;
mod search;
mod sets;
mod trial;
pub(crate) mod unit;
mod verdict;
mod yielding;

pub use answer::{EvictedPod, Move, NoVictims, NoVictimsHelp, Preempt, Preemption, Victim};
pub use budget::DisruptionBudget;
pub use cost::{Cost, MoveClaim, MoveCost};
pub use explain::{Instead, Kept, PreemptionExplanation, Taken, TakenFor};
pub use moves::{Defragmentation, Room};
pub use planner::PreemptingPlanner;
pub use policy::{
    Candidate, Checkpoints, LowerPriority, OtherQueues, Policy, Preemptor, SameQueue,
};
pub use request::{AnyUnit, Consolidation, PreemptionRequest};
pub use running::RunningWork;
pub use verdict::KeptBy;
pub use yielding::Yielding;
