//! The missing share of a node.

use alloc::vec;

use super::{Left, Need, missing};

#[test]
fn the_missing_share_is_rounded_up_and_nothing_where_all_is_free() {
    let share = |free: i64, empty: i64, amount: i64| {
        let left = Left { free: vec![free], empty: vec![empty] };
        missing(&left, &[Need { of: 0, amount }])
    };
    assert_eq!(share(3, 8, 3), Some(0));
    assert_eq!(share(8, 8, 3), Some(0));
    assert_eq!(share(2, 8, 3), Some(334));
    assert_eq!(share(1, 8, 3), Some(667));
    assert_eq!(share(2, 8, 4), Some(500));
    assert_eq!(share(0, 8, 3), Some(1_000));
    // More than the whole node: never.
    assert_eq!(share(8, 8, 9), None);
}

#[test]
fn the_largest_share_of_all_dimensions_counts() {
    let left = Left { free: vec![3, 1], empty: vec![8, 4] };
    let needs = [Need { of: 0, amount: 4 }, Need { of: 1, amount: 4 }];
    assert_eq!(missing(&left, &needs), Some(750));
    assert_eq!(missing(&left, &needs[..1]), Some(250));
    assert_eq!(missing(&left, &[]), Some(0));
}
