//! Numbers for tests that need many, the same in every run.

/// A generator of numbers below 2³¹.
pub(crate) fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        state >> 33
    }
}
