//! Questions about a cluster that changes, and one that does not.

use super::*;
use crate::framework::{Framework, Strategy};
use crate::model::{Node, Pod, PodGroup};
use crate::place::{PlaceError, Request};

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new();
    for index in 0..nodes {
        cluster.add_node(Node::new(alloc::format!("n{index}")).capacity("cpu", 8)).unwrap();
    }
    cluster
}

fn fits(session: &mut Session, cluster: &Cluster, cpus: i64) -> bool {
    let group = PodGroup::of("g", 1, Pod::new().request("cpu", cpus));
    session
        .ask(cluster, |planner, txn| {
            let outcome = planner.place(txn, &Framework::default(), &group)?;
            // A change that the question leaves behind.
            txn.cordon("n0")?;
            Ok::<_, PlaceError>(outcome.is_placed())
        })
        .unwrap()
}

#[test]
fn a_question_leaves_nothing_behind() {
    let cluster = cluster(1);
    let mut session = Session::default();
    for _ in 0..3 {
        assert!(fits(&mut session, &cluster, 8), "the node is open again");
    }
    let (moment, txn) = session.base.as_ref().expect("kept");
    assert_eq!(*moment, cluster.moment());
    assert_eq!(txn.changes(), 0);
}

#[test]
fn a_cluster_that_has_moved_is_seen_as_it_is() {
    let mut cluster = cluster(1);
    let mut session = Session::default();
    assert!(fits(&mut session, &cluster, 8));
    cluster.add_pod(Pod::new().name("p").request("cpu", 4).on("n0")).unwrap();
    assert!(!fits(&mut session, &cluster, 8));
    assert!(fits(&mut session, &cluster, 4));
}

#[test]
fn a_second_question_evaluates_no_more_than_the_first() {
    let cluster = cluster(50);
    let mut session = Session::default();
    fits(&mut session, &cluster, 3);
    let calls = session.plugin_calls();
    assert!(calls > 0);
    fits(&mut session, &cluster, 3);
    assert!(session.plugin_calls() - calls <= calls, "{calls}, {}", session.plugin_calls());
}

#[test]
fn a_look_sees_the_cluster_as_it_is_and_makes_no_copy() {
    let mut cluster = cluster(1);
    let mut session = Session::default();
    let sees = |session: &mut Session, cluster: &Cluster| {
        let group = PodGroup::of("g", 1, Pod::new().request("cpu", 8));
        let framework = Framework::default();
        session.look(cluster, |planner, seen| {
            planner.place(seen, &framework, &group).unwrap().is_placed()
        })
    };
    assert!(sees(&mut session, &cluster));
    assert!(session.base.is_none());
    assert!(fits(&mut session, &cluster, 8));
    assert!(sees(&mut session, &cluster), "the node is open again");
    cluster.add_pod(Pod::new().name("p").request("cpu", 4).on("n0")).unwrap();
    assert!(!sees(&mut session, &cluster));
    assert!(fits(&mut session, &cluster, 4) && !fits(&mut session, &cluster, 8));
}

/// A node has come to the rack of another, and the planner was not asked between that and the copy.
#[test]
fn a_domain_that_grew_before_a_question_without_the_planner_is_seen() {
    let node = |index: usize, rack: &str| {
        Node::new(alloc::format!("n{index}")).capacity("cpu", 8).label("rack", rack)
    };
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    cluster.add_node(node(0, "r0")).unwrap();
    cluster.add_node(node(1, "r1")).unwrap();
    let framework = Framework::default();
    let sees = |session: &mut Session, cluster: &Cluster, pods: u32| {
        let inner = PodGroup::of("g-a", pods, Pod::new().request("cpu", 8)).require("rack");
        let group = PodGroup::gang("g", 1).group(inner);
        session.look(cluster, |planner, seen| {
            let request = Request::new(&group).strategy(Strategy::Kubernetes);
            planner.place(seen, &framework, request).unwrap().is_placed()
        })
    };
    let mut session = Session::default();
    assert!(sees(&mut session, &cluster, 1));
    cluster.update_node(&node(1, "r0")).unwrap();
    session.ask(&cluster, |_, _| Ok::<_, PlaceError>(())).unwrap();
    cluster.add_pod(Pod::new().name("p").on("n0")).unwrap();
    assert!(sees(&mut session, &cluster, 2));
}

#[test]
fn a_fault_is_handed_on_and_the_copy_stays_sound() {
    let cluster = cluster(1);
    let mut session = Session::default();
    let fault = session.ask(&cluster, |_, txn| txn.cordon("missing").map(drop));
    assert!(matches!(fault, Err(StateError::UnknownNode(_))));
    assert!(fits(&mut session, &cluster, 8));
}
