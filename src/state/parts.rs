//! Partitions of the nodes by the label values of each declared level.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::ids::{LabelKey, LabelValue};
use crate::base::Row;
use crate::base::intern::Interner;

/// The rows with each value of the declared levels' labels, kept while nodes come and go.
#[derive(Debug, Clone, Default)]
pub(crate) struct LevelParts {
    keys: Vec<LabelKey>,
    /// By level.
    parts: Vec<Arc<Vec<Part>>>,
}

/// The rows with one value, in no particular order.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) value: LabelValue,
    pub(crate) rows: Arc<Vec<Row>>,
}

impl LevelParts {
    /// Declares a finer level, while there are no nodes.
    pub(super) fn declare(&mut self, key: LabelKey) {
        self.keys.push(key);
        self.parts.push(Arc::default());
    }

    /// The parts of a level, in order of the text of values; `None` if the label is no level.
    pub(crate) fn parts(&self, key: LabelKey) -> Option<&[Part]> {
        let level = self.keys.iter().position(|own| *own == key)?;
        Some(&self.parts[level])
    }

    /// Enters a row under its labels, which are in order of key.
    pub(super) fn enter(&mut self, row: Row, labels: &[(LabelKey, LabelValue)], texts: &Interner) {
        for (key, parts) in self.keys.iter().zip(&mut self.parts) {
            let Some(value) = value_of(labels, *key) else { continue };
            let parts = Arc::make_mut(parts);
            match find(parts, value, texts) {
                Ok(at) => Arc::make_mut(&mut parts[at].rows).push(row),
                Err(at) => parts.insert(at, Part { value, rows: Arc::new([row].into()) }),
            }
        }
    }

    /// Takes a row out again.
    pub(super) fn leave(&mut self, row: Row, labels: &[(LabelKey, LabelValue)], texts: &Interner) {
        for (key, parts) in self.keys.iter().zip(&mut self.parts) {
            let Some(value) = value_of(labels, *key) else { continue };
            let parts = Arc::make_mut(parts);
            let Ok(at) = find(parts, value, texts) else { continue };
            let rows = Arc::make_mut(&mut parts[at].rows);
            if let Some(place) = rows.iter().position(|own| *own == row) {
                rows.swap_remove(place);
            }
            if rows.is_empty() {
                parts.remove(at);
            }
        }
    }
}

fn value_of(labels: &[(LabelKey, LabelValue)], key: LabelKey) -> Option<LabelValue> {
    let at = labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    Some(labels[at].1)
}

fn find(parts: &[Part], value: LabelValue, texts: &Interner) -> Result<usize, usize> {
    parts.binary_search_by(|part| texts.text(part.value.0).cmp(texts.text(value.0)))
}

#[cfg(test)]
mod tests;
