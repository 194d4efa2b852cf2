//! Interning: strings to dense numbers, so that comparisons are of numbers.

use super::hash::hash_of;
use super::index::Index;
use super::slab::Slab;

/// A table of strings; each has a number, given in order of first sight.
///
/// Numbers never leave the crate as anything that orders or compares: two clusters fed in
/// different order number differently and answer the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interner {
    strings: Slab<()>,
    index: Index,
}

impl Interner {
    /// The number of a string, given now if it has none.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        let hash = hash_of(text);
        let strings = &self.strings;
        // Most strings are known, and an index that is shared is not copied to find them.
        if let Some(id) = self.index.find(hash, |id| strings.name(id) == text) {
            return id;
        }
        self.index.insert(hash, strings.next(), |_| false, |id| hash_of(strings.name(id)));
        self.strings.insert(text, ())
    }

    /// How many strings have a number.
    pub(crate) fn len(&self) -> usize {
        self.strings.len()
    }

    /// The number of a string, if it has one.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.index.find(hash_of(text), |id| self.strings.name(id) == text)
    }

    /// The string of a number; empty for a number that was not given here.
    #[inline]
    pub(crate) fn text(&self, id: u32) -> &str {
        self.strings.name(id)
    }
}
