use super::Pattern;

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::new(pattern).unwrap_or_else(|| panic!("{pattern}")).matches(text)
}

#[test]
fn patterns_match_as_they_read() {
    for (pattern, yes, no) in [
        ("^node-[0-3]$", &["node-0", "node-3"][..], &["node-4", "node-10", "a-node-1"][..]),
        ("node-(a|bc)+$", &["node-a", "node-bca", "x-node-bc"], &["node-", "node-b"]),
        ("^a.c*d?$", &["ab", "abccc", "abcd"], &["a", "abdd"]),
        (r"^\w{2,3}-\d+$", &["ab-1", "abc-22"], &["a-1", "abcd-1", "ab-"]),
        ("[^x]y", &["ay"], &["xy", "y"]),
        ("", &["", "a"], &[]),
        ("^(?:rack1|rack2)-.*", &["rack1-", "rack2-n"], &["rack3-n"]),
        (r"a\.b", &["a.b"], &["axb"]),
        ("^(a{2}){2}$", &["aaaa"], &["aa", "aaa", "aaaaa"]),
        ("^(|a|b|c)$", &["", "a", "c"], &["d", "ab"]),
    ] {
        for text in yes {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for text in no {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}

#[test]
fn what_is_no_pattern_is_told() {
    for pattern in
        ["(", "a)", "*", "[", "[b-a]", "a{2,1}", "a{99999}", "(?i)a", r"\q", "(a{1000}){1000}"]
    {
        assert!(Pattern::new(pattern).is_none(), "{pattern}");
    }
    assert!(Pattern::new(&"(".repeat(100_000)).is_none());
    // No pattern is slow.
    assert!(!matches("^(a*)*(a*)*(a*)*b$", &"a".repeat(2_000)));
}
