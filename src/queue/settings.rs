//! Options of the scheduler.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use crate::base::Time;
use crate::framework::Strategy;
use crate::place::request::DEFAULT_BUDGET;
use crate::preempt;

/// Options of a [`Scheduler`](super::Scheduler), with kube-scheduler's defaults where it has the
/// option.
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
    /// Back-off of a group after a failure whose cause is not known to have gone.
    pub backoff: Backoff,
    /// Longest stay of an unschedulable group without a new attempt, as kube-scheduler's
    /// `podMaxInUnschedulablePodsDuration`. It applies only to failures that capacity does not
    /// explain: plugins that read the time, or whose reach is `Cluster`, may change their answer
    /// without an event. Default 5 minutes.
    pub max_in_unschedulable: Duration,
    /// Longest time that a permit may hold a plan, unless the group sets its own. Default 5
    /// minutes.
    pub permit_timeout: Duration,
    /// Longest time that binding a plan may take before it counts as failed. Default 10 minutes.
    pub bind_timeout: Duration,
    /// Time that a started gang may stay below its minimum before it is reported for eviction.
    /// Default 60 s, as KAI's stale gangs.
    pub stale_after: Duration,
    /// Treatment of the groups behind a head that cannot be placed.
    pub head_of_line: HeadOfLine,
    /// As [`Settings::head_of_line`], for single queues by name.
    pub queues: BTreeMap<String, HeadOfLine>,
    /// Number of consecutive failures after which a group moves behind its equals. `None`: never.
    pub demote_after: Option<u32>,
    /// Treatment of a gang after one of its bindings failed. A group with
    /// [`keep_running`](crate::model::PodGroup::keep_running) is always kept if its minimum allows.
    pub on_bind_failure: OnBindFailure,
    /// Reservations for the first groups in line. `None`: no reservations.
    pub reservation: Option<ReservationPolicy>,
    /// Preemption by groups that do not fit. `None`: no group preempts.
    pub preemption: Option<PreemptionSettings>,
    /// Strategy of groups without one of their own. `None`: the framework's.
    pub strategy: Option<Strategy>,
    /// Step budget of a search; see [`Request::budget`](crate::place::Request::budget).
    pub budget: u64,
    /// Tie-break between equal scores. Give schedulers that plan side by side different salts.
    pub salt: u64,
    /// Number of events kept for [`poll_event`](super::Scheduler::poll_event); the oldest are
    /// dropped, and counted in [`Metrics::events_dropped`](super::Metrics::events_dropped).
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
            preemption: None,
            strategy: None,
            budget: DEFAULT_BUDGET,
            salt: 0,
            event_capacity: 1 << 16,
        }
    }
}

impl Settings {
    /// The rule of one queue.
    pub fn rule(&self, queue: &str) -> HeadOfLine {
        self.queues.get(queue).copied().unwrap_or(self.head_of_line)
    }
}

/// An exponential back-off: `first · 2^(n−1)`, at most `most`. Default 1 s to 10 s, as
/// kube-scheduler's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Backoff {
    /// Back-off after the first failure.
    pub first: Duration,
    /// Longest back-off.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_secs(1), most: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// Back-off after a number of consecutive failures. Never zero, so that time advances between
    /// attempts.
    pub fn after(self, failures: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .and_then(|factor| self.first.checked_mul(factor))
            .unwrap_or(self.most);
        doubled.min(self.most).max(Duration::from_nanos(1))
    }
}

/// Treatment of the groups behind a head that cannot be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub enum HeadOfLine {
    /// The groups behind are tried.
    #[default]
    BestEffort,
    /// The groups behind wait until the head is placed, gated or paused.
    StrictFifo,
}

/// Treatment of a gang after one of its bindings failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub enum OnBindFailure {
    /// The whole plan is undone.
    #[default]
    UndoAll,
    /// The other members stay if the minimum holds without the failed ones.
    KeepMinimum,
}

/// Rules for reservations by the first groups in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub struct ReservationPolicy {
    /// Time that a group must have been ready before it may reserve. Default 60 s.
    pub after: Duration,
    /// Longest duration of a reservation; afterwards the group waits `after` again. Default 1 hour.
    pub timeout: Duration,
    /// Number of reservations at a time. Default 1.
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

/// Rules of preemption by groups that do not fit.
///
/// What may be taken is code, as the order of the queue is: see
/// [`Scheduler::with_policy`](super::Scheduler::with_policy).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct PreemptionSettings {
    /// Steps that a search for victims may take; see
    /// [`PreemptionRequest::budget`](preempt::PreemptionRequest::budget).
    pub budget: u64,
    /// Longest time for which room is held for a group while its victims go; afterwards it is tried
    /// as any other. Default 10 minutes.
    pub timeout: Duration,
    /// Longest time from a decision until the eviction of a victim has begun: until one of its pods
    /// is being deleted, or is gone. Default 2 minutes.
    pub start_timeout: Duration,
    /// Longest time that a victim may take to go once its eviction has begun; the grace periods of
    /// its pods are part of it. Default 2 minutes.
    pub grace_period: Duration,
}

impl Default for PreemptionSettings {
    fn default() -> PreemptionSettings {
        PreemptionSettings {
            budget: preempt::DEFAULT_BUDGET,
            timeout: Duration::from_secs(600),
            start_timeout: Duration::from_secs(120),
            grace_period: Duration::from_secs(120),
        }
    }
}

/// The view of a waiting group that a [`QueueOrder`] reads.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// The root group, without its pods.
    pub group: &'a crate::model::PodGroup,
    /// Time at which the group joined the queue, or was last demoted.
    pub since: Time,
    /// Consecutive failures.
    pub attempts: u32,
    /// Number of pending pods.
    pub pending: usize,
}

/// The embedder's own queue order.
///
/// Groups are tried by rank, lower first; then by priority, higher first; then by time; then by
/// arrival. The rank is computed when a group joins the queue; after any other change of what it
/// reads, call [`Scheduler::handle_reorder`](super::Scheduler::handle_reorder).
///
/// Any `Fn(&Waiting) -> i64` is an order.
pub trait QueueOrder: Send + Sync {
    /// The rank of a group; lower ranks are tried first.
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
