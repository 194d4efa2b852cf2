//! An API server that goes away, and one that has forgotten the past.

use std::time::{Duration, Instant};

use crate::scenario::{BINDING_TIMEOUT, Cluster, NAME, note, scenario};
use crate::support::objects::{self, Gang};

/// Pods of a gang, and gangs, that arrive while the server is troubled.
const PODS: usize = 16;
const GANGS: usize = 30;

/// Gangs arrive one after another, half of them before the trouble begins and half while it lasts;
/// nodes change meanwhile. Everything is bound in the end.
async fn arrive_during(cluster: &Cluster<'_>, trouble: impl FnOnce() + Send + 'static) {
    cluster.add_nodes(40, 10).await;
    let _scheduler = cluster.scheduler();
    let names: Vec<String> = (0..GANGS).map(|n| format!("gang-{n}")).collect();
    let gangs: Vec<Gang<'_>> = (0..GANGS)
        .map(|n| Gang { name: &names[n], pods: PODS, one_rack: n % 2 == 0, ..Gang::default() })
        .collect();
    let (before, during) = gangs.split_at(GANGS / 2);
    cluster.add_gangs(before).await;
    let trouble = tokio::task::spawn_blocking(trouble);
    for gang in during {
        cluster.add_gangs(&[*gang]).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    trouble.await.expect("the control plane obeys");
    let begin = Instant::now();
    cluster.until_bound(GANGS * PODS).await;
    let took = begin.elapsed();
    note(&format!("all is bound {took:?} after the server is back"));
    assert!(took < Duration::from_secs(40), "{took:?} after the server is back");
    cluster.check_whole(&gangs).await;
    let half = cluster.longest_half(&gangs);
    note(&format!("a gang was half bound for {half:?} at most"));
    assert!(half < BINDING_TIMEOUT + Duration::from_secs(30), "half bound for {half:?}");

    // The watches go on: a node and a gang that needs it.
    let node = objects::node("late", "late");
    cluster.api.create("/api/v1/nodes", &node).await;
    let mut late = Gang { name: "late", pods: 2, cpu: 16, ..Gang::default() };
    late.one_rack = true;
    let mut group = late.group();
    group["spec"]["schedulingConstraints"]["topology"][0]["key"] = "kubernetes.io/hostname".into();
    cluster.api.create(&cluster.groups(), &group).await;
    cluster.add_pods(late.all_pods(NAME)).await;
    cluster.until_bound(GANGS * PODS + 2).await;
}

#[test]
fn the_history_expires_under_load() {
    scenario("history-expired", async |cluster| {
        let plane = cluster.plane.clone();
        arrive_during(cluster, move || drop(plane.run(&["expire"]))).await;
    });
}

#[test]
fn the_api_server_is_away_for_twenty_seconds() {
    scenario("api-server-stopped", async |cluster| {
        let plane = cluster.plane.clone();
        arrive_during(cluster, move || {
            plane.run(&["stop", "kube-apiserver"]);
            std::thread::sleep(Duration::from_secs(20));
            plane.start();
        })
        .await;
    });
}
