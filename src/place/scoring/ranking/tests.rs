use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn extremes_are_those_of_the_values_or_known_to_be_lost(
        added in prop::collection::vec(-3_i64..4, 1..12),
        removed in prop::collection::vec(0_usize..12, 0..12),
    ) {
        let mut extremes = Extremes::NONE;
        let mut values: Vec<i64> = Vec::new();
        for raw in added {
            extremes.add(raw);
            values.push(raw);
        }
        for at in removed {
            let least = values.iter().min().copied().zip(values.iter().max().copied());
            prop_assert_eq!(Some(extremes.ends()), least);
            let raw = values.swap_remove(at % values.len());
            let ends = values.iter().min().copied().zip(values.iter().max().copied());
            // Lost exactly where the last value at an end has gone.
            let kept = ends == Some(extremes.ends());
            prop_assert_eq!(extremes.remove(raw), kept);
            if !kept {
                break;
            }
        }
    }
}
