//! Autoscaling: which nodes to add so that groups start, and which can be emptied and taken away.
//!
//! Both are pure calls over a cluster or a transaction. [`Autoscaler::scale_up`] finds the cheapest
//! set of nodes, from [templates](NodeTemplate) with prices and limits, with which the given groups
//! start whole. [`Autoscaler::scale_down`] finds nodes that can go, with the moves of their pods.
//! The guide [`autoscaling`](crate::_guide::autoscaling) has the rules and the algorithm.
//!
//! Files import downwards only, in this order: `error`; `template`; `request`, `answer`, `linear`;
//! `needs`; `model`, `boxes`; `stage`; `build`; `up`. Going down: `shrink`; `down`.

mod answer;
mod boxes;
mod build;
mod down;
mod error;
mod linear;
mod model;
mod needs;
mod request;
mod resume;
mod shrink;
mod stage;
mod template;
mod up;
mod weights;

pub use answer::{NewBlock, ScaleUp, ScaleUpClaim, ScaleUpOutcome};
pub use error::AutoscaleError;
pub use request::ScaleUpRequest;
pub use shrink::{Blocked, KeptNode, NodeRemoval, ScaleDown, ScaleDownRequest};
pub use template::NodeTemplate;
pub use up::Autoscaler;
