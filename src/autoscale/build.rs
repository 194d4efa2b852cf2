//! Sets that are built group by group: a first answer for lists that are too large to be searched
//! whole.
//!
//! A set starts from what the linear program buys in whole blocks. The groups are placed on it one by
//! one; one that finds no place gets the cheapest blocks with which it does, by a search of its own.
//! Then blocks go again: the groups on one are placed elsewhere, if need be with cheaper blocks.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::boxes::{Boxes, Searched, Verdict};
use super::error::AutoscaleError;
use super::linear::Program;
use super::model::{Model, costs, program};
use super::needs::{Needs, Profile};
use super::stage::{Block, PLACE_STEPS, Placed, Placing, Stage};
use super::template::Variant;
use crate::state::{Cluster, Plan, Row};

/// Steps that the search for one group may take.
const REPAIR_STEPS: u64 = 400;

/// How many blocks there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    /// The number of all nodes.
    pub(super) nodes: u32,
    /// Blocks of each template.
    pub(super) templates: Vec<Option<u32>>,
    /// Cost of a price of 1; the same for all limits of a request.
    pub(super) unit_nodes: u32,
}

/// Blocks with all groups placed, some of them on these.
#[derive(Debug, Clone, Default)]
pub(super) struct Built {
    pub(super) blocks: Vec<Block>,
    /// In the order in which they were placed.
    pub(super) placed: Vec<Placed>,
}

impl Limits {
    /// The limits left beside some blocks.
    fn beside(&self, variants: &[Variant], blocks: &[Block]) -> Limits {
        let mut left = self.clone();
        for block in blocks {
            let own = &variants[block.variant];
            left.nodes = left.nodes.saturating_sub(own.nodes);
            if let Some(limit) = &mut left.templates[own.template] {
                *limit = limit.saturating_sub(1);
            }
        }
        left
    }

    /// The most blocks of each variant.
    pub(super) fn most(&self, variants: &[Variant]) -> Vec<u32> {
        let most = |variant: &Variant| {
            let limit = self.templates[variant.template].unwrap_or(u32::MAX);
            limit.min(self.nodes / variant.nodes)
        };
        variants.iter().map(most).collect()
    }

    /// The linear program of some groups within the limits.
    pub(super) fn program(
        &self,
        stage: &Stage<'_, '_>,
        needs: &Needs,
        groups: &[usize],
    ) -> Program {
        let profiles: Vec<_> = groups.iter().map(|group| &needs.profiles[*group]).collect();
        let costs = costs(stage.variants, self.unit_nodes);
        let by_value = !stage.any_layout;
        let most = self.most(stage.variants);
        let known = (needs, stage.variants);
        let covers = Model::covers(stage.txn, known, (&profiles, by_value), (&costs, &most));
        program(stage.variants, &self.templates, (self.nodes, covers), costs)
    }
}

impl Built {
    pub(super) fn cost(&self, costs: &[i128]) -> i128 {
        self.blocks.iter().map(|block| costs[block.variant]).sum()
    }

    /// A set that starts from some blocks of each variant; `None` if a group finds no place.
    pub(super) fn new(
        (stage, needs): (&mut Stage<'_, '_>, &mut Needs),
        limits: &Limits,
        start: &[u32],
        steps: &mut u64,
    ) -> Result<Option<Built>, AutoscaleError> {
        stage.clear()?;
        let mut built = Built { blocks: stage.add_all(start)?, placed: Vec::new() };
        for at in 0..stage.order.len() {
            let group = stage.order[at];
            if !built.place(stage, needs, limits, (group, None), steps)? {
                return Ok(None);
            }
        }
        built.drop_unused(stage)?;
        Ok(Some(built))
    }

    /// Places a group, with new blocks if need be, which cost less than a limit.
    pub(super) fn place(
        &mut self,
        stage: &mut Stage<'_, '_>,
        needs: &mut Needs,
        limits: &Limits,
        (group, most): (usize, Option<i128>),
        steps: &mut u64,
    ) -> Result<bool, AutoscaleError> {
        *steps = steps.saturating_sub(PLACE_STEPS);
        if let Placing::Placed(placed) = stage.place(group)? {
            self.placed.push(placed);
            return Ok(true);
        }
        needs.refresh_group(stage, group);
        let limits = limits.beside(stage.variants, &self.blocks);
        let program = limits.program(stage, needs, &[group]);
        let high = limits.most(stage.variants);
        let mut boxes = Boxes::new(&program, high.iter().map(|_| 0).collect(), high);
        let mut own = REPAIR_STEPS.min(*steps);
        let before = own;
        let mut found = None;
        let searched = boxes.run(&program, most, &mut own, &mut |counts, steps| {
            *steps = steps.saturating_sub(PLACE_STEPS);
            let before = stage.mark();
            let blocks = stage.add_all(counts)?;
            if let Placing::Placed(placed) = stage.place(group)? {
                found = Some((blocks, placed));
                return Ok(Verdict::Yes);
            }
            stage.back_to(&before)?;
            Ok(Verdict::No)
        });
        *steps -= before - own;
        let (Searched::First(_) | Searched::Found(_), Some((blocks, placed))) = (searched?, found)
        else {
            return Ok(false);
        };
        self.blocks.extend(blocks);
        self.placed.push(placed);
        Ok(true)
    }

    /// Leaves out the blocks that no group has a pod on, and closes their nodes.
    pub(super) fn drop_unused(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), AutoscaleError> {
        let mut used = alloc::vec![false; stage.txn.rows()];
        for (_, row) in self.placed.iter().flat_map(|placed| &placed.pods) {
            used[row.index()] = true;
        }
        let used = |block: &Block| block.rows.iter().any(|row| used[row.index()]);
        for node in self.blocks.iter().filter(|block| !used(block)).flat_map(|b| &*b.nodes) {
            stage.txn.cordon(&node.name)?;
        }
        self.blocks.retain(used);
        Ok(())
    }

    /// Whether all pods are on nodes of the cluster, or of blocks that are bought.
    pub(super) fn is_sound(&self, cluster: &Cluster) -> bool {
        let mut names: Vec<&str> =
            self.blocks.iter().flat_map(|block| &*block.nodes).map(|node| &*node.name).collect();
        names.sort_unstable();
        let plans = self.placed.iter().map(|placed| &placed.plan);
        plans.flat_map(Plan::assignments).all(|own| {
            names.binary_search(&own.node()).is_ok() || cluster.node(own.node()).is_some()
        })
    }

    /// Takes the groups on a block off the stage, and returns them with their places.
    fn clear(
        &mut self,
        stage: &mut Stage<'_, '_>,
        block: &Block,
    ) -> Result<Vec<(usize, Placed)>, AutoscaleError> {
        let mut gone = Vec::new();
        let mut at = 0;
        while at < self.placed.len() {
            if self.placed[at].is_on(block) {
                for (pod, _) in &self.placed[at].pods {
                    stage.txn.evict_pod(*pod)?;
                }
                let place = at + gone.len();
                gone.push((place, self.placed.remove(at)));
            } else {
                at += 1;
            }
        }
        Ok(gone)
    }

    /// Looks for blocks that can go: the groups on one are placed elsewhere, if need be with blocks
    /// that cost less. The framework must keep pods off nodes that are closed.
    pub(super) fn improve(
        &mut self,
        (stage, needs): (&mut Stage<'_, '_>, &mut Needs),
        limits: &Limits,
        costs: &[i128],
        steps: &mut u64,
    ) -> Result<(), AutoscaleError> {
        // The dearest first, and of those the emptiest.
        let mut pods = alloc::vec![0_u32; stage.txn.rows()];
        for (_, row) in self.placed.iter().flat_map(|placed| &placed.pods) {
            pods[row.index()] += 1;
        }
        let mut queue: Vec<(Reverse<i128>, u32, usize, Row)> = Vec::new();
        for (at, block) in self.blocks.iter().enumerate().filter(|(_, block)| !block.settled) {
            let pods = block.rows.iter().map(|row| pods[row.index()]).sum();
            let first = block.rows.first().copied();
            queue.extend(first.map(|first| (Reverse(costs[block.variant]), pods, at, first)));
        }
        queue.sort_unstable();
        for (.., first) in queue {
            if *steps < PLACE_STEPS {
                break;
            }
            let place = self.blocks.iter().position(|block| block.rows.first() == Some(&first));
            let Some(place) = place else { continue };
            *steps -= 1;
            let before = stage.mark();
            let most = self.cost(costs);
            let mut block = self.blocks.remove(place);
            for node in &*block.nodes {
                stage.txn.cordon(&node.name)?;
            }
            let gone = self.clear(stage, &block)?;
            let (blocks, placed) = (self.blocks.len(), self.placed.len());
            let mut better = true;
            for (_, other) in &gone {
                let left = most - self.cost(costs);
                better = better
                    && *steps > 0
                    && left > 0
                    && may_move(stage, needs, other.group, (costs, left))
                    && self.place(stage, needs, limits, (other.group, Some(left)), steps)?;
            }
            // A pod that tolerates closed nodes may have come back.
            if better && !self.placed[placed..].iter().any(|placed| placed.is_on(&block)) {
                self.drop_unused(stage)?;
                continue;
            }
            stage.back_to(&before)?;
            self.blocks.truncate(blocks);
            self.placed.truncate(placed);
            for (place, placed) in gone {
                self.placed.insert(place, placed);
            }
            block.settled = *steps > 0;
            self.blocks.insert(place, block);
        }
        Ok(())
    }

    /// How many blocks of each variant there are.
    pub(super) fn counts(&self, variants: usize) -> Vec<u32> {
        let mut counts = alloc::vec![0; variants];
        for block in &self.blocks {
            counts[block.variant] += 1;
        }
        counts
    }

    /// Takes up the new places of groups in the list, and forgets those that have none.
    pub(super) fn forget(&mut self, place: &[Option<usize>]) {
        let Built { blocks, placed } = self;
        placed.retain_mut(|placed| {
            if let Some(place) = place[placed.group] {
                placed.group = place;
                return true;
            }
            for block in blocks.iter_mut() {
                block.settled &= !placed.is_on(block);
            }
            false
        });
    }

    /// Puts the blocks and the groups on an empty stage again.
    pub(super) fn replay(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), AutoscaleError> {
        stage.clear()?;
        for block in &mut self.blocks {
            block.rows = stage.add_nodes(&block.nodes)?;
        }
        for placed in &mut self.placed {
            placed.pods = stage.apply(&placed.plan)?;
        }
        Ok(())
    }
}

/// Whether a group may find a place, by how many pods of its shapes fit: on what is there, or on what
/// costs less than a limit.
fn may_move(
    stage: &mut Stage<'_, '_>,
    needs: &mut Needs,
    group: usize,
    (costs, limit): (&[i128], i128),
) -> bool {
    needs.refresh_group(stage, group);
    let Profile { leaves, .. } = &needs.profiles[group];
    leaves.iter().all(|leaf| {
        let (mut room, mut can_grow) = (0_i64, false);
        for (shape, count) in &leaf.counts {
            let own = &needs.shapes[*shape];
            let fit = own.fits.iter().fold(0_i64, |sum, fit| sum.saturating_add(*fit));
            room = room.saturating_add(fit.min(*count));
            can_grow |= own.each.iter().zip(costs).any(|(each, cost)| *each > 0 && *cost < limit);
        }
        room >= leaf.need || can_grow
    })
}
