use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::cmp::Reverse;

use proptest::prelude::*;

use super::hints::Changes;
use super::index::WaitIndex;
use crate::base::Time;
use crate::framework::Framework;
use crate::model::{Node, Pod, PodShape};
use crate::queue::terms::ids::QueueKey;
use crate::queue::terms::wake::WakeCondition;
use crate::state::{Cluster, NodeView, PodView};

#[test]
fn capacity_is_looked_for_where_it_was_found_last_and_is_the_same_from_anywhere() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for n in 0..40 {
        let node = Node::new(format!("n{n:02}")).capacity("gpu", 1);
        cluster.add_node(node.label("rack", format!("r{}", n / 4))).unwrap();
        if n < 30 {
            let pod = Pod::new().name(format!("p{n}")).request("gpu", 1);
            cluster.add_pod(pod.on(format!("n{n:02}"))).unwrap();
        }
    }
    let framework = Framework::default();
    let shape = Arc::clone(Pod::new().request("gpu", 1).shape());
    let mut index = WaitIndex::default();
    let available = |index: &mut WaitIndex, level, needed| {
        index.available(&cluster, &framework, (&shape, level), needed, true)
    };
    let row = |n: &str| cluster.node(n).unwrap().row().index();
    assert_eq!(available(&mut index, None, 1), 1);
    assert_eq!(index.found_at, row("n30"), "behind the nodes that are full");
    for start in 0..45 {
        for (level, needed, most) in
            [(None, 11, 10), (Some("rack"), 5, 4), (Some("rack"), 4, 4), (None, 10, 10)]
        {
            index.found_at = start;
            assert_eq!(available(&mut index, level, needed), most, "{start} {level:?}");
        }
    }
}

/// A group that waits: the number of its shape, whether it must be in one rack, and its pods.
type Wait = (usize, bool, u64);

fn shapes() -> [Arc<PodShape>; 4] {
    let gpu = || Pod::new().request("gpu", 1);
    let all = [gpu(), gpu().request("cpu", 2), Pod::new().request("cpu", 3), gpu()];
    let mut all = all.map(|pod| Arc::clone(pod.shape()));
    all[3] = Arc::clone(gpu().node_selector("pool", "p0").shape());
    all
}

fn node(name: u8, value: u8) -> Node {
    let node = Node::new(format!("n{name}"))
        .capacity("gpu", i64::from(value % 4))
        .capacity("cpu", i64::from(value / 4 % 6))
        .label("rack", format!("r{}", name % 2))
        .label("pool", format!("p{}", value / 24 % 2));
    if value >= 160 { node.unschedulable() } else { node }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Groups sleep where nodes lack capacity and are woken; in between nodes change in each way.
    #[test]
    fn counts_that_follow_the_cluster_are_those_over_all_nodes(
        waits in proptest::collection::vec((0..4_usize, proptest::bool::ANY, 1..4_u64), 1..7),
        steps in proptest::collection::vec((0..5_u8, 0..5_u8, 0..=255_u8), 1..60),
    ) {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        for name in 0..3 {
            cluster.add_node(node(name, 200)).unwrap();
        }
        let framework = Framework::default();
        let (shapes, mut index) = (shapes(), WaitIndex::default());
        let level = |in_rack: bool| in_rack.then_some("rack");
        let key = |at: usize| QueueKey {
            rank: 0,
            priority: Reverse(0),
            grown: 0,
            since: Time::ZERO,
            group: at as u64,
        };
        let wake_on = |(shape, in_rack, needed): Wait| WakeCondition::Capacity {
            shape: Arc::clone(&shapes[shape]),
            level: level(in_rack).map(String::from),
            needed,
        };
        let available = |index: &mut WaitIndex, cluster: &Cluster, of: Wait, in_step: bool| {
            let pods = (&shapes[of.0], level(of.1));
            index.available(cluster, &framework, pods, of.2, in_step).min(of.2)
        };
        let mut asleep: BTreeMap<usize, Wait> = BTreeMap::new();
        for (pods, (kind, name, value)) in steps.into_iter().enumerate() {
            let (mut changes, full) = (Changes::default(), format!("n{name}"));
            let known = cluster.node(&full).map(NodeView::row);
            match (kind, known) {
                (0, Some(row)) if value % 4 == 0 => {
                    cluster.remove_node(&full).unwrap();
                    changes.removed.insert(row);
                }
                (0 | 1, Some(row)) => {
                    cluster.update_node(&node(name, value)).unwrap();
                    changes.nodes.insert(row);
                }
                (0 | 1, None) => {
                    cluster.add_node(node(name, value)).unwrap();
                    changes.nodes.insert(cluster.node(&full).unwrap().row());
                }
                (2, Some(row)) => {
                    let pod = Pod::new().name(format!("p{pods}")).request("gpu", 1);
                    cluster.add_pod(pod.on(full)).unwrap();
                    changes.pods.insert(row);
                }
                (3, _) => {
                    let on_a_node = |pod: PodView<'_>| {
                        Some((String::from(pod.name()), pod.node()?.row()))
                    };
                    let pod = cluster.pods().find_map(on_a_node);
                    if let Some((pod, row)) = pod {
                        cluster.remove_pod("default", &pod).unwrap();
                        changes.pods.insert(row);
                    }
                }
                _ => {}
            }
            index.wake(&cluster, &framework, &changes);
            while let Some(woken) = index.next(&cluster, &framework, None) {
                let wait = asleep.remove(&(woken as usize)).expect("it sleeps");
                index.unsubscribe(&key(woken as usize), &wake_on(wait));
                prop_assert_eq!(available(&mut index, &cluster, wait, false), wait.2);
            }
            for (at, &wait) in waits.iter().enumerate() {
                let found = available(&mut index, &cluster, wait, false);
                prop_assert_eq!(available(&mut index, &cluster, wait, true), found, "{:?}", wait);
                prop_assert!(found < wait.2 || !asleep.contains_key(&at), "not woken: {:?}", wait);
                if found < wait.2 && asleep.insert(at, wait).is_none() {
                    index.subscribe(&cluster, &framework, &key(at), &wake_on(wait));
                }
            }
        }
    }
}
