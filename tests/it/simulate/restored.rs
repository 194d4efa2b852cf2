//! A scheduler that is saved and restored in the middle of a day decides as the one that was not.

use phalanx::Scheduler;
use phalanx::queue::{Backfill, PriorityThenTime, SavedScheduler, Settings};
use phalanx::simulate::{Estimates, Record, Simulation};

use super::world::{GPU, cluster, framework, jobs};

#[test]
fn promises_and_the_line_outlast_a_restart() {
    for rule in [Backfill::easy(), Backfill::easy_shortest_first(), Backfill::conservative()] {
        let settings = Settings::new().backfill(rule);
        let first = || Scheduler::new(cluster(16), framework(), settings.clone());
        let mut lines: Vec<Record> = Vec::new();
        let simulation = Simulation::new(first(), GPU).record(|line| lines.push(line.clone()));
        simulation.run(jobs(60, 16, Estimates::Over { most: 2_000 }, 9), |_, _| ()).unwrap();
        let mut scheduler = first();
        for (index, line) in lines.into_iter().enumerate() {
            if index % 7 == 0 {
                let text = serde_json::to_string(&scheduler.save()).unwrap();
                let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
                scheduler = Scheduler::restore(saved, framework(), PriorityThenTime);
                assert_eq!(serde_json::to_string(&scheduler.save()).unwrap(), text);
            }
            match line {
                Record::Input { at, input, .. } => drop(input.apply(&mut scheduler, at)),
                Record::Poll { at, decision } => {
                    assert_eq!(scheduler.poll_decision(at), decision, "line {index}, {rule:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
