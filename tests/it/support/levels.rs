//! Levels of vectors, one after the other.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use phalanx::framework::math::{SimdLevel, limit_simd, simd_level};

/// The level is one for the process: a test that asks for several has it alone.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs something at each level that the machine has, and holds the results to each other. Without
/// the feature `simd` there is one level.
pub(crate) fn held_at_each_level<R: PartialEq + Debug>(run: impl Fn() -> R) -> R {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    limit_simd(SimdLevel::Avx512);
    let machine = simd_level();
    let results = SimdLevel::ALL.map(|level| {
        limit_simd(level);
        assert_eq!(simd_level(), level.min(machine));
        run()
    });
    limit_simd(SimdLevel::Avx512);
    drop(alone);
    let [none, avx2, avx512] = results;
    assert_eq!(none, avx2, "AVX2 answers otherwise");
    assert_eq!(none, avx512, "AVX-512 answers otherwise");
    none
}
