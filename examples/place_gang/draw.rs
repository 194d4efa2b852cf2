//! The answer as text for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use phalanx::model::{CPU, EPHEMERAL_STORAGE, MEMORY};
use phalanx::{Cluster, PodGroup, Quantity};

use super::Scene;
use super::decide::{Decision, Gains};
use super::openb::MODEL;
use crate::common::text::{bar, count, span, thousands};

/// The resource that GPUs are counted as.
pub(crate) const GPU: &str = "nvidia.com/gpu";
/// Marks of old and new use.
const OLD: char = '█';
const NEW: char = '▒';
/// Nodes shown for a group, and pods shown for a node.
const ROWS: usize = 30;
const PODS: usize = 3;
/// The width of the bars of the totals.
const WIDTH: usize = 48;

/// Everything decided, node by node and in total.
pub(crate) fn scene(
    scene: &Scene,
    before: &Cluster,
    profile: &str,
    decisions: &[Decision],
) -> String {
    let meter = Meter::new(&scene.cluster, &scene.groups);
    let mut used = meter.used(before);
    let mut out = String::new();
    let whole: i64 = used.values().map(|node| node.allocatable).sum();
    let taken: i64 = used.values().map(|node| node.used).sum();
    let _ = writeln!(
        out,
        "{}: {}, {} {}, {} taken by {}\nprofile {profile}   {OLD} taken   {NEW} new   · free",
        scene.title,
        count(before.node_count(), "node"),
        meter.amount(whole),
        meter.resource,
        meter.amount(taken),
        count(before.pod_count(), "pod"),
    );
    for decision in decisions {
        out.push('\n');
        if decision.outcome == "placed" {
            placed(&mut out, &meter, &scene.cluster, &mut used, decision);
        } else {
            let took = span(decision.took);
            let _ = writeln!(out, "✗ {}: {} ({took})", decision.group, decision.outcome);
            for line in decision.explanation.split("; ") {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    if decisions.is_empty() {
        out.push_str("\nNothing waits for a place.\n");
    }
    totals(&mut out, &meter, &scene.cluster, &meter.used(before), &used);
    let seconds: std::time::Duration = decisions.iter().map(|decision| decision.took).sum();
    let placed = decisions.iter().filter(|decision| decision.outcome == "placed").count();
    let of = count(decisions.len(), "group");
    let _ = writeln!(out, "\n{placed} of {of} placed; decided in {}", span(seconds));
    out
}

/// A group that was placed, node by node. Counts its pods as used.
fn placed(
    out: &mut String,
    meter: &Meter,
    cluster: &Cluster,
    used: &mut BTreeMap<String, Usage>,
    decision: &Decision,
) {
    let mut nodes: BTreeMap<&str, (i64, Vec<&str>)> = BTreeMap::new();
    for (pod, node) in &decision.assignments {
        let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
        let view = cluster.pod(namespace, name);
        let amount = view.map_or(0, |pod| pod.shape().requests.of(meter.resource.as_str()));
        let entry = nodes.entry(node).or_default();
        entry.0 += amount;
        entry.1.push(name);
    }
    let _ = writeln!(
        out,
        "✓ {}: {} on {} ({})",
        decision.group,
        count(decision.assignments.len(), "pod"),
        count(nodes.len(), "node"),
        span(decision.took),
    );
    let longest = nodes.keys().take(ROWS).map(|name| name.chars().count()).max().unwrap_or(0);
    for (shown, (node, (new, pods))) in nodes.iter().enumerate() {
        let Some(usage) = used.get_mut(*node) else { continue };
        if shown < ROWS {
            let bar = meter.node_bar(usage, *new);
            let figures = format!(
                "{} + {} of {}",
                meter.amount(usage.used),
                meter.amount(*new),
                meter.amount(usage.allocatable)
            );
            let mut names = pods.iter().take(PODS).copied().collect::<Vec<_>>().join(" ");
            if pods.len() > PODS {
                let _ = write!(names, " + {} more", pods.len() - PODS);
            }
            let _ = writeln!(out, "    {node:<longest$}  {bar}  {figures:<14}  {names}");
        } else if shown == ROWS {
            let _ = writeln!(out, "    … and {} more", count(nodes.len() - ROWS, "node"));
        }
        usage.used += new;
    }
    gains(out, decision);
}

/// Devices and volumes of the first pods that get some.
fn gains(out: &mut String, decision: &Decision) {
    let pods =
        decision.assignments.iter().map(|(pod, _)| pod.split_once('/').map_or("", |own| own.1));
    let all = pods.zip(&decision.gains);
    let all = all.filter(|(_, own)| !(own.devices.is_empty() && own.volumes.is_empty()));
    for (shown, (pod, Gains { devices, volumes })) in all.enumerate() {
        if shown == ROWS {
            out.push_str("    … and those of further pods\n");
            break;
        }
        let mut claims: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (claim, device) in devices {
            claims.entry(claim).or_default().push(device);
        }
        for (claim, volume) in volumes {
            claims.entry(claim).or_default().push(volume.as_deref().unwrap_or("(to be made)"));
        }
        let claims = claims.iter().map(|(claim, got)| format!("{claim} = {}", got.join(" ")));
        let _ = writeln!(out, "    {pod}: {}", claims.collect::<Vec<_>>().join("; "));
    }
}

/// Amounts taken now and before, by kind of node and in all.
fn totals(
    out: &mut String,
    meter: &Meter,
    cluster: &Cluster,
    before: &BTreeMap<String, Usage>,
    after: &BTreeMap<String, Usage>,
) {
    let mut kinds: BTreeMap<String, [i64; 3]> = BTreeMap::new();
    let mut all = [0; 3];
    for node in cluster.nodes() {
        let (Some(was), Some(is)) = (before.get(node.name()), after.get(node.name())) else {
            continue;
        };
        let row = [was.used, is.used - was.used, is.allocatable];
        let kind = kinds.entry(node.label(MODEL).unwrap_or_default().to_string()).or_default();
        for (index, amount) in row.into_iter().enumerate() {
            kind[index] += amount;
            all[index] += amount;
        }
    }
    let mut rows: Vec<(String, [i64; 3])> = kinds.into_iter().collect();
    rows.sort_by_key(|(_, row)| -row[2]);
    if rows.len() == 1 {
        rows.clear();
    }
    rows.push(("all nodes".into(), all));
    let _ = writeln!(out, "\n{} in total", meter.resource);
    for (kind, [old, new, whole]) in rows {
        let bar = bar(&[(OLD, old), (NEW, new)], whole, WIDTH);
        let (old, new, whole) = (meter.amount(old), meter.amount(new), meter.amount(whole));
        let _ = writeln!(out, "    {kind:<10}  {bar}  {old} + {new} of {whole}");
    }
}

/// Capacity of a node and its use.
#[derive(Debug, Clone, Copy)]
struct Usage {
    used: i64,
    allocatable: i64,
}

/// The resource that bars are drawn of.
struct Meter {
    resource: String,
}

impl Meter {
    /// GPUs of some kind if pods ask for them, else whatever special they ask for, else CPU.
    fn new(cluster: &Cluster, groups: &[PodGroup]) -> Meter {
        let mut special: Vec<&str> = Vec::new();
        for pod in groups.iter().flat_map(PodGroup::all_pods) {
            special.extend(pod.shape().requests.iter().filter_map(|(name, amount)| {
                let native = [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name);
                (amount > 0 && !native).then_some(name)
            }));
        }
        special.sort_by_key(|name| (!name.contains("gpu"), *name));
        let fallback = if cluster.resource(GPU).is_some() { GPU } else { CPU };
        Meter { resource: special.first().copied().unwrap_or(fallback).to_string() }
    }

    fn used(&self, cluster: &Cluster) -> BTreeMap<String, Usage> {
        let resource = cluster.resource(&self.resource);
        let usage = |node: phalanx::state::NodeView<'_>| {
            let amounts = resource.map(|id| (node.used(id), node.allocatable(id)));
            let (used, allocatable) = amounts.unwrap_or_default();
            (node.name().to_string(), Usage { used, allocatable })
        };
        cluster.nodes().map(usage).collect()
    }

    /// An amount in the resource's own unit.
    fn amount(&self, amount: i64) -> String {
        if self.resource == CPU {
            Quantity::from_milli(amount).to_string()
        } else {
            thousands(amount.max(0) as u64)
        }
    }

    /// A character for each unit where there are few.
    fn node_bar(&self, usage: &Usage, new: i64) -> String {
        let narrow = self.resource != CPU && (1..=16).contains(&usage.allocatable);
        let width = if narrow { usage.allocatable as usize } else { 16 };
        let bar = bar(&[(OLD, usage.used), (NEW, new)], usage.allocatable, width);
        format!("{bar:<8}")
    }
}
