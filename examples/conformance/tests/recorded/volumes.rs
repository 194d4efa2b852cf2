//! The answers of kube-scheduler 1.36.3 for pods with volumes, alone and as groups.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{agree, altered, assert_noticed, unpack};

const VOLUMES: &[u8] = include_bytes!("../../data/kubernetes-volumes.jsonl.gz");

#[test]
fn pods_with_volumes_are_judged_and_get_theirs_as_by_kube_scheduler() {
    agree(VOLUMES, 126);
}

#[test]
fn altered_answers_about_volumes_are_noticed() {
    let mut tried = 0;
    for (number, line) in unpack(VOLUMES).lines().enumerate().step_by(3) {
        let mut case: Value = serde_json::from_str(line).expect("JSON");
        let all = altered(&case["expect"]);
        // Another part of the answers of each case.
        for (path, expect) in all.into_iter().skip(number % 17).step_by(17) {
            // The answer of kube-scheduler for a planted group is not compared.
            let planted = expect.get("kubeScheduler").is_some() || path.starts_with("no kube");
            if planted && path != "feasible.not" && path != "surprise" {
                continue;
            }
            // Names of nodes and claims are sets.
            let is_set = ["best", "unresolvable", "provision"].iter().any(|s| path.contains(s));
            if path.ends_with("swapped") && is_set {
                continue;
            }
            case["expect"] = expect;
            assert_noticed(&case, &path);
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried}");
}

/// The recordings that the data is a selection of, where they lie beside the checkout.
#[test]
fn all_recordings_of_volumes_agree() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let file = beside.join("kubernetes-volumes-and-claims/volumes.jsonl.gz");
    if let Ok(packed) = fs::read(file) {
        agree(&packed, 504);
    }
}
