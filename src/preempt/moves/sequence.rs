//! The order of moves: one block after another, so that each finds its room free when it comes.
//!
//! The blocks that have moved determine the state of the cluster. So a search need not come to the
//! same blocks twice by different orders.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::repack::{Block, Place, Repack};
use crate::place::PlaceError;

/// The blocks that are laid out, and where their pods go.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) blocks: Vec<Block>,
    /// By block: the places of its pods, in the order in which filters passed them.
    pub(crate) places: Vec<Vec<Place>>,
}

impl Layout {
    /// The layout of blocks whose pods have these places.
    pub(crate) fn new(blocks: Vec<Block>, places: &[Place]) -> Layout {
        let of = |block: &Block| {
            let own = places.iter().filter(|place| block.pods.contains(&place.pod));
            own.cloned().collect()
        };
        Layout { places: blocks.iter().map(of).collect(), blocks }
    }
}

/// An order that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ordered<T> {
    Found(Vec<T>),
    Never,
    /// The budget ran out.
    Unknown,
}

/// An order in which `apply` does so many items, one after another; each that cannot be done leaves
/// the transaction as it was. What was done is not taken back.
fn order(
    repack: &mut Repack<'_>,
    count: usize,
    steps: &mut u64,
    apply: &dyn Fn(&mut Repack<'_>, usize) -> Result<bool, PlaceError>,
) -> Result<Ordered<usize>, PlaceError> {
    let mut done = vec![false; count];
    // What was done, with the changes before it.
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(count);
    let mut visited: BTreeSet<Vec<bool>> = BTreeSet::new();
    let mut next = 0;
    while order.len() < count {
        let mut taken = None;
        for item in next..count {
            if core::mem::replace(&mut done[item], true) {
                continue;
            }
            let known = visited.contains(&done);
            done[item] = false;
            if known {
                continue;
            }
            if *steps == 0 {
                return Ok(Ordered::Unknown);
            }
            *steps -= 1;
            let before = repack.txn.changes();
            if apply(repack, item)? {
                taken = Some((item, before));
                break;
            }
        }
        if let Some((item, before)) = taken {
            done[item] = true;
            visited.insert(done.clone());
            order.push((item, before));
            next = 0;
            continue;
        }
        let Some((item, before)) = order.pop() else { return Ok(Ordered::Never) };
        repack.txn.rollback_to(before)?;
        done[item] = false;
        next = item + 1;
    }
    Ok(Ordered::Found(order.into_iter().map(|(item, _)| item).collect()))
}

/// An order in which the blocks that do not stop move one after another, on a transaction that those
/// that stop have left. The transaction is left as it was.
pub(crate) fn sequence(
    repack: &mut Repack<'_>,
    layout: &Layout,
    stops: &[bool],
    steps: &mut u64,
) -> Result<Ordered<Place>, PlaceError> {
    let moving: Vec<usize> = (0..layout.blocks.len()).filter(|&at| !stops[at]).collect();
    let before = repack.txn.changes();
    let found = order(repack, moving.len(), steps, &|repack, item| {
        Ok(step(repack, &layout.places[moving[item]])?.is_some())
    });
    repack.txn.rollback_to(before)?;
    let order = match found? {
        Ordered::Found(order) => order,
        Ordered::Never => return Ok(Ordered::Never),
        Ordered::Unknown => return Ok(Ordered::Unknown),
    };
    // Once more, for the order of pods within each.
    let mut all = Vec::new();
    for item in order {
        all.extend(step(repack, &layout.places[moving[item]])?.unwrap_or_default());
    }
    repack.txn.rollback_to(before)?;
    Ok(Ordered::Found(all))
}

/// Steps that the order of the pods of one block may take.
const INSIDE: u64 = 4_096;

/// Moves one block: its pods find room one by one, in the order returned, and the filters pass them
/// where all of them have left. `None` if it cannot; the transaction is as it was then.
pub(crate) fn step(
    repack: &mut Repack<'_>,
    places: &[Place],
) -> Result<Option<Vec<Place>>, PlaceError> {
    let before = repack.txn.changes();
    let mut sequence: Vec<usize> = vec![0; places.len().min(1)];
    if places.len() > 1 {
        let mut steps = INSIDE.max((places.len() * places.len()) as u64);
        let found = order(repack, places.len(), &mut steps, &|repack, item| {
            let before = repack.txn.changes();
            repack.evict(&[places[item].pod])?;
            if repack.has_room(&places[item]) {
                repack.put(&places[item])?;
                return Ok(true);
            }
            repack.txn.rollback_to(before)?;
            Ok(false)
        });
        repack.txn.rollback_to(before)?;
        let Ordered::Found(found) = found? else { return Ok(None) };
        sequence = found;
    }
    let pods: Vec<_> = places.iter().map(|place| place.pod).collect();
    repack.evict(&pods)?;
    for place in places {
        if !repack.passes(place) {
            repack.txn.rollback_to(before)?;
            return Ok(None);
        }
        repack.put(place)?;
    }
    Ok(Some(sequence.into_iter().map(|item| places[item].clone()).collect()))
}
