//! Promises: no group starts later than promised while estimates are upper bounds and no room is
//! lost; otherwise another promise is made, and counted.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::queue::{Backfill, Gone, Settings};
use phalanx::simulate::{
    Binding, Estimates, Faults, Happening, Job, Perfect, Random, Results, Simulation, World,
};
use phalanx::{Decision, Node, Plan, Pod, PodGroup, Scheduler, Time};

use super::world::{GPU, cluster, framework, jobs, mixed_jobs, node};
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
    run_jobs(settings, jobs(count, 16, estimates, seed), world)
}

fn run_jobs(settings: Settings, jobs: Vec<Job>, world: impl World) -> (Results, usize, bool) {
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
    // A soak does as many as have been seen to hold since backfill looks at classes; 420 rounds are a
    // million events.
    let rounds = budget::of(2, 8);
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
fn no_group_starts_later_than_promised_where_jobs_share_nodes() {
    for seed in 0..budget::of(2, 8) {
        for (index, rule) in RULES.into_iter().enumerate() {
            let count = if index == 2 { 100 } else { 300 };
            let jobs = mixed_jobs(count, 16, Estimates::Over { most: 3_000 }, seed);
            let settings = Settings::new().backfill(rule());
            let (results, made, broken) = run_jobs(settings, jobs, Perfect);
            assert!(made > 0 && !broken, "seed {seed}, rule {index}, {made} promises");
            assert_eq!(results.metrics.promises_broken, 0, "seed {seed}, rule {index}");
            assert!(results.jobs.iter().all(|job| job.end.is_some()), "seed {seed}, rule {index}");
        }
    }
}

#[test]
fn a_pass_tries_what_may_fit_and_a_shape_that_was_refused_once() {
    // Sixteen nodes of eight GPUs, each with six in use; 32 GPUs are free, two on a node.
    let scheduler = |waiting: usize| {
        let settings = Settings::new().backfill(Backfill::easy());
        let mut scheduler = Scheduler::new(cluster(16), framework(), settings);
        let gang = |name: String, count: usize, gpus: u32, secs: u64| {
            PodGroup::gang(name, count as u32)
                .pods(count, Pod::new().request(GPU, gpus))
                .run_time_estimate(Duration::from_secs(secs))
        };
        scheduler.handle_group(gang("running".into(), 16, 6, 1_000), Time::ZERO).unwrap();
        scheduler.handle_group(gang("ends".into(), 1, 1, 10), Time::ZERO).unwrap();
        while let Some(decision) = scheduler.poll_decision(Time::ZERO) {
            let Decision::Bind { ticket, .. } = decision else { panic!("{decision:?}") };
            scheduler.handle_bound(ticket, Time::ZERO).unwrap();
        }
        let now = Time::from_secs(1);
        scheduler.handle_group(gang("first".into(), 16, 8, 100), now).unwrap();
        for index in 0..waiting {
            // Room for it in all, and on no node; short enough not to be in the way.
            scheduler.handle_group(gang(format!("wide-{index}"), 1, 4, 100), now).unwrap();
            // Room for it now, in the way of the first.
            scheduler.handle_group(gang(format!("long-{index}"), 1, 2, 5_000), now).unwrap();
        }
        assert_eq!(scheduler.poll_decision(now), None);
        scheduler
    };
    let attempts = |waiting| {
        let mut scheduler = scheduler(waiting);
        let before = scheduler.metrics().attempts;
        let now = Time::from_secs(5);
        scheduler.handle_group_removed("default/ends", now).unwrap();
        scheduler.handle_gone(Gone::deleted("default", "ends-0"), now).unwrap();
        assert_eq!(scheduler.poll_decision(now), None);
        assert_eq!(scheduler.promises().len(), 1);
        scheduler.metrics().attempts - before
    };
    assert!(attempts(1) <= 2, "{}", attempts(1));
    assert_eq!(attempts(200), attempts(1));
}

#[test]
fn what_is_lost_is_promised_anew_and_counted() {
    let nodes: Vec<Node> = (0..16).map(node).collect();
    let mut broken = 0;
    for rule in RULES {
        for seed in 0..budget::of(1, 3) {
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
