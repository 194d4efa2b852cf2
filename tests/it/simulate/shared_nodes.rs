//! Conservative backfill where jobs share nodes: what is free in all may be free in pieces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx::framework::{Reach, filter_fn};
use phalanx::plugins::Fit;
use phalanx::queue::{Backfill, Gone, PromiseView, Settings};
use phalanx::simulate::Random;
use phalanx::{Decision, Framework, Pod, PodGroup, Scheduler, Time};

use super::world::{GPU, cluster, framework};
use crate::support::budget;

fn scheduler(nodes: usize, framework: Framework) -> Scheduler {
    Scheduler::new(cluster(nodes), framework, Settings::new().backfill(Backfill::conservative()))
}

fn job(name: &str, gpus: u32, secs: u64) -> PodGroup {
    let pods = PodGroup::gang(name, 1).pods(1, Pod::new().request(GPU, gpus));
    pods.run_time_estimate(Duration::from_secs(secs))
}

/// Starts what can start, and returns the node of each.
fn start(scheduler: &mut Scheduler, now: Time) -> BTreeMap<String, String> {
    let mut started = BTreeMap::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
        for assignment in plan.assignments() {
            let group = assignment.pod().group.clone().unwrap();
            started.insert(group, assignment.node().to_owned());
        }
        scheduler.handle_bound(ticket, now).unwrap();
    }
    started
}

fn end(scheduler: &mut Scheduler, name: &str, now: Time) {
    scheduler.handle_group_removed(&format!("default/{name}"), now).unwrap();
    scheduler.handle_gone(Gone::deleted("default", &format!("{name}-0")), now).unwrap();
}

fn promised(scheduler: &Scheduler) -> BTreeMap<String, Time> {
    let short =
        |promise: PromiseView| (promise.group.rsplit('/').next().unwrap().into(), promise.at);
    scheduler.promises().into_iter().map(short).collect()
}

#[test]
fn an_early_end_moves_those_up_that_it_makes_room_for() {
    let (mut scheduler, at) = (scheduler(2, framework()), Time::from_secs);
    for name in ["a", "b"] {
        scheduler.handle_group(job(name, 6, 1_000), at(0)).unwrap();
    }
    let running = start(&mut scheduler, at(0));
    // Four GPUs are free, two on a node. The small one runs for longer than the others wait.
    for (name, gpus, secs) in [("whole", 8, 100), ("half", 4, 300), ("small", 2, 5_000)] {
        scheduler.handle_group(job(name, gpus, secs), at(1)).unwrap();
    }
    let small = start(&mut scheduler, at(1));
    assert_eq!(small.keys().collect::<Vec<_>>(), ["small"]);
    let wait = |half| [("half".to_owned(), at(half)), ("whole".to_owned(), at(1_000))].into();
    assert_eq!(promised(&scheduler), wait(1_000));
    // Where the small one is, six GPUs are free then: enough for half, not for the first.
    let (beside, _) = running.iter().find(|(_, node)| **node == small["small"]).unwrap();
    let mut other = scheduler.clone_by_restore();
    end(&mut other, beside, at(10));
    assert_eq!(start(&mut other, at(10)).keys().collect::<Vec<_>>(), ["half"]);
    assert_eq!(promised(&other), [("whole".to_owned(), at(1_000))].into());
    // On the other node, the first has room for itself, and half once that has ended.
    let (alone, _) = running.iter().find(|(_, node)| **node != small["small"]).unwrap();
    end(&mut scheduler, alone, at(10));
    assert_eq!(start(&mut scheduler, at(10)).keys().collect::<Vec<_>>(), ["whole"]);
    assert_eq!(promised(&scheduler), [("half".to_owned(), at(110))].into());
    assert_eq!(scheduler.metrics().promises_broken, 0);
}

/// A restored copy, so that one state can go on in two ways.
trait CloneByRestore {
    fn clone_by_restore(&self) -> Scheduler;
}

impl CloneByRestore for Scheduler {
    fn clone_by_restore(&self) -> Scheduler {
        let text = serde_json::to_string(&self.save()).unwrap();
        let saved = serde_json::from_str(&text).unwrap();
        Scheduler::restore(saved, framework(), phalanx::queue::PriorityThenTime)
    }
}

/// A job that runs or is promised its start.
struct Held {
    node: String,
    gpus: u32,
    from: Time,
    until: Time,
}

/// The first time at which a node has room for so long, one time after the other.
fn by_hand(held: &[Held], nodes: usize, gpus: u32, estimate: Duration, now: Time) -> Time {
    let mut times: Vec<Time> = held.iter().map(|held| held.until).filter(|at| *at > now).collect();
    times.push(now);
    times.sort_unstable();
    let has_room = |node: &str, at: Time| {
        let used = held.iter().filter(|own| own.node == node && own.from <= at && at < own.until);
        used.map(|own| own.gpus).sum::<u32>() + gpus <= 8
    };
    let is_free = |node: &str, from: Time| {
        let begins = held.iter().map(|own| own.from);
        let begins = begins.filter(|at| *at > from && *at < from.after(estimate));
        begins.chain([from]).all(|at| has_room(node, at))
    };
    let names: Vec<String> = (0..nodes).map(|index| format!("n{index:02}")).collect();
    *times.iter().find(|at| names.iter().any(|node| is_free(node, **at))).unwrap()
}

#[test]
fn one_that_arrives_is_promised_the_earliest_start_that_leaves_the_others_as_they_are() {
    let mut later = 0;
    for seed in 0..budget::of(4, 60) {
        let (mut random, nodes) = (Random::new(seed), 5);
        let mut scheduler = scheduler(nodes, framework());
        let mut jobs: BTreeMap<String, (u32, Duration, Duration)> = BTreeMap::new();
        let mut running: BTreeMap<String, (String, Time)> = BTreeMap::new();
        let (mut now, mut number, mut arrival) = (Time::ZERO, 0, Time::from_secs(1));
        while number < 120 || !running.is_empty() || !scheduler.promises().is_empty() {
            let ends = running.iter().map(|(name, (_, since))| (since.after(jobs[name].2), name));
            let first_end = ends.min().map(|(at, name)| (at, name.clone()));
            let wake = scheduler.next_wake().unwrap_or(Time::MAX);
            let next_arrival = if number < 120 { arrival } else { Time::MAX };
            let end_at = first_end.as_ref().map_or(Time::MAX, |(at, _)| *at);
            now = now.max(wake.min(next_arrival).min(end_at));
            let mut arrived = None;
            if let Some((_, name)) = first_end.filter(|(at, _)| *at <= now) {
                running.remove(&name);
                end(&mut scheduler, &name, now);
            } else if next_arrival <= now && wake > now {
                let estimate = Duration::from_secs(random.within(1, 400));
                let run = estimate.mul_f64([1.0, 0.3, 0.7][random.below(3) as usize]);
                let gpus = [1, 1, 2, 3, 4][random.below(5) as usize];
                let name = format!("job-{number}");
                let held = |promise: &PromiseView| {
                    let (gpus, estimate, _) = jobs[promise.group.rsplit('/').next().unwrap()];
                    let node = promise.plan.assignments().next().unwrap().node().to_owned();
                    Held { node, gpus, from: promise.at, until: promise.at.after(estimate) }
                };
                let mut all: Vec<Held> = scheduler.promises().iter().map(held).collect();
                all.extend(running.iter().map(|(name, (node, since))| Held {
                    node: node.clone(),
                    gpus: jobs[name].0,
                    from: Time::ZERO,
                    until: since.after(jobs[name].1),
                }));
                arrived = Some((name.clone(), by_hand(&all, nodes, gpus, estimate, now)));
                scheduler.handle_group(job(&name, gpus, estimate.as_secs()), now).unwrap();
                jobs.insert(name, (gpus, estimate, run));
                number += 1;
                arrival = now.after(Duration::from_millis(random.within(1, 14_000)));
            }
            let started = start(&mut scheduler, now);
            if let Some((name, expected)) = arrived {
                let promise = promised(&scheduler).get(&name).copied();
                let at = promise.unwrap_or(now);
                assert!(promise.is_some() != started.contains_key(&name), "{name}");
                assert_eq!(at, expected, "seed {seed}, {name} at {now:?}");
                later += usize::from(at > now);
            }
            running.extend(started.into_iter().map(|(name, node)| (name, (node, now))));
        }
        assert_eq!(scheduler.metrics().promises_broken, 0, "seed {seed}");
    }
    assert!(later > 50, "{later}");
}

#[test]
fn a_group_that_cannot_move_calls_no_filter() {
    // Four nodes, six GPUs of each in use; what waits needs four.
    let calls = |waiting: usize| {
        let calls = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&calls);
        let counting = filter_fn("counting", Reach::Static, move |_, _| {
            seen.fetch_add(1, Ordering::Relaxed);
            true
        });
        let framework = Framework::builder().filter(Fit).filter(counting).build().unwrap();
        let (mut scheduler, at) = (scheduler(4, framework), Time::from_secs);
        for index in 0..4 {
            scheduler.handle_group(job(&format!("long-{index}"), 6, 1_000), at(0)).unwrap();
        }
        scheduler.handle_group(job("short", 1, 500), at(0)).unwrap();
        assert_eq!(start(&mut scheduler, at(0)).len(), 5);
        for index in 0..waiting {
            scheduler.handle_group(job(&format!("wait-{index}"), 4, 200), at(1)).unwrap();
            assert!(start(&mut scheduler, at(1)).is_empty());
        }
        let before = calls.load(Ordering::Relaxed);
        end(&mut scheduler, "short", at(2));
        assert!(start(&mut scheduler, at(2)).is_empty());
        assert_eq!(scheduler.promises().len(), waiting);
        (before, calls.load(Ordering::Relaxed) - before)
    };
    let (few, many) = (calls(10), calls(60));
    assert!(few.0 > 0);
    assert_eq!((few.1, many.1), (0, 0));
}
