//! Sharing equal pods out among domains.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Sums and domains beyond this are shared out greedily.
const TABLE: usize = 1 << 22;

/// Fewest domains, and of those choices the one with the least room to spare: how many pods each
/// gets, the roomiest of the chosen filled first. `None` if they do not fit at all.
///
/// Exact, by dynamic programming over sums: 20 from `[19, 10, 10]` is 10 + 10. O(domains · pods).
/// Where that exceeds a few million steps, the roomiest domains are taken, and the last is the
/// smallest that does.
pub(crate) fn fewest(room: &[i64], pods: i64) -> Option<Vec<i64>> {
    let chosen = choose(room, pods, 1)?;
    let mut order: Vec<usize> = (0..room.len()).filter(|&domain| chosen[domain]).collect();
    order.sort_by_key(|&domain| (Reverse(room[domain]), domain));
    let mut shares = vec![0; room.len()];
    let mut left = pods;
    for domain in order {
        shares[domain] = room[domain].min(left);
        left -= shares[domain];
    }
    Some(shares)
}

/// Fewest domains, and pods over them as evenly as can be.
///
/// Among all choices of that many domains it takes one whose smallest share is as large as can be,
/// and of those the one with the least room to spare.
pub(crate) fn balanced(room: &[i64], pods: i64) -> Option<Vec<i64>> {
    let count = choose(room, pods, 1)?.iter().filter(|chosen| **chosen).count() as i64;
    let even = if count == 0 { 1 } else { (pods / count).max(1) };
    let chosen = (1..=even).rev().find_map(|least| {
        let chosen = choose(room, pods, least)?;
        let taken = chosen.iter().filter(|chosen| **chosen).count() as i64;
        (taken == count).then_some(chosen)
    })?;
    let room: Vec<i64> =
        room.iter().zip(&chosen).map(|(room, chosen)| if *chosen { *room } else { 0 }).collect();
    level(&room, pods)
}

/// Over all domains as evenly as there is room: no domain gets a pod that would make it the
/// fullest while another with room has two less.
pub(crate) fn level(room: &[i64], pods: i64) -> Option<Vec<i64>> {
    let total: i64 = room.iter().fold(0, |sum, room| sum.saturating_add(*room));
    if total < pods {
        return None;
    }
    // The lowest level up to which everything must be filled.
    let filled = |level: i64| -> i64 {
        room.iter().fold(0, |sum, room| sum.saturating_add((*room).min(level)))
    };
    let (mut low, mut high) = (0, pods);
    while low < high {
        let middle = low + (high - low) / 2;
        if filled(middle) >= pods { high = middle } else { low = middle + 1 }
    }
    let mut shares: Vec<i64> = room.iter().map(|room| (*room).min((low - 1).max(0))).collect();
    let mut left = pods - shares.iter().sum::<i64>();
    for (share, room) in shares.iter_mut().zip(room) {
        if left > 0 && *room >= low && low > 0 {
            *share += 1;
            left -= 1;
        }
    }
    Some(shares)
}

/// The domains to use: the fewest that hold so many pods, each with room for at least `least`.
/// Among such choices, one with the least room together.
fn choose(room: &[i64], pods: i64, least: i64) -> Option<Vec<bool>> {
    let usable: Vec<usize> =
        (0..room.len()).filter(|&domain| room[domain] >= least.max(1)).collect();
    let total =
        usable.iter().fold(0_i64, |sum, &domain| sum.saturating_add(room[domain].min(pods)));
    if total < pods {
        return None;
    }
    let most = usable.iter().map(|&domain| room[domain].min(pods)).max().unwrap_or(0);
    let width = usize::try_from(pods + most).ok()? + 1;
    let mut chosen = vec![false; room.len()];
    if width.saturating_mul(usable.len()) > TABLE {
        take_roomiest(room, usable, pods, &mut chosen);
        return Some(chosen);
    }
    // For each sum: the fewest domains that make it, and for each domain whether the best way to
    // a sum takes it last.
    let mut count = vec![u32::MAX; width];
    count[0] = 0;
    let mut taken = vec![false; width * usable.len()];
    for (place, &domain) in usable.iter().enumerate() {
        let step = room[domain].min(pods) as usize;
        for sum in (step..width).rev() {
            let before = count[sum - step];
            if before != u32::MAX && before + 1 < count[sum] {
                count[sum] = before + 1;
                taken[place * width + sum] = true;
            }
        }
    }
    let sums = (pods as usize)..width;
    let mut sum =
        sums.filter(|&sum| count[sum] != u32::MAX).min_by_key(|&sum| (count[sum], sum))?;
    for (place, &domain) in usable.iter().enumerate().rev() {
        if taken[place * width + sum] {
            chosen[domain] = true;
            sum -= room[domain].min(pods) as usize;
        }
    }
    Some(chosen)
}

fn take_roomiest(room: &[i64], mut usable: Vec<usize>, pods: i64, chosen: &mut [bool]) {
    usable.sort_by_key(|&domain| (Reverse(room[domain]), domain));
    let mut left = pods;
    for (place, &domain) in usable.iter().enumerate() {
        if room[domain] >= left {
            let rest = &usable[place..];
            let last = rest.iter().rev().find(|&&domain| room[domain] >= left);
            chosen[last.copied().unwrap_or(domain)] = true;
            return;
        }
        chosen[domain] = true;
        left -= room[domain];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn twenty_from_nineteen_ten_ten_is_ten_and_ten() {
        assert_eq!(fewest(&[19, 10, 10], 20), Some(vec![0, 10, 10]));
        assert_eq!(balanced(&[19, 10, 10], 20), Some(vec![0, 10, 10]));
        assert_eq!(level(&[19, 10, 10], 20), Some(vec![7, 7, 6]));
        assert_eq!(fewest(&[3, 3, 2, 1], 7), Some(vec![3, 3, 0, 1]));
        assert_eq!(fewest(&[3, 3], 7), None);
    }

    proptest! {
        #[test]
        fn choices_are_the_best_of_all(room in prop::collection::vec(0_i64..12, 1..7), pods in 1_i64..30) {
            let subsets = (0_u32..1 << room.len()).map(|bits| {
                let of = |domain: &usize| bits >> domain & 1 == 1;
                (0..room.len()).filter(of).collect::<Vec<_>>()
            });
            let sum = |subset: &Vec<usize>| subset.iter().map(|&d| room[d].min(pods)).sum::<i64>();
            let best = subsets.filter(|s| sum(s) >= pods).map(|s| (s.len(), sum(&s))).min();
            let shares = fewest(&room, pods);
            prop_assert_eq!(shares.is_some(), best.is_some());
            if let (Some(shares), Some((count, spare))) = (shares, best) {
                prop_assert_eq!(shares.iter().sum::<i64>(), pods);
                prop_assert!(shares.iter().zip(&room).all(|(share, room)| share <= room));
                let used: Vec<usize> = (0..room.len()).filter(|&d| shares[d] > 0).collect();
                prop_assert_eq!((used.len(), sum(&used)), (count, spare));
                let even = balanced(&room, pods).unwrap();
                prop_assert_eq!(even.iter().filter(|share| **share > 0).count(), count);
            }
            if let Some(shares) = level(&room, pods) {
                prop_assert_eq!(shares.iter().sum::<i64>(), pods);
                let top = shares.iter().max().unwrap();
                for (share, room) in shares.iter().zip(&room) {
                    prop_assert!(share <= room && (share == room || share + 1 >= *top));
                }
            }
        }
    }

    #[test]
    fn large_sums_take_the_roomiest_and_the_smallest_that_ends_it() {
        const M: i64 = 1_000_000;
        let room = [4 * M, 5 * M, M, 3 * M];
        assert_eq!(fewest(&room, 9 * M), Some(vec![4 * M, 5 * M, 0, 0]));
        assert_eq!(fewest(&room, 8 * M), Some(vec![0, 5 * M, 0, 3 * M]));
        assert_eq!(fewest(&room, 3 * M), Some(vec![0, 0, 0, 3 * M]));
        assert_eq!(fewest(&room, 12 * M + 1), Some(vec![4 * M, 5 * M, 1, 3 * M]));
        assert_eq!(fewest(&room, 13 * M + 1), None);
    }
}
