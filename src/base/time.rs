//! Points in time, as the embedder passes them in.

use core::time::Duration;

/// A point in time: nanoseconds since an origin the embedder chooses.
///
/// The crate has no clock. Time is passed in, wake-ups are passed out.
///
/// ```
/// use core::time::Duration;
/// use phalanx::Time;
///
/// let now = Time::from_secs(5);
/// assert_eq!(now.after(Duration::from_millis(250)).as_millis(), 5_250);
/// assert_eq!(now.since(Time::from_secs(3)), Duration::from_secs(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Time(u64);

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
        Time(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
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
}
