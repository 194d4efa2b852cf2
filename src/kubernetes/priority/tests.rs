use super::*;

#[test]
fn classes_give_priorities_and_running_pods_keep_theirs() {
    let mut classes = Classes::default();
    classes.values.insert("high".to_string(), 10);
    assert_eq!(classes.resolve(None, Some("high"), false), Ok(10));
    assert_eq!(classes.resolve(Some(10), Some("high"), false), Ok(10));
    assert_eq!(classes.resolve(Some(9), Some("high"), true), Ok(9));
    assert_eq!(classes.resolve(Some(9), Some("high"), false).unwrap_err().0, "priority");
    assert_eq!(classes.resolve(None, Some("low"), false).unwrap_err().0, "priorityClassName");
    assert_eq!(classes.resolve(Some(3), Some("low"), false), Ok(3));
    assert_eq!(classes.resolve(None, None, false), Ok(0));
    classes.default = Some(("high".to_string(), 10));
    assert_eq!(classes.resolve(None, None, false), Ok(10));
    assert_eq!(classes.resolve(None, Some("system-node-critical"), false), Ok(2_000_001_000));
}
