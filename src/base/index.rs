//! A hash index in shared shards: from the hash of a name to a number.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Entries a shard holds on average before the number of shards doubles: a little less than fit a
/// table of 512 places, so that few shards outgrow it.
const FULL: usize = 400;

/// Numbers by the hash of what they stand for. Clones share their shards until written to.
///
/// When the number of shards doubles, both halves point to the old shards at first; a shard is
/// divided when it is written to next. So no single insertion pays for the whole index.
///
/// The caller says what a number stands for: `eq` tells whether it is the one looked for, `hash`
/// gives its hash when a shard is divided or grows.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    shards: Vec<Arc<Shard>>,
    len: usize,
}

/// The numbers whose hashes agree in as many bits as select one of `of` shards.
#[derive(Debug, Clone)]
struct Shard {
    table: HashTable<u32>,
    of: usize,
}

impl Default for Index {
    fn default() -> Index {
        Index { shards: vec![Arc::new(Shard { table: HashTable::new(), of: 1 })], len: 0 }
    }
}

/// The bits of a hash that select a shard; the table itself uses the top and the bottom bits.
#[inline]
fn selector(hash: u64) -> usize {
    (hash >> 24) as usize
}

impl Index {
    #[inline]
    fn place(&self, hash: u64) -> usize {
        selector(hash) & (self.shards.len() - 1)
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, mut eq: impl FnMut(u32) -> bool) -> Option<u32> {
        self.shards[self.place(hash)].table.find(hash, |&id| eq(id)).copied()
    }

    /// Adds a number, unless there is one already that is equal by `eq`, which is returned then.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        id: u32,
        mut eq: impl FnMut(u32) -> bool,
        hash_of: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        if self.len >= self.shards.len() * FULL {
            self.shards.extend_from_within(..);
        }
        let table = self.own(hash, &hash_of);
        match table.entry(hash, |&id| eq(id), |&id| hash_of(id)) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(vacant) => {
                vacant.insert(id);
                self.len += 1;
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        let table = self.own(hash, &hash_of);
        if let Ok(entry) = table.find_entry(hash, |&have| have == id) {
            entry.remove();
            self.len -= 1;
        }
    }

    /// The table of a hash for writing, divided if it is not yet.
    fn own(&mut self, hash: u64, hash_of: &impl Fn(u32) -> u64) -> &mut HashTable<u32> {
        let place = self.place(hash);
        if self.shards[place].of < self.shards.len() {
            self.divide(place, hash_of);
        }
        &mut Arc::make_mut(&mut self.shards[place]).table
    }

    #[cold]
    fn divide(&mut self, place: usize, hash_of: &impl Fn(u32) -> u64) {
        let of = self.shards.len();
        let old = Arc::clone(&self.shards[place]);
        let parts = of / old.of;
        let capacity = FULL.min(old.table.len() / parts * 2);
        let mut tables: Vec<HashTable<u32>> =
            (0..parts).map(|_| HashTable::with_capacity(capacity)).collect();
        for &id in &old.table {
            let hash = hash_of(id);
            let part = (selector(hash) & (of - 1)) / old.of;
            tables[part].insert_unique(hash, id, |&id| hash_of(id));
        }
        for (part, table) in tables.into_iter().enumerate() {
            self.shards[place % old.of + part * old.of] = Arc::new(Shard { table, of });
        }
    }
}

#[cfg(test)]
mod tests;
