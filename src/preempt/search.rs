//! The search over domains: which of them is worth a look, and in which order.

use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::arena::{Arena, Ground, Sizes};
use super::branch::{Best, Level, Search};
use super::cost::Cost;
use super::domains::{Admit, Field, beyond_budgets, note, within_budgets};
use super::need::Need;
use crate::place::PlaceError;
use crate::state::{Cluster, NodeView, PodView, Row};

/// The claim of a search that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// A lower bound of the cost of any set; `None` if there is none beside the best.
    pub(crate) lower_bound: Option<Cost>,
}

/// Looks for the least set: first among those that break no budget.
///
/// `admit` finds the work lost with the units of a priority that may be taken; it is called once for
/// each priority that is looked at, the lowest first.
pub(crate) fn run(
    search: &mut Search<'_, '_>,
    cluster: &Cluster,
    field: &mut Option<Field>,
    admit: Admit<'_>,
) -> Result<Claim, PlaceError> {
    let mut open = None;
    let by_node = search.need.single && !search.need.wide && search.rule.is_none();
    // What is left after the sets within budgets goes to those that break some.
    let kept = if search.units.allowed.is_empty() { 0 } else { search.steps / 2 };
    search.steps -= kept;
    if by_node {
        by_nodes(search, cluster, true, Some(admit), &mut open)?;
    } else {
        within_budgets(search, (cluster, field), admit, &mut open)?;
    }
    search.steps += kept;
    if search.best.is_none() && !search.units.allowed.is_empty() {
        if by_node {
            by_nodes(search, cluster, false, None, &mut open)?;
        } else {
            beyond_budgets(search, (cluster, field), &mut open)?;
        }
    }
    if open.is_some() {
        search.put_back_by_trial()?;
    }
    Ok(Claim { lower_bound: open })
}

/// One pod: each node is a domain of its own. Units come in order of their cost. A node is solved
/// when the units so far make room on it, and no node that comes later can do better than the unit
/// that opens it. A unit also opens the nodes of its group's members of lower priority: they go
/// with it where their minimum falls.
fn by_nodes(
    search: &mut Search<'_, '_>,
    cluster: &Cluster,
    strict: bool,
    admit: Option<Admit<'_>>,
    open: &mut Option<Cost>,
) -> Result<(), PlaceError> {
    let need = search.need;
    let mut in_domain: Vec<bool> = Vec::new();
    if !need.whole {
        in_domain = vec![false; cluster.rows()];
        for row in need.domains(cluster).into_iter().flatten() {
            in_domain[row] = true;
        }
    }
    let mut sizes = Sizes::default();
    // What is free on the nodes met so far.
    let mut met: BTreeMap<Row, Vec<i64>> = BTreeMap::new();
    for (&ceiling, class) in &search.units.classes {
        let level = Level { ceiling, strict };
        if let Some(admit) = admit {
            admit(&mut search.work, ceiling);
        }
        let mut queue = Vec::with_capacity(class.len());
        queue.extend(class.iter().filter_map(|&atom| {
            let work = search.work[atom as usize].filter(|_| search.admits(level, atom))?;
            Some(Reverse((work, search.units.size(atom as usize), atom)))
        }));
        let mut queue: BinaryHeap<Reverse<(u64, u32, u32)>> = queue.into();
        let mut ready: Vec<Row> = Vec::new();
        let mut solved: BTreeSet<Row> = BTreeSet::new();
        let mut families: BTreeSet<u32> = BTreeSet::new();
        let nothing = vec![0; need.width()];
        while let Some(Reverse((work, pods, atom))) = queue.pop() {
            // A node that is searched now needs this unit or one that comes later.
            let least = Cost {
                highest_priority: Some(ceiling),
                work_lost: work,
                units: 1,
                pods: u64::from(pods),
                ..Cost::NOTHING
            };
            let done = |best: &Option<Best>| best.as_ref().is_some_and(|best| best.cost <= least);
            if done(&search.best) {
                break;
            }
            ready.clear();
            let row_of = |pod: PodView<'_>| {
                let row = pod.node().map(NodeView::row);
                row.filter(|row| in_domain.get(row.index()) != Some(&false))
            };
            for pod in search.units.pods_of(cluster, atom as usize) {
                let Some(row) = row_of(pod) else { continue };
                let amounts = sizes.of(cluster, need, pod);
                give_back(need, cluster, (row, amounts), &mut met, &mut ready);
            }
            // Units of lower priority that minima take along with this one: their nodes made room
            // before, and at this priority they may go.
            let family = search.units.family(atom as usize);
            if family.len() > 1 && families.insert(family.start) {
                let is_lower = |&other: &u32| search.units.atoms[other as usize].priority < ceiling;
                for other in family.filter(is_lower) {
                    let pods = search.units.pods_of(cluster, other as usize);
                    for row in pods.filter_map(row_of) {
                        give_back(need, cluster, (row, &nothing), &mut met, &mut ready);
                    }
                }
            }
            ready.sort_unstable_by_key(|&row| tie_rank(cluster, row));
            ready.dedup();
            for &row in ready.iter().filter(|&&row| solved.insert(row)) {
                if done(&search.best) {
                    break;
                }
                if let Some(best) = &search.best
                    && best.cost <= least_on(search, cluster, (row, level), least, &mut sizes)
                {
                    continue;
                }
                let passes = |atom: u32| search.admits(level, atom);
                let ground = Ground::new(cluster, need, vec![row]);
                let on = (need, search.units);
                let arena = Arena::on_nodes(cluster, on, &ground, &mut sizes, &passes);
                let quota = (search.steps / 8).max(64);
                search.only = Some(row);
                let complete = search.solve(&arena, level, &[], quota);
                search.only = None;
                if !complete? {
                    note(open, least);
                }
            }
        }
        if search.best.is_some() && strict {
            break;
        }
    }
    Ok(())
}

/// A bound on the cost of a set that makes room on a node. It takes no fewer units than if each were as
/// large as the largest there, and costs no less than so many of the cheapest. One of them costs as
/// much as the unit that opens the node. O(pods of the node · log).
fn least_on(
    search: &Search<'_, '_>,
    cluster: &Cluster,
    (row, level): (Row, Level),
    opened: Cost,
    sizes: &mut Sizes,
) -> Cost {
    let need = search.need;
    let ([kind], Some(node)) = (&need.kinds[..], cluster.view(row)) else { return opened };
    let mut units: Vec<u32> = Vec::new();
    let mut most = vec![0; need.width()];
    for pod in node.pods() {
        let atom = search.units.atom_of(pod).map(|atom| atom as u32);
        let Some(atom) = atom.filter(|&atom| search.admits(level, atom)) else { continue };
        units.push(atom);
        for (most, amount) in most.iter_mut().zip(sizes.of(cluster, need, pod)) {
            *most = (*most).max(*amount);
        }
    }
    units.sort_unstable();
    // A unit with several pods here frees more than the largest of them.
    if units.windows(2).any(|pair| pair[0] == pair[1]) {
        return opened;
    }
    let mut free = Vec::new();
    need.free(cluster, row, &mut free);
    let times = free.iter().zip(&kind.ask).zip(&most).map(|((free, ask), most)| {
        let lacking = ask.saturating_mul(kind.count).saturating_sub(*free).max(0) as u64;
        lacking.div_ceil((*most).max(1) as u64)
    });
    let times = times.max().unwrap_or(0).min(units.len() as u64);
    let mut works: Vec<u64> =
        units.iter().map(|&atom| search.work[atom as usize].unwrap_or(0)).collect();
    works.sort_unstable();
    let others = works.iter().take((times as usize).saturating_sub(1));
    let work_lost = others.fold(opened.work_lost, |sum, work| sum.saturating_add(*work));
    let counted = if search.units.are_apart(units.into_iter()) { times.max(1) } else { 1 };
    opened.max(Cost { work_lost, units: counted, pods: times, ..opened })
}

/// The place of a row in the order of ties.
fn tie_rank(cluster: &Cluster, row: Row) -> (i64, &str) {
    cluster.view(row).map_or((0, ""), |node| (node.tie_rank(), node.name()))
}

/// Counts the amounts of a pod as free on its node, and notes the node if there is room then.
fn give_back(
    need: &Need<'_>,
    cluster: &Cluster,
    (row, amounts): (Row, &[i64]),
    met: &mut BTreeMap<Row, Vec<i64>>,
    ready: &mut Vec<Row>,
) {
    let free = met.entry(row).or_insert_with(|| {
        let mut free = Vec::new();
        need.free(cluster, row, &mut free);
        free
    });
    for (free, amount) in free.iter_mut().zip(amounts) {
        *free = free.saturating_add(*amount);
    }
    let fits = (0..need.kinds.len()).all(|kind| need.times(kind, free) >= need.kinds[kind].count);
    let usable = || (0..need.kinds.len()).all(|kind| need.may_use(cluster, kind, row));
    if fits && ready.last() != Some(&row) && usable() {
        ready.push(row);
    }
}
