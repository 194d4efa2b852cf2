//! The owners that tenancy reads.

use crate::queue::groups::Groups;
use crate::queue::holds::Holds;
use crate::queue::removals::Removals;
use crate::queue::world::World;

/// The owners that tenancy reads.
#[derive(Clone, Copy)]
pub(in crate::queue) struct Owners<'a> {
    pub(in crate::queue) world: &'a World,
    pub(in crate::queue) groups: &'a Groups,
    pub(in crate::queue) holds: &'a Holds,
    pub(in crate::queue) removals: &'a Removals,
}
