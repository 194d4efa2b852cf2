//! Durations and points in time, in nanoseconds.

use alloc::format;

use crate::base::Quantity;

pub(super) const SECOND: i128 = 1_000_000_000;

/// A span such as `1h30m`.
pub(super) fn duration(text: &str) -> Option<i128> {
    let (negative, mut rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    rest = rest.strip_prefix('+').unwrap_or(rest);
    if rest == "0" {
        return Some(0);
    }
    let mut sum = 0_i128;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: Quantity = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let units = [
            ("ns", 1),
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", SECOND),
            ("m", 60 * SECOND),
            ("h", 3_600 * SECOND),
        ];
        let (unit, nanos) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        sum = sum.checked_add(number.nanos().checked_mul(nanos)? / SECOND)?;
    }
    Some(if negative { -sum } else { sum })
}

/// A time as in RFC 3339, since 1970.
pub(super) fn timestamp(text: &str) -> Option<i128> {
    let number = |from: usize, to: usize| -> Option<i128> {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_digit());
        if all { digits.parse().ok() } else { None }
    };
    let sign = |at: usize, sign: &str| text.get(at..=at).filter(|own| *own == sign).map(|_| ());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    for (at, mark) in [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":")] {
        sign(at, mark)?;
    }
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(part) = rest.strip_prefix('.') {
        let end = part.find(|c: char| !c.is_ascii_digit())?;
        let digits = part.get(..end.min(9)).filter(|digits| !digits.is_empty())?;
        nanos = format!("{digits:0<9}").parse().ok()?;
        rest = &part[end..];
    }
    let offset = match rest.as_bytes() {
        [b'Z'] => 0,
        [sign @ (b'+' | b'-'), h, i, b':', m, n]
            if [h, i, m, n].iter().all(|d| d.is_ascii_digit()) =>
        {
            let of = |digit: &u8| i128::from(digit - b'0');
            let minutes = (of(h) * 10 + of(i)) * 60 + of(m) * 10 + of(n);
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let sound = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60;
    if !sound || second >= 60 {
        return None;
    }
    // Days of the civil calendar since 1970, years counted from March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day
            - 1
            - 719_468;
    Some(((days * 24 + hour) * 3_600 + (minute - offset) * 60 + second) * SECOND + nanos)
}
