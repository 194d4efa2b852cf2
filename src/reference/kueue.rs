//! Topology assignments exactly as Kueue's Topology Aware Scheduling makes them.
//!
//! A topology is an ordered list of node-label keys, the levels. A domain is a path of label
//! values; a leaf is a domain of the finest level, which is a host if that level is
//! [`HOSTNAME_LABEL`]. A [`KueueSnapshot`] holds the tree of domains of one flavor and the free
//! capacity of its leaves; [`KueueSnapshot::assign`] divides pod sets among the leaves or says why it
//! cannot.
//!
//! The module works on plain data with string names, so it can serve as a reference for other
//! placements. [`Strategy::Kueue`](crate::Strategy::Kueue) runs it on a cluster and a group of this
//! crate, and puts the pods on nodes.
//!
//! # The rules
//!
//! 1. **Count**, from the leaves up: pods, whole slices, and both once more with the leader of a
//!    group on board. Parents add up their children; where inner slice layers apply, children
//!    hand up whole inner slices only.
//! 2. **Choose** a level and domains. *Best fit* takes, of the domains that hold all slices, the
//!    one with the least room; *least free capacity* (unconstrained requests) takes the domains
//!    with the least room first. Required requests fail if no domain of the level holds them,
//!    preferred ones move up level by level and in the end take several domains of the coarsest
//!    level. With [`balanced_placement`](crate::framework::KueueGates::balanced_placement), preferred requests try an even spread first.
//! 3. **Descend**. Above the slice level the children of all chosen domains form one pool; at
//!    and below it every domain divides its share among its own children.
//!
//! Elastic pod sets place only the difference to their running pods. A replacement places only the
//! pods of the lost host, in the domain of the slice it tears or in the required domain.
//!
//! Pod sets are placed one after the other without a way back, as in Kueue.
//!
//! # Where it differs from Kueue
//!
//! Kueue rounds a count down to whole slices, publishes what a failed descent has placed, and
//! takes two pod sets of any larger group. Here these are the failures
//! [`CountNotDivisible`](crate::place::Failure::CountNotDivisible), [`Incomplete`](crate::place::Failure::Incomplete) and
//! [`GroupShape`](crate::place::Failure::GroupShape). An elastic unit that shrinks or keeps its size and whose
//! leader has no previous assignment is placed afresh. Balanced placement gives way to best fit
//! where Kueue's descent would fail, and where the choice of domains would take more than some
//! hundred megabytes.
//!
//! # Source
//!
//! Kueue, `pkg/cache/scheduler`: `tas_flavor_snapshot.go`, `tas_balanced_placement.go`,
//! `tas_elastic_workloads.go`, `tas_topology_tree.go`, `simulator/default.go`; KEP-2724.
//!
//! # Example
//!
//! Four hosts with room for 3, 3, 2 and 1 pods, and a pod set of 7:
//!
//! ```
//! use phalanx::reference::kueue::{KueueCluster, HOSTNAME_LABEL, KueueNode, KueuePodSet, KueueSnapshot};
//!
//! let host = |name: &str, cpu: i64| KueueNode {
//!     name: name.into(),
//!     labels: [(HOSTNAME_LABEL.into(), name.into())].into(),
//!     allocatable: [("cpu".into(), cpu * 1000), ("pods".into(), 10)].into(),
//!     ready: true,
//!     ..KueueNode::default()
//! };
//! let cluster = KueueCluster {
//!     levels: vec![HOSTNAME_LABEL.into()],
//!     nodes: vec![host("a", 3), host("b", 3), host("c", 2), host("d", 1)],
//!     ..KueueCluster::default()
//! };
//! let mut workers = KueuePodSet {
//!     name: "workers".into(),
//!     count: 7,
//!     requests: [("cpu".into(), 1000)].into(),
//!     ..KueuePodSet::default()
//! };
//! workers.topology.preferred = Some(HOSTNAME_LABEL.into());
//!
//! let outcome = KueueSnapshot::new(&cluster)?.assign(&[workers]);
//! let assignment = outcome.assignment("workers").ok_or("no assignment")?;
//! let counts: Vec<_> =
//!     assignment.domains.iter().map(|d| (d.values[0].as_str(), d.count)).collect();
//! assert_eq!(counts, [("a", 3), ("b", 3), ("d", 1)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::place::kueue::{
    AssignedDomain, BackgroundPod, ClusterError, Expression, HOSTNAME_LABEL, KueueAmounts,
    KueueAssignment, KueueCluster, KueueFlavor, KueueNode, KueueNodeAffinity, KueueOperator,
    KueueOutcome, KueuePodSet, KueueSnapshot, KueueTaint, KueueToleration, KueueTolerationOperator,
    KueueTopologyRequest, KueueUsage, PODS_RESOURCE, PodSetOutcome, PreferredTerm, SliceLayer,
};
