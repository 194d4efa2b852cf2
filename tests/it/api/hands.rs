//! What an embedder holds: cordons, texts of values for a log, ids in a conflict, and values that
//! go to other threads.

use phalanx::state::Applied;
use phalanx::{
    Cluster, CommitError, Event, Framework, Node, Plan, Planner, Pod, PodGroup, StateError,
    place_gang,
};

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for index in 0..nodes {
        let node = Node::new(format!("n{index}")).capacity("cpu", 8).key(100 + index as u64);
        cluster.add_node(node.label("rack", format!("r{}", index / 4))).unwrap();
    }
    cluster
}

fn gang(size: u32) -> PodGroup {
    PodGroup::gang("g", size).pods(size as usize, Pod::new().request("cpu", 4))
}

fn plan(cluster: &Cluster, group: &PodGroup) -> Option<Plan> {
    place_gang(cluster, &Framework::default(), group).unwrap().plan().cloned()
}

#[test]
fn a_cordoned_node_takes_no_new_pods_and_keeps_its_own() {
    let mut cluster = cluster(2);
    let framework = Framework::default();
    // A warm planner follows, too.
    let mut planner = Planner::new();
    let mut fits = |cluster: &Cluster, size| {
        let warm = planner.place(cluster, &framework, &gang(size)).unwrap();
        assert_eq!(warm.plan(), plan(cluster, &gang(size)).as_ref());
        warm.is_placed()
    };
    cluster.add_pod(Pod::new().name("old").request("cpu", 4).on("n0")).unwrap();
    assert!(fits(&cluster, 3));
    cluster.cordon("n0").unwrap();
    cluster.cordon("n0").unwrap();
    assert_eq!((cluster.unschedulable_nodes(), cluster.node("n0").unwrap().pod_count()), (1, 1));
    assert!(!fits(&cluster, 3) && fits(&cluster, 2));
    cluster.uncordon("n0").unwrap();
    assert_eq!(cluster.unschedulable_nodes(), 0);
    assert!(fits(&cluster, 3));
    let unknown = Err(StateError::UnknownNode("n9".into()));
    assert_eq!((cluster.cordon("n9"), cluster.uncordon("n9")), (unknown.clone(), unknown));
    // What a watch says of the node comes after.
    cluster.cordon("n1").unwrap();
    let node = Node::new("n1").capacity("cpu", 8).key(101).label("rack", "r0");
    let applied = cluster.apply(Event::NodeChanged { node, version: 7 });
    assert_eq!((applied, cluster.unschedulable_nodes()), (Ok(Applied::Changed), 0));
}

#[test]
fn a_rollback_takes_cordons_back_in_their_order() {
    let mut cluster = cluster(2);
    cluster.cordon("n1").unwrap();
    let mut txn = cluster.txn();
    let before = txn.checkpoint();
    txn.uncordon("n1").unwrap();
    txn.cordon("n0").unwrap();
    let between = txn.checkpoint();
    txn.uncordon("n0").unwrap();
    txn.uncordon("n0").unwrap();
    let closed = |txn: &Cluster| ["n0", "n1"].map(|name| txn.node(name).unwrap().unschedulable());
    assert_eq!(closed(&txn), [false, false]);
    txn.rollback(between).unwrap();
    assert_eq!(closed(&txn), [true, false]);
    txn.rollback(before).unwrap();
    assert_eq!((closed(&txn), txn.unschedulable_nodes()), ([false, true], 1));
    assert!(txn.cordon("n9").is_err());
    assert_eq!(txn.changes(), 0);
}

#[test]
fn the_text_of_a_large_value_fits_a_line_or_two() {
    let big = cluster(5_000);
    let mut planner = Planner::new();
    let group = gang(64);
    assert!(planner.place(&big, &Framework::default(), &group).unwrap().is_placed());
    let txn = big.txn();
    let node = big.node("n1").unwrap();
    for text in [
        format!("{big:?}"),
        format!("{planner:?}"),
        format!("{txn:?}"),
        format!("{node:?}"),
        format!("{:?}", big.nodes().next()),
    ] {
        assert!(text.len() < 400, "{text}");
    }
    assert!(format!("{big:?}").contains("nodes: 5000"));
}

#[test]
fn equal_plans_print_equally() {
    // Other clusters, another lineage, another history.
    let (first, mut second) = (cluster(8), cluster(8));
    second.add_pod(Pod::new().name("gone").request("cpu", 1).on("n3")).unwrap();
    second.remove_pod("default", "gone").unwrap();
    let (one, two) = (plan(&first, &gang(4)).unwrap(), plan(&second, &gang(4)).unwrap());
    let text = serde_json::to_string(&one).unwrap();
    let three: Plan = serde_json::from_str(&text).unwrap();
    assert!(one == two && one == three);
    assert_eq!(format!("{one:?}"), format!("{two:?}"));
    assert_eq!(format!("{one:?}"), format!("{three:?}"));
    assert_ne!(format!("{one:?}"), format!("{:?}", plan(&first, &gang(5)).unwrap()));
}

#[test]
fn a_conflict_names_ids_and_keys() {
    let mut cluster = cluster(1);
    let group = PodGroup::gang("g", 1).pod(Pod::new().name("p").key(7).request("cpu", 4));
    let late = plan(&cluster, &group).unwrap();
    cluster.add_pod(Pod::new().name("first").request("cpu", 8).on("n0")).unwrap();
    let refused = cluster.commit(&Framework::default(), &late);
    let Err(CommitError::Conflict { pod, pod_key, node, node_id, node_key, filter, .. }) = refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!((&*pod, pod_key, &*node, node_key), ("default/p", 7, "n0", 100));
    assert_eq!(cluster.node_by_id(node_id).map(|node| node.name()), Some("n0"));
    assert_eq!(filter, "NodeResourcesFit");
}
