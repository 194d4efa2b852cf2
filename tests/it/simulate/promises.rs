//! Promises: no group starts later than promised while estimates are upper bounds and no room is
//! lost; otherwise another promise is made, and counted.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::queue::{Backfill, Settings};
use phalanx::simulate::{
    Binding, Estimates, Faults, Happening, Random, Results, Simulation, World,
};
use phalanx::{Node, Plan, Scheduler, Time};

use super::world::{GPU, cluster, framework, jobs, node};
use crate::support::budget;

const RULES: [fn() -> Backfill; 3] =
    [Backfill::easy, Backfill::easy_shortest_first, Backfill::conservative];

/// Bindings that take their time, within the limit that estimates allow for.
struct Slow(Random, Duration);

impl World for Slow {
    #[allow(clippy::field_reassign_with_default, reason = "more fields may come")]
    fn bind(&mut self, _: &Plan, _: Time) -> Binding {
        let mut binding = Binding::default();
        binding.after = Duration::from_millis(self.0.below(self.1.as_millis() as u64 + 1));
        binding
    }
}

/// Runs jobs, and checks every promise against the decision that keeps it. Returns the results, the
/// number of promises, and whether one was broken.
fn run(
    settings: Settings,
    seed: u64,
    count: usize,
    estimates: Estimates,
    world: impl World,
) -> (Results, usize, bool) {
    let jobs = jobs(count, 16, estimates, seed);
    let names: Vec<String> = jobs.iter().map(|job| job.group.full_name().to_string()).collect();
    let scheduler = Scheduler::new(cluster(16), framework(), settings);
    let (mut promised, mut made, mut broken) = (BTreeMap::new(), 0, false);
    let simulation = Simulation::new(scheduler, GPU).world(world);
    let results = simulation.run(jobs, |now, happening| match happening {
        Happening::Promised(group, at, later) => {
            made += 1;
            broken |= later;
            promised.insert(group.to_string(), at);
        }
        Happening::Placed(started, _) => {
            for job in started {
                let at = promised.remove(&names[*job]);
                broken |= at.is_some_and(|at| now > at);
            }
        }
        _ => {}
    });
    (results.unwrap(), made, broken)
}

#[test]
fn no_group_starts_later_than_promised() {
    // A job is two events, its arrival and its end.
    // 420 rounds are a million events; they have passed, and take minutes.
    let rounds = budget::of(2, 140);
    let (mut made, mut backfilled) = (0, 0);
    for seed in 0..rounds {
        for (index, rule) in RULES.into_iter().enumerate() {
            let estimates = [Estimates::Exact, Estimates::Over { most: 3_000 }, Estimates::Modal];
            let estimates = estimates[(seed as usize + index) % 3];
            let count = if index == 2 { 150 } else { 500 };
            let longest = Duration::from_secs(if seed % 2 == 0 { 0 } else { 5 });
            let settings = Settings::new().backfill(rule().binding_time(longest));
            let world = Slow(Random::new(seed), longest);
            let (results, promises, broken) = run(settings, seed, count, estimates, world);
            assert!(!broken, "seed {seed}, rule {index}");
            assert_eq!(results.metrics.promises_broken, 0, "seed {seed}, rule {index}");
            assert!(results.jobs.iter().all(|job| job.end.is_some()), "seed {seed}, rule {index}");
            made += promises;
            backfilled += results.metrics.backfilled;
        }
    }
    assert!(made > 50 && backfilled > 50, "{made} promises, {backfilled} passed others");
}

#[test]
fn what_is_lost_is_promised_anew_and_counted() {
    let nodes: Vec<Node> = (0..16).map(node).collect();
    let mut broken = 0;
    for rule in RULES {
        for seed in 0..budget::of(1, 20) {
            let faults = Faults::new(Random::new(seed))
                .binding(Duration::from_secs(3))
                .refused_one_in(20)
                .failures(&nodes, 60, Time::from_secs(40_000), Duration::from_secs(1_200));
            let settings = Settings::new().backfill(rule());
            let (results, _, _) = run(settings, seed, 150, Estimates::Exact, faults);
            assert!(results.jobs.iter().all(|job| job.end.is_some()));
            broken += results.metrics.promises_broken;
            assert!(results.summary().work_lost > 0.0 && results.summary().restarts > 0);
        }
    }
    assert!(broken > 0);
}

#[test]
fn a_job_that_runs_for_longer_than_estimated_breaks_a_promise() {
    let mut jobs = jobs(80, 16, Estimates::Exact, 3);
    for job in &mut jobs {
        job.group.run_time_estimate = Some(job.run_time / 3);
    }
    for rule in RULES {
        let settings = Settings::new().backfill(rule());
        let scheduler = Scheduler::new(cluster(16), framework(), settings);
        let results = Simulation::new(scheduler, GPU).run(jobs.clone(), |_, _| ()).unwrap();
        assert!(results.metrics.promises_broken > 0);
        assert!(results.jobs.iter().all(|job| job.end.is_some()));
        let scheduler = Scheduler::new(cluster(16), framework(), settings_of(rule));
        let killed = Simulation::new(scheduler, GPU).kill_at_estimate(true);
        let killed = killed.run(jobs.clone(), |_, _| ()).unwrap();
        assert_eq!(killed.metrics.promises_broken, 0);
    }
}

fn settings_of(rule: fn() -> Backfill) -> Settings {
    Settings::new().backfill(rule())
}
