//! Conveniences for embedders: cordons, texts of values for a log, ids in a conflict, and values
//! that go to other threads. Every field that an embedder sets has a method.

use core::time::Duration;

use phalanx::model::DisruptionMode;
use phalanx::queue::{
    Backfill, Elastic, HeadOfLine, OnBindFailure, PreemptionSettings, ReservationPolicy, Settings,
};
use phalanx::state::Applied;
use phalanx::{
    Cluster, CommitError, Event, Framework, Node, ObjectName, Plan, Planner, Pod, PodGroup,
    StateError, Strategy, place_gang,
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
        let warm = planner.place(cluster, &framework, gang(size)).unwrap();
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
    assert_eq!(cluster.node_by_id(node_id).map(phalanx::state::NodeView::name), Some("n0"));
    assert_eq!(filter, "NodeResourcesFit");
}

/// Every value that an embedder holds may go to another thread, and all but the two with caches be
/// read by several.
#[test]
fn public_values_are_send_and_sync() {
    fn shared<T: Send + Sync + ?Sized>() {}
    fn sent<T: Send>() {}
    // Caches and scratch of one thread at a time.
    sent::<Planner>();
    sent::<phalanx::Scheduler>();
    shared::<Cluster>();
    shared::<phalanx::Txn>();
    shared::<Plan>();
    shared::<Framework>();
    shared::<phalanx::framework::FrameworkBuilder>();
    shared::<phalanx::Request<'_>>();
    shared::<phalanx::place::Gang>();
    shared::<phalanx::Outcome>();
    shared::<phalanx::place::Certificate>();
    shared::<phalanx::place::Explanation>();
    shared::<phalanx::Decision>();
    shared::<phalanx::queue::SavedScheduler>();
    shared::<phalanx::queue::Settings>();
    shared::<phalanx::state::NodeView<'_>>();
    shared::<phalanx::state::PodView<'_>>();
    shared::<phalanx::state::Assignment<'_>>();
    shared::<Event>();
    shared::<PodGroup>();
    shared::<phalanx::Workload>();
    shared::<phalanx::kubernetes::Manifests>();
    shared::<phalanx::kubernetes::Reader>();
    shared::<phalanx::reference::kueue::KueueSnapshot>();
    shared::<dyn phalanx::Filter>();
    shared::<dyn phalanx::Score>();
    shared::<dyn phalanx::Permit>();
    shared::<(StateError, CommitError, phalanx::PlaceError, phalanx::QueueError)>();
    shared::<(phalanx::ModelError, phalanx::NameError, phalanx::kubernetes::Error)>();
}

/// A group made by methods alone serialises every field, none as its default.
#[test]
fn every_field_of_a_group_has_a_method() {
    let made = PodGroup::gang("g", 2)
        .in_namespace("team")
        .key(7)
        .min_pods(3)
        .priority(4)
        .queue("batch")
        .disruption(DisruptionMode::All)
        .schedule_timeout(Duration::from_secs(5))
        .keep_running()
        .starts_with(ObjectName::new("team", "other"))
        .leader()
        .attribute("colour", "green")
        .require("rack")
        .prefer("host")
        .highest("zone")
        .slice("host", 2)
        .spread("rack")
        .balanced()
        .ranked()
        .require_island()
        .group(PodGroup::basic("inner").pod(Pod::new().name("p")));
    let made = serde_json::to_value(&made).unwrap();
    let plain = serde_json::to_value(PodGroup::default()).unwrap();
    let by_default = ["pods"];
    for (field, value) in plain.as_object().unwrap() {
        assert!(made[field] != *value || by_default.contains(&&**field), "{field}");
    }
    for (field, value) in plain["topology"].as_object().unwrap() {
        assert_ne!(made["topology"][field], *value, "topology.{field}");
    }
}

#[test]
fn every_option_of_a_scheduler_has_a_method() {
    let second = Duration::from_secs(1);
    let made = Settings::new()
        .backoff(second, second)
        .max_in_unschedulable(second)
        .permit_timeout(second)
        .bind_timeout(second)
        .prepare_within(second)
        .stale_after(second)
        .head_of_line(HeadOfLine::StrictFifo)
        .queue("batch", HeadOfLine::BestEffort)
        .demote_after(3)
        .on_bind_failure(OnBindFailure::KeepMinimum)
        .reservation(ReservationPolicy::new().after(second).timeout(second).at_most(2))
        .strategy(Strategy::Search)
        .budget(5)
        .salt(6)
        .evict_half_bound(true)
        .backfill(Backfill::easy())
        .preemption(PreemptionSettings::new())
        .elastic(Elastic::new().by_turns())
        .event_capacity(7);
    let made = serde_json::to_value(&made).unwrap();
    let plain = serde_json::to_value(Settings::default()).unwrap();
    for (field, value) in plain.as_object().unwrap() {
        assert_ne!(made[field], *value, "{field}");
    }
}
