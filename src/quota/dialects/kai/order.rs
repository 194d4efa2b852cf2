//! The order of jobs in a queue, and of pod sets in a job.

use core::cmp::Ordering;

/// A pod set, as order and gangs see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodSetState<'a> {
    /// The name.
    pub name: &'a str,
    /// How many pods are placed, or will be once others are gone.
    pub active: u32,
    /// How many it needs at least.
    pub min_available: u32,
}

impl PodSetState<'_> {
    fn is_satisfied(&self) -> bool {
        self.active >= self.min_available
    }
}

/// How a job stands towards the minima of its pod sets, in the order in which jobs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ElasticState {
    /// Some pod set has less than its minimum.
    Below,
    /// All have their minimum, and none has more.
    At,
    /// All have their minimum, and some have more.
    Above,
}

/// How a job stands towards its minima.
///
/// ```
/// use phalanx::quota::kai::{ElasticState, PodSetState, elastic_state};
///
/// let workers = |active| PodSetState { name: "workers", active, min_available: 2 };
/// assert_eq!(elastic_state([workers(1)]), ElasticState::Below);
/// assert_eq!(elastic_state([workers(2), workers(3)]), ElasticState::Above);
/// ```
pub fn elastic_state<'a>(sets: impl IntoIterator<Item = PodSetState<'a>>) -> ElasticState {
    let mut state = ElasticState::At;
    for set in sets {
        match set.active.cmp(&set.min_available) {
            Ordering::Less => return ElasticState::Below,
            Ordering::Equal => {}
            Ordering::Greater => state = ElasticState::Above,
        }
    }
    state
}

/// The order in which pod sets are given pods: those below their minimum; then by what they have over
/// it; then by name.
pub fn pod_set_order(a: &PodSetState<'_>, b: &PodSetState<'_>) -> Ordering {
    let product = |of: &PodSetState<'_>, by: &PodSetState<'_>| {
        u64::from(of.active) * u64::from(by.min_available.max(1))
    };
    let ratio = if a.is_satisfied() && b.is_satisfied() {
        product(a, b).cmp(&product(b, a))
    } else {
        Ordering::Equal
    };
    (a.is_satisfied().cmp(&b.is_satisfied())).then(ratio).then(a.name.cmp(b.name))
}

/// A job among those of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KaiJobStanding<'a> {
    /// Higher goes first.
    pub priority: i64,
    /// How it stands towards its minima.
    pub elastic: ElasticState,
    /// Since when it waits; less is older.
    pub since: i64,
    /// The name; decides the last ties.
    pub name: &'a str,
}

/// The order of jobs in a queue: priority, then those below their minimum, then age, then the name.
pub fn job_order(a: &KaiJobStanding<'_>, b: &KaiJobStanding<'_>) -> Ordering {
    (b.priority.cmp(&a.priority))
        .then(a.elastic.cmp(&b.elastic))
        .then(a.since.cmp(&b.since))
        .then(a.name.cmp(b.name))
}

#[cfg(test)]
mod tests;
