//! The workloads of scheduler_perf, small, against the stand-in: every measured pod is bound. And the figure
//! that the benchmark takes of samples.

#[path = "../support/perf.rs"]
mod workloads;

use std::time::Duration;

use serde_json::Value;

use crate::server::RELEASE_1_37;
use crate::world::{SOON, World, node, pod};
use workloads::{WORKLOADS, average};

#[test]
fn every_workload_is_scheduled_whole() {
    for workload in &WORKLOADS {
        let world = World::new(RELEASE_1_37);
        let objects = workload.objects(250, "phalanx");
        for node in objects.nodes {
            world.server.create("nodes", node);
        }
        for group in objects.groups {
            world.server.create("podgroups", group);
        }
        let before = objects.before.len();
        for pod in objects.before {
            world.server.create("pods", pod);
        }
        let measured = objects.measured.len();
        assert!(measured > 0);
        let _scheduler = world.scheduler("profile: kubernetes\npreemption: {}\n");
        world.until_bound(before);
        for pod in objects.measured {
            world.server.create("pods", pod);
        }
        world.server.until(SOON, workload.name, |state| {
            let bound = state.list("pods").filter(|pod| pod["spec"]["nodeName"].is_string());
            let own = bound.filter(|pod| pod["metadata"]["namespace"] == "sched-1");
            own.count() == measured
        });
    }
}

#[test]
fn the_figure_is_the_mean_of_the_samples() {
    assert_eq!(average(&[]), None);
    assert_eq!(average(&[(1.0, 0), (2.0, 10), (3.0, 20)]), None, "one rate is no figure");
    assert_eq!(average(&[(1.0, 10), (2.0, 20), (3.0, 40)]), Some(15.0));
    // Two seconds for 30 pods: two samples of 15 each.
    assert_eq!(average(&[(1.0, 10), (2.0, 10), (3.0, 40), (4.0, 100)]), Some(30.0));
}

#[test]
fn watches_that_end_after_each_event_cost_no_time() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    let _scheduler = world.scheduler("");
    let single = |name: &str| {
        let mut own = pod(name, "");
        own["spec"]["schedulingGroup"] = Value::Null;
        own
    };
    world.server.create("pods", single("first"));
    world.until_bound(1);
    world.server.end_watches_early();
    // A pod is two events and so two watches. Pauses that double would add up to two minutes.
    let limit = Duration::from_secs(30);
    for index in 0..16 {
        world.server.create("pods", single(&format!("next-{index}")));
        world.server.until(limit, "the pod is bound", |state| {
            let bound = state.list("pods").filter(|pod| pod["spec"]["nodeName"].is_string());
            bound.count() == index + 2
        });
    }
}
