//! The tables: what the rules allow.
//!
//! Numbers go down only. If a change makes one smaller, lower it here in the same commit.

/// Lines of code a file may have, tests included; comments and blank lines are free.
pub const LINES: usize = 500;

/// Words that no paragraph of a page or doc comment opens with: the thing's name stands there.
pub const OPENINGS: &[&str] = &["What", "Those", "Of", "Which"];

/// Words a sentence may have.
pub const SENTENCE: usize = 30;

/// Words of prose a page may have; headings, tables and blocks of code are free.
pub const PAGE: usize = 2_500;

/// Layers from the ground up. A layer imports those on its own floor and on the floors below.
pub const LAYERS: &[&[&str]] = &[
    &["base"],
    &["model"],
    &["state"],
    &["claims"],
    &["framework"],
    &["plugins"],
    &["place"],
    &["preempt", "quota", "autoscale"],
    &["reclaim"],
    &["queue"],
    &["simulate"],
    &["kubernetes"],
    &["reference"],
];

/// Files at the root, which may import any layer; and the layer that an import of one counts as.
pub const ROOT: &[(&str, Option<&str>)] = &[("lib", None), ("laws", Some("framework"))];

/// A circle of files that is meant. The head of each file says so too.
#[derive(Debug)]
pub struct Meant {
    /// The files in order.
    pub files: &'static [&'static str],
    pub why: &'static str,
}

pub const MEANT: &[Meant] = &[Meant {
    files: &["kubernetes/queues/mod.rs", "kubernetes/queues/workload.rs"],
    why: "the reader of all kinds holds the record of one, and its file reads that record",
}];

/// The boxes of `place`, from the ground up. A box imports itself and those before it.
pub const PLACE: &[&str] = &[
    "gang",
    "error",
    "failure",
    "layout",
    "numbers",
    "request",
    "certificate",
    "topology",
    "commit",
    "scoring",
    "cache",
    "outcome",
    "verify",
    "kueue",
    "sequential",
    "search",
    "planner",
    "explain",
];

/// An owner of the queue: its type, its folder (or its file, without `.rs`), and the number of files
/// that its `impl` blocks may stand in.
#[derive(Debug)]
pub struct Owner {
    pub name: &'static str,
    pub folder: &'static str,
    pub files: Option<usize>,
}

#[rustfmt::skip]
pub const OWNERS: &[Owner] = &[
    Owner { name: "World",     folder: "queue/world",     files: Some(3) },
    Owner { name: "Groups",    folder: "queue/groups",    files: Some(3) },
    Owner { name: "Line",      folder: "queue/line",      files: Some(3) },
    Owner { name: "Refusals",  folder: "queue/line/refusals", files: Some(1) },
    Owner { name: "Holds",     folder: "queue/holds",     files: Some(3) },
    Owner { name: "Removals",  folder: "queue/removals",  files: Some(3) },
    Owner { name: "Tenancy",   folder: "queue/tenancy",   files: Some(3) },
    Owner { name: "BackfillLine", folder: "queue/backfill",  files: Some(3) },
    Owner { name: "Report",    folder: "queue/report",    files: Some(3) },
    Owner { name: "Scheduler", folder: "queue/scheduler", files: None },
];

/// Boxes that `queue` may have. They form no circle.
pub const QUEUE_BOXES: usize = 12;

/// Limits of a walk that begins at a method of a type. The type stands in a folder.
#[derive(Debug)]
pub struct WalkLimit {
    pub of: &'static str,
    pub folder: &'static str,
    pub method: &'static str,
    pub rooms: Option<usize>,
    pub returns: Option<usize>,
}

/// Calls on owners count, which a walk over the driver's own methods leaves out. The goal is 10 rooms and 12
/// returns for an event of a pod, and 49 returns for a decision, over the driver's own methods.
#[rustfmt::skip]
pub const WALKS: &[WalkLimit] = &[
    WalkLimit { of: "Scheduler", folder: "queue/", method: "handle_pod",    rooms: Some(29), returns: Some(216) },
    WalkLimit { of: "Scheduler", folder: "queue/", method: "poll_decision", rooms: None,     returns: Some(566) },
];

/// Ceilings of a folder of `src`: its boxes, circles of boxes, and the boxes in these circles.
#[derive(Debug)]
pub struct Folder {
    pub name: &'static str,
    pub boxes: usize,
    pub circles: usize,
    pub in_circles: usize,
}

/// Ceilings of all folders but `queue`.
#[rustfmt::skip]
pub const FOLDERS: &[Folder] = &[
    Folder { name: "autoscale",  boxes: 15, circles: 0, in_circles: 0 },
    Folder { name: "base",       boxes: 15, circles: 0, in_circles: 0 },
    Folder { name: "claims",     boxes: 13, circles: 0, in_circles: 0 },
    Folder { name: "framework",  boxes: 15, circles: 0, in_circles: 0 },
    Folder { name: "kubernetes", boxes: 35, circles: 0, in_circles: 0 },
    Folder { name: "model",      boxes: 18, circles: 0, in_circles: 0 },
    Folder { name: "place",      boxes: 18, circles: 0, in_circles: 0 },
    Folder { name: "plugins",    boxes: 26, circles: 0, in_circles: 0 },
    Folder { name: "preempt",    boxes: 23, circles: 0, in_circles: 0 },
    Folder { name: "quota",      boxes: 6,  circles: 0, in_circles: 0 },
    Folder { name: "reclaim",    boxes: 2,  circles: 0, in_circles: 0 },
    Folder { name: "reference",  boxes: 8, circles: 0, in_circles: 0 },
    Folder { name: "simulate",   boxes: 9,  circles: 0, in_circles: 0 },
    Folder { name: "state",      boxes: 33, circles: 0, in_circles: 0 },
];

/// Ceilings of a type: files and folders in which its `impl` blocks stand.
#[derive(Debug)]
pub struct Spread {
    /// The type by its path from the root of the crate.
    pub name: &'static str,
    pub files: usize,
    pub folders: usize,
}

/// Types with blocks in more than three files, or in more than one folder. Owners are left out.
#[rustfmt::skip]
pub const SPREADS: &[Spread] = &[
    Spread { name: "base::quantity::Quantity",                    files: 2,  folders: 2 },
    Spread { name: "framework::builder::Framework",               files: 2,  folders: 2 },
    Spread { name: "kubernetes::watch::store::Store",             files: 7,  folders: 1 },
    Spread { name: "place::search::domains::solver::Solver",      files: 4,  folders: 1 },
    Spread { name: "plugins::topology_spread::PodTopologySpread", files: 4,  folders: 1 },
    Spread { name: "quota::tenants::Tenants",                     files: 6,  folders: 1 },
    Spread { name: "state::cluster::Cluster",                     files: 13, folders: 2 },
    Spread { name: "state::plan::Plan",                           files: 2,  folders: 2 },
    Spread { name: "state::view::NodeView",                       files: 4,  folders: 1 },
];

/// A public name that stands at several paths on purpose.
#[derive(Debug)]
pub struct Twice {
    pub name: &'static str,
    pub why: &'static str,
}

/// Every other public name stands for one thing, at one path.
pub const TWICE: &[Twice] = &[];
