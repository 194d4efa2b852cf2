//! A value for each kind of object.

use core::ops::{Index, IndexMut};

use super::event::Kind;

/// A value for each kind, by its number.
#[derive(Debug)]
pub(super) struct PerKind<T>([T; Kind::COUNT]);

impl<T: Default> Default for PerKind<T> {
    fn default() -> PerKind<T> {
        PerKind(core::array::from_fn(|_| T::default()))
    }
}

impl<T> Index<usize> for PerKind<T> {
    type Output = T;

    fn index(&self, kind: usize) -> &T {
        &self.0[kind]
    }
}

impl<T> IndexMut<usize> for PerKind<T> {
    fn index_mut(&mut self, kind: usize) -> &mut T {
        &mut self.0[kind]
    }
}
