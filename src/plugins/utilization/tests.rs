use super::*;

#[test]
fn lines_truncate_towards_zero_in_both_directions() {
    let curve = Utilization::new([(10, 0), (40, 10), (70, 0)]).unwrap();
    for (used, score) in [(0, 0), (10, 0), (11, 3), (40, 100), (41, 97), (69, 4), (99, 0)] {
        assert_eq!(curve.at(used), score, "{used}");
    }
}

#[test]
fn unsound_points_are_refused() {
    assert_eq!(Utilization::new([]), Err(UtilizationError::Empty));
    assert_eq!(Utilization::new([(0, 0), (101, 0)]), Err(UtilizationError::OutOfRange(1)));
    assert_eq!(Utilization::new([(0, 11)]), Err(UtilizationError::OutOfRange(0)));
    assert_eq!(Utilization::new([(5, 1), (4, 1)]), Err(UtilizationError::NotRising(1)));
}
