//! Places a nested workload with slices onto a tree of blocks, racks and nodes, and shows the tree
//! before and after: in text, and with `--svg FILE` as a picture.
//!
//! ```sh
//! cargo run --release --example gang_topology
//! cargo run --release --example gang_topology -- --svg topology.svg
//! ```

#[path = "common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;

use common::cli::{Finish, Mistake, NO, Program, say};
use phalanx::{Cluster, Framework, Node, Outcome, Plan, Pod, PodGroup, place_gang};

const GPU: &str = "nvidia.com/gpu";
const GPUS: usize = 8;

/// The holder of a GPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    /// Other pods.
    Taken,
    /// A slice of the trainer, by number.
    Trainer(usize),
    Evaluator,
}

impl Slot {
    fn letter(self) -> char {
        match self {
            Slot::Free => '.',
            Slot::Taken => '#',
            Slot::Trainer(slice) => char::from(b'A' + slice as u8),
            Slot::Evaluator => 'e',
        }
    }

    fn colour(self) -> &'static str {
        // Colours that differ in brightness too (Okabe and Ito); letters say the same.
        const SLICES: [&str; 3] = ["#56b4e9", "#e69f00", "#f0e442"];
        match self {
            Slot::Free => "#ffffff",
            Slot::Taken => "#b5b5b5",
            Slot::Trainer(slice) => SLICES[slice % SLICES.len()],
            Slot::Evaluator => "#cc79a7",
        }
    }
}

/// Two blocks of three racks of four nodes with eight GPUs, partly taken.
fn cluster() -> Result<Cluster, Box<dyn Error>> {
    let mut cluster = Cluster::builder().levels(["block", "rack"]).build()?;
    let taken = [3, 8, 0, 2, 8, 8, 0, 0, 5, 8, 1, 8, 0, 0, 4, 8, 8, 0, 0, 6, 0, 2, 0, 0];
    for (index, taken) in taken.into_iter().enumerate() {
        let (block, rack, number) = (index / 12, index / 4 % 3, index % 4);
        let name = format!("b{block}-r{rack}-n{number}");
        let node = Node::new(&*name)
            .capacity(GPU, GPUS as i64)
            .label("block", format!("b{block}"))
            .label("rack", format!("b{block}-r{rack}"));
        cluster.add_node(node)?;
        if taken > 0 {
            let other = Pod::new().name(format!("other-{index}")).request(GPU, taken);
            cluster.add_pod(other.on(name))?;
        }
    }
    Ok(cluster)
}

const TITLE: &str = "A gang on a tree of blocks, racks and nodes";

/// Text of the request of [`workload`].
const REQUEST: &str = "Request: 24 trainers with 2 GPUs each, every 8 of them in one rack, and \
    4 evaluators with 1 GPU each in one rack; all in one block, or none at all";

fn workload() -> PodGroup {
    let trainer = PodGroup::of("trainer", 24, Pod::new().request(GPU, 2));
    let evaluator = PodGroup::of("evaluator", 4, Pod::new().request(GPU, 1));
    PodGroup::gang("workload", 2)
        .group(trainer.slice("rack", 8))
        .group(evaluator.require("rack"))
        .require("block")
}

/// The GPUs of each node: those that others hold first, then those of the plan.
fn slots(cluster: &Cluster, plan: Option<&Plan>) -> BTreeMap<String, Vec<Slot>> {
    let gpu = cluster.resource(GPU);
    let mut slots: BTreeMap<String, Vec<Slot>> = cluster
        .nodes()
        .map(|node| {
            let used = gpu.map_or(0, |gpu| node.used(gpu)) as usize;
            (node.name().to_string(), vec![Slot::Taken; used])
        })
        .collect();
    for assignment in plan.iter().flat_map(|plan| plan.assignments()) {
        let pod = assignment.pod();
        let number: Option<usize> =
            pod.name.rsplit('-').next().and_then(|number| number.parse().ok());
        let slot = match (pod.name.starts_with("trainer"), number) {
            (true, Some(number)) => Slot::Trainer(number / 8),
            _ => Slot::Evaluator,
        };
        let count = pod.shape().requests.of(GPU) as usize;
        let node = slots.entry(assignment.node().to_string()).or_default();
        node.extend(std::iter::repeat_n(slot, count));
    }
    for node in slots.values_mut() {
        node.resize(GPUS, Slot::Free);
    }
    slots
}

/// Nodes by block and rack.
type Tree<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a str>>>;

fn tree(cluster: &Cluster) -> Tree<'_> {
    let mut tree = Tree::new();
    for node in cluster.nodes() {
        let block = node.label("block").unwrap_or("-");
        let rack = node.label("rack").unwrap_or("-");
        tree.entry(block).or_default().entry(rack).or_default().push(node.name());
    }
    tree
}

fn text(tree: &Tree<'_>, slots: &BTreeMap<String, Vec<Slot>>) -> String {
    let mut out = String::new();
    let free = |nodes: &[&str]| -> usize {
        let all = nodes.iter().filter_map(|node| slots.get(*node)).flatten();
        all.filter(|slot| **slot == Slot::Free).count()
    };
    for (block, racks) in tree {
        let all: Vec<&str> = racks.values().flatten().copied().collect();
        let _ = writeln!(out, "{block}  ({} of {} GPUs free)", free(&all), all.len() * GPUS);
        for (rack, nodes) in racks {
            let _ = write!(out, "  {rack}  ({:2} free) ", free(nodes));
            for node in nodes {
                let letters: String =
                    slots.get(*node).into_iter().flatten().map(|slot| slot.letter()).collect();
                let _ = write!(out, " [{letters}]");
            }
            out.push('\n');
        }
    }
    out
}

const CELL: usize = 15;
const TOP: usize = 86;
const NODE: usize = 4 * CELL + 14;
const RACK: usize = 2 * NODE + 16;
const HEIGHT: usize = 2 * (2 * CELL + 26) + 34;

/// Two columns, before and after; blocks from top to bottom, racks side by side.
fn svg(
    tree: &Tree<'_>,
    before: &BTreeMap<String, Vec<Slot>>,
    after: &BTreeMap<String, Vec<Slot>>,
) -> String {
    let racks = tree.values().map(BTreeMap::len).max().unwrap_or(0);
    let panel = racks * (RACK + 12) + 24;
    let width = 2 * panel + 60;
    let height = TOP + 14 + tree.len() * (HEIGHT + 46) + 56;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
         <title>{TITLE}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fcfcfc\"/>\n"
    );
    label(&mut out, 20, 30, 20, "bold", TITLE);
    label(&mut out, 20, 52, 13, "normal", REQUEST);
    for (column, (title, slots)) in [("before", before), ("after", after)].into_iter().enumerate() {
        let left = 20 + column * (panel + 20);
        label(&mut out, left, TOP - 6, 16, "bold", title);
        for (row, (block, racks)) in tree.iter().enumerate() {
            let top = TOP + 6 + row * (HEIGHT + 46);
            frame(&mut out, (left, top), (panel - 8, HEIGHT + 36), "#5b6770", "#eef1f3", 2);
            label(&mut out, left + 10, top + 20, 14, "bold", &format!("block {block}"));
            for (at, (rack, nodes)) in racks.iter().enumerate() {
                let (x, y) = (left + 12 + at * (RACK + 12), top + 28);
                frame(&mut out, (x, y), (RACK, HEIGHT), "#8a949c", "#ffffff", 1);
                label(&mut out, x + 8, y + 18, 12, "normal", &format!("rack {rack}"));
                for (place, node) in nodes.iter().enumerate() {
                    let x = x + 8 + place % 2 * NODE;
                    let y = y + 26 + place / 2 * (2 * CELL + 28);
                    label(
                        &mut out,
                        x,
                        y + 11,
                        9,
                        "normal",
                        node.rsplit('-').next().unwrap_or(node),
                    );
                    for (number, slot) in slots.get(*node).into_iter().flatten().enumerate() {
                        cell(&mut out, x + number % 4 * CELL, y + 15 + number / 4 * CELL, *slot);
                    }
                }
            }
        }
    }
    let legend = [
        (Slot::Free, "free"),
        (Slot::Taken, "taken by others"),
        (Slot::Trainer(0), "trainer, pods 0-7"),
        (Slot::Trainer(1), "trainer, pods 8-15"),
        (Slot::Trainer(2), "trainer, pods 16-23"),
        (Slot::Evaluator, "evaluators"),
    ];
    for (at, (slot, name)) in legend.into_iter().enumerate() {
        let (x, y) = (20 + at * 165, height - 36);
        cell(&mut out, x, y, slot);
        label(&mut out, x + 21, y + 11, 13, "normal", name);
    }
    out.push_str("</svg>\n");
    out
}

/// A GPU: its colour, and the letter that the text has for it.
fn cell(out: &mut String, x: usize, y: usize, slot: Slot) {
    frame(out, (x, y), (CELL - 2, CELL - 2), "#777777", slot.colour(), 1);
    if slot != Slot::Free {
        label(out, x + 3, y + 10, 9, "normal", &slot.letter().to_string());
    }
}

fn frame(
    out: &mut String,
    at: (usize, usize),
    size: (usize, usize),
    line: &str,
    fill: &str,
    width: usize,
) {
    let _ = writeln!(
        out,
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\" fill=\"{fill}\" \
         stroke=\"{line}\" stroke-width=\"{width}\"/>",
        at.0, at.1, size.0, size.1
    );
}

fn label(out: &mut String, x: usize, y: usize, size: usize, weight: &str, text: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" font-weight=\"{weight}\" \
         fill=\"#222222\">{text}</text>"
    );
}

const PROGRAM: Program = Program {
    usage: "\
Places a nested workload with slices onto a tree of blocks, racks and nodes, and shows the tree
before and after.

Usage: gang_topology [OPTION...]

  --svg FILE  draw it, too
  --help      this text
",
    options: &["--svg"],
    flags: &[],
};

fn main() -> ExitCode {
    PROGRAM.main(|arguments| {
        show(arguments.value("--svg")).map_err(|error| Mistake::Input(error.to_string()))
    })
}

fn show(file: Option<&str>) -> Result<Finish, Box<dyn Error>> {
    let (cluster, workload) = (cluster()?, workload());
    let plan = match place_gang(&cluster, &Framework::default(), &workload)? {
        Outcome::Placed(plan) => plan,
        other => return Ok(Finish::with(NO, format!("{other}\n"))),
    };
    phalanx::reference::is_sound(&plan, &workload, &cluster, &Framework::default())?;
    let (tree, before) = (tree(&cluster), slots(&cluster, None));
    let after = slots(&cluster, Some(&plan));
    say!("{TITLE}\n{REQUEST}\n");
    say!("before: . free, # taken by others\n{}", text(&tree, &before));
    say!(
        "after: A B C slices of eight trainers with 2 GPUs each, e evaluators\n{}",
        text(&tree, &after)
    );
    for (group, key, value) in plan.domains() {
        say!("{group} is in {key} {value}");
    }
    if let Some(file) = file {
        common::files::write(file, svg(&tree, &before, &after))?;
        say!("the picture is in {file}");
    }
    Ok(Finish::default())
}
