//! Kubernetes' quantity grammar, exactly.

use super::clip::clip;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

const NANOS: i128 = 1_000_000_000;
/// Whole units never exceed what Kubernetes keeps in an `int64`.
const LIMIT: i128 = i64::MAX as i128;

/// An amount of a resource as Kubernetes writes it: `500m`, `1.5Gi`, `2e3`, `8`.
///
/// The value is exact to 10⁻⁹ (rounded away from zero beyond that, as Kubernetes rounds) and
/// lies within ±(2⁶³−1) whole units. Binary-suffixed values beyond the limit are capped to it, as
/// Kubernetes caps them; decimal ones are an error, where Kubernetes would wrap or yield zero.
///
/// The grammar is `[+-]digits[.digits]suffix`, with one of the suffixes `n u m k M G T P E`,
/// `Ki Mi Gi Ti Pi Ei`, or `e`/`E` and a signed exponent. Blanks around it are trimmed.
///
/// Source: `k8s.io/apimachinery/pkg/api/resource`.
///
/// ```
/// use phalanx::Quantity;
///
/// let memory: Quantity = "1.5Gi".parse()?;
/// assert_eq!(memory.ceil(), 1_610_612_736);
/// assert_eq!(Quantity::from(2).milli_ceil(), Some(2_000));
/// assert!("1.5 GiB".parse::<Quantity>().is_err());
/// # Ok::<(), phalanx::QuantityError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    nanos: i128,
}

/// A text that is no [`Quantity`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text does not follow the grammar.
    #[error("{:?} is not a quantity (expected digits and one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent)", clip(.0))]
    Malformed(String),
    /// The value is beyond ±(2⁶³−1) whole units.
    #[error("{:?} is larger than any quantity can be", clip(.0))]
    TooLarge(String),
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { nanos: 0 };

    /// The value in units of 10⁻⁹.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// So many units of 10⁻⁹, cut off at the limit.
    #[cfg(feature = "cel")]
    pub(crate) fn from_nanos(nanos: i128) -> Quantity {
        Quantity { nanos: nanos.clamp(-LIMIT * NANOS, LIMIT * NANOS) }
    }

    /// So many thousandths.
    pub const fn from_milli(milli: i64) -> Quantity {
        Quantity { nanos: milli as i128 * (NANOS / 1_000) }
    }

    /// The value in whole units, rounded away from zero.
    pub fn ceil(self) -> i64 {
        // The limit on construction keeps this in range.
        divide_away_from_zero(self.nanos, NANOS) as i64
    }

    /// The value in thousandths, rounded away from zero; `None` beyond an `i64`.
    pub fn milli_ceil(self) -> Option<i64> {
        i64::try_from(divide_away_from_zero(self.nanos, NANOS / 1_000)).ok()
    }

    /// Whether the value is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether the value is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum, or `None` beyond the limit.
    #[must_use]
    pub fn checked_add(self, other: Quantity) -> Option<Quantity> {
        let nanos = self.nanos.checked_add(other.nanos)?;
        (nanos.abs() <= LIMIT * NANOS).then_some(Quantity { nanos })
    }
}

impl From<i64> for Quantity {
    fn from(units: i64) -> Quantity {
        Quantity { nanos: i128::from(units.max(-i64::MAX)) * NANOS }
    }
}

impl From<i32> for Quantity {
    fn from(units: i32) -> Quantity {
        Quantity::from(i64::from(units))
    }
}

impl From<u32> for Quantity {
    fn from(units: u32) -> Quantity {
        Quantity::from(i64::from(units))
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        let malformed = || QuantityError::Malformed(String::from(text));
        let too_large = || QuantityError::TooLarge(String::from(text));
        let (negative, unsigned) = split_sign(text.trim());
        let whole_end = digits_end(unsigned, 0);
        let (fraction, number_end) = if unsigned[whole_end..].starts_with('.') {
            let end = digits_end(unsigned, whole_end + 1);
            (&unsigned[whole_end + 1..end], end)
        } else {
            ("", whole_end)
        };
        let whole = &unsigned[..whole_end];
        if whole.is_empty() && fraction.is_empty() {
            return Err(malformed());
        }
        let suffix = Suffix::parse(&unsigned[number_end..]).ok_or_else(malformed)?;
        let magnitude = match suffix {
            Suffix::Decimal(exponent) => {
                decimal_nanos(whole, fraction, exponent).ok_or_else(too_large)?
            }
            Suffix::Binary(bits) => binary_nanos(whole, fraction, bits).unwrap_or(LIMIT * NANOS),
        };
        if magnitude > LIMIT * NANOS {
            return match suffix {
                Suffix::Binary(_) => {
                    Ok(Quantity { nanos: if negative { -LIMIT } else { LIMIT } * NANOS })
                }
                Suffix::Decimal(_) => Err(too_large()),
            };
        }
        Ok(Quantity { nanos: if negative { -magnitude } else { magnitude } })
    }
}

#[derive(Clone, Copy)]
enum Suffix {
    /// A power of ten.
    Decimal(i64),
    /// A power of two.
    Binary(u32),
}

impl Suffix {
    fn parse(text: &str) -> Option<Suffix> {
        Some(match text {
            "" => Suffix::Decimal(0),
            "n" => Suffix::Decimal(-9),
            "u" => Suffix::Decimal(-6),
            "m" => Suffix::Decimal(-3),
            "k" => Suffix::Decimal(3),
            "M" => Suffix::Decimal(6),
            "G" => Suffix::Decimal(9),
            "T" => Suffix::Decimal(12),
            "P" => Suffix::Decimal(15),
            "E" => Suffix::Decimal(18),
            "Ki" => Suffix::Binary(10),
            "Mi" => Suffix::Binary(20),
            "Gi" => Suffix::Binary(30),
            "Ti" => Suffix::Binary(40),
            "Pi" => Suffix::Binary(50),
            "Ei" => Suffix::Binary(60),
            _ => {
                let exponent = text.strip_prefix(['e', 'E'])?;
                let (negative, digits) = split_sign(exponent);
                if digits.is_empty() || digits_end(digits, 0) != digits.len() {
                    return None;
                }
                // Beyond six digits every value but zero is out of range or rounds to a nano.
                let significant = digits.trim_start_matches('0');
                let size = if significant.len() > 6 { 999_999 } else { parse_digits(significant)? };
                let size = size as i64;
                Suffix::Decimal(if negative { -size } else { size })
            }
        })
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

/// Where the digits that start at `from` end.
fn digits_end(text: &str, from: usize) -> usize {
    from + text.as_bytes()[from..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The number that ASCII digits spell; none is zero.
fn parse_digits(digits: &str) -> Option<i128> {
    digits.bytes().try_fold(0_i128, |value, digit| {
        value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
    })
}

/// `whole.fraction × 10^exponent` in nanos, rounded up.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i64) -> Option<i128> {
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return Some(0);
    }
    // Digit k of `whole ++ fraction` (from 0) stands for 10^(point - k) nanos.
    let point = whole.len() as i64 - 1 + exponent + 9;
    if point > 40 && whole.bytes().chain(fraction.bytes()).next() != Some(b'0') {
        return None;
    }
    let mut nanos = 0_i128;
    let mut place = point;
    let mut more = false;
    for digit in whole.bytes().chain(fraction.bytes()) {
        if place < 0 {
            more |= digit != b'0';
        } else {
            nanos = nanos.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        place -= 1;
    }
    // Places below the last digit given.
    while place >= 0 {
        nanos = nanos.checked_mul(10)?;
        place -= 1;
    }
    nanos.checked_add(i128::from(more))
}

/// `whole.fraction × 2^bits` in nanos, rounded up; `None` where it is beyond all limits.
fn binary_nanos(whole: &str, fraction: &str, bits: u32) -> Option<i128> {
    let whole =
        parse_digits(whole.trim_start_matches('0'))?.checked_mul(1 << bits)?.checked_mul(NANOS)?;
    // From the last digit to the first, `part` is what those after a digit stand for, rounded
    // down: dividing again leaves what dividing once would have left.
    let scale = (1_i128 << bits) * NANOS;
    let (mut part, mut more) = (0_i128, false);
    for digit in fraction.bytes().rev() {
        let sum = i128::from(digit - b'0') * scale + part;
        part = sum / 10;
        more |= sum % 10 != 0;
    }
    whole.checked_add(part + i128::from(more))
}

fn divide_away_from_zero(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

impl fmt::Display for Quantity {
    /// Kubernetes' canonical decimal text: the largest suffix that leaves no fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let mut mantissa = self.nanos;
        let mut suffix = 0;
        while mantissa % 1_000 == 0 && suffix + 1 < SUFFIXES.len() {
            mantissa /= 1_000;
            suffix += 1;
        }
        write!(f, "{mantissa}{}", SUFFIXES[suffix])
    }
}

#[cfg(feature = "serde")]
mod codec {
    use super::Quantity;
    use alloc::string::ToString;
    use core::fmt;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    impl Serialize for Quantity {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Quantity {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
            struct Text;
            impl de::Visitor<'_> for Text {
                type Value = Quantity;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a quantity, as text or a number")
                }

                fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                    text.parse().map_err(E::custom)
                }

                fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                    Ok(Quantity::from(units))
                }

                fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                    units.to_string().parse().map_err(E::custom)
                }

                fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
                    units.to_string().parse().map_err(E::custom)
                }
            }
            deserializer.deserialize_any(Text)
        }
    }
}

#[cfg(test)]
mod tests;
