//! More than one scheduler on a cluster.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::scenario::{CONFIGURATION, NAME, SOON, note, scenario};
use crate::support::objects::{self, Gang};

/// Leader election with short times.
const ELECTION: &str = "\
leaderElection: {enabled: true, namespace: kube-system, name: phalanx, lease: 5s, renew: 3s, retry: 1s}
";

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/phalanx";

#[test]
fn the_second_replica_takes_over() {
    scenario("two-replicas", async |cluster| {
        cluster.add_nodes(50, 10).await;
        let configuration = format!("{CONFIGURATION}{ELECTION}");
        let replica =
            || cluster.scheduler_with("admin", &configuration, &["--scheduler-name", NAME]);
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
        // Both at once, with room to spare: a node that one of them fills, the other one may be
        // about to fill too, and the API server does not mind.
        let names: Vec<String> = (0..10).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> =
            (0..10).map(|n| Gang { name: &names[n], pods: 32, ..Gang::default() }).collect();
        let others = (0..320).map(|n| objects::pod(&format!("other-{n}"), 1, "default-scheduler"));
        tokio::join!(cluster.add_gangs(&gangs), cluster.add_pods(others.collect()));
        cluster.until_bound(640).await;
        cluster.check_whole(&gangs).await;

        // In turns, to the last CPU: each sees what the other one has bound.
        for n in 0..6 {
            let gang = Gang { name: &format!("turn-{n}"), pods: 80, ..Gang::default() };
            cluster.add_gangs(&[gang]).await;
            cluster.until_bound(640 + n * 100 + 80).await;
            let others = (0..20)
                .map(|m| objects::pod(&format!("turn-{n}-other-{m}"), 1, "default-scheduler"));
            cluster.add_pods(others.collect()).await;
            cluster.until_bound(640 + (n + 1) * 100).await;
            cluster.check_whole(&[gang]).await;
        }
        // 40 of 1,280 CPUs are left, on whatever nodes: 41 pods are too many.
        let gang = Gang { name: "too-many", pods: 41, ..Gang::default() };
        cluster.add_gangs(&[gang]).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[gang]).await, [0]);
        cluster.plane.run(&["stop", "kube-scheduler"]);
    });
}
