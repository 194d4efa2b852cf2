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

/// The victims, and the racks concerned.
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

const CELL: usize = 13;

/// The racks concerned, one row a node, three panels, under lines that say what was asked.
pub(crate) fn svg(title: &str, stages: &Stages<'_>, preempt: &Preempt) -> String {
    let racks = racks(stages, preempt);
    let slots = racks.values().flat_map(BTreeMap::values).flatten().map(Vec::len).max();
    let panel = slots.unwrap_or(0) * CELL + 36;
    let left = |number: usize| 130 + number * panel;
    let lines: Vec<&str> = title.lines().filter(|line| !line.is_empty()).collect();
    let mut legend: Vec<(Slot, String)> = Vec::new();
    for (number, victim) in preempt.victims.iter().enumerate() {
        let pods = victim.pods.len();
        let text = format!("{} goes: priority {}, {pods} pods", victim.name, victim.priority);
        legend.push((Slot::Goes(number), text));
    }
    legend.push((Slot::New, "the new gang".into()));
    legend.push((Slot::Stays, "stays".into()));
    legend.push((Slot::Free, "free".into()));

    let mut body = String::new();
    let mut y = 0;
    for (number, line) in lines.iter().enumerate() {
        y += 18;
        let weight = if number == 0 { "bold" } else { "normal" };
        let size = if number == 0 { 14 } else { 12 };
        let _ = writeln!(
            body,
            "<text x=\"10\" y=\"{y}\" font-size=\"{size}\" font-weight=\"{weight}\">{line}</text>"
        );
    }
    y += 12;
    for (slot, text) in &legend {
        cell(&mut body, 10, y, *slot);
        let _ = writeln!(body, "<text x=\"{}\" y=\"{}\">{text}</text>", 16 + CELL, y + 10);
        y += CELL + 3;
    }
    y += 22;
    for (number, title) in ["before", "victims gone", "after"].into_iter().enumerate() {
        let x = left(number);
        let _ = writeln!(body, "<text x=\"{x}\" y=\"{y}\" font-weight=\"bold\">{title}</text>");
    }
    y += 8;
    for (rack, nodes) in &racks {
        let _ = writeln!(
            body,
            "<text x=\"10\" y=\"{}\" font-weight=\"bold\">rack {rack}</text>",
            y + 10
        );
        y += CELL + 2;
        for (node, three) in nodes {
            let _ = writeln!(body, "<text x=\"10\" y=\"{}\">{node}</text>", y + 10);
            for (number, slots) in three.iter().enumerate() {
                for (place, slot) in slots.iter().enumerate() {
                    cell(&mut body, left(number) + place * CELL, y, *slot);
                }
            }
            y += CELL + 2;
        }
        y += 8;
    }
    let longest = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    let (width, height) = (left(3).max(20 + longest * 6), y + 6);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// A GPU, by its colour and the letter that the text has for it.
fn cell(out: &mut String, x: usize, y: usize, slot: Slot) {
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{}\" \
         stroke=\"#666666\" stroke-width=\"0.5\"/>",
        slot.colour(),
    );
    if matches!(slot, Slot::Goes(_) | Slot::New) {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"#ffffff\" \
             text-anchor=\"middle\">{}</text>",
            x + CELL / 2,
            y + 10,
            slot.letter(),
        );
    }
}
