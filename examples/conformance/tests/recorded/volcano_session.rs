//! Rules of Volcano that the recorded cases do not pin: a gang's floor, the filter by priority, and the
//! order of `hdrf`.

use std::collections::BTreeMap;

use conformance::sessions::volcano::{
    Action, Configuration, JobInput, NodeInput, Phase, Plugin, QueueInput, SessionInput,
    SessionOutcome, TaskInput, TaskStatus, TierPlugin, Vote, session,
};
use phalanx::quota::volcano::Resources;
use phalanx::{Node, Pod};

const GIB: i64 = 1 << 30;

fn node(cpu: i64, memory: i64) -> NodeInput {
    let node = Node::new("n")
        .capacity("cpu", cpu * 1000)
        .capacity("memory", memory * GIB)
        .capacity("pods", 110);
    let amounts = Resources::new(cpu as f64 * 1000.0, (memory * GIB) as f64).scalar("pods", 110.0);
    NodeInput { node, allocatable: amounts }
}

fn queue(name: &str) -> QueueInput {
    let (name, reclaimable, open) = (name.into(), true, true);
    QueueInput { name, weight: 1.0, reclaimable, open, ..QueueInput::default() }
}

fn job(name: &str, queue: &str, least: i32, priority: i32) -> JobInput {
    JobInput {
        name: name.into(),
        queue: queue.into(),
        min_member: least,
        min_task_member: BTreeMap::new(),
        min_resources: None,
        priority,
        phase: Phase::Inqueue,
    }
}

fn pod(name: String, cpu: i64, memory: i64) -> Pod {
    let mut pod = Pod::new();
    for (resource, amount) in [("cpu", cpu * 1000), ("memory", memory * GIB)] {
        if amount > 0 {
            pod = pod.request(resource, amount);
        }
    }
    pod.name = name;
    pod
}

/// Tasks of a job, so many CPUs and GiB each; on the node if they run.
fn tasks(job: &JobInput, count: usize, cpu: i64, memory: i64, runs: bool) -> Vec<TaskInput> {
    let task = |at| TaskInput {
        pod: pod(format!("{}-{at}", job.name), cpu, memory),
        job: job.name.clone(),
        requests: Resources::new(cpu as f64 * 1000.0, (memory * GIB) as f64).scalar("pods", 1.0),
        priority: job.priority,
        node: runs.then(|| "n".into()),
        status: if runs { TaskStatus::Running } else { TaskStatus::Pending },
        role: String::new(),
        preemptable: true,
        never_preempts: false,
        critical: false,
    };
    (0..count).map(task).collect()
}

fn tier(plugins: &[(Plugin, &[Vote])]) -> Vec<TierPlugin> {
    let plugin = |(plugin, votes): &(Plugin, &[Vote])| TierPlugin {
        plugin: *plugin,
        votes: votes.iter().copied().collect(),
    };
    plugins.iter().map(plugin).collect()
}

/// A job of lower priority runs on the whole node; one of higher priority wants so many of its tasks'
/// places.
fn preempt(
    floor: i32,
    priorities: [i32; 2],
    wants: usize,
    voters: Vec<TierPlugin>,
) -> SessionOutcome {
    let low = job("low", "q", floor, priorities[0]);
    let high = job("high", "q", wants as i32, priorities[1]);
    let mut all = tasks(&low, 3, 1, 1, true);
    all.extend(tasks(&high, wants, 1, 1, false));
    let configuration = Configuration {
        tiers: vec![voters],
        actions: vec![Action::Preempt],
        ..Configuration::default()
    };
    session(SessionInput {
        configuration,
        nodes: vec![node(3, 3)],
        queues: vec![queue("q")],
        jobs: vec![low, high],
        tasks: all,
    })
    .expect("sound")
}

const GANG: (Plugin, &[Vote]) = (
    Plugin::Gang,
    &[Vote::JobReady, Vote::JobPipelined, Vote::JobStarving, Vote::Preemptable, Vote::Reclaimable],
);
const PRIORITY: (Plugin, &[Vote]) =
    (Plugin::Priority, &[Vote::JobOrder, Vote::TaskOrder, Vote::Preemptable, Vote::JobStarving]);

#[test]
fn a_gang_gives_up_no_more_than_what_it_has_beyond_its_floor() {
    let voters = || tier(&[GANG, PRIORITY]);
    assert_eq!(preempt(2, [1, 10], 1, voters()).evicted.len(), 1);
    let none = preempt(2, [1, 10], 2, voters());
    assert!(none.evicted.is_empty(), "two would leave it one of two: {none:?}");
    assert_eq!(preempt(1, [1, 10], 2, voters()).evicted.len(), 2);
    // Without the voter there is no floor.
    let without = tier(&[(Plugin::Gang, &GANG.1[..3]), PRIORITY]);
    assert_eq!(preempt(2, [1, 10], 2, without).evicted.len(), 2);
}

#[test]
fn jobs_of_the_same_priority_are_not_taken_from() {
    let voters = || tier(&[GANG, PRIORITY]);
    assert!(preempt(1, [10, 10], 1, voters()).evicted.is_empty());
    assert!(preempt(1, [10, 1], 1, voters()).evicted.is_empty());
}

#[test]
fn shares_below_a_queue_are_rescaled_before_it_is_compared() {
    let in_tree = |name: &str, path: &str, weights: &str| QueueInput {
        hierarchy: path.into(),
        hierarchy_weights: weights.into(),
        ..queue(name)
    };
    let jobs = [job("pg1", "sci", 0, 0), job("pg21", "dev", 0, 0), job("pg22", "prod", 0, 0)];
    // The one wants both, and each of the two others one of both.
    let mut all = tasks(&jobs[0], 10, 1, 1, false);
    all.extend(tasks(&jobs[1], 10, 1, 0, false));
    all.extend(tasks(&jobs[2], 10, 0, 1, false));
    let drf: (Plugin, &[Vote]) =
        (Plugin::Drf, &[Vote::Hierarchy, Vote::JobOrder, Vote::QueueOrder]);
    let configuration = Configuration {
        tiers: vec![tier(&[drf, (Plugin::Predicates, &[Vote::Predicate])])],
        actions: vec![Action::Allocate],
        ..Configuration::default()
    };
    let outcome = session(SessionInput {
        configuration,
        nodes: vec![node(10, 10)],
        queues: vec![
            in_tree("sci", "root/sci", "100/50"),
            in_tree("dev", "root/eng/dev", "100/50/50"),
            in_tree("prod", "root/eng/prod", "100/50/50"),
        ],
        jobs: jobs.to_vec(),
        tasks: all,
    })
    .expect("sound");
    for job in ["pg1-", "pg21-", "pg22-"] {
        let bound = outcome.bound.keys().filter(|task| task.contains(job)).count();
        assert_eq!(bound, 5, "{job} {:?}", outcome.bound);
    }
}
