//! More than one scheduler on a cluster.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scenario::{CONFIGURATION, Cluster, NAME, SOON, note, scenario};
use crate::support::objects::{self, Gang};

/// Leader election with short times.
const ELECTION: &str = "\
leaderElection: {enabled: true, namespace: kube-system, name: phalanx, lease: 5s, renew: 3s, retry: 1s}
";

/// kube-scheduler's name.
const OTHER: &str = "default-scheduler";

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/phalanx";

/// The kubeconfig of the account that `manifests/rbac.yaml` makes, with the rights it gives.
async fn own_user(cluster: &Cluster<'_>) -> PathBuf {
    let text = include_str!("../../manifests/rbac.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).expect("the manifest is YAML");
    for object in objects {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let version = match text("/apiVersion") {
            "v1" => "/api/v1".to_owned(),
            version => format!("/apis/{version}"),
        };
        let namespace = match text("/metadata/namespace") {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let kind = text("/kind").to_lowercase();
        cluster.api.create(&format!("{version}{namespace}/{kind}s"), &object).await;
    }
    let account = "/api/v1/namespaces/kube-system/serviceaccounts/phalanx/token";
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = cluster.api.create(account, &request).await["status"]["token"].take();

    let file = fs::read_to_string(cluster.plane.kubeconfig("admin")).expect("it was written");
    let mut config: Value = serde_saphyr::from_str(&file).expect("a kubeconfig is YAML");
    config["users"][0]["user"] = json!({"token": token});
    let path = cluster.plane.state().join("own.kubeconfig");
    fs::write(&path, config.to_string()).expect("the state folder can be written");
    path
}

#[test]
fn the_second_replica_takes_over() {
    scenario("two-replicas", async |cluster| {
        cluster.add_nodes(50, 10).await;
        let configuration = format!("{CONFIGURATION}{ELECTION}");
        let user = own_user(cluster).await;
        let replica = || cluster.scheduler_with(&user, &configuration, &[]);
        let names: Vec<String> = (0..12).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> =
            (0..12).map(|n| Gang { name: &names[n], pods: 32, ..Gang::default() }).collect();
        // A lease of an earlier run has a holder that is long gone.
        let mut leader = replica();
        cluster.until_settled().await;
        let mut holder = cluster.api.get(LEASE).await["spec"]["holderIdentity"].take();
        for round in 0..3 {
            let mut follower = replica();
            let begun = round * 4 * 32;
            let kill = async {
                let met = cluster.ledger.within(SOON, |book| book.bound(cluster.namespace) > begun);
                assert!(met.await, "nothing is bound in round {round}");
                assert!(follower.runs(), "the follower ends: {}", follower.output());
                leader.kill();
                let begin = Instant::now();
                cluster.add_pods(vec![objects::pod(&format!("pod-{round}"), 0, NAME)]).await;
                begin
            };
            let ((), begin) =
                tokio::join!(cluster.add_gangs(&gangs[round * 4..(round + 1) * 4]), kill);
            cluster.until_bound(begun + 4 * 32 + round + 1).await;
            let took = begin.elapsed();
            note(&format!("a new leader has bound all {took:?} after the old one was killed"));
            assert!(took < Duration::from_secs(30), "the second replica takes over after {took:?}");
            let next: Value = cluster.api.get(LEASE).await["spec"]["holderIdentity"].take();
            assert_ne!(next, holder, "the lease still has its holder");
            (leader, holder) = (follower, next);
        }
        cluster.check_whole(&gangs).await;
    });
}

#[test]
fn two_schedulers_share_nodes() {
    scenario("two-schedulers", async |cluster| {
        cluster.add_nodes(40, 10).await;
        cluster.plane.run(&["start", "--with-scheduler"]);
        let _scheduler = cluster.scheduler();
        // Both at once. A node that one of them fills the other one may be about to fill too, and
        // the API server does not mind: that is counted. What each sees of the other is exact below.
        let names: Vec<String> = (0..10).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> =
            (0..10).map(|n| Gang { name: &names[n], pods: 32, ..Gang::default() }).collect();
        let others = (0..320).map(|n| objects::pod(&format!("other-{n}"), 1, OTHER));
        tokio::join!(cluster.add_gangs(&gangs), cluster.add_pods(others.collect()));
        cluster.until_bound(640).await;
        for gang in &gangs {
            assert_eq!(cluster.bound_of(gang.name), 32, "{}", gang.name);
        }
        let excess = cluster.excess().await;
        note(&format!("two schedulers at once: {} nodes have too many pods", excess.len()));
        objects::clear_pods(&cluster.api).await;
        cluster.until_bound(0).await;

        // In turns, to the last CPU: each sees what the other one has bound.
        for n in 0..12 {
            let gang = Gang { name: &format!("turn-{n}"), pods: 80, ..Gang::default() };
            cluster.add_gangs(&[gang]).await;
            cluster.until_bound(n * 100 + 80).await;
            let others = (0..20).map(|m| objects::pod(&format!("turn-{n}-other-{m}"), 1, OTHER));
            cluster.add_pods(others.collect()).await;
            cluster.until_bound((n + 1) * 100).await;
            cluster.check_whole(&[gang]).await;
        }
        // 80 of 1,280 CPUs are left, on whatever nodes: 81 pods are too many.
        let gang = Gang { name: "too-many", pods: 81, ..Gang::default() };
        cluster.add_gangs(&[gang]).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[gang]).await, [0]);
        cluster.delete_pod(&gang.pod_name(80)).await;
        let gang = Gang { name: "last", pods: 80, ..Gang::default() };
        cluster.add_gangs(&[gang]).await;
        cluster.until_bound(1280).await;
        cluster.check_whole(&[gang]).await;
        cluster.plane.run(&["stop", "kube-scheduler"]);
    });
}
