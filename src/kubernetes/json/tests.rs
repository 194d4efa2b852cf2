use super::*;

#[test]
fn texts_are_read_as_serde_reads_them() {
    for text in [
        "null",
        " [1, -2.5, true, {\"a\": \"b\\n\\u00e9\\ud83d\\ude00\"}] ",
        "{\"8\": [{\"minors\": [0, 1]}], \"x\": {}}",
        "[]",
    ] {
        assert_eq!(value(text), serde_json::from_str(text).ok(), "{text}");
        assert!(value(text).is_some());
    }
    for text in ["", "[1,]", "{a: 1}", "[1 2]", "\"\\x\"", "tru", "[", "{\"a\":}", "1 2"] {
        assert_eq!(value(text), None, "{text}");
    }
    assert_eq!(value(&"[".repeat(10_000)), None);
}
