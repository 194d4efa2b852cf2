//! Strings to dense numbers, once, so that comparisons are of numbers.

use alloc::sync::Arc;

use super::chunks::Chunked;
use super::hash::hash_of;
use super::index::Index;

/// A table of strings; each has a number, given in order of first sight.
///
/// Numbers never leave the crate as anything that orders or compares: two clusters fed in
/// different order number differently and answer the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interner {
    strings: Chunked<Arc<str>>,
    index: Index,
}

impl Interner {
    /// The number of a string, given now if it has none.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(id) = self.find(text) {
            return id;
        }
        let id = self.strings.len() as u32;
        self.strings.push(Arc::from(text));
        let strings = &self.strings;
        self.index.insert(hash_of(text), id, |id| hash_of(&*strings[id as usize]));
        id
    }

    /// The number of a string, if it has one.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.index.find(hash_of(text), |id| &*self.strings[id as usize] == text)
    }

    /// The string of a number; empty for a number that was not given here.
    #[inline]
    pub(crate) fn text(&self, id: u32) -> &str {
        self.strings.get(id as usize).map_or("", |text| text)
    }
}
