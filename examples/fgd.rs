//! The published experiment on GPU fragmentation (FGD, USENIX ATC 2023) on Alibaba's openb trace.
//!
//! `cargo run --release --example fgd` compares the five policies, and the crate's own rule, on the data shipped with it.
//! With `--policy P --seed S --output csv` it prints the curve of one run, with `--output json`
//! its totals; `--svg FILE` draws the comparison. `--nodes FILE --pods FILE --orders FILE` (plain or
//! gzip) replace the data.

#[path = "fgd/bound.rs"]
mod bound;
#[path = "common/mod.rs"]
mod common;
#[path = "fgd/moves.rs"]
mod moves;
#[path = "fgd/plot.rs"]
mod plot;
#[path = "fgd/run.rs"]
mod run;
#[path = "fgd/trace.rs"]
mod trace;

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use common::cli::{Arguments, DONE, Finish, Mistake, Program};
use run::{Point, Policy, Run};
use trace::{Source, Trace};

struct Options {
    nodes: Option<PathBuf>,
    pods: Option<PathBuf>,
    orders: Option<PathBuf>,
    policy: Option<Policy>,
    seed: Option<u64>,
    output: Option<Output>,
    svg: Option<PathBuf>,
    bound: bool,
}

#[derive(Clone, Copy)]
enum Output {
    Csv,
    Json,
}

const PROGRAM: Program = Program {
    usage: "\
Replays a trace of GPU jobs until the cluster is full, and measures the GPUs that no job can use:
without options, the published policies and the crate's own, prices.

Usage: fgd [OPTION...]

  --nodes FILE    nodes of the trace, plain or gzip        (openb, as shipped)
  --pods FILE     pods of the trace
  --orders FILE   arrivals by seed
  --policy P      prices, fgd, bestfit, dotprod, packing, clustering, or moves, which takes long
  --seed S        one of the orders
  --output O      csv, the curve of one run, or json, its totals
  --svg FILE      draws the comparison, too
  --bound         the most that any rule can allocate once all of the capacity has arrived
  --help          this text
",
    options: &["--nodes", "--pods", "--orders", "--policy", "--seed", "--output", "--svg"],
    flags: &["--bound"],
};

fn main() -> ExitCode {
    PROGRAM.main(|arguments| {
        let options = parse(arguments)?;
        let text = answer(&options).map_err(|error| Mistake::Input(error.to_string()))?;
        Ok(Finish::with(DONE, text))
    })
}

/// Everything that goes to standard output.
fn answer(options: &Options) -> Result<String, Box<dyn Error>> {
    let source = |path: &Option<PathBuf>, name: &str, bytes: &[u8]| match path {
        Some(path) => Source::open(path),
        None => Source::from_bytes(name, bytes),
    };
    let trace = Trace::read(
        &source(&options.nodes, "openb-nodes.csv.gz", include_bytes!("data/openb/nodes.csv.gz"))
            .map_err(|bad| text(&bad))?,
        &source(&options.pods, "openb-pods.csv.gz", include_bytes!("data/openb/pods.csv.gz"))
            .map_err(|bad| text(&bad))?,
        &source(&options.orders, "openb-orders.txt.gz", include_bytes!("data/openb/orders.txt.gz"))
            .map_err(|bad| text(&bad))?,
    )
    .map_err(|bad| text(&bad))?;
    if let Some(seed) = options.seed
        && trace.order(seed).is_none()
    {
        let known: Vec<String> = trace.seeds().map(|seed| seed.to_string()).collect();
        return Err(format!("no orders for seed {seed}; there are {}", known.join(", ")).into());
    }
    let first = trace.seeds().next().ok_or("there are no orders")?;
    if options.bound {
        let mut out = String::new();
        for seed in trace.seeds().filter(|seed| options.seed.is_none_or(|only| only == *seed)) {
            let most = bound::bound(&trace, seed).unwrap_or(0.0);
            let percent = 100.0 * most / trace.total_milli() as f64;
            writeln!(out, "seed {seed}: at most {percent:.2} % of the GPUs")?;
        }
        return Ok(out);
    }
    let one = || {
        let policy = options.policy.unwrap_or(Policy::Fgd);
        (policy, options.seed.unwrap_or(first))
    };
    match options.output {
        Some(Output::Csv) => {
            let (policy, seed) = one();
            Ok(csv(&run::run(&trace, policy, seed, true)?))
        }
        Some(Output::Json) => {
            let (policy, seed) = one();
            Ok(json(&run::run(&trace, policy, seed, false)?))
        }
        None => {
            let policies = options.policy.map_or(Policy::QUICK.to_vec(), |policy| vec![policy]);
            let seeds = options.seed.map_or_else(|| trace.seeds().collect(), |seed| vec![seed]);
            let (text, picture) = plot::compare(&trace, &policies, &seeds)?;
            if let Some(file) = &options.svg {
                common::files::write(file, picture)?;
            }
            Ok(text)
        }
    }
}

fn parse(arguments: &Arguments) -> Result<Options, Mistake> {
    let path = |name| arguments.value(name).map(PathBuf::from);
    let unknown = |name, value| Mistake::Usage(format!("{name}: {value:?} is not known"));
    let policy = match arguments.value("--policy") {
        Some(word) => Some(Policy::parse(word).ok_or_else(|| unknown("--policy", word))?),
        None => None,
    };
    let seed = match arguments.value("--seed") {
        Some(text) => Some(text.parse().map_err(|_| unknown("--seed", text))?),
        None => None,
    };
    let output = match arguments.value("--output") {
        None => None,
        Some("csv") => Some(Output::Csv),
        Some("json") => Some(Output::Json),
        Some(word) => return Err(unknown("--output", word)),
    };
    let (nodes, pods, orders) = (path("--nodes"), path("--pods"), path("--orders"));
    let svg = path("--svg");
    if svg.is_some() && output.is_some() {
        return Err(Mistake::Usage("--svg draws the comparison, which --output leaves out".into()));
    }
    let bound = arguments.flag("--bound");
    Ok(Options { nodes, pods, orders, policy, seed, output, svg, bound })
}

fn text(bad: &trace::Bad) -> Box<dyn Error> {
    bad.to_string().into()
}

fn csv(run: &Run) -> String {
    let mut text = String::from("arrived,allocated,fragmentation\n");
    for point in &run.curve {
        let Point { arrived, allocated, fragmentation } = point;
        let _ = writeln!(text, "{arrived},{allocated:.6},{fragmentation:.6}");
    }
    text
}

fn json(run: &Run) -> String {
    let Run { pods, failed, moved, arrived_milli, used_milli, total_milli, time, .. } = run;
    format!(
        "{{\"pods\":{pods},\"failed\":{failed},\"moved\":{moved},\"arrived_milli_gpu\":{arrived_milli},\
         \"used_milli_gpu\":{used_milli},\"total_milli_gpu\":{total_milli},\"seconds\":{:.6}}}\n",
        time.as_secs_f64()
    )
}
