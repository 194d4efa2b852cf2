//! Plugins: filters, scores, permits, and their declarations.

pub(crate) mod block;
pub(crate) mod builder;
pub(crate) mod closures;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod declaration;
pub(crate) mod device_choice;
pub(crate) mod device_fit;
pub(crate) mod evaluation;
pub(crate) mod grain;
#[cfg(feature = "laws")]
pub(crate) mod laws;
pub(crate) mod plugin;
pub(crate) mod prepared;
pub(crate) mod strategy;
pub(crate) mod traits;

pub(crate) use block::Gathered;
pub use block::{Block, math};
pub use builder::profiles::PROFILE;
pub use builder::{FrameworkBuilder, FrameworkError};
pub use closures::{filter_fn, permit_fn, score_fn};
pub(crate) use context::DomainSums;
pub use context::{Context, DomainContext, DomainTotals, Feasible, PermitContext};
pub use declaration::{CountedPods, CounterSpec, Declaration, Reach};
pub use evaluation::{Evaluation, Rejection, ScoreColumn};
pub use grain::Grain;
#[cfg(not(feature = "devices"))]
pub(crate) use of_devices::*;
#[cfg(feature = "devices")]
pub use of_devices::*;
pub use plugin::{
    Capacity, FilterPlugin, FilterPreparation, Incremental, PreparedFilter, PreparedScore,
    ScorePlugin, ScorePreparation,
};
#[cfg(feature = "peers")]
pub use strategy::KueueGates;
pub use traits::{DomainScore, Normalization, PermitVerdict, Verdict};

/// Names that are public with the feature `devices`.
mod of_devices {
    pub use super::device_choice::{DeviceChoice, DeviceOffer, TightestFit};
    pub use super::device_fit::zones::{ZonePlan, align_zones};
    pub use super::device_fit::{chosen_devices, device_capacity, devices_fit};
}

// Public at the root of the crate.
pub(crate) use builder::Framework;
pub(crate) use strategy::Strategy;
pub(crate) use traits::Permit;

/// The highest score a plugin gives a node, after normalisation.
pub const MAX_SCORE: i64 = 100;
