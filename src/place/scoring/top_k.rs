//! Sorting offers, and finding the best of them.
//!
//! Offers have few totals, so they are counted by total first. What is left to tell apart are those
//! with the same total, which mostly are in order as they are.

use alloc::vec::Vec;

/// A row for one more pod, and what it is worth: the total in the upper half, then the order of
/// ties.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) worth: u64,
    pub(crate) row: u32,
}

/// Buffers for ranking offers. Offers that are worth the same must be of the same row.
#[derive(Debug, Default)]
pub(crate) struct TopK {
    /// By how far a total is below the highest: how many offers have it, or where they end.
    totals: Vec<u32>,
    sorted: Vec<Slot>,
    spare: Vec<u64>,
}

/// Totals that are counted; where they lie further apart, offers are compared.
const TOTALS: u64 = 1_024;
/// Offers up to which they are compared at once.
const FEW: usize = 128;

fn best_first(a: &Slot, b: &Slot) -> core::cmp::Ordering {
    b.worth.cmp(&a.worth)
}

/// The last of the first `count` members of classes, given how many members each class has. Returns
/// the place of its class, and how many members of that class are among the first. `None` if there
/// are not so many.
pub(crate) fn class_of<'a>(
    classes: impl Iterator<Item = &'a u32>,
    count: usize,
) -> Option<(usize, usize)> {
    let mut left = count;
    for (place, &members) in classes.enumerate() {
        if members as usize >= left {
            return Some((place, left));
        }
        left -= members as usize;
    }
    None
}

/// Sorts offers that mostly are in order, or are few.
fn sort(offers: &mut [Slot]) {
    if offers.len() <= FEW {
        offers.sort_unstable_by(best_first);
    } else if !offers.is_sorted_by(|a, b| a.worth >= b.worth) {
        offers.sort_by(best_first);
    }
}

impl TopK {
    /// Counts offers by total, and gives the highest; `None` if totals lie far apart, or offers are
    /// few.
    fn count(&mut self, offers: &[Slot]) -> Option<u64> {
        if offers.len() <= FEW {
            return None;
        }
        let (mut low, mut high) = (u64::MAX, 0);
        for offer in offers {
            (low, high) = (low.min(offer.worth), high.max(offer.worth));
        }
        let (low, high) = (low >> 32, high >> 32);
        if high.wrapping_sub(low) >= TOTALS {
            return None;
        }
        self.totals.clear();
        self.totals.resize((high - low) as usize + 1, 0);
        for offer in offers {
            self.totals[(high - (offer.worth >> 32)) as usize] += 1;
        }
        Some(high)
    }

    /// Worth of the least of the best so many offers, of which there are more.
    pub(crate) fn least_of(&mut self, offers: &[Slot], count: usize) -> u64 {
        self.spare.clear();
        let mut left = count;
        let high = self.count(offers);
        if let Some((high, (below, own))) = high.zip(class_of(self.totals.iter(), count)) {
            left = own;
            let total = high - below as u64;
            let same = offers.iter().map(|offer| offer.worth).filter(|worth| worth >> 32 == total);
            self.spare.extend(same);
        } else {
            self.spare.extend(offers.iter().map(|offer| offer.worth));
        }
        if left == self.spare.len() {
            return self.spare.iter().copied().min().unwrap_or(0);
        }
        *self.spare.select_nth_unstable_by(left - 1, |a, b| b.cmp(a)).1
    }

    /// Sorts offers, best first, and keeps so many.
    pub(crate) fn sort(&mut self, offers: &mut Vec<Slot>, count: usize) {
        let high = self.count(offers);
        let Some(high) = high.filter(|_| self.totals.len() > 1) else {
            sort(offers);
            offers.truncate(count);
            return;
        };
        let mut end = 0;
        for places in &mut self.totals {
            (*places, end) = (end, end + *places);
        }
        self.sorted.resize(offers.len(), Slot::default());
        for offer in &*offers {
            let place = &mut self.totals[(high - (offer.worth >> 32)) as usize];
            self.sorted[*place as usize] = *offer;
            *place += 1;
        }
        core::mem::swap(offers, &mut self.sorted);
        let mut first = 0;
        for &end in &self.totals {
            let end = end as usize;
            if first >= count {
                break;
            }
            sort(&mut offers[first..end]);
            first = end;
        }
        offers.truncate(count);
    }
}

#[cfg(test)]
mod tests;
