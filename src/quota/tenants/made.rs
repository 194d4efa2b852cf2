//! Tenants of each dialect.

use super::Tenants;
use crate::quota::dialects::DialectSettings;
use crate::quota::dialects::kai::KaiSettings;
use crate::quota::dialects::koordinator::KoordinatorSettings;
use crate::quota::dialects::kueue::settings::KueueSettings;
use crate::quota::dialects::own::TenantSettings;
use crate::quota::dialects::volcano::VolcanoRule;
use crate::quota::dialects::yunikorn::YuniKornSettings;

impl Default for Tenants {
    /// [`Tenants::with`] the default settings.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
    ///
    /// let mut tenants = Tenants::default();
    /// tenants.set_flavor(Flavor::new("all"));
    /// for team in ["vision", "speech"] {
    ///     tenants.set_queue(Queue::leaf(team).parent("labs").quota("all", "gpu", Quota::nominal(8)))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     Claim::new(name, queue).pods(PodSet::new("main", 1, [("gpu", gpus)]))
    /// };
    /// // `speech` is idle, so `vision` borrows.
    /// for name in ["one", "two", "three"] {
    ///     let claim = gang(name, "vision", 4);
    ///     let decision = tenants.decide(&claim)?;
    ///     tenants.admit(&claim, &decision.assignment, Time::ZERO)?;
    /// }
    /// // Once it is not, it takes back what is guaranteed to it, and no more.
    /// let decision = tenants.decide(&gang("own", "speech", 8))?;
    /// assert_eq!((decision.assignment.mode, decision.victims.len()), (AssignmentMode::Preempt, 1));
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    fn default() -> Tenants {
        Tenants::with(TenantSettings::default())
    }
}

impl Tenants {
    /// Kueue's semantics: cohorts, flavors and fungibility, classical order and preemption.
    pub fn kueue() -> Tenants {
        Tenants::kueue_with(KueueSettings::default())
    }

    /// Kueue's semantics with settings, fair sharing among them.
    pub fn kueue_with(settings: KueueSettings) -> Tenants {
        Tenants::of(DialectSettings::Kueue(settings))
    }

    /// This crate's own dialect: guarantees, limits, weighted shares, and age in the end; see
    /// `docs/tenants.md`. [`Tenants::default`] has the default settings.
    pub fn with(settings: TenantSettings) -> Tenants {
        Tenants::of(DialectSettings::Default(settings))
    }

    /// KAI-Scheduler's semantics: what is fair by level, priority and remainder; whose turn it is;
    /// what may be taken back. See `docs/tenants.md`.
    ///
    /// [`Quota::deserved`](crate::quota::Quota::deserved) is what a queue is promised, without it
    /// [`Quota::nominal`](crate::quota::Quota::nominal); it may be [`UNLIMITED`](crate::quota::UNLIMITED).
    /// [`Quota::limit`](crate::quota::Quota::limit) is the most it may hold, and
    /// [`Quota::over_quota_weight`](crate::quota::Quota::over_quota_weight) its weight in the surplus;
    /// without that, the queue's weight counts.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
    ///
    /// let mut tenants = Tenants::kai();
    /// tenants.set_flavor(Flavor::new("all"));
    /// for team in ["vision", "speech"] {
    ///     tenants.set_queue(Queue::leaf(team).quota("all", "gpu", Quota::nominal(8)))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     Claim::new(name, queue).priority(50).pods(PodSet::new("main", 1, [("gpu", gpus)]))
    /// };
    /// // `speech` is idle, so `vision` goes beyond what it deserves.
    /// for name in ["one", "two", "three"] {
    ///     let claim = gang(name, "vision", 5);
    ///     let decision = tenants.decide(&claim)?;
    ///     assert_eq!(decision.assignment.mode, AssignmentMode::Fit);
    ///     tenants.admit(&claim, &decision.assignment, Time::ZERO)?;
    /// }
    /// // What is fair for `speech` now is 8, and one gang has to make room.
    /// let decision = tenants.decide(&gang("own", "speech", 6))?;
    /// assert_eq!((decision.assignment.mode, decision.victims.len()), (AssignmentMode::Preempt, 1));
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    pub fn kai() -> Tenants {
        Tenants::kai_with(KaiSettings::default())
    }

    /// KAI-Scheduler's semantics with settings.
    pub fn kai_with(settings: KaiSettings) -> Tenants {
        Tenants::of(DialectSettings::Kai(settings))
    }

    /// Koordinator's semantics: elastic quotas with minima that are lent, weights and maxima.
    ///
    /// A queue's guarantee is its minimum, its limit the maximum, and a lending limit of 0 of any
    /// resource keeps the minimum from others. Weights are amounts, thousandths for `cpu`, as
    /// [`Weight::from_nanos`](crate::quota::Weight::from_nanos); the maximum unless stated. What there
    /// is to divide is the guarantee of the inner queue [`ROOT_QUOTA`](crate::quota::ROOT_QUOTA), in which every queue stands
    /// that names no parent. Each resource has one flavor.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, ROOT_QUOTA, Tenants};
    ///
    /// let mut tenants = Tenants::koordinator();
    /// tenants.set_flavor(Flavor::new("all"));
    /// tenants.set_queue(Queue::inner(ROOT_QUOTA).quota("all", "gpu", Quota::nominal(16)))?;
    /// for team in ["vision", "speech"] {
    ///     let quota = Quota::nominal(4).limit(12);
    ///     tenants.set_queue(Queue::leaf(team).quota("all", "gpu", quota))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     Claim::new(name, queue).pods(PodSet::new("main", 1, [("gpu", gpus)]))
    /// };
    /// let large = gang("large", "vision", 12);
    /// let decision = tenants.decide(&large)?;
    /// assert_eq!(decision.assignment.mode, AssignmentMode::Fit); // `speech` is idle
    /// tenants.admit(&large, &decision.assignment, Time::ZERO)?;
    /// let more = tenants.decide(&gang("more", "vision", 1))?;
    /// assert!(more.assignment.mode != AssignmentMode::Fit && more.victims.is_empty());
    /// // Minima first, then halves of the rest: both may use 8. What `vision` has, it keeps.
    /// let own = gang("own", "speech", 8);
    /// assert_eq!(tenants.decide(&own)?.assignment.mode, AssignmentMode::Fit);
    /// assert_eq!(tenants.decide(&gang("own", "speech", 9))?.assignment.mode, AssignmentMode::Preempt);
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    pub fn koordinator() -> Tenants {
        Tenants::koordinator_with(KoordinatorSettings::default())
    }

    /// Koordinator's semantics with settings.
    pub fn koordinator_with(settings: KoordinatorSettings) -> Tenants {
        Tenants::of(DialectSettings::Koordinator(settings))
    }

    /// Volcano's `proportion`: what a queue may have is what it deserves by weight, among those that
    /// use or ask for something.
    ///
    /// A queue's guarantee is its `guarantee`, its limit the `capability`. What there is in all is the
    /// guarantee of the inner queue [`ROOT`](crate::quota::volcano::ROOT), in which every queue stands that names no parent.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
    ///
    /// let mut tenants = Tenants::volcano_proportion();
    /// tenants.set_flavor(Flavor::new("all"));
    /// tenants.set_queue(Queue::inner("root").quota("all", "gpu", Quota::nominal(16)))?;
    /// for team in ["vision", "speech"] {
    ///     tenants.set_queue(Queue::leaf(team).quota("all", "gpu", Quota::nominal(0)))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     Claim::new(name, queue).pods(PodSet::new("main", 1, [("gpu", gpus)]))
    /// };
    /// for name in ["one", "two"] {
    ///     let claim = gang(name, "vision", 8);
    ///     let decision = tenants.decide(&claim)?;
    ///     assert_eq!(decision.assignment.mode, AssignmentMode::Fit, "`speech` is idle");
    ///     tenants.admit(&claim, &decision.assignment, Time::ZERO)?;
    /// }
    /// // Half of all is deserved now, and one of two gangs is beyond the other half.
    /// let decision = tenants.decide(&gang("own", "speech", 8))?;
    /// assert_eq!((decision.assignment.mode, decision.victims.len()), (AssignmentMode::Preempt, 1));
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    pub fn volcano_proportion() -> Tenants {
        Tenants::of(DialectSettings::Volcano(VolcanoRule::Proportion))
    }

    /// Volcano's `capacity`, flat or, if queues stand in others than the root, in a tree: a queue
    /// borrows up to its capability, and takes back what it deserves
    /// ([`Quota::deserved`](crate::quota::Quota::deserved)). The rest is as with
    /// [`Tenants::volcano_proportion`].
    pub fn volcano_capacity() -> Tenants {
        Tenants::of(DialectSettings::Volcano(VolcanoRule::Capacity))
    }

    /// Volcano's `drf`, its queues in a tree of weights as with `hdrf`. Limits aside each may have all,
    /// and the smallest dominant share over weight goes first, from the root down. The rest is as with
    /// [`Tenants::volcano_proportion`].
    pub fn volcano_drf() -> Tenants {
        Tenants::of(DialectSettings::Volcano(VolcanoRule::Drf))
    }

    /// YuniKorn's semantics: limits on the path, and preemption for what is guaranteed.
    ///
    /// A queue's guarantee is its `guaranteed`, its limit the `max`. What the nodes have is the
    /// guarantee of the inner queue `root`, in which every queue stands that names no parent.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
    ///
    /// let mut tenants = Tenants::yunikorn();
    /// tenants.set_flavor(Flavor::new("all"));
    /// tenants.set_queue(Queue::inner("root").quota("all", "gpu", Quota::nominal(16)))?;
    /// for team in ["vision", "speech"] {
    ///     tenants.set_queue(Queue::leaf(team).quota("all", "gpu", Quota::nominal(8)))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     Claim::new(name, queue).pods(PodSet::new("main", 1, [("gpu", gpus)]))
    /// };
    /// for name in ["one", "two", "three", "four"] {
    ///     let claim = gang(name, "vision", 4);
    ///     let decision = tenants.decide(&claim)?;
    ///     tenants.admit(&claim, &decision.assignment, Time::ZERO)?;
    /// }
    /// let decision = tenants.decide(&gang("own", "speech", 8))?;
    /// assert_eq!((decision.assignment.mode, decision.victims.len()), (AssignmentMode::Preempt, 2));
    /// // Nothing is taken back beyond the guarantee.
    /// assert!(tenants.decide(&gang("own", "speech", 9))?.victims.is_empty());
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    pub fn yunikorn() -> Tenants {
        Tenants::yunikorn_with(YuniKornSettings::default())
    }

    /// YuniKorn's semantics with settings.
    pub fn yunikorn_with(settings: YuniKornSettings) -> Tenants {
        Tenants::of(DialectSettings::YuniKorn(settings))
    }
}
