//! Trees of maxima: the largest key of each of many groups.

use alloc::vec::Vec;

/// Keys under one node of a tree.
const FAN: usize = 16;

/// A tree of maxima over the keys of each group: places are numbered group by group. A key of 0 is
/// an empty place.
///
/// Building is one pass; a change costs O(16 · log₁₆ of the group).
#[derive(Debug, Clone, Default)]
pub(crate) struct MaxTrees {
    levels: Vec<Level>,
}

#[derive(Debug, Clone, Default)]
struct Level {
    keys: Vec<u64>,
    /// Where each group starts, and the end of the last. A group that has its root below has
    /// nothing here.
    starts: Vec<u32>,
}

impl Level {
    #[inline]
    fn group(&self, group: usize) -> (usize, usize) {
        (self.starts[group] as usize, self.starts[group + 1] as usize)
    }
}

impl MaxTrees {
    /// Starts over with groups and their keys.
    pub(crate) fn rebuild(&mut self, starts: &[u32], fill: impl FnOnce(&mut Vec<u64>)) {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let base = &mut self.levels[0];
        base.starts.clear();
        base.starts.extend_from_slice(starts);
        base.keys.clear();
        fill(&mut base.keys);
        let groups = starts.len() - 1;
        let mut level = 0;
        while (0..groups).any(|group| {
            let (start, end) = self.levels[level].group(group);
            end - start > 1
        }) {
            if self.levels.len() == level + 1 {
                self.levels.push(Level::default());
            }
            let (below, above) = self.levels.split_at_mut(level + 1);
            let (below, above) = (&below[level], &mut above[0]);
            above.keys.clear();
            above.starts.clear();
            above.starts.push(0);
            for group in 0..groups {
                let (start, end) = below.group(group);
                if end - start > 1 {
                    above.keys.extend(below.keys[start..end].chunks(FAN).map(largest));
                }
                above.starts.push(above.keys.len() as u32);
            }
            level += 1;
        }
        self.levels.truncate(level + 1);
    }

    /// Gives all places of a group other keys.
    pub(crate) fn refill(&mut self, group: usize, key_of: impl Fn(usize) -> u64) {
        let (start, end) = self.levels[0].group(group);
        for place in start..end {
            self.levels[0].keys[place] = key_of(place);
        }
        for level in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(level);
            let (below, above) = (&below[level - 1], &mut above[0]);
            let (start, end) = below.group(group);
            let (to, stop) = above.group(group);
            let maxima = below.keys[start..end].chunks(FAN).map(largest);
            above.keys[to..stop].iter_mut().zip(maxima).for_each(|(key, max)| *key = max);
        }
    }

    /// Gives a place of a group another key.
    #[inline]
    pub(crate) fn set(&mut self, group: usize, place: usize, key: u64) {
        let mut at = place - self.levels[0].starts[group] as usize;
        let mut key = key;
        for level in &mut self.levels {
            let (start, end) = level.group(group);
            if start == end || level.keys[start + at] == key {
                return;
            }
            level.keys[start + at] = key;
            let first = start + at / FAN * FAN;
            key = largest(&level.keys[first..(first + FAN).min(end)]);
            at /= FAN;
        }
    }

    /// The key of a place.
    #[inline]
    pub(crate) fn key(&self, place: usize) -> u64 {
        self.levels[0].keys[place]
    }

    /// The keys of a group.
    pub(crate) fn keys(&self, group: usize) -> &[u64] {
        let (start, end) = self.levels[0].group(group);
        &self.levels[0].keys[start..end]
    }

    /// The largest key of a group.
    #[inline]
    pub(crate) fn root(&self, group: usize) -> u64 {
        for level in &self.levels {
            let (start, end) = level.group(group);
            if end <= start + 1 {
                return level.keys[start..end].first().copied().unwrap_or(0);
            }
        }
        0
    }

    /// The place of the largest key of a group, if it is not 0.
    pub(crate) fn best(&self, group: usize) -> Option<usize> {
        let key = self.root(group);
        if key == 0 {
            return None;
        }
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let (start, end) = level.group(group);
            if start == end {
                continue;
            }
            let first = start + at * FAN;
            let last = if end - start == 1 { end } else { (first + FAN).min(end) };
            at = first - start + level.keys[first..last].iter().position(|&other| other == key)?;
        }
        Some(self.levels[0].starts[group] as usize + at)
    }
}

#[inline]
fn largest(keys: &[u64]) -> u64 {
    keys.iter().fold(0, |largest, &key| largest.max(key))
}

#[cfg(test)]
mod tests;
