//! Random events, decisions, transactions and commits on one cluster; after each, what must hold.
//!
//! `cargo +nightly fuzz run events`. Without nightly, `cargo build` here and run
//! `target/debug/events -runs=100000`: the same target, unguided.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use phalanx::model::{Effect, Labels, Taint};
use phalanx::{
    Cluster, Event, Framework, Node, Outcome, Plan, Planner, Pod, PodGroup, Request, Strategy,
};

/// Operations for as long as there are bytes; a derived list would end at the flip of a coin.
#[derive(Debug)]
struct Program(Vec<Operation>);

impl<'a> Arbitrary<'a> for Program {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Program> {
        let mut operations = Vec::new();
        while !bytes.is_empty() && operations.len() < 64 {
            operations.push(bytes.arbitrary()?);
        }
        Ok(Program(operations))
    }
}

/// An amount: small as a rule, else anything.
#[derive(Debug, Clone, Copy)]
struct Amount(i64);

impl<'a> Arbitrary<'a> for Amount {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Amount> {
        let byte: u8 = bytes.arbitrary()?;
        Ok(Amount(if byte < 248 { i64::from(byte % 6) } else { bytes.arbitrary()? }))
    }
}

#[derive(Debug, Arbitrary)]
enum Operation {
    Node { at: u8, version: u8, cpu: Amount, gpu: u8, pods: Option<u8>, labels: u8, odd: u8 },
    NodeRemoved { at: u8, version: u8 },
    Pod { at: u8, node: u8, version: u8, cpu: Amount, gpu: u8, group: bool, deleting: bool },
    PodDeleted { at: u8, version: u8 },
    Namespace { at: u8, version: u8, label: u8 },
    NamespaceRemoved { at: u8, version: u8 },
    Forget { version: u8 },
    Place { shape: Shape, search: bool, salt: u64, budget: u16, keep: bool },
    Commit { again: bool },
    Transaction { count: u8, steps: [Step; 8] },
}

#[derive(Debug, Arbitrary)]
struct Shape {
    count: u8,
    minimum: u8,
    cpu: Amount,
    gpu: u8,
    topology: u8,
    nested: bool,
}

#[derive(Debug, Arbitrary)]
enum Step {
    Place { node: u8, cpu: Amount },
    Evict { at: u8 },
    Add { at: u8 },
    AddSome { count: u8 },
    Mark,
    Back { to: u8 },
}

fn bytes(cluster: &Cluster) -> String {
    serde_json::to_string(cluster).expect("a cluster serialises")
}

/// Sums are those of the objects, and the objects make the same cluster again.
fn check(cluster: &Cluster) {
    let mut sums: BTreeMap<(String, String), i128> = BTreeMap::new();
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for pod in cluster.pods() {
        let Some(node) = pod.node() else { continue };
        *counts.entry(node.name().into()).or_default() += 1;
        for (resource, amount) in pod.shape().requests.iter() {
            *sums.entry((node.name().into(), resource.into())).or_default() += i128::from(amount);
        }
    }
    for node in cluster.nodes() {
        assert_eq!(node.pod_count(), counts.get(node.name()).copied().unwrap_or(0));
        assert_eq!(node.pods().count() as i64, node.pod_count());
        for resource in ["cpu", "gpu"] {
            let Some(id) = cluster.resource(resource) else { continue };
            let sum = sums.get(&(node.name().into(), resource.into())).copied().unwrap_or(0);
            assert_eq!(i128::from(node.used(id)), sum);
        }
    }
    assert_eq!(cluster.nodes().count(), cluster.node_count());
    assert_eq!(cluster.pods().count(), cluster.pod_count());
    let text = bytes(cluster);
    let again: Cluster = serde_json::from_str(&text).expect("canonical text loads");
    assert_eq!(bytes(&again), text);
}

fn node(at: u8, cpu: Amount, gpu: u8, pods: Option<u8>, labels: u8, odd: u8) -> Node {
    let mut node = Node::new(format!("n{}", at % 6))
        .capacity("cpu", cpu.0)
        .capacity("gpu", u32::from(gpu % 9));
    if let Some(pods) = pods {
        node = node.capacity("pods", u32::from(pods % 8));
    }
    if labels & 1 == 1 {
        node = node.label("zone", ["a", "b"][usize::from(labels >> 1 & 1)]);
    }
    if labels & 4 == 4 {
        node = node.label("rack", ["r0", "r1"][usize::from(labels >> 3 & 1)]);
    }
    match odd % 8 {
        0 => node.taint(Taint::new("k", "", Effect::NoSchedule)),
        1 => node.unschedulable(),
        2 => node.image("image", 5),
        3 => node.tie_rank(i64::from(odd)),
        _ => node,
    }
}

fn pod(cpu: Amount, gpu: u8) -> Pod {
    let pod = Pod::new().request("cpu", cpu.0);
    if gpu % 4 == 0 { pod } else { pod.request("gpu", u32::from(gpu % 4)) }
}

fn group(number: usize, shape: &Shape) -> PodGroup {
    let leaf = |name: String| {
        let count = usize::from(shape.count % 7);
        let group = PodGroup::gang(name, u32::from(shape.minimum % 8))
            .pods(count, pod(shape.cpu, shape.gpu));
        match shape.topology % 5 {
            0 => group.require("zone"),
            1 => group.prefer("rack"),
            2 => group.require("nowhere"),
            _ => group,
        }
    };
    if shape.nested {
        PodGroup::gang(format!("g{number}"), u32::from(shape.topology % 3))
            .group(leaf(format!("g{number}-x")))
            .group(leaf(format!("g{number}-y")))
    } else {
        leaf(format!("g{number}"))
    }
}

fn transaction(cluster: &Cluster, steps: &[Step]) {
    let before = bytes(cluster);
    let mut txn = cluster.txn();
    let start = txn.checkpoint();
    let mut marks = vec![(start, before.clone())];
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Place { node, cpu } => {
                let id = txn.node(&format!("n{}", node % 6)).map(|node| node.id());
                if let Some(id) = id {
                    let _ = txn.place(&pod(*cpu, 0).name(format!("t{number}")), id);
                }
            }
            Step::Evict { at } => {
                let _ = txn.evict("default", &format!("p{}", at % 8));
            }
            Step::Add { at } => {
                let _ = txn.add_node(node(*at, Amount(4), 1, None, *at, *at));
            }
            Step::AddSome { count } => {
                let _ = txn.add_nodes(&Node::new("new"), usize::from(count % 4));
            }
            Step::Mark => marks.push((txn.checkpoint(), bytes(&txn))),
            Step::Back { to } => {
                let to = usize::from(*to) % marks.len();
                marks.truncate(to + 1);
                let (mark, then) = &marks[to];
                txn.rollback(*mark).expect("the mark stands");
                assert_eq!(&bytes(&txn), then);
            }
        }
    }
    check(&txn.clone().into_cluster());
    txn.rollback(start).expect("the start stands");
    assert_eq!(bytes(&txn), before);
    assert_eq!(bytes(cluster), before);
}

/// Every pod of the plan runs where it was to run, and what it asks for is there.
fn check_committed(cluster: &Cluster, plan: &Plan) {
    for member in plan.assignments() {
        let bound = cluster.pod("default", &member.pod().name).expect("it is bound");
        let node = bound.node().expect("its node is there");
        assert_eq!(node.name(), member.node());
        for (resource, amount) in member.pod().shape().requests.iter() {
            let id = cluster.resource(resource).expect("it is asked for");
            assert!(amount == 0 || node.free(id) >= 0);
        }
        assert!(node.pod_count() <= node.pod_limit());
    }
}

fuzz_target!(|program: Program| {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().expect("levels differ");
    let framework = Framework::default();
    let mut planner = Planner::new();
    let mut plan: Option<Plan> = None;
    for (number, operation) in program.0.iter().enumerate() {
        let before = bytes(&cluster);
        let event = match operation {
            Operation::Node { at, version, cpu, gpu, pods, labels, odd } => Event::NodeChanged {
                node: node(*at, *cpu, *gpu, *pods, *labels, *odd),
                version: u64::from(*version),
            },
            Operation::NodeRemoved { at, version } => {
                Event::NodeRemoved { name: format!("n{}", at % 6), version: u64::from(*version) }
            }
            Operation::Pod { at, node, version, cpu, gpu, group, deleting } => {
                let mut pod =
                    pod(*cpu, *gpu).name(format!("p{}", at % 8)).on(format!("n{}", node % 7));
                pod.deleting = *deleting;
                if *group {
                    pod = pod.in_group("g1");
                }
                Event::PodChanged { pod, version: u64::from(*version) }
            }
            Operation::PodDeleted { at, version } => Event::PodDeleted {
                namespace: "default".into(),
                name: format!("p{}", at % 8),
                version: u64::from(*version),
            },
            Operation::Namespace { at, version, label } => Event::NamespaceChanged {
                name: format!("ns{}", at % 2),
                labels: Labels::from([("l".into(), label.to_string())]),
                version: u64::from(*version),
            },
            Operation::NamespaceRemoved { at, version } => Event::NamespaceRemoved {
                name: format!("ns{}", at % 2),
                version: u64::from(*version),
            },
            Operation::Forget { version } => {
                cluster.forget_deleted(u64::from(*version));
                continue;
            }
            Operation::Place { shape, search, salt, budget, keep } => {
                let group = group(number, shape);
                let strategy = if *search { Strategy::Search } else { Strategy::Kubernetes };
                let request = || {
                    Request::new(&group).strategy(strategy).salt(*salt).budget(u64::from(*budget))
                };
                let outcome = planner.place(&cluster, &framework, request());
                assert_eq!(bytes(&cluster), before);
                let anew = Planner::new().place(&cluster, &framework, request());
                assert_eq!(outcome, anew);
                if let (Ok(Outcome::Placed(found)), true) = (outcome, *keep) {
                    plan = Some(found);
                }
                continue;
            }
            Operation::Commit { again } => {
                if let Some(plan) = if *again { plan.clone() } else { plan.take() } {
                    match cluster.commit(&framework, &plan) {
                        Ok(()) => check_committed(&cluster, &plan),
                        Err(_) => assert_eq!(bytes(&cluster), before),
                    }
                    check(&cluster);
                }
                continue;
            }
            Operation::Transaction { count, steps } => {
                transaction(&cluster, &steps[..usize::from(count % 9)]);
                continue;
            }
        };
        if cluster.apply(event).is_err() {
            assert_eq!(bytes(&cluster), before);
        }
        check(&cluster);
    }
});
