//! The stage: a transaction to which blocks are added, and on which groups are placed for real.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::boxes::Verdict;
use super::error::AutoscaleError;
use super::template::Variant;
use crate::framework::{Framework, Strategy};
use crate::model::{GroupPolicy, Node, PodGroup};
use crate::place::gang::Gang;
use crate::place::topology::pinned::running;
use crate::place::{Outcome, PlaceError, Planner, Request, UnplacedKind};
use crate::state::{Cluster, Plan, PodId, Row, StateError, Txn};

/// Steps of a group that is placed.
pub(super) const PLACE_STEPS: u64 = 4;
/// Groups with more pods than this in all are not laid out together.
pub(super) const MOST_JOINT: usize = 96;
/// The most steps of a search for a layout of all groups together.
const JOINT_BUDGET: u64 = 20_000;

/// A group that is to start.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) request: Request<'a>,
    /// The group as far as room is made for it.
    pub(super) gang: Gang,
}

/// A block on the stage.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) variant: usize,
    pub(super) nodes: Arc<[Node]>,
    /// Where its nodes are on the stage, ascending.
    pub(super) rows: Vec<Row>,
    /// Whether it was tried in vain to do without it, and nothing on it has changed since.
    pub(super) settled: bool,
}

/// A group that is placed on the stage.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) group: usize,
    pub(super) plan: Plan,
    /// Its pods, and where each is on the stage.
    pub(super) pods: Vec<(PodId, Row)>,
}

impl Placed {
    /// Whether it has a pod on a block.
    pub(super) fn is_on(&self, block: &Block) -> bool {
        self.pods.iter().any(|(_, row)| block.rows.binary_search(row).is_ok())
    }
}

/// Blocks on the stage with which all groups start.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) blocks: Vec<Block>,
    /// The groups, placed one by one; empty where they are laid out together.
    pub(super) placed: Vec<Placed>,
    /// The layout of all groups together.
    pub(super) joint: Option<Plan>,
}

/// A state of the stage.
#[derive(Debug)]
pub(super) struct Mark {
    changes: usize,
    next: Vec<u32>,
}

/// A group that was to be placed.
#[derive(Debug)]
pub(super) enum Placing {
    Placed(Placed),
    /// There is no place for it.
    Infeasible,
    /// None was found.
    Unplaced,
}

/// The nodes that are added, and the groups that are placed.
pub(super) struct Stage<'s, 'a> {
    pub(super) planner: &'s mut Planner,
    pub(super) txn: &'s mut Txn,
    pub(super) framework: &'s Framework,
    pub(super) asks: &'s [Ask<'a>],
    pub(super) variants: &'s [Variant],
    /// By template: no number below is free.
    pub(super) next: Vec<u32>,
    /// The order in which groups are placed.
    pub(super) order: Vec<usize>,
    /// Whether any layout of all groups will do, not that alone which placing them in order finds.
    pub(super) any_layout: bool,
}

impl<'a> Ask<'a> {
    /// A group as it is asked for: with all members, if those are wanted, or as few as make it start.
    pub(super) fn new(
        cluster: &Cluster,
        request: Request<'a>,
        (all_members, any_layout): (bool, bool),
    ) -> Result<Ask<'a>, AutoscaleError> {
        request.refuse_bound(cluster)?;
        let mut gang = request.gang().map_err(PlaceError::from)?;
        if all_members || any_layout && spares(cluster, gang.group()) {
            let mut group = gang.group().clone();
            if all_members {
                want_all(cluster, &mut group);
            } else {
                let least = missing(cluster, &group);
                group.pods.truncate(least);
            }
            gang = Gang::new(group).map_err(PlaceError::from)?;
        }
        Ok(Ask { request, gang })
    }

    pub(super) fn group(&self) -> &PodGroup {
        self.gang.group()
    }
}

/// How many members lack for a group of pods to start; one at least.
fn missing(cluster: &Cluster, group: &PodGroup) -> usize {
    let minimum = group.policy.minimum() as usize;
    minimum.saturating_sub(running(cluster, group)).max(1)
}

/// Whether a group has members to spare, all of which are alike.
fn spares(cluster: &Cluster, group: &PodGroup) -> bool {
    let topology = &group.topology;
    let plain = group.groups.is_empty() && topology.slices.is_empty() && topology.spread.is_none();
    let Some(first) = group.pods.first() else { return false };
    plain
        && missing(cluster, group) < group.pods.len()
        && group
            .pods
            .iter()
            .all(|pod| pod.scheduling_gates.is_empty() && pod.shape() == first.shape())
}

/// Makes a group want all of its members.
fn want_all(cluster: &Cluster, group: &mut PodGroup) {
    let open = group.pods.iter().filter(|pod| pod.scheduling_gates.is_empty()).count();
    let count =
        if group.groups.is_empty() { open + running(cluster, group) } else { group.groups.len() };
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    group.policy = GroupPolicy::Gang { min_count: group.policy.minimum().max(count) };
    for inner in &mut group.groups {
        want_all(cluster, inner);
    }
}

impl Stage<'_, '_> {
    /// The moment to come back to.
    pub(super) fn mark(&self) -> Mark {
        Mark { changes: self.txn.changes(), next: self.next.clone() }
    }

    /// Takes back what has changed since.
    pub(super) fn back_to(&mut self, mark: &Mark) -> Result<(), AutoscaleError> {
        self.txn.rollback_to(mark.changes)?;
        self.next.clone_from(&mark.next);
        Ok(())
    }

    /// Takes back everything.
    pub(super) fn clear(&mut self) -> Result<(), AutoscaleError> {
        self.txn.rollback_to(0)?;
        self.next.fill(0);
        Ok(())
    }

    /// Adds a block of a variant, by the first number that is free.
    fn add(&mut self, variant: usize) -> Result<Block, AutoscaleError> {
        let own = &self.variants[variant];
        let next = &mut self.next[own.template];
        let mut found = Vec::new();
        while *next < u32::MAX {
            *next += 1;
            if let Some(nodes) = own.block(self.txn, *next - 1) {
                found = nodes;
                break;
            }
        }
        let rows = self.add_nodes(&found)?;
        Ok(Block { variant, nodes: found.into(), rows, settled: false })
    }

    /// Adds the nodes of a block, and returns where they are.
    pub(super) fn add_nodes(&mut self, nodes: &[Node]) -> Result<Vec<Row>, AutoscaleError> {
        let mut rows = Vec::with_capacity(nodes.len());
        for node in nodes {
            rows.push(Row::from(self.txn.add_node(node.clone())?.row));
        }
        rows.sort_unstable();
        Ok(rows)
    }

    /// Adds blocks to what is there.
    pub(super) fn add_all(&mut self, counts: &[u32]) -> Result<Vec<Block>, AutoscaleError> {
        let mut blocks = Vec::new();
        for (variant, &count) in counts.iter().enumerate() {
            for _ in 0..count {
                blocks.push(self.add(variant)?);
            }
        }
        Ok(blocks)
    }

    /// Places a group.
    pub(super) fn place(&mut self, group: usize) -> Result<Placing, AutoscaleError> {
        let ask = &self.asks[group];
        let request = ask.request.for_gang(&ask.gang);
        match self.planner.place(self.txn, self.framework, request)? {
            Outcome::Placed(plan) | Outcome::Held { plan, .. } => {
                let pods = self.apply(&plan)?;
                Ok(Placing::Placed(Placed { group, plan, pods }))
            }
            Outcome::Unplaced(unplaced) if unplaced.kind == UnplacedKind::Infeasible => {
                Ok(Placing::Infeasible)
            }
            Outcome::Unplaced(_) | Outcome::Denied { .. } => Ok(Placing::Unplaced),
        }
    }

    /// Places everything a plan places, and returns where each pod is.
    pub(super) fn apply(&mut self, plan: &Plan) -> Result<Vec<(PodId, Row)>, AutoscaleError> {
        let mut pods = Vec::with_capacity(plan.len());
        for assignment in plan.assignments() {
            let unknown = || StateError::UnknownNode(assignment.node().into());
            let row = self.txn.row_of(assignment.node()).ok_or_else(unknown)?;
            let held = assignment.held().cloned();
            pods.push((self.txn.place_with(assignment.pod(), row, held)?, row));
        }
        Ok(pods)
    }

    /// Whether a set starts all groups. The stage is left with the blocks and the groups on it.
    pub(super) fn judge(
        &mut self,
        counts: &[u32],
        steps: &mut u64,
    ) -> Result<Result<Judged, Verdict>, AutoscaleError> {
        self.clear()?;
        let mut judged = Judged { blocks: self.add_all(counts)?, placed: Vec::new(), joint: None };
        let bare = self.txn.changes();
        let alone = self.asks.len() == 1;
        for at in 0..self.order.len() {
            *steps = steps.saturating_sub(PLACE_STEPS);
            match self.place(self.order[at])? {
                Placing::Placed(placed) => judged.placed.push(placed),
                Placing::Infeasible if alone => return Ok(Err(Verdict::No)),
                Placing::Infeasible | Placing::Unplaced => break,
            }
        }
        if judged.placed.len() == self.asks.len() {
            return Ok(Ok(judged));
        }
        if !self.any_layout {
            return Ok(Err(Verdict::No));
        }
        if alone {
            return Ok(Err(Verdict::Unknown));
        }
        self.txn.rollback_to(bare)?;
        *steps = steps.saturating_sub(2 * PLACE_STEPS * self.asks.len() as u64);
        let (verdict, plan) = self.joint()?;
        judged.placed.clear();
        judged.joint = plan;
        Ok(if verdict == Verdict::Yes { Ok(judged) } else { Err(verdict) })
    }

    /// The layout of all groups together.
    fn joint(&mut self) -> Result<(Verdict, Option<Plan>), AutoscaleError> {
        let members: usize = self.asks.iter().map(|ask| ask.gang.members()).sum();
        let [first, ..] = self.asks else { return Ok((Verdict::Yes, None)) };
        if members > MOST_JOINT {
            return Ok((Verdict::Unknown, None));
        }
        // Groups that share a name, or are nested too deep, are no tree.
        let Ok(gang) = Gang::new(self.tree(first)) else { return Ok((Verdict::Unknown, None)) };
        let mut request = first.request.for_gang(&gang);
        request.budget = request.budget.min(JOINT_BUDGET);
        match self.planner.place(self.txn, self.framework, request) {
            Ok(Outcome::Placed(plan) | Outcome::Held { plan, .. }) => {
                self.apply(&plan)?;
                Ok((Verdict::Yes, Some(plan)))
            }
            Ok(Outcome::Unplaced(unplaced)) if unplaced.kind == UnplacedKind::Infeasible => {
                Ok((Verdict::No, None))
            }
            Ok(_) | Err(PlaceError::Unsupported { .. }) => Ok((Verdict::Unknown, None)),
            Err(error) => Err(error.into()),
        }
    }

    /// One group of all groups, in the order in which they are placed.
    fn tree(&self, first: &Ask<'_>) -> PodGroup {
        let count = u32::try_from(self.asks.len()).unwrap_or(u32::MAX);
        let mut root = PodGroup::gang(String::from("all pending groups"), count);
        root.namespace.clone_from(&first.group().namespace);
        root.groups = self.order.iter().map(|at| self.asks[*at].group().clone()).collect();
        root
    }
}

/// Whether any layout of all groups will do: each is searched for, among all nodes.
pub(super) fn takes_any_layout(framework: &Framework, requests: &[Request<'_>]) -> bool {
    requests.iter().all(|request| {
        let strategy = request.strategy.unwrap_or_else(|| framework.strategy());
        strategy == Strategy::Search && request.within.is_none()
    })
}
