//! Points in time, as the embedder passes them in.

use alloc::string::{String, ToString};
use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::str::FromStr;
use core::time::Duration;

/// A point in time: nanoseconds since an origin the embedder chooses.
///
/// The crate has no clock. Time is passed in, wake-ups are passed out. Operators saturate at the
/// ends of the range, and the checked methods say so. A time prints as seconds since the origin,
/// and reads what it prints.
///
/// ```
/// use core::time::Duration;
/// use phalanx::Time;
///
/// let now = Time::from_secs(5);
/// assert_eq!(now.after(Duration::from_millis(250)).as_millis(), 5_250);
/// assert_eq!(now.since(Time::from_secs(3)), Duration::from_secs(2));
/// assert_eq!(now + Duration::from_millis(250) - now, Duration::from_millis(250));
/// assert_eq!(Time::from_millis(5_250).to_string(), "5.25");
/// assert_eq!("5.25".parse(), Ok(Time::from_millis(5_250)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Time(u64);

const NANOS_PER_SEC: u64 = 1_000_000_000;

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// The end of time; reached by saturation.
    pub const MAX: Time = Time(u64::MAX);

    /// A time so many nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// A time so many milliseconds after the origin, saturating.
    pub const fn from_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1_000_000))
    }

    /// A time so many seconds after the origin, saturating.
    pub const fn from_secs(secs: u64) -> Time {
        Time(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since the origin.
    pub const fn as_secs(self) -> u64 {
        self.0 / NANOS_PER_SEC
    }

    /// Whole milliseconds since the origin.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// This time plus a span, saturating.
    #[must_use]
    pub fn after(self, span: Duration) -> Time {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// The span from an earlier time to this one; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This time less a span, saturating at the origin.
    #[must_use]
    pub fn before(self, span: Duration) -> Time {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_sub(nanos))
    }

    /// This time plus a span; `None` beyond [`Time::MAX`].
    pub fn checked_add(self, span: Duration) -> Option<Time> {
        let nanos = u64::try_from(span.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Time)
    }

    /// This time less a span; `None` before the origin.
    pub fn checked_sub(self, span: Duration) -> Option<Time> {
        let nanos = u64::try_from(span.as_nanos()).ok()?;
        self.0.checked_sub(nanos).map(Time)
    }
}

/// [`Time::after`].
impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        self.after(span)
    }
}

/// [`Time::before`].
impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, span: Duration) -> Time {
        self.before(span)
    }
}

/// [`Time::since`].
impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl SubAssign<Duration> for Time {
    fn sub_assign(&mut self, span: Duration) {
        *self = *self - span;
    }
}

/// Seconds since the origin, exactly: `5`, `5.25`. A precision rounds down to so many digits.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, nanos) = (self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC);
        let mut text = secs.to_string();
        let fraction = alloc::format!("{nanos:09}");
        let digits = match f.precision() {
            Some(digits) => &fraction[..digits.min(9)],
            None => fraction.trim_end_matches('0'),
        };
        if !digits.is_empty() {
            text.push('.');
            text.push_str(digits);
        }
        f.pad_integral(true, "", &text)
    }
}

/// A text that is not a time in seconds: digits, and up to nine more after a point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{:?} is not a time in seconds", super::clip::clip(.0))]
pub struct TimeError(String);

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Time, TimeError> {
        let error = || TimeError(super::clip::clip(text).to_string());
        let (secs, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number(secs) || !is_number(fraction) || fraction.len() > 9 {
            return Err(error());
        }
        let secs: u64 = secs.parse().map_err(|_| error())?;
        let nanos: u64 = alloc::format!("{fraction:0<9}").parse().map_err(|_| error())?;
        let nanos = secs.checked_mul(NANOS_PER_SEC).and_then(|secs| secs.checked_add(nanos));
        nanos.map(Time).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests;
