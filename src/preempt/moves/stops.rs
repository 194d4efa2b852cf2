//! Stops: the cheapest blocks that have to stop for a while, so that the others can move one after
//! another.
//!
//! Blocks that stop leave first and start last, when the others have moved: nothing makes more room
//! for the others. The sets of blocks that may stop are tried cheapest first, for the layout that was
//! found, and then for every other layout, until the budget of steps runs out.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::repack::{Block, Joint, Place, Repack, pods_of};
use super::sequence::{Layout, Ordered, sequence, step};
use crate::model::{PodGroup, PodShape, TopologyRequest};
use crate::place::PlaceError;
use crate::preempt::cost::Cost;
use crate::state::{NodeView, PodId, PodView, Row};

/// Moves in their order, and what stops meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// Moves that stop their pods last.
    pub(crate) moves: Vec<(Place, bool)>,
    pub(crate) stopped: Cost,
    /// Whether no other layout of the same units stops less.
    pub(crate) least: bool,
}

/// More blocks than these are not tried in all subsets.
const ALL_SUBSETS: usize = 10;
/// More pods than these are not laid out in all ways.
const ALL_LAYOUTS: usize = 12;

/// The moves of a layout, with as little that stops as can be, on a transaction in which nothing has
/// moved. The transaction is left as it was.
pub(crate) fn schedule(
    repack: &mut Repack<'_>,
    layout: &Layout,
    steps: &mut u64,
) -> Result<Schedule, PlaceError> {
    let count = layout.blocks.len();
    let mut sets: Vec<(Cost, Vec<bool>)> = subsets(repack, &layout.blocks);
    sets.sort();
    let mut least = count <= ALL_SUBSETS;
    let mut cheaper = Vec::new();
    for (stopped, stops) in sets {
        let before = repack.txn.changes();
        let gone = stopped_pods(&layout.blocks, &stops);
        repack.evict(&gone)?;
        let ordered = sequence(repack, layout, &stops, steps);
        repack.txn.rollback_to(before)?;
        match ordered? {
            Ordered::Found(places) => {
                let last = layout.places.iter().zip(&stops).filter(|(_, stops)| **stops);
                let last = last.flat_map(|(places, _)| places.iter().cloned());
                let moves = places.into_iter().map(|place| (place, false));
                let mut found = Schedule {
                    moves: moves.chain(last.map(|place| (place, true))).collect(),
                    stopped,
                    least,
                };
                if stopped > Cost::NOTHING {
                    let other = other_layouts(repack, &layout.blocks, &cheaper, steps)?;
                    found.least &= other.1;
                    if let Some(other) = other.0 {
                        found = Schedule { least: found.least, ..other };
                    }
                }
                return Ok(found);
            }
            Ordered::Unknown => least = false,
            Ordered::Never => {}
        }
        cheaper.push((stopped, stops));
    }
    // All of them can stop: that is the last of the sets. It is not reached but for a budget of 0.
    let all = layout.places.iter().flatten().map(|place| (place.clone(), true)).collect();
    let stopped = cost(repack, &layout.blocks, &vec![true; count]);
    Ok(Schedule { moves: all, stopped, least: false })
}

/// The sets of blocks that may stop: all of them, or of many blocks a chain of growing ones.
fn subsets(repack: &Repack<'_>, blocks: &[Block]) -> Vec<(Cost, Vec<bool>)> {
    let count = blocks.len();
    if count <= ALL_SUBSETS {
        let set = |mask: u32| (0..count).map(|at| mask & 1 << at != 0).collect::<Vec<_>>();
        let sets = (0..1_u32 << count).map(set);
        return sets.map(|stops| (cost(repack, blocks, &stops), stops)).collect();
    }
    let alone = |at: usize| {
        let stops: Vec<bool> = (0..count).map(|other| other == at).collect();
        (cost(repack, blocks, &stops), at)
    };
    let mut order: Vec<(Cost, usize)> = (0..count).map(alone).collect();
    order.sort();
    let mut stops = vec![false; count];
    let mut sets = vec![(Cost::NOTHING, stops.clone())];
    for (_, at) in order {
        stops[at] = true;
        sets.push((cost(repack, blocks, &stops), stops.clone()));
    }
    sets
}

fn cost(repack: &Repack<'_>, blocks: &[Block], stops: &[bool]) -> Cost {
    let stopped = blocks.iter().zip(stops).filter(|(_, stops)| **stops);
    let mut atoms: Vec<u32> = stopped.flat_map(|(block, _)| block.atoms.iter().copied()).collect();
    atoms.sort_unstable();
    repack.cost(&atoms)
}

/// The pods of the blocks that stop.
fn stopped_pods(blocks: &[Block], stops: &[bool]) -> Vec<PodId> {
    pods_of(blocks.iter().zip(stops).filter(|(_, stops)| **stops).map(|(block, _)| block))
}

/// The first of some sets of stops, in order, with which the same blocks move by another layout; and
/// whether all layouts were looked at.
fn other_layouts(
    repack: &mut Repack<'_>,
    blocks: &[Block],
    sets: &[(Cost, Vec<bool>)],
    steps: &mut u64,
) -> Result<(Option<Schedule>, bool), PlaceError> {
    let pods: usize = blocks.iter().map(|block| block.pods.len()).sum();
    let simple = blocks.iter().flat_map(|block| &block.pods).all(|pod| {
        let view = repack.cluster.pod_view(pod.0);
        let plain = |shape: &PodShape| shape.devices.is_empty() && shape.zones.is_empty();
        view.is_some_and(|view| plain(view.shape()))
    });
    if pods > ALL_LAYOUTS || !simple || !repack.knows_all_layouts(blocks) {
        return Ok((None, false));
    }
    let mut left = *steps / 4;
    *steps -= left;
    let rows: Vec<Row> = repack.cluster.nodes().map(NodeView::row).collect();
    let mut complete = true;
    let mut found = None;
    for (stopped, stops) in sets {
        let before = repack.txn.changes();
        repack.evict(&stopped_pods(blocks, stops))?;
        let mut walk = Walk {
            blocks,
            stops,
            rows: &rows,
            steps: &mut left,
            visited: BTreeSet::new(),
            moved: vec![Vec::new(); blocks.len()],
            order: Vec::new(),
            complete: true,
        };
        let last = walk.explore(repack);
        let (order, moved) = (walk.order, walk.moved);
        complete &= walk.complete;
        repack.txn.rollback_to(before)?;
        if let Some(last) = last? {
            let first = order.into_iter().flat_map(|at| moved[at].clone());
            let moves = first.map(|place| (place, false));
            let last = last.into_iter().map(|place| (place, true));
            let moves = moves.chain(last).collect();
            found = Some(Schedule { moves, stopped: *stopped, least: complete });
            break;
        }
    }
    *steps += left;
    Ok((found, complete))
}

/// A walk through all layouts and orders of blocks.
struct Walk<'w> {
    blocks: &'w [Block],
    stops: &'w [bool],
    rows: &'w [Row],
    steps: &'w mut u64,
    /// States met: where the pods of each block have moved to.
    visited: BTreeSet<Vec<Vec<(PodId, Row)>>>,
    moved: Vec<Vec<Place>>,
    order: Vec<usize>,
    complete: bool,
}

impl Walk<'_> {
    /// The places of what stops, once all others have moved.
    fn explore(&mut self, repack: &mut Repack<'_>) -> Result<Option<Vec<Place>>, PlaceError> {
        let state = self.moved.iter().map(|places| {
            let mut state: Vec<_> = places.iter().map(|place| (place.pod, place.row)).collect();
            state.sort_unstable();
            state
        });
        if !self.visited.insert(state.collect()) {
            return Ok(None);
        }
        // What is still to come, laid out at will: if that does not fit, no order does.
        let open: Vec<usize> = (0..self.blocks.len())
            .filter(|&at| !self.stops[at] && self.moved[at].is_empty())
            .collect();
        let before = repack.txn.changes();
        let mut rest = stopped_pods(self.blocks, self.stops);
        for &at in &open {
            repack.evict(&self.blocks[at].pods)?;
            rest.extend(&self.blocks[at].pods);
        }
        *self.steps = self.steps.saturating_sub(8);
        let joint = repack.joint(&rest);
        repack.txn.rollback_to(before)?;
        match joint? {
            Joint::Fits(places) if open.is_empty() => {
                for place in &places {
                    repack.put(place)?;
                }
                let together = repack.is_together(&pods_of(self.blocks));
                repack.txn.rollback_to(before)?;
                return Ok(together.then_some(places));
            }
            Joint::Fits(_) => {}
            Joint::Never(_) => return Ok(None),
            Joint::Unknown => {
                self.complete = false;
                return Ok(None);
            }
        }
        for at in open {
            for places in self.layouts(repack, at)? {
                if *self.steps == 0 {
                    self.complete = false;
                    return Ok(None);
                }
                *self.steps -= 1;
                let Some(ordered) = step(repack, &places)? else { continue };
                self.moved[at] = ordered;
                self.order.push(at);
                let found = self.explore(repack)?;
                if found.is_some() {
                    return Ok(found);
                }
                self.order.pop();
                self.moved[at].clear();
                repack.txn.rollback_to(before)?;
            }
        }
        Ok(None)
    }

    /// All places that the pods of a block may go to now.
    fn layouts(
        &mut self,
        repack: &mut Repack<'_>,
        at: usize,
    ) -> Result<Vec<Vec<Place>>, PlaceError> {
        let pods = &self.blocks[at].pods;
        let before = repack.txn.changes();
        repack.evict(pods)?;
        let mut layouts = vec![Vec::new()];
        for &pod in pods {
            let mut longer = Vec::new();
            for layout in layouts {
                let begin = repack.txn.changes();
                for place in &layout {
                    repack.put(place)?;
                }
                for &row in self.rows {
                    if *self.steps == 0 {
                        self.complete = false;
                        break;
                    }
                    *self.steps -= 1;
                    let place = Place { pod, row, devices: None };
                    if repack.passes(&place) {
                        let mut layout = layout.clone();
                        layout.push(place);
                        longer.push(layout);
                    }
                }
                repack.txn.rollback_to(begin)?;
            }
            layouts = longer;
        }
        repack.txn.rollback_to(before)?;
        Ok(layouts)
    }
}

impl Repack<'_> {
    /// Whether all that groups of some blocks ask of the topology is that they are within one domain.
    fn knows_all_layouts(&self, blocks: &[Block]) -> bool {
        let more = |group: &PodGroup| {
            let require = group.topology.require.clone();
            group.topology != TopologyRequest { require, ..TopologyRequest::default() }
        };
        let pods = blocks.iter().flat_map(|block| &block.pods);
        let names: Vec<&str> = pods
            .filter_map(|pod| self.cluster.pod_view(pod.0))
            .filter_map(PodView::group)
            .collect();
        !self.shells(&names).iter().any(|shell| shell.any(&more))
    }
}
