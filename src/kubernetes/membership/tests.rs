use super::*;
use alloc::vec;

#[test]
fn lists_of_names_are_json() {
    assert_eq!(names("[]"), Some(vec![]));
    assert_eq!(
        names(r#" [ "a/b" , "c/d" ] "#),
        Some(vec!["a/b".parse().unwrap(), "c/d".parse().unwrap()])
    );
    for text in ["", "a/b", "[a/b]", r#"["a"]"#, r#"["a/b",]"#, r#"["a/b" "c/d"]"#, r#"["/b"]"#] {
        assert_eq!(names(text), None, "{text}");
    }
}
