//! Placing groups: requests, outcomes, the planner and its strategies.

mod commit;
mod domains;
pub mod error;
pub mod kueue;
pub mod outcome;
pub mod planner;
pub mod request;
pub mod sequential;

pub use commit::CommitError;
pub use error::PlaceError;
pub use outcome::{Outcome, Unplaced, UnplacedKind};
pub use planner::{Planner, place_gang};
pub use request::{Domain, Request};
pub use sequential::{DomainTrial, trials};
