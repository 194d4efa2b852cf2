//! Frees a rack for a gang by moving what runs: `cargo run --release --features full --example defragment`.
//!
//! A cluster is filled with single pods and small gangs up to a share, as it would be after weeks of
//! coming and going: there is room enough, and nowhere in one piece. The fewest moves that make room
//! are drawn before, between and after.

#[path = "../common/mod.rs"]
mod common;
mod draw;
mod scene;

use std::error::Error;
use std::process::ExitCode;

use phalanx::preempt::{Consolidation, PreemptingPlanner, Preemption, PreemptionRequest};
use phalanx::{Cluster, Framework, Request, Time};

use common::cli::{Arguments, DONE, Finish, Mistake, NO, Program};
use draw::Stages;
use scene::{Scene, Shape};

const PROGRAM: Program = Program {
    usage: "\
Finds the fewest moves of running pods that make room for a gang in one rack.

Usage: defragment [OPTIONS]

Options:
  --seed S      another filling of the cluster                    (1)
  --nodes N     nodes of 8 GPUs                                   (48)
  --rack N      nodes of a rack                                   (8)
  --used P      percent of the GPUs that are used at the beginning (60)
  --members M   pods of the gang                                  (3)
  --gpus G      GPUs of each                                      (8)
  --units K     at most so many units move                        (8)
  --anywhere    the gang need not be in one rack
  --help        this text

Exit code: 0 there is room, or moves make it; 1 no moves were found; 2 misuse.
",
    options: &["--seed", "--nodes", "--rack", "--used", "--members", "--gpus", "--units"],
    flags: &["--anywhere"],
};

fn main() -> ExitCode {
    PROGRAM.main(run)
}

fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    let shape = Shape {
        seed: arguments.number("--seed", 1, 0..=u32::MAX)?.into(),
        nodes: arguments.number("--nodes", 48, 1..=5_000)?,
        rack: arguments.number("--rack", 8, 1..=5_000)?,
        used: arguments.number("--used", 60, 0..=100)?,
        members: arguments.number("--members", 3, 1..=1_000)?,
        gpus: arguments.number("--gpus", 8, 1..=8)?,
        anywhere: arguments.flag("--anywhere"),
    };
    let units = arguments.number("--units", 8, 0..=64)?;
    let (code, out) = decide(&shape, units).map_err(|error| Mistake::Input(error.to_string()))?;
    Ok(Finish::with(code, out))
}

/// The exit code and the text.
fn decide(shape: &Shape, units: u32) -> Result<(u8, String), Box<dyn Error>> {
    let Scene { cluster, running } = scene::filled(shape)?;
    let gang = scene::gang(shape);
    let framework = Framework::default();
    let request = Request::new(&gang).now(Time::from_secs(scene::NOW));
    let request = PreemptionRequest::new(request).consolidation(Consolidation::new(units));
    let found = PreemptingPlanner::new().defragment(&cluster, &framework, &running, request)?;
    let mut out = scene::title(shape, &cluster);
    let preempt = match &found.answer {
        Preemption::Preempt(preempt) => preempt,
        Preemption::Placed(_) => return Ok((DONE, out + &format!("{}\n", found.answer))),
        _ => return Ok((NO, out + &format!("{}\n", found.answer))),
    };
    let between = moved(&cluster, preempt)?;
    let mut after = between.clone();
    after.commit(&framework, &preempt.plan)?;
    out += &draw::text(&Stages { before: &cluster, between: &between, after: &after }, &found);
    Ok((DONE, out))
}

/// The cluster once the moves are made, one after another: what stops leaves first.
fn moved(before: &Cluster, preempt: &phalanx::preempt::Preempt) -> Result<Cluster, Box<dyn Error>> {
    let mut cluster = before.clone();
    let mut stopped = Vec::new();
    for step in preempt.moves.iter().filter(|step| step.stops) {
        let pod = cluster.pod(&step.pod.namespace, &step.pod.name).ok_or("a pod that runs")?;
        stopped.push(pod.to_pod());
        cluster.remove_pod(&step.pod.namespace, &step.pod.name)?;
    }
    let mut stopped = stopped.into_iter();
    for step in &preempt.moves {
        let pod = if step.stops {
            stopped.next()
        } else {
            let pod = cluster.pod(&step.pod.namespace, &step.pod.name);
            let pod = pod.map(phalanx::state::PodView::to_pod);
            cluster.remove_pod(&step.pod.namespace, &step.pod.name)?;
            pod
        };
        let mut pod = pod.ok_or("a pod that runs")?.on(&step.to);
        pod.device_indexes.clone_from(&step.devices);
        cluster.add_pod(pod)?;
    }
    Ok(cluster)
}
