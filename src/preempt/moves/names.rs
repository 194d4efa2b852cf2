//! Moves by names: of an answer, and made on a transaction.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::repack::Place;
use crate::base::ObjectName;
use crate::model::PodGroup;
use crate::place::PlaceError;
use crate::preempt::answer::{EvictedPod, Move};
use crate::preempt::unit::Units;
use crate::state::{Cluster, Devices, NodeView, PodId, PodView, StateError, Txn};

/// Moves of a set of atoms as an answer has them.
pub(crate) fn named(
    cluster: &Cluster,
    (units, atoms): (&Units, &[u32]),
    moves: &[(Place, bool)],
) -> Vec<Move> {
    let name = |place: &Place| cluster.view(place.row).map_or("", NodeView::name).to_string();
    let names = unit_names(cluster, units, atoms);
    moves
        .iter()
        .filter_map(|(place, stops)| {
            Some(Move {
                pod: EvictedPod::of(cluster.pod_view(place.pod.0)?),
                unit: names.get(&place.pod).cloned().unwrap_or_else(|| ObjectName::new("", "")),
                to: name(place),
                devices: place.devices.as_deref().unwrap_or(&[]).to_vec(),
                zone_shares: place.devices.as_ref().map_or(&[][..], Devices::zones).to_vec(),
                stops: *stops,
            })
        })
        .collect()
}

/// Names of the units that the pods of some atoms move with. Atoms that fall together have the name
/// of the group that falls.
fn unit_names(cluster: &Cluster, units: &Units, atoms: &[u32]) -> BTreeMap<PodId, ObjectName> {
    let mut taken = alloc::vec![false; units.atoms.len()];
    for &atom in atoms {
        taken[atom as usize] = true;
    }
    let mut names = BTreeMap::new();
    for &atom in atoms {
        let (together, fallen) = units.moves_with(atom, &taken);
        let whole = units.atoms[atom as usize].whole;
        let own = || whole.then(|| units.group_of(atom as usize)).flatten();
        let group = fallen.filter(|_| together.len() > 1).or_else(own);
        for pod in units.pods_of(cluster, atom as usize) {
            let alone = || ObjectName::new(pod.namespace(), pod.name());
            let name = group.map_or_else(alone, PodGroup::full_name);
            names.insert(pod.id(), name);
        }
    }
    names
}

/// Makes moves on a transaction, all at once. Nothing is judged.
pub(crate) fn make(txn: &mut Txn, moves: &[Move]) -> Result<(), PlaceError> {
    let mut pods = Vec::with_capacity(moves.len());
    for Move { pod, .. } in moves {
        let known = txn.pod(&pod.namespace, &pod.name).map(PodView::to_pod);
        txn.evict(&pod.namespace, &pod.name)?;
        pods.extend(known);
    }
    for (Move { to, devices, zone_shares, .. }, pod) in moves.iter().zip(&pods) {
        let gone = || StateError::UnknownNode(String::from(to.as_str()));
        let row = txn.row_of(to).ok_or_else(gone)?;
        let devices = Devices::new(devices.clone(), Vec::new(), zone_shares.clone());
        txn.place_with(pod, row, devices)?;
    }
    Ok(())
}
