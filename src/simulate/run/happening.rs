//! Events of a simulation, and its error.

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;

use crate::base::Time;
use crate::queue::QueueError;
use crate::state::Plan;

/// An event of a simulation. Jobs are numbered in the order in which they arrive.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Happening<'a> {
    /// A job arrived.
    Submitted(usize),
    /// A plan went out to be bound, for these jobs.
    Placed(&'a [usize], &'a Plan),
    /// All pods of a job run.
    Started(usize),
    /// A job ended: its run time is over, or its estimate is and it was killed.
    Ended(usize),
    /// A job is to begin anew, or to go on from its last checkpoint, and ran in vain for so long: it
    /// was evicted, or lost a node.
    Lost(usize, Duration),
    /// The number of members that run of an elastic job has changed.
    Resized(usize, usize),
    /// A binding was refused.
    Refused(&'a str),
    /// A node failed.
    NodeDown(&'a str),
    /// A node came, came back or changed.
    NodeUp(&'a str),
    /// A group was promised a start, by its full name; and whether it is later than before.
    Promised(&'a str, Time, bool),
}

/// Why a simulation cannot go on: an input that the scheduler refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job {job}: {error}")]
#[non_exhaustive]
pub struct SimulationError {
    /// Full name of the job's group, or of what the input was about.
    pub job: String,
    /// The refusal.
    pub error: Box<QueueError>,
}
