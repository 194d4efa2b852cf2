//! Amounts of quota: saturating integers, with `UNLIMITED` at their end.

/// No bound. The sum of anything and this is this; what is left of it after taking any bounded
/// amount is this too.
pub const UNLIMITED: i64 = i64::MAX;

/// The most that one claim, and everything in use below one queue, may amount to: half of the range
/// of integers, so that sums of the two never overflow.
pub const MOST: i64 = i64::MAX / 2;

/// The sum of two amounts; [`UNLIMITED`] absorbs, other sums saturate.
pub fn plus(a: i64, b: i64) -> i64 {
    if a == UNLIMITED || b == UNLIMITED { UNLIMITED } else { a.saturating_add(b) }
}

/// The rest of an amount. Nothing of the unlimited is left if all of it is taken; a bounded
/// amount less an unlimited one is the least integer.
pub fn minus(a: i64, b: i64) -> i64 {
    match (a == UNLIMITED, b == UNLIMITED) {
        (true, true) => 0,
        (true, false) => UNLIMITED,
        (false, true) => i64::MIN,
        (false, false) => a.saturating_sub(b),
    }
}

#[cfg(test)]
mod tests;
