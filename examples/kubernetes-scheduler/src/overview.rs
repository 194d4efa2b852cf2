//! The state of the scheduler as the page at `/` shows it: topology, groups that wait, queues, decisions.

use std::collections::{BTreeMap, VecDeque};

use phalanx::queue::GroupState;
use phalanx::quota::QueueKind;
use phalanx::{Cluster, Scheduler, Time};
use serde_json::{Value, json};

use crate::explain::{Explanations, sentence};
use crate::metrics::words;

/// The most rows of a table.
const ROWS: usize = 200;
/// The most nodes of a domain that are listed.
const NODES: usize = 1_000;
/// Decisions that are kept.
const DECISIONS: usize = 100;
/// The value of a level where a node has no label of it.
const NO_LABEL: &str = "(none)";

/// The latest decisions, for people.
#[derive(Debug, Default)]
pub struct Decisions {
    latest: VecDeque<(String, &'static str, String)>,
}

impl Decisions {
    /// Adds a decision: its kind, and its group with what is done.
    pub fn add(&mut self, kind: &'static str, text: String) {
        self.latest.push_front((phalanx_kubernetes_client::log::seconds(), kind, text));
        self.latest.truncate(DECISIONS);
    }

    fn rows(&self) -> Vec<Value> {
        let rows = self.latest.iter();
        rows.map(|(at, kind, text)| json!({"at": at, "kind": kind, "text": text})).collect()
    }
}

/// Everything on the page. O(nodes · levels + groups), and for each queue O(queues · depth), of at most 200.
pub fn overview(
    scheduler: &Scheduler,
    explanations: &Explanations,
    decisions: &Decisions,
    now: Time,
) -> Value {
    let cluster = scheduler.cluster();
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut waiting, mut all_waiting) = (Vec::new(), 0);
    let promises: BTreeMap<String, Time> =
        scheduler.promises().into_iter().map(|own| (own.group.to_string(), own.at)).collect();
    for group in scheduler.groups() {
        let Some(state) = scheduler.state(group) else { continue };
        let (word, reason) = words(&state);
        *states.entry(word).or_default() += 1;
        if reason.is_none() {
            continue;
        }
        all_waiting += 1;
        if waiting.len() < ROWS {
            waiting.push(row(scheduler, explanations, group, &state, &promises, now));
        }
    }
    json!({
        "nodes": cluster.node_count(), "pods": cluster.pod_count(), "groups": states,
        "resources": resources(cluster), "levels": cluster.levels().collect::<Vec<_>>(),
        "topology": tree(cluster), "waiting": waiting, "allWaiting": all_waiting,
        "queues": queues(scheduler), "decisions": decisions.rows(),
    })
}

fn row(
    scheduler: &Scheduler,
    explanations: &Explanations,
    group: &str,
    state: &GroupState,
    promises: &BTreeMap<String, Time>,
    now: Time,
) -> Value {
    let (word, reason) = words(state);
    let mut row = json!({"group": group, "state": word, "reason": reason});
    let status = scheduler.status(group);
    if let Some(status) = &status {
        row["pending"] = status.pending.into();
        let waits = &status.waits;
        let waited = waits.gated + waits.queued + waits.backing_off + waits.unschedulable;
        row["waitedSeconds"] = waited.as_secs().into();
    }
    let short = status.as_ref().and_then(|status| status.shortage.as_ref());
    let why = explanations.said(group).map(str::to_owned).or_else(|| short.map(sentence));
    row["why"] = why.into();
    row["remedy"] = explanations.remedy(group).into();
    let promise = promises.get(group).map(|at| at.since(now).as_secs());
    row["promisedInSeconds"] = promise.into();
    row
}

/// The resources that the tree shows: CPU, memory, and the first two others that nodes have.
fn resources(cluster: &Cluster) -> Vec<String> {
    let mut names = vec!["cpu".to_owned(), "memory".to_owned()];
    let all = cluster.resources().map(|id| cluster.resource_name(id).to_owned());
    let mut others: Vec<String> = all.filter(|name| name.contains('/')).collect();
    others.sort();
    names.extend(others.into_iter().take(2));
    names
}

/// Sums over the nodes of a domain.
#[derive(Default)]
struct Sums {
    nodes: u64,
    free: Vec<i64>,
    total: Vec<i64>,
}

/// The domains of all levels with what is free, each after the one it is in. A node that is cordoned
/// has nothing free.
fn tree(cluster: &Cluster) -> Vec<Value> {
    let levels: Vec<&str> = cluster.levels().collect();
    let names = resources(cluster);
    let ids: Vec<_> = names.iter().map(|name| cluster.resource(name)).collect();
    let mut domains: BTreeMap<Vec<&str>, Sums> = BTreeMap::new();
    for node in cluster.nodes() {
        let free: Vec<i64> = ids
            .iter()
            .map(|id| id.filter(|_| !node.unschedulable()).map_or(0, |id| node.free(id).max(0)))
            .collect();
        let total: Vec<i64> =
            ids.iter().map(|id| id.map_or(0, |id| node.allocatable(id))).collect();
        let path: Vec<&str> =
            levels.iter().map(|key| node.label(key).unwrap_or(NO_LABEL)).collect();
        for depth in 0..=levels.len() {
            let sums = domains.entry(path[..depth].to_vec()).or_default();
            sums.nodes += 1;
            add(&mut sums.free, &free);
            add(&mut sums.total, &total);
        }
    }
    let rows = domains.into_iter().map(|(path, sums)| {
        json!({"path": path, "nodes": sums.nodes, "free": sums.free, "total": sums.total})
    });
    rows.collect()
}

fn add(sums: &mut Vec<i64>, amounts: &[i64]) {
    sums.resize(amounts.len(), 0);
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(*amount);
    }
}

/// The nodes of a domain, at most 1,000, with what is free. O(nodes).
pub fn nodes(cluster: &Cluster, path: &[String]) -> Value {
    let levels: Vec<&str> = cluster.levels().collect();
    let names = resources(cluster);
    let ids: Vec<_> = names.iter().map(|name| cluster.resource(name)).collect();
    let (mut rows, mut all) = (Vec::new(), 0_u64);
    for node in cluster.nodes() {
        let is_inside = path
            .iter()
            .zip(&levels)
            .all(|(value, key)| node.label(key).unwrap_or(NO_LABEL) == value);
        if !is_inside {
            continue;
        }
        all += 1;
        if rows.len() < NODES {
            let free: Vec<i64> = ids.iter().map(|id| id.map_or(0, |id| node.free(id))).collect();
            let total: Vec<i64> =
                ids.iter().map(|id| id.map_or(0, |id| node.allocatable(id))).collect();
            let taints: Vec<&str> = node.taints().iter().map(|taint| taint.key.as_str()).collect();
            rows.push(json!({
                "name": node.name(), "free": free, "total": total, "pods": node.pod_count(),
                "cordoned": node.unschedulable(), "taints": taints,
            }));
        }
    }
    json!({"path": path, "resources": names, "all": all, "nodes": rows})
}

/// The leaves of the tenants, at most 200, with usage and shares.
fn queues(scheduler: &Scheduler) -> Vec<Value> {
    let Some(tenants) = scheduler.tenants() else { return Vec::new() };
    let tree = tenants.tree();
    let leaves = tree.queues(QueueKind::Leaf).filter_map(|id| tree.spec(id)).take(ROWS);
    let rows = leaves.filter_map(|spec| {
        let status = scheduler.queue_status(&spec.name)?;
        let resources = status.report.resources.iter().map(|own| {
            json!({
                "flavor": own.flavor, "resource": own.resource, "used": own.sums.used,
                "nominal": own.sums.nominal, "deserved": own.deserved, "borrowed": own.borrowed,
            })
        });
        Some(json!({
            "queue": spec.name, "parent": spec.parent, "share": status.report.share,
            "resources": resources.collect::<Vec<_>>(),
            "waiting": scheduler.queue(&spec.name).count(),
            "first": status.first.as_ref().map(|group| group.as_str()),
            "short": status.shortage.as_ref().map(sentence),
        }))
    });
    rows.collect()
}
