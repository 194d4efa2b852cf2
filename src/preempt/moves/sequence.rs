//! The order of moves: one block after another, so that each finds its room free when it comes.
//!
//! Which blocks have moved says all of the state of the cluster, so a search need not come to the
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

/// An order that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ordered {
    Found(Vec<Place>),
    Never,
    /// The budget ran out.
    Unknown,
}

/// A search for an order of items, each of which is applied or found impossible.
struct Items<'s> {
    count: usize,
    steps: &'s mut u64,
}

impl Items<'_> {
    /// An order in which `apply` does all items; `undo` goes back to a number of changes.
    fn order<S>(
        &mut self,
        on: &mut S,
        apply: &dyn Fn(&mut S, usize) -> Result<bool, PlaceError>,
        (changes, undo): (&dyn Fn(&S) -> usize, &dyn Fn(&mut S, usize) -> Result<(), PlaceError>),
    ) -> Result<Option<Option<Vec<usize>>>, PlaceError> {
        let mut done = vec![false; self.count];
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(self.count);
        let mut visited: BTreeSet<Vec<bool>> = BTreeSet::new();
        let mut next = 0;
        loop {
            if order.len() == self.count {
                return Ok(Some(Some(order.into_iter().map(|(item, _)| item).collect())));
            }
            let mut taken = None;
            for item in next..self.count {
                if done[item] {
                    continue;
                }
                done[item] = true;
                let fresh = !visited.contains(&done);
                done[item] = false;
                if !fresh {
                    continue;
                }
                if *self.steps == 0 {
                    return Ok(None);
                }
                *self.steps -= 1;
                let before = changes(on);
                if apply(on, item)? {
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
            let Some((item, before)) = order.pop() else { return Ok(Some(None)) };
            undo(on, before)?;
            done[item] = false;
            next = item + 1;
        }
    }
}

fn changes(repack: &Repack<'_>) -> usize {
    repack.txn.changes()
}

fn undo(repack: &mut Repack<'_>, to: usize) -> Result<(), PlaceError> {
    Ok(repack.txn.rollback_to(to)?)
}

/// An order in which the blocks that do not stop move one after another, on a transaction that those
/// that stop have left. The transaction is left as it was.
pub(crate) fn sequence(
    repack: &mut Repack<'_>,
    layout: &Layout,
    stops: &[bool],
    steps: &mut u64,
) -> Result<Ordered, PlaceError> {
    let moving: Vec<usize> = (0..layout.blocks.len()).filter(|&at| !stops[at]).collect();
    // Pods of each block one by one.
    let mut inside: Vec<Vec<Place>> = vec![Vec::new(); layout.blocks.len()];
    let before = repack.txn.changes();
    let mut items = Items { count: moving.len(), steps };
    let found = {
        let apply = |repack: &mut Repack<'_>, item: usize| {
            Ok(step(repack, &layout.places[moving[item]])?.is_some())
        };
        items.order(repack, &apply, (&changes, &undo))
    };
    repack.txn.rollback_to(before)?;
    let order = match found? {
        None => return Ok(Ordered::Unknown),
        Some(None) => return Ok(Ordered::Never),
        Some(Some(order)) => order,
    };
    // Once more, for the order of pods within each.
    let mut all = Vec::new();
    for item in order {
        let at = moving[item];
        if let Some(places) = step(repack, &layout.places[at])? {
            inside[at] = places;
        }
        all.append(&mut inside[at]);
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
    let mut order: Vec<usize> = vec![0; places.len().min(1)];
    if places.len() > 1 {
        let mut steps = INSIDE.max((places.len() * places.len()) as u64);
        let mut items = Items { count: places.len(), steps: &mut steps };
        let apply = |repack: &mut Repack<'_>, item: usize| {
            let before = repack.txn.changes();
            repack.evict(&[places[item].pod])?;
            if repack.has_room(&places[item]) {
                repack.put(&places[item])?;
                return Ok(true);
            }
            repack.txn.rollback_to(before)?;
            Ok(false)
        };
        let found = items.order(repack, &apply, (&changes, &undo));
        repack.txn.rollback_to(before)?;
        let Some(Some(found)) = found? else { return Ok(None) };
        order = found;
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
    Ok(Some(order.into_iter().map(|item| places[item].clone()).collect()))
}
