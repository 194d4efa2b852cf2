//! Pods sorted into the groups they name, on the way to trees of groups.

mod expand;

pub(super) use expand::expand;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::kubernetes::field::Note;
use crate::kubernetes::groups::GroupObject;
use crate::kubernetes::membership::Family;
use crate::kubernetes::pod::PodRecord;
use crate::model::{ModelError, Problem};

/// An error and the number of the source it is in.
pub(in crate::kubernetes) type Located<T> = Result<T, (u32, ModelError)>;

/// Family, whether it is a group of groups, namespace, name.
pub(in crate::kubernetes) type Identity = (Family, bool, String, String);

/// Pods sorted into groups.
pub(in crate::kubernetes) struct Assembly {
    pub(in crate::kubernetes) strict: bool,
    pub(in crate::kubernetes) pods: Vec<PodRecord>,
    pub(in crate::kubernetes) objects: Vec<GroupObject>,
    pub(in crate::kubernetes) index: BTreeMap<Identity, usize>,
    pub(in crate::kubernetes) leaves: Vec<Leaf>,
    pub(in crate::kubernetes) notes: Vec<Note>,
    /// Groups that pods name and that do not exist.
    pub(in crate::kubernetes) missing: BTreeSet<usize>,
}

/// The pods of one group without groups inside.
pub(in crate::kubernetes) struct Leaf {
    pub(in crate::kubernetes) object: usize,
    /// The name of the group, where it is not that of the object.
    pub(in crate::kubernetes) name: String,
    pub(in crate::kubernetes) role: Option<String>,
    pub(in crate::kubernetes) pending: Vec<usize>,
    pub(in crate::kubernetes) bound: Vec<usize>,
}

/// An error about a pod.
pub(in crate::kubernetes) fn fault(
    record: &PodRecord,
    field: &str,
    problem: Problem,
) -> (u32, ModelError) {
    let object = format!("pod {}/{}", record.pod.namespace(), record.pod.name);
    (record.source, ModelError::new(object, field, problem))
}
