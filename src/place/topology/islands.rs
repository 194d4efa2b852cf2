//! Islands of devices as candidate domains.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::partition::Candidate;
use super::pinned::{island_home, running};
use super::tiers::keys;
use crate::framework::device_capacity;
use crate::model::{PodGroup, PodShape};
use crate::place::error::PlaceError;
use crate::state::{Cluster, DeviceNeed, DeviceTerm, LabelKey, NodeView, Row};

/// The islands of some nodes that a group may be confined to: the one with the fewest idle devices
/// first, then in the order of nodes, then of names.
///
/// A node is one domain of every level whose label it has, so what the group asks of levels is
/// that it has those. Islands that have too little for the group whatever the filters say are
/// left out if `prune` is set. O(nodes × devices).
pub(crate) fn islands(
    cluster: &Cluster,
    group: &PodGroup,
    rows: &[Row],
    prune: bool,
) -> Result<Vec<Candidate>, PlaceError> {
    let loosest = keys(cluster, &group.topology).pop().flatten();
    let key = loosest.map(|key| cluster.label_key(key));
    let home = island_home(cluster, group)?;
    let mut found = Vec::new();
    for (place, &row) in rows.iter().enumerate() {
        let Some(node) = cluster.view(row) else { continue };
        let Some(devices) = node.device_room() else { continue };
        let labelled = |key: Option<LabelKey>| key.is_some_and(|k| node.label_value(k).is_some());
        if !key.is_none_or(labelled) || home.is_some_and(|(home, _)| home != row) {
            continue;
        }
        let mut islands: Vec<DeviceTerm> =
            (0..devices.len()).filter_map(|device| devices.island(device)).collect();
        islands.sort_unstable();
        islands.dedup();
        if let Some((_, Some(home))) = home {
            islands.retain(|island| *island == home);
        }
        for island in islands {
            if prune && !may_hold(cluster, group, node, island) {
                continue;
            }
            let own = (0..devices.len()).filter(|&device| devices.island(device) == Some(island));
            let idle = own.filter(|&device| devices.is_idle(device)).count();
            found.push((idle, place, cluster.device_text(island), row, island));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, _, _, row, island)| Candidate::island(row, island)).collect())
}

/// Whether an island's devices suffice for as many pods of a leaf as are needed, one shape by
/// itself; always of a group of groups.
fn may_hold(cluster: &Cluster, group: &PodGroup, node: NodeView<'_>, island: DeviceTerm) -> bool {
    if !group.groups.is_empty() {
        return true;
    }
    let wanted = (group.policy.minimum() as usize).saturating_sub(running(cluster, group)) as u64;
    let mut most = 0_u64;
    for alike in group.pods.chunk_by(|a, b| Arc::ptr_eq(a.shape(), b.shape())) {
        let pods = alike.len() as u64;
        let room = alike
            .first()
            .and_then(|pod| confined(cluster, pod.shape(), island))
            .map_or(0, |shape| device_capacity(node, &DeviceNeed::of(cluster, &shape)));
        most = most.saturating_add(room.min(pods));
    }
    most >= wanted
}

/// A shape whose device requests stay within an island; `None` if one of them does not allow it.
pub(crate) fn confined<'a>(
    cluster: &Cluster,
    shape: &'a PodShape,
    island: DeviceTerm,
) -> Option<Cow<'a, PodShape>> {
    if shape.devices.is_empty() {
        return Some(Cow::Borrowed(shape));
    }
    let name = cluster.device_text(island);
    let mut shape = shape.clone();
    for request in &mut shape.devices {
        if !request.islands.is_empty() && !request.islands.iter().any(|allowed| allowed == name) {
            return None;
        }
        request.islands = vec![String::from(name)];
    }
    Some(Cow::Owned(shape))
}
