//! Placement of groups: requests, outcomes, the planner and its strategies.
//!
//! Files and folders import downwards only, in this order: `gang`, `error`, `failure`, `layout`,
//! `commit`; `request`, `certificate`, `topology`, `scoring`; `cache`, `outcome`, `verify`; the
//! strategies `kueue`, `sequential`, `search`; `planner`; `explain`.

mod cache;
pub mod certificate;
mod commit;
pub mod error;
pub mod explain;
mod failure;
pub mod gang;
pub mod kueue;
mod layout;
pub mod outcome;
pub mod planner;
pub mod request;
mod scoring;
pub(crate) mod search;
pub mod sequential;
pub(crate) mod topology;
mod verify;

pub use certificate::{CandidateLack, Certificate, Flaw, Lack, Proof, Refusal};
pub use commit::CommitError;
pub use error::PlaceError;
pub use explain::{DomainReport, Explanation, LevelReport, Rejections, Remedy, explain};
pub use gang::Gang;
pub use outcome::{Outcome, Unplaced, UnplacedKind};
pub use planner::{Planner, place_gang};
pub use request::{Domain, Request};
pub use sequential::trials::{DomainTrial, trials};
