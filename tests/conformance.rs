//! The answers of kube-scheduler 1.36.3: every verdict, score and choice agrees.
//!
//! The data is our own, see `data/kube-scheduler-1.36.3.README.md`.

#[path = "../examples/conformance/mod.rs"]
mod conformance;

use std::io::Read;

use conformance::Tally;

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
