//! Placement of groups: requests, outcomes, the planner and its strategies.
//!
//! Files and folders import downwards only, in this order: `gang`, `error`, `failure`, `layout`,
//! `numbers`, `commit`; `request`, `certificate`, `topology`, `scoring`; `cache`, `outcome`, `verify`;
//! the strategies `kueue`, `sequential`, `search`; `planner`; `explain`.

mod cache;
pub(crate) mod certificate;
pub(crate) mod commit;
pub(crate) mod error;
#[cfg(feature = "explain")]
pub(crate) mod explain;
#[cfg(feature = "peers")]
pub(crate) mod failure;
pub(crate) mod gang;
#[cfg(feature = "peers")]
pub(crate) mod kueue;
mod layout;
pub(crate) mod numbers;
pub(crate) mod outcome;
pub(crate) mod planner;
pub(crate) mod request;
mod scoring;
pub(crate) mod search;
pub(crate) mod sequential;
pub(crate) mod topology;
mod verify;

pub use certificate::{CandidateLack, Certificate, Flaw, Lack, Proof, Refusal};
#[cfg(feature = "volumes")]
pub use commit::VolumeProblem;
#[cfg(not(feature = "volumes"))]
pub(crate) use commit::VolumeProblem;
#[cfg(feature = "explain")]
pub use explain::{
    ClaimLack, DomainReport, Explanation, LevelReport, Rejections, Relaxation, Remedy,
};
#[cfg(feature = "peers")]
pub use failure::{Exclusions, Failure, KueueRoom, LayerRoom, NoFit, Unit};
pub use gang::Gang;
pub use outcome::UnplacedKind;
pub use request::Domain;

// Public at the root of the crate.
#[allow(unused_imports, reason = "the layers above name them here")]
pub(crate) use self::{
    commit::CommitError,
    error::PlaceError,
    outcome::{Outcome, Unplaced},
    planner::{Planner, place_gang},
    request::Request,
};
