//! Quantities that are read, written and compared.

use super::*;
use alloc::string::ToString;

fn nanos(text: &str) -> i128 {
    text.parse::<Quantity>().unwrap().nanos()
}

#[test]
fn every_suffix_has_its_factor() {
    for (text, expected) in [
        ("1n", 1),
        ("1u", 1_000),
        ("1m", 1_000_000),
        ("1", NANOS),
        ("1k", 1_000 * NANOS),
        ("1M", 1_000_000 * NANOS),
        ("1E", 1_000_000_000_000_000_000 * NANOS),
        ("1Ki", 1_024 * NANOS),
        ("7Ei", (7 << 60) * NANOS),
        ("1e3", 1_000 * NANOS),
        ("1E3", 1_000 * NANOS),
        ("5e-4", 500_000),
        ("1e-20", 1),
        ("0e99999999", 0),
        ("1.", NANOS),
        (".5", NANOS / 2),
        ("+5", 5 * NANOS),
        ("-0005", -5 * NANOS),
        (" 12 ", 12 * NANOS),
        ("0.1Ki", 102_400_000_000),
        ("0.0000000001", 1),
        ("-0.0000000001", -1),
        ("0.12345678901234567890Ki", 126_419_751_949),
        (".0000000000000000000000001Ei", 116),
    ] {
        assert_eq!(nanos(text), expected, "{text}");
    }
}

#[test]
fn malformed_texts_are_refused() {
    for text in [
        "", " ", ".", "+", "-", "1 2", "1K", "1i", "1mi", "1e", "1e+", "1e1.5", "--1", "1Gib",
        "1é", "0x10", "١",
    ] {
        assert!(matches!(text.parse::<Quantity>(), Err(QuantityError::Malformed(_))), "{text:?}");
    }
}

#[test]
fn the_limit_caps_binary_and_refuses_decimal() {
    assert_eq!(nanos("8Ei"), LIMIT * NANOS);
    assert_eq!(nanos("-99999999999999999999999999999999999999999999Ki"), -LIMIT * NANOS);
    assert_eq!(nanos("9223372036854775807"), LIMIT * NANOS);
    for text in ["9223372036854775808", "10E", "1e30", "1e999999999", "99999999999999999999999n9"] {
        assert!(text.parse::<Quantity>().is_err(), "{text}");
    }
}

#[test]
fn conversions_round_away_from_zero() {
    let q: Quantity = "0.0015".parse().unwrap();
    assert_eq!((q.milli_ceil(), q.ceil()), (Some(2), 1));
    let sum = "0.1Ki".parse::<Quantity>().unwrap().checked_add("0.1Ki".parse().unwrap());
    assert_eq!(sum.unwrap().ceil(), 205);
    assert_eq!("10P".parse::<Quantity>().unwrap().milli_ceil(), None);
}

#[test]
fn text_is_canonical_and_parses_back() {
    for (text, canonical) in
        [("0.5", "500m"), ("1000", "1k"), ("1024", "1024"), ("0", "0"), ("1e3m", "")]
    {
        match text.parse::<Quantity>() {
            Ok(q) => {
                assert_eq!(q.to_string(), canonical);
                assert_eq!(q.to_string().parse::<Quantity>(), Ok(q));
            }
            Err(_) => assert_eq!(canonical, ""),
        }
    }
}
