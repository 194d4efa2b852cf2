//! Queues, as the embedder states them.

use alloc::string::String;
use alloc::vec::Vec;

use crate::quota::model::error::QuotaError;
use crate::quota::model::limit::{self, UserLimit};

/// A weight, in thousand-millionths: the precision of a Kubernetes quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Weight(u64);

impl Weight {
    /// One.
    pub const ONE: Weight = Weight::from_nanos(1_000_000_000);
    /// Zero: such a queue has no claim to more than its guarantee.
    pub const ZERO: Weight = Weight(0);

    /// A weight of so many thousand-millionths.
    pub const fn from_nanos(nanos: u64) -> Weight {
        Weight(nanos)
    }

    /// A whole weight, saturating.
    pub const fn new(weight: u64) -> Weight {
        Weight(weight.saturating_mul(1_000_000_000))
    }

    /// Thousand-millionths.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The nearest float: exactly that of the decimal number, for weights below nine million.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::ONE
    }
}

/// The promise and the limits of a queue for one resource in one flavor. Amounts are integers:
/// thousandths for `cpu`, whole units for everything else; [`UNLIMITED`](crate::quota::UNLIMITED) is no
/// bound.
///
/// Each dialect reads the fields that it knows. Kueue reads `nominal` and the two limits on
/// borrowing and lending, as the crate's own does. All others forget those limits. Volcano reads `nominal` (its guarantee), `deserved` and `limit` (its
/// capability). `YuniKorn` reads `nominal` (guaranteed) and `limit` (max). Koordinator reads
/// `nominal` (min), `limit` (max) and `weight`; KAI `deserved`, `limit` and `over_quota_weight`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Quota {
    /// The guarantee: the queue's own, which others may borrow while it is idle.
    pub nominal: i64,
    /// The fair share by configuration; `None`: it is computed, or is the guarantee.
    pub deserved: Option<i64>,
    /// The most that may be used; `None`: no bound of its own.
    pub limit: Option<i64>,
    /// The most that may be used beyond the guarantees of the subtree; `None`: no bound.
    pub borrowing_limit: Option<i64>,
    /// The most of the subtree's guarantees that others may use; `None`: all.
    pub lending_limit: Option<i64>,
    /// The weight in a division among siblings; `None`: the weight of the queue.
    pub weight: Option<Weight>,
    /// The weight in a division of what is left above the guarantees; `None`: `weight`.
    pub over_quota_weight: Option<Weight>,
}

impl Quota {
    /// A guarantee.
    pub fn nominal(amount: i64) -> Quota {
        Quota { nominal: amount, ..Quota::default() }
    }

    /// Sets the fair share by configuration.
    #[must_use]
    pub fn deserved(mut self, amount: i64) -> Quota {
        self.deserved = Some(amount);
        self
    }

    /// Sets the most that may be used.
    #[must_use]
    pub fn limit(mut self, amount: i64) -> Quota {
        self.limit = Some(amount);
        self
    }

    /// Sets the most that may be borrowed.
    #[must_use]
    pub fn borrowing_limit(mut self, amount: i64) -> Quota {
        self.borrowing_limit = Some(amount);
        self
    }

    /// Sets the most that others may use of the guarantee.
    #[must_use]
    pub fn lending_limit(mut self, amount: i64) -> Quota {
        self.lending_limit = Some(amount);
        self
    }

    /// The amounts that are stated, with their names.
    pub(in crate::quota) fn amounts(&self) -> impl Iterator<Item = (&'static str, i64)> {
        [
            ("nominal", Some(self.nominal)),
            ("deserved", self.deserved),
            ("limit", self.limit),
            ("borrowingLimit", self.borrowing_limit),
            ("lendingLimit", self.lending_limit),
        ]
        .into_iter()
        .filter_map(|(name, amount)| Some((name, amount?)))
    }
}

/// A flavor in a group, with the quota of each resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FlavorQuotas {
    /// The flavor.
    pub name: String,
    /// Resource and quota. A resource of the group that is absent here has a quota of zero.
    pub resources: Vec<(String, Quota)>,
}

impl FlavorQuotas {
    /// A flavor with the quotas of some resources.
    pub fn new<R: Into<String>>(
        name: impl Into<String>,
        resources: impl IntoIterator<Item = (R, Quota)>,
    ) -> FlavorQuotas {
        let resources = resources.into_iter().map(|(name, quota)| (name.into(), quota)).collect();
        FlavorQuotas { name: name.into(), resources }
    }
}

/// Resources that take their flavor together, and the flavors, in the order they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct ResourceGroup {
    /// The resources.
    pub covered_resources: Vec<String>,
    /// The flavors, in the order they are tried.
    pub flavors: Vec<FlavorQuotas>,
}

/// Claims of lower standing that may be victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum QueuePreemptionPolicy {
    /// None.
    #[default]
    Never,
    /// Claims of lower priority.
    LowerPriority,
    /// Claims of lower priority, and younger ones of the same.
    LowerOrNewerEqualPriority,
    /// All.
    Any,
}

/// Victims while the preemptor's queue borrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct BorrowWithinCohort {
    /// Whether claims of lower priority in other queues may be victims then.
    pub lower_priority: bool,
    /// The highest priority of such victims; `None`: any that is lower than the preemptor's.
    pub max_priority_threshold: Option<i64>,
}

/// Whose claims a queue's claims may evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct QueuePreemption {
    /// Victims of the same queue.
    pub within_cluster_queue: QueuePreemptionPolicy,
    /// Victims of other queues that use more than their own.
    pub reclaim_within_cohort: QueuePreemptionPolicy,
    /// Victims of other queues, though the queue itself will use more than its own.
    pub borrow_within_cohort: BorrowWithinCohort,
}

impl BorrowWithinCohort {
    /// Claims of lower priority may be victims, up to a priority if one is given.
    pub fn lower_priority(max: Option<i64>) -> BorrowWithinCohort {
        BorrowWithinCohort { lower_priority: true, max_priority_threshold: max }
    }
}

impl QueuePreemption {
    /// Sets who may be a victim in the same queue.
    #[must_use]
    pub fn within_cluster_queue(mut self, policy: QueuePreemptionPolicy) -> QueuePreemption {
        self.within_cluster_queue = policy;
        self
    }

    /// Sets who may be a victim in queues that use more than their own.
    #[must_use]
    pub fn reclaim_within_cohort(mut self, policy: QueuePreemptionPolicy) -> QueuePreemption {
        self.reclaim_within_cohort = policy;
        self
    }

    /// Sets the victims of a queue that will itself use more than its own.
    #[must_use]
    pub fn borrow_within_cohort(mut self, victims: BorrowWithinCohort) -> QueuePreemption {
        self.borrow_within_cohort = victims;
        self
    }
}

/// The flavor that wins among those that a claim could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Fungibility {
    /// Whether the next flavor is tried where one needs borrowing (`TryNextFlavor`).
    pub try_next_when_borrowing: bool,
    /// Whether the first flavor that needs preemption is taken (`MayStopSearch`).
    pub stop_when_preempting: bool,
    /// Whether preempting is preferred to borrowing (`PreemptionOverBorrowing`).
    pub preemption_over_borrowing: bool,
}

/// The fate of a claim at the head of its queue that is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "PascalCase"))]
#[non_exhaustive]
pub enum QueueingStrategy {
    /// Others behind it are tried.
    #[default]
    #[cfg_attr(feature = "serde", serde(rename = "BestEffortFIFO"))]
    BestEffortFifo,
    /// It keeps those behind it waiting.
    #[cfg_attr(feature = "serde", serde(rename = "StrictFIFO"))]
    StrictFifo,
}

/// Where in the tree a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum QueueKind {
    /// A queue of claims: Kueue's `ClusterQueue`, the leaf queue of others.
    Leaf,
    /// A queue of queues: Kueue's `Cohort`, the parent queue of others.
    Inner,
}

/// One queue: where it stands, what it is promised, how it deals with others.
///
/// Leaves and inner queues have names of their own: a leaf and an inner queue may share one.
///
/// ```
/// use phalanx::quota::{Queue, Quota};
///
/// let team = Queue::leaf("vision").parent("labs").quota("spot", "cpu", Quota::nominal(32_000));
/// assert_eq!(team.groups[0].flavors[0].name, "spot");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Queue {
    /// The name, unique among queues of its kind.
    pub name: String,
    /// Leaf or inner.
    pub kind: QueueKind,
    /// The inner queue it stands in; one that does not exist yet is made, without quota.
    pub parent: Option<String>,
    /// Its quota.
    pub groups: Vec<ResourceGroup>,
    /// The weight among its siblings.
    pub weight: Weight,
    /// Higher goes first, where a dialect orders queues by priority.
    pub priority: i32,
    /// Whose claims its claims may evict.
    pub preemption: QueuePreemption,
    /// The flavor that wins.
    pub fungibility: Fungibility,
    /// The fate of its head.
    pub strategy: QueueingStrategy,
    /// Whether it admits nothing for the time being.
    pub stopped: bool,
    /// Limits by user and group on all that stands in it and below.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub limits: Vec<UserLimit>,
}

impl Queue {
    fn new(name: String, kind: QueueKind) -> Queue {
        Queue {
            name,
            kind,
            parent: None,
            groups: Vec::new(),
            weight: Weight::ONE,
            priority: 0,
            preemption: QueuePreemption::default(),
            fungibility: Fungibility::default(),
            strategy: QueueingStrategy::default(),
            stopped: false,
            limits: Vec::new(),
        }
    }

    /// A queue of claims, without quota.
    pub fn leaf(name: impl Into<String>) -> Queue {
        Queue::new(name.into(), QueueKind::Leaf)
    }

    /// A queue of queues, without quota of its own.
    pub fn inner(name: impl Into<String>) -> Queue {
        Queue::new(name.into(), QueueKind::Inner)
    }

    /// Sets the parent.
    #[must_use]
    pub fn parent(mut self, parent: impl Into<String>) -> Queue {
        self.parent = Some(parent.into());
        self
    }

    /// Sets the quota of one resource in one flavor, in the last resource group that has either, or
    /// else in a new group.
    #[must_use]
    pub fn quota(
        mut self,
        flavor: impl Into<String>,
        resource: impl Into<String>,
        quota: Quota,
    ) -> Queue {
        let (flavor, resource) = (flavor.into(), resource.into());
        let fits = |group: &ResourceGroup| {
            group.covered_resources.contains(&resource)
                || group.flavors.iter().any(|quotas| quotas.name == flavor)
        };
        let at = self.groups.iter().rposition(fits).unwrap_or_else(|| {
            self.groups.push(ResourceGroup::default());
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        if !group.covered_resources.contains(&resource) {
            group.covered_resources.push(resource.clone());
        }
        match group.flavors.iter_mut().find(|quotas| quotas.name == flavor) {
            Some(quotas) => quotas.resources.push((resource, quota)),
            None => group.flavors.push(FlavorQuotas::new(flavor, [(resource, quota)])),
        }
        self
    }

    /// Adds a resource group.
    #[must_use]
    pub fn group(mut self, group: ResourceGroup) -> Queue {
        self.groups.push(group);
        self
    }

    /// Sets the weight.
    #[must_use]
    pub fn weight(mut self, weight: Weight) -> Queue {
        self.weight = weight;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Queue {
        self.priority = priority;
        self
    }

    /// Sets whose claims its claims may evict.
    #[must_use]
    pub fn preemption(mut self, preemption: QueuePreemption) -> Queue {
        self.preemption = preemption;
        self
    }

    /// Sets which flavor wins.
    #[must_use]
    pub fn fungibility(mut self, fungibility: Fungibility) -> Queue {
        self.fungibility = fungibility;
        self
    }

    /// Adds a limit by user and group.
    #[must_use]
    pub fn limit(mut self, limit: UserLimit) -> Queue {
        self.limits.push(limit);
        self
    }

    /// Forgets limits on borrowing and lending.
    pub(in crate::quota) fn forget_borrowing(&mut self) {
        let flavors = self.groups.iter_mut().flat_map(|group| &mut group.flavors);
        for (_, quota) in flavors.flat_map(|flavor| &mut flavor.resources) {
            (quota.borrowing_limit, quota.lending_limit) = (None, None);
        }
    }

    /// Whether the queue makes sense: no negative amount, no resource or flavor twice, limits of
    /// somebody and of something.
    pub(in crate::quota) fn check(&self) -> Result<(), QuotaError> {
        limit::check(&self.name, &self.limits)?;
        let twice = |name: &str| QuotaError::Twice { queue: self.name.clone(), name: name.into() };
        let mut covered: Vec<&str> = Vec::new();
        for group in &self.groups {
            let mut own: Vec<&str> = group.covered_resources.iter().map(String::as_str).collect();
            let mut flavors: Vec<&str> = Vec::new();
            for flavor in &group.flavors {
                if flavors.contains(&flavor.name.as_str()) {
                    return Err(twice(&flavor.name));
                }
                flavors.push(&flavor.name);
                let mut resources: Vec<&str> = Vec::new();
                for (resource, quota) in &flavor.resources {
                    if resources.contains(&resource.as_str()) {
                        return Err(twice(resource));
                    }
                    resources.push(resource);
                    if let Some((field, _)) = quota.amounts().find(|(_, amount)| *amount < 0) {
                        return Err(QuotaError::Negative {
                            queue: self.name.clone(),
                            flavor: flavor.name.clone(),
                            resource: resource.clone(),
                            field,
                        });
                    }
                }
                own.extend(resources);
            }
            own.sort_unstable();
            own.dedup();
            if let Some(name) = own.iter().find(|name| covered.contains(name)) {
                return Err(twice(name));
            }
            covered.extend(own);
        }
        Ok(())
    }
}
