//! Pods and gangs with resource claims, as judged by kube-scheduler 1.36.3.

use std::collections::{BTreeMap, BTreeSet};
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

/// Words of recorded answers; all others are names.
const WORDS: [&str; 31] = [
    "admin",
    "allocations",
    "best",
    "chosen",
    "consumed",
    "deallocated",
    "device",
    "devices",
    "driver",
    "errors",
    "feasible",
    "key",
    "kubeScheduler",
    "matchExpressions",
    "matchFields",
    "nodeSelector",
    "nodeSelectorTerms",
    "offers",
    "operator",
    "placed",
    "pod",
    "pool",
    "prefilterRejectedBy",
    "rejected",
    "repaired",
    "request",
    "scores",
    "steps",
    "total",
    "unresolvable",
    "values",
];

/// The kind of an alteration: its path, with a star for each name and each number.
fn kind(path: &str) -> String {
    let word = |part: &str| match part.split_once(' ') {
        Some(("no", name)) if WORDS.contains(&name) => part.to_string(),
        Some(("no", _)) => "no *".into(),
        Some(_) => "swapped".into(),
        None if WORDS.contains(&part) || matches!(part, "other" | "more" | "not" | "surprise") => {
            part.to_string()
        }
        None => "*".into(),
    };
    path.split('.').map(word).collect::<Vec<_>>().join(".")
}

/// Every kind of field in every place where it stands: altered, left out, added, in another order.
#[test]
fn each_kind_of_altered_field_is_noticed() {
    /// Alterations of a kind that are tried, each in another case.
    const OF_A_KIND: usize = 2;
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for packed in [PODS, GANGS] {
        for line in unpack(packed).lines() {
            let case: Value = serde_json::from_str(line).expect("JSON");
            let repaired = case["expect"].get("repaired").is_some();
            let mut seen = BTreeSet::new();
            for (path, expect) in altered(&case["expect"]) {
                let kind = kind(&path);
                let of_set = ["unresolvable", "best"].iter().any(|list| kind.contains(list));
                let outer = repaired && !path.starts_with("repaired.");
                if of_set && kind.ends_with("swapped") || outer || path.starts_with("kubeSch") {
                    continue;
                }
                let tried = kinds.entry(kind.clone()).or_default();
                if *tried == OF_A_KIND || !seen.insert(kind) {
                    continue;
                }
                *tried += 1;
                let mut case = case.clone();
                case["expect"] = expect;
                assert_noticed(&case, &path);
            }
        }
    }
    let leaves = ["device.other", "driver.other", "pool.other", "request.other", "admin.not"];
    let others = ["total.*.more", "scores.*.*.more", "chosen.other", "rejected.*.other"];
    let more = ["offers.*.*.other", "key.other", "operator.other", "consumed.*.other"];
    for end in leaves.iter().chain(&others).chain(&more) {
        assert!(kinds.keys().any(|kind| kind.ends_with(end)), "no {end}: {kinds:?}");
    }
    assert!(kinds.len() > 60, "{} kinds: {kinds:?}", kinds.len());
}
