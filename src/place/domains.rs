//! The candidate domains of a group.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::error::PlaceError;
use crate::model::PodGroup;
use crate::state::{Cluster, LabelKey, LabelValue, Row};

/// One candidate: rows to place a group on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The label value; `None` where the group is not confined further.
    pub(crate) value: Option<LabelValue>,
    /// In the order of ties.
    rows: Vec<Row>,
}

impl Candidate {
    /// Everything there is.
    pub(crate) fn whole() -> Candidate {
        Candidate { value: None, rows: Vec::new() }
    }

    /// The rows of the candidate, within those of its parent; `None` means all.
    pub(crate) fn rows<'a>(&'a self, parent: Option<&'a [Row]>) -> Option<&'a [Row]> {
        if self.value.is_some() { Some(&self.rows) } else { parent }
    }
}

/// The tiers of a group, best first: label keys of which one value is to hold all members;
/// `None` confines nothing.
///
/// A requirement is one tier. A preference is a tier for its own level and one for each level
/// above, up to the highest allowed, the required one, or the whole.
pub(crate) fn tiers<'a>(
    cluster: &'a Cluster,
    group: &'a PodGroup,
) -> SmallVec<[Option<&'a str>; 2]> {
    let topology = &group.topology;
    let mut keys: SmallVec<[Option<&str>; 2]> = SmallVec::new();
    if let Some(prefer) = &topology.prefer {
        keys.push(Some(prefer));
        let stop = topology.highest.as_deref().or(topology.require.as_deref());
        if stop != Some(prefer) {
            let levels: Vec<&str> = cluster.levels().collect();
            let own = levels.iter().position(|level| level == prefer).unwrap_or(0);
            for level in levels[..own].iter().rev() {
                keys.push(Some(level));
                if Some(*level) == stop {
                    break;
                }
            }
        }
    }
    match &topology.require {
        Some(require) if !keys.contains(&Some(require)) => keys.push(Some(require)),
        None if topology.prefer.is_none() || topology.highest.is_none() => keys.push(None),
        _ => {}
    }
    keys
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
            rows: part.iter().map(|(_, _, row)| *row).collect(),
        })
        .collect();
    candidates.sort_by_key(|candidate| candidate.value.map(|value| cluster.label_text(value)));
    candidates
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
        for node in cluster
            .group_pods(&part.full_name())
            .filter_map(super::super::state::view::PodView::node)
        {
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
    group.visit(&mut |part| {
        running += cluster.group_pods(&part.full_name()).filter(|pod| pod.node().is_some()).count();
    });
    running
}
