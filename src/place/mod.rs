//! Placing groups: requests, outcomes, the planner and its strategies.

mod board;
pub mod certificate;
mod classes;
mod commit;
pub(crate) mod domains;
pub mod error;
pub mod explain;
mod fast;
pub mod gang;
mod ground;
pub mod kueue;
pub mod outcome;
mod plain;
pub mod planner;
pub mod request;
pub(crate) mod search;
pub mod sequential;
mod table;
pub(crate) mod topology;
pub mod verify;

pub use certificate::{CandidateLack, Certificate, Lack, Refusal};
pub use commit::CommitError;
pub use error::PlaceError;
pub use explain::{DomainReport, Explanation, LevelReport, Rejections, Remedy, explain};
pub use gang::Gang;
pub use outcome::{Outcome, Unplaced, UnplacedKind};
pub use planner::{Planner, place_gang};
pub use request::{Domain, Request};
pub use sequential::{DomainTrial, trials};
pub use verify::Flaw;
