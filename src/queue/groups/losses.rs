//! How a group grows, and what it has lost.

use crate::queue::terms::decision::RepairWay;

/// How a group grows, and the members that failing nodes took from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
pub(in crate::queue) struct Turn {
    /// Whether it starts with its minimum and grows member by member.
    pub(super) by_turns: bool,
    /// Whether lost members are placed together, and other ways are looked for if they do not fit.
    pub(super) repairs: bool,
    /// Number of members that failing nodes took, and that are not replaced yet.
    pub(super) lost: u32,
    /// The way of repair that was last said, with the number of members that were missing then.
    pub(super) said: Option<(RepairWay, u32)>,
}

impl Turn {
    /// Forgets what was lost: the group has left, or starts from the beginning.
    pub(super) fn forget_losses(&mut self) {
        (self.lost, self.said) = (0, None);
    }
}
