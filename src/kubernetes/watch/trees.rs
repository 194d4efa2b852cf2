//! Trees of groups: parents and children that a store knows.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::entries::GroupKey;
use crate::kubernetes::groups::GroupObject;
use crate::kubernetes::membership::Family;
use crate::kubernetes::tree::MAX_LEVELS;
use crate::model::{PodGroup, PreemptionPolicy};

/// The trees of a store.
#[derive(Debug, Default)]
pub(super) struct Trees {
    /// The groups that name each composite group as their parent, whether or not it exists.
    children: BTreeMap<GroupKey, BTreeSet<GroupKey>>,
    /// The trees that the scheduler knows, by their roots.
    pub(super) shown: BTreeMap<GroupKey, Tree>,
}

/// A tree as the scheduler knows it, without members.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) frame: PodGroup,
    pub(super) leaves: BTreeMap<GroupKey, PodGroup>,
    pub(super) refusal: Option<String>,
    pub(super) preemption: Option<PreemptionPolicy>,
}

impl Trees {
    /// Takes a group from one parent to another.
    pub(super) fn relink(
        &mut self,
        child: &GroupKey,
        old: Option<GroupKey>,
        new: Option<GroupKey>,
    ) {
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(children) = self.children.get_mut(&old)
        {
            children.remove(child);
            if children.is_empty() {
                self.children.remove(&old);
            }
        }
        if let Some(new) = new {
            self.children.entry(new).or_default().insert(child.clone());
        }
    }

    /// The groups of pods in a tree that the scheduler knows.
    pub(super) fn leaves(&self, root: &GroupKey) -> impl Iterator<Item = &GroupKey> {
        self.shown.get(root).into_iter().flat_map(|tree| tree.leaves.keys())
    }

    pub(super) fn children(&self, key: &GroupKey) -> impl Iterator<Item = &GroupKey> {
        self.children.get(key).into_iter().flatten()
    }

    /// The groups of pods below a composite group, whether or not the scheduler knows them.
    pub(super) fn leaves_below(&self, key: &GroupKey, level: usize, into: &mut Vec<GroupKey>) {
        for child in self.children(key) {
            if child.family != Family::Composite {
                into.push(child.clone());
            } else if level < MAX_LEVELS {
                self.leaves_below(child, level + 1, into);
            }
        }
    }
}

/// The place of a group among trees.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It names no parent, and is no composite group.
    Alone,
    /// A group above it is not known.
    Waits,
    /// In the tree of this root.
    In(GroupKey),
    /// Too deep, or its own ancestor.
    Unsound,
}

/// The name by which a composite group of a family is told from those of others.
pub(super) fn composite_name(family: Family, name: &str) -> String {
    match family {
        Family::Kai => format!("kai:{name}"),
        _ => String::from(name),
    }
}

/// The key of the composite group that an object names as its parent.
pub(super) fn parent_of(object: &GroupObject) -> Option<GroupKey> {
    let name = composite_name(object.family, object.parent.as_deref()?);
    Some(GroupKey { namespace: object.namespace.clone(), family: Family::Composite, name })
}
