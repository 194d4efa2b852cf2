//! Recordings: the same run again gives the same bytes, and a change is found where it first tells.

use phalanx::plugins::{Fit, LeastAllocated, MostAllocated};
use phalanx::queue::{Backfill, PriorityThenTime, SavedScheduler, Settings};
use phalanx::simulate::{Estimates, Faults, Random, Record, Recorder, Replay, Simulation};
use phalanx::{Framework, Node, Scheduler, Time};
use std::time::Duration;

use super::world::{GPU, cluster, framework, jobs, node};
use crate::support::budget;

/// The state at the beginning of a day, and its lines, as JSON.
fn record(count: usize) -> (String, Vec<String>) {
    let settings = Settings::new().backfill(Backfill::easy());
    let scheduler = Scheduler::new(cluster(16), framework(), settings);
    let state = serde_json::to_string(&scheduler.save()).unwrap();
    let nodes: Vec<Node> = (0..16).map(node).collect();
    let faults = Faults::new(Random::new(5)).binding(Duration::from_secs(2)).refused_one_in(9);
    let faults = faults.failures(&nodes, 20, Time::from_secs(9_000), Duration::from_secs(600));
    let mut lines = Vec::new();
    let simulation = Simulation::new(scheduler, GPU).world(faults);
    let simulation = simulation.record(|line| lines.push(serde_json::to_string(line).unwrap()));
    simulation.run(jobs(count, 16, Estimates::Modal, 7), |_, _| ()).unwrap();
    (state, lines)
}

fn restore(state: &str, framework: Framework) -> Scheduler {
    let saved: SavedScheduler = serde_json::from_str(state).unwrap();
    Scheduler::restore(saved, framework, PriorityThenTime)
}

#[test]
fn a_recorded_day_replays_to_the_same_bytes() {
    // About eight lines a job.
    let (state, lines) = record(budget::of(120, 1_000) as usize);
    let mut again = Vec::new();
    let mut replay = Replay::new(restore(&state, framework()));
    let mut recorder = Recorder::new(restore(&state, framework()), |line: &Record| {
        again.push(serde_json::to_string(line).unwrap());
    });
    for line in &lines {
        let record: Record = serde_json::from_str(line).unwrap();
        replay.step(&record).unwrap_or_else(|difference| panic!("{difference}"));
        match record {
            Record::Input { at, input, .. } => drop(recorder.handle(input, at)),
            Record::Poll { at, .. } => drop(recorder.poll_decision(at)),
            other => panic!("{other:?}"),
        }
    }
    let end = serde_json::to_string(&recorder.scheduler().save()).unwrap();
    assert_eq!(end, serde_json::to_string(&replay.scheduler().save()).unwrap());
    drop(recorder);
    assert_eq!(lines, again);
}

#[test]
fn a_changed_weight_is_found_at_the_first_decision_that_it_changes() {
    let weights = |pack, spread| {
        let builder = Framework::builder().filter(Fit).filter(phalanx::plugins::TaintToleration);
        let builder = builder.score(pack, MostAllocated::of([(GPU, 1)]));
        builder.score(spread, LeastAllocated::of([(GPU, 1)])).build().unwrap()
    };
    // Nodes of eight GPUs and jobs of parts of a node: packing and spreading part at the second.
    let scheduler = Scheduler::new(cluster(4), weights(2, 1), Settings::new());
    let state = serde_json::to_string(&scheduler.save()).unwrap();
    let mut lines = Vec::new();
    let simulation = Simulation::new(scheduler, GPU).record(|line| lines.push(line.clone()));
    let jobs = jobs(20, 4, Estimates::Exact, 1).into_iter().map(|mut job| {
        let pod = phalanx::Pod::new().request(GPU, 2);
        job.group = phalanx::PodGroup::gang(job.group.name.clone(), 1).pods(1, pod);
        job
    });
    simulation.run(jobs, |_, _| ()).unwrap();

    let find = |framework: Framework| {
        let mut replay = Replay::new(restore(&state, framework));
        lines.iter().find_map(|line| replay.step(line).err())
    };
    assert_eq!(find(weights(2, 1)), None);
    assert_eq!(find(weights(4, 2)), None);
    let difference = find(weights(1, 2)).expect("it spreads");
    // It is the first: up to there, a plan is the same under both.
    let (recorded, replayed) = match (&difference.recorded, &difference.replayed) {
        (
            Some(phalanx::Decision::Bind { plan: one, .. }),
            Some(phalanx::Decision::Bind { plan: other, .. }),
        ) => (one.clone(), other.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(recorded.group(), replayed.group());
    assert_ne!(recorded, replayed);
    let choice = difference.choice.as_ref().expect("both place it");
    assert_eq!(choice.recorded.scores.len(), 2);
    assert!(choice.replayed.total > choice.recorded.total);
    assert!(difference.to_string().contains(&choice.replayed.node), "{difference}");
    let earlier = &lines[..difference.line as usize - 1];
    let mut replay = Replay::new(restore(&state, weights(1, 2)));
    assert!(earlier.iter().all(|line| replay.step(line).is_ok()));
}

#[test]
fn another_policy_is_found_at_the_first_group_that_it_holds_back() {
    let (state, lines) = record(60);
    let saved: SavedScheduler = serde_json::from_str(&state).unwrap();
    let other = Settings::new().head_of_line(phalanx::queue::HeadOfLine::StrictFifo);
    let saved = saved.with_settings(other);
    let mut replay = Replay::new(Scheduler::restore(saved, framework(), PriorityThenTime));
    let lines = lines.iter().map(|line| serde_json::from_str::<Record>(line).unwrap());
    let difference =
        lines.map(|line| replay.step(&line)).find_map(Result::err).expect("none passes");
    assert!(difference.recorded.is_some() && difference.replayed.is_none(), "{difference}");
    assert!(difference.explanation.is_some() || difference.choice.is_none());
}
