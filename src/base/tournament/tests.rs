//! Tests: winner trees.

use super::*;
use crate::base::numbers::numbers;

#[test]
fn the_largest_are_known_through_every_change() {
    for len in [0_usize, 1, 7, 8, 9, 64, 65, 300, 5_000] {
        let mut next = numbers(12_345);
        let mut keys: Vec<u64> = (0..len as u64).map(|i| (next() % 50) << 32 | i).collect();
        let mut tree = Tournament::default();
        tree.rebuild(|out| out.extend(&keys));
        let mut spare = Vec::new();
        for round in 0..200 {
            if round < 20 {
                tree.queries = 0;
            }
            let mut order: Vec<(u64, usize)> =
                keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
            order.retain(|(key, _)| *key > 0);
            order.sort_unstable();
            order.reverse();
            let largest = order.first().map(|(key, place)| (*place, *key));
            assert_eq!(tree.best(), largest);
            let count = 1 + next() as usize % (len + 3);
            let bound = tree.bound_of(count, &mut spare);
            order.truncate(count);
            let mut found = Vec::new();
            tree.visit(bound, |key, place| {
                found.push((key, place));
                bound
            });
            assert!(found.is_sorted_by_key(|(_, place)| *place));
            found.sort_unstable();
            found.reverse();
            assert_eq!(found, order);
            if len == 0 {
                continue;
            }
            let mut change = |place: usize| {
                keys[place] =
                    if next().is_multiple_of(3) { 0 } else { (next() % 50) << 32 | place as u64 };
                (place, keys[place])
            };
            if round % 2 == 0 {
                let (place, key) = change(round * 7_919 % len);
                tree.set(place, key);
            } else {
                let places = (0..len).filter(|place| (place + round) % 13 < 4);
                let changes: Vec<(usize, u64)> = places.map(change).collect();
                tree.set_all(changes.into_iter(), |_, _| ());
            }
        }
    }
}
