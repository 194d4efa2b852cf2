//! The pods of a plan, and the members of a group.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::model::{Pod, ZoneShare};
use crate::state::NodeView;

/// A pod of the plan, and where it goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'a> {
    /// The pod as the request has it.
    pub(super) pod: &'a Pod,
    pub(super) node: NodeView<'a>,
    pub(super) devices: &'a [Vec<u32>],
    pub(super) zones: &'a [ZoneShare],
}

/// A member of a group: of the plan, or one that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) node: NodeView<'a>,
    pub(super) devices: &'a [Vec<u32>],
}

impl Member<'_> {
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The members of a group at any depth.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    pub(super) planned: Vec<Member<'a>>,
    pub(super) running: Vec<Member<'a>>,
    /// Whether there are enough of them.
    pub(super) counts: bool,
}

impl<'a> Members<'a> {
    pub(super) fn all(&self) -> impl Iterator<Item = &Member<'a>> + Clone {
        self.planned.iter().chain(&self.running)
    }
}
