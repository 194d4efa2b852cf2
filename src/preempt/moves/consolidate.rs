//! Consolidation: moves alone, or moves in place of evictions.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::repack::{Block, Joint, Proof, Repack, pods_of};
use super::search::{Best, MoveSearch, move_cost, plan_after};
use super::sequence::Layout;
use super::stops::schedule;
use crate::model::TopologyRequest;
use crate::place::PlaceError;
use crate::preempt::branch::TRIAL_STEPS;
use crate::preempt::cost::Cost;
use crate::preempt::cost::{MoveClaim, MoveCost};
use crate::preempt::need::Need;
use crate::preempt::policy::Preemptor;
use crate::preempt::request::Consolidation;
use crate::preempt::request::PreemptionRequest;
use crate::preempt::running::{RunningWork, Tree};
use crate::preempt::unit::Units;
use crate::state::{Cluster, Plan, PodView};

/// The outcome of a search for moves.
#[derive(Debug)]
pub(crate) enum Moved {
    /// The group fits without any: the strategy of the request has only not found it.
    Placed(Plan),
    Moves(Best, MoveClaim),
    /// No moves help. The proof is about the tree of the group and all that may move.
    Never(Option<Box<Proof>>),
    /// The budget ran out.
    Exhausted,
}

/// The outcome, with the steps left and the layouts looked for.
#[derive(Debug)]
pub(crate) struct Consolidated {
    pub(crate) moved: Moved,
    pub(crate) steps: u64,
    pub(crate) trials: u64,
}

/// More pods than these are not laid out anew only for a certificate.
const MOST_PROVED: usize = 512;

/// The work lost with each atom that may move. A member does not move alone where its place among
/// the others counts: in slices, evenly spread, or with a leader.
pub(crate) fn movable(
    cluster: &Cluster,
    (units, running): (&Units, &RunningWork),
    (ask, settings): (&PreemptionRequest<'_>, &Consolidation<'_>),
    preemptor: &Preemptor<'_>,
) -> Vec<Option<u64>> {
    let ask = PreemptionRequest { policy: settings.policy, ..ask.clone() };
    // Groups of which nothing inside moves alone, and those of which no pod does.
    let (mut above, mut own) = (BTreeSet::new(), BTreeSet::new());
    for tree in running.trees() {
        note(tree, false, &mut above, &mut own);
    }
    let may = |atom: usize| {
        let name = units.group_of(atom).map(|group| String::from(group.full_name()));
        let whole = units.atoms[atom].whole;
        name.is_none_or(|name| !above.contains(&name) && (whole || !own.contains(&name)))
    };
    let work = |atom: usize| units.work_if_free(cluster, &ask, preemptor, atom);
    (0..units.atoms.len()).map(|atom| work(atom).filter(|_| may(atom))).collect()
}

fn note(tree: &Tree, outer: bool, above: &mut BTreeSet<String>, own: &mut BTreeSet<String>) {
    let topology = &tree.group.topology;
    let known = TopologyRequest {
        require: topology.require.clone(),
        prefer: topology.prefer.clone(),
        highest: topology.highest.clone(),
        island: topology.island,
        ..TopologyRequest::default()
    };
    let rule = outer || *topology != known || tree.inside.iter().any(|inner| inner.group.leader);
    let name = String::from(tree.group.full_name());
    if rule {
        own.insert(name.clone());
    }
    if outer {
        above.insert(name);
    }
    for inner in &tree.inside {
        note(inner, rule, above, own);
    }
}

/// Looks for the fewest moves that make room for the group.
pub(crate) fn consolidate(
    mut repack: Repack<'_>,
    (need, cluster): (&Need<'_>, &Cluster),
    settings: &Consolidation<'_>,
    steps: u64,
) -> Result<Consolidated, PlaceError> {
    if let Joint::Fits(_) = repack.joint(&[])? {
        let plan = repack.gang()?;
        if let Some(plan) = plan {
            let trials = repack.count;
            return Ok(Consolidated { moved: Moved::Placed(plan), steps, trials });
        }
    }
    if !suffices(need, cluster) {
        // Moves free nothing in sum.
        let proof = match all_out(&mut repack, usize::MAX)? {
            Joint::Never(proof) => proof,
            Joint::Fits(_) | Joint::Unknown => None,
        };
        return Ok(Consolidated { moved: Moved::Never(proof), steps, trials: repack.count });
    }
    let mut search = MoveSearch::new(need, repack, settings.units, steps);
    search.run(cluster)?;
    let (claim, complete, left) = (search.claim(), search.is_complete(), search.steps);
    let MoveSearch { best, mut repack, .. } = search;
    let moved = match best {
        Some(best) => Moved::Moves(best, claim),
        // A unit that may not return to its node, on one that is cordoned, keeps no other from moving:
        // that all of them together have no layout proves nothing about a part of them.
        None if !complete => Moved::Exhausted,
        None => match all_out(&mut repack, MOST_PROVED)? {
            Joint::Never(proof) => Moved::Never(proof),
            Joint::Fits(_) | Joint::Unknown => Moved::Never(None),
        },
    };
    Ok(Consolidated { moved, steps: left, trials: repack.count })
}

/// Whether the free amounts of the whole cluster suffice for the group. What moves takes as much
/// elsewhere as it frees.
fn suffices(need: &Need<'_>, cluster: &Cluster) -> bool {
    let mut sums: Vec<i128> = alloc::vec![0; need.width()];
    let mut free = Vec::new();
    for node in cluster.nodes() {
        free.clear();
        need.free(cluster, node.row(), &mut free);
        for (sum, free) in sums.iter_mut().zip(&free) {
            *sum += i128::from((*free).max(0));
        }
    }
    // What moves may take more of devices than it frees, or less.
    let mut amounts = need.least.iter().zip(sums).take(need.amounts());
    amounts.all(|(least, sum)| sum >= i128::from(*least))
}

/// The layout where all moves that may, at most so many pods.
fn all_out(repack: &mut Repack<'_>, most: usize) -> Result<Joint, PlaceError> {
    let atoms = (0..repack.work.len()).filter(|&atom| repack.work[atom].is_some());
    let pods = atoms.flat_map(|atom| repack.units.pods_of(repack.cluster, atom));
    let pods: Vec<_> = pods.map(PodView::id).collect();
    if pods.len() > most { Ok(Joint::Unknown) } else { repack.joint_anew(&pods) }
}

/// More blocks than these are not exchanged in all subsets.
const ALL_SUBSETS: usize = 8;

/// Victims that can move instead: of a set that is to be evicted, as dear a part as can be laid out
/// anew together with the group. Returns what is still evicted, the cost of that, and the moves.
pub(crate) fn exchange(
    repack: &mut Repack<'_>,
    victims: &[u32],
    work: &[Option<u64>],
    settings: &Consolidation<'_>,
    steps: &mut u64,
) -> Result<Option<(Vec<u32>, Cost, Best)>, PlaceError> {
    let blocks = repack.blocks(victims);
    let may = |block: &Block| block.atoms.iter().all(|&a| repack.work[a as usize].is_some());
    let able: Vec<usize> = (0..blocks.len()).filter(|&at| may(&blocks[at])).collect();
    let units = repack.units;
    let cost = |atoms: &[u32]| units.cost(atoms, |atom| work[atom as usize].unwrap_or(0));
    // The cost of what is still evicted, that of the moves, the blocks that move, and the atoms that
    // are still evicted.
    let mut sets: Vec<(Cost, MoveCost, Vec<usize>, Vec<u32>)> = Vec::new();
    let mut marks = alloc::vec![false; repack.units.atoms.len()];
    let masks =
        if able.len() <= ALL_SUBSETS { (1..1_u32 << able.len()).collect() } else { Vec::new() };
    let of_mask = |mask: &u32| -> Vec<usize> {
        able.iter().enumerate().filter(|(bit, _)| mask & 1 << bit != 0).map(|(_, at)| *at).collect()
    };
    let alone = able.iter().filter(|_| masks.is_empty()).map(|&at| alloc::vec![at]);
    for moving in masks.iter().map(of_mask).chain(alone) {
        let (mut rest, mut moved) = (Vec::new(), Vec::new());
        for (at, block) in blocks.iter().enumerate() {
            let side = if moving.contains(&at) { &mut moved } else { &mut rest };
            side.extend_from_slice(&block.atoms);
        }
        rest.sort_unstable();
        moved.sort_unstable();
        let moves = move_cost(repack, &moved);
        if moves.units <= u64::from(settings.units) && units.closure(&rest, &mut marks) == rest {
            sets.push((cost(&rest), moves, moving, rest));
        }
    }
    sets.sort();
    for (rest_cost, mut moves, moving, rest) in sets {
        if *steps < TRIAL_STEPS {
            break;
        }
        *steps -= TRIAL_STEPS;
        let own = moving.iter().map(|&at| blocks[at].clone()).collect();
        let before = repack.txn.changes();
        let gone: Vec<_> = rest
            .iter()
            .flat_map(|&atom| units.pods_of(repack.cluster, atom as usize))
            .map(PodView::id)
            .collect();
        repack.evict(&gone)?;
        let found = lay_out(repack, own, steps);
        repack.txn.rollback_to(before)?;
        if let Some(mut best) = found? {
            moves.stopped = best.cost.stopped;
            // Disruptions of victims are charged to them.
            let all = cost(victims).budgets_broken;
            moves.budgets_broken = all.saturating_sub(rest_cost.budgets_broken);
            best.cost = moves;
            return Ok(Some((rest, rest_cost, best)));
        }
    }
    Ok(None)
}

/// Moves of some blocks, on a transaction from which the victims have gone.
fn lay_out(
    repack: &mut Repack<'_>,
    blocks: Vec<Block>,
    steps: &mut u64,
) -> Result<Option<Best>, PlaceError> {
    let Joint::Fits(places) = repack.joint_anew(&pods_of(&blocks))? else { return Ok(None) };
    let mut atoms: Vec<u32> = blocks.iter().flat_map(|block| block.atoms.clone()).collect();
    atoms.sort_unstable();
    let layout = Layout::new(blocks, &places);
    let schedule = schedule(repack, &layout, steps)?;
    let Some(plan) = plan_after(repack, &schedule.moves)? else { return Ok(None) };
    let cost = MoveCost { stopped: schedule.stopped, ..MoveCost::NOTHING };
    Ok(Some(Best { cost, atoms, moves: schedule.moves, plan }))
}
