//! Tombstones: the versions of deletions, so that a late event does not bring an object back.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::claims::ClaimKey;
#[cfg(feature = "serde")]
use super::claims::ClaimKind;
use super::storage::StorageKey;
#[cfg(feature = "serde")]
use super::storage::StorageKind;
use crate::base::hash::hash_of;
use crate::base::index::Index;
use crate::base::slab::Slab;

/// An object whose deletion is remembered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Deleted {
    Node(String),
    Namespace(String),
    Pod(String, String),
    Storage(StorageKey),
    Claims(ClaimKey),
}

/// Versions of deletions by object. Clones share memory: one more deletion after a clone copies
/// one chunk, however many are remembered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    /// Versions, by the key of the object.
    versions: Slab<u64>,
    index: Index,
}

impl Deleted {
    /// A text that no other object has: the length of the namespace marks where a pod's name begins.
    fn key(&self) -> String {
        match self {
            Deleted::Node(name) => format!("n/{name}"),
            Deleted::Namespace(name) => format!("s/{name}"),
            Deleted::Storage(key) => format!("{}/{}", key.kind.word(), key.name),
            Deleted::Claims(key) => format!("{}/{}", key.kind.word(), key.name),
            Deleted::Pod(namespace, name) => format!("{}/{namespace}{name}", namespace.len()),
        }
    }

    /// The object of a key.
    #[cfg(feature = "serde")]
    fn of_key(key: &str) -> Option<Deleted> {
        let (kind, rest) = key.split_once('/')?;
        Some(match kind {
            "n" => Deleted::Node(rest.into()),
            "s" => Deleted::Namespace(rest.into()),
            kind if StorageKind::of_word(kind).is_some() => {
                Deleted::Storage(StorageKey::new(StorageKind::of_word(kind)?, rest))
            }
            kind if ClaimKind::of_word(kind).is_some() => {
                Deleted::Claims(ClaimKey::new(ClaimKind::of_word(kind)?, rest))
            }
            length => {
                let (namespace, name) = rest.split_at_checked(length.parse().ok()?)?;
                Deleted::Pod(namespace.into(), name.into())
            }
        })
    }
}

impl Tombstones {
    fn find(&self, object: &Deleted) -> Option<u32> {
        if self.versions.len() == 0 {
            return None;
        }
        let key = object.key();
        self.index.find(hash_of(&*key), |id| self.versions.name(id) == key)
    }

    /// The version of a deletion; `None` if none is remembered.
    pub(super) fn version(&self, object: &Deleted) -> Option<u64> {
        self.versions.get(self.find(object)?).copied()
    }

    /// Remembers a deletion, of the latest version it was seen with.
    pub(super) fn remember(&mut self, object: &Deleted, version: u64) {
        if let Some(id) = self.find(object) {
            if let Some(known) = self.versions.get_mut(id) {
                *known = version.max(*known);
            }
            return;
        }
        let (key, versions) = (object.key(), &self.versions);
        let hash_of_id = |id| hash_of(versions.name(id));
        self.index.insert(hash_of(&*key), versions.next(), |_| false, hash_of_id);
        self.versions.insert(&key, version);
    }

    /// Forgets the deletion of an object.
    pub(super) fn forget(&mut self, object: &Deleted) {
        if let Some(id) = self.find(object) {
            self.remove(id);
        }
    }

    /// Forgets deletions up to and including a version. O(deletions).
    pub(super) fn forget_up_to(&mut self, version: u64) {
        let old = self.versions.iter().filter(|(_, of)| **of <= version);
        let old: Vec<u32> = old.map(|(id, _)| id).collect();
        for id in old {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u32) {
        let versions = &self.versions;
        let hash_of = |id| hash_of(versions.name(id));
        self.index.remove(hash_of(id), id, hash_of);
        self.versions.remove(id);
    }

    /// All deletions, in order of object.
    #[cfg(feature = "serde")]
    pub(super) fn sorted(&self) -> Vec<(Deleted, u64)> {
        let named = self.versions.iter().map(|(id, version)| (self.versions.name(id), *version));
        let mut all: Vec<_> =
            named.filter_map(|(key, version)| Some((Deleted::of_key(key)?, version))).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_apart_and_come_back_as_they_were() {
        let pod = |namespace: &str, name: &str| Deleted::Pod(namespace.into(), name.into());
        let all = Vec::from([
            Deleted::Node("a".into()),
            Deleted::Node("a/b".into()),
            Deleted::Namespace("a".into()),
            Deleted::Namespace(String::new()),
            pod("a", "b"),
            pod("ab", ""),
            pod("", "ab"),
            pod("a/b", "ä/1"),
        ]);
        let mut tombstones = Tombstones::default();
        for (object, version) in all.iter().zip(1..) {
            assert_eq!(tombstones.version(object), None);
            tombstones.remember(object, version);
            tombstones.remember(object, 0);
        }
        let before = tombstones.clone();
        let numbered: Vec<_> = all.iter().cloned().zip(1..).collect();
        tombstones.forget(&all[0]);
        tombstones.forget_up_to(4);
        assert_eq!(tombstones.sorted().iter().map(|(_, version)| *version).max(), Some(8));
        assert_eq!((tombstones.sorted().len(), tombstones.version(&all[3])), (4, None));
        let mut sorted = numbered;
        sorted.sort_unstable();
        assert_eq!(before.sorted(), sorted);
        assert!(all.iter().all(|object| before.version(object).is_some()));
    }
}
