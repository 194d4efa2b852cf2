//! A utilisation curve: scores as a function of utilisation.

use alloc::vec::Vec;

/// Scores by how full something is, in straight lines between given points.
///
/// ```
/// use phalanx::plugins::Utilization;
///
/// let curve = Utilization::new([(0, 10), (70, 0)])?;
/// assert_eq!((curve.at(0), curve.at(35), curve.at(100)), (100, 50, 0));
/// assert!(Utilization::new([(50, 1), (50, 2)]).is_err());
/// # Ok::<(), phalanx::plugins::UtilizationError>(())
/// ```
///
/// Source: kube-scheduler, `noderesources/requested_to_capacity_ratio.go`,
/// `helper/shape_score.go`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utilization {
    /// Percent used, and the score there, 0 to 100.
    points: Vec<(i64, i64)>,
}

/// Points that make no curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UtilizationError {
    /// There are none.
    #[error("at least one point is required")]
    Empty,
    /// A percentage is above 100, or a score above 10.
    #[error("point {0}: percentages go to 100 and scores to 10")]
    OutOfRange(usize),
    /// Percentages do not rise from point to point.
    #[error("point {0}: percentages must rise from point to point")]
    NotRising(usize),
}

impl Utilization {
    /// A curve through points: percent used (0 to 100, strictly rising) and a score of 0 to 10.
    /// Before the first and beyond the last point it goes on level.
    ///
    /// # Errors
    /// The points make no curve.
    pub fn new(
        points: impl IntoIterator<Item = (u8, u8)>,
    ) -> Result<Utilization, UtilizationError> {
        let points: Vec<(i64, i64)> =
            points.into_iter().map(|(used, score)| (used.into(), 10 * i64::from(score))).collect();
        if points.is_empty() {
            return Err(UtilizationError::Empty);
        }
        if let Some(at) = points.iter().position(|(used, score)| *used > 100 || *score > 100) {
            return Err(UtilizationError::OutOfRange(at));
        }
        match points.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
            Some(at) => Err(UtilizationError::NotRising(at + 1)),
            None => Ok(Utilization { points }),
        }
    }

    /// The score at a percentage, 0 to 100. Between points it truncates towards zero from the
    /// point before, on falling lines too.
    #[inline]
    pub fn at(&self, used: i64) -> i64 {
        let mut before: Option<(i64, i64)> = None;
        for &(point, score) in &self.points {
            if used <= point {
                return match before {
                    None => score,
                    Some((from, start)) => start + (score - start) * (used - from) / (point - from),
                };
            }
            before = Some((point, score));
        }
        before.map_or(0, |(_, score)| score)
    }
}

#[cfg(test)]
mod tests;
