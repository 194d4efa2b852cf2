//! The answers of kube-scheduler 1.36.3 and of Kueue: every verdict, score and choice agrees.
//!
//! The data of kube-scheduler is our own, see `data/kube-scheduler-1.36.3.README.md` and
//! `data/kubernetes-preemption.README.md`. Kueue's tables
//! are those of its `pkg/cache/scheduler/tas_cache_test.go` (August 2026, copyright The Kubernetes
//! Authors, Apache-2.0, see `data/kueue-tas.LICENSE`), run and rewritten as JSON lines; the expected
//! results are what Kueue returned. Koordinator's are of its tests, see `data/koordinator.README.md`.

mod claims;
#[path = "../../../common/dice.rs"]
mod dice;
mod kai_session;
mod peers_more;
mod process;
mod volcano_session;
mod volcano_yunikorn;
mod volumes;
mod yunikorn_attempt;

use std::fs;
use std::io::Read;
use std::path::Path;

use conformance::{Tally, kueue_cases};
use serde_json::Value;

fn unpack(packed: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("the data is gzip");
    text
}

fn agree(packed: &[u8], cases: usize) {
    let mut tally = Tally::default();
    tally.run("data", &unpack(packed));
    assert!(tally.failed() == 0, "{tally}");
    assert_eq!(tally.passed(), cases);
}

#[test]
fn pods_are_judged_scored_and_placed_as_by_kube_scheduler() {
    agree(include_bytes!("../../data/kube-scheduler-1.36.3-pods.jsonl.gz"), 800);
}

#[test]
fn gangs_are_tried_in_every_domain_as_by_kube_scheduler() {
    agree(include_bytes!("../../data/kube-scheduler-1.36.3-gangs.jsonl.gz"), 420);
}

const PREEMPTION_OF_PODS: &[u8] = include_bytes!("../../data/kubernetes-preemption-pods.jsonl.gz");
const PREEMPTION_OF_GANGS: &[u8] =
    include_bytes!("../../data/kubernetes-preemption-gangs.jsonl.gz");

#[test]
fn pods_preempt_as_by_kube_scheduler() {
    agree(PREEMPTION_OF_PODS, 117);
}

#[test]
fn gangs_preempt_as_by_kube_scheduler() {
    agree(PREEMPTION_OF_GANGS, 112);
}

/// An option that is not known is misuse, and no file of that name is looked for.
#[test]
fn an_unknown_option_is_no_file() {
    for option in ["--no-such-flag", "-x"] {
        let program = std::process::Command::new(env!("CARGO_BIN_EXE_conformance"));
        let output = { program }.arg(option).output().expect("the program starts");
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2));
        assert!(error.starts_with(&format!("error: {option} is no option\n")), "{error}");
    }
}

const STREAMS: &[u8] = include_bytes!("../../data/backfill-streams.jsonl.gz");

#[test]
fn jobs_on_equal_processors_start_as_in_the_textbook() {
    agree(STREAMS, 4 * 14);
}

#[test]
fn altered_starts_and_unknown_fields_of_streams_are_noticed() {
    let text = unpack(STREAMS);
    for line in text.lines().take(3) {
        let case: Value = serde_json::from_str(line).expect("JSON");
        for policy in ["fcfs", "easy", "easy_sjbf", "conservative"] {
            let mut case = case.clone();
            let starts = &mut case["expect"]["starts"][policy];
            let last = starts.as_array().expect("a list").len() - 1;
            starts[last] = (starts[last].as_u64().expect("a number") + 1).into();
            let mut tally = Tally::default();
            tally.run("f", &case.to_string());
            assert_eq!((tally.passed(), tally.failed()), (3, 1), "{policy}");
        }
        for pointer in ["", "/expect", "/expect/starts"] {
            let mut case = case.clone();
            let object = case.pointer_mut(pointer).and_then(Value::as_object_mut);
            object.expect("an object").insert("unheard".into(), Vec::<u64>::new().into());
            assert!(is_not_understood(&case), "{pointer}");
        }
    }
}

/// Costs of victims are compared case by case, and a dearer set fails; here is the sum.
#[test]
fn victims_by_default_cost_less_than_those_of_kube_scheduler() {
    let mut tally = Tally::default();
    tally.run("data", &unpack(PREEMPTION_OF_GANGS));
    let told = tally.to_string();
    for line in [
        "kube-scheduler       168     213        20            7525",
        "default              137     184        20            6532",
        "cheaper in 18 (of lower priority in 1), dearer in 0, proved least in 55",
        "kube-scheduler        17      17         0             621",
        "default               16      16         0             606",
        "cheaper in 1 (of lower priority in 0), dearer in 0, proved least in 6",
    ] {
        assert!(told.contains(line), "{told}");
    }
}

/// The recordings that the data is a selection of, where they lie beside the checkout.
#[test]
fn all_recordings_of_preemption_agree() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    for (name, cases) in [("pods", 1_300), ("gangs", 640)] {
        let file = beside.join(format!("kubernetes-preemption/{name}.jsonl.gz"));
        if let Ok(packed) = fs::read(file) {
            agree(&packed, cases);
        }
    }
}

/// Every answer in a value, altered once: by the path to it, the value with it altered.
fn altered(value: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                for (path, other) in altered(inner) {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), other);
                    all.push((format!("{name}.{path}"), fields.into()));
                }
                let mut fields = fields.clone();
                fields.remove(name);
                all.push((format!("no {name}"), fields.into()));
            }
            let mut fields = fields.clone();
            fields.insert("surprise".into(), 1.into());
            all.push(("surprise".into(), fields.into()));
        }
        Value::Array(list) => {
            for (at, inner) in list.iter().enumerate() {
                for (path, other) in altered(inner) {
                    let mut list = list.clone();
                    list[at] = other;
                    all.push((format!("{at}.{path}"), list.into()));
                }
                let mut list = list.clone();
                list.remove(at);
                all.push((format!("no {at}"), list.into()));
            }
            for (at, pair) in list.windows(2).enumerate().filter(|(_, pair)| pair[0] != pair[1]) {
                let mut list = list.clone();
                list[at] = pair[1].clone();
                list[at + 1] = pair[0].clone();
                all.push((format!("{at} swapped"), list.into()));
            }
        }
        Value::Bool(truth) => all.push(("not".into(), (!truth).into())),
        Value::Number(number) => {
            let more = number.as_i64().map_or_else(
                || (number.as_f64().expect("a number") + 1.0).into(),
                |number| Value::from(number.checked_add(1).unwrap_or(0)),
            );
            all.push(("more".into(), more));
        }
        Value::String(text) => all.push(("other".into(), format!("{text}0").into())),
        Value::Null => {}
    }
    all
}

/// Checks that a case with an altered answer fails, or is refused.
#[track_caller]
fn assert_noticed(case: &Value, path: &str) {
    let mut tally = Tally::default();
    tally.run("file", &case.to_string());
    let noticed = (tally.passed(), tally.failed()) == (0, 1);
    assert!(noticed, "{} {path}\n{case}", case["name"]);
}

#[test]
fn altered_answers_of_preemption_are_noticed() {
    let mut tried = 0;
    for packed in [PREEMPTION_OF_PODS, PREEMPTION_OF_GANGS] {
        for (number, line) in unpack(packed).lines().enumerate().step_by(3) {
            let mut case: Value = serde_json::from_str(line).expect("JSON");
            let all = altered(&case["expect"]);
            // Another part of the answers of each case.
            for (path, expect) in all.into_iter().skip(number % 11).step_by(11) {
                // That it is stable is not compared; and a step that has lost the one field by which
                // these cases are told is a sound one of another kind.
                let told = |step: &Value| ["preemption", "feasible"].map(|f| step.get(f).is_some());
                let steps = expect.get("steps").and_then(Value::as_array);
                let told = steps.is_none_or(|steps| steps.iter().any(|s| told(s).contains(&true)));
                if path.ends_with("tieStable") || path == "tieStable.not" || !told {
                    continue;
                }
                case["expect"] = expect;
                assert_noticed(&case, &path);
                tried += 1;
            }
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn what_a_scenario_of_preemption_holds_beyond_what_is_known_fails() {
    for packed in [PREEMPTION_OF_PODS, PREEMPTION_OF_GANGS] {
        let mut case = first(packed);
        case["scenario"]["extenders"] = serde_json::json!([{"url": "e"}]);
        let mut tally = Tally::default();
        tally.run("file", &case.to_string());
        assert_eq!((tally.passed(), tally.failed()), (0, 1));
        assert!(tally.to_string().contains("scenario.extenders: is not known"), "{tally}");
    }
}

/// The first case of the data, as JSON.
fn first(packed: &[u8]) -> serde_json::Value {
    let text = unpack(packed);
    serde_json::from_str(text.lines().next().expect("a line")).expect("JSON")
}

#[test]
fn what_differs_is_told() {
    let mut case = first(include_bytes!("../../data/kube-scheduler-1.36.3-pods.jsonl.gz"));
    case["expect"]["steps"][0]["rejected"]["n0"] = "NodePorts".into();
    let mut tally = Tally::default();
    tally.run("file", &case.to_string());
    let told = tally.to_string();
    for part in ["n0", "NodePorts", "NodeResourcesFit", "0 passed, 1 failed"] {
        assert!(told.contains(part), "{told}");
    }
    let mut case = first(include_bytes!("../../data/kube-scheduler-1.36.3-gangs.jsonl.gz"));
    case["expect"]["domains"][0]["scores"]["PodGroupPodsCount"] = 99.into();
    tally.run("file", &case.to_string());
    assert_eq!((tally.passed(), tally.failed()), (0, 2));
    case["expect"] = serde_json::json!({"feasible": false});
    tally.run("file", &case.to_string());
    assert!(tally.to_string().contains("placed 1, infeasible 0, exhausted 0, greedy 0, p50"));
}

#[test]
fn bad_lines_fail_by_name_and_the_run_goes_on() {
    let sound = first(include_bytes!("../../data/kube-scheduler-1.36.3-pods.jsonl.gz"));
    let name = sound["name"].as_str().expect("a name");
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut case = sound.clone();
        change(&mut case);
        format!("\n{sound}\n{case}\n{sound}\n")
    };
    let quantity = |case: &mut serde_json::Value| {
        case["scenario"]["nodes"][3]["status"]["allocatable"]["cpu"] = "four".into();
    };
    for (text, of, told) in [
        (format!("{{}}\n{sound}\n{sound}"), "f:1", "name: is no text"),
        (format!("\n\n[1\n{sound}\n\n{sound}"), "f:3", "EOF"),
        (with(&|case| case["expect"] = 1.into()), name, "expect: has neither"),
        (with(&|case| case["scenario"]["nodes"] = 1.into()), name, "scenario.nodes: "),
        (with(&quantity), name, "node n3: status.allocatable"),
    ] {
        let mut tally = Tally::default();
        tally.run("f", &text);
        assert_eq!((tally.passed(), tally.failed(), tally.skipped()), (2, 1, 0), "{text}");
        let found = tally.to_string();
        assert!(found.contains(&format!("\n{of}\n  step: f:")) && found.contains(told), "{found}");
        assert!(found.contains("not understood: 0 of 1 agree"), "{found}");
        assert!(found.ends_with("2 passed, 1 failed, 0 skipped\n"), "{found}");
        assert!(!tally.holds());
    }
}

/// A run that has seen no case has shown nothing; one that skips by rule says which and why.
#[test]
fn empty_runs_do_not_hold_and_skipped_cases_are_named() {
    let mut tally = Tally::default();
    tally.run("f", "\n\n");
    assert!(!tally.holds());
    assert!(tally.to_string().ends_with("0 passed, 0 failed, 0 skipped\n"));
    let skipped = unpack(TENANTS[0]).lines().find(|line| !agrees(line)).map(String::from);
    let skipped = skipped.expect("a case that is left out");
    let case: Value = serde_json::from_str(&skipped).expect("JSON");
    tally.run("f", &skipped);
    assert!(tally.holds());
    let told = tally.to_string();
    let line = format!("left out by admission-fair-sharing: 1\n  {}\n", case["name"]);
    assert!(told.contains(&line.replace('"', "")), "{told}");
    assert!(told.ends_with("0 passed, 0 failed, 1 skipped\n"), "{told}");
}

/// Failed cases beyond the first ten are told by name.
#[test]
fn every_failed_case_is_named() {
    let mut text = String::new();
    for number in 0..40 {
        text.push_str(&format!("{{\"name\": \"odd-{number}\"}}\n"));
    }
    let mut tally = Tally::default();
    tally.run("f", &text);
    let told = tally.to_string();
    for number in 0..40 {
        assert!(told.split_whitespace().any(|word| word == format!("odd-{number}")), "{told}");
    }
    assert!(told.contains("and 30 more:\n") && told.lines().all(|line| line.len() < 110), "{told}");
}

const KUEUE: &[u8] = include_bytes!("../../data/kueue-tas.jsonl.gz");

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

const TENANTS: [&[u8]; 2] = [
    include_bytes!("../../data/kueue-tenants.jsonl.gz"),
    include_bytes!("../../data/kueue-tenants-generated.jsonl.gz"),
];

#[test]
fn every_case_of_tenants_agrees() {
    // Five cases of admission fair sharing are left out.
    agree(TENANTS[0], 134);
    agree(TENANTS[1], 112);
}

/// The whole of the generated cases, where they are beside the repository.
#[test]
fn every_generated_case_of_tenants_agrees() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/conformance/kueue-tenants/generated.jsonl.gz"
    );
    if let Ok(packed) = std::fs::read(path) {
        agree(&packed, 669);
    }
}

/// Paths of everything in a value, but for what is not compared.
fn paths(value: &serde_json::Value, at: &str, found: &mut Vec<(String, bool)>) {
    const PASSED_OVER: [&str; 6] = [
        "pendingReasons",
        "noFitReason",
        "attempts",
        "triedFlavorIdx",
        "weight",
        "skippedPreemptions",
    ];
    match value {
        serde_json::Value::Object(object) => {
            found.push((at.into(), true));
            for (key, value) in
                object.iter().filter(|(key, _)| !PASSED_OVER.contains(&key.as_str()))
            {
                let key = key.replace('~', "~0").replace('/', "~1");
                paths(value, &format!("{at}/{key}"), found);
            }
        }
        serde_json::Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                paths(value, &format!("{at}/{index}"), found);
            }
        }
        _ => found.push((at.into(), false)),
    }
}

/// Whether a case fails, or is refused.
fn is_noticed(case: &Value) -> bool {
    let mut tally = Tally::default();
    tally.run("f", &case.to_string());
    tally.failed() > 0
}

/// Whether a case fails because it cannot be read.
fn is_not_understood(case: &Value) -> bool {
    let mut tally = Tally::default();
    tally.run("f", &case.to_string());
    tally.failed() == 1 && tally.to_string().contains("expected: a case\n")
}

/// Whether a case is compared and agrees.
fn agrees(case: &str) -> bool {
    let mut tally = Tally::default();
    tally.run("f", case);
    tally.passed() > 0
}

/// Alters a value, so that it is another: an object if `is_object` gets a field that nobody knows.
fn alter(value: &mut Value, is_object: bool) {
    match value {
        Value::Object(object) if is_object => {
            object.insert("unheard".into(), 1.into());
        }
        Value::Bool(flag) => *flag = !*flag,
        Value::String(text) => text.push('1'),
        Value::Number(number) => {
            let other = number.as_f64().expect("a number") as i64;
            *value = other.checked_add(1).unwrap_or(0).into();
        }
        other => *other = serde_json::json!(["unheard"]),
    }
}

/// Alterations of a case that were tried, and those that nobody noticed.
#[derive(Default)]
struct Alterations {
    tried: usize,
    unnoticed: Vec<String>,
}

impl Alterations {
    /// Alters the values of a case at some paths, one at a time.
    fn try_each<'p>(&mut self, case: &Value, paths: impl Iterator<Item = &'p (String, bool)>) {
        for (path, is_object) in paths {
            let mut altered = case.clone();
            let Some(value) = altered.pointer_mut(path) else { continue };
            alter(value, *is_object);
            if !is_noticed(&altered) {
                self.unnoticed.push(format!("{path} of {}", case["name"]));
            }
            self.tried += 1;
        }
    }

    /// Whether more than so many were tried, and each was noticed.
    #[track_caller]
    fn check(&self, least: usize) {
        assert!(
            self.unnoticed.is_empty(),
            "{} of {}: {:#?}",
            self.unnoticed.len(),
            self.tried,
            self.unnoticed
        );
        assert!(self.tried > least, "{}", self.tried);
    }
}

/// Fields that nobody knows are refused in the objects at some paths, as far as a case has them.
#[track_caller]
fn refuses_unknown_fields(case: &str, paths: &[&str]) {
    let case: Value = serde_json::from_str(case).expect("JSON");
    for path in paths {
        let mut case = case.clone();
        let Some(object) = case.pointer_mut(path).and_then(Value::as_object_mut) else { continue };
        object.insert("unheard".into(), true.into());
        assert!(is_not_understood(&case), "{path} of {}", case["name"]);
    }
}

#[test]
fn altered_answers_about_tenants_are_noticed() {
    let mut alterations = Alterations::default();
    for text in TENANTS.map(unpack) {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| agrees(line)) {
            let case: Value = serde_json::from_str(line).expect("JSON");
            let mut found = Vec::new();
            paths(&case["expect"], "/expect", &mut found);
            // All of it would take long: another part of each case.
            alterations.try_each(&case, found.iter().skip(number % 5).step_by(5));
        }
    }
    alterations.check(500);
}

#[test]
fn unknown_fields_of_cases_about_tenants_are_errors() {
    let within = ["", "/input", "/gates", "/input/clusterQueues/0", "/input/workloads/0"];
    for text in TENANTS.map(unpack) {
        for line in text.lines().step_by(3).filter(|line| agrees(line)) {
            refuses_unknown_fields(line, &within);
        }
    }
}

const KOORDINATOR: &[u8] = include_bytes!("../../data/koordinator.jsonl.gz");

#[test]
fn every_case_of_koordinator_agrees() {
    // 43 more are left out, see `docs/tenants/koordinator.md`.
    agree(KOORDINATOR, 74);
}

#[test]
fn altered_answers_of_koordinator_are_noticed() {
    let mut alterations = Alterations::default();
    for line in unpack(KOORDINATOR).lines().filter(|line| agrees(line)) {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let mut found = Vec::new();
        paths(&case["expect"], "/expect", &mut found);
        // The answers of a script stand in its steps.
        for (at, step) in case["input"]["script"].as_array().into_iter().flatten().enumerate() {
            for name in ["expect", "expect_partial"].iter().filter(|name| step.get(name).is_some())
            {
                paths(&step[name], &format!("/input/script/{at}/{name}"), &mut found);
            }
        }
        // That a quota is refused is compared, not in which words.
        let words = |path: &str| path == "/expect/err" && case["expect"]["err"].is_string();
        alterations.try_each(&case, found.iter().filter(|(path, _)| !words(path)));
    }
    alterations.check(200);
}

const KAI: &[u8] = include_bytes!("../../data/kai.jsonl.gz");

#[test]
fn every_case_of_kai_agrees() {
    agree(KAI, 93);
}

/// All recorded cases, where they are beside the repository.
#[test]
fn every_recorded_case_of_kai_agrees() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance/kai/cases.jsonl.gz");
    if let Ok(packed) = fs::read(path) {
        let mut tally = Tally::default();
        tally.run("data", &unpack(&packed));
        assert_eq!((tally.passed(), tally.failed()), (382, 0), "{tally}");
    }
}

#[test]
fn altered_answers_of_kai_are_noticed() {
    // Bounds that are never reached, and what KAI checks loosely.
    const PASSED_OVER: [&str; 5] = [
        "at_most_per_session",
        "gpu_groups",
        "skip_gpu_group_check",
        "gpus_accepted",
        "started_ago_at_least_s",
    ];
    let mut alterations = Alterations::default();
    for (number, line) in unpack(KAI).lines().enumerate() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let mut found = Vec::new();
        paths(&case["expect"], "/expect", &mut found);
        paths(&case["fair_shares_at_open"], "/fair_shares_at_open", &mut found);
        found.retain(|(path, _)| !PASSED_OVER.iter().any(|name| path.contains(name)));
        alterations.try_each(&case, found.iter().skip(number % 3).step_by(3));
    }
    alterations.check(300);
}

#[test]
fn unknown_fields_of_kai_cases_are_errors() {
    let within = ["", "/input", "/input/config", "/input/nodes/0", "/input/jobs/0/tasks/0/request"];
    for line in unpack(KAI).lines().step_by(3) {
        refuses_unknown_fields(line, &within);
    }
}
