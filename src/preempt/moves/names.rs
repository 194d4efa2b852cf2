//! Moves by names: of an answer, and made on a transaction.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::repack::Place;
use crate::place::PlaceError;
use crate::preempt::answer::{EvictedPod, Move};
use crate::state::{Cluster, NodeView, PodView, StateError, Txn};

/// Moves as an answer has them.
pub(crate) fn named(cluster: &Cluster, moves: &[(Place, bool)]) -> Vec<Move> {
    let name = |place: &Place| cluster.view(place.row).map_or("", NodeView::name).to_string();
    moves
        .iter()
        .filter_map(|(place, stops)| {
            Some(Move {
                pod: EvictedPod::of(cluster.pod_view(place.pod.0)?),
                to: name(place),
                devices: place.devices.as_deref().unwrap_or(&[]).to_vec(),
                stops: *stops,
            })
        })
        .collect()
}

/// Makes moves on a transaction, all at once. Nothing is judged.
pub(crate) fn make(txn: &mut Txn, moves: &[Move]) -> Result<(), PlaceError> {
    let mut pods = Vec::with_capacity(moves.len());
    for Move { pod, .. } in moves {
        let known = txn.pod(&pod.namespace, &pod.name).map(PodView::to_pod);
        txn.evict(&pod.namespace, &pod.name)?;
        pods.extend(known);
    }
    for (Move { to, devices, .. }, pod) in moves.iter().zip(&pods) {
        let gone = || StateError::UnknownNode(String::from(to.as_str()));
        let row = txn.row_of(to).ok_or_else(gone)?;
        let devices = (!devices.is_empty()).then(|| devices.clone().into());
        txn.place_with(pod, row, devices)?;
    }
    Ok(())
}
