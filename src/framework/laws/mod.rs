//! Laws that plugins keep; [`laws`](crate::laws) tells of them.

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
use self::subject::{FilterSubject, ScoreSubject, Subject};
use super::builder::Framework;
use super::traits::{Filter, Score};
use crate::model::PodShape;
use crate::state::Cluster;

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
        sums::check_sums(subject, cluster, shapes, index)?;
    }
    Ok(())
}
