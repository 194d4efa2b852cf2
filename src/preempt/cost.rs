//! The cost of a set of victims.

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
