//! Strings to dense numbers, once, so that comparisons are of numbers.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashTable;

use super::hash::hash_of;

/// A table of strings; each has a number, given in order of first sight.
///
/// Numbers never leave the crate as anything that orders or compares: two clusters fed in
/// different order number differently and answer the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interner {
    strings: Vec<Arc<str>>,
    index: HashTable<u32>,
}

impl Interner {
    /// The number of a string, given now if it has none.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        let hash = hash_of(text);
        let strings = &self.strings;
        if let Some(&id) = self.index.find(hash, |&id| &*strings[id as usize] == text) {
            return id;
        }
        let id = self.strings.len() as u32;
        self.strings.push(Arc::from(text));
        let strings = &self.strings;
        self.index.insert_unique(hash, id, |&id| hash_of(&*strings[id as usize]));
        id
    }

    /// The number of a string, if it has one.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.index.find(hash_of(text), |&id| &*self.strings[id as usize] == text).copied()
    }

    /// The string of a number.
    #[inline]
    pub(crate) fn text(&self, id: u32) -> &str {
        &self.strings[id as usize]
    }

    /// How many strings there are.
    pub(crate) fn len(&self) -> usize {
        self.strings.len()
    }
}
