//! The cost of a set of victims, and of a set of moves with the claim on it.

use core::cmp::Ordering;
use core::fmt;

/// The cost of a set of victims; least is best.
///
/// Costs are compared by budgets broken, then by highest priority, work lost, units and pods.
///
/// ```
/// use phalanx::preempt::Cost;
///
/// let mut many_cheap = Cost::NOTHING;
/// (many_cheap.highest_priority, many_cheap.work_lost, many_cheap.units) = (Some(1), 9_000, 7);
/// let mut one_dear = Cost::NOTHING;
/// (one_dear.highest_priority, one_dear.units) = (Some(2), 1);
/// let mut against_a_budget = Cost::NOTHING;
/// against_a_budget.budgets_broken = 1;
/// assert!(many_cheap < one_dear && one_dear < against_a_budget);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Cost {
    /// Evictions beyond what budgets allow, summed over the budgets.
    pub budgets_broken: u64,
    /// The highest priority among the units taken; `None` if none is.
    pub highest_priority: Option<i32>,
    /// Pods × milliseconds run, or what the [`Policy`](super::Policy) puts in its place.
    pub work_lost: u64,
    /// How many units are taken.
    pub units: u64,
    /// How many pods go.
    pub pods: u64,
}

impl Cost {
    /// The cost of no victim.
    pub const NOTHING: Cost =
        Cost { budgets_broken: 0, highest_priority: None, work_lost: 0, units: 0, pods: 0 };
}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Cost) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cost {
    fn cmp(&self, other: &Cost) -> Ordering {
        let key = |cost: &Cost| {
            let Cost { budgets_broken, highest_priority, work_lost, units, pods } = *cost;
            (budgets_broken, highest_priority, work_lost, units, pods)
        };
        key(self).cmp(&key(other))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { budgets_broken, highest_priority, work_lost, units, pods } = self;
        write!(f, "{units} units of {pods} pods")?;
        if let Some(priority) = highest_priority {
            write!(f, ", highest priority {priority}")?;
        }
        write!(f, ", {}.{:03} pod-seconds lost", work_lost / 1_000, work_lost % 1_000)?;
        match budgets_broken {
            0 => Ok(()),
            count => write!(f, ", {count} evictions beyond budgets"),
        }
    }
}

/// The cost of a set of moves; least is best.
///
/// Costs are compared by budgets broken, then by pods, units, what stops, highest priority and work
/// lost.
///
/// ```
/// use phalanx::preempt::MoveCost;
///
/// let mut one_pod = MoveCost::NOTHING;
/// (one_pod.pods, one_pod.units, one_pod.highest_priority) = (1, 1, Some(9));
/// let mut two_pods = MoveCost::NOTHING;
/// (two_pods.pods, two_pods.units, two_pods.highest_priority) = (2, 1, Some(1));
/// assert!(one_pod < two_pods);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct MoveCost {
    /// Disruptions beyond what budgets allow, summed over the budgets: a move is a disruption.
    pub budgets_broken: u64,
    /// How many pods move.
    pub pods: u64,
    /// How many units move.
    pub units: u64,
    /// Cost of units that have to stop for a while, as if they were evicted.
    pub stopped: Cost,
    /// The highest priority among the units that move; `None` if none does.
    pub highest_priority: Option<i32>,
    /// Pods × milliseconds run of what moves, or what the [`Policy`](crate::preempt::Policy) puts in
    /// its place.
    pub work_lost: u64,
}

/// The claim on moves that were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum MoveClaim {
    /// No other moves cost less.
    Least,
    /// No other moves break fewer budgets, or as many and move fewer pods.
    Fewest,
    /// The best that was found within the budget.
    Found,
}

impl MoveCost {
    /// The cost of no moves.
    pub const NOTHING: MoveCost = MoveCost {
        budgets_broken: 0,
        pods: 0,
        units: 0,
        stopped: Cost::NOTHING,
        highest_priority: None,
        work_lost: 0,
    };

    /// The lead of the search: budgets broken and pods.
    pub(crate) fn lead(&self) -> (u64, u64) {
        (self.budgets_broken, self.pods)
    }
}

impl PartialOrd for MoveCost {
    fn partial_cmp(&self, other: &MoveCost) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MoveCost {
    fn cmp(&self, other: &MoveCost) -> Ordering {
        let key = |cost: &MoveCost| {
            let MoveCost { budgets_broken, pods, units, stopped, highest_priority, work_lost } =
                *cost;
            (budgets_broken, pods, units, stopped, highest_priority, work_lost)
        };
        key(self).cmp(&key(other))
    }
}

impl fmt::Display for MoveCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MoveCost { budgets_broken, pods, units, stopped, .. } = self;
        write!(f, "{pods} pods of {units} units move")?;
        if stopped.pods > 0 {
            write!(f, ", {} pods of {} units stop for a while", stopped.pods, stopped.units)?;
        }
        match budgets_broken {
            0 => Ok(()),
            count => write!(f, ", {count} disruptions beyond budgets"),
        }
    }
}

impl fmt::Display for MoveClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MoveClaim::Least => "proved least",
            MoveClaim::Fewest => "proved fewest",
            MoveClaim::Found => "the best found",
        })
    }
}
