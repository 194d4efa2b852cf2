//! Tests: offers in order.

use super::*;
use crate::base::numbers::numbers;

#[test]
fn offers_are_ranked_as_if_compared() {
    let mut number = numbers(7);
    let mut next = |below: u64| number() % below;
    let mut ranks = TopK::default();
    for totals in [1, 2, 40, 1_000, 1_000_000] {
        for len in [1, 2, 30, 700] {
            let offer = |row| Slot { worth: 0, row };
            let mut offers: Vec<Slot> = (0..len).map(|_| offer(next(50) as u32)).collect();
            for offer in &mut offers {
                offer.worth = (1 + next(totals)) << 32 | u64::from(offer.row);
            }
            let mut expected = offers.clone();
            expected.sort_by(best_first);
            for count in [1, len / 2 + 1, len] {
                let count = count as usize;
                assert_eq!(ranks.least_of(&offers, count), expected[count - 1].worth);
                let mut sorted = offers.clone();
                ranks.sort(&mut sorted, count);
                assert_eq!(sorted, expected[..count]);
            }
        }
    }
}
