use super::*;

fn queue(name: &str, used: i64, priority: i32) -> QueueStanding {
    let of = |amount| Some(Resource::from([("cpu".into(), amount)]));
    QueueStanding {
        name: name.into(),
        allocated: of(used),
        guaranteed: of(100),
        priority,
        ..QueueStanding::default()
    }
}

#[test]
fn the_smaller_share_goes_first_unless_priority_does() {
    let (low, high) = (queue("low", 10, 0), queue("high", 50, 5));
    let fair = SortPolicy { fair: true, by_priority: false };
    assert_eq!(fair.compare_queues((&low, None), (&high, None)), Ordering::Less);
    let ranked = SortPolicy { fair: true, by_priority: true };
    assert_eq!(ranked.compare_queues((&low, None), (&high, None)), Ordering::Greater);
    let fifo = SortPolicy::default();
    assert_eq!(fifo.compare_queues((&low, None), (&high, None)), Ordering::Equal);
}
