//! Facts: changes that an owner or a step of the driver has seen, and that others follow.
//!
//! A step never calls upwards. It returns, or notes, a fact; the driver passes the facts on in the
//! order in which they came, until none is left.

use alloc::collections::VecDeque;

use super::terms::ids::GroupId;

/// A change that groups are to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    /// The state of a group has changed: its phase is to be found again.
    GroupChanged(GroupId),
}

/// Facts that have not been passed on, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    open: VecDeque<Fact>,
}

impl Facts {
    /// Notes a fact. One that is noted already is not noted twice.
    pub(super) fn note(&mut self, fact: Fact) {
        if !self.open.contains(&fact) {
            self.open.push_back(fact);
        }
    }

    /// The oldest fact that has not been passed on.
    pub(super) fn next(&mut self) -> Option<Fact> {
        self.open.pop_front()
    }
}
