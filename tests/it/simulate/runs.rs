//! A simulation's counts, and its end.

use std::time::Duration;

use phalanx::queue::{Backfill, HeadOfLine, Settings};
use phalanx::simulate::{
    Checkpointing, Estimates, Faults, Happening, Job, NodeChange, Random, Simulation, World,
};
use phalanx::{Node, Pod, PodGroup, Scheduler, Time};

use super::world::{GPU, cluster, framework, jobs, node};

fn gang(name: &str, nodes: u32, estimate: u64) -> PodGroup {
    PodGroup::gang(name, nodes)
        .pods(nodes as usize, Pod::new().request(GPU, 8))
        .run_time_estimate(Duration::from_secs(estimate))
}

fn job(name: &str, submit: u64, nodes: u32, run: u64) -> Job {
    Job::new(gang(name, nodes, run), Time::from_secs(submit), Duration::from_secs(run))
}

fn scheduler(nodes: usize, settings: Settings) -> Scheduler {
    Scheduler::new(cluster(nodes), framework(), settings)
}

#[test]
fn figures_are_those_of_the_definitions() {
    // Two nodes. The first job has one for 100 s, the second both for 50 s, the third one for 10 s.
    let jobs = [job("a", 0, 1, 100), job("b", 10, 2, 50), job("c", 20, 1, 10)];
    let settings = Settings::new().head_of_line(HeadOfLine::StrictFifo);
    let results =
        Simulation::new(scheduler(2, settings), GPU).run(jobs.clone(), |_, _| ()).unwrap();
    let summary = results.summary();
    assert_eq!(summary.makespan, Time::from_secs(160));
    assert_eq!(summary.mean_wait, (90.0 + 130.0) / 3.0);
    assert_eq!(summary.utilisation, (100.0 + 100.0 + 10.0) / 320.0);
    assert_eq!(summary.mean_queue, (90.0 + 130.0) / 160.0);
    assert_eq!((summary.jobs, summary.finished, results.decisions), (3, 3, 3));
    assert_eq!(summary.p99_wait, Duration::from_secs(130));

    let easy = Settings::new().backfill(Backfill::easy());
    let results = Simulation::new(scheduler(2, easy), GPU).run(jobs, |_, _| ()).unwrap();
    let starts: Vec<u64> = results.jobs.iter().map(|job| job.start.unwrap().as_secs()).collect();
    assert_eq!(starts, [0, 100, 20]);
    assert_eq!(results.metrics.backfilled, 1);
}

#[test]
fn a_promise_is_a_place_and_not_only_a_time() {
    // Rack r0 is n00 to n03, rack r1 n04 to n07. Four nodes are free at any time, but a gang of four
    // in one rack has to wait for the job of r0, and nothing long may go to what is free of r0.
    let mut cluster = cluster(8);
    for (name, index) in [("x", 0), ("y", 4), ("z", 5)] {
        let pod = Pod::new().name(name).request(GPU, 8).in_group(name).on(format!("n{index:02}"));
        cluster.add_pod(pod).unwrap();
    }
    let settings = Settings::new().backfill(Backfill::easy());
    let mut scheduler = Scheduler::new(cluster, framework(), settings);
    let now = Time::ZERO;
    for (name, estimate) in [("x", 100), ("y", 500), ("z", 500)] {
        let mut running = PodGroup::gang(name, 1).run_time_estimate(Duration::from_secs(estimate));
        let node =
            scheduler.cluster().pod("default", name).unwrap().node().unwrap().name().to_owned();
        running.pods = vec![Pod::new().name(name).request(GPU, 8).on(node)];
        scheduler.handle_group(running, now).unwrap();
    }
    scheduler.handle_group(gang("wide", 4, 60).require("rack"), now).unwrap();
    assert_eq!(scheduler.poll_decision(now), None);
    let promise = scheduler.promises().remove(0);
    assert_eq!(promise.at, Time::from_secs(100));
    assert!(promise.plan.assignments().all(|assignment| assignment.node() < "n04"));
    // Three nodes of five are promised: two long jobs start, both in the other rack.
    for name in ["l1", "l2", "l3"] {
        scheduler.handle_group(gang(name, 1, 1_000), now).unwrap();
    }
    let mut nodes = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        let phalanx::Decision::Bind { plan, .. } = decision else { panic!("{decision:?}") };
        nodes.extend(plan.assignments().map(|assignment| assignment.node().to_owned()));
    }
    assert_eq!(nodes, ["n06", "n07"]);
    assert_eq!(scheduler.promises().remove(0).at, Time::from_secs(100));
}

#[test]
fn results_are_the_same_whenever_they_are_asked_for() {
    let nodes: Vec<Node> = (0..16).map(node).collect();
    let once = || {
        let faults = Faults::new(Random::new(5)).binding(Duration::from_secs(2)).refused_one_in(9);
        let faults = faults.failures(&nodes, 20, Time::from_secs(9_000), Duration::from_secs(600));
        let settings = Settings::new().backfill(Backfill::easy());
        let simulation = Simulation::new(scheduler(16, settings), GPU).world(faults);
        let mut happened = Vec::new();
        let jobs = jobs(100, 16, Estimates::Modal, 11);
        let results = simulation.run(jobs, |now, what| happened.push(format!("{now} {what:?}")));
        (results.unwrap().jobs, happened)
    };
    assert_eq!(once(), once());
}

#[test]
fn a_job_that_never_fits_does_not_keep_a_simulation_running() {
    for settings in [Settings::new(), Settings::new().backfill(Backfill::conservative())] {
        let jobs = [job("huge", 0, 9, 10), job("small", 1, 1, 10)];
        let results = Simulation::new(scheduler(4, settings), GPU).run(jobs, |_, _| ()).unwrap();
        assert_eq!(results.jobs[0].start, None);
        assert_eq!(results.jobs[1].end, Some(Time::from_secs(11)));
    }
}

#[test]
fn a_name_twice_is_an_error_that_names_it() {
    let jobs = [job("same", 0, 1, 10), job("same", 1, 1, 10)];
    let error =
        Simulation::new(scheduler(4, Settings::new()), GPU).run(jobs, |_, _| ()).unwrap_err();
    assert_eq!(error.job, "default/same");
}

/// A node that fails at 30 s and is repaired at 50 s.
struct OneFault(Vec<(Time, NodeChange)>);

impl World for OneFault {
    fn next_node_change(&mut self) -> Option<(Time, NodeChange)> {
        self.0.pop()
    }
}

#[test]
fn a_job_that_loses_its_node_begins_anew_and_what_it_did_is_lost() {
    let changes = vec![
        (Time::from_secs(50), NodeChange::Up(node(0))),
        (Time::from_secs(30), NodeChange::Down("n00".into())),
    ];
    let simulation = Simulation::new(scheduler(1, Settings::new()), GPU).world(OneFault(changes));
    let mut lost = Vec::new();
    let results = simulation.run([job("a", 0, 1, 100)], |_, what| {
        if let Happening::Lost(job, span) = what {
            lost.push((job, span));
        }
    });
    let results = results.unwrap();
    let record = &results.jobs[0];
    assert_eq!(lost, [(0, Duration::from_secs(30))]);
    assert_eq!((record.first_start, record.start), (Some(Time::ZERO), Some(Time::from_secs(50))));
    assert_eq!((record.end, record.restarts), (Some(Time::from_secs(150)), 1));
    assert_eq!(results.summary().work_lost, 8.0 * 30.0);
    // The node was there for 130 of 150 seconds.
    assert_eq!(results.summary().utilisation, 100.0 / 130.0);
}

/// A job that works at the end of time had its next moment there, again and again.
#[test]
fn a_job_that_works_for_longer_than_time_lasts_has_no_end() {
    let checkpoint = Checkpointing::new(
        Duration::from_secs(1 << 33),
        Duration::from_secs(1),
        Duration::from_secs(1),
    );
    for saves in [false, true] {
        let mut long = job("a", 0, 1, 1);
        long.run_time = Duration::MAX;
        if saves {
            long = long.checkpoint(checkpoint);
        }
        let mut short = job("b", 0, 1, 10);
        short.group.priority = -1;
        let results =
            Simulation::new(scheduler(1, Settings::new()), GPU).run([long, short], |_, _| ());
        let ends: Vec<_> = results.unwrap().jobs.iter().map(|job| (job.start, job.end)).collect();
        assert_eq!(ends, [(Some(Time::ZERO), None), (None, None)], "{saves}");
    }
}
