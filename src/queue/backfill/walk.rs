//! A walk over the groups behind the first of the line, with its findings about classes.

use alloc::collections::{BTreeSet, VecDeque};

use super::demand::Demand;
use super::line::{ClassId, Turn};
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::queue::terms::shortage::Shortage;

/// A walk over groups behind the first of the line, in the order in which they are tried.
#[derive(Debug)]
pub(in crate::queue) struct Walk {
    /// The sum of free resources.
    pub(super) free: Demand,
    pub(super) refused: Refused,
    pub(super) ahead: Ahead,
}

/// Classes that were refused. Room is only taken in a pass: a class that is refused stays refused.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Classes of which none has a place now.
    now: BTreeSet<ClassId>,
    /// Classes without a place for groups that run beyond the promised start.
    beyond: BTreeSet<ClassId>,
}

/// The groups that a walk has before it.
#[derive(Debug)]
pub(super) enum Ahead {
    /// Groups that arrived, in turn.
    Arrived(VecDeque<(ClassId, GroupId)>),
    /// All groups: the next of each class that the sums and refusals allow.
    Line {
        head: Option<QueueKey>,
        next: BTreeSet<(Turn, ClassId)>,
        /// The group tried last: the next of its class is not known yet.
        last: Option<(Turn, ClassId)>,
    },
}

/// A group behind the first of the line that is to be judged next.
#[derive(Debug, Clone, Copy)]
pub(in crate::queue) struct Candidate {
    pub(super) group: GroupId,
    pub(super) class: ClassId,
}

impl Candidate {
    pub(in crate::queue) fn group(self) -> GroupId {
        self.group
    }
}

impl Walk {
    pub(super) fn new(free: Demand, ahead: Ahead) -> Walk {
        Walk { free, refused: Refused::default(), ahead }
    }
}

impl Refused {
    /// Whether no group of a class has a place now.
    pub(super) fn has(&self, class: ClassId) -> bool {
        self.now.contains(&class)
    }

    /// Whether no group of a class has a place beyond the promised start.
    pub(super) fn has_beyond(&self, class: ClassId) -> bool {
        self.beyond.contains(&class)
    }

    /// A class was refused, for a shortage of room.
    pub(super) fn insert(&mut self, class: ClassId, shortage: &Shortage) {
        let is_promised = matches!(shortage, Shortage::Promised { .. });
        let refused = if is_promised { &mut self.beyond } else { &mut self.now };
        refused.insert(class);
    }
}
