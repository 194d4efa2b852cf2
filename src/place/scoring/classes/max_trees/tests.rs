//! Tests: trees of maxima.

use super::*;
use crate::base::numbers::numbers;
use alloc::vec;

#[test]
fn the_largest_of_each_group_is_known_through_every_change() {
    let mut number = numbers(1);
    let mut next = |sides: usize| number() as usize % sides;
    for lengths in [vec![1; 40], vec![0, 5, 300, 1, 17], vec![5_000], vec![16, 256, 257, 0]] {
        let mut starts = vec![0_u32];
        for length in &lengths {
            starts.push(starts.last().unwrap() + *length as u32);
        }
        let total = *starts.last().unwrap() as usize;
        let mut keys: Vec<u64> = (0..total as u64).map(|at| (at * 7 % 50) << 32 | at).collect();
        let mut forest = MaxTrees::default();
        forest.rebuild(&starts, |out| out.extend(&keys));
        for _ in 0..300 {
            for group in 0..lengths.len() {
                let places = starts[group] as usize..starts[group + 1] as usize;
                let best = places.max_by_key(|&place| keys[place]);
                let best = best.filter(|&place| keys[place] > 0);
                assert_eq!(forest.best(group), best);
                assert_eq!(forest.root(group), best.map_or(0, |place| keys[place]));
            }
            let place = next(total);
            let group = (0..lengths.len())
                .find(|&group| (starts[group]..starts[group + 1]).contains(&(place as u32)));
            let key = if next(3) == 0 { 0 } else { (next(50) as u64) << 32 | place as u64 };
            keys[place] = key;
            if next(10) == 0 {
                forest.refill(group.unwrap(), |place| keys[place]);
            } else {
                forest.set(group.unwrap(), place, key);
            }
        }
    }
}
