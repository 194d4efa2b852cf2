//! Arithmetic on whole columns, for loops that compile to vector instructions: whole numbers in
//! floating point, and sums that cannot overflow.
//!
//! The default target divides no integers side by side, but floats. Below 2⁵² a float holds every
//! whole number, and the quotient of two such numbers, rounded, never reaches the next whole
//! number. If `a/b < q` then `q − a/b ≥ 1/b`, which is more than half a unit in the last place of
//! `q` as long as `a < 2⁵²`. So flooring it is integer division.
//!
//! ```
//! use phalanx::framework::math::{all_below, float, floor, whole};
//!
//! let (free, each) = ([0, 999, 1_000, 5_000], 1_000);
//! assert!(all_below(44, &free));
//! let fits = free.map(|free| whole(floor(float(free) / float(each))));
//! assert_eq!(fits, [0, 0, 1, 5]);
//! ```
//!
//! A [block](super::Block) says of its amounts whether they are small enough:
//! [`is_small`](super::Block::is_small).

pub use crate::base::simd::{SimdLevel, limit_simd, simd_level, vectorized};
#[cfg_attr(not(feature = "laws"), doc(hidden))]
pub use crate::base::sum::Sum;

/// Numbers from 0 to below this convert by their bits.
#[cfg(test)]
const EXACT: i64 = 1 << 52;

const MAGIC: f64 = 4_503_599_627_370_496.0;
const MAGIC_BITS: u64 = 0x4330_0000_0000_0000;
/// The same with room for a sign: 2⁵² + 2⁵¹.
const SIGNED: f64 = 6_755_399_441_055_744.0;
const SIGNED_BITS: u64 = 0x4338_0000_0000_0000;

/// A number from 0 to below 2⁵² as a float.
#[cfg_attr(not(feature = "laws"), doc(hidden))]
#[inline]
#[must_use]
pub fn float(x: i64) -> f64 {
    f64::from_bits(x as u64 | MAGIC_BITS) - MAGIC
}

/// A number from −2⁵¹ to below 2⁵¹ as a float.
#[cfg_attr(not(feature = "laws"), doc(hidden))]
#[inline]
#[must_use]
pub fn signed_float(x: i64) -> f64 {
    f64::from_bits((SIGNED_BITS as i64).wrapping_add(x) as u64) - SIGNED
}

/// A whole float from 0 to below 2⁵² as a number.
#[cfg_attr(not(feature = "laws"), doc(hidden))]
#[inline]
#[must_use]
pub fn whole(x: f64) -> i64 {
    ((x + MAGIC).to_bits() ^ MAGIC_BITS) as i64
}

/// The whole part of a float from 0 to below 2⁵¹.
#[cfg_attr(not(feature = "laws"), doc(hidden))]
#[inline]
#[must_use]
pub fn floor(x: f64) -> f64 {
    let nearest = (x + MAGIC) - MAGIC;
    nearest - if nearest > x { 1.0 } else { 0.0 }
}

/// Whether all numbers are from 0 to below a power of two.
#[cfg_attr(not(feature = "laws"), doc(hidden))]
#[inline]
#[must_use]
pub fn all_below(power: u32, numbers: &[i64]) -> bool {
    numbers.iter().fold(0, |bits, number| bits | number) as u64 >> power == 0
}

#[cfg(test)]
mod tests;
