use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn sums_are_exact_or_the_largest_number(
        numbers in proptest::collection::vec((-9_i64..=i64::MAX, 0..63), 0..40),
    ) {
        let numbers: std::vec::Vec<i64> =
            numbers.into_iter().map(|(number, shift)| number >> shift).collect();
        let mut sum = Sum::default();
        for number in &numbers {
            sum.add(*number);
        }
        let expected: i128 = numbers.iter().map(|number| i128::from((*number).max(0))).sum();
        prop_assert_eq!(i128::from(sum.total()), expected.min(i128::from(i64::MAX)));
    }
}
