//! Nodes that come, go, and take no more pods.

use serde_json::json;

use crate::scenario::{Cluster, SOON, scenario};
use crate::support::ledger::{Book, Record};
use crate::support::objects::{self, Gang};

/// Nodes on which pods of a group are.
async fn places(cluster: &Cluster<'_>, group: &str) -> Vec<String> {
    let pods = cluster.api.list(&cluster.pods()).await;
    let of_group =
        pods.iter().filter(|pod| pod["spec"]["schedulingGroup"]["podGroupName"] == group);
    let mut nodes: Vec<String> =
        of_group.filter_map(|pod| Some(pod["spec"]["nodeName"].as_str()?.to_owned())).collect();
    nodes.sort();
    nodes
}

#[test]
fn a_gang_goes_where_nodes_are_left() {
    scenario("nodes-lost", async |cluster| {
        cluster.add_nodes(6, 6).await;
        let _scheduler = cluster.scheduler();
        cluster.until_settled().await;

        // Of six nodes one is lost, one cordoned and one not ready: two pods a node fit on three.
        cluster.delete_node("node-0000").await;
        let cordon = json!({"spec": {"unschedulable": true}});
        cluster.api.patch("/api/v1/nodes/node-0001", &cordon).await;
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        cluster.api.patch("/api/v1/nodes/node-0002/status", &not_ready).await;
        // What a node controller does, where one runs.
        let taint = json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
        cluster.api.patch("/api/v1/nodes/node-0002", &taint).await;
        cluster.until_settled().await;
        let first = Gang { name: "first", pods: 6, cpu: 16, ..Gang::default() };
        cluster.add_gangs(&[first]).await;
        cluster.until_bound(6).await;
        let expected = ["node-0003", "node-0004", "node-0005"].map(|node| [node; 2]).concat();
        assert_eq!(places(cluster, "first").await, expected);

        // A gang that waits for room is bound when two nodes take pods again.
        let second = Gang { name: "second", pods: 4, cpu: 16, ..Gang::default() };
        cluster.add_gangs(&[second]).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[second]).await, [0]);
        let uncordon = json!({"spec": {"unschedulable": false}});
        cluster.api.patch("/api/v1/nodes/node-0001", &uncordon).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        cluster.api.patch("/api/v1/nodes/node-0002/status", &ready).await;
        cluster.api.patch("/api/v1/nodes/node-0002", &json!({"spec": {"taints": null}})).await;
        cluster.until_bound(10).await;

        // And one when a node is added.
        let third = Gang { name: "third", pods: 2, cpu: 16, ..Gang::default() };
        cluster.add_gangs(&[third]).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[third]).await, [0]);
        cluster.api.create("/api/v1/nodes", &objects::node("node-0006", "rack-1")).await;
        cluster.until_bound(12).await;
        assert_eq!(places(cluster, "third").await, ["node-0006"; 2]);
        cluster.check_whole(&[first, second, third]).await;
    });
}

#[test]
fn a_node_that_grows_takes_the_gang_that_waits() {
    scenario("node-grows", async |cluster| {
        cluster.add_nodes(1, 1).await;
        let _scheduler = cluster.scheduler();
        let gang = Gang { name: "gang", pods: 2, cpu: 20, ..Gang::default() };
        cluster.add_gangs(&[gang]).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[gang]).await, [0]);
        let larger = json!({"status": {"capacity": {"cpu": "40"}, "allocatable": {"cpu": "40"}}});
        cluster.api.patch("/api/v1/nodes/node-0000/status", &larger).await;
        cluster.until_bound(2).await;
        cluster.check_whole(&[gang]).await;
    });
}

#[test]
fn nodes_are_lost_while_gangs_are_bound() {
    scenario("nodes-lost-under-load", async |cluster| {
        cluster.add_nodes(40, 10).await;
        let _scheduler = cluster.scheduler();
        let names: Vec<String> = (0..16).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> = (0..16)
            .map(|n| Gang { name: &names[n], pods: 32, one_rack: n % 2 == 0, ..Gang::default() })
            .collect();
        let lose = async {
            let begun = cluster.ledger.within(SOON, |book| book.bound(cluster.namespace) > 0);
            assert!(begun.await, "no pod is bound");
            for n in (0..40).step_by(8) {
                cluster.delete_node(&format!("node-{n:04}")).await;
            }
        };
        let all = |book: &Book| {
            let there = |pod: &&Record| pod.node.is_some() && !cluster.is_lost(pod);
            book.present().map(|(_, pod)| pod).filter(there).count() == 16 * 32
        };
        // A pod may be bound to a node that has just gone: the API server does not mind.
        tokio::select! {
            _ = cluster.run_controllers() => {},
            () = async {
                tokio::join!(cluster.add_gangs(&gangs), lose);
                assert!(cluster.ledger.within(SOON, all).await, "not all pods are bound");
            } => {},
        }
        cluster.check_whole(&gangs).await;
    });
}
