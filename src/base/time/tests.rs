use super::*;

#[test]
fn seconds_are_read_as_they_are_printed() {
    for nanos in [0, 1, 999_999_999, NANOS_PER_SEC, 5_250_000_000, u64::MAX] {
        let time = Time::from_nanos(nanos);
        assert_eq!(time.to_string().parse(), Ok(time));
    }
    assert_eq!(
        alloc::format!("{:.3}|{:>6}", Time::from_secs(2), Time::from_secs(7)),
        "2.000|     7"
    );
    assert_eq!(Time::MAX.to_string(), "18446744073.709551615");
    for text in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1.0000000001", "18446744073.8", " 1"] {
        assert!(text.parse::<Time>().is_err(), "{text:?}");
    }
}

#[test]
fn sums_saturate_and_checked_sums_say_so() {
    let (now, span) = (Time::from_secs(5), Duration::from_secs(7));
    assert_eq!((now - span, now.checked_sub(span)), (Time::ZERO, None));
    assert_eq!((Time::MAX + span, Time::MAX.checked_add(span)), (Time::MAX, None));
    assert_eq!(now.checked_add(Duration::MAX), None);
    assert_eq!((now + span).checked_sub(span), Some(now));
    assert_eq!(now - (now + span), Duration::ZERO);
    let mut moved = now;
    moved += span;
    moved -= span;
    assert_eq!(moved, now);
}
