//! A sparse column: chunks without a value are not allocated.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::chunks::CHUNK;

/// Values by number. Clones share their chunks until one of them is written to.
#[derive(Debug, Clone)]
pub(crate) struct Sparse<T> {
    chunks: Vec<Option<Arc<Vec<Option<T>>>>>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Sparse { chunks: Vec::new() }
    }
}

impl<T: Clone> Sparse<T> {
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.as_ref()?.get(index % CHUNK)?.as_ref()
    }

    /// The value for writing; copies its chunk if a clone shares it.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.get(index)?;
        Arc::make_mut(self.chunks[index / CHUNK].as_mut()?)[index % CHUNK].as_mut()
    }

    /// Sets or removes a value.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: Option<T>) {
        if value.is_some() || self.get(index).is_some() {
            self.write(index, value);
        }
    }

    fn write(&mut self, index: usize, value: Option<T>) {
        let (chunk, at) = (index / CHUNK, index % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        let values = Arc::make_mut(self.chunks[chunk].get_or_insert_default());
        if values.len() <= at {
            values.resize(at + 1, None);
        }
        values[at] = value;
    }
}

#[cfg(test)]
mod tests;
