//! Relocation: units that leave their nodes for others, and make room for no group.

use alloc::vec;
use alloc::vec::Vec;

use super::repack::{Joint, Place, Repack, pods_of};
use super::sequence::{Layout, Ordered, sequence};
use crate::place::PlaceError;
use crate::preempt::branch::TRIAL_STEPS;
use crate::state::PodId;

/// The outcome of a relocation.
#[derive(Debug)]
pub(crate) enum Relocated {
    /// The moves, in an order in which none is ever over a capacity; they are made.
    Moved(Vec<Place>),
    /// There is no layout; the pod has no room by counting.
    NoRoom(Option<PodId>),
    /// There is a layout, and no order in which its units move one after another.
    NoOrder,
    /// The budget ran out.
    Unknown,
}

/// Moves a set of atoms, closed and in ascending order, to nodes that the filters pass. Nothing stops
/// meanwhile. The transaction is left as it was unless they move. The request's group has no pods.
pub(crate) fn relocate(
    repack: &mut Repack<'_>,
    atoms: &[u32],
    steps: &mut u64,
) -> Result<Relocated, PlaceError> {
    if *steps < TRIAL_STEPS {
        *steps = 0;
        return Ok(Relocated::Unknown);
    }
    let blocks = repack.blocks(atoms);
    let pods = pods_of(&blocks);
    if let Some(pod) = repack.without_room(&pods)? {
        *steps -= 1;
        return Ok(Relocated::NoRoom(Some(pod)));
    }
    *steps -= TRIAL_STEPS;
    let places = match repack.joint_anew(&pods)? {
        Joint::Fits(places) => places,
        Joint::Never(_) => return Ok(Relocated::NoRoom(None)),
        Joint::Unknown => return Ok(Relocated::Unknown),
    };
    let layout = Layout::new(blocks, &places);
    let moving = vec![false; layout.blocks.len()];
    let moves = match sequence(repack, &layout, &moving, steps)? {
        Ordered::Found(moves) => moves,
        Ordered::Never => return Ok(Relocated::NoOrder),
        Ordered::Unknown => return Ok(Relocated::Unknown),
    };
    let moves: Vec<Place> = moves.into_iter().filter(|place| !repack.stays(place)).collect();
    let leaving: Vec<_> = moves.iter().map(|place| place.pod).collect();
    repack.evict(&leaving)?;
    for place in &moves {
        repack.put(place)?;
    }
    Ok(Relocated::Moved(moves))
}
