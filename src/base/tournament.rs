//! The largest of many keys, kept while they change.

use alloc::vec::Vec;

/// Keys under one node of the tree.
const FAN: usize = 8;

/// A tree of maxima over keys by place. A key of 0 stands for nothing; others are all different.
///
/// Building is one pass; a change costs O(8 · log₈ n), finding the largest O(1).
#[derive(Debug, Clone, Default)]
pub(crate) struct Tournament {
    /// By place; filled up with zeros to whole nodes, as are the levels.
    keys: Vec<u64>,
    /// The winners of every 8 of the level below; one in the last level.
    levels: Vec<Level>,
}

/// The largest key under each node of the tree, and its place.
#[derive(Debug, Clone, Default)]
struct Level {
    keys: Vec<u64>,
    places: Vec<u32>,
}

impl Tournament {
    /// Takes the keys that `fill` appends, in place of those before.
    pub(crate) fn rebuild(&mut self, fill: impl FnOnce(&mut Vec<u64>)) {
        self.keys.clear();
        fill(&mut self.keys);
        self.keys.resize(self.keys.len().next_multiple_of(FAN), 0);
        let mut count = 0;
        loop {
            if self.levels.len() == count {
                self.levels.push(Level::default());
            }
            let (below, above) = self.levels.split_at_mut(count);
            let above = &mut above[0];
            above.keys.clear();
            above.places.clear();
            let below = match below.last() {
                None => (&self.keys, None),
                Some(below) => (&below.keys, Some(&below.places)),
            };
            let (nodes, _) = below.0.as_chunks::<FAN>();
            for (node, keys) in nodes.iter().enumerate() {
                let (key, at) = largest(keys);
                let child = node * FAN + at;
                above.keys.push(key);
                above.places.push(below.1.map_or(child as u32, |places| places[child]));
            }
            count += 1;
            if nodes.len() <= 1 {
                break;
            }
            let whole = above.keys.len().next_multiple_of(FAN);
            above.keys.resize(whole, 0);
            above.places.resize(whole, 0);
        }
        self.levels.truncate(count);
    }

    /// How many keys are not 0. O(n).
    pub(crate) fn len_above_zero(&self) -> usize {
        self.keys.iter().map(|key| usize::from(*key != 0)).sum()
    }

    /// All keys, and zeros beyond.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The key of a place.
    #[inline]
    pub(crate) fn key(&self, place: usize) -> u64 {
        self.keys[place]
    }

    /// Gives a place another key.
    #[inline]
    pub(crate) fn set(&mut self, place: usize, key: u64) {
        self.keys[place] = key;
        let mut node = place / FAN;
        let (nodes, _) = self.keys.as_chunks::<FAN>();
        let (mut key, at) = largest(&nodes[node]);
        let mut place = (node * FAN + at) as u32;
        let last = self.levels.len() - 1;
        for level in &mut self.levels[..last] {
            if level.keys[node] == key && level.places[node] == place {
                return;
            }
            level.keys[node] = key;
            level.places[node] = place;
            node /= FAN;
            let (nodes, _) = level.keys.as_chunks::<FAN>();
            let (best, at) = largest(&nodes[node]);
            key = best;
            place = level.places[node * FAN + at];
        }
        let top = &mut self.levels[last];
        top.keys[node] = key;
        top.places[node] = place;
    }

    /// The place of the largest key, and the key; `None` if there is none but 0.
    #[inline]
    pub(crate) fn best(&self) -> Option<(usize, u64)> {
        let top = self.levels.last()?;
        let (&key, &place) = (top.keys.first()?, top.places.first()?);
        (key != 0).then_some((place as usize, key))
    }
}

/// The largest of the keys, and where it is: rounds of pairs, without branches.
#[inline]
fn largest(keys: &[u64; FAN]) -> (u64, usize) {
    let pick = |a: (u64, usize), b: (u64, usize)| {
        let larger = b.0 > a.0;
        (if larger { b.0 } else { a.0 }, if larger { b.1 } else { a.1 })
    };
    let two = |at: usize| pick((keys[at], at), (keys[at + 1], at + 1));
    pick(pick(two(0), two(2)), pick(two(4), two(6)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_known_through_every_change() {
        for len in [0_usize, 1, 7, 8, 9, 64, 65, 300, 5_000] {
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
