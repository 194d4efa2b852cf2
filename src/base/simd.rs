//! Vectors: loops over columns, compiled for the machine's instructions.

use core::fmt;

#[cfg(all(feature = "simd", target_arch = "x86_64"))]
use machine as source;
#[cfg(not(all(feature = "simd", target_arch = "x86_64")))]
use plain as source;

/// The widest vectors that loops over columns use beyond those of the target that the crate is
/// built for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SimdLevel {
    /// The target's own: 128 bits on x86-64 without flags.
    #[default]
    None,
    /// 256 bits: AVX2, and the instructions that come with it.
    Avx2,
    /// 512 bits: AVX-512 as it is since Ice Lake and Zen 4.
    Avx512,
}

impl SimdLevel {
    /// All levels, narrowest first.
    pub const ALL: [SimdLevel; 3] = [SimdLevel::None, SimdLevel::Avx2, SimdLevel::Avx512];

    /// The name: `none`, `avx2` or `avx512`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SimdLevel::None => "none",
            SimdLevel::Avx2 => "avx2",
            SimdLevel::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The level that loops run at now: the highest that the machine has, up to
/// [`limit_simd`]. Without the feature `simd`, and on other machines than x86-64,
/// [`SimdLevel::None`].
#[must_use]
pub fn simd_level() -> SimdLevel {
    source::level()
}

/// Bounds the level of all loops of this process from now on. Answers are the same at each level; a
/// processor that slows down where vectors are wide may be better off with narrower ones.
///
/// ```
/// use phalanx::framework::math::{SimdLevel, limit_simd, simd_level};
///
/// limit_simd(SimdLevel::Avx2);
/// assert!(simd_level() <= SimdLevel::Avx2);
/// limit_simd(SimdLevel::Avx512);
/// ```
pub fn limit_simd(most: SimdLevel) {
    source::limit(most);
}

/// Runs a pass over columns at [`simd_level`]. The closure, and what it calls, has to be inlined
/// to be compiled for each level: mark it `#[inline(always)]`. Numbers come out the same at each
/// level, floats too: nothing is contracted or added up in another order.
///
/// Choosing the level costs about a nanosecond: run a block at a time, not a row.
///
/// ```
/// use phalanx::framework::math::vectorized;
///
/// let (free, mut verdicts) = ([3_i64, 0, 5], [0_i64; 3]);
/// vectorized(
///     #[inline(always)]
///     || verdicts.iter_mut().zip(&free).for_each(|(verdict, free)| *verdict |= free - 2),
/// );
/// assert_eq!(verdicts.map(|verdict| verdict < 0), [false, true, false]);
/// ```
#[inline(always)]
pub fn vectorized<R>(pass: impl FnOnce() -> R) -> R {
    source::run(pass)
}

/// Without a choice: what the target has.
#[cfg(not(all(feature = "simd", target_arch = "x86_64")))]
mod plain {
    use super::SimdLevel;

    pub(super) fn level() -> SimdLevel {
        SimdLevel::None
    }

    pub(super) fn limit(_: SimdLevel) {}

    #[inline(always)]
    pub(super) fn run<R>(pass: impl FnOnce() -> R) -> R {
        pass()
    }
}

/// A choice at run time.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
mod machine {
    use core::sync::atomic::{AtomicU8, Ordering};

    use fearless_simd::{Level, Simd};

    use super::SimdLevel;

    /// The highest level that is allowed, as a number. Nothing else is read that another thread
    /// writes before it.
    static MOST: AtomicU8 = AtomicU8::new(SimdLevel::Avx512 as u8);

    pub(super) fn level() -> SimdLevel {
        let (machine, most) = (Level::new(), MOST.load(Ordering::Relaxed));
        if most >= SimdLevel::Avx512 as u8 && machine.as_avx512().is_some() {
            SimdLevel::Avx512
        } else if most >= SimdLevel::Avx2 as u8 && machine.as_avx2().is_some() {
            SimdLevel::Avx2
        } else {
            SimdLevel::None
        }
    }

    pub(super) fn limit(most: SimdLevel) {
        MOST.store(most as u8, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn run<R>(pass: impl FnOnce() -> R) -> R {
        let (machine, most) = (Level::new(), MOST.load(Ordering::Relaxed));
        if most >= SimdLevel::Avx512 as u8
            && let Some(simd) = machine.as_avx512()
        {
            simd.vectorize(pass)
        } else if most >= SimdLevel::Avx2 as u8
            && let Some(simd) = machine.as_avx2()
        {
            simd.vectorize(pass)
        } else {
            pass()
        }
    }
}

/// Runs something at each level in turn, one caller at a time: the level is one for the process.
#[cfg(test)]
pub(crate) fn at_each_level(run: impl Fn()) {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let alone = ALONE.lock();
    limit_simd(SimdLevel::Avx512);
    let machine = simd_level();
    for level in SimdLevel::ALL {
        limit_simd(level);
        assert_eq!(simd_level(), level.min(machine));
        run();
    }
    limit_simd(SimdLevel::Avx512);
    drop(alone);
}

#[cfg(test)]
mod tests;
