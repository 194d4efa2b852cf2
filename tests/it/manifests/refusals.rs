//! Texts of refusals.

use super::reading::written;

/// Reads each text as a person's and compares the error.
#[track_caller]
pub(super) fn refused(cases: &[(String, String)]) {
    for (text, expected) in cases {
        let error = match written(text) {
            Ok(_) => panic!("accepted:\n{text}\n  expected {expected}"),
            Err(error) => error.to_string(),
        };
        assert!(error.starts_with("m.yaml: "), "{error}");
        assert!(error.contains(expected), "{text}\n  expected {expected}\n  but      {error}");
    }
}

pub(super) fn pair(text: String, expected: &str) -> (String, String) {
    (text, expected.to_owned())
}
