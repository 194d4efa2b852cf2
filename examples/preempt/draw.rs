//! The racks concerned, before, between and after: as text and as a picture.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use phalanx::Cluster;
use phalanx::preempt::Preempt;

use crate::scene::{GPU, RACK};

/// The cluster at three times.
pub(crate) struct Stages<'a> {
    pub(crate) before: &'a Cluster,
    pub(crate) between: &'a Cluster,
    pub(crate) after: &'a Cluster,
}

/// A GPU of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    /// Held by what stays.
    Stays,
    /// Held by a victim, by its number.
    Goes(usize),
    /// Held by the gang.
    New,
}

impl Slot {
    fn letter(self) -> char {
        match self {
            Slot::Free => '.',
            Slot::Stays => '#',
            Slot::Goes(victim) => char::from(b'a' + (victim % 26) as u8),
            Slot::New => '@',
        }
    }

    fn colour(self) -> &'static str {
        const VICTIMS: [&str; 6] =
            ["#d62728", "#ff7f0e", "#e377c2", "#8c564b", "#bcbd22", "#9467bd"];
        match self {
            Slot::Free => "#ffffff",
            Slot::Stays => "#9a9a9a",
            Slot::Goes(victim) => VICTIMS[victim % VICTIMS.len()],
            Slot::New => "#1f77b4",
        }
    }
}

/// By rack, then node: the GPUs at the three times.
type Racks = BTreeMap<String, BTreeMap<String, [Vec<Slot>; 3]>>;

fn racks(stages: &Stages<'_>, preempt: &Preempt) -> Racks {
    let mut victims: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut nodes: BTreeSet<&str> =
        preempt.plan.assignments().map(phalanx::state::Assignment::node).collect();
    for (number, victim) in preempt.victims.iter().enumerate() {
        for pod in &victim.pods {
            victims.insert((&pod.namespace, &pod.name), number);
            nodes.insert(&pod.node);
        }
    }
    let rack_of = |node: &&str| {
        stages.before.node(node).and_then(|node| node.label(RACK)).unwrap_or_default().to_string()
    };
    let concerned: BTreeSet<String> = nodes.iter().map(rack_of).collect();
    let gang = preempt.plan.group().to_string();
    let mut racks = Racks::new();
    for node in stages.before.nodes() {
        let rack = node.label(RACK).unwrap_or_default();
        if !concerned.contains(rack) {
            continue;
        }
        let at = |cluster: &Cluster| -> Vec<Slot> {
            let (Some(node), Some(gpu)) = (cluster.node(node.name()), cluster.resource(GPU)) else {
                return Vec::new();
            };
            let mut pods: Vec<_> = node.pods().collect();
            pods.sort_by_key(|pod| pod.name().to_string());
            let mut slots = Vec::new();
            for pod in pods {
                let slot = match victims.get(&(pod.namespace(), pod.name())) {
                    Some(victim) => Slot::Goes(*victim),
                    None if pod.group() == Some(gang.as_str()) => Slot::New,
                    None => Slot::Stays,
                };
                let held = pod.shape().requests.of(GPU);
                slots.extend(std::iter::repeat_n(slot, usize::try_from(held).unwrap_or(0)));
            }
            let all = usize::try_from(node.allocatable(gpu)).unwrap_or(0);
            slots.resize(all.max(slots.len()), Slot::Free);
            slots
        };
        let three = [at(stages.before), at(stages.between), at(stages.after)];
        if !three[0].is_empty() {
            racks.entry(rack.to_string()).or_default().insert(node.name().to_string(), three);
        }
    }
    racks
}

/// Who goes, and the racks concerned.
pub(crate) fn text(stages: &Stages<'_>, preempt: &Preempt) -> String {
    let mut out = String::new();
    let proof = if preempt.is_least() { "proved least" } else { "the best found" };
    let _ = writeln!(out, "{} ({proof}, {} steps)", preempt.cost, preempt.steps);
    for (number, victim) in preempt.victims.iter().enumerate() {
        let _ = writeln!(
            out,
            "  {} {:<18} priority {:>3}  {:>3} pods  {:>9} pod-seconds",
            Slot::Goes(number).letter(),
            victim.name,
            victim.priority,
            victim.pods.len(),
            victim.work_lost / 1_000,
        );
    }
    let _ = writeln!(
        out,
        "\n{:<26}{:<10}{:<10}after    # stays  a-z goes  @ new  . free",
        "", "before", "between"
    );
    for (rack, nodes) in racks(stages, preempt) {
        for (node, three) in nodes {
            let line = |slots: &[Slot]| slots.iter().map(|slot| slot.letter()).collect::<String>();
            let [before, between, after] = three.map(|slots| line(&slots));
            if before == after {
                continue;
            }
            let _ = writeln!(out, "{rack:<5} {node:<20}{before:<10}{between:<10}{after}");
        }
    }
    out
}

const CELL: usize = 11;

/// The racks concerned, one row a node, three panels.
pub(crate) fn svg(stages: &Stages<'_>, preempt: &Preempt) -> String {
    let racks = racks(stages, preempt);
    let rows: usize = racks.values().map(|nodes| nodes.len() + 2).sum();
    let (width, height) = (140 + 3 * (9 * CELL + 30), 60 + rows * (CELL + 2));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"10\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let left = |panel: usize| 130 + panel * (9 * CELL + 30);
    for (panel, title) in ["before", "between", "after"].into_iter().enumerate() {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"20\" font-size=\"13\" font-weight=\"bold\">{title}</text>",
            left(panel)
        );
    }
    let mut y = 36;
    for (rack, nodes) in &racks {
        let _ = writeln!(out, "<text x=\"6\" y=\"{}\" font-weight=\"bold\">{rack}</text>", y + 9);
        y += CELL + 2;
        for (node, three) in nodes {
            let _ = writeln!(out, "<text x=\"6\" y=\"{}\">{node}</text>", y + 9);
            for (panel, slots) in three.iter().enumerate() {
                for (place, slot) in slots.iter().enumerate() {
                    let _ = writeln!(
                        out,
                        "<rect x=\"{}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" \
                         fill=\"{}\" stroke=\"#666666\" stroke-width=\"0.5\"/>",
                        left(panel) + place * CELL,
                        slot.colour(),
                    );
                }
            }
            y += CELL + 2;
        }
        y += CELL;
    }
    let legend = [
        (Slot::Stays, "stays"),
        (Slot::Goes(0), "goes (a colour each gang)"),
        (Slot::New, "the gang"),
        (Slot::Free, "free"),
    ];
    let mut x = 6;
    for (slot, name) in legend {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{}\" \
             stroke=\"#666666\" stroke-width=\"0.5\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            y - 4,
            slot.colour(),
            x + CELL + 3,
            y + 5,
        );
        x += 40 + 6 * name.len();
    }
    out + "</svg>\n"
}
