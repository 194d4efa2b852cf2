//! What-if questions: evict, try, roll back, compare; then the same with nodes added from a
//! template.
//!
//! A [`Txn`] is a working copy whose changes can be taken back, so that a question costs as much
//! as the changes it asks about. The cluster itself is never touched.
#[path = "common/mod.rs"]
mod common;

use std::error::Error;
use std::fmt::Write;

use common::text::{bar, count};
use phalanx::{Cluster, Framework, Node, Planner, Pod, PodGroup, Txn};

const GPU: &str = "nvidia.com/gpu";
const USAGE: &str = "Asks what would make room for a gang.\n\nUsage: what_if\n";

fn main() -> std::process::ExitCode {
    common::cli::plain(USAGE, what_if)
}

fn what_if() -> Result<String, Box<dyn Error>> {
    let cluster = busy_cluster()?;
    let framework = Framework::default();
    let mut planner = Planner::new();
    let gang = PodGroup::of("trainer", 4, Pod::new().request(GPU, 4));
    let mut out = format!("A gang of 4 pods of 4 GPUs wants in. As it is:\n\n{}", draw(&cluster));

    let mut txn = cluster.txn();
    let start = txn.checkpoint();
    let mut answers = Vec::new();
    for victims in [&[][..], &["notebook"], &["batch-0", "batch-1"], &["serving"]] {
        for victim in victims {
            txn.evict("default", victim)?;
        }
        let verdict = attempt(&mut planner, &mut txn, &framework, &gang)?;
        let question = match victims {
            [] => "as it is".to_string(),
            victims => format!("without {}", victims.join(" and ")),
        };
        answers.push((question, victims.len(), verdict));
        txn.rollback(start)?;
    }
    // Nodes that could be bought are added the same way, and given back the same way.
    let template = Node::new("new").capacity("cpu", 96).capacity(GPU, 8);
    for nodes in 1..=2 {
        txn.add_nodes(&template, nodes)?;
        let verdict = attempt(&mut planner, &mut txn, &framework, &gang)?;
        answers.push((format!("with {} more", count(nodes, "node")), nodes, verdict));
        txn.rollback(start)?;
    }

    out.push_str("\nWhat if\n");
    for (question, _, verdict) in &answers {
        match verdict {
            Some(nodes) => writeln!(out, "  ✓ {question:<30} {nodes}")?,
            None => writeln!(out, "  ✗ {question:<30} no place for the gang")?,
        }
    }
    let cheapest = answers.iter().filter(|answer| answer.2.is_some()).min_by_key(|answer| answer.1);
    if let Some((question, _, _)) = cheapest {
        writeln!(out, "\nThe least change that will do: {question}.")?;
    }
    let same = draw(&txn) == draw(&cluster) && txn.changes() == 0;
    writeln!(out, "Everything rolled back: {}.", if same { "yes" } else { "no" })?;
    Ok(out)
}

/// Tries to place the gang, and says on which nodes.
fn attempt(
    planner: &mut Planner,
    txn: &mut Txn,
    framework: &Framework,
    gang: &PodGroup,
) -> Result<Option<String>, Box<dyn Error>> {
    let outcome = planner.place(txn, framework, gang)?;
    if let Some(plan) = outcome.plan() {
        phalanx::reference::is_sound(plan, gang, txn, framework)?;
    }
    let nodes = outcome.plan().map(|plan| {
        let nodes = plan.pods_per_node().into_iter();
        nodes.map(|(node, pods)| format!("{node} ×{pods}")).collect::<Vec<_>>().join(", ")
    });
    Ok(nodes)
}

/// Three nodes of 8 GPUs, none of them idle.
fn busy_cluster() -> Result<Cluster, Box<dyn Error>> {
    let mut cluster = Cluster::new();
    for name in ["n1", "n2", "n3"] {
        cluster.add_node(Node::new(name).capacity("cpu", 96).capacity(GPU, 8))?;
    }
    for (name, gpus, node) in [
        ("serving", 8, "n1"),
        ("batch-0", 3, "n2"),
        ("notebook", 1, "n2"),
        ("batch-1", 2, "n3"),
        ("batch-2", 2, "n3"),
    ] {
        cluster.add_pod(Pod::new().name(name).request(GPU, gpus).on(node))?;
    }
    Ok(cluster)
}

/// One line a node: its GPUs and its pods.
fn draw(cluster: &Cluster) -> String {
    let mut out = String::new();
    let Some(gpu) = cluster.resource(GPU) else { return out };
    for node in cluster.nodes() {
        let mut pods: Vec<&str> = node.pods().map(phalanx::state::PodView::name).collect();
        pods.sort_unstable();
        let bar = bar(&[('█', node.used(gpu))], node.allocatable(gpu), 8);
        let _ = writeln!(out, "  {}  {bar}  {}", node.name(), pods.join(" "));
    }
    out
}
