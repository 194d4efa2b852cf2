//! Options of the scheduler.

mod backfill;
mod elastic;

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

pub use self::backfill::{Backfill, BackfillRule};
pub use self::elastic::{Elastic, Repair};
use crate::base::Time;
use crate::framework::Strategy;
use crate::place::request::Request;
use crate::preempt;

/// Options of a [`Scheduler`](crate::queue::Scheduler), with kube-scheduler's defaults where it has the
/// option.
///
/// ```
/// use core::time::Duration;
/// use phalanx::queue::{HeadOfLine, ReservationPolicy, Settings};
///
/// let settings = Settings::new()
///     .head_of_line(HeadOfLine::StrictFifo)
///     .reservation(ReservationPolicy::new().at_most(2));
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
    /// Longest time that preparing a plan may take before it is undone. `None`, the default: no plan
    /// is prepared. Otherwise each plan that gives devices or volumes to claims goes out as
    /// [`Decision::Prepare`](crate::queue::Decision::Prepare) first.
    pub prepare_within: Option<Duration>,
    /// Longest time that binding a plan may take before it counts as failed. Default 10 minutes.
    pub bind_timeout: Duration,
    /// Time that a started gang may stay below its minimum before it is reported for eviction.
    /// Default 60 s, as KAI's stale gangs.
    pub stale_after: Duration,
    /// The groups that may start before those ahead of them in line, and the capacity that is kept for
    /// the first.
    pub discipline: Discipline,
    /// Treatment of the groups behind a head, for single queues by name. It replaces
    /// [`Discipline::head_of_line`]. [`Discipline::Backfill`] looks at all queues as one line and does
    /// not read it.
    pub queues: BTreeMap<String, HeadOfLine>,
    /// Number of consecutive failures after which a group moves behind its equals. `None`: never.
    pub demote_after: Option<u32>,
    /// Whether a gang that has not started, but has members bound, is evicted after
    /// [`Settings::stale_after`] as well. That is what is left of bindings whose scheduler was
    /// killed, or of a gang that lost members while it was bound. Default: no.
    pub evict_half_bound: bool,
    /// Treatment of a gang after one of its bindings failed. A group with
    /// [`keep_running`](crate::model::PodGroup::keep_running) is always kept if its minimum allows.
    pub on_bind_failure: OnBindFailure,
    /// Preemption by groups that do not fit. `None`: no group preempts.
    pub preemption: Option<PreemptionSettings>,
    /// Growth beyond minima, members that yield first, and repair.
    pub elastic: Elastic,
    /// Strategy of groups without one of their own. `None`: the framework's.
    pub strategy: Option<Strategy>,
    /// Step budget of a search; see [`Request::budget`](crate::place::Request::budget).
    pub budget: u64,
    /// Tie-break between equal scores. Give schedulers that plan side by side different salts.
    pub salt: u64,
    /// Number of events kept for [`poll_event`](crate::queue::Scheduler::poll_event); the oldest are
    /// dropped, and counted in [`Metrics::events_dropped`](crate::queue::Metrics::events_dropped).
    pub event_capacity: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            backoff: Backoff::default(),
            max_in_unschedulable: Duration::from_secs(300),
            permit_timeout: Duration::from_secs(300),
            prepare_within: None,
            bind_timeout: Duration::from_secs(600),
            stale_after: Duration::from_secs(60),
            discipline: Discipline::BestEffort,
            queues: BTreeMap::new(),
            demote_after: None,
            evict_half_bound: false,
            on_bind_failure: OnBindFailure::UndoAll,
            preemption: None,
            elastic: Elastic::default(),
            strategy: None,
            budget: Request::DEFAULT_BUDGET,
            salt: 0,
            event_capacity: 1 << 16,
        }
    }
}

impl Settings {
    /// The defaults.
    pub fn new() -> Settings {
        Settings::default()
    }

    /// Sets the back-off after a failure.
    #[must_use]
    pub fn backoff(mut self, first: Duration, most: Duration) -> Settings {
        self.backoff = Backoff { first, most };
        self
    }

    /// Sets the longest stay of an unschedulable group without a new attempt.
    #[must_use]
    pub fn max_in_unschedulable(mut self, span: Duration) -> Settings {
        self.max_in_unschedulable = span;
        self
    }

    /// Sets the longest time that a permit may hold a plan.
    #[must_use]
    pub fn permit_timeout(mut self, span: Duration) -> Settings {
        self.permit_timeout = span;
        self
    }

    /// Has plans prepared that give devices or volumes to claims, each within a time.
    #[must_use]
    pub fn prepare_within(mut self, span: Duration) -> Settings {
        self.prepare_within = Some(span);
        self
    }

    /// Sets the longest time that binding a plan may take.
    #[must_use]
    pub fn bind_timeout(mut self, span: Duration) -> Settings {
        self.bind_timeout = span;
        self
    }

    /// Sets how long a started gang may stay below its minimum.
    #[must_use]
    pub fn stale_after(mut self, span: Duration) -> Settings {
        self.stale_after = span;
        self
    }

    /// Sets the discipline of the line.
    #[must_use]
    pub fn discipline(mut self, discipline: Discipline) -> Settings {
        self.discipline = discipline;
        self
    }

    /// Sets the treatment of the groups behind a head that cannot be placed. Reservations stay;
    /// backfill ends.
    #[must_use]
    pub fn head_of_line(mut self, rule: HeadOfLine) -> Settings {
        self.discipline = Discipline::in_order(rule, self.discipline.reservation());
        self
    }

    /// Sets the treatment of the groups behind the head of one queue.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>, rule: HeadOfLine) -> Settings {
        self.queues.insert(name.into(), rule);
        self
    }

    /// Sets the number of consecutive failures after which a group moves behind its equals.
    #[must_use]
    pub fn demote_after(mut self, failures: u32) -> Settings {
        self.demote_after = Some(failures);
        self
    }

    /// Sets the treatment of a gang after one of its bindings failed.
    #[must_use]
    pub fn on_bind_failure(mut self, rule: OnBindFailure) -> Settings {
        self.on_bind_failure = rule;
        self
    }

    /// Sets [`Settings::evict_half_bound`].
    #[must_use]
    pub fn evict_half_bound(mut self, evict: bool) -> Settings {
        self.evict_half_bound = evict;
        self
    }

    /// Lets the first groups in line reserve capacity. The treatment of the groups behind a head stays;
    /// backfill ends.
    #[must_use]
    pub fn reservation(mut self, policy: ReservationPolicy) -> Settings {
        self.discipline = Discipline::in_order(self.discipline.head_of_line(), Some(policy));
        self
    }

    /// Lets groups pass the first of the line by a rule of backfill. Reservations, and the treatment of
    /// the groups behind a head, end.
    #[must_use]
    pub fn backfill(mut self, backfill: Backfill) -> Settings {
        self.discipline = Discipline::Backfill(backfill);
        self
    }

    /// Lets groups that do not fit preempt.
    #[must_use]
    pub fn preemption(mut self, settings: PreemptionSettings) -> Settings {
        self.preemption = Some(settings);
        self
    }

    /// Sets how gangs grow, give members back and are repaired.
    #[must_use]
    pub fn elastic(mut self, elastic: Elastic) -> Settings {
        self.elastic = elastic;
        self
    }

    /// Sets the strategy of groups without one of their own.
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Settings {
        self.strategy = Some(strategy);
        self
    }

    /// Sets the step budget of a search.
    #[must_use]
    pub fn budget(mut self, steps: u64) -> Settings {
        self.budget = steps;
        self
    }

    /// Sets the tie-break between equal scores.
    #[must_use]
    pub fn salt(mut self, salt: u64) -> Settings {
        self.salt = salt;
        self
    }

    /// Sets the number of events kept.
    #[must_use]
    pub fn event_capacity(mut self, events: usize) -> Settings {
        self.event_capacity = events;
        self
    }

    /// Treatment of the groups behind the head of one queue.
    pub fn rule(&self, queue: &str) -> HeadOfLine {
        let general = self.discipline.head_of_line();
        match self.discipline {
            Discipline::Backfill(_) => general,
            _ => self.queues.get(queue).copied().unwrap_or(general),
        }
    }
}

/// The groups that may start before those ahead of them in line, and the capacity that is kept for the
/// first.
///
/// | discipline | a head that cannot be placed | capacity kept for it |
/// |---|---|---|
/// | `BestEffort` | the groups behind it are tried | none |
/// | `StrictFifo` | the groups behind it wait | none |
/// | `Reserve` | as `behind` says | as it frees, by `policy` |
/// | `Backfill` | the groups behind it start if they delay no promise | a promised start and place |
///
/// [`Settings::queues`] names single queues in which the groups behind a head are treated otherwise.
///
/// ```
/// use phalanx::queue::{Backfill, Discipline, HeadOfLine, ReservationPolicy, Settings};
///
/// let policy = ReservationPolicy::new();
/// let settings = Settings::new().head_of_line(HeadOfLine::StrictFifo).reservation(policy);
/// let behind = HeadOfLine::StrictFifo;
/// assert_eq!(settings.discipline, Discipline::Reserve { behind, policy });
/// // Backfill has no reservations: it promises starts instead.
/// let settings = settings.backfill(Backfill::easy());
/// assert_eq!(settings.discipline.reservation(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum Discipline {
    /// The groups behind a head that cannot be placed are tried, as [`HeadOfLine::BestEffort`].
    #[default]
    BestEffort,
    /// The groups behind a head wait until it is placed, as [`HeadOfLine::StrictFifo`].
    StrictFifo,
    /// The first groups in line reserve capacity as it frees.
    Reserve {
        /// Treatment of the groups behind a head that cannot be placed.
        behind: HeadOfLine,
        /// Rules of the reservations.
        policy: ReservationPolicy,
    },
    /// The groups behind a head start if no promised start comes later. All queues are one line.
    Backfill(Backfill),
}

impl Discipline {
    /// The discipline with a treatment of the groups behind a head, and reservations if there is a
    /// policy.
    pub fn in_order(behind: HeadOfLine, reservation: Option<ReservationPolicy>) -> Discipline {
        match (reservation, behind) {
            (Some(policy), behind) => Discipline::Reserve { behind, policy },
            (None, HeadOfLine::BestEffort) => Discipline::BestEffort,
            (None, HeadOfLine::StrictFifo) => Discipline::StrictFifo,
        }
    }

    /// Treatment of the groups behind a head that cannot be placed. Backfill tries them.
    pub fn head_of_line(&self) -> HeadOfLine {
        match *self {
            Discipline::BestEffort | Discipline::Backfill(_) => HeadOfLine::BestEffort,
            Discipline::StrictFifo => HeadOfLine::StrictFifo,
            Discipline::Reserve { behind, .. } => behind,
        }
    }

    /// Rules of reservations, if there are any.
    pub fn reservation(&self) -> Option<ReservationPolicy> {
        match *self {
            Discipline::Reserve { policy, .. } => Some(policy),
            _ => None,
        }
    }

    /// Rules of backfill, if groups start by them.
    pub fn backfill(&self) -> Option<Backfill> {
        match *self {
            Discipline::Backfill(backfill) => Some(backfill),
            _ => None,
        }
    }
}

/// An exponential back-off: `first · 2^(n−1)`, at most `most`. Default 1 s to 10 s, as
/// kube-scheduler's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
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
    /// A back-off from `first` up to `most`.
    pub fn new(first: Duration, most: Duration) -> Backoff {
        Backoff { first, most }
    }

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
#[non_exhaustive]
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
#[non_exhaustive]
pub enum OnBindFailure {
    /// The whole plan is undone.
    #[default]
    UndoAll,
    /// The other members stay if the minimum holds without the failed ones.
    KeepMinimum,
    /// The other members stay, and places for the failed ones are looked for. For embedders that
    /// cannot take a binding back; with [`Settings::evict_half_bound`], a gang that does not get to
    /// its minimum is evicted in the end.
    Retry,
}

/// Rules for reservations by the first groups in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
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

impl ReservationPolicy {
    /// The defaults.
    pub fn new() -> ReservationPolicy {
        ReservationPolicy::default()
    }

    /// Sets the time that a group must have been ready before it may reserve.
    #[must_use]
    pub fn after(mut self, span: Duration) -> ReservationPolicy {
        self.after = span;
        self
    }

    /// Sets the longest duration of a reservation.
    #[must_use]
    pub fn timeout(mut self, span: Duration) -> ReservationPolicy {
        self.timeout = span;
        self
    }

    /// Sets the number of reservations at a time.
    #[must_use]
    pub fn at_most(mut self, reservations: usize) -> ReservationPolicy {
        self.at_most = reservations;
        self
    }
}

/// Rules of preemption by groups that do not fit.
///
/// The policy that picks victims is code, as the order of the queue is: see
/// [`Scheduler::with_policy`](crate::queue::Scheduler::with_policy).
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
    /// Largest number of units that may move so that a group fits: moves are searched before
    /// victims. Default 0: nothing moves. The policy that picks units to move is code: see
    /// [`Scheduler::with_move_policy`](crate::queue::Scheduler::with_move_policy).
    pub consolidation: u32,
    /// Whether victims are searched over quota and room at once, where those that quota names by
    /// itself make no room; see [`reclaim`](crate::reclaim). Default `None`: in this crate's own
    /// dialect, not in those of other schedulers
    /// ([`Tenants::yields_jointly`](crate::quota::Tenants::yields_jointly)). Dialects that do not say
    /// which sets may yield go on as before.
    pub joint: Option<bool>,
    /// How long a group waits before victims or moves are searched for it, so that nodes can be added
    /// first. Default 0.
    pub delay: Duration,
}

impl Default for PreemptionSettings {
    fn default() -> PreemptionSettings {
        PreemptionSettings {
            budget: preempt::PreemptionRequest::DEFAULT_BUDGET,
            timeout: Duration::from_secs(600),
            start_timeout: Duration::from_secs(120),
            grace_period: Duration::from_secs(120),
            consolidation: 0,
            joint: None,
            delay: Duration::ZERO,
        }
    }
}

/// The view of a waiting group that a [`QueueOrder`] reads.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
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
/// reads, call [`Scheduler::handle_reorder`](crate::queue::Scheduler::handle_reorder).
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

impl PreemptionSettings {
    /// The defaults.
    pub fn new() -> PreemptionSettings {
        PreemptionSettings::default()
    }

    /// Sets the steps that a search for victims may take.
    #[must_use]
    pub fn budget(mut self, steps: u64) -> PreemptionSettings {
        self.budget = steps;
        self
    }

    /// Sets the longest time for which room is held while victims go.
    #[must_use]
    pub fn timeout(mut self, span: Duration) -> PreemptionSettings {
        self.timeout = span;
        self
    }

    /// Sets the longest time from a decision until the eviction of a victim has begun.
    #[must_use]
    pub fn start_timeout(mut self, span: Duration) -> PreemptionSettings {
        self.start_timeout = span;
        self
    }

    /// Sets the longest time that a victim may take to go.
    #[must_use]
    pub fn grace_period(mut self, span: Duration) -> PreemptionSettings {
        self.grace_period = span;
        self
    }

    /// Lets at most so many units move so that a group fits, before any is evicted.
    ///
    /// ```
    /// use phalanx::queue::{PreemptionSettings, Settings};
    ///
    /// // Up to four running units move to other nodes; where that does not help, victims go.
    /// let settings = Settings::new().preemption(PreemptionSettings::new().consolidation(4));
    /// # assert_eq!(settings.preemption.unwrap().consolidation, 4);
    /// ```
    #[must_use]
    pub fn consolidation(mut self, units: u32) -> PreemptionSettings {
        self.consolidation = units;
        self
    }

    /// Sets whether victims are searched over quota and room at once, whatever the dialect. Dialects
    /// that do not say which sets may yield ([`Tenants::yields`](crate::quota::Tenants::yields)) go on as
    /// before.
    ///
    /// ```
    /// use phalanx::queue::PreemptionSettings;
    ///
    /// // Kueue's tenants name victims by Kueue's own search, unless this is said.
    /// let preemption = PreemptionSettings::new().joint(true);
    /// # assert_eq!(preemption.joint, Some(true));
    /// ```
    #[must_use]
    pub fn joint(mut self, joint: bool) -> PreemptionSettings {
        self.joint = Some(joint);
        self
    }

    /// Sets how long a group waits before victims or moves are searched for it. An autoscaler that
    /// adds nodes within that time spares the victims.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> PreemptionSettings {
        self.delay = delay;
        self
    }
}
