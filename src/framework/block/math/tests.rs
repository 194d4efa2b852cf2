use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn quotients_are_those_of_integers(
        (a, b) in (0..EXACT, 1..EXACT), quotient in 1..1_i64 << 26, by in 1..1_i64 << 25,
    ) {
        prop_assert_eq!(whole(floor(float(a >> 1) / float(b))), (a >> 1) / b);
        // One below a multiple is the hard case.
        for a in [quotient * by - 1, quotient * by, quotient * by + 1] {
            prop_assert_eq!(whole(floor(float(a) / float(by))), a / by);
        }
        prop_assert_eq!(whole(float(a)), a);
        prop_assert_eq!(signed_float(a >> 1), float(a >> 1));
        prop_assert_eq!(signed_float(-(a >> 1)), -float(a >> 1));
    }
}

#[test]
fn a_sign_or_a_large_number_is_told() {
    assert!(all_below(45, &[0, (1 << 45) - 1]));
    assert!(!all_below(45, &[0, 1 << 45]));
    assert!(!all_below(45, &[0, -1]));
}
