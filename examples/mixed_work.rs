//! Services and batch work on one cluster. Services are promised more than they use; what they leave is
//! computed from reports, and batch gangs are placed by it, under the same plan as services.
//!
//! `cargo run --features full --example mixed_work` prints what starts at noon and at night.

#[path = "common/mod.rs"]
mod common;

use std::error::Error;
use std::process::ExitCode;

use phalanx::model::{Amounts, CPU, MEMORY, NodeUsage, Overcommit, PriorityBand};
use phalanx::plugins::{Fit, LoadAwareFilter, LoadAwareScore};
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};

use common::cli::say;

const USAGE: &str = "\
Shows services and batch work on one cluster: what starts in the morning, at noon and at night, by
what is in use then.

Usage: mixed_work [--help]
";

const GIB: i64 = 1 << 30;
const NODES: [&str; 2] = ["n0", "n1"];

/// A service: 60 of a node's 100 cores are promised to it.
fn web() -> Pod {
    let pod = Pod::new().request(CPU, 60).request(MEMORY, 100 * GIB);
    pod.label("koordinator.sh/qosClass", "LS").priority(9_500).in_band(&Amounts::new())
}

/// A batch pod: it asks for thousandths of cores that services leave.
fn batch() -> Pod {
    let pod = Pod::new().request("kubernetes.io/batch-cpu", 16_000);
    let pod = pod.request("kubernetes.io/batch-memory", 10 * GIB);
    pod.label("koordinator.sh/qosClass", "BE").priority(5_500).in_band(&Amounts::new())
}

/// A report of what is in use, and what lower bands may have of the rest.
fn report(scheduler: &mut Scheduler, cores: i64, now: Time) -> Result<(), Box<dyn Error>> {
    for (at, name) in NODES.into_iter().enumerate() {
        let amounts = |cores: i64| {
            let mut amounts = Amounts::new();
            amounts.set(CPU, cores * 1_000);
            amounts.set(MEMORY, 40 * GIB);
            amounts
        };
        let service = format!("web-{at}");
        let usage = NodeUsage::new(now, amounts(cores + 2)).pod(
            "default",
            &*service,
            PriorityBand::Prod,
            amounts(cores),
        );
        let usage = Some(Box::new(usage));
        let version = now.as_secs();
        scheduler
            .handle_event(Event::NodeUsageChanged { name: name.into(), usage, version }, now)?;
        let Some(view) = scheduler.cluster().node(name) else { continue };
        let mut node = view.to_node();
        let more = view.overcommitted(&Overcommit::default(), now).unwrap_or_default();
        for (resource, amount) in more.iter() {
            node.allocatable.set(resource, amount);
        }
        say!("  {name}: batch pods may have {} m", more.of("kubernetes.io/batch-cpu"));
        scheduler.handle_event(Event::NodeChanged { node, version }, now)?;
    }
    Ok(())
}

fn start(scheduler: &mut Scheduler, now: Time) -> Result<(), Box<dyn Error>> {
    while let Some(decision) = scheduler.poll_decision(now) {
        let Decision::Bind { ticket, plan, .. } = decision else { continue };
        for own in plan.assignments() {
            say!("  {} starts on {}", own.pod().name, own.node());
        }
        scheduler.handle_bound(ticket, now)?;
    }
    let waiting: Vec<&str> = scheduler.queue("").collect();
    say!("  waiting: {waiting:?}");
    Ok(())
}

fn main() -> ExitCode {
    common::cli::plain(USAGE, || mixed_work().map(|()| String::new()))
}

fn mixed_work() -> Result<(), Box<dyn Error>> {
    let mut cluster = Cluster::new();
    for name in NODES {
        cluster.add_node(Node::new(name).capacity(CPU, 100).capacity(MEMORY, 400 * GIB))?;
    }
    let framework = Framework::builder()
        .filter(Fit)
        .filter(LoadAwareFilter::default())
        .score(1, LoadAwareScore::default())
        .build()?;
    let mut scheduler = Scheduler::new(cluster, framework, Settings::default());

    say!("morning: two services");
    let now = Time::from_secs(0);
    scheduler.handle_group(PodGroup::of("web", 2, web()), now)?;
    start(&mut scheduler, now)?;

    say!("noon: they use 30 cores each");
    let now = Time::from_secs(4 * 3_600);
    report(&mut scheduler, 30, now)?;
    scheduler.handle_group(PodGroup::of("etl", 2, batch()), now)?;
    scheduler.handle_group(PodGroup::of("train", 2, batch()), now)?;
    start(&mut scheduler, now)?;

    say!("night: they use 5");
    let now = Time::from_secs(16 * 3_600);
    report(&mut scheduler, 5, now)?;
    // A service and its batch work start together or not at all.
    let search = PodGroup::of("search", 1, Pod::new().request(CPU, 8).priority(9_000));
    let index = PodGroup::of("index", 1, batch());
    scheduler.handle_group(PodGroup::gang("site", 2).group(search).group(index), now)?;
    start(&mut scheduler, now)
}
