//! Schedulers that are stopped: killed in the middle of bindings, or asked to end.

use std::time::Duration;

use crate::scenario::{BINDING_TIMEOUT, CONFIGURATION, SOON, note, scenario};
use crate::support::ledger::Book;
use crate::support::objects::Gang;
use crate::support::random::Random;

/// Gangs of 64 pods: 3,008 pods.
const GANGS: usize = 47;
const PODS: usize = 64;

/// Times that the scheduler is killed.
const KILLS: usize = 20;

#[test]
fn killed_twenty_times_at_random_moments() {
    scenario("killed", async |cluster| {
        let seed = std::env::var("SEED").map_or(20, |seed| seed.parse().expect("SEED is a number"));
        let mut random = Random(seed);
        cluster.add_nodes(200, 16).await;
        let names: Vec<String> = (0..GANGS).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> = (0..GANGS)
            .map(|n| Gang { name: &names[n], pods: PODS, one_rack: n % 2 == 0, ..Gang::default() })
            .collect();
        let bound = || cluster.ledger.book().bound(cluster.namespace);
        let whole = || gangs.iter().filter(|gang| cluster.bound_of(gang.name) == PODS).count();
        let halves = || -> Vec<(&str, usize)> {
            let bound = gangs.iter().map(|gang| (gang.name, cluster.bound_of(gang.name)));
            bound.filter(|(_, bound)| (1..PODS).contains(bound)).collect()
        };
        let lives = async {
            let mut cut = 0;
            for life in 0..KILLS {
                let scheduler = cluster.scheduler();
                let wave = &gangs[life * GANGS / KILLS..(life + 1) * GANGS / KILLS];
                let before = bound();
                // Every other life ends after some bindings, in the middle of a gang if need be; the
                // others after some time.
                let after = random.below(2 * PODS as u64) as usize;
                let time = Duration::from_millis(random.below(2000));
                let end = async {
                    if life % 2 == 0 {
                        let enough = |book: &Book| book.bound(cluster.namespace) > before + after;
                        cluster.ledger.within(Duration::from_secs(3), enough).await;
                    } else {
                        tokio::time::sleep(time).await;
                    }
                    scheduler.kill();
                };
                tokio::join!(cluster.add_gangs(wave), end);
                // What was sent is answered within this time.
                tokio::time::sleep(Duration::from_millis(100)).await;
                cut += usize::from(!halves().is_empty());
            }
            note(&format!("{cut} of {KILLS} kills left a gang half bound"));
            let _scheduler = cluster.scheduler();
            let all = |book: &Book| book.bound(cluster.namespace) == GANGS * PODS;
            let allowed = BINDING_TIMEOUT + Duration::from_secs(30);
            let begin = std::time::Instant::now();
            if !cluster.ledger.within(allowed, all).await {
                let halves = halves();
                assert!(
                    halves.is_empty(),
                    "{halves:?} are bound {allowed:?} after the last restart"
                );
                assert!(
                    cluster.ledger.within(SOON, all).await,
                    "{} of {GANGS} gangs are whole",
                    whole()
                );
            }
            note(&format!("all is bound {:?} after the last restart", begin.elapsed()));
            cluster.check_whole(&gangs).await;
        };
        tokio::select! {
            _ = cluster.run_controllers() => {},
            () = lives => {},
        }
    });
}

#[test]
fn asked_to_end_it_ends_with_no_gang_half_bound() {
    scenario("terminated", async |cluster| {
        cluster.add_nodes(100, 10).await;
        let names: Vec<String> = (0..10).map(|n| format!("gang-{n}")).collect();
        let gangs: Vec<Gang<'_>> =
            (0..10).map(|n| Gang { name: &names[n], pods: PODS, ..Gang::default() }).collect();
        let scheduler = cluster.scheduler();
        cluster.add_gangs(&gangs[..5]).await;
        let end = async {
            let begun = cluster.ledger.within(SOON, |book| book.bound(cluster.namespace) > PODS);
            assert!(begun.await, "nothing is bound");
            tokio::task::block_in_place(|| scheduler.terminate(Duration::from_secs(30)))
        };
        let ((), status) = tokio::join!(cluster.add_gangs(&gangs[5..]), end);
        assert!(status.success(), "{status}");
        let bound = cluster.check(&gangs).await;
        assert!(bound.iter().all(|&bound| bound == 0 || bound == PODS), "{bound:?}");

        let _scheduler = cluster.scheduler();
        cluster.until_bound(10 * PODS).await;
        cluster.check_whole(&gangs).await;
    });
}

#[test]
fn a_dry_run_changes_nothing() {
    scenario("dry-run", async |cluster| {
        cluster.add_nodes(4, 4).await;
        let gang = Gang::default();
        cluster.add_gangs(&[gang]).await;
        let before = cluster.api.list(&cluster.pods()).await;
        let user = cluster.plane.kubeconfig("scheduler");
        let mut scheduler = cluster.scheduler_with(&user, CONFIGURATION, &["--dry-run"]);
        // Long enough for a scheduler that binds.
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(scheduler.runs(), "the program ends: {}", scheduler.output());
        assert!(scheduler.output().contains(gang.name), "the log does not say what it would do");
        assert_eq!(cluster.api.list(&cluster.pods()).await, before);
    });
}
