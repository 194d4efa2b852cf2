//! One request for nodes on the way to its answer: a chain of steps, each of which answers or leaves
//! the rest.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::autoscale::answer::{NewBlock, ScaleUp, ScaleUpClaim, ScaleUpOutcome};
use crate::autoscale::boxes::{Boxes, Searched, Verdict};
use crate::autoscale::build::{Built, Limits};
use crate::autoscale::error::AutoscaleError;
use crate::autoscale::linear::Program;
use crate::autoscale::model::{costs, unit};
use crate::autoscale::needs::Needs;
use crate::autoscale::resume::Kept;
use crate::autoscale::stage::{Ask, Block, Judged, MOST_JOINT, Stage};
use crate::autoscale::template::{NodeTemplate, Variant};
use crate::framework::Framework;
use crate::place::Planner;
use crate::state::{Cluster, Plan, Txn};

/// The filter that keeps pods off nodes that are closed.
pub(in crate::autoscale) const CLOSED: &str = "NodeUnschedulable";

/// A request that was checked.
pub(super) struct Task<'a> {
    pub(super) asks: Vec<Ask<'a>>,
    pub(super) variants: Vec<Variant>,
    pub(super) templates: Vec<NodeTemplate>,
    pub(super) limits: Limits,
    pub(super) any_layout: bool,
    pub(super) budget: u64,
}

/// A request, and the stage on which it is tried.
pub(super) struct Scaling<'s, 'a> {
    cluster: &'s Cluster,
    task: &'s Task<'a>,
    /// Steps that are left.
    steps: u64,
    stage: Stage<'s, 'a>,
    needs: Needs,
    program: Program,
    boxes: Boxes,
    costs: Vec<i128>,
}

/// A set of blocks from which the search starts.
struct Start {
    /// The set, if all groups found a place.
    built: Option<Built>,
    /// The cheapest set by counting, if it is known.
    settled: Option<Vec<u32>>,
    /// Lower bound of the cost of any set, known from an earlier answer.
    known: Option<i128>,
    /// How many groups have come and gone since an answer was made from nothing.
    changed: usize,
}

impl<'s, 'a> Scaling<'s, 'a> {
    /// A request on a transaction that equals the cluster.
    pub(super) fn new(
        cluster: &'s Cluster,
        (planner, txn): (&'s mut Planner, &'s mut Txn),
        framework: &'s Framework,
        task: &'s Task<'a>,
    ) -> Result<Scaling<'s, 'a>, AutoscaleError> {
        let groups: Vec<_> = task.asks.iter().map(|ask| (ask.group(), ask.request.now)).collect();
        let numbers = (&mut *txn, &mut *planner);
        let needs = Needs::new(numbers, framework, &groups, &task.variants)?;
        let order = order(&needs, task.any_layout);
        let stage = Stage {
            planner,
            txn,
            framework,
            asks: &task.asks,
            variants: &task.variants,
            next: vec![0; task.templates.len()],
            order,
            any_layout: task.any_layout,
        };
        let all: Vec<usize> = (0..stage.asks.len()).collect();
        let program = task.limits.program(&stage, &needs, &all);
        let high = task.limits.most(stage.variants);
        let boxes = Boxes::new(&program, vec![0; high.len()], high);
        let costs = costs(stage.variants, task.limits.unit_nodes);
        Ok(Scaling { cluster, task, steps: task.budget, stage, needs, program, boxes, costs })
    }

    /// Impossible, searched whole, built and improved, searched below that: the first that holds.
    pub(super) fn answer(
        mut self,
        kept: &mut Option<Kept>,
    ) -> Result<ScaleUpOutcome, AutoscaleError> {
        let Some(root) = self.boxes.first().map(<[f64]>::to_vec) else {
            return Ok(self.impossible());
        };
        let whole = self.is_searched_whole();
        if whole && let Some(answer) = self.searched()? {
            return Ok(answer);
        }
        let mut start = self.start(kept, &root)?;
        self.improve(&mut start)?;
        let best = self.judged(start.built.as_ref())?;
        let mut first = false;
        if let Some(built) = start.built.as_ref().filter(|_| !whole) {
            // A long list is not judged set by set: one that does not start group by group is not
            // known not to start.
            first = start.settled.as_ref() == Some(&built.counts(self.stage.variants.len()));
        } else if let Some(answer) = self.searched_below(start.built.as_ref())? {
            return Ok(answer);
        }
        let Some(best) = best else { return Ok(self.nothing()) };
        // `None` is what no bound is below.
        let least = self.boxes.least();
        let least = least.map(|least| least.max(start.known.unwrap_or(least)));
        *kept = self.kept(start, least.filter(|_| !whole)).or_else(|| kept.take());
        Ok(self.started(best, least.filter(|_| !first), first))
    }

    /// No set of blocks starts all groups: those that do not start even alone.
    fn impossible(&self) -> ScaleUpOutcome {
        let limits = &self.task.limits;
        let high = limits.most(self.stage.variants);
        let low = vec![0; high.len()];
        let alone = |group: &usize| {
            let program = limits.program(&self.stage, &self.needs, &[*group]);
            program.bound(&low, &high).is_none()
        };
        let groups = (0..self.stage.asks.len()).filter(alone);
        let groups = groups.map(|group| self.stage.asks[group].group().full_name()).collect();
        ScaleUpOutcome::Impossible { groups }
    }

    /// Whether sets are judged one by one from the start.
    fn is_searched_whole(&self) -> bool {
        let members: usize = self.stage.asks.iter().map(|ask| ask.gang.members()).sum();
        !self.task.any_layout || members <= MOST_JOINT
    }

    /// The answer of a search in the order of cost, with three quarters of the steps.
    fn searched(&mut self) -> Result<Option<ScaleUpOutcome>, AutoscaleError> {
        let part = self.steps - self.steps / 4;
        let (searched, judged) = self.search(None, part)?;
        Ok(match (searched, judged) {
            (Searched::First(_), Some(judged)) => Some(self.started(judged, None, true)),
            (Searched::Found(_), Some(judged)) => {
                Some(self.started(judged, self.boxes.least(), false))
            }
            (Searched::Nothing, _) => Some(self.nothing()),
            _ => None,
        })
    }

    /// The set of the last answer if that serves; else one that is built group by group, from the
    /// cheapest set by counting.
    fn start(&mut self, kept: &mut Option<Kept>, root: &[f64]) -> Result<Start, AutoscaleError> {
        let (task, limits) = (self.task, &self.task.limits);
        if self.closes_nodes()
            && task.any_layout
            && let Some(kept) = kept.take()
        {
            let known = (self.cluster.moment(), self.stage.framework, &*task.templates, limits);
            let on = (&mut self.stage, &mut self.needs);
            if let Some(resumed) = kept.resume(known, on, &mut self.steps)? {
                return Ok(Start {
                    built: Some(resumed.built),
                    settled: None,
                    known: resumed.least,
                    changed: resumed.changed,
                });
            }
        }
        let part = self.steps / 4;
        let settle = |steps: &mut u64| self.boxes.settle(&self.program, steps);
        let settled = within(&mut self.steps, part, settle);
        let part = self.boxes.first().unwrap_or(root);
        let parts = || part.iter().map(|n| (*n + 1e-6) as u32).collect();
        let counts: Vec<u32> = settled.clone().unwrap_or_else(parts);
        let on = (&mut self.stage, &mut self.needs);
        let built = Built::new(on, limits, &counts, &mut self.steps)?;
        Ok(Start { built, settled, known: None, changed: 0 })
    }

    /// Drops blocks that others can do without, with half of the steps, and what is not sound.
    fn improve(&mut self, start: &mut Start) -> Result<(), AutoscaleError> {
        if self.closes_nodes()
            && let Some(built) = &mut start.built
        {
            let part = self.steps / 2;
            let (on, limits) = ((&mut self.stage, &mut self.needs), &self.task.limits);
            within(&mut self.steps, part, |steps| built.improve(on, limits, &self.costs, steps))?;
        }
        start.built = start.built.take().filter(|built| built.is_sound(self.cluster));
        Ok(())
    }

    /// The set as an answer has it. If the order of groups counts, it is judged in that order.
    fn judged(&mut self, built: Option<&Built>) -> Result<Option<Judged>, AutoscaleError> {
        let Some(built) = built else { return Ok(None) };
        if !self.task.any_layout {
            let counts = built.counts(self.stage.variants.len());
            return Ok(self.stage.judge(&counts, &mut self.steps)?.ok());
        }
        let (blocks, placed) = (built.blocks.clone(), built.placed.clone());
        Ok(Some(Judged { blocks, placed, joint: None }))
    }

    /// The answer of a search among sets that cost less than the one built.
    fn searched_below(
        &mut self,
        built: Option<&Built>,
    ) -> Result<Option<ScaleUpOutcome>, AutoscaleError> {
        let limit = built.map(|built| built.cost(&self.costs));
        let (searched, judged) = self.search(limit, self.steps)?;
        let Some(judged) = judged else { return Ok(None) };
        let first = matches!(searched, Searched::First(_));
        Ok(Some(self.started(judged, self.boxes.least().filter(|_| !first), first)))
    }

    /// The set, for a list of groups that differs little from this one.
    fn kept(&self, start: Start, least: Option<i128>) -> Option<Kept> {
        let built = start.built.filter(|_| self.task.any_layout)?;
        Some(Kept {
            moment: self.cluster.moment(),
            framework: self.stage.framework.clone(),
            templates: self.task.templates.clone(),
            limits: self.task.limits.clone(),
            groups: self.stage.asks.iter().map(|ask| ask.group().clone()).collect(),
            built,
            least,
            changed: start.changed,
        })
    }

    /// The answer for a set. No set costs less than `least`, or than this one if that is `None`.
    fn started(&self, best: Judged, least: Option<i128>, first: bool) -> ScaleUpOutcome {
        let cost = best.blocks.iter().map(|block| self.costs[block.variant]).sum::<i128>();
        let price = self.price_of(cost);
        let lower_bound = least.map_or(price, |least| self.price_of(least).min(price));
        let claim = match (first, price == lower_bound) {
            (true, _) => ScaleUpClaim::First,
            (false, true) => ScaleUpClaim::Cheapest,
            (false, false) => ScaleUpClaim::Found,
        };
        let mut plans: Vec<Plan> = best.placed.into_iter().map(|placed| placed.plan).collect();
        plans.extend(best.joint);
        let blocks = new_blocks(self.stage.variants, &self.task.templates, best.blocks);
        let steps = self.task.budget - self.steps;
        ScaleUpOutcome::Start(ScaleUp { blocks, price, lower_bound, claim, plans, steps })
    }

    /// The answer if no set was found.
    fn nothing(&self) -> ScaleUpOutcome {
        match self.boxes.least() {
            None => ScaleUpOutcome::Impossible { groups: Vec::new() },
            Some(least) => ScaleUpOutcome::Exhausted { lower_bound: self.price_of(least) },
        }
    }

    fn price_of(&self, cost: i128) -> u64 {
        (cost / unit(self.task.limits.unit_nodes)) as u64
    }

    /// Whether a filter keeps pods off closed nodes, so that blocks can be tried without.
    fn closes_nodes(&self) -> bool {
        self.stage.framework.filters().iter().any(|filter| filter.name() == CLOSED)
    }

    /// A search among sets that cost less than a limit, with a part of the steps.
    fn search(
        &mut self,
        limit: Option<i128>,
        part: u64,
    ) -> Result<(Searched, Option<Judged>), AutoscaleError> {
        let mut found = None;
        let Scaling { boxes, program, stage, steps, .. } = self;
        let searched = within(steps, part, |steps| {
            boxes.run(program, limit, steps, &mut |counts, steps| {
                Ok(match stage.judge(counts, steps)? {
                    Ok(judged) => {
                        found = Some(judged);
                        Verdict::Yes
                    }
                    Err(verdict) => verdict,
                })
            })
        })?;
        Ok((searched, found))
    }
}

/// Does work that may take a part of some steps.
fn within<T>(steps: &mut u64, part: u64, work: impl FnOnce(&mut u64) -> T) -> T {
    let mut own = part;
    let done = work(&mut own);
    *steps -= part - own;
    done
}

/// The order in which groups are placed: as given, or, where any layout will do, those that are hard
/// to place first.
fn order(needs: &Needs, any_layout: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..needs.profiles.len()).collect();
    if !any_layout {
        return order;
    }
    let most =
        |dimension: usize| needs.nodes.iter().map(|node| node[dimension]).max().unwrap_or(1).max(1);
    let most: Vec<i128> = (0..needs.dimensions.len()).map(|d| i128::from(most(d))).collect();
    // In millionths of the largest node: of the dimension of which most is taken.
    let share = |amounts: &[i64]| {
        let parts = amounts.iter().zip(&most).skip(1);
        parts.map(|(amount, most)| i128::from(*amount) * 1_000_000 / most).max().unwrap_or(0)
    };
    let rank = |group: &usize| {
        let profile = &needs.profiles[*group];
        let shapes = profile.leaves.iter().flat_map(|leaf| &leaf.counts);
        let largest = shapes.map(|(shape, _)| share(&needs.shapes[*shape].ask)).max();
        let confined = !profile.confined.is_empty();
        (Reverse(confined), Reverse(largest), Reverse(share(&profile.least)), *group)
    };
    order.sort_by_cached_key(rank);
    order
}

/// The blocks as they are answered, by the order of templates.
fn new_blocks(
    variants: &[Variant],
    templates: &[NodeTemplate],
    mut blocks: Vec<Block>,
) -> Vec<NewBlock> {
    blocks.sort_by_key(|block| block.variant);
    let named = |block: Block| {
        let variant = &variants[block.variant];
        NewBlock {
            template: templates[variant.template].name().into(),
            price: variant.price,
            nodes: block.nodes.to_vec(),
        }
    };
    blocks.into_iter().map(named).collect()
}
