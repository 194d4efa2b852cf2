//! Tests: the least count is at hand.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn the_least_count_is_at_hand(
        steps in proptest::collection::vec((any::<bool>(), 0..5_u32), 0..60),
    ) {
        let mut domains = Domains::default();
        let mut counts = alloc::vec![None; 5];
        for (adds, value) in steps {
            let count: &mut Option<i64> = &mut counts[value as usize];
            match (adds, *count) {
                (true, None) => {
                    *count = Some(0);
                    domains.open(LabelValue(value));
                }
                (true, Some(before)) => {
                    *count = Some(before + 1);
                    domains.add(LabelValue(value));
                }
                (false, before) => {
                    *count = before.map(|before| before - 1);
                    domains.subtract(LabelValue(value));
                }
            }
            let least = counts.iter().flatten().min().copied();
            prop_assert_eq!(domains.least(), least.unwrap_or(i64::from(i32::MAX)));
            prop_assert_eq!(domains.len, counts.iter().flatten().count() as i64);
            for (value, count) in (0..).zip(&counts) {
                prop_assert_eq!(domains.of(LabelValue(value)), count.unwrap_or(0));
            }
        }
    }
}
