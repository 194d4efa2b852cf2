//! A hash index in shared shards: from the hash of a name to a number.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashTable;

/// Entries a shard holds on average before the number of shards doubles.
const FULL: usize = 512;

/// Numbers by the hash of what they stand for. Clones share their shards until written to.
///
/// The caller says what a number stands for: `eq` tells whether it is the one looked for, `hash`
/// gives its hash when the table grows.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    shards: Vec<Arc<HashTable<u32>>>,
    len: usize,
}

impl Default for Index {
    fn default() -> Index {
        Index { shards: vec![Arc::default()], len: 0 }
    }
}

impl Index {
    #[inline]
    fn shard(&self, hash: u64) -> usize {
        // The table itself uses the top and the bottom bits.
        (hash >> 24) as usize & (self.shards.len() - 1)
    }

    pub(crate) fn find(&self, hash: u64, mut eq: impl FnMut(u32) -> bool) -> Option<u32> {
        self.shards[self.shard(hash)].find(hash, |&id| eq(id)).copied()
    }

    /// Adds a number that is not in the index.
    pub(crate) fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        if self.len >= self.shards.len() * FULL {
            self.grow(&hash_of);
        }
        let shard = self.shard(hash);
        Arc::make_mut(&mut self.shards[shard]).insert_unique(hash, id, |&id| hash_of(id));
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, hash: u64, id: u32) {
        let shard = self.shard(hash);
        let table = Arc::make_mut(&mut self.shards[shard]);
        if let Ok(entry) = table.find_entry(hash, |&have| have == id) {
            entry.remove();
            self.len -= 1;
        }
    }

    fn grow(&mut self, hash_of: &impl Fn(u32) -> u64) {
        let old = core::mem::take(&mut self.shards);
        let mut shards: Vec<HashTable<u32>> = vec![HashTable::new(); old.len() * 2];
        let mask = shards.len() - 1;
        for id in old.iter().flat_map(|shard| shard.iter().copied()) {
            let hash = hash_of(id);
            shards[(hash >> 24) as usize & mask].insert_unique(hash, id, |&id| hash_of(id));
        }
        self.shards = shards.into_iter().map(Arc::new).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash::hash_of;

    #[test]
    fn numbers_are_found_while_the_index_grows_and_after_removal() {
        let hash = |id: u32| hash_of(&id);
        let mut index = Index::default();
        for id in 0..5_000 {
            index.insert(hash(id), id, hash);
        }
        let before = index.clone();
        for id in (0..5_000).step_by(2) {
            index.remove(hash(id), id);
        }
        for id in 0..5_000 {
            assert_eq!(index.find(hash(id), |have| have == id).is_some(), id % 2 == 1);
            assert!(before.find(hash(id), |have| have == id).is_some());
        }
    }
}
