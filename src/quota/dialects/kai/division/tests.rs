use super::*;

fn gpus(name: &str, deserved: i64, request: i64, weight: u64) -> Sibling<'_> {
    Sibling {
        name,
        priority: 0,
        created: 0,
        deserved: deserved * 1000,
        limit: UNLIMITED,
        weight: Weight::new(weight),
        request: request * 1000,
        usage: 0,
        share: 0,
    }
}

const WHOLE: DivisionRules = DivisionRules { unit: 1000, usage_factor: ONE as u64 };

#[test]
fn surplus_is_given_in_whole_devices_and_the_last_to_the_largest_remainder() {
    // 5 by 2 to 1: 3⅓ and 1⅔.
    let parts = [gpus("a", 0, 9, 2), gpus("b", 0, 9, 1)];
    assert_eq!(divide(5000, WHOLE, &parts), (alloc::vec![3000, 2000], 0));
}

#[test]
fn what_is_deserved_is_given_beyond_the_amount() {
    let parts = [gpus("a", 3, 9, 1), gpus("b", 2, 9, 1)];
    assert_eq!(divide(4000, WHOLE, &parts), (alloc::vec![3000, 2000], -1000));
}

#[test]
fn past_usage_takes_from_the_weight() {
    let mut parts = [gpus("a", 0, 9, 1), gpus("b", 0, 9, 1)];
    // ½ + (½ − 1) = 0, and ½ + ½.
    parts[0].usage = ONE as u64;
    assert_eq!(divide(4000, WHOLE, &parts).0, [0, 4000]);
}

#[test]
fn a_queue_that_wants_less_than_its_part_leaves_the_rest_to_others() {
    let parts = [gpus("a", 0, 1, 3), gpus("b", 0, 9, 1), gpus("c", 0, 9, 1)];
    assert_eq!(divide(5000, WHOLE, &parts), (alloc::vec![1000, 2000, 2000], 0));
}

#[test]
fn higher_priorities_have_the_surplus_first_and_what_rounding_leaves_goes_on() {
    let mut parts = [gpus("a", 0, 9, 1), gpus("b", 0, 9, 1), gpus("c", 0, 9, 1)];
    for part in &mut parts[1..] {
        part.priority = 1;
    }
    // 1½ each for the two, of which whole units stay, and the third for the lower priority.
    assert_eq!(divide(3000, WHOLE, &parts).0, [1000, 1000, 1000]);
}

#[test]
fn extremes_are_divided_without_overflow() {
    let mut parts = [gpus("a", 0, 0, 0), gpus("b", 0, 0, 0)];
    for part in &mut parts {
        (part.request, part.weight) = (UNLIMITED, Weight::from_nanos(u64::MAX));
    }
    let (shares, left) = divide(i64::MAX, WHOLE, &parts);
    assert!(shares.iter().all(|share| *share >= i64::MAX / 2 - 1000), "{shares:?}");
    assert!(left >= 0);
}
