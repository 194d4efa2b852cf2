//! Owners: the user that work is of, and the user's groups.

use alloc::string::String;
use alloc::vec::Vec;

/// The user that work is of, and the groups of that user. Limits by user and group
/// (`phalanx::quota::UserLimit`) read it.
///
/// ```
/// use phalanx::model::Owner;
/// use phalanx::{Pod, PodGroup};
///
/// let gang = PodGroup::gang("train", 2).pods(2, Pod::new());
/// let gang = gang.owner(Owner::new("ada").group("research"));
/// assert_eq!(gang.owner.user, "ada");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
pub struct Owner {
    /// The user; empty if it is not known. Then the groups are not read either.
    pub user: String,
    /// The groups of the user, in no order that means anything.
    pub groups: Vec<String>,
}

impl Owner {
    /// A user in no group.
    pub fn new(user: impl Into<String>) -> Owner {
        Owner { user: user.into(), groups: Vec::new() }
    }

    /// Adds a group of the user.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Owner {
        self.groups.push(group.into());
        self
    }

    /// Whether the user is not known.
    pub fn is_none(&self) -> bool {
        self.user.is_empty()
    }
}
