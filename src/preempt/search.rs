//! The search over domains: which of them is worth a look, and in which order.

use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::arena::Arena;
use super::branch::{Level, Search};
use super::cost::Cost;
use crate::place::PlaceError;
use crate::state::{Cluster, PodView, Row};

/// A domain, and what any set in it costs at least.
struct Ranked {
    least: Cost,
    arena: Arena,
}

/// The claim of a search that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// What any set costs at least; `None` if there is none beside the best.
    pub(crate) lower_bound: Option<Cost>,
}

/// Finds the work lost with the units of a priority.
pub(crate) type Admit<'a> = &'a dyn Fn(&mut Vec<Option<u64>>, i32);

/// Notes that sets from a cost on were not looked at.
fn note(open: &mut Option<Cost>, least: Cost) {
    *open = Some(open.map_or(least, |open| open.min(least)));
}

/// Looks for the least set: first among those that break no budget.
///
/// `admit` finds the work lost with the units of a priority that may be taken; it is called once for
/// each priority that is looked at, the lowest first.
pub(crate) fn run(
    search: &mut Search<'_, '_>,
    cluster: &Cluster,
    admit: Admit<'_>,
) -> Result<Claim, PlaceError> {
    let mut open = None;
    let by_node = search.need.single && !search.need.wide;
    let mut known = false;
    for strict in [true, false] {
        if !strict && (search.best.is_some() || search.units.allowed.is_empty()) {
            break;
        }
        if by_node {
            let admit = (!known).then_some(admit);
            by_nodes(search, cluster, strict, admit, &mut open)?;
        } else {
            if !known {
                for &priority in search.units.classes.keys() {
                    admit(&mut search.work, priority);
                }
            }
            let priorities = priorities(search);
            by_domains(search, cluster, strict, &priorities, &mut open)?;
        }
        known = true;
    }
    Ok(Claim { lower_bound: open })
}

/// The priorities of units that may be taken, ascending.
fn priorities(search: &Search<'_, '_>) -> Vec<i32> {
    let free = |atoms: &&Vec<u32>| atoms.iter().any(|&a| search.work[a as usize].is_some());
    let classes = search.units.classes.iter();
    classes.filter(|(_, atoms)| free(atoms)).map(|(priority, _)| *priority).collect()
}

fn by_domains(
    search: &mut Search<'_, '_>,
    cluster: &Cluster,
    strict: bool,
    priorities: &[i32],
    open: &mut Option<Cost>,
) -> Result<(), PlaceError> {
    let Some(&highest) = priorities.last() else { return Ok(()) };
    let top = Level { ceiling: highest, strict };
    let extra: Vec<u32> = if search.need.wide {
        (0..search.units.atoms.len() as u32).filter(|&atom| search.admits(top, atom)).collect()
    } else {
        Vec::new()
    };
    let mut ranked = Vec::new();
    for rows in search.need.domains(cluster) {
        let passes = |atom: u32| search.admits(top, atom);
        let arena = Arena::new(cluster, search.need, search.units, rows, &passes);
        let Some((priority, work_lost)) = search.bound(&arena, top) else { continue };
        let least = if strict {
            let highest_priority = Some(priority);
            Cost { highest_priority, work_lost, units: 1, pods: 1, ..Cost::NOTHING }
        } else {
            Cost { budgets_broken: 1, ..Cost::NOTHING }
        };
        ranked.push(Ranked { least, arena });
    }
    ranked.sort_by_key(|ranked| ranked.least);
    let count = ranked.len();
    for (number, Ranked { least, arena }) in ranked.iter().enumerate() {
        if search.best.as_ref().is_some_and(|best| best.cost <= *least) {
            break;
        }
        // What is left goes to this domain and the others, none of which starves.
        let share = (count - number).min(4) as u64;
        let quota = (search.steps / share).max(1);
        if !strict {
            if !search.solve(arena, top, &extra, quota)? {
                note(open, *least);
            }
            continue;
        }
        let from = least.highest_priority.unwrap_or(i32::MIN);
        for &ceiling in priorities.iter().filter(|&&priority| priority >= from) {
            let worse = |best: i32| best < ceiling;
            if search.best.as_ref().and_then(|best| best.cost.highest_priority).is_some_and(worse) {
                break;
            }
            if !search.solve(arena, Level { ceiling, strict }, &extra, quota)? {
                note(open, Cost { highest_priority: Some(ceiling), ..*least });
            }
            let found = |best: &super::branch::Best| best.cost.highest_priority <= Some(ceiling);
            if search.best.as_ref().is_some_and(found) {
                break;
            }
        }
    }
    Ok(())
}

/// One pod: each node is a domain of its own. Units come in order of their cost; a node is solved
/// when those that came make room on it, and no node that comes later can do better than the unit
/// that opens it.
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
    // What is free on the nodes met so far.
    let mut met: BTreeMap<Row, Vec<i64>> = BTreeMap::new();
    let classes: Vec<i32> = search.units.classes.keys().copied().collect();
    for ceiling in classes {
        let level = Level { ceiling, strict };
        if let Some(admit) = admit {
            admit(&mut search.work, ceiling);
        }
        let mut queue: BinaryHeap<Reverse<(u64, u32, u32)>> = search.units.classes[&ceiling]
            .iter()
            .filter(|&&atom| search.admits(level, atom))
            .map(|&atom| {
                let work = search.work[atom as usize].unwrap_or(0);
                Reverse((work, search.units.size(atom as usize), atom))
            })
            .collect();
        let mut ready: Vec<Row> = Vec::new();
        let mut solved: BTreeSet<Row> = BTreeSet::new();
        while let Some(Reverse((work, _, atom))) = queue.pop() {
            let least = Cost {
                highest_priority: Some(ceiling),
                work_lost: work,
                units: 1,
                pods: 1,
                ..Cost::NOTHING
            };
            if search.best.as_ref().is_some_and(|best| best.cost <= least) {
                break;
            }
            ready.clear();
            for pod in search.units.pods_of(cluster, atom as usize) {
                give_back(search, cluster, (&in_domain, pod), &mut met, &mut ready);
            }
            ready.sort_unstable_by_key(|&row| tie_rank(cluster, row));
            ready.dedup();
            for &row in ready.iter().filter(|&&row| solved.insert(row)) {
                let passes = |atom: u32| search.admits(level, atom);
                let arena = Arena::new(cluster, need, search.units, vec![row], &passes);
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

/// The place of a row in the order of ties.
fn tie_rank(cluster: &Cluster, row: Row) -> (i64, &str) {
    cluster.view(row).map_or((0, ""), |node| (node.tie_rank(), node.name()))
}

/// Counts a pod that goes as free on its node, and notes the node if there is room then.
fn give_back(
    search: &Search<'_, '_>,
    cluster: &Cluster,
    (in_domain, pod): (&[bool], PodView<'_>),
    met: &mut BTreeMap<Row, Vec<i64>>,
    ready: &mut Vec<Row>,
) {
    let need = search.need;
    let Some(node) = pod.node() else { return };
    let row = node.row();
    if in_domain.get(row.index()) == Some(&false) {
        return;
    }
    let free = met.entry(row).or_insert_with(|| {
        let mut free = Vec::new();
        need.free(cluster, row, &mut free);
        free
    });
    let requests = &pod.shape().requests;
    free[0] = free[0].saturating_add(1);
    for (free, id) in free[1..].iter_mut().zip(&need.resources) {
        *free = free.saturating_add(requests.of(cluster.resource_name(*id)).max(0));
    }
    let fits = (0..need.kinds.len()).all(|kind| need.times(kind, free) >= need.kinds[kind].count);
    let usable = || (0..need.kinds.len()).all(|kind| need.may_use(cluster, kind, row));
    if fits && ready.last() != Some(&row) && usable() {
        ready.push(row);
    }
}
