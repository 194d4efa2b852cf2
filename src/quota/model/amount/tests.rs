use super::*;

#[test]
fn the_unlimited_absorbs_and_others_saturate() {
    assert_eq!(plus(UNLIMITED, -5), UNLIMITED);
    assert_eq!(plus(-5, UNLIMITED), UNLIMITED);
    assert_eq!(plus(i64::MAX - 1, 3), UNLIMITED);
    assert_eq!(plus(i64::MIN, -1), i64::MIN);
    assert_eq!(minus(UNLIMITED, 7), UNLIMITED);
    assert_eq!(minus(UNLIMITED, UNLIMITED), 0);
    assert_eq!(minus(7, UNLIMITED), i64::MIN);
    assert_eq!(minus(i64::MIN, 7), i64::MIN);
    assert_eq!(minus(7, 5), 2);
}
