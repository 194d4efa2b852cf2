//! The answers of kube-scheduler 1.36.3 and of Kueue: every verdict, score and choice agrees.
//!
//! The data of kube-scheduler is our own, see `data/kube-scheduler-1.36.3.README.md`. Kueue's tables
//! are those of its `pkg/cache/scheduler/tas_cache_test.go` (August 2026, copyright The Kubernetes
//! Authors, Apache-2.0, see `data/kueue-tas.LICENSE`), run and rewritten as JSON lines; the expected
//! results are what Kueue returned.

#[path = "../examples/conformance/mod.rs"]
mod conformance;

use std::io::Read;

use conformance::{Tally, kueue_cases};

fn unpack(packed: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("the data is gzip");
    text
}

fn agree(packed: &[u8], cases: usize) {
    let mut tally = Tally::default();
    tally.run("data", &unpack(packed)).expect("the data is sound");
    assert!(tally.failed() == 0, "{tally}");
    assert_eq!(tally.passed(), cases);
}

#[test]
fn pods_are_judged_scored_and_placed_as_by_kube_scheduler() {
    agree(include_bytes!("data/kube-scheduler-1.36.3-pods.jsonl.gz"), 800);
}

#[test]
fn gangs_are_tried_in_every_domain_as_by_kube_scheduler() {
    agree(include_bytes!("data/kube-scheduler-1.36.3-gangs.jsonl.gz"), 420);
}

/// The first case of the data, as JSON.
fn first(packed: &[u8]) -> serde_json::Value {
    let text = unpack(packed);
    serde_json::from_str(text.lines().next().expect("a line")).expect("JSON")
}

#[test]
fn what_differs_is_told() {
    let mut case = first(include_bytes!("data/kube-scheduler-1.36.3-pods.jsonl.gz"));
    case["expect"]["steps"][0]["rejected"]["n0"] = "NodePorts".into();
    let mut tally = Tally::default();
    tally.run("file", &case.to_string()).expect("the case is sound");
    let told = tally.to_string();
    for part in ["n0", "NodePorts", "NodeResourcesFit", "0 passed, 1 failed"] {
        assert!(told.contains(part), "{told}");
    }
    let mut case = first(include_bytes!("data/kube-scheduler-1.36.3-gangs.jsonl.gz"));
    case["expect"]["domains"][0]["scores"]["PodGroupPodsCount"] = 99.into();
    tally.run("file", &case.to_string()).expect("the case is sound");
    assert_eq!((tally.passed(), tally.failed()), (0, 2));
    case["expect"] = serde_json::json!({"feasible": false});
    tally.run("file", &case.to_string()).expect("the case is sound");
    assert!(tally.to_string().contains("placed 1, infeasible 0, exhausted 0, greedy 0, p50"));
}

#[test]
fn bad_lines_are_named() {
    let sound = first(include_bytes!("data/kube-scheduler-1.36.3-pods.jsonl.gz"));
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut case = sound.clone();
        change(&mut case);
        format!("\n{sound}\n{case}\n")
    };
    let quantity = |case: &mut serde_json::Value| {
        case["scenario"]["nodes"][3]["status"]["allocatable"]["cpu"] = "four".into();
    };
    for (text, error) in [
        ("{}\n".to_string(), "f:1: name: is no text"),
        ("\n\n[1".to_string(), "f:3: EOF"),
        (with(&|case| case["expect"] = 1.into()), "f:3: expect: has neither"),
        (with(&|case| case["scenario"]["nodes"] = 1.into()), "f:3: scenario.nodes: "),
        (with(&quantity), "f:3: node n3: status.allocatable"),
    ] {
        let found = Tally::default().run("f", &text).expect_err("a bad line");
        assert!(found.starts_with(error), "{found}");
    }
}

const KUEUE: &[u8] = include_bytes!("data/kueue-tas.jsonl.gz");

#[test]
fn every_case_of_kueue_agrees() {
    let mut count = 0;
    let mut through_planner = 0;
    let mut wrong = Vec::new();
    for line in unpack(KUEUE).lines() {
        let verdict = kueue_cases::run_case(line).expect("a case");
        count += 1;
        through_planner += usize::from(verdict.through_planner);
        if let Some(difference) = verdict.difference {
            wrong.push(format!("{} ({}): {difference:?}", verdict.id, verdict.category));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ: {wrong:#?}", wrong.len());
    assert_eq!(count, 46);
    println!("{through_planner} through the planner too");
    assert!(through_planner >= 43);
}

#[test]
fn malformed_cases_of_kueue_are_errors() {
    let all = unpack(KUEUE);
    for line in ["", "{", "[]", "1", "null", "{}"] {
        assert!(kueue_cases::run_case(line).is_err(), "{line:?}");
    }
    for line in all.lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("JSON");
        for key in ["id", "mix", "levels", "nodes", "pods", "flavor", "podSets", "expect"] {
            for wrong in [None, Some(serde_json::json!(7)), Some(serde_json::json!([[]]))] {
                let mut case = case.clone();
                let fields = case.as_object_mut().expect("an object");
                fields.remove(key);
                if let Some(wrong) = wrong {
                    fields.insert(key.into(), wrong);
                }
                assert!(kueue_cases::run_case(&case.to_string()).is_err(), "{key} in {line}");
            }
        }
    }
}
