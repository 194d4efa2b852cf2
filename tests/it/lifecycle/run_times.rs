//! The maximal run time of a group and its end.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::queue::{
    Backfill, EvictionCause, Gone, GroupChange, GroupState, PriorityThenTime, Settings,
};
use phalanx::simulate::Random;
use phalanx::{Decision, Framework, PodGroup, Scheduler, Time};

use super::steps::*;
use crate::support::budget;

fn bounded(name: &str, size: usize, secs: u64) -> PodGroup {
    gang(name, size).max_run_time(Duration::from_secs(secs))
}

/// The pods of a group that is over its time.
fn overdue(scheduler: &mut Scheduler, now: Time) -> Option<(String, Vec<String>, Time)> {
    match scheduler.poll_decision(now)? {
        Decision::EvictDue { group, pods, since, cause: EvictionCause::RunTime } => {
            Some((group.into(), pods.into_iter().map(|own| own.pod.into()).collect(), since))
        }
        other => panic!("{other:?}"),
    }
}

fn unbind(scheduler: &mut Scheduler, pod: &str, now: Time) {
    let (namespace, name) = pod.split_once('/').unwrap();
    scheduler.handle_gone(Gone::unbound(namespace, name), now).unwrap();
}

#[test]
fn a_group_that_has_run_for_its_time_is_evicted_and_paused_until_it_is_resumed() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_group(bounded("a", 2, 100), at(5)).unwrap();
    bind_all(&mut scheduler, at(10));
    assert_eq!(scheduler.next_wake(), Some(at(110)));
    assert_eq!(overdue(&mut scheduler, at(109)), None);
    // Time alone evicts nothing: decisions are polled for it.
    scheduler.handle_time(at(110));
    changes(&mut scheduler);
    let (group, pods, since) = overdue(&mut scheduler, at(111)).unwrap();
    assert_eq!((group.as_str(), pods.len(), since), ("default/a", 2, at(110)));
    let seen = changes(&mut scheduler);
    assert!(seen.contains(&GroupChange::Overdue { pods: 2 }), "{seen:?}");
    assert_eq!(scheduler.metrics().overdue, 1);
    assert_eq!(overdue(&mut scheduler, at(112)), None);
    for pod in &pods {
        unbind(&mut scheduler, pod, at(120));
    }
    assert_eq!(scheduler.poll_decision(at(500)), None);
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Paused));
    // The same group once more, as a list shows it, changes nothing.
    scheduler.handle_group(bounded("a", 2, 100), at(501)).unwrap();
    assert_eq!(scheduler.poll_decision(at(501)), None);
    scheduler.handle_resume("default/a", at(600)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(600)), ["default/a"]);
    assert_eq!(scheduler.next_wake(), Some(at(700)));
}

#[test]
fn runs_before_an_eviction_count_and_the_time_between_does_not() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_group(bounded("a", 2, 100), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    for pod in ["default/a-0", "default/a-1"] {
        unbind(&mut scheduler, pod, at(30));
    }
    bind_all(&mut scheduler, at(1_000));
    assert_eq!(scheduler.next_wake(), Some(at(1_070)));
    // A bound that is changed holds at once; one that is taken back, too.
    scheduler.handle_group(bounded("a", 2, 50), at(1_010)).unwrap();
    assert_eq!(scheduler.next_wake(), Some(at(1_020)));
    scheduler.handle_group(gang("a", 2), at(1_011)).unwrap();
    assert_eq!(scheduler.next_wake(), None);
    scheduler.handle_group(bounded("a", 2, 20), at(1_012)).unwrap();
    assert_eq!(overdue(&mut scheduler, at(1_012)).unwrap().2, at(1_000));
}

#[test]
fn a_group_that_ran_before_the_scheduler_counts_from_its_first_pod() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    let mut group = bounded("a", 2, 100);
    for (index, pod) in group.pods.iter_mut().enumerate() {
        *pod = gpu().name(format!("a-{index}")).on("n0000").since(at(40 + index as u64));
    }
    scheduler.handle_group(group, at(90)).unwrap();
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
    assert_eq!(scheduler.next_wake(), Some(at(140)));
}

#[test]
fn a_victim_whose_time_is_over_is_not_told_to_stay() {
    let mut scheduler = scheduler(gpus(1, 8), |settings| {
        settings.preemption = Some(phalanx::queue::PreemptionSettings::new());
    });
    scheduler.handle_group(bounded("low", 8, 100).evicted_whole(), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("high", 8).priority(9), at(99)).unwrap();
    let Some(Decision::Evict { victims, .. }) = scheduler.poll_decision(at(99)) else { panic!() };
    assert_eq!(victims.len(), 1);
    // The time ends while it is asked for; then the group that it makes room for goes.
    assert_eq!(overdue(&mut scheduler, at(100)).unwrap().1.len(), 8);
    scheduler.handle_group_removed("default/high", at(101)).unwrap();
    assert_eq!(scheduler.poll_decision(at(101)), None);
    for index in 0..8 {
        unbind(&mut scheduler, &format!("default/low-{index}"), at(102));
    }
    assert_eq!(scheduler.poll_decision(at(102)), None);
    assert_eq!(scheduler.poll_decision(at(1_000)), None);
    assert_eq!(scheduler.state("default/low"), Some(GroupState::Paused));
}

#[test]
fn backfill_knows_the_end_of_a_group_without_an_estimate() {
    let mut scheduler = scheduler(gpus(2, 8), |settings| {
        *settings = Settings::new().backfill(Backfill::easy());
    });
    scheduler.handle_group(bounded("running", 8, 1_800), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("wide", 16), at(1)).unwrap();
    scheduler.handle_group(bounded("long", 8, 1_900), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert_eq!(scheduler.promises()[0].at, at(1_800));
    scheduler.handle_group(bounded("short", 8, 1_700), at(2)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/short"]);
}

/// Groups come, go, are evicted by halves, paused and resumed; each has its time of all runs, and
/// not a second more. The state goes through a save at random.
#[test]
fn no_group_of_a_random_stream_runs_for_longer_than_its_time() {
    let (mut ends, mut partial) = (0, 0);
    for seed in 0..budget::of(3, 1_000) {
        let mut random = Random::new(seed);
        let mut scheduler = scheduler(gpus(2, 4), |_| ());
        // Bound, start of the present run, time of the runs before.
        let mut known: BTreeMap<String, (u64, Option<u64>, u64)> = BTreeMap::new();
        let mut now = 0;
        for step in 0..120 {
            let wake = scheduler.next_wake().map(Time::as_secs);
            let next = now + random.below(20);
            now = wake.map_or(next, |wake| wake.clamp(now, next.max(now)));
            match random.below(6) {
                0 | 1 => {
                    let (name, size) = (format!("g{step}"), 1 + random.below(4) as usize);
                    let most = 5 + random.below(60);
                    scheduler.handle_group(bounded(&name, size, most), at(now)).unwrap();
                    known.insert(format!("default/{name}"), (most, None, 0));
                }
                2 => {
                    let text = serde_json::to_string(&scheduler.save()).unwrap();
                    let saved = serde_json::from_str(&text).unwrap();
                    scheduler = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
                    assert_eq!(serde_json::to_string(&scheduler.save()).unwrap(), text);
                }
                3 => {
                    // All pods of a running group leave at once.
                    let running = known.iter().find(|(_, own)| own.1.is_some());
                    if let Some((name, _)) = running {
                        let (name, mut pods) = (name.clone(), Vec::new());
                        let all = scheduler.cluster().group_pods(&name);
                        pods.extend(all.map(|pod| format!("default/{}", pod.name())));
                        for pod in pods {
                            unbind(&mut scheduler, &pod, at(now));
                        }
                        let own = known.get_mut(&name).unwrap();
                        own.2 += now - own.1.take().unwrap();
                        partial += 1;
                    }
                }
                4 => {
                    let all: Vec<&String> = known.keys().collect();
                    if !all.is_empty() {
                        let name = all[random.below(all.len() as u64) as usize];
                        scheduler.handle_resume(name, at(now)).unwrap();
                    }
                }
                _ => {}
            }
            while let Some(decision) = scheduler.poll_decision(at(now)) {
                match decision {
                    Decision::Bind { ticket, plan, groups } => {
                        bind(&mut scheduler, ticket, &plan, at(now));
                        for group in groups {
                            known.get_mut(&*group).unwrap().1.get_or_insert(now);
                        }
                    }
                    Decision::EvictDue { group, pods, since, cause: EvictionCause::RunTime } => {
                        let own = known.get_mut(&*group).unwrap();
                        let start = own.1.take().expect("it runs");
                        assert_eq!(since.as_secs(), start + own.0 - own.2, "seed {seed}");
                        own.2 = 0;
                        ends += 1;
                        for pod in pods {
                            unbind(&mut scheduler, &String::from(pod.pod), at(now));
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
            for (name, (most, since, before)) in &known {
                let ran = since.map_or(0, |since| now - since) + before;
                assert!(since.is_none() || ran < *most, "seed {seed}: {name} ran {ran} s");
            }
            scheduler.check().unwrap();
        }
    }
    assert!(
        ends > budget::of(7, 30) && partial > budget::of(2, 10),
        "{ends} ends, {partial} evictions before"
    );
}
