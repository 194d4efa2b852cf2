//! Placing groups: requests, outcomes, the planner and its strategies.

mod board;
pub mod certificate;
mod classes;
mod commit;
mod counted;
mod desk;
pub(crate) mod domains;
pub mod error;
pub mod explain;
mod fast;
mod fill;
#[cfg(feature = "parallel")]
mod fork;
pub mod gang;
mod ground;
mod judges;
pub mod kueue;
pub mod outcome;
mod plain;
pub mod planner;
mod ranks;
mod refusals;
pub mod request;
mod run;
pub(crate) mod search;
pub mod sequential;
mod table;
pub(crate) mod topology;
mod totals;
mod verify;

pub use certificate::{CandidateLack, Certificate, Flaw, Lack, Proof, Refusal};
pub use commit::CommitError;
pub use error::PlaceError;
pub use explain::{DomainReport, Explanation, LevelReport, Rejections, Remedy, explain};
pub use gang::Gang;
pub use outcome::{Outcome, Unplaced, UnplacedKind};
pub use planner::{Planner, place_gang};
pub use request::{Domain, Request};
pub use sequential::{DomainTrial, trials};
