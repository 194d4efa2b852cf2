//! The largest of many keys, kept while they change.

use alloc::vec::Vec;

/// Keys under one node of the tree.
const FAN: usize = 16;

/// A tree of maxima over keys by place. A key of 0 stands for nothing.
///
/// Building is one pass; a change costs O(16 · log₁₆ n), finding the largest the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tournament {
    /// The keys, then the maxima of every 16 of the level below, up to at most 16.
    levels: Vec<Vec<u64>>,
}

impl Tournament {
    /// Takes the keys that `fill` appends, in place of those before.
    pub(crate) fn rebuild(&mut self, fill: impl FnOnce(&mut Vec<u64>)) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        self.levels[0].clear();
        fill(&mut self.levels[0]);
        let mut level = 0;
        while self.levels[level].len() > FAN {
            if self.levels.len() == level + 1 {
                self.levels.push(Vec::new());
            }
            let (below, above) = self.levels.split_at_mut(level + 1);
            above[0].clear();
            above[0].extend(below[level].chunks(FAN).map(largest));
            level += 1;
        }
        self.levels.truncate(level + 1);
    }

    /// The key of a place.
    #[inline]
    pub(crate) fn key(&self, place: usize) -> u64 {
        self.levels[0][place]
    }

    /// Gives a place another key.
    #[inline]
    pub(crate) fn set(&mut self, place: usize, key: u64) {
        let mut place = place;
        let mut key = key;
        for level in 0..self.levels.len() {
            let keys = &mut self.levels[level];
            if keys[place] == key {
                return;
            }
            keys[place] = key;
            let first = place / FAN * FAN;
            let end = (first + FAN).min(keys.len());
            key = largest(&keys[first..end]);
            place /= FAN;
        }
    }

    /// The place of the largest key, and the key; `None` if there is none but 0.
    #[inline]
    pub(crate) fn best(&self) -> Option<(usize, u64)> {
        let top = self.levels.last()?;
        let key = largest(top);
        if key == 0 {
            return None;
        }
        let mut place = 0;
        for keys in self.levels.iter().rev() {
            let first = place * FAN;
            let end = (first + FAN).min(keys.len());
            place = first + keys[first..end].iter().position(|&other| other == key)?;
        }
        Some((place, key))
    }
}

#[inline]
fn largest(keys: &[u64]) -> u64 {
    keys.iter().fold(0, |largest, &key| largest.max(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_known_through_every_change() {
        for len in [0_usize, 1, 15, 16, 17, 300, 5_000] {
            let mut state = 12_345_u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                state >> 33
            };
            let mut keys: Vec<u64> = (0..len as u64).map(|i| (next() % 50) << 32 | i).collect();
            let mut tree = Tournament::default();
            tree.rebuild(|out| out.extend(&keys));
            for _ in 0..200 {
                let largest = keys.iter().enumerate().max_by_key(|(_, key)| **key);
                let largest = largest.map(|(place, key)| (place, *key)).filter(|(_, key)| *key > 0);
                assert_eq!(tree.best(), largest);
                if len > 0 {
                    let place = next() as usize % len;
                    let key = if next() % 3 == 0 { 0 } else { (next() % 50) << 32 | place as u64 };
                    keys[place] = key;
                    tree.set(place, key);
                }
            }
        }
    }
}
