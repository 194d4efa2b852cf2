//! The cost of a set of victims.

use core::fmt;

/// Cost of a set of victims. Costs are compared field by field, in this order; least is best.
///
/// ```
/// use phalanx::preempt::Cost;
///
/// let many_cheap = Cost { highest_priority: Some(1), work_lost: 9_000, units: 7, ..Cost::NOTHING };
/// let one_dear = Cost { highest_priority: Some(2), units: 1, ..Cost::NOTHING };
/// let against_a_budget = Cost { budgets_broken: 1, ..Cost::NOTHING };
/// assert!(many_cheap < one_dear && one_dear < against_a_budget);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
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
