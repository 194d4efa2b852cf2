//! Claims to quota, and their assignments.

use alloc::string::String;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::Time;
use crate::model::resources::PODS;
use crate::model::{Amounts, Labels, NodeSelector, Owner, Toleration};

/// A resource in a flavor, by number. Numbers are given in order of first sight, and mean nothing in
/// another tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlavorResource(pub(in crate::quota) u32);

/// Pods of one kind, as quota counts them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct PodSet {
    /// The name.
    pub name: String,
    /// How many pods.
    pub count: u32,
    /// The least number that will do; `None`: all.
    pub min_count: Option<u32>,
    /// The sum of the pods' requests.
    pub requests: Amounts,
    /// Node labels that the pods need.
    pub node_selector: Labels,
    /// The required node affinity of the pods.
    pub affinity: Option<NodeSelector>,
    /// The tolerations of the pods.
    pub tolerations: Vec<Toleration>,
}

impl PodSet {
    /// Pods that request so much together.
    ///
    /// `requests` are [`Amounts`], or pairs as in `[("nvidia.com/gpu", 16)]`.
    pub fn new(name: impl Into<String>, count: u32, requests: impl Into<Amounts>) -> PodSet {
        PodSet { name: name.into(), count, requests: requests.into(), ..PodSet::default() }
    }

    /// Requests of some of the pods by resource, without the number of pods.
    pub(in crate::quota) fn asks(&self, count: u32) -> impl Iterator<Item = (&str, i64)> {
        let stated = self.requests.iter().filter(|(name, _)| *name != PODS);
        stated.map(move |(name, total)| (name, self.scaled(total, count)))
    }

    /// The request of a resource by a smaller number of the pods.
    fn scaled(&self, total: i64, count: u32) -> i64 {
        if count == self.count || self.count == 0 {
            return total;
        }
        (total / i64::from(self.count)).saturating_mul(i64::from(count))
    }
}

/// Work that wants quota: a gang or a workload, charged whole.
///
/// ```
/// use phalanx::quota::{Claim, PodSet};
///
/// let workers = PodSet::new("main", 2, [("nvidia.com/gpu", 16)]);
/// let claim = Claim::new("labs/train", "vision").pods(workers);
/// assert_eq!(claim.pod_sets.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Claim {
    /// The name, unique among claims.
    pub name: String,
    /// Decides the last ties, before the name.
    pub uid: String,
    /// The leaf that it waits in.
    pub queue: String,
    /// The user that it is of, and the user's groups.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Owner::is_none"))]
    pub owner: Owner,
    /// Higher goes first. What boosts or lowers it is counted in.
    pub priority: i64,
    /// Since when it waits.
    pub created: Time,
    /// Whether it may be evicted; `None`: as the dialect says. In every dialect no search names one
    /// that may not as a victim. Koordinator holds what they use to the minimum of their quota.
    pub preemptible: Option<bool>,
    /// Its pods.
    pub pod_sets: Vec<PodSet>,
    /// The only flavors that it may have; `None`: any.
    pub allowed_flavors: Option<Vec<String>>,
    /// Where the search for flavors goes on: for each pod set, the first flavor to be tried of the
    /// group of each resource. Empty: from the first.
    pub bookmark: Vec<Vec<(String, u32)>>,
    /// Flavors that are settled: for each pod set, the only flavor that a resource, and with it the
    /// others of its group, may have. Empty: none is.
    pub settled: Vec<Vec<(String, String)>>,
}

impl Claim {
    /// A claim of no pods.
    pub fn new(name: impl Into<String>, queue: impl Into<String>) -> Claim {
        Claim { name: name.into(), queue: queue.into(), ..Claim::default() }
    }

    /// Adds pods.
    #[must_use]
    pub fn pods(mut self, set: PodSet) -> Claim {
        self.pod_sets.push(set);
        self
    }

    /// Sets the user that it is of.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Claim {
        self.owner = owner;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i64) -> Claim {
        self.priority = priority;
        self
    }

    /// Sets since when it waits.
    #[must_use]
    pub fn created(mut self, created: Time) -> Claim {
        self.created = created;
        self
    }

    /// The claim with fewer pods, with the same least numbers.
    pub(in crate::quota) fn of_counts(&self, counts: &[u32]) -> Claim {
        let mut claim = self.clone();
        for (set, &count) in claim.pod_sets.iter_mut().zip(counts) {
            let mut requests = Amounts::new();
            for (name, total) in set.requests.iter() {
                requests.set(name, set.scaled(total, count));
            }
            set.min_count = set.min_count.map(|least| least.min(count));
            (set.requests, set.count) = (requests, count);
        }
        claim
    }

    /// Whether fewer pods than all would do.
    pub fn is_elastic(&self) -> bool {
        let elastic = |set: &PodSet| set.min_count.is_some_and(|least| least < set.count);
        self.pod_sets.iter().any(elastic)
    }
}

/// Amounts of resources in flavors, in no order that means anything; each at most once.
pub type Usage = SmallVec<[(FlavorResource, i64); 4]>;

/// Adds to an amount of a usage.
pub(in crate::quota) fn add_usage(usage: &mut Usage, of: FlavorResource, amount: i64) {
    match usage.iter_mut().find(|(own, _)| *own == of) {
        Some((_, sum)) => *sum = sum.saturating_add(amount),
        None => usage.push((of, amount)),
    }
}

/// How a resource in a flavor, pods, or a claim can have what they ask. Later is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum AssignmentMode {
    /// Not at all.
    NoFit,
    /// With victims, or when others are done.
    Preempt,
    /// Now.
    Fit,
}

/// The flavor of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlavorChoice {
    /// The resource in the flavor.
    pub of: FlavorResource,
    /// How the flavor can be had.
    pub mode: AssignmentMode,
    /// Where the search ended in the group; `None`: at the last flavor, so that it begins again.
    pub tried: Option<u32>,
}

/// The assignment of one pod set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodSetAssignment {
    /// Number of the pod set in the claim.
    pub pod_set: usize,
    /// How many of its pods.
    pub count: u32,
    /// A choice for each resource; empty if there is none for one of them.
    pub flavors: SmallVec<[FlavorChoice; 4]>,
    /// Requests of each resource, as the choices stand.
    pub requests: SmallVec<[i64; 4]>,
}

/// Flavors for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaAssignment {
    /// By pod set, in order; those behind one that gets no flavor are absent.
    pub pod_sets: SmallVec<[PodSetAssignment; 1]>,
    /// Usage of the claim.
    pub usage: Usage,
    /// How the claim can have it.
    pub mode: AssignmentMode,
    /// How far up the tree quota is borrowed from: the height of the lowest queue whose subtree
    /// suffices; 0 if nothing is borrowed.
    pub level: u32,
}

impl FlavorChoice {
    /// A choice that ended at the last flavor of the group.
    pub fn new(of: FlavorResource, mode: AssignmentMode) -> FlavorChoice {
        FlavorChoice { of, mode, tried: None }
    }
}

impl PodSetAssignment {
    /// No choice yet.
    pub fn new(pod_set: usize, count: u32) -> PodSetAssignment {
        PodSetAssignment { pod_set, count, flavors: SmallVec::new(), requests: SmallVec::new() }
    }
}

impl QuotaAssignment {
    /// An assignment of which no more is known.
    pub fn new(usage: Usage, mode: AssignmentMode, level: u32) -> QuotaAssignment {
        QuotaAssignment { pod_sets: SmallVec::new(), usage, mode, level }
    }

    /// Sets how the claim, and with it each resource, can have what it asks.
    pub(in crate::quota) fn set_mode(&mut self, mode: AssignmentMode) {
        self.mode = mode;
        for choice in self.pod_sets.iter_mut().flat_map(|set| &mut set.flavors) {
            choice.mode = mode;
        }
    }
}

/// Why a claim was chosen as a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum VictimReason {
    /// It is in the preemptor's own queue.
    InClusterQueue,
    /// Its queue uses what is the preemptor's by guarantee.
    InCohortReclamation,
    /// Its queue borrows, as will the preemptor's, which has the higher priority.
    InCohortReclaimWhileBorrowing,
    /// Its queue has more than its fair share.
    InCohortFairSharing,
}

impl VictimReason {
    /// The name, as Kueue writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            VictimReason::InClusterQueue => "InClusterQueue",
            VictimReason::InCohortReclamation => "InCohortReclamation",
            VictimReason::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
            VictimReason::InCohortFairSharing => "InCohortFairSharing",
        }
    }
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaDecision {
    /// The flavors, and how they can be had.
    pub assignment: QuotaAssignment,
    /// Whose quota must be given back first; empty if nothing has to, or nothing helps.
    pub victims: Vec<QuotaVictim>,
}

/// A holder of quota. Ids of holders that are gone are known as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId {
    pub(in crate::quota) at: u32,
    pub(in crate::quota) generation: u32,
}

/// A holder of quota that has to give it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct QuotaVictim {
    /// The holder.
    pub holder: HolderId,
    /// Why.
    pub reason: VictimReason,
}
