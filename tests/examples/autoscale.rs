//! The example program `autoscale`: what is bought, at what price, and what could go.

#[path = "../../examples/autoscale/mod.rs"]
mod program;

use std::collections::{BTreeMap, BTreeSet};

use crate::common::cli::Finish;
use serde_json::Value;

fn run(arguments: &[&str]) -> Finish {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    program::PROGRAM.run(&arguments, program::run)
}

/// A backlog that is answered in little time.
const SMALL: [&str; 4] = ["--gangs", "10", "--budget", "1500"];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no amount"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn sum(list: &[Value]) -> u64 {
    list.iter().map(|own| number(&own["price"])).sum()
}

#[test]
fn prices_add_up_and_claims_hold() {
    let templates: BTreeMap<String, (u64, usize)> = program::scene::templates()
        .into_iter()
        .map(|own| (own.name().to_string(), (own.price, own.nodes as usize)))
        .collect();
    let (mut claims, mut scenes) = (BTreeSet::new(), BTreeSet::new());
    for seed in ["1", "2"] {
        let finish = run(&[&SMALL[..], &["--seed", seed, "--output", "json"]].concat());
        assert_eq!((finish.code, &*finish.err), (0, ""));
        let answer: Value = serde_json::from_str(&finish.out).unwrap();
        let (nodes, gpus) = (number(&answer["nodes"]), number(&answer["gpus"]));
        assert_eq!((nodes, number(&answer["gangs"])), (1_213, 10));
        let used = number(&answer["gpusUsed"]);
        assert!(used * 100 >= gpus * 95 && (used - 1) * 100 < gpus * 95, "{used} of {gpus}");

        let up = &answer["scaleUp"];
        let blocks = list(&up["blocks"]);
        let mut names = BTreeSet::new();
        for block in blocks {
            let (price, size) = templates[block["template"].as_str().unwrap()];
            assert_eq!((number(&block["price"]), list(&block["nodes"]).len()), (price, size));
            assert!(!list(&block["groups"]).is_empty(), "{block} is for nothing");
            names.extend(list(&block["nodes"]).iter().map(|name| name.as_str().unwrap()));
        }
        let (price, least) = (number(&up["price"]), number(&up["lowerBound"]));
        assert_eq!(price, sum(blocks));
        assert_eq!(names.len() as u64, number(&up["newNodes"]));
        let claim = up["claim"].as_str().unwrap();
        match claim {
            "first" | "cheapest" => assert_eq!(price, least),
            "found" => assert!(price > least),
            other => panic!("no claim: {other}"),
        }
        assert!(number(&up["steps"]) <= 1_500);
        let first_fit = &answer["firstFit"];
        assert_eq!(number(&first_fit["notStarted"]), 0);
        assert!(number(&first_fit["price"]) >= least);

        let down = &answer["scaleDown"];
        let removals = list(&down["removals"]);
        assert_eq!(number(&down["price"]), sum(removals));
        assert!(!removals.is_empty());
        let stay = list(&down["kept"]).len() + removals.len();
        assert_eq!(stay as u64, nodes + names.len() as u64);
        claims.insert(claim.to_string());
        scenes.insert(up["blocks"].to_string());
    }
    assert_eq!(scenes.len(), 2, "seeds change nothing");
    assert!(!claims.is_empty());
}

#[test]
fn the_drawing_says_what_the_numbers_say() {
    let finish = run(&SMALL);
    assert_eq!((finish.code, &*finish.err), (0, ""));
    let answer = run(&[&SMALL[..], &["--output", "json"]].concat());
    let answer: Value = serde_json::from_str(&answer.out).unwrap();
    let thousands = crate::common::text::thousands;
    let (up, down) = (&answer["scaleUp"], &answer["scaleDown"]);
    let nodes = number(&up["newNodes"]);
    for part in [
        "openb (Alibaba): 1,213 nodes, 6,212 GPUs, 95.0 % taken; 10 gangs wait\n".into(),
        format!("{nodes} new nodes for {} (", thousands(number(&up["price"]))),
        format!("lower bound {:>21}\n", thousands(number(&up["lowerBound"]))),
        format!("could be taken away for {}, ", thousands(number(&down["price"]))),
    ] {
        assert!(finish.out.contains(&part), "{part:?} is not in\n{}", finish.out);
    }
    // A line for each node, on which a slot stands for each GPU.
    let drawn = |name: &str| {
        let line = finish.out.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.and_then(|line| line.split_whitespace().nth(1)).map(str::len)
    };
    for block in list(&up["blocks"]) {
        let gpus = match block["template"].as_str().unwrap() {
            "t4-2" | "p100-2" => 2,
            "t4-4" | "v100m16-4" => 4,
            _ => 8,
        };
        for node in list(&block["nodes"]) {
            assert_eq!(drawn(node.as_str().unwrap()), Some(gpus), "{node}");
        }
    }
}

#[test]
fn arguments_that_make_no_sense_are_told() {
    for (arguments, complaint) in [
        (&["--output", "yaml"][..], "--output"),
        (&["--gangs", "0"], "--gangs"),
        (&["--budget", "some"], "--budget"),
        (&["--nodes", "3"], "--nodes"),
    ] {
        let finish = run(arguments);
        assert_eq!((finish.code, &*finish.out), (2, ""), "{arguments:?}");
        assert!(finish.err.contains(complaint), "{}", finish.err);
    }
}
