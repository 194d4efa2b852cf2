//! Plans: a topology request resolved to levels of a tree.
//!
//! Source: Kueue's `tas_flavor_snapshot.go` (level keys, slice sizes by level).

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::input::{KueuePodSet, SliceLayer};
use super::tree::Tree;
use crate::framework::KueueGates;
use crate::place::failure::Failure;

/// A request with its levels looked up.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a request")]
pub(super) struct Plan {
    /// Pods, without the leader.
    pub(super) count: i64,
    /// 1 if a leader is placed along, else 0.
    pub(super) leaders: i64,
    /// The level to start the search at.
    pub(super) level: usize,
    pub(super) required: bool,
    pub(super) unconstrained: bool,
    /// Pods in a slice of the outermost layer; 1 without slices.
    pub(super) slice_size: i64,
    /// The level of the outermost layer; the finest without slices.
    pub(super) slice_level: usize,
    /// The size of the inner layer that pods are grouped by at a level, by level.
    pub(super) inner: Vec<Option<i64>>,
    /// All layers, if there is more than one: level and size.
    pub(super) layers: Vec<(usize, i64)>,
    /// Whether domains with least free capacity come first.
    pub(super) least_free: bool,
    /// Whether the affinity score takes precedence over capacity.
    pub(super) by_score: bool,
}

impl Plan {
    pub(super) fn slices(&self) -> i64 {
        self.count / self.slice_size
    }

    /// Looks up the levels of `pod_set`, of which `count` pods are placed in the given slices.
    pub(super) fn new(
        tree: &Tree,
        gates: KueueGates,
        pod_set: &KueuePodSet,
        slices: &[SliceLayer],
        count: u32,
        leader: bool,
    ) -> Result<Plan, Failure> {
        let finest = tree.levels.len() - 1;
        let slice_size = slices.first().map_or(Ok(1), size_of)?;
        let (level_key, unconstrained) = level_of(tree, pod_set, slices);
        let Some(level_key) = level_key else { return Err(Failure::NoLevel) };
        let Some(level) = tree.level(level_key) else {
            return Err(Failure::UnknownLevel { level: level_key.into() });
        };
        let slice_level = match slices.first() {
            None => finest,
            Some(layer) => tree
                .level(&layer.level)
                .ok_or_else(|| Failure::UnknownSliceLevel { level: layer.level.clone() })?,
        };
        if level > slice_level {
            let level = tree.levels[slice_level].clone();
            return Err(Failure::SliceLevelAboveRequest { level, requested: level_key.into() });
        }

        let mut inner = vec![None; tree.levels.len()];
        let mut layers = Vec::new();
        if gates.multi_layer && slices.len() > 1 {
            layers.push((slice_level, slice_size));
            let (mut outer_level, mut outer_size) = (slice_level, slice_size);
            for layer in slices.iter().skip(1) {
                let name = || layer.level.clone();
                let Some(at) = tree.level(&layer.level) else {
                    return Err(Failure::UnknownSliceLevel { level: name() });
                };
                if at <= outer_level {
                    return Err(Failure::SliceLayerNotFiner { level: name() });
                }
                let size = size_of(layer)?;
                if outer_size % size != 0 {
                    let (size, outer) = (size as u32, outer_size as u32);
                    return Err(Failure::SliceLayerSize { level: name(), size, outer });
                }
                inner[outer_level + 1..=at].fill(Some(size));
                layers.push((at, size));
                (outer_level, outer_size) = (at, size);
            }
        }
        if i64::from(count) % slice_size != 0 {
            return Err(Failure::CountNotDivisible { count, size: slice_size as u32 });
        }
        Ok(Plan {
            count: i64::from(count),
            leaders: i64::from(leader),
            level,
            required: pod_set.topology.required.is_some(),
            unconstrained,
            slice_size,
            slice_level,
            inner,
            layers,
            least_free: unconstrained && gates.profile_mixed,
            by_score: gates.preferred_affinity,
        })
    }
}

/// Pods in a slice of a layer.
pub(super) fn size_of(layer: &SliceLayer) -> Result<i64, Failure> {
    match layer.size {
        Some(size) if size > 0 => Ok(i64::from(size)),
        _ => Err(Failure::NoSliceSize { level: layer.level.clone() }),
    }
}

/// The level key that a request starts from, and whether it is unconstrained.
pub(super) fn level_of<'a>(
    tree: &'a Tree,
    pod_set: &'a KueuePodSet,
    slices: &[SliceLayer],
) -> (Option<&'a str>, bool) {
    let request = &pod_set.topology;
    let named = request.required.as_deref().or(request.preferred.as_deref());
    let slices_only = named.is_none() && !slices.is_empty();
    let anywhere = request.unconstrained || request.implied;
    let key = if named.is_some() {
        named
    } else if slices_only {
        tree.levels.first().map(String::as_str)
    } else if anywhere {
        tree.levels.last().map(String::as_str)
    } else {
        None
    };
    (key, anywhere || slices_only)
}
