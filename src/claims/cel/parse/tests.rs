use super::*;

#[test]
fn operators_bind_as_in_cel() {
    let same = |a: &str, b: &str| assert_eq!(parse(a), parse(b), "{a}");
    same("1 + 2 * 3 == 7 && !a.b || c", "((1 + (2 * 3)) == 7 && (!(a.b))) || c");
    same("a ? b : c ? d : e", "a ? b : (c ? d : e)");
    same("x in [1, 2] && y", "(x in [1, 2]) && y");
    same("-1 - -2", "(-1) - (-2)");
    assert!(parse("-9223372036854775808").is_ok());
    for wrong in ["", "1 +", "(1", "\"a", "a b", "9223372036854775808", "1 ? 2", "@", "[1", "'\\q'"]
    {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let deep = |open: &str, count: usize| open.repeat(count);
    for open in ["(", "[", "!", "-", "1+", "a.", "{1:", "a?b:"] {
        let _ = parse(&deep(open, 3_000));
    }
    assert!(parse(&alloc::format!("{}1{}", deep("(", 200), deep(")", 200))).is_err());
}
