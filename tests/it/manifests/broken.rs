//! Documents that are broken, empty or odd: an error or nothing, never a panic.

use std::fs;

use phalanx::kubernetes::{Error, Manifests, Mode, Reader, Value};
use proptest::prelude::*;

use super::reading::examples;

#[test]
fn keys_that_occur_twice_are_refused_from_persons_and_the_last_counts_from_servers() {
    let text = r#"{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "name": "n2"}}"#;
    let read = |mode| {
        let mut reader = Reader::new(mode);
        reader.read("x.json", &mut serde_json::Deserializer::from_str(text))?;
        reader.finish()
    };
    let refused = read(Mode::AsWritten).unwrap_err().to_string();
    assert_eq!(refused, "x.json: node n2: metadata: \"name\" occurs twice");
    assert_eq!(read(Mode::AsStored).unwrap().nodes[0].name, "n2");
}

#[test]
fn broken_documents_are_syntax_errors_and_end_the_reading() {
    let whole = r#"{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}"#;
    let deep = format!(r#"{{"spec": {}"#, r#"{"affinity":"#.repeat(200));
    let inputs: [&[u8]; 5] =
        [&whole.as_bytes()[..40], b"", b"{\"kind\": \"N\xff\"}", b"nodes", deep.as_bytes()];
    for input in inputs {
        let mut reader = Reader::new(Mode::AsWritten);
        let error =
            reader.read("x.json", &mut serde_json::Deserializer::from_slice(input)).unwrap_err();
        assert!(matches!(error, Error::Syntax { .. }), "{error}");
        assert!(error.to_string().starts_with("x.json: "), "{error}");
        let mut again = serde_json::Deserializer::from_str(whole);
        assert_eq!(reader.read("y.json", &mut again).unwrap_err(), error);
        assert_eq!(reader.finish().unwrap_err(), error);
        let mut reader = Reader::new(Mode::AsWritten);
        let mut streamed = serde_json::Deserializer::from_reader(input);
        assert!(matches!(reader.read("x.json", &mut streamed), Err(Error::Syntax { .. })));
    }
    for text in ["a: [1", "a: b: c", "\"open"] {
        assert!(serde_saphyr::from_multiple::<Value>(text).is_err(), "{text}");
    }
    for text in ["5", "true", "\"text\""] {
        let mut reader = Reader::new(Mode::AsStored);
        assert!(reader.read("x", &mut serde_json::Deserializer::from_str(text)).is_err());
        let value = serde_json::from_str(text).unwrap();
        assert!(Reader::new(Mode::AsStored).take("x", value).is_err());
    }
}

#[test]
fn nothing_is_nothing() {
    let mut reader = Reader::new(Mode::AsWritten);
    reader.read("x", &mut serde_json::Deserializer::from_str("null")).unwrap();
    assert_eq!(reader.finish().unwrap(), Manifests::default());
}

/// Replaces the `at`-th value of a document, counted depth first.
fn replace(value: &mut serde_json::Value, at: &mut usize, with: &serde_json::Value) {
    if *at == 0 {
        *value = with.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        serde_json::Value::Array(values) => values.iter_mut().for_each(|v| replace(v, at, with)),
        serde_json::Value::Object(map) => map.values_mut().for_each(|v| replace(v, at, with)),
        _ => {}
    }
}

fn odd_values() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        Just(serde_json::json!(null)),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!([null, 1, "x", {}])),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[ -~]{0,12}".prop_map(Into::into),
        "(trainer|workers|ps|team-a|serving-root|Infinity|-1|0|9e99|1Ei)".prop_map(Into::into),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn reading_mutated_manifests_never_panics(
        file in 0..9_usize,
        changes in prop::collection::vec((0..400_usize, odd_values()), 1..6),
        stored in any::<bool>(),
    ) {
        let text = fs::read_to_string(&examples()[file]).unwrap();
        let mut documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        for (at, with) in changes {
            let mut at = at;
            for document in &mut documents {
                replace(document, &mut at, &with);
            }
        }
        let mode = if stored { Mode::AsStored } else { Mode::AsWritten };
        let mut reader = Reader::new(mode);
        for document in documents {
            let text = document.to_string();
            let _ = reader.read("x", &mut serde_json::Deserializer::from_str(&text));
        }
        if let Ok(manifests) = reader.finish() {
            for group in &manifests.groups {
                prop_assert!(group.check().is_ok());
            }
            for node in &manifests.nodes {
                prop_assert!(node.check().is_ok());
            }
        }
    }

    #[test]
    fn reading_mutilated_text_never_panics(
        file in 0..9_usize,
        cut in 0..200_usize,
        bytes in prop::collection::vec((0..4_000_usize, any::<u8>()), 0..6),
    ) {
        let text = fs::read_to_string(&examples()[file]).unwrap();
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        let mut text = serde_json::to_vec(&documents).unwrap();
        for (at, byte) in bytes {
            let length = text.len();
            text[at % length] = byte;
        }
        text.truncate(text.len().saturating_sub(cut));
        let mut reader = Reader::new(Mode::AsWritten);
        let _ = reader.read("x", &mut serde_json::Deserializer::from_slice(&text));
        let _ = reader.finish();
    }
}
