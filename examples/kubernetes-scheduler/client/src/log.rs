//! Structured logs: one JSON object a line, on standard error.

use std::fmt::Display;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes one line. Use [`log!`](crate::log).
pub fn write(level: &str, message: &str, fields: &[(&str, &dyn Display)]) {
    let mut line = serde_json::Map::new();
    line.insert("time".into(), timestamp().into());
    line.insert("level".into(), level.into());
    line.insert("message".into(), message.into());
    for (name, value) in fields {
        line.insert((*name).into(), value.to_string().into());
    }
    eprintln!("{}", serde_json::Value::Object(line));
}

/// `log!(info, "message", name = value, ...)`
#[macro_export]
macro_rules! log {
    ($level:ident, $message:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::log::write(stringify!($level), $message, &[$((stringify!($name), &$value)),*])
    };
}

/// The time now as Kubernetes writes it, with microseconds.
pub fn timestamp() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (date, micros) = (date(now.as_secs()), now.subsec_micros());
    format!("{date}.{micros:06}Z")
}

/// The time now as Kubernetes writes it, in whole seconds.
pub fn seconds() -> String {
    date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()) + "Z"
}

/// Seconds since 1970 as date and time of the Gregorian calendar.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from 1 March of the year 0, so that leap days come last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year, if month < 10 { month + 3 } else { month - 9 });
    let year = year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(super::date(0), "1970-01-01T00:00:00");
        assert_eq!(super::date(951_827_696), "2000-02-29T12:34:56");
        assert_eq!(super::date(1_798_761_599), "2026-12-31T23:59:59");
    }
}
