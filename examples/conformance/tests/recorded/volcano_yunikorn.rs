//! Volcano's and YuniKorn's cases: see `data/volcano-yunikorn.README.md`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{altered, unpack};
use conformance::Tally;

const CASES: &[u8] = include_bytes!("../../data/volcano-yunikorn.jsonl.gz");

fn run(case: &str) -> Tally {
    let mut tally = Tally::default();
    tally.run("file", case);
    tally
}

#[test]
fn cases_of_volcano_and_yunikorn_agree() {
    let tally = run(&unpack(CASES));
    assert!(tally.failed() == 0, "{tally}");
    assert_eq!(tally.passed(), PASSED);
}

/// How many of the cases are compared.
const PASSED: usize = 141;

/// The whole set, where it lies beside the checkout.
#[test]
fn all_cases_of_volcano_and_yunikorn_agree() {
    let beside = "../../../shared/conformance/volcano-yunikorn-koordinator/cases.jsonl.gz";
    let Ok(packed) = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(beside)) else { return };
    let ours = |line: &&str| !line.contains("\"system\":\"koordinator\"");
    let text: Vec<String> = unpack(&packed).lines().filter(ours).map(Into::into).collect();
    let tally = run(&text.join("\n"));
    assert!(tally.failed() == 0, "{tally}");
    assert_eq!(tally.passed(), 272);
}

/// Whether another answer has to be noticed. What is not stated is not compared, an amount of nothing
/// is as good as none, and some fields count only beside others.
fn is_told(case: &Value, path: &str) -> bool {
    let text = |name: &str| case[name].as_str().unwrap_or("");
    let part = |name: &str| path.split('.').any(|part| part == name);
    match text("function") {
        "TestFairnessRatio" if part("expectedInfSign") || part("expectedRatio") => return false,
        "TestFitInScore" if part("fit") => return false,
        _ => {}
    }
    // Names in any order.
    let unordered = text("system") == "volcano" && path.ends_with("swapped");
    !unordered && !path.contains("no ")
}

#[test]
fn altered_answers_of_volcano_and_yunikorn_are_noticed() {
    let (mut tried, text) = (0, unpack(CASES));
    for (number, line) in text.lines().enumerate() {
        if run(line).passed() == 0 {
            continue;
        }
        let mut case: Value = serde_json::from_str(line).expect("JSON");
        let session = case["family"] == "session";
        let all = altered(&case["expect"]);
        let (skipped, step) = if session { (number % 7, 7) } else { (0, 1) };
        for (path, expect) in all.into_iter().skip(skipped).step_by(step) {
            // Nodes of tied scores are a draw.
            let drawn =
                session && path.starts_with("bound.") && path.rsplit('.').next() == Some("other");
            if drawn || !is_told(&case, &path) {
                continue;
            }
            case["expect"] = expect;
            let tally = run(&case.to_string());
            assert_eq!((tally.passed(), tally.failed()), (0, 1), "{} {path}\n{case}", case["name"]);
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn what_a_case_holds_beyond_what_is_known_fails() {
    for line in unpack(CASES).lines() {
        if run(line).passed() == 0 {
            continue;
        }
        let mut case: Value = serde_json::from_str(line).expect("JSON");
        case["input"]["surprise"] = 1.into();
        let tally = run(&case.to_string());
        assert_eq!((tally.passed(), tally.failed()), (0, 1), "{}", case["name"]);
    }
}
