//! Sets that are built group by group: a first answer for what is too large to be searched whole.
//!
//! A set starts from what the linear program buys in whole blocks. The groups are placed on it one by
//! one; one that finds no place gets the cheapest blocks with which it does, by a search of its own.
//! Then blocks go again: the groups on one are placed elsewhere, if need be with cheaper blocks.

use alloc::vec::Vec;

use super::boxes::{Boxes, Searched, Verdict};
use super::error::AutoscaleError;
use super::linear::Program;
use super::model::{Model, costs, program};
use super::needs::Needs;
use super::stage::{Block, PLACE_STEPS, Placed, Placing, Stage};
use super::template::Variant;
use crate::state::{Cluster, Plan};

/// Steps that the search for one group may take.
const REPAIR_STEPS: u64 = 400;

/// How many blocks there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    /// Nodes in all.
    pub(super) nodes: u32,
    /// Blocks of each template.
    pub(super) templates: Vec<Option<u32>>,
    /// What a price of 1 is in costs; the same for all limits of a request.
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
    /// What is left of them beside some blocks.
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
        stage.txn.rollback_to(0)?;
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
        let ask = &stage.asks[group];
        needs.refresh(
            (stage.txn, stage.planner),
            stage.framework,
            (ask.group(), ask.request.now),
            group,
        );
        let limits = limits.beside(stage.variants, &self.blocks);
        let program = limits.program(stage, needs, &[group]);
        let high = limits.most(stage.variants);
        let mut boxes = Boxes::new(&program, high.iter().map(|_| 0).collect(), high);
        let mut own = REPAIR_STEPS.min(*steps);
        let before = own;
        let mut found = None;
        let searched = boxes.run(&program, most, &mut own, &mut |counts, steps| {
            *steps = steps.saturating_sub(PLACE_STEPS);
            let before = stage.txn.changes();
            let blocks = stage.add_all(counts)?;
            if let Placing::Placed(placed) = stage.place(group)? {
                found = Some((blocks, placed));
                return Ok(Verdict::Yes);
            }
            stage.txn.rollback_to(before)?;
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

    /// Whether a group has a pod on a block.
    fn is_on(placed: &Placed, block: &Block) -> bool {
        let mut assignments = placed.plan.assignments();
        assignments.any(|own| block.nodes.iter().any(|node| node.name == own.node()))
    }

    /// Leaves out the blocks that no group has a pod on, and closes their nodes.
    pub(super) fn drop_unused(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), AutoscaleError> {
        let placed = &self.placed;
        let unused = |block: &Block| !placed.iter().any(|placed| Built::is_on(placed, block));
        for node in self.blocks.iter().filter(|block| unused(block)).flat_map(|block| &block.nodes)
        {
            stage.txn.cordon(&node.name)?;
        }
        self.blocks.retain(|block| !unused(block));
        Ok(())
    }

    /// Whether all pods are on nodes of the cluster, or of blocks that are bought.
    pub(super) fn is_sound(&self, cluster: &Cluster) -> bool {
        let mut names: Vec<&str> =
            self.blocks.iter().flat_map(|block| &block.nodes).map(|node| &*node.name).collect();
        names.sort_unstable();
        let plans = self.placed.iter().map(|placed| &placed.plan);
        plans.flat_map(Plan::assignments).all(|own| {
            names.binary_search(&own.node()).is_ok() || cluster.node(own.node()).is_some()
        })
    }

    /// Takes groups off the stage.
    pub(super) fn remove(
        &mut self,
        stage: &mut Stage<'_, '_>,
        goes: &dyn Fn(&Placed) -> bool,
    ) -> Result<Vec<usize>, AutoscaleError> {
        let mut gone = Vec::new();
        for placed in &self.placed {
            if goes(placed) {
                for pod in &placed.pods {
                    stage.txn.evict_pod(*pod)?;
                }
                gone.push(placed.group);
            }
        }
        self.placed.retain(|placed| !gone.contains(&placed.group));
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
        let pods = |built: &Built, block: &Block| -> usize {
            let plans = built.placed.iter().map(|placed| &placed.plan);
            let is_on = |node: &str| block.nodes.iter().any(|own| own.name == node);
            plans.flat_map(Plan::assignments).filter(|own| is_on(own.node())).count()
        };
        let mut queue: Vec<(core::cmp::Reverse<i128>, usize, usize)> = (0..self.blocks.len())
            .map(|at| {
                let block = &self.blocks[at];
                (core::cmp::Reverse(costs[block.variant]), pods(self, block), at)
            })
            .collect();
        queue.sort_unstable();
        let blocks: Vec<Block> = queue.iter().map(|(.., at)| self.blocks[*at].clone()).collect();
        for block in blocks {
            if *steps < PLACE_STEPS {
                break;
            }
            let before = stage.txn.changes();
            let mut other = self.clone();
            other.blocks.retain(|own| own.nodes[0].name != block.nodes[0].name);
            if other.blocks.len() == self.blocks.len() {
                continue;
            }
            for node in &block.nodes {
                stage.txn.cordon(&node.name)?;
            }
            let gone = other.remove(stage, &|placed| Built::is_on(placed, &block))?;
            let most = self.cost(costs);
            let mut better = true;
            for group in gone {
                let left = most - other.cost(costs);
                let own = (group, Some(left));
                better = better
                    && *steps > 0
                    && left > 0
                    && other.place(stage, needs, limits, own, steps)?;
            }
            // A pod that tolerates closed nodes may have come back.
            other.drop_unused(stage)?;
            better &= !other.placed.iter().any(|placed| Built::is_on(placed, &block));
            if better && other.cost(costs) < most {
                *self = other;
            } else {
                stage.txn.rollback_to(before)?;
            }
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

    /// Puts the blocks and the groups on an empty stage again.
    pub(super) fn replay(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), AutoscaleError> {
        stage.txn.rollback_to(0)?;
        for node in self.blocks.iter().flat_map(|block| &block.nodes) {
            stage.txn.add_node(node.clone())?;
        }
        for placed in &mut self.placed {
            placed.pods = stage.apply(&placed.plan)?;
        }
        Ok(())
    }
}
