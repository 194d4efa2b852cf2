//! Dates of traces.

/// Seconds since 1970 of a civil date and a time of day, `2017-10-05` and `07:01:55`.
pub(crate) fn seconds(date: &str, time: &str) -> Option<u64> {
    let three = |text: &str, mark| -> Option<[u64; 3]> {
        let parts: Option<Vec<u64>> = text.split(mark).map(|part| part.parse().ok()).collect();
        parts?.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (three(date, '-')?, three(time, ':')?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days from the civil date, years beginning in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second)
}
