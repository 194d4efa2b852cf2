//! Plugins: filters, scores, permits, and what they declare.

pub mod block;
pub mod builder;
pub mod closures;
pub mod context;
pub mod counters;
pub mod declaration;
pub mod device_choice;
pub mod device_fit;
pub mod evaluation;
pub mod grain;
pub mod laws;
pub mod plugin;
pub(crate) mod prepared;
pub mod strategy;
pub mod traits;

pub use block::Block;
pub(crate) use block::Gathered;
pub use builder::{Framework, FrameworkBuilder, FrameworkError};
pub use closures::{filter_fn, permit_fn, score_fn};
pub(crate) use context::DomainSums;
pub use context::{Context, DomainContext, DomainTotals, Feasible, PermitContext};
pub use declaration::{CountedPods, CounterSpec, Declaration, Reach};
pub use device_choice::{DeviceChoice, DeviceOffer, TightestFit};
pub use device_fit::{device_capacity, devices_fit};
pub use evaluation::{Evaluation, Rejection, ScoreColumn};
pub use grain::Grain;
pub use plugin::{
    Capacity, FilterPlugin, FilterPreparation, Incremental, PreparedFilter, PreparedScore,
    ScorePlugin, ScorePreparation,
};
pub use strategy::{KueueGates, Strategy};
pub use traits::{DomainScore, Filter, Normalization, Permit, PermitVerdict, Score, Verdict};

/// The highest score a plugin gives a node, after normalisation.
pub const MAX_SCORE: i64 = 100;
