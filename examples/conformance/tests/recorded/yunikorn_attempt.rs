//! Rules of YuniKorn that the recorded cases do not pin: victims are beyond their guarantee, the queue
//! that asks is not, and fences.

use conformance::sessions::yunikorn::{Allocation, Ask, Attempt, NodeInput};
use phalanx::quota::yunikorn::{
    PriorityRule, QueueState, Queues, Resource, YuniKornPreemptionPolicy,
};

fn cpu(amount: i64) -> Resource {
    Resource::from([("cpu".to_string(), amount)])
}

fn queue(path: &str, guaranteed: i64, used: i64) -> QueueState {
    QueueState {
        path: path.into(),
        parent: path.rsplit_once('.').map(|(parent, _)| parent.into()),
        leaf: path.matches('.').count() == 2,
        guaranteed: (guaranteed > 0).then(|| cpu(guaranteed)),
        allocated: Some(cpu(used)),
        ..QueueState::default()
    }
}

/// `root.a.asks` uses nothing and asks for `amount`; `root.a.near` and `root.b.far` use five each, in
/// pods of five, on a full node.
fn attempt(guaranteed: [i64; 3], amount: i64, change: impl Fn(&mut QueueState)) -> Attempt {
    let mut queues = vec![
        queue("root", 0, 10),
        queue("root.a", 0, 5),
        queue("root.b", 0, 5),
        queue("root.a.asks", guaranteed[0], 0),
        queue("root.a.near", guaranteed[1], 5),
        queue("root.b.far", guaranteed[2], 5),
    ];
    queues[0].max = Some(cpu(10));
    queues.iter_mut().for_each(change);
    let pod = |key: &str, queue: &str| Allocation {
        key: key.into(),
        queue: queue.into(),
        resource: cpu(5),
        node: "n".into(),
        known: true,
        ..Allocation::default()
    };
    Attempt {
        queues: Queues::new(queues),
        allocations: vec![pod("near", "root.a.near"), pod("far", "root.b.far")],
        nodes: vec![NodeInput {
            id: "n".into(),
            total: cpu(10),
            occupied: Resource::new(),
            allocations: vec!["near".into(), "far".into()],
        }],
        ask: Ask {
            key: "ask".into(),
            queue: "root.a.asks".into(),
            resource: cpu(amount),
            priority: 0,
        },
        predicates: None,
    }
}

fn victims(attempt: &Attempt) -> Vec<String> {
    attempt.run().map(|outcome| outcome.victims).unwrap_or_default()
}

fn as_they_are(_: &mut QueueState) {}

#[test]
fn only_queues_beyond_their_guarantee_give_up_something() {
    assert_eq!(victims(&attempt([5, 5, 0], 5, as_they_are)), ["far"]);
    assert_eq!(victims(&attempt([5, 0, 5], 5, as_they_are)), ["near"]);
    assert_eq!(victims(&attempt([5, 5, 5], 5, as_they_are)), Vec::<String>::new());
    assert_eq!(victims(&attempt([5, 4, 5], 5, as_they_are)), ["near"], "one beyond is enough");
}

#[test]
fn the_queue_that_asks_stays_within_its_guarantee() {
    assert_eq!(victims(&attempt([5, 0, 5], 5, as_they_are)).len(), 1);
    assert!(victims(&attempt([4, 0, 5], 5, as_they_are)).is_empty());
    assert!(victims(&attempt([0, 0, 0], 5, as_they_are)).is_empty(), "it has none");
}

#[test]
fn nothing_is_taken_beyond_a_fence_or_a_queue_that_is_full() {
    let fence = |queue: &mut QueueState| {
        if queue.path == "root.a" {
            queue.preemption = YuniKornPreemptionPolicy::Fence;
        }
    };
    assert!(victims(&attempt([5, 5, 0], 5, fence)).is_empty(), "the other is outside");
    assert_eq!(victims(&attempt([5, 0, 0], 5, fence)), ["near"]);
    // What is freed elsewhere is of no use to a queue below its maximum.
    let full = |queue: &mut QueueState| {
        if queue.path == "root.a" {
            queue.max = Some(cpu(5));
        }
    };
    assert!(victims(&attempt([5, 5, 0], 5, full)).is_empty());
    assert_eq!(victims(&attempt([5, 0, 0], 5, full)), ["near"]);
}

#[test]
fn a_fence_of_priority_hides_what_is_below_it() {
    // Behind the fence priorities do not count: its offset does.
    let fenced = |offset: i32| {
        let mut attempt = attempt([5, 5, 0], 5, |queue: &mut QueueState| {
            if queue.path == "root.b" {
                queue.priority = PriorityRule { fence: true, offset };
            }
        });
        attempt.allocations[1].priority = 100;
        attempt
    };
    assert_eq!(victims(&fenced(0)), ["far"]);
    assert!(victims(&fenced(1)).is_empty());
    let mut open = attempt([5, 5, 0], 5, as_they_are);
    open.allocations[1].priority = 100;
    assert!(victims(&open).is_empty(), "its priority is higher");
}
