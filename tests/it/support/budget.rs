//! How much a random test does: little in `cargo test`, all of it in a soak.

use std::env;

/// The factor of a soak: `PHALANX_SOAK=1` runs every stream in full, a larger number so many times
/// over. Not set, the counts are small.
fn soak() -> Option<u64> {
    env::var("PHALANX_SOAK").ok().map(|factor| factor.parse().expect("PHALANX_SOAK is a number"))
}

/// Whether this run is a soak.
pub(crate) fn is_soak() -> bool {
    soak().is_some()
}

/// The cases of a test: `few`, or `full` times the factor in a soak.
pub(crate) fn of(few: u64, full: u64) -> u64 {
    soak().map_or(few, |factor| full * factor)
}

/// The cases of a test that takes long without optimisation: an eighth of them, all in a soak.
pub(crate) fn part(full: u64) -> u64 {
    of(full.div_ceil(8), full)
}

/// A number that an environment variable sets: the seed of a stream that is to be seen again.
pub(crate) fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("the variable is a number"))
}
