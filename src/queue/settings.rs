//! What an embedder can choose.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use crate::base::Time;
use crate::framework::Strategy;
use crate::place::request::DEFAULT_BUDGET;

/// Options of a [`Scheduler`](super::Scheduler). The defaults are those of the field.
///
/// ```
/// use core::time::Duration;
/// use phalanx::queue::{HeadOfLine, ReservationPolicy, Settings};
///
/// let mut settings = Settings::default();
/// settings.head_of_line = HeadOfLine::StrictFifo;
/// settings.reservation = Some(ReservationPolicy::default());
/// assert_eq!(settings.backoff.after(1), Duration::from_secs(1));
/// assert_eq!(settings.backoff.after(40), Duration::from_secs(10));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Settings {
    /// How long a group stays out of the queue after a failure whose cause is not known to be
    /// gone.
    pub backoff: Backoff,
    /// How often a group is tried again although nothing is known to have happened that could
    /// help it. Only groups whose failure no count explains are retried so: plugins of reach
    /// `Cluster` or that read the time may change their mind unseen. Default 5 minutes.
    pub max_in_unschedulable: Duration,
    /// How long a plan is held for a permit, unless the group says otherwise. Default 5 minutes.
    pub permit_timeout: Duration,
    /// How long binding may take before it counts as failed. Default 10 minutes.
    pub bind_timeout: Duration,
    /// How long a started gang may be below its minimum before it is reported for eviction.
    /// Default 60 s, as KAI's stale gangs.
    pub stale_after: Duration,
    /// What a head that cannot be placed means for those behind it.
    pub head_of_line: HeadOfLine,
    /// As [`Settings::head_of_line`], for single queues by name.
    pub queues: BTreeMap<String, HeadOfLine>,
    /// After so many failures in a row a group goes behind its equals. `None`: never.
    pub demote_after: Option<u32>,
    /// What a failed binding means for the rest of the gang. A group with
    /// [`keep_running`](crate::model::PodGroup::keep_running) is always kept if it can be.
    pub on_bind_failure: OnBindFailure,
    /// Whether the head of the line may put capacity aside, and how much.
    pub reservation: Option<ReservationPolicy>,
    /// The strategy of groups that have none of their own; `None`: the framework's.
    pub strategy: Option<Strategy>,
    /// Steps a search may take.
    pub budget: u64,
    /// What decides between equal scores; give schedulers that plan side by side different ones.
    pub salt: u64,
    /// How many events are kept for [`poll_event`](super::Scheduler::poll_event); the oldest are
    /// dropped, and counted.
    pub event_capacity: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            backoff: Backoff::default(),
            max_in_unschedulable: Duration::from_secs(300),
            permit_timeout: Duration::from_secs(300),
            bind_timeout: Duration::from_secs(600),
            stale_after: Duration::from_secs(60),
            head_of_line: HeadOfLine::BestEffort,
            queues: BTreeMap::new(),
            demote_after: None,
            on_bind_failure: OnBindFailure::UndoAll,
            reservation: None,
            strategy: None,
            budget: DEFAULT_BUDGET,
            salt: 0,
            event_capacity: 1 << 16,
        }
    }
}

impl Settings {
    /// The rule of a queue.
    pub fn rule(&self, queue: &str) -> HeadOfLine {
        self.queues.get(queue).copied().unwrap_or(self.head_of_line)
    }
}

/// A wait that doubles: `first · 2^(n−1)`, at most `most`. Default 1 s to 10 s, as
/// kube-scheduler's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_secs(1), most: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// The wait after so many failures in a row. Never zero, so that time moves between tries.
    pub fn after(self, failures: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .and_then(|factor| self.first.checked_mul(factor))
            .unwrap_or(self.most);
        doubled.min(self.most).max(Duration::from_nanos(1))
    }
}

/// What a head that cannot be placed means for those behind it in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub enum HeadOfLine {
    /// They are tried.
    #[default]
    BestEffort,
    /// They wait until the head is placed, gated or paused.
    StrictFifo,
}

/// What a failed binding means for the rest of the gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub enum OnBindFailure {
    /// All of them are undone.
    #[default]
    UndoAll,
    /// They stay if the minimum holds without those that failed.
    KeepMinimum,
}

/// How the first waiting groups may put capacity aside as it frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub struct ReservationPolicy {
    /// How long a group must have been ready before it may reserve. Default 60 s.
    pub after: Duration,
    /// How long a reservation lasts at most; afterwards the group must wait `after` anew.
    /// Default 1 hour.
    pub timeout: Duration,
    /// How many groups may reserve at a time. Default 1.
    pub at_most: usize,
}

impl Default for ReservationPolicy {
    fn default() -> ReservationPolicy {
        ReservationPolicy {
            after: Duration::from_secs(60),
            timeout: Duration::from_secs(3_600),
            at_most: 1,
        }
    }
}

/// What an order may read of a group that waits.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// The root group, without its pods.
    pub group: &'a crate::model::PodGroup,
    /// When it joined the queue, or was demoted last.
    pub since: Time,
    /// Failures in a row.
    pub attempts: u32,
    /// How many pods wait.
    pub pending: usize,
}

/// An embedder's own order of the queue.
///
/// Groups are tried by rank, lower first; then by priority, higher first; then by time; then in
/// the order in which they came. The rank is asked for when a group joins the queue; after
/// anything else it rests on has changed, call
/// [`Scheduler::handle_reorder`](super::Scheduler::handle_reorder).
///
/// Any `Fn(&Waiting) -> i64` is an order.
pub trait QueueOrder: Send + Sync {
    /// The rank of a group.
    fn rank(&self, waiting: &Waiting<'_>) -> i64;
}

impl<F: Fn(&Waiting<'_>) -> i64 + Send + Sync> QueueOrder for F {
    fn rank(&self, waiting: &Waiting<'_>) -> i64 {
        self(waiting)
    }
}

/// The order by priority, then time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PriorityThenTime;

impl QueueOrder for PriorityThenTime {
    fn rank(&self, _: &Waiting<'_>) -> i64 {
        0
    }
}
