//! Laws that plugins keep, and checks that detect those that do not.
//!
//! The crate keeps a plugin's answers for as long as its [`Declaration`](crate::framework::Declaration)
//! says that they hold. A plugin that reads more than it declares therefore gets stale answers.
//! The checks here disturb the cluster in every way that the declaration calls harmless, and
//! compare. Run them in the tests of your plugin, on a small cluster that shows what the plugin
//! looks at, with the shapes that it tells apart:
//!
//! ```
//! use phalanx::framework::{Reach, filter_fn};
//! use phalanx::laws::{Law, check_filter};
//! use phalanx::model::PodShape;
//! use phalanx::{Cluster, Node, Pod};
//!
//! let mut cluster = Cluster::new();
//! cluster.add_node(Node::new("n1").capacity("cpu", 4).label("zone", "a"))?;
//! cluster.add_node(Node::new("n2").capacity("cpu", 4).label("zone", "b"))?;
//! let shapes = [PodShape::default(), (**Pod::new().request("cpu", 1).shape()).clone()];
//!
//! // Reads the pods of a node, and says so.
//! let quiet = filter_fn("quiet", Reach::Node, |_, node| node.pod_count() < 2);
//! assert_eq!(check_filter(quiet, &cluster, &shapes), Ok(()));
//!
//! // The same filter, declared as if it read labels alone.
//! let liar = filter_fn("quiet", Reach::Static, |_, node| node.pod_count() < 2);
//! assert_eq!(check_filter(liar, &cluster, &shapes).unwrap_err().law, Law::Reach);
//! # Ok::<(), phalanx::StateError>(())
//! ```
//!
//! The checks are deterministic: they draw no random numbers, and of a cluster with more than 32
//! nodes they disturb 32, evenly spaced. They prove nothing; a plugin that passes may still lie
//! about a cluster it was not shown.

pub use crate::framework::laws::{
    Law, LawError, check_domain_score, check_filter, check_framework, check_permit, check_score,
};
