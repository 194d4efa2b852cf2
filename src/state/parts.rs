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
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::cluster::Cluster;
    use super::*;
    use crate::model::Node;

    proptest! {
        #[test]
        fn parts_are_those_of_the_nodes_there_are(
            steps in proptest::collection::vec((0..3_u8, 0..9_u8, 0..4_u8), 1..60),
        ) {
            let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
            let mut before = cluster.clone();
            for (step, name, value) in steps {
                let mut node = Node::new(std::format!("n{name}"));
                if value > 0 {
                    node = node.label("rack", std::format!("r{value}"));
                }
                let _ = match step {
                    0 => cluster.add_node(node).map(drop),
                    1 => cluster.update_node(&node),
                    _ => cluster.remove_node(&node.name),
                };
                let key = cluster.label_key("rack").unwrap();
                let mut expected: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
                for node in cluster.nodes() {
                    if let Some(value) = node.label("rack") {
                        expected.entry(value).or_default().push(node.row());
                    }
                }
                for rows in expected.values_mut() {
                    rows.sort_unstable();
                }
                let parts = cluster.level_parts.parts(key).unwrap();
                let parts: Vec<(&str, Vec<Row>)> = parts
                    .iter()
                    .map(|part| {
                        let mut rows = part.rows.to_vec();
                        rows.sort_unstable();
                        (cluster.label_text(part.value), rows)
                    })
                    .collect();
                prop_assert_eq!(parts, expected.into_iter().collect::<Vec<_>>());
                // A clone made before is not touched.
                let known: usize =
                    before.level_parts.parts(key).unwrap().iter().map(|part| part.rows.len()).sum();
                let labelled = before.nodes().filter(|node| node.label("rack").is_some()).count();
                prop_assert_eq!(known, labelled);
                before = cluster.clone();
            }
        }
    }
}
