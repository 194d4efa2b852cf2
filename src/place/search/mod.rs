//! The search strategy: complete within a budget of steps.
//!
//! `strategy` is its entry. `solve` searches in rounds with growing quotas and turns each solution
//! of `domains` into a layout that every filter passes. Where there is none, it ends with a
//! certificate. `reference` is brute force, its definition.

pub(crate) mod apportion;
mod assign_nodes;
mod best_score;
mod beyond;
mod claims;
pub(crate) mod domains;
mod ordered;
mod packing;
pub(crate) mod parts;
pub(crate) mod problem;
pub(crate) mod proof;
mod question;
pub(crate) mod reference;
mod seating;
pub(crate) mod strategy;
mod together;

use alloc::vec::Vec;

use self::assign_nodes::{Placed, by_tables, lay_out};
use self::best_score::{Assigning, by_scores};
use self::domains::{Choice, NOWHERE, Solved, Solver};
use self::ordered::walk;
use self::parts::Parts;
use self::problem::Problem;
use self::seating::{Seated, seat};
use super::certificate::Certificate;
use super::error::PlaceError;
use super::request::{Request, Task};
use crate::place::cache::tables::PlannerCache;
use crate::place::layout::{Layout, Member};
use crate::place::sequential::run::Run;
use crate::place::sequential::tables::{Opened, TableEngine};
use crate::place::sequential::workspace::Workspace;
use crate::state::Txn;

/// The result of a search.
#[derive(Debug)]
pub(crate) enum Found {
    Placed(Layout),
    Infeasible(Certificate),
    /// Enough members run already, and none of the others fits.
    Nothing,
    Exhausted(Layout),
}

/// The planner's tables of scores, opened when the first layout is to be made.
enum Tables<'a> {
    Closed(&'a mut PlannerCache, &'a mut Run, Task<'a>),
    Open(TableEngine<'a>),
    /// Some plugin's answers cannot be kept in tables.
    None,
}

impl<'a> Tables<'a> {
    fn open(&mut self) -> Option<&mut TableEngine<'a>> {
        if let Tables::Closed(cache, run, task) = core::mem::replace(self, Tables::None) {
            let Task { cluster, framework, gang, request } = task;
            if let Opened::Fast(engine) =
                TableEngine::open(cache, run, cluster, framework, gang, request)
            {
                *self = Tables::Open(engine);
            }
        }
        match self {
            Tables::Open(engine) => Some(engine),
            _ => None,
        }
    }
}

/// Steps a packing may take in each round, and the part of the budget that the round may take.
const ROUNDS: [(u64, u64); 4] = [(256, 16), (4_096, 8), (32_768, 4), (u64::MAX, 1)];

/// Searches for a layout of a group.
pub(crate) fn solve(task: Task<'_>, workspace: &mut Workspace) -> Result<Found, PlaceError> {
    let Task { cluster, framework, gang, request } = task;
    let Workspace { caches, run, .. } = workspace;
    let mut tables = Tables::Closed(&mut caches.tables, run, task);
    let group = gang.group();
    let rows = request.rows(cluster);
    let mut model = Problem::new(cluster, framework, gang, request.now, rows, &mut caches.capacity);
    let whole = Parts::new(&model, group, true);
    let least = Parts::new(&model, group, false);
    if let Some(short) = least.too_few() {
        return Ok(Found::Infeasible(proof::too_few(&least, short)));
    }
    let mut steps = request.budget;
    let elastic = whole.parts.iter().zip(&least.parts).any(|(a, b)| a.need != b.need);
    if elastic {
        // All members, if that is easy.
        let mut solver = Solver::new(&mut model, &whole)?;
        let mut part = steps / 16;
        steps -= part;
        let quota = part / 4;
        if let (Solved::Found, Some(layout)) =
            attempt(&mut solver, &mut tables, request, &mut part, quota)?
            && !layout.members.is_empty()
        {
            return Ok(Found::Placed(layout));
        }
    }
    let found = search(&mut model, &least, &mut tables, request, &mut steps)?;
    match found {
        Found::Placed(layout) if layout.members.is_empty() => {}
        found => return Ok(found),
    }
    // Minima are met by what runs. A plan places something all the same, if anything fits.
    let mut open = None;
    for part in 0..least.parts.len() {
        if least.parts[part].members.is_empty() {
            continue;
        }
        match search(&mut model, &least.forcing(part), &mut tables, request, &mut steps)? {
            found @ Found::Placed(_) => return Ok(found),
            found @ Found::Exhausted(_) => open = Some(found),
            Found::Infeasible(_) | Found::Nothing => {}
        }
    }
    Ok(open.unwrap_or(Found::Nothing))
}

/// Searches in rounds with growing quotas.
fn search<'a>(
    model: &mut Problem<'a>,
    parts: &Parts<'a>,
    tables: &mut Tables<'_>,
    request: &Request<'_>,
    steps: &mut u64,
) -> Result<Found, PlaceError> {
    let mut solver = Solver::new(model, parts)?;
    for (quota, share) in ROUNDS {
        let mut part = *steps / share;
        *steps -= part;
        let (solved, layout) = attempt(&mut solver, tables, request, &mut part, quota)?;
        *steps += part;
        match (solved, layout) {
            (Solved::Found, Some(layout)) => return Ok(Found::Placed(layout)),
            (Solved::Never, _) => return Ok(Found::Infeasible(proof::of(&mut solver))),
            _ if *steps == 0 => break,
            _ => {}
        }
    }
    let order = in_order(&solver.best.1);
    solver.choices.fill(Choice::Open);
    let placed = placed_by(&solver, &order, None);
    Ok(Found::Exhausted(layout(&solver, placed)))
}

/// One run of a solver, up to a layout that every filter has passed.
fn attempt(
    solver: &mut Solver<'_, '_>,
    tables: &mut Tables<'_>,
    request: &Request<'_>,
    steps: &mut u64,
    quota: u64,
) -> Result<(Solved, Option<Layout>), PlaceError> {
    let mut layout = None;
    let solved =
        solver.run(steps, quota, &mut |solver: &mut Solver<'_, '_>, steps: &mut u64| {
            Ok(match realise(solver, tables, request, quota, steps)? {
                Realised::Passed(passed) => {
                    layout = Some(passed);
                    Some(true)
                }
                Realised::Never => Some(false),
                Realised::Unknown => None,
            })
        })?;
    Ok((solved, layout))
}

/// The verdict of all filters on a solution.
enum Realised {
    Passed(Layout),
    /// In these domains there is no order and no choice of nodes that they all pass.
    Never,
    Unknown,
}

/// Turns a solution into a layout that every filter has passed.
///
/// The nodes with the best scores are tried first, then the nodes of the solution. If a filter that
/// the solution does not know objects, every order and every choice of nodes is tried.
fn realise(
    solver: &mut Solver<'_, '_>,
    tables: &mut Tables<'_>,
    request: &Request<'_>,
    quota: u64,
    steps: &mut u64,
) -> Result<Realised, PlaceError> {
    let mut txn;
    if let Some(tables) = tables.open()
        && let Some(placed) = by_tables(solver, tables)?
    {
        if enough(solver, &which(solver, placed.iter().map(|placed| placed.member))) {
            return Ok(Realised::Passed(layout(solver, placed)));
        }
    } else {
        txn = solver.model.cluster.txn().rearranging();
        let order = lay_out(solver, &mut txn, request.salt)?;
        if enough(solver, &which(solver, order.iter().map(|(member, _)| *member))) {
            return Ok(Realised::Passed(layout(solver, placed_by(solver, &order, Some(&txn)))));
        }
    }
    let model = &*solver.model;
    txn = model.cluster.txn().rearranging();
    let mut order = in_order(&solver.places);
    let passed = order.iter().try_fold(true, |passed, &(number, node)| {
        Ok::<bool, PlaceError>(passed && model.place(&mut txn, number, node)?)
    })?;
    if !passed {
        let nodes = 0..solver.model.rows.len() as u32;
        let fits: Vec<Vec<u32>> = (0..solver.model.classes.len())
            .map(|class| nodes.clone().filter(|&node| solver.model.fits(class, node) > 0).collect())
            .collect();
        let mut own = quota.saturating_mul(16).min(*steps);
        let before = own;
        txn = solver.model.cluster.txn().rearranging();
        let seated = if solver.model.has_claims() {
            seat(solver, &mut txn, &fits, &mut own)?
        } else {
            Seated::NoClaims
        };
        let walked = match seated {
            Seated::Found(order) => Ok(order),
            Seated::Never => Err(true),
            Seated::OutOfSteps => Err(false),
            Seated::NoClaims | Seated::NotInOrder => {
                txn = solver.model.cluster.txn().rearranging();
                walk(solver, &mut txn, &fits, &mut own)?
            }
        };
        *steps -= before - own;
        order = match walked {
            Ok(order) => order,
            Err(true) => return Ok(Realised::Never),
            Err(false) => return Ok(Realised::Unknown),
        };
    }
    // Members beyond the minimum, wherever they fit.
    let mut rest = Vec::new();
    for (part, choice) in solver.parts.parts.iter().zip(&solver.choices) {
        let Choice::In { domain, .. } = choice else { continue };
        let left = part.members.iter().filter(|&member| order.iter().all(|(m, _)| m != member));
        rest.extend(left.map(|&member| (member, *domain)));
    }
    rest.sort_unstable();
    let model = &*solver.model;
    let nodes_of = |domain: usize| &*solver.domains[domain].nodes;
    let task = Assigning { members: &rest, nodes_of: &nodes_of, salt: request.salt };
    let mut places = alloc::vec![NOWHERE; model.members.len()];
    by_scores(model, &mut txn, &task, &mut places)?;
    let placed = rest.iter().map(|&(member, _)| (member, places[member]));
    order.extend(placed.filter(|(_, node)| *node != NOWHERE));
    Ok(Realised::Passed(layout(solver, placed_by(solver, &order, Some(&txn)))))
}

/// Whether every part that has a domain gets what it needs.
fn enough(solver: &Solver<'_, '_>, placed: &[bool]) -> bool {
    solver.parts.parts.iter().zip(&solver.choices).all(|(part, choice)| {
        let count = part.members.iter().filter(|&&member| placed[member]).count();
        !matches!(choice, Choice::In { .. })
            || part.members.is_empty()
            || count >= part.need as usize
    })
}

/// The members that have nodes, in their order.
fn in_order(places: &[u32]) -> Vec<(usize, u32)> {
    places.iter().copied().enumerate().filter(|(_, node)| *node != NOWHERE).collect()
}

/// Marks these members.
fn which(solver: &Solver<'_, '_>, members: impl Iterator<Item = usize>) -> Vec<bool> {
    let mut found = alloc::vec![false; solver.model.members.len()];
    for member in members {
        found[member] = true;
    }
    found
}

/// Members with their nodes, and the devices that the transaction has chosen: its changes are the
/// members, in the same order.
fn placed_by(solver: &Solver<'_, '_>, order: &[(usize, u32)], txn: Option<&Txn>) -> Vec<Placed> {
    let rows = &solver.model.rows;
    let placed = order.iter().enumerate().map(|(change, &(member, node))| Placed {
        member,
        row: rows[node as usize],
        devices: txn.and_then(|txn| txn.placed_devices(change)),
    });
    placed.collect()
}

/// The layout of members, in the order given.
fn layout(solver: &Solver<'_, '_>, placed: Vec<Placed>) -> Layout {
    let model = &*solver.model;
    let mut layout = Layout::default();
    let mut index = alloc::vec![None; model.members.len()];
    for Placed { member, row, devices } in placed {
        index[member] = Some(layout.members.len());
        let number = model.members[member].number;
        layout.members.push(Member { number, row, devices });
    }
    let parts = 0..solver.choices.len();
    let leads = |at: usize| Some((solver.parts.led_by(at)?, at));
    let leaders: Vec<(usize, usize)> = parts.clone().filter_map(leads).collect();
    for part in parts {
        let own = &solver.parts.parts[part];
        // A part without a key of its own shares its parent's domain.
        if own.keys == [None] {
            continue;
        }
        let Some((key, path)) = solver.domain_of(part) else { continue };
        let Some(domain_key) = solver.domain_key(part, key) else { continue };
        // In a slice, only the plan's own members are held to its domain.
        let asked = own.slice.is_none().then_some(&own.group.topology);
        // Its leaders share the domain.
        let leaders = leaders.iter().filter(|(led, _)| *led == part).map(|(_, leader)| *leader);
        let below = |at: usize| solver.parts.members_below(at);
        let members = below(part).chain(leaders.flat_map(below));
        let mut placed: Vec<usize> = members.filter_map(|member| index[member]).collect();
        placed.sort_unstable();
        for run in placed.chunk_by(|a, b| a + 1 == *b) {
            let (asked, range) = ((solver.parts.name(part), asked), (run[0], run[0] + run.len()));
            layout.domains.push(domain_key.record(model.cluster, asked, path, range));
        }
    }
    layout
}
