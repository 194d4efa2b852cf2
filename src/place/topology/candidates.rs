//! The candidate domains of a group.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::framework::device_capacity;
use crate::model::{IslandRule, PodGroup, PodShape};
use crate::place::error::PlaceError;
use crate::state::{Cluster, DeviceNeed, DeviceTerm, LabelKey, LabelValue, NodeView, Row};

/// One candidate: rows to place a group on, and an island that its devices stay within.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The label value; `None` where the group is not confined further, or to an island.
    pub(crate) value: Option<LabelValue>,
    /// The island, of the only row.
    pub(crate) island: Option<DeviceTerm>,
    /// `None` where the group is not confined further.
    rows: Option<Arc<Vec<Row>>>,
}

impl Candidate {
    /// Everything there is.
    pub(crate) const fn whole() -> Candidate {
        Candidate { value: None, island: None, rows: None }
    }

    /// An island of a row.
    pub(crate) fn island(row: Row, island: DeviceTerm) -> Candidate {
        Candidate { value: None, island: Some(island), rows: Some(Arc::new(vec![row])) }
    }

    /// The rows of the candidate, within those of its parent; `None` means all.
    pub(crate) fn rows<'a>(&'a self, parent: Option<&'a [Row]>) -> Option<&'a [Row]> {
        self.rows.as_ref().map_or(parent, |rows| Some(rows))
    }
}

/// What one candidate is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tier {
    /// An island of a node.
    Island,
    /// The nodes with one value of a label key.
    Label(String),
    /// Not confined.
    Whole,
}

/// The tiers of a group, best first.
///
/// A requirement is one tier. A preference is a tier for its own level and one for each level
/// above, up to the highest allowed, the required one, or the whole. An island that is required is
/// the only tier, one that is preferred comes before all others.
pub(crate) fn tiers(cluster: &Cluster, group: &PodGroup) -> SmallVec<[Tier; 2]> {
    let mut tiers = levels(cluster, group);
    if group.wants_island() {
        if group.topology.island == IslandRule::Required {
            tiers.clear();
        }
        tiers.insert(0, Tier::Island);
    }
    tiers
}

/// The tiers of a group but for islands.
fn levels(cluster: &Cluster, group: &PodGroup) -> SmallVec<[Tier; 2]> {
    let topology = &group.topology;
    let mut tiers: SmallVec<[Tier; 2]> = SmallVec::new();
    if let Some(prefer) = &topology.prefer {
        tiers.push(Tier::Label(prefer.clone()));
        let stop = topology.highest.as_deref().or(topology.require.as_deref());
        if stop != Some(prefer) {
            let levels: Vec<&str> = cluster.levels().collect();
            let own = levels.iter().position(|level| level == prefer).unwrap_or(0);
            for level in levels[..own].iter().rev() {
                tiers.push(Tier::Label(String::from(*level)));
                if Some(*level) == stop {
                    break;
                }
            }
        }
    }
    match &topology.require {
        Some(require) => {
            let require = Tier::Label(require.clone());
            if !tiers.contains(&require) {
                tiers.push(require);
            }
        }
        None if topology.prefer.is_none() || topology.highest.is_none() => tiers.push(Tier::Whole),
        None => {}
    }
    tiers
}

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
    let loosest = match levels(cluster, group).pop() {
        Some(Tier::Label(key)) => Some(key),
        _ => None,
    };
    let key = loosest.as_deref().map(|key| cluster.label_key(key));
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

/// The node, and the island if it is known, that running members of a group are on, if any run.
fn island_home(
    cluster: &Cluster,
    group: &PodGroup,
) -> Result<Option<(Row, Option<DeviceTerm>)>, PlaceError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut islands: Vec<Option<DeviceTerm>> = Vec::new();
    group.visit(&mut |part| {
        for pod in cluster.pods_of(part) {
            let Some(node) = pod.node() else { continue };
            rows.push(node.row());
            let Some(devices) = node.device_room() else { continue };
            let held = pod.device_indexes().iter().flatten().map(|&device| device as usize);
            islands.extend(held.filter(|&at| at < devices.len()).map(|at| devices.island(at)));
        }
    });
    let one = rows.iter().all(|row| Some(row) == rows.first())
        && islands.iter().all(|island| island.is_some() && Some(island) == islands.first());
    if !one {
        let (group, key) = (group.full_name(), String::from("island"));
        return Err(PlaceError::Scattered { group, key });
    }
    Ok(rows.first().map(|&row| (row, islands.first().copied().flatten())))
}

/// All rows that are nodes, in the order of ties.
pub(crate) fn all_rows(cluster: &Cluster) -> Vec<Row> {
    cluster.nodes().map(NodeView::row).collect()
}

/// The parts that a label's values make of `rows`, in order of value. Rows without it are left
/// out.
pub(crate) fn partition(cluster: &Cluster, rows: &[Row], key: LabelKey) -> Vec<Candidate> {
    let mut places: Vec<(LabelValue, usize, Row)> = rows
        .iter()
        .enumerate()
        .filter_map(|(place, &row)| Some((cluster.view(row)?.label_value(key)?, place, row)))
        .collect();
    places.sort_unstable();
    let mut candidates: Vec<Candidate> = places
        .chunk_by(|a, b| a.0 == b.0)
        .map(|part| Candidate {
            value: part.first().map(|(value, _, _)| *value),
            island: None,
            rows: Some(Arc::new(part.iter().map(|(_, _, row)| *row).collect())),
        })
        .collect();
    candidates.sort_by_key(|candidate| candidate.value.map(|value| cluster.label_text(value)));
    candidates
}

/// The parts that a level's values make of all nodes, in order of value; `None` if the label is no
/// level. Rows are in no particular order.
pub(crate) fn level_partition(cluster: &Cluster, key: LabelKey) -> Option<Arc<[Candidate]>> {
    let parts = cluster.level_parts.parts(key)?.iter();
    let candidates = parts.map(|part| Candidate {
        value: Some(part.value),
        island: None,
        rows: Some(Arc::clone(&part.rows)),
    });
    Some(candidates.collect())
}

/// The domain that running members of a group are in, if any run.
pub(crate) fn home(
    cluster: &Cluster,
    group: &PodGroup,
    key: &str,
) -> Result<Option<LabelValue>, PlaceError> {
    let scattered = || PlaceError::Scattered { group: group.full_name(), key: key.into() };
    let id = cluster.label_key(key);
    let mut home = None;
    let mut error = None;
    group.visit(&mut |part| {
        for node in cluster.pods_of(part).filter_map(crate::state::view::PodView::node) {
            let value = id.and_then(|id| node.label_value(id));
            if value.is_none() || home.is_some_and(|home| Some(home) != value) {
                error = Some(scattered());
            }
            home = home.or(value);
        }
    });
    error.map_or(Ok(home), Err)
}

/// How many pods of a group, or of a leaf inside it, run.
pub(crate) fn running(cluster: &Cluster, group: &PodGroup) -> usize {
    let mut running = 0;
    if !cluster.pods.has_groups() {
        return running;
    }
    group.visit(&mut |part| {
        running += cluster.pods_of(part).filter(|pod| pod.node().is_some()).count();
    });
    running
}
