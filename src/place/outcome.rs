//! Outcomes of placement requests.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::certificate::Certificate;
#[cfg(feature = "peers")]
use super::failure::Failure;
use super::layout::Layout;
use crate::base::{ObjectName, Time};
use crate::state::Plan;

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[must_use]
pub enum Outcome {
    /// Every pod has its place; commit the plan.
    Placed(Plan),
    /// A plan was found, and a permit wants it to wait.
    Held {
        /// The plan.
        plan: Plan,
        /// When to give up waiting.
        until: Time,
        /// The permit.
        by: String,
    },
    /// A plan was found, and a permit forbids it.
    Denied {
        /// The permit.
        by: String,
        /// Why.
        reason: String,
    },
    /// No plan was found.
    Unplaced(Unplaced),
}

/// A group for which no plan was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Unplaced {
    /// The full name of the group.
    pub group: ObjectName,
    /// The claim.
    pub kind: UnplacedKind,
    /// The proof of [`UnplacedKind::Infeasible`]. There is none where enough members run already
    /// and what is pending fits nowhere.
    pub certificate: Option<Certificate>,
    /// The most that was placed at once before the budget ran out; under
    /// [`Strategy::Kueue`](crate::Strategy::Kueue), what was placed before the group that failed. It
    /// is no plan to commit: parts of the group are missing, and filters that read beyond a node
    /// were not all evaluated.
    pub partial: Option<Plan>,
    /// Why Kueue's algorithm has no assignment, under [`Strategy::Kueue`](crate::Strategy::Kueue).
    #[cfg(feature = "peers")]
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub failure: Option<Failure>,
}

/// The answer of a strategy, before a plan is made of it.
#[derive(Debug)]
pub(crate) enum Answer {
    Placed(Layout),
    Unplaced {
        /// The reason, without its partial plan.
        reason: Box<Unplaced>,
        /// The layout of the partial plan.
        partial: Option<Layout>,
    },
}

impl Answer {
    pub(crate) fn unplaced(reason: Unplaced, partial: Option<Layout>) -> Answer {
        Answer::Unplaced { reason: Box::new(reason), partial }
    }

    /// A group that a strategy without backtracking has found no place for.
    pub(crate) fn greedy(group: ObjectName) -> Answer {
        Answer::unplaced(Unplaced::new(group, UnplacedKind::Greedy), None)
    }
}

impl Unplaced {
    pub(crate) fn new(group: ObjectName, kind: UnplacedKind) -> Unplaced {
        Unplaced {
            group,
            kind,
            certificate: None,
            partial: None,
            #[cfg(feature = "peers")]
            failure: None,
        }
    }
}

/// The claim about a group that was not placed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum UnplacedKind {
    /// There is no plan.
    Infeasible,
    /// The budget ran out. There may be a plan.
    Exhausted,
    /// A strategy that never goes back found none. There may be a plan.
    Greedy,
}

impl Outcome {
    /// The plan, if the outcome is [`Outcome::Placed`].
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Outcome::Placed(plan) => Some(plan),
            _ => None,
        }
    }

    /// Whether every pod has its place.
    pub fn is_placed(&self) -> bool {
        matches!(self, Outcome::Placed(_))
    }

    /// The outcome in a word: `placed`, `held`, `denied`, `infeasible`, `exhausted`, `greedy`.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Placed(_) => "placed",
            Outcome::Held { .. } => "held",
            Outcome::Denied { .. } => "denied",
            Outcome::Unplaced(unplaced) => match unplaced.kind {
                UnplacedKind::Infeasible => "infeasible",
                UnplacedKind::Exhausted => "exhausted",
                UnplacedKind::Greedy => "greedy",
            },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Placed(plan) => write!(f, "{}: {} pods placed", plan.group(), plan.len()),
            Outcome::Held { plan, by, .. } => write!(f, "{}: held by {by}", plan.group()),
            Outcome::Denied { by, reason } => write!(f, "denied by {by}: {reason}"),
            Outcome::Unplaced(unplaced) => write!(f, "{unplaced}"),
        }
    }
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.group)?;
        f.write_str(match self.kind {
            UnplacedKind::Infeasible => "does not fit",
            UnplacedKind::Exhausted => "no place found within the budget",
            UnplacedKind::Greedy => "the sequential strategy found no place",
        })?;
        #[cfg(feature = "peers")]
        if let Some(failure) = &self.failure {
            return write!(f, ": {failure}");
        }
        Ok(())
    }
}
