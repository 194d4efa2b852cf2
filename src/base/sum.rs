//! Sums that cannot overflow, in loops that compile to vector instructions.

/// The sum of up to 2³² numbers that are not negative: their upper and lower halves, each added up
/// by itself.
///
/// ```
/// use phalanx::framework::math::Sum;
///
/// let mut sum = Sum::default();
/// for free in [3, -1, i64::MAX] {
///     sum.add(free);
/// }
/// assert_eq!(sum.total(), i64::MAX);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    upper: u64,
    lower: u64,
}

impl Sum {
    /// Adds a number; one below zero counts as nothing.
    #[inline]
    pub fn add(&mut self, number: i64) {
        let number = number.max(0) as u64;
        self.upper += number >> 32;
        self.lower += number & 0xffff_ffff;
    }

    /// The sum, or the largest number if it is larger.
    #[must_use]
    pub fn total(self) -> i64 {
        let upper = self.upper + (self.lower >> 32);
        if upper >= 1 << 31 {
            return i64::MAX;
        }
        (upper << 32 | self.lower & 0xffff_ffff) as i64
    }
}

#[cfg(test)]
mod tests;
