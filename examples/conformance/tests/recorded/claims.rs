//! Pods and gangs with resource claims, as judged by kube-scheduler 1.36.3.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{agree, altered, assert_noticed, unpack};
use conformance::Tally;

const PODS: &[u8] = include_bytes!("../../data/kube-scheduler-1.36.3-claims.jsonl.gz");
const GANGS: &[u8] = include_bytes!("../../data/kube-scheduler-1.36.3-claims-of-gangs.jsonl.gz");

#[test]
fn pods_get_the_devices_that_kube_scheduler_gives_them() {
    agree(PODS, 63);
}

#[test]
fn gangs_get_their_devices_and_planted_ones_all_of_them() {
    agree(GANGS, 30);
}

/// The recordings that the data is a selection of, where they lie beside the checkout. Those with
/// volumes are read elsewhere.
#[test]
fn all_recordings_of_claims_agree() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    for (name, cases) in [("claims", 600), ("gangs", 260)] {
        let file = beside.join(format!("kubernetes-volumes-and-claims/{name}.jsonl.gz"));
        let Ok(packed) = fs::read(file) else { continue };
        let text = unpack(&packed);
        let own =
            text.lines().filter(|line| !line.contains("-volumes-") && !line.contains("-local-"));
        let mut tally = Tally::default();
        tally.run("data", &own.collect::<Vec<_>>().join("\n"));
        assert!(tally.failed() == 0, "{tally}");
        assert_eq!(tally.passed(), cases);
    }
}

#[test]
fn altered_answers_of_claims_are_noticed() {
    let mut tried = 0;
    for packed in [PODS, GANGS] {
        for (number, line) in unpack(packed).lines().enumerate().step_by(3) {
            let mut case: Value = serde_json::from_str(line).expect("JSON");
            let repaired = case["expect"].get("repaired").is_some();
            let all = altered(&case["expect"]);
            // Another part of the answers of each case.
            for (path, expect) in all.into_iter().skip(number % 61).step_by(61) {
                // The order of these lists is not compared; of a gang that is repaired nothing but
                // the repaired answer; and of one that is known to fit not what others make of it.
                let listed = ["unresolvable", "best"].iter().any(|list| path.contains(list));
                let outer = repaired && !path.starts_with("repaired.");
                if listed && path.ends_with("swapped") || outer || path.starts_with("kubeSch") {
                    continue;
                }
                case["expect"] = expect;
                assert_noticed(&case, &path);
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}
