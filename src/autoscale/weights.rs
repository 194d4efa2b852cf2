//! Weights of groups that must each be within one domain: an upper bound on the groups that a
//! domain holds.
//!
//! Where a domain holds 8, groups of 5 and of 4 do not go together, though 5 and 3 would. A group
//! that leaves less than 4 counts for all of a domain, and smaller ones than 4 for nothing. Any
//! weights prove a bound, as the capacity of a domain is counted for its own free resources.
//!
//! Source of the weights: the first family of dual feasible functions in Fekete and Schepers, "New
//! classes of fast lower bounds for bin packing problems", 2001.

use alloc::vec::Vec;

/// Sizes, and groups in one domain, up to which packings are tried one by one.
const MOST: usize = 6;

/// Groups of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Item {
    size: i64,
    weight: i64,
    count: i64,
}

/// The weights of groups by their sizes.
#[derive(Debug)]
pub(super) struct Weights {
    /// The largest first; those without weight are left out.
    items: Vec<Item>,
}

impl Weights {
    /// The weights of sizes above 0: of those that leave less than `least` of a whole domain, the
    /// whole; of those smaller than `least`, nothing; of others, their size.
    pub(super) fn new(sizes: &[i64], whole: i64, least: i64) -> Weights {
        let mut sizes: Vec<i64> = sizes.iter().copied().filter(|size| *size >= least).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let weight = |size| if size > whole - least { whole } else { size };
        let item = |equal: &[i64]| Item {
            size: equal[0],
            weight: weight(equal[0]),
            count: equal.len() as i64,
        };
        Weights { items: sizes.chunk_by(|a, b| a == b).map(item).collect() }
    }

    /// The weight of all.
    pub(super) fn total(&self) -> i64 {
        let each = self.items.iter().map(|item| item.weight.saturating_mul(item.count));
        each.fold(0, i64::saturating_add)
    }

    /// The most that a domain with some room holds.
    pub(super) fn most(&self, room: i64) -> i64 {
        let Some(last) = self.items.last() else { return 0 };
        if self.items.len() > MOST || room / last.size > MOST as i64 {
            return self.in_parts(room);
        }
        most(&self.items, room)
    }

    /// The most that some room holds in which groups may be cut.
    pub(super) fn in_parts(&self, room: i64) -> i64 {
        let part = |item: &Item| {
            let size = i128::from(item.size);
            (i128::from(room) * i128::from(item.weight) + size - 1) / size
        };
        let most = self.items.iter().map(part).max().unwrap_or(0);
        i64::try_from(most).unwrap_or(i64::MAX)
    }
}

fn most(items: &[Item], room: i64) -> i64 {
    let [first, rest @ ..] = items else { return 0 };
    let fit = (room / first.size).min(first.count);
    let with = |count: i64| {
        let more = most(rest, room - count * first.size);
        first.weight.saturating_mul(count).saturating_add(more)
    };
    (0..=fit).map(with).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
