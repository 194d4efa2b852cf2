//! Properties of every cluster, transaction, plan and event, over random cases.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::model::Labels;
use phalanx::state::Applied;
use phalanx::{Cluster, Event, Framework, Node, Outcome, Planner, Pod, PodGroup, Txn, place_gang};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::worlds::{
    assert_consistent, assert_within_capacity, bytes, cases, derived, empty, gang, has_room, node,
    pod, world,
};

/// Checks that a tree of groups is placed whole or not at all at every level: returns whether the
/// group counts, given the pods that were placed.
fn counts(group: &PodGroup, placed: &BTreeMap<String, String>) -> bool {
    let count = if group.groups.is_empty() {
        group.pods.iter().filter(|pod| placed.contains_key(&pod.name)).count()
    } else {
        group.groups.iter().filter(|inner| counts(inner, placed)).count()
    };
    count >= group.policy.minimum() as usize
}

/// The names of the pods of a tree.
fn names(group: &PodGroup) -> Vec<&str> {
    group.all_pods().into_iter().map(|pod| pod.name.as_str()).collect()
}

/// Fails unless every group of the tree is placed with its minimum or not at all, and within one
/// domain where it must be.
fn assert_whole(cluster: &Cluster, group: &PodGroup, placed: &BTreeMap<String, String>) {
    let members: Vec<&str> =
        names(group).into_iter().filter(|name| placed.contains_key(*name)).collect();
    assert!(members.is_empty() || counts(group, placed), "{} is half placed", group.name);
    if let Some(key) = &group.topology.require {
        let domains: BTreeSet<Option<&str>> = members
            .iter()
            .map(|name| cluster.node(&placed[*name]).and_then(|node| node.label(key)))
            .collect();
        assert!(domains.len() <= 1 && !domains.contains(&None), "{domains:?}");
    }
    for inner in &group.groups {
        assert_whole(cluster, inner, placed);
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn placing_changes_nothing_and_committing_keeps_to_capacity(
        mut cluster in world(),
        gangs in (gang("one"), gang("two"), gang("three")),
    ) {
        let framework = Framework::default();
        let mut planner = Planner::new();
        for group in [gangs.0, gangs.1, gangs.2] {
            let (before, seen) = (bytes(&cluster), derived(&cluster));
            let outcome = planner.place(&cluster, &framework, &group).unwrap();
            prop_assert_eq!(&bytes(&cluster), &before);
            prop_assert_eq!(derived(&cluster), seen);
            // A planner that remembers answers as one that does not.
            prop_assert_eq!(&outcome, &place_gang(&cluster, &framework, &group).unwrap());
            if let Outcome::Placed(plan) = &outcome {
                let placed: BTreeMap<String, String> = plan
                    .assignments()
                    .map(|member| (member.pod().name.clone(), member.node().to_owned()))
                    .collect();
                prop_assert_eq!(placed.len(), plan.len());
                phalanx::reference::is_sound(plan, &group, &cluster, &framework).unwrap();
                prop_assert!(counts(&group, &placed));
                assert_whole(&cluster, &group, &placed);
                let pods = cluster.pod_count();
                cluster.commit(&framework, plan).unwrap();
                prop_assert_eq!(cluster.pod_count(), pods + plan.len());
                for (name, node) in &placed {
                    let bound = cluster.pod("default", name).unwrap();
                    prop_assert_eq!(bound.node().unwrap().name(), node.as_str());
                }
            }
            assert_within_capacity(&cluster);
            assert_consistent(&cluster);
        }
    }
}

/// A change that a transaction can make.
#[derive(Debug, Clone)]
enum Change {
    Place(Pod, usize),
    Evict(usize),
    Add(Node),
    AddSome(usize),
    Gang(PodGroup),
    /// Makes these changes, and takes them back.
    Nested(Vec<Change>),
}

fn change() -> impl Strategy<Value = Change> {
    let leaf = prop_oneof![
        4 => (pod(), 0..12_usize).prop_map(|(pod, node)| Change::Place(pod, node)),
        4 => (0..12_usize).prop_map(Change::Evict),
        2 => (8..12_usize).prop_flat_map(node).prop_map(Change::Add),
        1 => (0..3_usize).prop_map(Change::AddSome),
        1 => gang("tried").prop_map(Change::Gang),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| vec(inner, 1..6).prop_map(Change::Nested))
}

fn make(txn: &mut Txn, change: &Change, placed: &mut usize) {
    match change {
        Change::Place(pod, at) => {
            let node = txn.nodes().nth(at % txn.node_count()).unwrap().id();
            *placed += 1;
            txn.place(&pod.clone().name(format!("placed-{placed}")), node).unwrap();
        }
        Change::Evict(at) => {
            // By name or by id; of those there are, in order of name.
            let mut pods: Vec<_> = txn
                .pods()
                .filter(|pod| pod.node().is_some())
                .map(|pod| (pod.name().to_owned(), pod.id()))
                .collect();
            pods.sort();
            if let Some((name, id)) = pods.get(at % pods.len().max(1)) {
                if name.starts_with("old") {
                    assert_eq!(txn.evict("default", name), Ok(*id));
                } else {
                    txn.evict_pod(*id).unwrap();
                }
            }
        }
        Change::Add(node) => {
            let known = txn.node(&node.name).is_some();
            assert_eq!(txn.add_node(node.clone()).is_err(), known);
        }
        Change::AddSome(count) => {
            let template = Node::new("more").capacity("cpu", 8).label("zone", "a");
            assert_eq!(txn.add_nodes(&template, *count).unwrap().len(), *count);
        }
        Change::Gang(group) => {
            let mut group = group.clone();
            *placed += 1;
            rename(&mut group, *placed);
            let outcome = place_gang(txn, &Framework::default(), &group).unwrap();
            if let Some(plan) = outcome.plan() {
                txn.apply_plan(plan).unwrap();
            }
        }
        Change::Nested(changes) => {
            let point = txn.checkpoint();
            let (before, seen) = (bytes(txn), derived(txn));
            for change in changes {
                make(txn, change, placed);
            }
            txn.rollback(point).unwrap();
            assert_eq!(bytes(txn), before);
            assert_eq!(derived(txn), seen);
        }
    }
}

fn rename(group: &mut PodGroup, number: usize) {
    group.name = format!("{}-{number}", group.name);
    for pod in &mut group.pods {
        pod.name = format!("{}-{number}", pod.name);
    }
    for inner in &mut group.groups {
        rename(inner, number);
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn rollback_restores_everything(cluster in world(), changes in vec(change(), 1..8)) {
        let (before, seen) = (bytes(&cluster), derived(&cluster));
        let mut txn = cluster.txn();
        let start = txn.checkpoint();
        let mut placed = 0;
        for change in &changes {
            make(&mut txn, change, &mut placed);
        }
        // Evicted pods are still known to a transaction; the cluster it becomes forgets them.
        assert_consistent(&txn.clone().into_cluster());
        txn.rollback(start).unwrap();
        prop_assert_eq!(txn.changes(), 0);
        prop_assert_eq!(bytes(&txn), before.clone());
        prop_assert_eq!(derived(&txn), seen.clone());
        assert_consistent(&txn);
        // And once more, kept this time.
        for change in &changes {
            make(&mut txn, change, &mut placed);
        }
        let kept = txn.into_cluster();
        assert_consistent(&kept);
        prop_assert_eq!(bytes(&cluster), before);
        prop_assert_eq!(derived(&cluster), seen);
    }
}

/// Something that happens to a cluster between a decision and its commit.
#[derive(Debug, Clone)]
enum Happening {
    Bound(Pod, usize),
    Gone(usize),
    NodeGone(usize),
    NodeChanged(Node),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (pod(), 0..8_usize).prop_map(|(pod, node)| Happening::Bound(pod, node)),
        2 => (0..6_usize).prop_map(Happening::Gone),
        1 => (0..8_usize).prop_map(Happening::NodeGone),
        2 => (0..9_usize).prop_flat_map(node).prop_map(Happening::NodeChanged),
    ]
}

fn happen(cluster: &mut Cluster, happening: &Happening, number: usize) {
    let event = match happening {
        Happening::Bound(pod, node) => {
            let node = format!("n{node}");
            if !has_room(cluster, &node, pod) {
                return;
            }
            let pod = pod.clone().name(format!("new-{number}")).on(node);
            Event::PodChanged { pod, version: 0 }
        }
        Happening::Gone(at) => {
            let (namespace, name) = ("default".into(), format!("old-{at}"));
            Event::PodDeleted { namespace, name, version: 0 }
        }
        Happening::NodeGone(at) => Event::NodeRemoved { name: format!("n{at}"), version: 0 },
        Happening::NodeChanged(node) => Event::NodeChanged { node: node.clone(), version: 0 },
    };
    cluster.apply(event).unwrap();
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    #[allow(clippy::single_match_else, reason = "both outcomes are checked")]
    fn a_commit_after_changes_is_all_or_nothing(
        mut cluster in world(),
        group in gang("late"),
        happenings in vec(happening(), 0..5),
        elsewhere in any::<bool>(),
    ) {
        let framework = Framework::default();
        let Outcome::Placed(mut plan) = place_gang(&cluster, &framework, &group).unwrap() else {
            return Ok(());
        };
        if elsewhere {
            // A plan that has travelled as text has forgotten when it was made.
            plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        }
        for (number, happening) in happenings.iter().enumerate() {
            happen(&mut cluster, happening, number);
        }
        let (before, seen) = (bytes(&cluster), derived(&cluster));
        match cluster.commit(&framework, &plan) {
            Ok(()) => {
                for member in plan.assignments() {
                    let pod = cluster.pod("default", &member.pod().name).unwrap();
                    prop_assert_eq!(pod.node().unwrap().name(), member.node());
                    // What the pod asks for was there, whatever else runs on the node.
                    let node = pod.node().unwrap();
                    for (resource, _) in member.pod().shape().requests.iter() {
                        let resource = cluster.resource(resource).unwrap();
                        prop_assert!(node.free(resource) >= 0);
                    }
                    prop_assert!(node.pod_count() <= node.pod_limit());
                }
                for (name, key, value) in plan.domains() {
                    let inside = |group: &PodGroup| format!("default/{}", group.name) == name;
                    group.visit(&mut |part| {
                        for pod in part.all_pods().into_iter().filter(|_| inside(part)) {
                            if let Some(bound) = cluster.pod("default", &pod.name) {
                                assert!(bound.node().unwrap().has_label(key, value));
                            }
                        }
                    });
                }
                // A second time is refused, and changes nothing.
                let after = bytes(&cluster);
                prop_assert!(cluster.commit(&framework, &plan).is_err());
                prop_assert_eq!(bytes(&cluster), after);
            }
            Err(_) => {
                prop_assert!(!happenings.is_empty());
                prop_assert_eq!(bytes(&cluster), before);
                prop_assert_eq!(derived(&cluster), seen);
            }
        }
        assert_consistent(&cluster);
    }

    #[test]
    fn clones_are_independent(
        mut cluster in world(),
        ours in vec(happening(), 1..6),
        theirs in vec(happening(), 1..6),
    ) {
        let (before, seen) = (bytes(&cluster), derived(&cluster));
        let mut clone = cluster.clone();
        for (number, happening) in theirs.iter().enumerate() {
            happen(&mut clone, happening, number);
        }
        prop_assert_eq!(bytes(&cluster), before);
        prop_assert_eq!(derived(&cluster), seen);
        let (after, seen) = (bytes(&clone), derived(&clone));
        for (number, happening) in ours.iter().enumerate() {
            happen(&mut cluster, happening, number);
        }
        prop_assert_eq!(bytes(&clone), after);
        prop_assert_eq!(derived(&clone), seen);
        assert_consistent(&cluster);
        assert_consistent(&clone);
    }
}

/// One object's states in order of version; `None` is a deletion.
fn history<T: std::fmt::Debug>(
    state: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<Option<T>>> {
    vec(proptest::option::weighted(0.7, state), 1..5)
}

/// The events of a few objects, each list in order of version.
fn histories() -> impl Strategy<Value = Vec<Event>> {
    let nodes = (history(node(0)), history(node(1)), history(node(2)));
    let pods = vec(history((pod(), 0..4_usize, any::<bool>())), 1..5);
    let namespaces = history(any::<bool>());
    (nodes, pods, namespaces).prop_map(|((a, b, c), pods, namespaces)| {
        let mut events = Vec::new();
        for (index, history) in [a, b, c].into_iter().enumerate() {
            for (version, state) in (1..).zip(history) {
                events.push(match state {
                    Some(node) => Event::NodeChanged { node, version },
                    None => Event::NodeRemoved { name: format!("n{index}"), version },
                });
            }
        }
        for (index, history) in pods.into_iter().enumerate() {
            let name = format!("p{index}");
            for (version, state) in (1..).zip(history) {
                events.push(match state {
                    Some((pod, node, deleting)) => {
                        let mut pod = pod.name(&*name).on(format!("n{node}"));
                        pod.deleting = deleting;
                        Event::PodChanged { pod, version }
                    }
                    None => Event::PodDeleted {
                        namespace: "default".into(),
                        name: name.clone(),
                        version,
                    },
                });
            }
        }
        for (version, state) in (1..).zip(namespaces) {
            let name = "team".to_owned();
            events.push(match state {
                Some(label) => {
                    let labels = Labels::from([("big".into(), label.to_string())]);
                    Event::NamespaceChanged { name, labels, version }
                }
                None => Event::NamespaceRemoved { name, version },
            });
        }
        events
    })
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn events_converge_in_any_order_twice_and_late(
        (events, shuffled, again) in histories().prop_flat_map(|events| {
            let count = events.len();
            let shuffled = Just(events.clone()).prop_shuffle();
            (Just(events), shuffled, vec(0..count, 0..8))
        })
    ) {
        let mut ordered = empty();
        for event in &events {
            ordered.apply(event.clone()).unwrap();
        }
        let mut other = empty();
        for event in &shuffled {
            other.apply(event.clone()).unwrap();
        }
        prop_assert_eq!(bytes(&other), bytes(&ordered));
        prop_assert_eq!(derived(&other), derived(&ordered));
        let state = bytes(&other);
        for event in again.into_iter().map(|at| events[at].clone()) {
            let applied = other.apply(event).unwrap();
            prop_assert!(matches!(applied, Applied::Stale | Applied::Unknown), "{:?}", applied);
            prop_assert_eq!(bytes(&other), state.clone());
        }
        assert_consistent(&other);
    }
}
