//! The front door: which nodes to add, and which can go.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::answer::{NewBlock, ScaleUp, ScaleUpClaim, ScaleUpOutcome};
use super::boxes::{Boxes, Searched, Verdict};
use super::build::{Built, Limits};
use super::error::AutoscaleError;
use super::linear::Program;
use super::model::{costs, unit};
use super::needs::Needs;
use super::request::ScaleUpRequest;
use super::resume::Kept;
use super::stage::{Ask, Block, Judged, MOST_JOINT, Stage, takes_any_layout};
use super::template::{NodeTemplate, Variant, variants};
use crate::framework::Framework;
use crate::place::Planner;
use crate::state::journal::Moment;
use crate::state::{Cluster, Plan, Txn};

/// A planner of nodes: answers requests, with what it keeps between them.
///
/// It tries nodes in one transaction that it rolls back, so the planner's warm results of the
/// cluster survive. A list of many groups that has changed by a few since the last request starts
/// from the last answer. The groups that stayed keep their places, and the bound is counted anew.
/// So a set that is [`Found`](ScaleUpClaim::Found) may depend on the requests before, though its
/// claim holds in any case. A set that is [`First`](ScaleUpClaim::First) is always the same.
///
/// ```
/// use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleUpRequest};
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup};
///
/// let mut cluster = Cluster::builder().levels(["rack"]).build()?;
/// cluster.add_node(Node::new("n1").capacity("gpu", 8).label("rack", "r1"))?;
/// let worker = Pod::new().request("gpu", 8);
/// let gang = PodGroup::gang("trainer", 4).pods(4, worker.clone()).require("rack");
/// let single = PodGroup::gang("notebook", 1).pods(1, worker);
///
/// let node = Node::new("gpu").capacity("gpu", 8).label("rack", "r2");
/// let rack = Node::new("gpu-rack").capacity("gpu", 8);
/// let request = ScaleUpRequest::new([&gang, &single])
///     .template(NodeTemplate::new(node, 10).limit(2))
///     .template(NodeTemplate::new(rack, 35).block(4).own_domain("rack"));
/// let answer = Autoscaler::new().scale_up(&cluster, &Framework::default(), request)?;
///
/// // Single nodes cannot hold the gang in one rack: a rack of four is bought for it. The notebook
/// // fits as it is.
/// let start = answer.start().expect("there is such a set");
/// assert_eq!((start.blocks[0].template.as_str(), start.price), ("gpu-rack", 35));
/// assert!(start.is_cheapest());
/// for node in start.nodes() {
///     cluster.add_node(node.clone())?;
/// }
/// for plan in &start.plans {
///     cluster.commit(&Framework::default(), plan)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Autoscaler {
    pub(super) planner: Planner,
    /// The moment that a transaction is a copy of, and the transaction, without changes.
    base: Option<(Moment, Txn)>,
    kept: Option<Kept>,
}

/// A request that was checked.
struct Task<'a> {
    asks: Vec<Ask<'a>>,
    variants: Vec<Variant>,
    templates: Vec<NodeTemplate>,
    limits: Limits,
    any_layout: bool,
    budget: u64,
    steps: u64,
}

impl Autoscaler {
    /// One that knows nothing yet.
    pub fn new() -> Autoscaler {
        Autoscaler::default()
    }

    /// How often a plugin was evaluated on a node so far.
    pub fn plugin_calls(&self) -> u64 {
        self.planner.plugin_calls()
    }

    /// Finds the cheapest set of nodes with which all groups of the request start whole.
    ///
    /// The answer names the nodes, and plans that hold once they are there; what any set costs at
    /// least; and what is claimed. Groups that fit as it is need nothing, and count all the same:
    /// their room is theirs. The cluster is not touched. Permits are not asked.
    ///
    /// # Errors
    /// A group or a template is unsound, a member is bound already, or the cluster cannot take a node.
    pub fn scale_up(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        request: ScaleUpRequest<'_>,
    ) -> Result<ScaleUpOutcome, AutoscaleError> {
        let variants = variants(cluster, &request.templates)?;
        let any_layout = takes_any_layout(framework, &request.groups);
        let mut asks = Vec::with_capacity(request.groups.len());
        for group in request.groups {
            asks.push(Ask::new(cluster, group, (request.all_members, any_layout))?);
        }
        let limits = Limits {
            nodes: request.max_nodes,
            templates: request.templates.iter().map(|template| template.limit).collect(),
            unit_nodes: request.max_nodes,
        };
        let mut task = Task {
            asks,
            variants,
            templates: request.templates,
            limits,
            any_layout,
            budget: request.budget,
            steps: request.budget,
        };
        let mut txn = self.copy_of(cluster);
        let answer = self.answer((cluster, &mut txn), &framework.without_permits(), &mut task);
        txn.rollback_to(0)?;
        self.keep(cluster, txn);
        answer
    }

    /// A transaction that is equal to the cluster.
    pub(super) fn copy_of(&mut self, cluster: &Cluster) -> Txn {
        if let Some((moment, txn)) = self.base.take() {
            if moment == cluster.moment() {
                return txn;
            }
            // The transaction is what the cluster was then, and what is known of the one holds for
            // the other.
            self.planner.rebase(&txn, moment);
        }
        cluster.txn()
    }

    /// Keeps a transaction in which nothing has changed.
    pub(super) fn keep(&mut self, cluster: &Cluster, txn: Txn) {
        self.base = Some((cluster.moment(), txn));
    }

    fn answer(
        &mut self,
        (cluster, txn): (&Cluster, &mut Txn),
        framework: &Framework,
        task: &mut Task<'_>,
    ) -> Result<ScaleUpOutcome, AutoscaleError> {
        let groups: Vec<_> = task.asks.iter().map(|ask| (ask.group(), ask.request.now)).collect();
        let mut needs = Needs::new((txn, &mut self.planner), framework, &groups, &task.variants)?;
        let order = order(&needs, task.any_layout);
        let mut stage = Stage {
            planner: &mut self.planner,
            txn,
            framework,
            asks: &task.asks,
            variants: &task.variants,
            next: alloc::vec![0; task.templates.len()],
            order,
            any_layout: task.any_layout,
        };
        let limits = &task.limits;
        let (steps, budget) = (&mut task.steps, task.budget);
        let all: Vec<usize> = (0..stage.asks.len()).collect();
        let program = limits.program(&stage, &needs, &all);
        let costs = costs(stage.variants, limits.unit_nodes);
        let price_of = |cost: i128| (cost / unit(limits.unit_nodes)) as u64;
        let high = limits.most(stage.variants);
        let low: Vec<u32> = high.iter().map(|_| 0).collect();
        let mut boxes = Boxes::new(&program, low.clone(), high.clone());
        let Some(root) = boxes.first().map(<[f64]>::to_vec) else {
            let alone = |group: &usize| {
                let program = limits.program(&stage, &needs, &[*group]);
                program.bound(&low, &high).is_none()
            };
            let groups = all.iter().filter(|group| alone(group));
            let groups = groups.map(|group| stage.asks[*group].group().full_name()).collect();
            return Ok(ScaleUpOutcome::Impossible { groups });
        };
        let members: usize = stage.asks.iter().map(|ask| ask.gang.members()).sum();
        let whole = !task.any_layout || members <= MOST_JOINT;
        let templates = &task.templates;
        let answer = |best: Judged, least: Option<i128>, first: bool, steps: u64| {
            let cost = best.blocks.iter().map(|block| costs[block.variant]).sum::<i128>();
            let price = price_of(cost);
            let lower_bound = least.map_or(price, |least| price_of(least).min(price));
            let claim = match (first, price == lower_bound) {
                (true, _) => ScaleUpClaim::First,
                (false, true) => ScaleUpClaim::Cheapest,
                (false, false) => ScaleUpClaim::Found,
            };
            let mut plans: Vec<Plan> = best.placed.into_iter().map(|placed| placed.plan).collect();
            plans.extend(best.joint);
            let blocks = new_blocks(&task.variants, templates, best.blocks);
            let start = ScaleUp { blocks, price, lower_bound, claim, plans, steps: budget - steps };
            ScaleUpOutcome::Start(start)
        };
        if whole {
            let mut own = *steps - *steps / 4;
            let before = own;
            let (searched, judged) = search(&mut boxes, &program, None, &mut own, &mut stage)?;
            *steps -= before - own;
            match (searched, judged) {
                (Searched::First(_), Some(judged)) => {
                    return Ok(answer(judged, None, true, *steps));
                }
                (Searched::Found(_), Some(judged)) => {
                    return Ok(answer(judged, boxes.least(), false, *steps));
                }
                (Searched::Nothing, _) => {
                    return Ok(match boxes.least() {
                        None => ScaleUpOutcome::Impossible { groups: Vec::new() },
                        Some(least) => ScaleUpOutcome::Exhausted { lower_bound: price_of(least) },
                    });
                }
                _ => {}
            }
        }
        let moment = cluster.moment();
        let movable = framework.filters().iter().any(|filter| filter.name() == CLOSED);
        let mut resumed = None;
        if movable
            && task.any_layout
            && let Some(kept) = self.kept.take()
        {
            let known = (moment, framework, &**templates, limits);
            resumed = kept.resume(known, (&mut stage, &mut needs), steps)?;
        }
        let mut settled = None;
        let (mut built, changed, known) = if let Some(resumed) = resumed {
            (Some(resumed.built), resumed.changed, resumed.least)
        } else {
            let mut own = *steps / 4;
            let before = own;
            settled = boxes.settle(&program, &mut own);
            *steps -= before - own;
            let part = boxes.first().unwrap_or(&root);
            let parts = || part.iter().map(|n| (*n + 1e-6) as u32).collect();
            let start = settled.clone().unwrap_or_else(parts);
            (Built::new((&mut stage, &mut needs), limits, &start, steps)?, 0, None)
        };
        if let Some(built) = &mut built
            && movable
        {
            let mut own = *steps / 2;
            let before = own;
            built.improve((&mut stage, &mut needs), limits, &costs, &mut own)?;
            *steps -= before - own;
        }
        built = built.filter(|built| built.is_sound(cluster));
        let mut best = None;
        if let Some(own) = &built {
            best = Some(Judged {
                blocks: own.blocks.clone(),
                placed: own.placed.clone(),
                joint: None,
            });
            if !task.any_layout {
                let counts = own.counts(stage.variants.len());
                best = stage.judge(&counts, steps)?.ok();
            }
        }
        // A long list is not judged set by set: one that does not start group by group is not known
        // not to start.
        let mut first = false;
        if let Some(built) = built.as_ref().filter(|_| !whole) {
            first = settled.is_some_and(|set| set == built.counts(stage.variants.len()));
        } else {
            let limit = built.as_ref().map(|built| built.cost(&costs));
            let (searched, judged) = search(&mut boxes, &program, limit, steps, &mut stage)?;
            if let Some(judged) = judged {
                let first = matches!(searched, Searched::First(_));
                return Ok(answer(judged, boxes.least().filter(|_| !first), first, *steps));
            }
        }
        let Some(best) = best else {
            return Ok(match boxes.least() {
                None => ScaleUpOutcome::Impossible { groups: Vec::new() },
                Some(least) => ScaleUpOutcome::Exhausted { lower_bound: price_of(least) },
            });
        };
        // `None` is what no bound is below.
        let least = boxes.least().map(|least| least.max(known.unwrap_or(least)));
        if let Some(built) = built.filter(|_| task.any_layout) {
            self.kept = Some(Kept {
                moment,
                framework: framework.clone(),
                templates: templates.clone(),
                limits: limits.clone(),
                groups: stage.asks.iter().map(|ask| ask.group().clone()).collect(),
                built,
                least: least.filter(|_| !whole),
                changed,
            });
        }
        Ok(answer(best, least.filter(|_| !first), first, *steps))
    }
}

/// The filter that keeps pods off nodes that are closed.
pub(super) const CLOSED: &str = "NodeUnschedulable";

/// Runs a search on the stage.
fn search(
    boxes: &mut Boxes,
    program: &Program,
    limit: Option<i128>,
    steps: &mut u64,
    stage: &mut Stage<'_, '_>,
) -> Result<(Searched, Option<Judged>), AutoscaleError> {
    let mut found = None;
    let searched = boxes.run(program, limit, steps, &mut |counts, steps| {
        Ok(match stage.judge(counts, steps)? {
            Ok(judged) => {
                found = Some(judged);
                Verdict::Yes
            }
            Err(verdict) => verdict,
        })
    })?;
    Ok((searched, found))
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
