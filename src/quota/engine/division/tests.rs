use super::*;

type Divide = fn(i64, &[Part<'_>]) -> Vec<i64>;
use crate::base::numbers::numbers;

fn part(name: &str, wants: i64, weight: u64) -> Part<'_> {
    Part::new(name, wants, Weight::new(weight))
}

#[test]
fn remainders_go_to_the_largest_then_by_name() {
    let parts = [part("c", 9, 1), part("a", 9, 1), part("b", 9, 1)];
    assert_eq!(largest_remainder(8, &parts), [2, 3, 3]);
    assert_eq!(water_filling(8, &parts).iter().sum::<i64>(), 8);
    let parts = [part("a", 9, 3), part("b", 1, 3), part("c", 9, 0)];
    assert_eq!(largest_remainder(10, &parts), [9, 1, 0]);
}

/// The promises of all divisions, for random parts.
#[test]
fn divisions_keep_their_promises() {
    let mut next = numbers(42);
    let names = ["a", "b", "c", "d", "e"];
    for _ in 0..2_000 {
        let count = 1 + next() as usize % names.len();
        let parts: Vec<Part<'_>> = (0..count)
            .map(|at| Part {
                name: names[at],
                floor: (next() % 5) as i64,
                wants: (next() % 20) as i64,
                weight: Weight::new(next() % 4),
            })
            .collect();
        let total = (next() % 40) as i64;
        let all: [Divide; 2] = [largest_remainder, water_filling];
        for (number, divide) in all.into_iter().enumerate() {
            let shares = divide(total, &parts);
            let floors: i64 = parts.iter().map(Part::granted).sum();
            let sum: i64 = shares.iter().sum();
            assert!(sum <= total.max(floors), "{parts:?} {shares:?}");
            for (share, part) in shares.iter().zip(&parts) {
                assert!((part.granted()..=part.wants.max(0)).contains(share));
            }
            let unmet = shares
                .iter()
                .zip(&parts)
                .any(|(share, part)| *share < part.wants && part.weight > Weight::ZERO);
            if unmet && number != 1 {
                assert!(sum >= total, "{number}: {total} {parts:?} {shares:?}");
            }
            let reversed: Vec<Part<'_>> = parts.iter().rev().copied().collect();
            let mut again = divide(total, &reversed);
            again.reverse();
            assert_eq!(shares, again, "{number}: {total} {parts:?}");
        }
    }
}
