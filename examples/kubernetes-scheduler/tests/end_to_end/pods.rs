//! Pods that are deleted: while they wait, and while they are bound.

use crate::scenario::{NAME, SOON, note, scenario};
use crate::support::objects::{self, Gang};

#[test]
fn a_gang_that_loses_a_pod_waits_again() {
    scenario("deleted-while-waiting", async |cluster| {
        cluster.add_nodes(2, 2).await;
        let _scheduler = cluster.scheduler();
        // Complete, but without room: 40 of 64 CPUs are taken.
        cluster
            .add_pods((0..2).map(|n| objects::pod(&format!("filler-{n}"), 20, NAME)).collect())
            .await;
        cluster.until_bound(2).await;
        let gang = Gang { name: "gang", cpu: 10, ..Gang::default() };
        cluster.add_gangs(&[gang]).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[gang]).await, [0], "two of four pods fit");

        // With room, but incomplete.
        cluster.delete_pod("gang-0").await;
        cluster.delete_pod("filler-0").await;
        cluster.delete_pod("filler-1").await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[gang]).await, [0], "three of four pods are there");

        cluster.add_pods(vec![gang.pod(0, NAME)]).await;
        cluster.until_bound(4).await;
        cluster.check_whole(&[gang]).await;
    });
}

#[test]
fn room_that_a_deleted_gang_leaves_is_used() {
    scenario("deleted-while-bound", async |cluster| {
        cluster.add_nodes(4, 4).await;
        let _scheduler = cluster.scheduler();
        let first = Gang { name: "first", cpu: 32, ..Gang::default() };
        cluster.add_gangs(&[first]).await;
        cluster.until_bound(4).await;
        let second = Gang { name: "second", cpu: 32, ..Gang::default() };
        cluster.add_gangs(&[second]).await;
        cluster.until_settled().await;
        assert_eq!(cluster.check(&[second]).await, [0]);
        for n in 0..4 {
            cluster.delete_pod(&first.pod_name(n)).await;
        }
        let met =
            cluster.ledger.within(SOON, |book| book.bound_of(cluster.namespace, "second") == 4);
        assert!(met.await, "the second gang is not bound");
        assert_eq!(cluster.check(&[first, second]).await, [0, 4]);
    });
}

#[test]
fn pods_are_deleted_while_their_gangs_are_bound() {
    scenario("deleted-while-binding", async |cluster| {
        cluster.add_nodes(60, 10).await;
        let _scheduler = cluster.scheduler();
        let names: Vec<String> = (0..20).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> = (0..20)
            .map(|n| Gang { name: &names[n], pods: 32, one_rack: n % 2 == 0, ..Gang::default() })
            .collect();
        let delete = async {
            // One pod of each gang, as soon as the first of the gang is bound: the others are on
            // their way.
            for gang in &gangs {
                let begun = cluster
                    .ledger
                    .within(SOON, |book| book.bound_of(cluster.namespace, gang.name) > 0);
                assert!(begun.await, "{} is not bound", gang.name);
                let path = format!("{}/{}", cluster.pods(), gang.pod_name(31));
                cluster.api.delete(&path).await;
            }
        };
        tokio::select! {
            _ = cluster.run_controllers() => {},
            () = async {
                tokio::join!(cluster.add_gangs(&gangs), delete);
                cluster.until_bound(20 * 32).await;
            } => {},
        }
        cluster.check_whole(&gangs).await;
        note(&format!("a gang was half bound for {:?} at most", cluster.longest_half(&gangs)));
    });
}
