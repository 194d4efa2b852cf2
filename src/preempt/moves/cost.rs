//! The cost of a set of moves, and the claim on it.

use core::fmt;

use crate::preempt::cost::Cost;

/// Cost of a set of moves. Costs are compared field by field, in this order; least is best.
///
/// ```
/// use phalanx::preempt::MoveCost;
///
/// let one_pod = MoveCost { pods: 1, units: 1, highest_priority: Some(9), ..MoveCost::NOTHING };
/// let two_pods = MoveCost { pods: 2, units: 1, highest_priority: Some(1), ..MoveCost::NOTHING };
/// assert!(one_pod < two_pods);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
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
