//! A generator of numbers that look random.

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): the same seed gives the same numbers, on any
/// machine.
///
/// ```
/// use phalanx::simulate::Random;
///
/// let (mut one, mut other) = (Random::new(7), Random::new(7));
/// assert_eq!(one.below(1_000), other.below(1_000));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; zero if `end` is. Each is about as likely as any other, to within
    /// `end / 2^64`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `first` to `last`, both included; `first` if `last` is less.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first.saturating_add(self.below(last.saturating_sub(first).saturating_add(1)))
    }
}

#[cfg(test)]
mod tests;
