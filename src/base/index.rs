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
/// Half of each hash is kept beside its number: growing asks nobody for hashes, and what is not
/// looked for is passed over without a look at it. The caller says what a number stands for: `eq`
/// tells whether it is the one looked for.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    shards: Vec<Arc<Shard>>,
    len: usize,
}

/// The numbers whose hashes agree in as many bits as select one of `of` shards.
#[derive(Debug, Clone)]
struct Shard {
    table: HashTable<Numbered>,
    of: usize,
}

/// A number and the upper half of its hash.
#[derive(Debug, Clone, Copy)]
struct Numbered {
    id: u32,
    bits: u32,
}

impl Default for Index {
    fn default() -> Index {
        Index { shards: vec![Arc::new(Shard { table: HashTable::new(), of: 1 })], len: 0 }
    }
}

#[inline]
fn upper(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// What a table takes for a hash: it uses the bottom bits, nine as a rule, and the top seven.
#[inline]
fn in_table(bits: u32) -> u64 {
    u64::from(bits) << 32 | u64::from(bits)
}

/// The bits that select a shard.
#[inline]
fn selector(bits: u32) -> usize {
    (bits >> 9) as usize
}

impl Index {
    #[inline]
    fn place(&self, bits: u32) -> usize {
        selector(bits) & (self.shards.len() - 1)
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, mut eq: impl FnMut(u32) -> bool) -> Option<u32> {
        let bits = upper(hash);
        let table = &self.shards[self.place(bits)].table;
        let found = table.find(in_table(bits), |known| known.bits == bits && eq(known.id));
        found.map(|known| known.id)
    }

    /// Adds a number, unless there is one already that is equal by `eq`, which is returned then.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        id: u32,
        mut eq: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        if self.len >= self.shards.len() * FULL {
            self.shards.extend_from_within(..);
        }
        let bits = upper(hash);
        let is = |known: &Numbered| known.bits == bits && eq(known.id);
        match self.own(bits).entry(in_table(bits), is, |known| in_table(known.bits)) {
            Entry::Occupied(known) => Some(known.get().id),
            Entry::Vacant(vacant) => {
                vacant.insert(Numbered { id, bits });
                self.len += 1;
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, id: u32) {
        let bits = upper(hash);
        if let Ok(entry) = self.own(bits).find_entry(in_table(bits), |known| known.id == id) {
            entry.remove();
            self.len -= 1;
        }
    }

    /// The table of a hash for writing, divided if it is not yet.
    #[inline]
    fn own(&mut self, bits: u32) -> &mut HashTable<Numbered> {
        let place = self.place(bits);
        if self.shards[place].of < self.shards.len() {
            self.divide(place);
        }
        &mut Arc::make_mut(&mut self.shards[place]).table
    }

    #[cold]
    fn divide(&mut self, place: usize) {
        let of = self.shards.len();
        let old = Arc::clone(&self.shards[place]);
        let parts = of / old.of;
        let capacity = old.table.len() / parts;
        let mut tables: Vec<HashTable<Numbered>> =
            (0..parts).map(|_| HashTable::with_capacity(capacity)).collect();
        for &known in &old.table {
            let part = (selector(known.bits) & (of - 1)) / old.of;
            let hash = in_table(known.bits);
            tables[part].insert_unique(hash, known, |known| in_table(known.bits));
        }
        for (part, table) in tables.into_iter().enumerate() {
            self.shards[place % old.of + part * old.of] = Arc::new(Shard { table, of });
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::base::hash::hash_of;

    /// By threes alike in all that is kept of them.
    fn hash(id: u32) -> u64 {
        hash_of(&(id / 3)) ^ u64::from(id % 3)
    }

    fn same(index: &Index, model: &BTreeSet<u32>, most: u32) {
        assert_eq!(index.len, model.len());
        for id in 0..most {
            let found = index.find(hash(id), |have| have == id);
            assert_eq!(found, model.contains(&id).then_some(id));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn it_is_a_set_whose_clones_are_independent(
            steps in prop::collection::vec((0_u8..4, 0_u32..6_000, 1_u32..900), 1..60),
        ) {
            let mut index = Index::default();
            let mut model = BTreeSet::new();
            let mut kept = None;
            for (action, first, count) in steps {
                for id in first..first + count {
                    if action == 2 {
                        index.remove(hash(id), id);
                        model.remove(&id);
                    } else if action < 2 {
                        let known = index.insert(hash(id), id, |have| have == id);
                        prop_assert_eq!(known, (!model.insert(id)).then_some(id));
                    }
                }
                if action == 3 {
                    let now = (index.clone(), model.clone());
                    if let Some((index, model)) = kept.replace(now) {
                        same(&index, &model, 7_000);
                    }
                }
            }
            same(&index, &model, 7_000);
            if let Some((index, model)) = kept {
                same(&index, &model, 7_000);
            }
        }
    }
}
