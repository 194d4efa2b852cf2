//! Layouts: the node of each member and the domains of their groups, as every strategy returns them.

use alloc::vec::Vec;

use crate::state::plan::PlanDomain;
use crate::state::{Devices, Row};

/// Members that were placed, in order, and the domains their groups are confined to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    pub(crate) members: Vec<Member>,
    pub(crate) domains: Vec<PlanDomain>,
}

/// A member, by its place among all pods of the tree, its row, and the devices chosen for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) number: u32,
    pub(crate) row: Row,
    pub(crate) devices: Option<Devices>,
}
