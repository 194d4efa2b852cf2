//! The worlds: settings, framework, nodes, groups, queues and budgets.
//!
//! Every call that builds an input of the crate stands here or in `drive.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx::framework::{PermitVerdict, permit_fn};
use phalanx::model::LabelSelector;
use phalanx::plugins::{Fit, MostAllocated, NodeUnschedulable};
use phalanx::preempt::DisruptionBudget;
use phalanx::queue::{
    Backfill, HeadOfLine, OnBindFailure, PreemptionSettings, ReservationPolicy, Settings,
};
use phalanx::quota::{Flavor, Queue, Quota, TenantSettings, Tenants, Weight};
use phalanx::{Cluster, Framework, Node, ObjectName, Pod, PodGroup, Strategy, Time};

use crate::lifecycle::world::Random;

/// The rule by which groups may pass the first of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Plain,
    Strict,
    Reserving,
    Easy,
    ShortestFirst,
    Conservative,
}

impl Line {
    pub(super) fn is_backfill(self) -> bool {
        matches!(self, Line::Easy | Line::ShortestFirst | Line::Conservative)
    }
}

/// The rules of one world, the same for each of its schedulers.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) line: Line,
    pub(super) tenants: bool,
    pub(super) preempts: bool,
    pub(super) moves: bool,
    pub(super) schedulers: usize,
    /// The store takes plans whole; otherwise each pod of a plan is bound on its own.
    pub(super) whole: bool,
    pub(super) on_failure: OnBindFailure,
    pub(super) evict_half_bound: bool,
    pub(super) sequential: bool,
    pub(super) demotes: bool,
    pub(super) queues: usize,
    pub(super) patience: Duration,
}

pub(super) const STALE_AFTER: Duration = Duration::from_secs(60);
pub(super) const BIND_TIMEOUT: Duration = Duration::from_secs(90);
pub(super) const CLAIM_TIMEOUT: Duration = Duration::from_secs(240);
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const GRACE_PERIOD: Duration = Duration::from_secs(60);
pub(super) const RESERVE_FOR: Duration = Duration::from_secs(120);
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(300);
/// As the settings have it by default.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

pub(super) fn rules(random: &mut Random) -> Rules {
    let lines = [
        Line::Plain,
        Line::Plain,
        Line::Strict,
        Line::Reserving,
        Line::Reserving,
        Line::Easy,
        Line::ShortestFirst,
        Line::Conservative,
    ];
    let preempts = !random.one_in(5);
    let schedulers = [1, 1, 1, 2, 2, 3][random.below(6)];
    let failures = [OnBindFailure::UndoAll, OnBindFailure::KeepMinimum, OnBindFailure::Retry];
    Rules {
        line: lines[random.below(lines.len())],
        tenants: random.one_in(2),
        preempts,
        moves: preempts && random.one_in(2),
        schedulers,
        whole: if schedulers == 1 { random.one_in(3) } else { !random.one_in(3) },
        on_failure: failures[random.below(3)],
        evict_half_bound: random.one_in(2),
        sequential: random.one_in(4),
        demotes: random.one_in(3),
        queues: 1 + random.below(2),
        patience: Duration::from_secs([30, 600, 3_600][random.below(3)]),
    }
}

pub(super) fn settings(rules: &Rules, salt: usize) -> Settings {
    let mut settings = Settings::new()
        .stale_after(STALE_AFTER)
        .bind_timeout(BIND_TIMEOUT)
        .permit_timeout(Duration::from_secs(100))
        .max_in_unschedulable(RETRY_AFTER)
        .on_bind_failure(rules.on_failure)
        .evict_half_bound(rules.evict_half_bound)
        .salt(salt as u64);
    settings = match rules.line {
        Line::Plain => settings,
        Line::Strict => settings.head_of_line(HeadOfLine::StrictFifo),
        Line::Reserving => settings.reservation(
            ReservationPolicy::new().after(Duration::from_secs(20)).timeout(RESERVE_FOR).at_most(2),
        ),
        Line::Easy => settings.backfill(Backfill::easy()),
        Line::ShortestFirst => settings.backfill(Backfill::easy_shortest_first()),
        Line::Conservative => settings.backfill(Backfill::conservative()),
    };
    if rules.demotes {
        settings = settings.demote_after(3);
    }
    if rules.sequential {
        settings = settings.strategy(Strategy::Kubernetes);
    }
    if rules.preempts {
        let preemption = PreemptionSettings::new()
            .budget(4_000)
            .timeout(CLAIM_TIMEOUT)
            .start_timeout(START_TIMEOUT)
            .grace_period(GRACE_PERIOD)
            .consolidation(if rules.moves { 3 } else { 0 });
        settings = settings.preemption(preemption);
    }
    settings
}

/// Room by requests, cordons, and a permit that reads `hold` and `deny` of a group.
pub(super) fn framework() -> Framework {
    Framework::builder()
        .filter(Fit)
        .filter(NodeUnschedulable)
        .score(1, MostAllocated::of([("gpu", 1)]))
        .permit(permit_fn("gate", |cx| {
            let number = |key: &str| cx.group.attributes.get(key).and_then(|n| n.parse().ok());
            match (number("deny"), number("hold")) {
                (Some(until), _) if cx.now < Time::from_secs(until) => {
                    PermitVerdict::Deny { reason: "not yet".into() }
                }
                (_, Some(secs)) => {
                    PermitVerdict::Hold { until: cx.now.after(Duration::from_secs(secs)) }
                }
                _ => PermitVerdict::Admit,
            }
        }))
        .build()
        .unwrap()
}

/// A node of the store.
#[derive(Debug, Clone)]
pub(super) struct NodeState {
    pub(super) gpus: i64,
    pub(super) cordoned: bool,
    pub(super) there: bool,
    /// The capacity, or what was on the node when that fell below it.
    pub(super) level: i64,
    pub(super) changed: Time,
}

/// In thousandths.
pub(super) const CPUS: i64 = 4_000;

pub(super) fn node(name: &str, state: &NodeState) -> Node {
    let index: usize = name[1..].parse().unwrap();
    let node = Node::new(name)
        .capacity("gpu", state.gpus)
        .capacity("cpu", CPUS / 1_000)
        .label("rack", format!("r{}", index / 2));
    if state.cordoned { node.unschedulable() } else { node }
}

pub(super) fn empty_cluster() -> Cluster {
    Cluster::builder().levels(["rack"]).build().unwrap()
}

pub(super) fn nodes(random: &mut Random) -> BTreeMap<String, NodeState> {
    let count = 2 + random.below(7);
    let alike = random.one_in(2);
    let gpus = |random: &mut Random| if alike { 4 } else { 1 + random.below(5) as i64 };
    let state = |random: &mut Random| {
        let gpus = gpus(random);
        NodeState { gpus, cordoned: false, there: true, level: gpus, changed: Time::ZERO }
    };
    (0..count).map(|index| (format!("n{index}"), state(random))).collect()
}

pub(super) fn pod(random: &mut Random) -> Pod {
    let mut pod = Pod::new().request("gpu", [1, 1, 1, 2, 2, 3][random.below(6)]);
    if random.one_in(5) {
        pod = pod.request("cpu", 1);
    }
    if random.one_in(3) {
        pod = pod.label("colour", COLOURS[random.below(2)]);
    }
    pod
}

pub(super) const COLOURS: [&str; 2] = ["red", "blue"];

/// A group of any kind there is, in one of the queues.
pub(super) fn group(
    random: &mut Random,
    name: &str,
    queues: &[String],
    partner: Option<&str>,
    now: Time,
) -> PodGroup {
    let size = 1 + random.below(4);
    let minimum = 1 + random.below(size) as u32;
    let mut group = match random.below(8) {
        0 | 1 => {
            let mut root = PodGroup::gang(name, 1 + random.below(2) as u32);
            for role in ["a", "b"] {
                let size = 1 + random.below(2);
                let mut leaf =
                    PodGroup::gang(format!("{name}-{role}"), size as u32).pods(size, pod(random));
                if random.one_in(4) {
                    leaf = leaf.require("rack");
                }
                root = root.group(leaf);
            }
            if random.one_in(2) {
                root = root.min_pods(1 + random.below(4) as u32);
            }
            root
        }
        2 => PodGroup::basic(name).pods(size, pod(random)),
        3 => PodGroup::gang(name, minimum).pods(1, pod(random)).pods(size, pod(random)),
        4 => PodGroup::gang(name, size as u32).pods(size, pod(random)),
        _ => PodGroup::gang(name, minimum).pods(size, pod(random)),
    };
    if random.one_in(6) {
        group = group.require("rack");
    }
    if let Some(partner) = partner {
        group = group.starts_with(ObjectName::new("default", partner));
    }
    if random.one_in(2) {
        group = group.evicted_whole();
    }
    if random.one_in(4) {
        group = group.keep_running();
    }
    if random.one_in(10) {
        group = group.schedule_timeout(Duration::from_secs(15));
    }
    if !random.one_in(4) {
        group = group.run_time_estimate(Duration::from_secs(10 + 10 * random.below(20) as u64));
    }
    if random.one_in(10) {
        group = group.attribute("hold", "40");
    } else if random.one_in(16) {
        let until = now.after(Duration::from_secs(random.below(100) as u64));
        group = group.attribute("deny", (until.since(Time::ZERO).as_secs()).to_string());
    }
    group.non_preemptible = random.one_in(8);
    if random.one_in(6) {
        group.min_run_time = Some(Duration::from_secs(20));
    }
    let queue = random.pick(queues).unwrap_or_default();
    group.priority(random.below(6) as i32).queue(queue)
}

/// A queue of the tree, leaf or inner.
#[derive(Debug, Clone)]
pub(super) struct QueueState {
    pub(super) parent: Option<String>,
    pub(super) leaf: bool,
    pub(super) there: bool,
    pub(super) nominal: i64,
    pub(super) limit: Option<i64>,
    pub(super) borrowing: Option<i64>,
    pub(super) lending: Option<i64>,
    pub(super) weight: u64,
}

pub(super) fn quota(random: &mut Random, leaf: bool) -> (i64, [Option<i64>; 3]) {
    let nominal = random.below(if leaf { 7 } else { 3 }) as i64;
    let some = |random: &mut Random, odds: usize, base: i64, more: usize| {
        random.one_in(odds).then(|| base + random.below(more) as i64)
    };
    let limit = some(random, 3, nominal.max(1), 8);
    let borrowing = some(random, 4, 0, 5);
    let lending = some(random, 4, 0, 4);
    (nominal, [limit, borrowing, lending])
}

/// A root, two inner queues, and two leaves in each.
pub(super) fn queues(random: &mut Random) -> BTreeMap<String, QueueState> {
    let mut tree = BTreeMap::new();
    let mut add = |random: &mut Random, name: &str, parent: Option<&str>, leaf: bool| {
        let (nominal, [limit, borrowing, lending]) = quota(random, leaf);
        let root = parent.is_none();
        let state = QueueState {
            parent: parent.map(str::to_owned),
            leaf,
            there: true,
            nominal,
            limit: limit.filter(|_| !root).map(|limit| if leaf { limit } else { limit + 8 }),
            borrowing: borrowing.filter(|_| !root),
            lending: lending.filter(|_| !root),
            weight: 1 + random.below(3) as u64,
        };
        tree.insert(name.to_owned(), state);
    };
    add(random, "root", None, false);
    for inner in ["a", "b"] {
        add(random, inner, Some("root"), false);
        for leaf in 0..2 {
            add(random, &format!("q{inner}{leaf}"), Some(inner), true);
        }
    }
    tree
}

pub(super) fn queue(name: &str, state: &QueueState) -> Queue {
    let mut quota = Quota::nominal(state.nominal);
    if let Some(limit) = state.limit {
        quota = quota.limit(limit);
    }
    if let Some(limit) = state.borrowing {
        quota = quota.borrowing_limit(limit);
    }
    if let Some(limit) = state.lending {
        quota = quota.lending_limit(limit);
    }
    let mut queue = if state.leaf { Queue::leaf(name) } else { Queue::inner(name) };
    if let Some(parent) = &state.parent {
        queue = queue.parent(parent);
    }
    queue.quota("all", "gpu", quota).weight(Weight::new(state.weight))
}

pub(super) fn tenants(rules: &Rules, queues: &BTreeMap<String, QueueState>) -> Tenants {
    let mut tenants = Tenants::with(TenantSettings::default().patience(rules.patience));
    tenants.set_flavor(Flavor::new("all"));
    for (name, state) in queues.iter().filter(|(_, state)| state.there) {
        tenants.set_queue(queue(name, state)).unwrap();
    }
    tenants
}

/// A budget of the pods of one colour.
#[derive(Debug, Clone)]
pub(super) struct BudgetState {
    pub(super) allowed: i64,
    pub(super) disrupted: BTreeSet<String>,
}

pub(super) fn budget(colour: &str, state: &BudgetState) -> DisruptionBudget {
    let selector = LabelSelector::label("colour", colour);
    let mut budget = DisruptionBudget::new(colour, selector, state.allowed);
    budget.disrupted_pods.clone_from(&state.disrupted);
    budget
}
