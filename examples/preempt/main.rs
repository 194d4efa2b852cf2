//! Makes room for a gang on a full cluster: `cargo run --release --features full --example preempt -- --svg FILE`.
//!
//! The nodes are those of openb, Alibaba's production GPU cluster, sixteen to a rack, filled with
//! gangs of three priorities. A gang that wants one rack comes; what goes for it is drawn before,
//! between and after, and explained. What kube-scheduler's rule would evict stands beside it.

#[path = "../common/mod.rs"]
mod common;
mod draw;
mod rule;
mod scene;

use std::fmt::Write as _;
use std::process::ExitCode;

use phalanx::preempt::{PreemptingPlanner, Preemption, PreemptionRequest};
use phalanx::{Framework, PodGroup, Request, Time};

use common::cli::{Arguments, Finish, Mistake, Program};
use draw::Stages;
use scene::Scene;

const PROGRAM: Program = Program {
    usage: "\
Finds who must go so that a gang can start in one rack of a full cluster.

Usage: preempt [OPTIONS]

Options:
  --seed S     another filling of the cluster                  (1)
  --members M  pods of the gang, of 8 GPUs each                (6)
  --priority P the gang's priority; what runs has 10, 20, 30   (25)
  --svg FILE   draw the racks concerned before, between and after
  --help       this text

Exit code: 0 the gang starts; 1 no victims help; 2 misuse.
",
    options: &["--seed", "--members", "--priority", "--svg"],
    flags: &[],
};

fn main() -> ExitCode {
    PROGRAM.main(run)
}

fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    let seed = arguments.number("--seed", 1, 0..=u32::MAX)?;
    let members = arguments.number("--members", 6, 1..=1_000)?;
    let priority = arguments.number("--priority", 25, 0..=1_000)?;
    let fault = |error: Box<dyn std::error::Error>| Mistake::Input(error.to_string());
    let scene = scene::filled(u64::from(seed)).map_err(fault)?;
    let gang = scene::gang(members as usize, priority as i32);
    let (code, out, svg) = decide(&scene, &gang).map_err(fault)?;
    if let (Some(file), Some(svg)) = (arguments.value("--svg"), svg) {
        common::files::write(file, svg).map_err(Mistake::Input)?;
    }
    Ok(Finish::with(code, out))
}

/// The exit code, the text and the picture.
fn decide(
    scene: &Scene,
    gang: &PodGroup,
) -> Result<(u8, String, Option<String>), Box<dyn std::error::Error>> {
    let framework = Framework::default();
    let request = Request::new(gang).now(Time::from_secs(scene::NOW));
    let request = PreemptionRequest::new(request);
    let mut planner = PreemptingPlanner::new();
    let why = planner.explain(&scene.cluster, &framework, &scene.running, request.clone())?;
    let mut out = scene.title(gang);
    let preempt = match &why.answer {
        Preemption::Preempt(preempt) => preempt,
        Preemption::Placed(_) => return Ok((0, out + &format!("{why}\n"), None)),
        _ => return Ok((1, out + &format!("{why}\n"), None)),
    };
    let mut between = scene.cluster.clone();
    for pod in preempt.victims.iter().flat_map(|victim| &victim.pods) {
        between.remove_pod(&pod.namespace, &pod.name)?;
    }
    let mut after = between.clone();
    after.commit(&framework, &preempt.plan)?;
    let stages = Stages { before: &scene.cluster, between: &between, after: &after };
    out += &draw::text(&stages, preempt);
    let _ = writeln!(out, "\n{why}");
    let beside = rule::beside(scene, gang, &request, preempt.cost)?;
    out += &beside;
    let svg = draw::svg(&(scene.title(gang) + &beside), &stages, preempt);
    Ok((0, out, Some(svg)))
}
