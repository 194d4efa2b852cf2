//! Spans of time as Go writes them.

use core::time::Duration;

/// A span such as `600s`, `1h30m` or `1.5s`; `None` if it is none, negative, or too long.
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        nanos = nanos.checked_add(scaled(number, unit)?)?;
        rest = next;
    }
    // Go keeps nanoseconds in an `int64`.
    let nanos = u64::try_from(nanos).ok().filter(|nanos| i64::try_from(*nanos).is_ok())?;
    Some(Duration::from_nanos(nanos))
}

/// A decimal number times a unit, rounded down.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut sum = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        let digit = u128::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        sum = sum.checked_add(digit.checked_mul(place)? / 10)?;
        place /= 10;
    }
    Some(sum)
}

#[cfg(test)]
mod tests;
