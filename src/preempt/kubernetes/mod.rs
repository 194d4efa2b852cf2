//! Preemption as kube-scheduler 1.36 has it, bit for bit, its accidents included.
//!
//! | kube-scheduler | here |
//! |---|---|
//! | a scheduling attempt of a pod | [`schedule_pod`] |
//! | `PostFilter` of `DefaultPreemption` | [`preempt_pod`] |
//! | the pod group cycle | [`schedule_group`] |
//! | the cycle with members' own `PostFilter` (`WorkloadAwarePreemption` off) | [`preempt_pod_by_pod`] |
//! | `WorkloadAwarePreemption` | [`preempt_group`] |
//!
//! All read a [`PreemptionSnapshot`]: a cluster, the groups that run on it, budgets, nominations. None changes it;
//! its methods do what follows from the answers: [`PreemptionSnapshot::apply`], [`PreemptionSnapshot::bind`].
//!
//! Every node is tried (`minCandidateNodesPercentage: 100`), and arbitrary choices of
//! kube-scheduler are made by a total order. Nodes of equal rank go by the order of nodes, pods of
//! equal importance by their [place](PreemptionSnapshot::set_place). `docs/preemption/kube-scheduler.md` has the
//! rules.
//!
//! Accidents that are kept: groups with a topology constraint do not preempt. Victims of a group
//! are chosen from an emptied cluster. Preemption pod by pod may evict for nothing. A unit starts
//! when the pod met first did, and nominations of a group point to the attempt that failed.

mod budgets;
mod cycle_state;
mod dry_run;
mod group;
mod group_cycle;
mod node_infos;
mod nominator;
mod pod;
mod pod_by_pod;
mod schedule;
mod snapshot;
mod units;
mod victims;

pub use group::{GroupPreemption, GroupRefusal, preempt_group};
pub use group_cycle::{GroupAttempt, schedule_group};
pub use pod::{DryRunFailure, Ineligible, OwnNomination, PodPreemption, preempt_pod};
pub use pod_by_pod::{PodByPodPreemption, preempt_pod_by_pod};
pub use schedule::{Attempt, RejectedNode, schedule_pod};
pub use snapshot::{Nomination, PreemptionSnapshot};
pub use victims::{NodeCandidate, PodVictim};
