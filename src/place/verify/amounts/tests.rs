use alloc::vec::Vec;

use super::*;

#[test]
fn a_range_allows_its_steps_up_to_its_end() {
    let of = |amount: i64| Quantity::from(amount);
    let allowed = |min: Option<i64>, max: Option<i64>, step: Option<i64>| -> Vec<i64> {
        let rule = PolicyRule::Range { min: min.map(of), max: max.map(of), step: step.map(of) };
        (1..=9).filter(|amount| allows(&rule, of(*amount))).collect()
    };
    assert_eq!(allowed(Some(2), Some(8), Some(3)), [2, 5, 8]);
    assert_eq!(allowed(Some(2), None, Some(3)), [2, 5, 8]);
    assert_eq!(allowed(Some(1), Some(6), None), [1, 2, 3, 4, 5, 6]);
    assert_eq!(allowed(None, Some(3), Some(2)), [1, 2, 3]);
    assert_eq!(allowed(None, None, None).len(), 9);
    let values = |values: &[i64]| PolicyRule::Values(values.iter().copied().map(of).collect());
    assert!(allows(&values(&[4, 6]), of(6)) && !allows(&values(&[4, 6]), of(5)));
    assert!(allows(&values(&[]), of(5)) && allows(&PolicyRule::Any, of(5)));
}
