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
mod tests;
