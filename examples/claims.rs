//! Resource claims: which device each pod gets, and why a gang gets none.
//!
//! Three nodes of eight GPUs each, in islands of four and with PCI roots of two. A gang of workers
//! that want an island, one of pairs under one root, and loose single ones fill them; then a gang comes
//! that finds no devices, is explained, and starts with the nearest change of its claim.
#[path = "common/mod.rs"]
mod common;

use std::error::Error;
use std::fmt::Write;

use phalanx::claims::NoSelectors;
use phalanx::model::{ClaimSpec, DeviceClass, DeviceDemand, ResourceSlice, SliceDevice};
use phalanx::plugins::DynamicResources;
use phalanx::{Cluster, Framework, Node, Outcome, Plan, Planner, Pod, PodGroup, Request, explain};

const DRIVER: &str = "gpu.example.com";
const GPUS: i64 = 8;
const USAGE: &str = "Gives devices to pods by claim, and draws who has which.\n\nUsage: claims\n";

fn main() -> std::process::ExitCode {
    common::cli::plain(USAGE, claims)
}

fn claims() -> Result<String, Box<dyn Error>> {
    let mut cluster = cluster()?;
    let builder = Framework::default().to_builder();
    let framework = DynamicResources::add_to(builder, NoSelectors).build()?;
    let mut planner = Planner::new();
    let mut out = String::from("Three gangs come, one after another.\n\n");
    let gangs = [
        gang("island", 2, &claim(4).same(format!("{DRIVER}/island"))),
        gang("pair", 3, &claim(2).same(format!("{DRIVER}/root"))),
        gang("single", 4, &claim(1)),
    ];
    for gang in &gangs {
        match planner.place(&cluster, &framework, Request::from(gang))? {
            Outcome::Placed(plan) => {
                writeln!(out, "{}", placed(&plan))?;
                cluster.commit(&framework, &plan)?;
            }
            other => writeln!(out, "✗ {}: {other}", gang.full_name())?,
        }
    }
    write!(out, "\n{}", draw(&cluster))?;

    let late = gang("late", 2, &claim(4).same(format!("{DRIVER}/island")));
    let why = explain(&cluster, &framework, &late, None)?;
    writeln!(
        out,
        "\nA fourth gang, of two pods with four devices of one island each, has to wait."
    )?;
    for lack in why.rejections.iter().flat_map(|kind| &kind.claims) {
        writeln!(out, "  {lack}")?;
    }
    for remedy in &why.remedies {
        writeln!(out, "  to place it: {remedy}")?;
    }
    let smaller = gang("late", 2, &claim(2));
    if let Outcome::Placed(plan) = planner.place(&cluster, &framework, Request::from(&smaller))? {
        writeln!(out, "\nWith two devices each, wherever they are:\n\n{}", placed(&plan))?;
        cluster.commit(&framework, &plan)?;
        write!(out, "\n{}", draw(&cluster))?;
    }
    Ok(out)
}

fn cluster() -> Result<Cluster, Box<dyn Error>> {
    let mut cluster = Cluster::new();
    cluster.set_device_class(DeviceClass::new("gpu"));
    for node in ["n1", "n2", "n3"] {
        cluster.add_node(Node::new(node).capacity("cpu", 96))?;
        let devices = (0..GPUS).map(|at| {
            let device = SliceDevice::new(format!("gpu-{at}"));
            device.attribute("island", at / 4).attribute("root", at / 2)
        });
        let slice = ResourceSlice::on(node, DRIVER);
        cluster.set_resource_slice(devices.fold(slice, ResourceSlice::device));
    }
    Ok(cluster)
}

fn claim(devices: u64) -> ClaimSpec {
    ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", devices))
}

/// A gang whose pods have a claim each.
fn gang(name: &str, members: u32, claim: &ClaimSpec) -> PodGroup {
    let pod = |number: u32| {
        let pod = Pod::new().name(format!("{name}-{number}")).request("cpu", 4);
        pod.own_claim("gpus", claim.clone())
    };
    (0..members).fold(PodGroup::gang(name, members), |gang, number| gang.pod(pod(number)))
}

/// The devices of each pod of a plan.
fn placed(plan: &Plan) -> String {
    let lines = plan.assignments().map(|own| {
        let held = own.allocations().iter().flat_map(|held| &held.allocation.devices);
        let names: Vec<&str> = held.map(|device| &*device.device).collect();
        format!("✓ {:<9} {}  {}", own.pod().name, own.node(), names.join(" "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The holder of each device, by its first letter and its number; islands are apart.
fn draw(cluster: &Cluster) -> String {
    let mut out = String::new();
    for node in cluster.nodes() {
        let mut cells = vec![String::from("··"); GPUS as usize];
        for pod in node.pods() {
            for device in pod.allocations().iter().flat_map(|held| &held.allocation.devices) {
                let index = device.device.rsplit('-').next().and_then(|at| at.parse().ok());
                let number = pod.name().rsplit('-').next().unwrap_or("");
                if let Some(cell) = index.and_then(|at: usize| cells.get_mut(at)) {
                    *cell = format!("{}{number}", pod.name().get(..1).unwrap_or(""));
                }
            }
        }
        let islands: Vec<String> = cells.chunks(4).map(|four| four.join(" ")).collect();
        let _ = writeln!(out, "  {}  [ {} ]", node.name(), islands.join(" | "));
    }
    out
}
