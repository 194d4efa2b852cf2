//! Laws that plugins keep, and checks that find out those that do not.
//!
//! The crate keeps a plugin's answers for as long as its [`Declaration`](super::Declaration)
//! says that they hold. A plugin that reads more than it declares therefore gets stale answers.
//! The checks here disturb the cluster in every way that the declaration calls harmless, and
//! compare. Run them in the tests of your plugin, on a small cluster that shows what the plugin
//! looks at, with the shapes that it tells apart:
//!
//! ```
//! use phalanx::framework::{Reach, filter_fn};
//! use phalanx::laws::{Law, check_filter};
//! use phalanx::model::{Node, Pod, PodShape};
//! use phalanx::Cluster;
//!
//! let mut cluster = Cluster::new();
//! cluster.add_node(Node::new("n1").capacity("cpu", 4).label("zone", "a"))?;
//! cluster.add_node(Node::new("n2").capacity("cpu", 4).label("zone", "b"))?;
//! let shapes = [PodShape::default(), (**Pod::new().request("cpu", 1).shape()).clone()];
//!
//! // Reads the pods of a node, and says so.
//! let quiet = filter_fn("quiet", Reach::Node, |_, node| node.pod_count() < 2);
//! assert_eq!(check_filter(&quiet, &cluster, &shapes), Ok(()));
//!
//! // The same filter, declared as if it read labels alone.
//! let liar = filter_fn("quiet", Reach::Static, |_, node| node.pod_count() < 2);
//! assert_eq!(check_filter(&liar, &cluster, &shapes).unwrap_err().law, Law::Reach);
//! # Ok::<(), phalanx::StateError>(())
//! ```
//!
//! The checks are deterministic: they draw no random numbers, and of a cluster with more than 32
//! nodes they disturb 32, evenly spaced. They prove nothing; a plugin that passes may still lie
//! about a cluster it was not shown.

mod disturb;
mod grain;
mod room;
mod subject;
mod verdicts;

use alloc::string::String;
use core::fmt;

pub use verdicts::{check_domain_score, check_permit};

use self::disturb::Trial;
use self::subject::{FilterSubject, ScoreSubject, Subject};
use super::builder::Framework;
use super::traits::{Filter, Score};
use crate::model::PodShape;
use crate::state::Cluster;

/// What every plugin keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Law {
    /// The name is not empty, and stays the same.
    Name,
    /// The same question has the same answer, in any order of asking; preparing anew and declaring
    /// anew change nothing.
    Repeatable,
    /// The answer for a block of rows is the answer for each of its nodes.
    Block,
    /// Pods that come and go beyond the declared reach change nothing.
    Reach,
    /// Unless declared, nodes that come, go or change do not change the answer for another node.
    Nodes,
    /// A filter declared monotone never turns a "no" into a "yes" because a pod was placed.
    Monotone,
    /// Unless declared, the group changes nothing.
    Group,
    /// Unless declared, the time changes nothing.
    Time,
    /// What was prepared and brought up to date by `take` and `undo` answers as what is prepared
    /// anew.
    Incremental,
    /// A plugin with a [`Grain`](super::Grain) tells nodes apart as that says, and what it prepared
    /// to be kept goes on answering as what is prepared anew.
    Grain,
    /// A node takes no more pods than a filter says it has room for, nor do all nodes together, and
    /// where the filter declares that it judges room, its verdict is just that.
    Room,
    /// A filter that declares to read a node's sums alone does not tell apart pods that take the
    /// same.
    Pods,
    /// Scores end within `0..=100` without being clamped.
    Range,
    /// A hold ends after the time of the request.
    Hold,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Law::Name => "name",
            Law::Repeatable => "repeatable",
            Law::Block => "block",
            Law::Reach => "reach",
            Law::Nodes => "nodes",
            Law::Monotone => "monotone",
            Law::Group => "group",
            Law::Time => "time",
            Law::Incremental => "incremental",
            Law::Grain => "grain",
            Law::Room => "room",
            Law::Pods => "pods",
            Law::Range => "range",
            Law::Hold => "hold",
        })
    }
}

/// A law that a plugin broke, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin {plugin:?} breaks the law {law} (shape {shape}, node {node:?}): {detail}")]
#[non_exhaustive]
pub struct LawError {
    /// The plugin's name.
    pub plugin: String,
    /// The law.
    pub law: Law,
    /// The node for which the answer was wrong; empty where it is about no single one.
    pub node: String,
    /// The shape, by its place in the list that the check was given; for permits and domain
    /// scores, the place of the context.
    pub shape: usize,
    /// What was done, what was expected, what came.
    pub detail: String,
}

/// Checks a filter on a cluster, for each of some shapes; the same shapes are placed here and
/// there to disturb it.
///
/// O(shapes × nodes × (shapes + 8)) calls of the filter up to 32 nodes, linear in nodes beyond.
///
/// # Errors
/// The first law found broken.
pub fn check_filter(
    filter: &dyn Filter,
    cluster: &Cluster,
    shapes: &[PodShape],
) -> Result<(), LawError> {
    check(&FilterSubject(filter), cluster, shapes)?;
    (0..shapes.len()).try_for_each(|index| room::check_room(filter, cluster, shapes, index))
}

/// Checks a score on a cluster, for each of some shapes; the same shapes are placed here and
/// there to disturb it. Raw scores are compared, before normalisation; their range is checked
/// after it.
///
/// Complexity as [`check_filter`].
///
/// # Errors
/// The first law found broken.
pub fn check_score(
    score: &dyn Score,
    cluster: &Cluster,
    shapes: &[PodShape],
) -> Result<(), LawError> {
    check(&ScoreSubject(score), cluster, shapes)?;
    let rows = subject::rows(cluster);
    for (index, shape) in shapes.iter().enumerate() {
        verdicts::check_range(score, cluster, index, shape, &rows)?;
    }
    Ok(())
}

/// Checks all filters and scores of a framework.
///
/// # Errors
/// The first law found broken.
pub fn check_framework(
    framework: &Framework,
    cluster: &Cluster,
    shapes: &[PodShape],
) -> Result<(), LawError> {
    for filter in framework.filters() {
        check_filter(&**filter, cluster, shapes)?;
    }
    for (_, score) in framework.scores() {
        check_score(&**score, cluster, shapes)?;
    }
    Ok(())
}

fn check(subject: &dyn Subject, cluster: &Cluster, shapes: &[PodShape]) -> Result<(), LawError> {
    for index in 0..shapes.len() {
        Trial::new(subject, cluster, shapes, index).run()?;
        grain::check_grain(subject, cluster, shapes, index)?;
    }
    Ok(())
}
