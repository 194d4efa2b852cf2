use super::*;
use alloc::vec;

#[test]
fn order_and_repeated_keys_are_kept_and_the_last_one_counts() {
    let value: Value = serde_json::from_str(r#"{"b": 1, "a": [null, true], "b": 2}"#).unwrap();
    assert_eq!(
        value,
        Value::Map(vec![
            ("b".into(), Value::Integer(1)),
            ("a".into(), Value::List(vec![Value::Null, Value::Bool(true)])),
            ("b".into(), Value::Integer(2)),
        ])
    );
    assert_eq!(value.entry("b"), Some(&Value::Integer(2)));
}

#[test]
fn deep_nesting_is_an_error() {
    let text = "[".repeat(100_000);
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    assert!(<Value as de::Deserialize>::deserialize(&mut deserializer).is_err());
    let text = "[".repeat(MAX_NESTING + 1) + &"]".repeat(MAX_NESTING + 1);
    let error = serde_json::from_str::<Value>(&text).unwrap_err().to_string();
    assert!(error.contains("nested deeper than 100 levels"), "{error}");
}

#[test]
fn yaml_and_json_read_alike() {
    let yaml: Value = serde_saphyr::from_str("a: 1\nb: [x, '2', 0.5, ~, true]\n").unwrap();
    let json: Value =
        serde_json::from_str(r#"{"a": 1, "b": ["x", "2", 0.5, null, true]}"#).unwrap();
    assert_eq!(yaml, json);
}
