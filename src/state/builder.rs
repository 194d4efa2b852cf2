//! The builder of a cluster: its levels.

use alloc::string::String;
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::error::StateError;
use super::ids::LabelKey;

/// Makes a [`Cluster`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ClusterBuilder {
    levels: Vec<String>,
}

impl Cluster {
    /// A builder.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }
}

impl ClusterBuilder {
    /// Declares the levels of the topology by node label keys, coarsest first. The node itself is
    /// always the last level and need not be named.
    pub fn levels<S: Into<String>>(mut self, keys: impl IntoIterator<Item = S>) -> ClusterBuilder {
        self.levels.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Makes the cluster, empty.
    ///
    /// # Errors
    /// A level is declared twice.
    pub fn build(self) -> Result<Cluster, StateError> {
        let mut cluster = Cluster::new();
        for key in self.levels {
            let level = LabelKey(cluster.label_keys.intern(&key));
            if cluster.levels.contains(&level) {
                return Err(StateError::DuplicateLevel(key));
            }
            cluster.levels.push(level);
            cluster.level_parts.declare(level);
        }
        Ok(cluster)
    }
}
