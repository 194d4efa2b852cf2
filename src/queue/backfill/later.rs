//! The planner of later times: places in a working copy of the cluster.

use alloc::sync::Arc;

use super::availability::Availability;
use super::demand::ResourceNumbers;
use super::node_profiles::{NodeProfiles, ShapeNeed};
use super::reads::Reads;
use crate::base::Time;
use crate::framework::{PermitContext, PermitVerdict};
use crate::model::{PodGroup, PodShape};
use crate::place::{Outcome, Planner};
use crate::queue::groups::QueuedGroup;
use crate::queue::terms::ids::GroupId;
use crate::state::{Cluster, Plan};

/// The planner of later times, with the copy of the nodes in which it finds room for a whole span.
/// It is apart from the planner of the world: its caches follow another cluster.
#[derive(Debug, Default)]
pub(super) struct LaterPlanner {
    planner: Planner,
    availability: Option<Availability>,
}

impl LaterPlanner {
    /// A plan for a tree in a working copy of the cluster, as at a later time.
    pub(super) fn place(
        &mut self,
        reads: Reads<'_>,
        id: GroupId,
        tree: &PodGroup,
        later: &Cluster,
        at: Time,
    ) -> Option<Plan> {
        place(&mut self.planner, reads, id, tree, later, at)
    }

    /// A plan for a group that has its place from a time to another.
    pub(super) fn place_over(
        &mut self,
        reads: Reads<'_>,
        id: GroupId,
        (at, end): (Time, Time),
        nodes: &NodeProfiles,
        numbers: &ResourceNumbers,
    ) -> Option<Plan> {
        let tree = reads.tree_of(id)?;
        let copy = self.availability.as_mut()?.over(nodes, (at, end), numbers);
        place(&mut self.planner, reads, id, &tree, copy, at)
    }

    /// Brings the copy of the nodes in step with the cluster.
    pub(super) fn read(&mut self, cluster: &Cluster, numbers: &ResourceNumbers) {
        let kept = self.availability.take();
        self.availability = Some(Availability::of(kept, cluster, numbers));
    }

    /// The need of pods of a shape, if room alone decides which nodes take them.
    pub(super) fn need(
        &mut self,
        reads: Reads<'_>,
        shape: &Arc<PodShape>,
        numbers: &mut ResourceNumbers,
    ) -> Option<ShapeNeed> {
        let own = self.availability.as_mut()?;
        own.need(shape, reads.cluster(), reads.framework(), numbers)
    }
}

/// A plan for a tree in a working copy of the cluster, as at a later time; permits judge it as of now.
fn place(
    planner: &mut Planner,
    reads: Reads<'_>,
    id: GroupId,
    tree: &PodGroup,
    later: &Cluster,
    at: Time,
) -> Option<Plan> {
    let strategy = reads.groups().get(&id).and_then(QueuedGroup::strategy);
    let world = reads.world();
    let request = world.request(tree, strategy, at);
    let outcome = planner.place(later, world.without_permits(), request);
    let Ok(Outcome::Placed(plan)) = outcome else { return None };
    let cx = PermitContext { cluster: later, group: tree, plan: &plan, now: world.now() };
    let mut permits = world.framework().permits().iter();
    let is_denied = permits.any(|own| matches!(own.permit(&cx), PermitVerdict::Deny { .. }));
    (!plan.is_empty() && !is_denied).then_some(plan)
}
