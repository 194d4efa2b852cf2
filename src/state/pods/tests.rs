use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::model::{Node, Pod};
use crate::{Cluster, Txn};

/// Node, group, uid and key of each pod.
type Model = BTreeMap<(String, String), (usize, Option<u8>, String, u64)>;

const NODES: usize = 5;

fn pod(number: u32, kind: u8) -> Pod {
    let name = match kind % 4 {
        0 => format!("{number}-{}", "long".repeat(70)),
        _ => format!("p-{number}"),
    };
    let mut pod = Pod::new().name(name).request("cpu", 1).priority(i32::from(kind));
    if kind.is_multiple_of(2) {
        pod = pod.in_namespace("other");
    }
    pod.group = (kind > 2).then(|| format!("g{kind}"));
    if kind == 5 {
        pod = pod.uid(format!("u{number}")).key(u64::from(number) + 1);
    }
    pod
}

fn same(cluster: &Cluster, model: &Model) {
    let id = |pod: crate::state::PodView<'_>| (pod.namespace().to_string(), pod.name().to_string());
    assert_eq!(cluster.pod_count(), model.len());
    let cpu = cluster.resource("cpu").unwrap();
    for node in 0..NODES {
        let view = cluster.node(&format!("n{node}")).unwrap();
        let own: BTreeSet<_> = view.pods().map(id).collect();
        let of_model = model.iter().filter(|(_, pod)| pod.0 == node);
        assert_eq!(own, of_model.map(|(id, _)| id.clone()).collect());
        assert_eq!((view.pods().count(), view.used(cpu)), (own.len(), own.len() as i64 * 1_000));
        assert_eq!(view.pod_count(), own.len() as i64);
    }
    for ((namespace, name), (node, group, uid, key)) in model {
        let pod = cluster.pod(namespace, name).unwrap();
        assert_eq!(pod.node().unwrap().name(), format!("n{node}"));
        assert_eq!((pod.uid(), pod.key()), (&**uid, *key));
        assert_eq!(pod.group().map(String::from), group.map(|g| format!("{namespace}/g{g}")));
    }
    for group in 3..6 {
        for namespace in ["default", "other"] {
            let mut own: Vec<_> =
                cluster.group_pods(&format!("{namespace}/g{group}")).map(id).collect();
            own.sort();
            let of_model = model
                .iter()
                .filter(|(id, pod)| id.0 == namespace && pod.1 == Some(group))
                .map(|(id, _)| id.clone());
            assert_eq!(own, of_model.collect::<Vec<_>>());
        }
    }
    let used: BTreeSet<_> = model.iter().filter_map(|(id, pod)| Some((&id.0, pod.1?))).collect();
    assert_eq!(cluster.pods.groups.len(), used.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn lists_names_and_groups_are_those_of_a_plain_map(
        steps in prop::collection::vec((0_u8..10, 0_u32..60, 0_u8..6, 0..NODES), 1..300),
    ) {
        let mut cluster = Cluster::new();
        for node in 0..NODES {
            cluster.add_node(Node::new(format!("n{node}")).capacity("cpu", 4)).unwrap();
        }
        cluster.add_pod(Pod::new().name("x").request("cpu", 1).on("n0")).unwrap();
        cluster.remove_pod("default", "x").unwrap();
        let mut model = Model::new();
        let mut kept: Option<(Cluster, Model)> = None;
        for (action, number, kind, node) in steps {
            let pod = pod(number, kind);
            let id = (pod.namespace().to_string(), pod.name.clone());
            match action {
                0..=4 => {
                    let group = (kind > 2).then_some(kind);
                    let entry = (node, group, pod.uid.clone(), pod.key);
                    let added = cluster.add_pod(pod.on(format!("n{node}"))).is_ok();
                    prop_assert_eq!(added, !model.contains_key(&id));
                    model.entry(id).or_insert(entry);
                }
                5..=7 => {
                    let removed = cluster.remove_pod(&id.0, &id.1).is_ok();
                    prop_assert_eq!(removed, model.remove(&id).is_some());
                }
                8 => {
                    // A transaction that is taken back leaves no trace.
                    let mut txn: Txn = cluster.txn();
                    let before = txn.checkpoint();
                    let on = txn.node(&format!("n{node}")).unwrap().id();
                    txn.place(&pod, on).unwrap();
                    prop_assert_eq!(txn.pod_count(), model.len() + 1);
                    let evicted = txn.evict(&id.0, &id.1).is_ok();
                    prop_assert_eq!(evicted, model.contains_key(&id));
                    txn.rollback(before).unwrap();
                    cluster = txn.into_cluster();
                }
                _ => {
                    if let Some((cluster, model)) = kept.replace((cluster.clone(), model.clone())) {
                        same(&cluster, &model);
                    }
                }
            }
        }
        same(&cluster, &model);
        if let Some((cluster, model)) = kept {
            same(&cluster, &model);
        }
    }
}
