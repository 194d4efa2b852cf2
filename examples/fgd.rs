//! The published experiment on GPU fragmentation (FGD, USENIX ATC 2023) on Alibaba's openb trace.
//!
//! `cargo run --release --example fgd` compares the five policies on the data shipped with it.
//! With `--policy P --seed S --output csv` it prints the curve of one run, with `--output json`
//! its totals; `--nodes FILE --pods FILE --orders FILE` (plain or gzip) replace the data.

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

use run::{Point, Policy, Run};
use trace::{Source, Trace};

#[derive(Default)]
struct Options {
    nodes: Option<PathBuf>,
    pods: Option<PathBuf>,
    orders: Option<PathBuf>,
    policy: Option<Policy>,
    seed: Option<u64>,
    output: Option<Output>,
}

#[derive(Clone, Copy)]
enum Output {
    Csv,
    Json,
}

const USAGE: &str = "usage: fgd [--nodes FILE] [--pods FILE] [--orders FILE] \
    [--policy fgd|bestfit|dotprod|packing|clustering] [--seed S] [--output csv|json]";

fn main() -> ExitCode {
    match answer(std::env::args().skip(1)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that goes to standard output.
fn answer(arguments: impl Iterator<Item = String>) -> Result<String, Box<dyn Error>> {
    let options = parse(arguments)?;
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
            let policies = options.policy.map_or(Policy::ALL.to_vec(), |policy| vec![policy]);
            let seeds = options.seed.map_or_else(|| trace.seeds().collect(), |seed| vec![seed]);
            plot::compare(&trace, &policies, &seeds)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    while let Some(name) = arguments.next() {
        if !matches!(
            name.as_str(),
            "--nodes" | "--pods" | "--orders" | "--policy" | "--seed" | "--output"
        ) {
            return Err(format!("{name}: unknown option\n{USAGE}").into());
        }
        let value = arguments.next().ok_or_else(|| format!("{name}: needs a value\n{USAGE}"))?;
        let unknown = || format!("{name}: {value:?} is not known\n{USAGE}");
        match name.as_str() {
            "--nodes" => options.nodes = Some(value.into()),
            "--pods" => options.pods = Some(value.into()),
            "--orders" => options.orders = Some(value.into()),
            "--policy" => options.policy = Some(Policy::parse(&value).ok_or_else(unknown)?),
            "--seed" => options.seed = Some(value.parse().map_err(|_| unknown())?),
            _ => {
                options.output = Some(match value.as_str() {
                    "csv" => Output::Csv,
                    "json" => Output::Json,
                    _ => return Err(unknown().into()),
                });
            }
        }
    }
    Ok(options)
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
    let Run { pods, failed, arrived_milli, used_milli, total_milli, time, .. } = run;
    format!(
        "{{\"pods\":{pods},\"failed\":{failed},\"arrived_milli_gpu\":{arrived_milli},\
         \"used_milli_gpu\":{used_milli},\"total_milli_gpu\":{total_milli},\"seconds\":{:.6}}}\n",
        time.as_secs_f64()
    )
}
