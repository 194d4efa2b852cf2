//! An embeddable scheduling core for gangs.
//!
//! You give it a cluster and a group of pods; it gives back a node for every pod, all or nothing,
//! or the reason why it cannot. No I/O, no clock, no randomness, no thread of its own: state in,
//! plan out.
//!
//! # A tour
//!
//! 1. **State.** A [`Cluster`] holds nodes, what runs on them, and the levels of the topology. One
//!    writer keeps it up to date with [`Event`]s; every other part reads, or works on a
//!    clone, which is cheap.
//! 2. **Ask.** A [`PodGroup`] is a tree: a leaf holds pods, an inner group holds
//!    groups, each with a minimum and a wish about the topology. [`place_gang`] answers one
//!    [`Request`]; a [`Planner`] answers many, and keeps what it learns.
//! 3. **Answer.** An [`Outcome`]: placed, held or denied by a permit, or unplaced, with what is
//!    claimed. That a group does not fit is an answer, not an error.
//! 4. **Commit.** A [`Plan`] is data. [`Cluster::commit`] binds all of its pods or none, and judges
//!    again only what has moved since the plan was made.
//! 5. **Judge.** A [`Framework`] is a set of [`plugins`]: filters, scores, permits. Write your own
//!    as a closure or a small trait ([`framework`]), and test it with [`laws`].
//! 6. **Share.** [`quota`] tells how much each tenant may have, whose turn it is, and which work is
//!    taken back.
//! 7. **What-if** with a [`Txn`]: a working copy that reads like a cluster. Evict, add nodes,
//!    place, and roll back.
//!
//! ```
//! use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang};
//!
//! let mut cluster = Cluster::new();
//! cluster.add_node(Node::new("n1").capacity("cpu", 8))?;
//! cluster.add_pod(Pod::new().name("batch").request("cpu", 6).on("n1"))?;
//! let gang = PodGroup::of("service", 2, Pod::new().request("cpu", 2));
//! let framework = Framework::default();
//! assert!(!place_gang(&cluster, &framework, &gang)?.is_placed());
//!
//! // Would it fit without the batch job? And with one more node?
//! let mut txn = cluster.txn();
//! let before = txn.checkpoint();
//! txn.evict("default", "batch")?;
//! assert!(place_gang(&txn, &framework, &gang)?.is_placed());
//! txn.rollback(before)?;
//! txn.add_nodes(&Node::new("extra").capacity("cpu", 8), 1)?;
//! assert!(place_gang(&txn, &framework, &gang)?.is_placed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! When to use [`place_gang`], [`Planner`], [`Scheduler`] and [`Txn`]:
//! [`which_door`](_guide::which_door). How a scheduler is built around them:
//! [`embedding`](_guide::embedding). All [guides](_guide).
//!
//! # Promises
//!
//! - A group is placed whole, with at least its minimum at every level of its tree, or the cluster
//!   is untouched. The same holds of commits.
//! - The same input gives the same bytes, on any machine and any number of threads. The order in
//!   which nodes, labels and running pods were given changes nothing; the order of members is input.
//! - No input makes it panic, overflow or loop for ever; bad input is a typed error that names what
//!   is wrong, and leaves the state as it was.
//!
//! # Features
//!
//! - `devices`: devices and NUMA zones of nodes, and [`claims`] of resources.
//! - `volumes`: volumes of pods, and the nodes that reach them.
//! - `usage`: measured use of nodes, overcommitment, and classes of service.
//! - `explain`: why a group has no place, node by node, and what would help ([`explain()`]).
//! - `laws`: checks of plugins of your own ([`laws`]), and of plans ([`mod@reference`]).
//! - `scheduler`: victims and moves ([`preempt`]), tenants ([`quota`]), the life cycle ([`queue`]);
//!   brings the first four.
//! - `autoscale`: nodes to buy for groups that wait, and nodes that can go; brings the first three.
//! - `simulate`: the scheduler over a trace; brings `scheduler`.
//! - `serde`: every type of data serialises, canonically; brings the first three.
//! - `kubernetes`: Kubernetes' manifests are read, and with `scheduler` its queues and watches; brings
//!   `serde`.
//! - `cel`: selectors of devices as Kubernetes writes them ([`claims`]); brings `devices`.
//! - `peers`: other schedulers' own algorithms: Kueue's strategy and [`reference::kueue`], and with
//!   `scheduler` [`preempt::kubernetes`].
//! - `parallel`: coarse work in the caller's rayon pool. The answers do not change.
//! - `simd`: loops over columns in AVX2 or AVX-512 where the machine has it
//!   ([`framework::math::simd_level`]). The answers do not change.
//!
//! - `full`: all but `simd`.
//!
//! None is on by default. A feature adds names and plugins; it changes no answer about what can be said
//! without it. All but `cel`, `parallel`, `full` and, on x86-64, `simd` build without `std`; the
//! README says what each costs.
#![no_std]
#![forbid(unsafe_code)]
// Nothing that ships may panic: an invariant is a total expression, or an error that is handed on.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// A layer that is left out leaves helpers of the layers below it unused; the whole has none.
#![cfg_attr(
    not(all(
        feature = "autoscale",
        feature = "kubernetes",
        feature = "laws",
        feature = "peers",
        feature = "scheduler",
        feature = "simulate"
    )),
    allow(dead_code, unreachable_pub, unused_imports)
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(feature = "autoscale")]
pub mod autoscale;
mod base;
#[cfg(feature = "devices")]
pub mod claims;
#[cfg(not(feature = "devices"))]
mod claims;
pub mod framework;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "laws")]
pub mod laws;
pub mod model;
pub mod place;
pub mod plugins;
#[cfg(any(feature = "scheduler", feature = "autoscale"))]
pub mod preempt;
#[cfg(feature = "scheduler")]
pub mod queue;
#[cfg(feature = "scheduler")]
pub mod quota;
#[cfg(feature = "scheduler")]
pub mod reclaim;
#[cfg(any(feature = "laws", feature = "peers"))]
pub mod reference;
#[cfg(feature = "simulate")]
pub mod simulate;
pub mod state;

pub use base::{NameError, ObjectName, Quantity, QuantityError, Time, TimeError};
pub use framework::builder::Framework;
pub use framework::strategy::Strategy;
pub use framework::traits::{Filter, Permit, Score};
pub use model::error::ModelError;
pub use model::group::PodGroup;
pub use model::node::Node;
pub use model::pod::Pod;
pub use model::workload::Workload;
pub use place::commit::CommitError;
pub use place::error::PlaceError;
#[cfg(feature = "explain")]
pub use place::explain::explain;
pub use place::outcome::{Outcome, Unplaced};
pub use place::planner::{Planner, place_gang};
pub use place::request::Request;
#[cfg(feature = "scheduler")]
pub use queue::scheduler::Scheduler;
#[cfg(feature = "scheduler")]
pub use queue::terms::decision::Decision;
#[cfg(feature = "scheduler")]
pub use queue::terms::error::QueueError;
pub use state::cluster::Cluster;
pub use state::error::StateError;
pub use state::event::Event;
pub use state::plan::Plan;
pub use state::txn::Txn;

/// Guides, with examples that run.
pub mod _guide {
    /// Pages of `docs/` as modules. In the repository their links lead to files; here the links
    /// defined before a page come first, and lead to its siblings.
    macro_rules! pages {
        ($($page:ident $file:literal)*) => {
            $(
                #[doc = "[algorithm]: algorithm"]
                #[doc = "[autoscaling]: autoscaling"]
                #[doc = "[columns]: algorithm_columns"]
                #[doc = "[benchmarks]: benchmarks"]
                #[doc = "[benchmarks-5517d73]: benchmarks#results"]
                #[doc = "[benchmarks-claims]: benchmarks#results"]
                #[doc = "[benchmarks-claims-24]: benchmarks#results"]
                #[doc = "[benchmarks-method]: benchmarks#results"]
                #[doc = "[benchmarks-placement]: benchmarks#results"]
                #[doc = "[benchmarks-queue]: benchmarks#results"]
                #[doc = "[benchmarks-quiet]: benchmarks#results"]
                #[doc = "[benchmarks-scheduler]: benchmarks#results"]
                #[doc = "[claims]: claims"]
                #[doc = "[claims choice]: claims#choice"]
                #[doc = "[claims speed]: claims#speed"]
                #[doc = "[devices]: devices"]
                #[doc = "[NUMA zones]: devices#numa-zones"]
                #[doc = "[elastic]: elastic"]
                #[doc = "[kubernetes-fields]: kubernetes#fields"]
                #[doc = "[lifecycle]: lifecycle"]
                #[doc = "[plugins]: plugins"]
                #[doc = "[preemption]: preemption"]
                #[doc = "[life cycle]: preemption_life_cycle"]
                #[doc = "[kube-scheduler]: preemption_kube_scheduler"]
                #[doc = "[preemption life-cycle]: preemption_life_cycle"]
                #[doc = "[preemption moves]: preemption#moves"]
                #[doc = "[tenants]: tenants"]
                #[doc = "[past]: tenants#past-usage"]
                #[doc = "[tenants-default]: tenants_default"]
                #[doc = "[tenants-kai]: tenants_kai"]
                #[doc = "[tenants-koordinator]: tenants_koordinator"]
                #[doc = "[tenants-kueue]: tenants_kueue"]
                #[doc = "[tenants-volcano]: tenants_volcano"]
                #[doc = "[tenants-yunikorn]: tenants_yunikorn"]
                #[doc = "[tenants-kai coming]: tenants_kai#coming-from-kai"]
                #[doc = "[tenants-users]: tenants#users-and-groups"]
                #[doc = "[topology]: topology"]
                #[doc = "[volumes]: volumes"]
                #[doc = "[who yields]: who_yields"]
                #[doc = "[who-yields]: who_yields"]
                #[doc = ""]
                #[doc = include_str!(concat!("../docs/", $file))]
                pub mod $page {}
            )*
        };
    }

    pages! {
        algorithm "algorithm.md"
        algorithm_columns "algorithm/columns.md"
        autoscaling "autoscaling.md"
        benchmarks "benchmarks.md"
        claims "claims.md"
        devices "devices.md"
        elastic "elastic.md"
        embedding "embedding.md"
        glossary "glossary.md"
        kubernetes "kubernetes.md"
        lifecycle "lifecycle.md"
        performance "performance.md"
        plugins "plugins.md"
        preemption "preemption.md"
        preemption_kube_scheduler "preemption/kube-scheduler.md"
        preemption_life_cycle "preemption/life-cycle.md"
        simulation "simulation.md"
        tenants "tenants.md"
        tenants_default "tenants/default.md"
        tenants_kai "tenants/kai.md"
        tenants_koordinator "tenants/koordinator.md"
        tenants_kueue "tenants/kueue.md"
        tenants_volcano "tenants/volcano.md"
        tenants_yunikorn "tenants/yunikorn.md"
        topology "topology.md"
        volumes "volumes.md"
        which_door "which-door.md"
        who_yields "who-yields.md"
    }
}

/// The examples of the README run as tests.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    #[allow(dead_code)]
    struct Readme;
}
