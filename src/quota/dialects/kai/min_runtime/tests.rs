use super::*;

#[test]
fn the_minimum_is_that_of_the_side_that_gives() {
    let queue = |name: &str, parent, reclaim: Option<u64>| RuntimeQueue {
        name: name.into(),
        parent,
        preempt: None,
        reclaim: reclaim.map(Duration::from_secs),
    };
    let mut runtime = MinRuntime {
        queues: alloc::vec![
            queue("dev", None, Some(10)),
            queue("one", Some(0), None),
            queue("two", Some(0), Some(3)),
            queue("prod", None, None),
            queue("three", Some(3), Some(7)),
        ],
        default_reclaim: Duration::from_secs(1),
        ..MinRuntime::default()
    };
    let seconds = |runtime: &MinRuntime, a, b| runtime.before_reclaim(a, b).as_secs();
    assert_eq!(seconds(&runtime, 1, 2), 3);
    assert_eq!(seconds(&runtime, 2, 1), 10);
    assert_eq!(seconds(&runtime, 4, 2), 10);
    assert_eq!(seconds(&runtime, 1, 4), 1, "the top queue alone counts");
    runtime.method = ReclaimMethod::Queue;
    assert_eq!(seconds(&runtime, 1, 4), 7);
    assert_eq!(seconds(&runtime, 4, 2), 3);
}
