use super::seconds;

#[test]
fn days_are_counted_through_leap_years() {
    assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
    assert_eq!(seconds("2000-03-01T00:00:00Z"), Some(951_868_800));
    assert_eq!(seconds("2026-08-22T10:00:01Z"), Some(1_787_392_801));
    for text in ["2026-08-22 10:00:00Z", "2026-13-01T00:00:00Z", "", "2026-08-22T10:00:00+0"] {
        assert_eq!(seconds(text), None, "{text}");
    }
}
