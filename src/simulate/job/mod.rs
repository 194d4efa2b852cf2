//! Jobs of a trace, estimates of their run times, and how fast they run where they are.

mod rate;
mod table;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::random::Random;
use crate::base::{ObjectName, Time};
use crate::model::PodGroup;

pub use rate::{Neighbour, Rate, RunTimes, Running, Site};
pub use table::RateTable;

/// A job of a trace: a gang, its arrival, and how long it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Job {
    /// The gang, with the estimate of its run time if there is one. Its name is the job's, and no
    /// other job's.
    pub group: PodGroup,
    /// Its arrival.
    pub submit: Time,
    /// How long it runs once all of its pods are bound, at the rate of one.
    pub run_time: Duration,
    /// The queue that fairness is measured by; by default the group's.
    pub queue: String,
    /// The kind of its program, for tables of rates. Default: empty.
    #[cfg_attr(feature = "serde", serde(default))]
    pub model: String,
    /// Whether it goes on with any number of members from its minimum on. If not, it begins anew
    /// when it loses one. Default: no.
    #[cfg_attr(feature = "serde", serde(default))]
    pub elastic: bool,
    /// How it saves its work. Default: not at all.
    #[cfg_attr(feature = "serde", serde(default))]
    pub checkpoint: Option<Checkpointing>,
    /// Full names of the groups of jobs that are over before it arrives. Default: none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub after: Vec<ObjectName>,
    /// The user who submits it; see [`Users`](super::Users). Default: empty, which is nobody.
    #[cfg_attr(feature = "serde", serde(default))]
    pub user: String,
}

/// How a job saves its work.
///
/// A job that is evicted or loses a node goes on from its last checkpoint. While it saves, or
/// restarts from a checkpoint, it makes no progress. An elastic job that the scheduler lets grow or
/// shrink saves and restarts at that moment, so that no work is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Checkpointing {
    /// How long it works from a start or a checkpoint to the next; zero is no checkpoint at all.
    pub every: Duration,
    /// How long it takes to save.
    pub save: Duration,
    /// How long it takes to start from a checkpoint.
    pub restart: Duration,
}

impl Checkpointing {
    /// Saves after so long a time of work, with the time of a save and of a restart.
    pub fn new(every: Duration, save: Duration, restart: Duration) -> Checkpointing {
        Checkpointing { every, save, restart }
    }
}

impl Job {
    /// A job that runs so long.
    pub fn new(group: PodGroup, submit: Time, run_time: Duration) -> Job {
        let (queue, after) = (group.queue.clone(), Vec::new());
        let (model, user) = (String::new(), String::new());
        let (elastic, checkpoint) = (false, None);
        Job { group, submit, run_time, queue, model, elastic, checkpoint, after, user }
    }

    /// Sets the kind of its program.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Job {
        self.model = model.into();
        self
    }

    /// Lets it go on with any number of members from its minimum on.
    #[must_use]
    pub fn elastic(mut self) -> Job {
        self.elastic = true;
        self
    }

    /// Sets how it saves its work.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: Checkpointing) -> Job {
        self.checkpoint = Some(checkpoint);
        self
    }

    /// Lets it arrive no earlier than another job is over: has ended, or was removed for good.
    #[must_use]
    pub fn after(mut self, group: ObjectName) -> Job {
        self.after.push(group);
        self
    }

    /// Sets the user who submits it.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Job {
        self.user = user.into();
        self
    }
}

/// How wrong estimates of run times are. None is below the run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Estimates {
    /// The run time.
    #[default]
    Exact,
    /// One to `most` times the run time, in thousandths, each as likely as any other.
    Over {
        /// The largest factor, in thousandths; no less than 1,000.
        most: u32,
    },
    /// One of the limits that people choose: a minute, 5, 15, 30, then 1, 2, 4, 10 hours, a day, 2,
    /// 4, 7 days. Each of those above the run time is as likely as any other; a job that runs for
    /// longer is estimated by its run time. (Tsafrir, Etsion and Feitelson, *Modeling user runtime
    /// estimates*, JSSPP 2005, find most estimates among few round numbers.)
    Modal,
}

/// Limits that people choose, in seconds.
const LIMITS: [u64; 12] =
    [60, 300, 900, 1_800, 3_600, 7_200, 14_400, 36_000, 86_400, 172_800, 345_600, 604_800];

impl Estimates {
    /// The estimate for a job that runs so long.
    pub fn of(self, run_time: Duration, random: &mut Random) -> Duration {
        match self {
            Estimates::Exact => run_time,
            Estimates::Over { most } => {
                let factor = random.within(1_000, u64::from(most.max(1_000)));
                let nanos = run_time.as_nanos().saturating_mul(u128::from(factor)) / 1_000;
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(run_time)
            }
            Estimates::Modal => {
                let limits = LIMITS.map(Duration::from_secs);
                let first = limits.partition_point(|limit| *limit < run_time);
                let chosen = first + random.below((limits.len() - first) as u64) as usize;
                limits.get(chosen).copied().unwrap_or(run_time)
            }
        }
    }
}

#[cfg(test)]
mod tests;
