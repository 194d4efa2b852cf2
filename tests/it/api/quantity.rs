//! Quantities against a slow, independent reading of the same grammar: decimal digits, by hand.

use phalanx::{Quantity, QuantityError};
use proptest::prelude::*;

use crate::support::worlds::cases;

/// A number of any size without sign: decimal digits, the most significant first, and how many of
/// them stand behind the point.
#[derive(Debug, Clone)]
struct Digits {
    digits: Vec<u8>,
    behind: i64,
}

impl Digits {
    fn double(&mut self) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            let twice = *digit * 2 + carry;
            *digit = twice % 10;
            carry = twice / 10;
        }
        if carry > 0 {
            self.digits.insert(0, carry);
        }
    }

    /// The number as a whole one, rounded up, without leading zeros; empty is zero.
    fn ceil(mut self) -> Vec<u8> {
        while self.behind < 0 {
            self.digits.push(0);
            self.behind += 1;
        }
        let mut more = false;
        while self.behind > 0 {
            more |= self.digits.pop().is_some_and(|digit| digit != 0);
            self.behind -= 1;
        }
        if more {
            let mut at = self.digits.len();
            loop {
                if at == 0 {
                    self.digits.insert(0, 1);
                    break;
                }
                at -= 1;
                if self.digits[at] < 9 {
                    self.digits[at] += 1;
                    break;
                }
                self.digits[at] = 0;
            }
        }
        let first = self.digits.iter().position(|digit| *digit != 0).unwrap_or(self.digits.len());
        self.digits.split_off(first)
    }
}

/// The expected value of a text, in units of 10⁻⁹: digits, or that it is too large.
fn expected(parts: &Parts) -> Result<Vec<u8>, ()> {
    let limit: Vec<u8> = "9223372036854775807000000000".bytes().map(|b| b - b'0').collect();
    let text: String = format!("{}{}", parts.whole, parts.fraction);
    let mut number = Digits {
        digits: text.bytes().map(|b| b - b'0').collect(),
        behind: parts.fraction.len() as i64 - 9,
    };
    let binary = match parts.suffix.as_str() {
        "" => None,
        "n" => Some(Err(-9)),
        "u" => Some(Err(-6)),
        "m" => Some(Err(-3)),
        "k" => Some(Err(3)),
        "M" => Some(Err(6)),
        "G" => Some(Err(9)),
        "T" => Some(Err(12)),
        "P" => Some(Err(15)),
        "E" => Some(Err(18)),
        "Ki" => Some(Ok(10)),
        "Mi" => Some(Ok(20)),
        "Gi" => Some(Ok(30)),
        "Ti" => Some(Ok(40)),
        "Pi" => Some(Ok(50)),
        "Ei" => Some(Ok(60)),
        exponent => Some(Err(exponent[1..].parse().expect("made from a number"))),
    };
    match binary {
        None => {}
        Some(Err(tens)) => number.behind -= tens,
        Some(Ok(twos)) => (0..twos).for_each(|_| number.double()),
    }
    let nanos = number.ceil();
    let larger = (nanos.len(), &nanos) > (limit.len(), &limit);
    match (larger, binary) {
        (false, _) => Ok(nanos),
        (true, Some(Ok(_))) => Ok(limit),
        (true, _) => Err(()),
    }
}

/// A text that follows the grammar.
#[derive(Debug, Clone)]
struct Parts {
    sign: &'static str,
    whole: String,
    point: bool,
    fraction: String,
    suffix: String,
}

impl Parts {
    fn text(&self) -> String {
        let point = if self.point { "." } else { "" };
        format!("{}{}{point}{}{}", self.sign, self.whole, self.fraction, self.suffix)
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let suffix = prop_oneof![
        6 => prop::sample::select(vec![
            "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
        ])
        .prop_map(str::to_owned),
        2 => (prop::bool::ANY, prop_oneof![-40..40_i64, -400..400_i64]).prop_map(|(upper, e)| {
            format!("{}{e}", if upper { 'E' } else { 'e' })
        }),
    ];
    let digits = prop_oneof!["[0-9]{0,4}", "[0-9]{0,22}", "0{0,30}[0-9]{0,12}", "9{17,22}"];
    let fraction = prop_oneof!["", "[0-9]{0,4}", "[0-9]{0,40}", "0{0,30}[0-9]{0,3}", "9{1,12}"];
    (prop::sample::select(vec!["", "", "+", "-"]), digits, any::<bool>(), fraction, suffix)
        .prop_map(|(sign, whole, point, fraction, suffix)| {
            let point = point || !fraction.is_empty();
            Parts { sign, whole, point, fraction, suffix }
        })
        .prop_filter("a number has a digit", |parts| {
            !parts.whole.is_empty() || !parts.fraction.is_empty()
        })
}

fn digits(nanos: i128) -> Vec<u8> {
    match nanos.unsigned_abs() {
        0 => Vec::new(),
        nanos => nanos.to_string().bytes().map(|b| b - b'0').collect(),
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn a_quantity_is_what_its_digits_say(parts in parts()) {
        let text = parts.text();
        match (text.parse::<Quantity>(), expected(&parts)) {
            (Ok(quantity), Ok(nanos)) => {
                prop_assert_eq!(digits(quantity.nanos()), nanos, "{}", text);
                let negative = parts.sign == "-" && !quantity.is_zero();
                prop_assert_eq!(quantity.is_negative(), negative);
            }
            (Err(QuantityError::TooLarge(named)), Err(())) => prop_assert_eq!(named, text),
            (given, expected) => prop_assert!(false, "{}: {:?}, not {:?}", text, given, expected),
        }
    }

    #[test]
    fn its_text_reads_back_and_roundings_agree(parts in parts(), other in parts()) {
        let (Ok(one), Ok(two)) = (parts.text().parse::<Quantity>(), other.text().parse::<Quantity>()) else {
            return Ok(());
        };
        let text = one.to_string();
        prop_assert_eq!(text.parse::<Quantity>(), Ok(one));
        let json = serde_json::to_string(&one).unwrap();
        prop_assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), one);

        let away = |by: i128| {
            let whole = one.nanos() / by;
            if one.nanos() % by == 0 { whole } else { whole + one.nanos().signum() }
        };
        prop_assert_eq!(i128::from(one.ceil()), away(1_000_000_000));
        prop_assert_eq!(one.milli_ceil().map(i128::from), {
            let milli = away(1_000_000);
            i64::try_from(milli).is_ok().then_some(milli)
        });
        let sum = one.nanos() + two.nanos();
        let fits = sum.abs() <= i128::from(i64::MAX) * 1_000_000_000;
        prop_assert_eq!(one.checked_add(two).map(Quantity::nanos), fits.then_some(sum));
        prop_assert_eq!(one.cmp(&two), one.nanos().cmp(&two.nanos()));
    }

    #[test]
    fn any_text_is_a_quantity_or_an_error(text in "\\PC{0,12}|[-+.0-9eEKMGinumkTPi ]{0,12}") {
        match text.parse::<Quantity>() {
            Ok(quantity) => {
                let written = quantity.to_string();
                prop_assert_eq!(written.parse::<Quantity>(), Ok(quantity));
            }
            Err(QuantityError::Malformed(named) | QuantityError::TooLarge(named)) => {
                prop_assert_eq!(named, text);
            }
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn numbers_in_json_are_quantities_too() {
    for (json, nanos) in [
        ("8", Some(8_000_000_000)),
        ("-8", Some(-8_000_000_000)),
        ("0.5", Some(500_000_000)),
        ("1e3", Some(1_000_000_000_000)),
        ("9223372036854775807", Some(9_223_372_036_854_775_807_000_000_000)),
        ("9223372036854775808", None),
        ("18446744073709551615", None),
        ("1e300", None),
        ("true", None),
        ("null", None),
        ("[]", None),
    ] {
        let quantity = serde_json::from_str::<Quantity>(json).ok();
        assert_eq!(quantity.map(Quantity::nanos), nanos, "{json}");
    }
}
