use super::*;

fn tree(queues: &[(&str, Option<usize>, i64, i64)]) -> QueueShares {
    let mut tree = QueueShares::new(alloc::vec![8000], alloc::vec![1000]);
    for (created, &(name, parent, deserved, held)) in queues.iter().enumerate() {
        let own = ResourceShare {
            deserved: deserved * 1000,
            weight: Weight::ONE,
            request: 8000,
            allocated: held * 1000,
            ..ResourceShare::default()
        };
        tree.queues.push(QueueShare {
            name: name.into(),
            parent,
            priority: 0,
            created: created as u64,
            resources: alloc::vec![own],
        });
    }
    tree.divide();
    tree
}

fn gpus(amount: i64) -> KaiQuantities {
    [amount * 1000].into_iter().collect()
}

#[test]
fn a_level_divides_what_is_fair_for_the_queue_above() {
    let tree =
        tree(&[("a", None, 2, 0), ("b", None, 4, 0), ("a1", Some(0), 0, 0), ("a2", Some(0), 1, 0)]);
    let fair: Vec<i64> = (0..4).map(|at| tree.share(at, 0).fair_share / 1000).collect();
    // 2 + 1 and 4 + 1 of 8; then 0 + 1 and 1 + 1 of 3.
    assert_eq!(fair, [3, 5, 1, 2]);
}

#[test]
fn more_than_is_fair_is_taken_back_and_no_more() {
    let tree = tree(&[("a", None, 2, 0), ("b", None, 2, 8)]);
    let reclaimer = |amount| Reclaimer { queue: 0, request: gpus(amount), preemptible: true };
    assert!(tree.may_reclaim(&reclaimer(4)) && !tree.may_reclaim(&reclaimer(5)));
    let ones = |count: usize| alloc::vec![(1, gpus(1)); count];
    assert!(tree.allows_victims(&reclaimer(4), &ones(4)));
    assert!(!tree.allows_victims(&reclaimer(4), &ones(5)), "the fifth is within its share");
    // The last victim may be larger than what is beyond.
    assert!(tree.allows_victims(&reclaimer(4), &[(1, gpus(3)), (1, gpus(3))]));
}

#[test]
fn what_is_deserved_is_taken_from_those_beyond_theirs() {
    let mut tree = tree(&[("a", None, 4, 1), ("b", None, 2, 4)]);
    // `b` holds what is fair, and more than it deserves.
    tree.queues[1].resources[0].fair_share = 4000;
    let reclaimer = Reclaimer { queue: 0, request: gpus(2), preemptible: true };
    assert!(tree.allows_victims(&reclaimer, &[(1, gpus(2))]));
    let more = Reclaimer { request: gpus(4), ..reclaimer };
    assert!(!tree.allows_victims(&more, &[(1, gpus(2))]));
}

#[test]
fn limits_and_quota_of_queues_above_bind() {
    let mut tree = tree(&[("a", None, 2, 0), ("a1", Some(0), 8, 0)]);
    assert_eq!(tree.fits(1, &gpus(3), true), Ok(()));
    let over = OverCapacity::Quota { queue: 0, resource: 0 };
    assert_eq!(tree.fits(1, &gpus(3), false), Err(over));
    tree.queues[0].resources[0].limit = 2000;
    let over = OverCapacity::Limit { queue: 0, resource: 0 };
    assert_eq!(tree.fits(1, &gpus(3), true), Err(over));
}

#[test]
fn the_queue_with_the_smaller_dominant_share_goes_first() {
    let tree = tree(&[("a", None, 0, 2), ("b", None, 0, 1)]);
    let side = |queue, request| Contender { queue, request: gpus(request), ..Default::default() };
    assert_eq!(tree.compare(&side(0, 1), &side(1, 1)), Ordering::Greater);
    assert_eq!(tree.compare(&side(0, 1), &side(1, 3)), Ordering::Less);
    // Equal with the request: the smaller without it.
    assert_eq!(tree.compare(&side(0, 1), &side(1, 2)), Ordering::Greater);
}

#[test]
fn ratios_compare_as_their_quotients_and_those_without_bound_are_largest() {
    let ratio = |over: u128, under: u128| Ratio { over, under };
    for (a, b) in (0..7).flat_map(|a| (0..7).map(move |b| (a, b))) {
        for (c, d) in (0..7).flat_map(|c| (0..7).map(move |d| (c, d))) {
            let expected = match (b, d) {
                (0, 0) => Ordering::Equal,
                (0, _) => Ordering::Greater,
                (_, 0) => Ordering::Less,
                _ => (a * d).cmp(&(c * b)),
            };
            assert_eq!(ratio(a, b).compare(ratio(c, d)), expected, "{a}/{b} {c}/{d}");
        }
    }
}
