use super::*;

#[test]
fn weights_of_zero_come_last_and_are_compared_among_themselves() {
    let share = ShareValue::new;
    assert!(share(1.0, 0.0) > share(1e9, 1e-9));
    assert!(share(2.0, 0.0) > share(1.0, 0.0));
    assert_eq!(share(0.0, 0.0), share(0.0, 5.0));
    assert!(share(300.0, 3.0) < share(150.0, 1.0));
    assert_eq!(share(1.0, 0.0).rounded(), i64::MAX);
    assert_eq!(share(400.1, 2.0).rounded(), 201);
}
