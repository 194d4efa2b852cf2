//! Pods sorted into the groups they name, on the way to trees of groups.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::groups::GroupObject;
use super::manifests::Note;
use super::membership::Family;
use super::pod::PodRecord;
use crate::model::{ModelError, Problem};

/// An error and the number of the source it is in.
pub(super) type Located<T> = Result<T, (u32, ModelError)>;

/// Family, whether it is a group of groups, namespace, name.
pub(super) type Identity = (Family, bool, String, String);

/// Pods sorted into groups.
pub(super) struct Assembly {
    pub(super) strict: bool,
    pub(super) pods: Vec<PodRecord>,
    pub(super) objects: Vec<GroupObject>,
    pub(super) index: BTreeMap<Identity, usize>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) notes: Vec<Note>,
    /// Groups that pods name and that do not exist.
    pub(super) missing: BTreeSet<usize>,
}

/// The pods of one group without groups inside.
pub(super) struct Leaf {
    pub(super) object: usize,
    /// The name of the group, where it is not that of the object.
    pub(super) name: String,
    pub(super) role: Option<String>,
    pub(super) pending: Vec<usize>,
    pub(super) bound: Vec<usize>,
}

/// An error about a pod.
pub(super) fn fault(record: &PodRecord, field: &str, problem: Problem) -> (u32, ModelError) {
    let object = format!("pod {}/{}", record.pod.namespace(), record.pod.name);
    (record.source, ModelError::new(object, field, problem))
}
