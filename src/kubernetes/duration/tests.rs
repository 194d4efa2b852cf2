use super::*;

#[test]
fn units_add_up() {
    for (text, millis) in
        [("600s", 600_000), ("1h30m", 5_400_000), ("1.5s", 1_500), (".25s", 250), ("0", 0)]
    {
        assert_eq!(go_duration(text), Some(Duration::from_millis(millis)), "{text}");
    }
    for text in ["", "5", "-1s", "s", ".s", "1d", "1s2", "1..2s", "9999999999999h"] {
        assert_eq!(go_duration(text), None, "{text}");
    }
}
