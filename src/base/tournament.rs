//! A winner tree: the largest of many keys, while keys change.

use alloc::vec::Vec;

use super::simd::vectorized;

/// Keys under one node of the tree.
const FAN: usize = 8;

/// A tree of maxima over keys by place. A key of 0 is an empty place; all others are different.
///
/// The tree is built, in one pass, after a few queries. Before that a change costs O(1) and a query
/// O(n); afterwards a change costs O(8 · log₈ n) and a query O(1).
#[derive(Debug, Clone, Default)]
pub(crate) struct Tournament {
    /// By place; filled up with zeros to whole nodes, as are the levels.
    keys: Vec<u64>,
    /// The winners of every 8 of the level below; one in the last level. As many as `built`.
    levels: Vec<Level>,
    /// How many levels there are; 0 if there is no tree yet.
    built: usize,
    /// Number of queries without a tree.
    queries: usize,
    /// Nodes whose winner is to be computed again.
    stale: Vec<u32>,
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
        (self.built, self.queries) = (0, 0);
    }

    /// Adds places without keys, up to a total. The tree is rebuilt where they are too many for its
    /// last nodes, which leaves room for more.
    pub(crate) fn grow(&mut self, places: usize) {
        if places <= self.keys.len() {
            return;
        }
        self.keys.resize(places.next_multiple_of(FAN * FAN * FAN), 0);
        if self.built > 0 {
            self.build();
        }
    }

    /// Makes the tree, if it is used often enough to be worth it.
    #[inline]
    pub(crate) fn ask(&mut self) {
        const OFTEN: usize = 2;
        if self.built == 0 {
            self.queries += 1;
            if self.queries > OFTEN {
                self.build();
            }
        }
    }

    fn build(&mut self) {
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
        self.built = count;
    }

    /// How many keys are not 0. O(n).
    pub(crate) fn len_above_zero(&self) -> usize {
        self.count_from(1)
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
        if self.built == 0 {
            return;
        }
        let mut node = place / FAN;
        let (nodes, _) = self.keys.as_chunks::<FAN>();
        let (mut key, at) = largest(&nodes[node]);
        let mut place = (node * FAN + at) as u32;
        let last = self.built - 1;
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

    /// Gives places other keys; places that lie together are best given together. Each node of the
    /// tree above them is looked at once.
    /// `note` is called with each key before and after.
    pub(crate) fn set_all(
        &mut self,
        changes: impl Iterator<Item = (usize, u64)>,
        mut note: impl FnMut(u64, u64),
    ) {
        self.stale.clear();
        for (place, key) in changes {
            note(self.keys[place], key);
            self.keys[place] = key;
            let node = (place / FAN) as u32;
            if self.built > 0 && self.stale.last() != Some(&node) {
                self.stale.push(node);
            }
        }
        for count in 0..self.built {
            let (below, above) = self.levels.split_at_mut(count);
            let (keys, places) = match below.last() {
                None => (&self.keys, None),
                Some(below) => (&below.keys, Some(&below.places)),
            };
            let (nodes, _) = keys.as_chunks::<FAN>();
            let above = &mut above[0];
            let mut kept = 0;
            for at in 0..self.stale.len() {
                let node = self.stale[at] as usize;
                let (key, child) = largest(&nodes[node]);
                let child = node * FAN + child;
                let place = places.map_or(child as u32, |places| places[child]);
                if above.keys[node] == key && above.places[node] == place {
                    continue;
                }
                (above.keys[node], above.places[node]) = (key, place);
                let parent = (node / FAN) as u32;
                if kept == 0 || self.stale[kept - 1] != parent {
                    self.stale[kept] = parent;
                    kept += 1;
                }
            }
            self.stale.truncate(kept);
        }
    }

    /// The place of the largest key, and the key; `None` if there is none but 0. O(1) with a tree,
    /// O(n) without.
    #[inline]
    pub(crate) fn best(&mut self) -> Option<(usize, u64)> {
        self.ask();
        if self.built == 0 {
            let best = self.largest();
            // Keys are different.
            let place = self.keys.iter().position(|key| *key == best)?;
            return (best != 0).then_some((place, best));
        }
        let top = &self.levels[self.built - 1];
        let (&key, &place) = (top.keys.first()?, top.places.first()?);
        (key != 0).then_some((place as usize, key))
    }

    /// Visits keys from a bound on, with their places, in order of places: `visit` takes a key and
    /// gives the bound from there on. With a tree, parts without such keys cost nothing: O(8 · log₈ n)
    /// a key visited.
    pub(crate) fn visit(&self, mut bound: u64, mut visit: impl FnMut(u64, usize) -> u64) {
        if self.built == 0 {
            vectorized(
                #[inline(always)]
                || self.visit_all(bound, visit),
            );
            return;
        }
        if !self.keys.is_empty() {
            self.descend((self.built - 1, 0), None, &mut bound, &mut visit);
        }
    }

    /// [`Tournament::visit`] without a tree.
    #[inline(always)]
    fn visit_all(&self, mut bound: u64, mut visit: impl FnMut(u64, usize) -> u64) {
        let (nodes, _) = self.keys.as_chunks::<FAN>();
        for (node, keys) in nodes.iter().enumerate() {
            // All eight are compared at once; few nodes have a key that is large enough.
            if keys.iter().fold(0, |large, key| large | u32::from(*key >= bound)) != 0 {
                for (at, &key) in keys.iter().enumerate() {
                    if key >= bound {
                        bound = visit(key, node * FAN + at);
                    }
                }
            }
        }
    }

    /// Whether there is a tree.
    pub(crate) fn is_built(&self) -> bool {
        self.built > 0
    }

    /// The largest of all keys. O(n), side by side.
    pub(crate) fn largest(&self) -> u64 {
        vectorized(
            #[inline(always)]
            || self.keys.iter().fold(0, |best, key| if *key > best { *key } else { best }),
        )
    }

    /// How many keys are not below a bound. O(n), side by side.
    pub(crate) fn count_from(&self, bound: u64) -> usize {
        vectorized(
            #[inline(always)]
            || self.keys.iter().map(|key| usize::from(*key >= bound)).sum(),
        )
    }

    /// [`Tournament::visit`] below a node of a level, of the keys of a lower level (`None`: of all
    /// keys).
    fn descend(
        &self,
        (level, node): (usize, usize),
        end: Option<usize>,
        bound: &mut u64,
        visit: &mut impl FnMut(u64, usize) -> u64,
    ) {
        let below = level.checked_sub(1);
        let keys = below.map_or(&self.keys, |below| &self.levels[below].keys);
        let (nodes, _) = keys.as_chunks::<FAN>();
        let keys = &nodes[node];
        // A bit for each key that is large enough.
        let mut large = 0_u32;
        for (at, key) in keys.iter().enumerate() {
            large |= u32::from(key >= bound) << at;
        }
        while large != 0 {
            let at = large.trailing_zeros() as usize;
            large &= large - 1;
            let child = node * FAN + at;
            if keys[at] < *bound {
                continue;
            }
            match below {
                Some(below) if Some(below) != end => {
                    self.descend((below, child), end, bound, visit);
                }
                _ => *bound = visit(keys[at], child),
            }
        }
    }

    /// A key from which on there are `count` keys, or 1 if there are not more than so many.
    /// O(8 · count · log₈ n) with a tree, O(n) without. `spare` is a buffer.
    pub(crate) fn bound_of(&self, count: usize, spare: &mut Vec<u64>) -> u64 {
        // The largest keys are below the largest of each level, which are as many.
        let many = 2 * FAN * count;
        let narrow = |level: &Level| level.keys.len() <= many;
        // The level above all others has one key, and that below it is narrow.
        let mut level = self.levels[..self.built.saturating_sub(1)].iter().position(narrow);
        if self.keys.len() <= many {
            level = None;
        }
        let mut bound = 1;
        loop {
            spare.clear();
            let mut take = |key, _| {
                spare.push(key);
                bound
            };
            match level {
                None => self.visit(bound, take),
                Some(_) => {
                    self.descend((self.built - 1, 0), level, &mut { bound }, &mut take);
                }
            }
            if spare.len() > count {
                let (_, nth, _) = spare.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
                bound = *nth;
            }
            let Some(at) = level else { return bound };
            level = at.checked_sub(1);
        }
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
mod tests;
