use super::*;

#[test]
fn what_is_absent_counts_as_zero() {
    let (one, two) = (Demand::of_amounts([5]), Demand::of_amounts([5, 0, 1]));
    assert!(two.covers(&one) && !one.covers(&two) && one.covers(&Demand::default()));
    let mut sum = one.clone();
    sum.add(&two);
    assert_eq!(sum, Demand::of_amounts([10, 0, 1]));
    sum.subtract(&two);
    assert!(sum.covers(&one) && one.covers(&sum));
    // A need below zero asks for nothing.
    assert!(Demand::default().covers(&Demand::of_amounts([-1])));
}
