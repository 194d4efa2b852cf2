//! Laws that plugins keep, and checks that detect those that do not.
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

mod disturb;
mod grain;
mod law;
mod room;
mod subject;
mod sums;
mod verdicts;

pub use law::{Law, LawError};
pub use verdicts::{check_domain_score, check_permit};

use self::disturb::Trial;
use alloc::sync::Arc;

use self::subject::Subject;
use super::builder::Framework;
use super::plugin::{FilterPlugin, ScorePlugin};
use crate::model::PodShape;
use crate::state::Cluster;

/// Checks a filter (or an `Arc` of one) on a cluster, for each of some shapes; the same shapes are placed here and
/// there to disturb it.
///
/// O(shapes × nodes × (shapes + 8)) calls of the filter up to 32 nodes, linear in nodes beyond.
///
/// # Errors
/// The first law found broken.
pub fn check_filter(
    filter: impl FilterPlugin + 'static,
    cluster: &Cluster,
    shapes: &[PodShape],
) -> Result<(), LawError> {
    let subject = Subject::Filter(Arc::new(filter));
    check(&subject, cluster, shapes)?;
    (0..shapes.len()).try_for_each(|index| room::check_room(&subject, cluster, shapes, index))
}

/// Checks a score (or an `Arc` of one) on a cluster, for each of some shapes; the same shapes are placed here and
/// there to disturb it. Raw scores are compared, before normalisation; their range is checked
/// after it.
///
/// Complexity as [`check_filter`].
///
/// # Errors
/// The first law found broken.
pub fn check_score(
    score: impl ScorePlugin + 'static,
    cluster: &Cluster,
    shapes: &[PodShape],
) -> Result<(), LawError> {
    let score: Arc<dyn ScorePlugin> = Arc::new(score);
    check(&Subject::Score(Arc::clone(&score)), cluster, shapes)?;
    let rows = subject::rows(cluster);
    for (index, shape) in shapes.iter().enumerate() {
        verdicts::check_range(&score, cluster, index, shape, &rows)?;
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
        check_filter(Arc::clone(filter), cluster, shapes)?;
    }
    for (_, score) in framework.scores() {
        check_score(Arc::clone(score), cluster, shapes)?;
    }
    Ok(())
}

fn check(subject: &Subject, cluster: &Cluster, shapes: &[PodShape]) -> Result<(), LawError> {
    for index in 0..shapes.len() {
        Trial::new(subject, cluster, shapes, index).run()?;
        grain::check_grain(subject, cluster, shapes, index)?;
        sums::check_sums(subject, cluster, shapes, index)?;
    }
    Ok(())
}
