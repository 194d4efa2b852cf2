//! Results of an assignment: the leaves of each pod set, or its failure.

use alloc::string::String;
use alloc::vec::Vec;

use crate::base::clip::clip;
use crate::place::failure::Failure;

/// A cluster that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The topology has no level.
    #[error("a topology needs at least one level")]
    NoLevels,
    /// The topology names a level twice.
    #[error("the topology has the level {:?} twice", clip(.0))]
    DuplicateLevel(String),
    /// Two nodes share a name.
    #[error("two nodes are named {:?}", clip(.0))]
    DuplicateNode(String),
}

/// The assignment of a pod set: how many pods go to each leaf.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueAssignment {
    /// The label keys that the values belong to: the hostname alone if it is the finest level,
    /// else all levels.
    pub levels: Vec<String>,
    /// The leaves in use, in the order of their full paths.
    pub domains: Vec<AssignedDomain>,
}

/// A leaf of the topology and the number of pods on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AssignedDomain {
    /// The label values, one for each level of the assignment.
    pub values: Vec<String>,
    /// How many pods.
    pub count: u32,
}

impl KueueAssignment {
    /// The number of pods over all domains.
    pub fn pods(&self) -> u64 {
        self.domains.iter().map(|domain| u64::from(domain.count)).sum()
    }
}

/// The result of one pod set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSetOutcome {
    /// The name of the pod set.
    pub name: String,
    /// Its assignment, or its failure.
    pub result: Result<KueueAssignment, Failure>,
}

/// The answer for a list of pod sets, in the order in which they were placed.
///
/// The first failure stops: pod sets after it are missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KueueOutcome {
    /// The pod sets that were tried.
    pub pod_sets: Vec<PodSetOutcome>,
}

impl KueueOutcome {
    /// The assignment of a pod set; `None` if it failed or was not tried.
    pub fn assignment(&self, pod_set: &str) -> Option<&KueueAssignment> {
        self.pod_sets.iter().find(|one| one.name == pod_set)?.result.as_ref().ok()
    }

    /// The failure that stopped the placement, if there was one.
    pub fn failure(&self) -> Option<&Failure> {
        self.pod_sets.iter().find_map(|one| one.result.as_ref().err())
    }
}
