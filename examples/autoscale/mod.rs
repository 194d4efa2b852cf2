//! The program: arguments, the answer, the measurement.

mod draw;
mod first_fit;
pub(crate) mod scene;

use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

use phalanx::Framework;
use phalanx::autoscale::{Autoscaler, ScaleDownRequest, ScaleUpOutcome, ScaleUpRequest};

use crate::common::cli::{Arguments, DONE, Finish, Mistake, NO, Program};
use crate::common::text::span;
use scene::{GPU, MODEL, Scene};

/// The program's arguments.
pub(crate) const PROGRAM: Program = Program {
    usage: "\
Finds the cheapest nodes with which a backlog of gangs starts, and nodes that can go.

Usage: autoscale [OPTIONS]

Options:
  --output FORM  text or json                              [text]
  --seed S       another filling and another backlog       [1]
  --gangs N      how many gangs wait                       [64]
  --budget STEPS steps that the search may take            [20000]
  --speed        measure 1,000 nodes, 200 gangs and 10 templates instead
  --help         this text

Exit code: 0 the gangs start; 1 no nodes help; 2 misuse.
",
    options: &["--output", "--seed", "--gangs", "--budget"],
    flags: &["--speed"],
};

/// Answers a call.
pub(crate) fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    let output = arguments.word("--output", &["text", "json"])?;
    let seed = arguments.number("--seed", 1, 0..=u32::MAX)?;
    let gangs = arguments.number("--gangs", 64, 1..=1_000)?;
    let budget = arguments.number("--budget", 20_000, 0..=u32::MAX)?;
    let fault = |error: Box<dyn Error>| Mistake::Input(error.to_string());
    if arguments.flag("--speed") {
        return speed(u64::from(budget)).map(|out| Finish::with(DONE, out)).map_err(fault);
    }
    let scene = scene::openb(u64::from(seed), gangs as usize).map_err(fault)?;
    decide(&scene, u64::from(budget), output == "json").map_err(fault)
}

fn decide(scene: &Scene, budget: u64, json: bool) -> Result<Finish, Box<dyn Error>> {
    let framework = Framework::default();
    let mut autoscaler = Autoscaler::new();
    let request = ScaleUpRequest::new(&scene.backlog).templates(scene.templates.clone());
    let before = Instant::now();
    let answer = autoscaler.scale_up(&scene.cluster, &framework, request.budget(budget))?;
    let taken = before.elapsed();
    let ScaleUpOutcome::Start(start) = answer else {
        return Ok(Finish::with(NO, format!("{answer}\n")));
    };
    let first_fit = first_fit::buy(&scene.cluster, &scene.templates, &scene.backlog)?;

    let mut cluster = scene.cluster.clone();
    for node in start.nodes() {
        cluster.add_node(node.clone())?;
    }
    for plan in &start.plans {
        cluster.commit(&framework, plan)?;
    }
    let mut running = scene.running.clone();
    for group in &scene.backlog {
        running.set_group(group)?;
    }
    let gpu = cluster.resource(GPU).ok_or("there are no GPUs")?;
    let prices: Vec<(String, u64)> = cluster
        .nodes()
        .map(|node| {
            let model = node.label(MODEL).unwrap_or_default();
            (node.name().to_string(), scene::price(model, node.allocatable(gpu)))
        })
        .collect();
    let before = Instant::now();
    let request = ScaleDownRequest::new().candidates(prices);
    let down = autoscaler.scale_down(&cluster, &framework, &running, request)?;
    let emptied = before.elapsed();
    let show = if json { draw::json } else { draw::text };
    Ok(Finish::with(DONE, show(scene, (&start, taken), &first_fit, (&down, emptied))))
}

/// The time of an answer, and of one for a gang more.
fn speed(budget: u64) -> Result<String, Box<dyn Error>> {
    let framework = Framework::default();
    let scene = scene::synthetic(1_000, 201)?;
    let (last, most) = scene.backlog.split_last().ok_or("there are no gangs")?;
    let (mut first, mut more, mut known) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..9 {
        let mut autoscaler = Autoscaler::new();
        let mut ask = |gangs: &[phalanx::PodGroup]| {
            let request = ScaleUpRequest::new(gangs).templates(scene.templates.clone());
            let request = request.budget(budget);
            let before = Instant::now();
            let answer = autoscaler.scale_up(&scene.cluster, &framework, request);
            answer.map(|answer| (before.elapsed(), answer.to_string()))
        };
        let (taken, answer) = ask(most)?;
        first.push(taken);
        known = answer;
        let mut all = most.to_vec();
        all.push(last.clone());
        let (taken, answer) = ask(&all)?;
        more.push(taken);
        let _ = write!(known, "; with one gang more {answer}");
    }
    first.sort_unstable();
    more.sort_unstable();
    Ok(format!(
        "1,000 nodes, 200 pending gangs, 10 templates: {known}\n\
         answer         median {}, fastest {}\n\
         one gang more  median {}, fastest {}\n",
        span(first[first.len() / 2]),
        span(first[0]),
        span(more[more.len() / 2]),
        span(more[0]),
    ))
}
