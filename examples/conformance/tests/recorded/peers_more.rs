//! Cases of the peers' own tables that were missed or not read when first met, and what they taught.

use std::fs;

use conformance::Tally;
use serde_json::Value;

use super::{alter, is_noticed, paths, unpack};

const CASES: &[u8] = include_bytes!("../../data/peers-more.jsonl.gz");

fn run(text: &str) -> Tally {
    let mut tally = Tally::default();
    tally.run("data", text);
    tally
}

fn case(name: &str) -> Value {
    let all = unpack(CASES);
    let cases = all.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let named = |case: &Value| case.get("name").or_else(|| case.get("id")) == Some(&name.into());
    { cases }.find(named).expect("a case of this name")
}

/// All agree; two are of queues that Kueue refuses, and are left out by name.
#[test]
fn cases_that_were_missed_agree_now() {
    let tally = run(&unpack(CASES));
    assert_eq!((tally.passed(), tally.failed(), tally.skipped()), (25, 0, 2), "{tally}");
    let told = tally.to_string();
    assert!(told.contains("left out by kueue-refused-queue: 2\n  "), "{told}");
}

/// The rest of the peers' tables, where they are beside the repository.
#[test]
fn the_rest_of_the_tables_agrees() {
    for (file, passed, failed) in [
        ("kueue-tas/more.jsonl", 95, 0),
        ("kueue-tenants/more.jsonl.gz", 266, 0),
        ("kai/more.jsonl.gz", 396, 0),
        ("volcano-yunikorn-koordinator/more.jsonl.gz", 690, 0),
    ] {
        let path = format!("{}/../../../shared/conformance/{file}", env!("CARGO_MANIFEST_DIR"));
        let Ok(bytes) = fs::read(path) else { continue };
        let text = if file.ends_with("gz") {
            unpack(&bytes)
        } else {
            String::from_utf8(bytes).expect("text")
        };
        let tally = run(&text);
        assert_eq!((tally.passed(), tally.failed()), (passed, failed), "{file}: {tally}");
    }
}

/// Usage that is kept for a claim ends with its cycle: the next one has it again.
#[test]
fn what_a_cycle_keeps_ends_with_it() {
    let mut two = case("cycle-two-006");
    assert!(!is_noticed(&two));
    two["expect"]["secondCycle"]["assignments"]
        .as_object_mut()
        .expect("an object")
        .remove("default/new");
    assert!(is_noticed(&two));
}

/// Labels of KAI's tests are looser than what it does: where both are recorded, its own outcome counts, and
/// without it the labels do.
#[test]
fn labels_of_devices_are_held_to_without_an_outcome() {
    for name in ["allocate-026", "consolidation-001"] {
        let mut case = case(name);
        assert!(!is_noticed(&case), "{name}");
        case["observed"]["shared_devices"]["node0"] = serde_json::json!([["pending_job-0"]]);
        assert!(is_noticed(&case), "{name}");
        case["observed"] = Value::Null;
        assert!(is_noticed(&case), "{name}");
    }
}

/// Pods that have ended are counted out by `effective`, unless the gate is off.
#[test]
fn reclaimable_pods_have_to_be_counted_out() {
    for (name, gate) in [("flavor-043", false), ("flavor-034", true)] {
        let mut case = case(name);
        assert!(!is_noticed(&case), "{name}");
        case["gates"]["ReclaimablePods"] = gate.into();
        // Off, they are not looked at; on, they would have to be counted out.
        assert_eq!(is_noticed(&case), gate, "{name}");
    }
}

#[test]
fn altered_answers_of_these_cases_are_noticed() {
    let mut tried = 0;
    for line in unpack(CASES).lines().filter(|line| run(line).passed() == 1) {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let name = case.get("id").or_else(|| case.get("name")).and_then(Value::as_str);
        let name = name.expect("a name").to_string();
        let mut found = Vec::new();
        paths(&case["expect"], "/expect", &mut found);
        // Bounds, labels beside an outcome, and messages are not compared in the last letter.
        let loose = ["at_most", "gpu_groups", "skip_gpu", "reason", "failure", "pendingReasons"];
        found.retain(|(path, _)| !loose.iter().any(|part| path.contains(part)));
        if name.starts_with("fta-") {
            found.retain(|(path, _)| path.ends_with("/count") || path.contains("/values/"));
        }
        for (path, is_object) in found {
            let mut other = case.clone();
            alter(other.pointer_mut(&path).expect("it is there"), is_object);
            assert!(is_noticed(&other), "{path} of {name}");
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}
