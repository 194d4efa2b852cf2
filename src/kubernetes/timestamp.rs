//! Times as Kubernetes writes them.

use super::field::{Fault, Field};
use crate::Time;

/// A time as in RFC 3339, in UTC and whole seconds (`2026-08-22T10:00:00Z`), since 1970.
pub(super) fn timestamp(field: &Field<'_>) -> Fault<Time> {
    let text = field.text()?;
    seconds(text).map(Time::from_secs).ok_or_else(|| field.invalid("is no time in UTC"))
}

fn seconds(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    if bytes.len() != 20 || marks.iter().any(|&(at, mark)| bytes[at] != mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = &bytes[from..to];
        let all = digits.iter().all(u8::is_ascii_digit);
        all.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let valid = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years that begin in March, so that the leap day is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leaps + (month * 153 + 2) / 5 + day - 1;
    let since = days.checked_sub(719_468)?;
    Some(since * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests;
