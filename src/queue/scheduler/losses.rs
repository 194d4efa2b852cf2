//! Members that failing nodes took, and members that come back.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::model::Effect;
use crate::queue::groups::{Groups, MemberState, full_name};
use crate::queue::removals::Removals;
use crate::queue::terms::ids::GroupId;
use crate::queue::world::World;
use crate::state::{NodeView, PodView};

/// Members on a node that is gone count as lost.
pub(super) fn note_lost(groups: &mut Groups, members: &[(GroupId, u64)]) {
    let mut lost: BTreeMap<GroupId, u32> = BTreeMap::new();
    for &(id, seq) in members {
        let member = groups.find(id, seq);
        if member.is_some_and(|own| own.state() == MemberState::Bound) {
            *lost.entry(id).or_default() += 1;
        }
    }
    for (id, count) in lost {
        if let Some(queued) = groups.get_mut(&id) {
            queued.lose(count);
        }
    }
}

/// Whether a member runs on a node that repels pods that run there, and nobody had it evicted.
pub(super) fn is_on_failing_node(
    (world, removals): (&World, &Removals),
    groups: &Groups,
    id: GroupId,
    seq: u64,
) -> bool {
    let Some(member) = groups.find(id, seq).filter(|member| member.runs()) else { return false };
    let pod = member.pod();
    let view = world.cluster().pod(pod.namespace(), &pod.name);
    let fails =
        |node: NodeView<'_>| node.taints().iter().any(|taint| taint.effect == Effect::NoExecute);
    view.and_then(PodView::node).is_some_and(fails)
        && removals.of_pod(&full_name(pod)).next().is_none()
}

/// A member leaves its node: it counts as lost if that fails.
pub(super) fn note_left(known: (&World, &Removals), groups: &mut Groups, id: GroupId, seq: u64) {
    if is_on_failing_node(known, groups, id, seq)
        && let Some(queued) = groups.get_mut(&id)
    {
        queued.lose(1);
    }
}

/// Members run again, or others in their place.
pub(super) fn note_back(groups: &mut Groups, id: GroupId, count: usize) {
    if let Some(queued) = groups.get_mut(&id) {
        queued.regain(u32::try_from(count).unwrap_or(u32::MAX));
    }
}

/// Number of members of groups that run.
pub(super) fn running_of(groups: &Groups, of: &BTreeSet<GroupId>) -> BTreeMap<GroupId, usize> {
    of.iter().filter_map(|id| Some((*id, groups.get(id)?.members().running()))).collect()
}
