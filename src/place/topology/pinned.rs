//! Where running members pin a group.
//!
//! One rule holds of every strategy and of the check of certificates. A leader that runs pins the
//! sibling it leads as that one's own members do. Members that run in one
//! domain of a key leave only that one open. Members in several domains, or in none, leave none
//! open where the key is preferred, so the next tier counts; where it is required they are an
//! error, [`PlaceError::Scattered`].

use alloc::string::String;
use alloc::vec::Vec;

use super::partition::path_of;
use super::tiers::{DomainKey, DomainSense, Path};
use crate::model::PodGroup;
use crate::place::error::PlaceError;
use crate::state::{Cluster, DeviceTerm, LabelValue, PodView, Row};

/// Where running members of a group are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Home {
    /// None runs.
    Nowhere,
    /// All are in one domain.
    In(Path),
    /// They are in several domains, or in none.
    Scattered,
}

impl Home {
    /// Whether the members leave a domain open to the others.
    pub(crate) fn allows(&self, path: &[Option<LabelValue>]) -> bool {
        match self {
            Home::Nowhere => true,
            Home::In(home) => home[..] == *path,
            Home::Scattered => false,
        }
    }
}

/// Where running members of a group and of the siblings that lead it are, by one of its keys; a
/// key that the cluster does not know has no domains.
///
/// # Errors
/// [`PlaceError::Scattered`] of the required key.
pub(crate) fn home(
    cluster: &Cluster,
    (group, leaders): (&PodGroup, &[&PodGroup]),
    key: &str,
    domain_key: Option<&DomainKey>,
) -> Result<Home, PlaceError> {
    let mut home = Home::Nowhere;
    if !cluster.pods.has_groups() {
        return Ok(home);
    }
    for group in leaders.iter().copied().chain([group]) {
        group.visit(&mut |part| {
            for node in cluster.pods_of(part).filter_map(PodView::node) {
                let path = domain_key.and_then(|domain_key| path_of(node, &domain_key.keys));
                home = match (core::mem::replace(&mut home, Home::Scattered), path) {
                    (Home::Nowhere, Some(path)) => Home::In(path),
                    (Home::In(home), Some(path)) if home == path => Home::In(home),
                    _ => Home::Scattered,
                };
            }
        });
    }
    if home == Home::Scattered && group.topology.require.as_deref() == Some(key) {
        return Err(PlaceError::Scattered { group: group.full_name(), key: key.into() });
    }
    Ok(home)
}

/// Refuses a group whose running members are not in one domain of the key it requires.
///
/// # Errors
/// [`PlaceError::Scattered`]
pub(crate) fn refuse_scattered(
    cluster: &Cluster,
    sense: DomainSense,
    (group, leaders): (&PodGroup, &[&PodGroup]),
) -> Result<(), PlaceError> {
    let Some(key) = group.topology.require.as_deref() else { return Ok(()) };
    let domain_key = DomainKey::new(cluster, sense, Some(key), key);
    home(cluster, (group, leaders), key, domain_key.as_ref()).map(|_| ())
}

/// The groups inside a group that lead one of them: those that lead share the domain of the first
/// that leads no other.
pub(crate) fn leaders_of<'a>(outer: &'a PodGroup, inner: &PodGroup) -> Vec<&'a PodGroup> {
    let led = outer.groups.iter().find(|group| !group.leader);
    if led.is_none_or(|led| !core::ptr::eq(led, inner)) {
        return Vec::new();
    }
    outer.groups.iter().filter(|group| group.leader).collect()
}

/// The node, and the island if it is known, that running members of a group are on, if any run.
pub(crate) fn island_home(
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

/// Whether enough of a group runs for it to count without more.
pub(crate) fn runs(cluster: &Cluster, group: &PodGroup) -> bool {
    let minimum = group.policy.minimum() as usize;
    if group.groups.is_empty() {
        return running(cluster, group) >= minimum;
    }
    let enough = group.min_pods.is_none_or(|least| running(cluster, group) >= least as usize);
    enough && group.groups.iter().filter(|inner| runs(cluster, inner)).count() >= minimum
}
