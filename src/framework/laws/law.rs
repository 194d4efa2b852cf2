//! The laws by name, and the error of a plugin that broke one.

use crate::base::clip::clip;
use alloc::string::String;
use core::fmt;

/// The laws of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Law {
    /// The name is not empty, and stays the same.
    Name,
    /// The same question has the same answer, in any order of asking; preparing anew and declaring
    /// anew change nothing.
    Repeatable,
    /// The answer for a block of rows is the answer for each of its nodes. The answer for a node is
    /// read from the node that is shown, with the pods that are shown on it.
    Block,
    /// Pods that come and go beyond the declared reach change nothing.
    Reach,
    /// Unless declared, nodes that come, go or change do not change the answer for another node.
    Nodes,
    /// A filter declared monotone never turns a "no" into a "yes" because a pod was placed.
    Monotone,
    /// Unless declared, the group changes nothing.
    Group,
    /// Unless declared, the time changes nothing.
    Time,
    /// A kept preparation, brought up to date by
    /// [`Incremental`](crate::framework::Incremental) where it is, answers as what is prepared anew.
    Incremental,
    /// A plugin with a [`Grain`](crate::framework::Grain) tells nodes apart as that says, and what it prepared
    /// to be kept goes on answering as what is prepared anew.
    Grain,
    /// A node takes no more pods than a filter says it has room for, nor do all nodes together.
    /// Where the filter declares that it judges room, its verdict is just that. Compared while
    /// nodes fill up.
    Room,
    /// A filter or score that declares to read a node's sums alone does not tell apart pods that
    /// take the same.
    Pods,
    /// Scores end within `0..=100` without being clamped.
    Range,
    /// A hold ends after the time of the request.
    Hold,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Law::Name => "name",
            Law::Repeatable => "repeatable",
            Law::Block => "block",
            Law::Reach => "reach",
            Law::Nodes => "nodes",
            Law::Monotone => "monotone",
            Law::Group => "group",
            Law::Time => "time",
            Law::Incremental => "incremental",
            Law::Grain => "grain",
            Law::Room => "room",
            Law::Pods => "pods",
            Law::Range => "range",
            Law::Hold => "hold",
        })
    }
}

/// A law that a plugin broke, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin {:?} breaks the law {law} (shape {shape}, node {:?}): {}", clip(.plugin), clip(.node), clip(.detail))]
#[non_exhaustive]
pub struct LawError {
    /// The plugin's name.
    pub plugin: String,
    /// The law.
    pub law: Law,
    /// The node for which the answer was wrong; empty where it is about no single one.
    pub node: String,
    /// The shape, by its place in the list that the check was given; for permits and domain
    /// scores, the place of the context.
    pub shape: usize,
    /// The action, the expected answer, the answer.
    pub detail: String,
}
