//! A vector in shared chunks: clones cost one pointer a chunk, writes copy the chunk they touch.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Index;

use super::Row;

/// Elements in a chunk.
pub(crate) const CHUNK: usize = 256;

/// A growable array whose clones share memory until one of them is written to.
#[derive(Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Clone for Chunked<T> {
    fn clone(&self) -> Self {
        Chunked { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<T: Clone> Chunked<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// The element for writing; copies its chunk if a clone shares it.
    ///
    /// The index must be in range.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.chunks[index / CHUNK])[index % CHUNK]
    }

    pub(crate) fn push(&mut self, value: T) {
        if self.len.is_multiple_of(CHUNK) {
            let capacity = if self.len == 0 { 4 } else { CHUNK };
            self.chunks.push(Arc::new(Vec::with_capacity(capacity)));
        }
        let last = self.len / CHUNK;
        Arc::make_mut(&mut self.chunks[last]).push(value);
        self.len += 1;
    }

    /// The elements of one chunk.
    pub(crate) fn chunk(&self, chunk: usize) -> Option<&[T]> {
        self.chunks.get(chunk).map(|chunk| chunk.as_slice())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T> Index<usize> for Chunked<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> Index<Row> for Chunked<T> {
    type Output = T;

    #[inline]
    fn index(&self, row: Row) -> &T {
        &self[row.index()]
    }
}

#[cfg(test)]
mod tests;
