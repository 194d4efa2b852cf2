//! Within the domains found: shares of finer domains where they are asked for, the best scores
//! inside them, and ranks in the order of the tree.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::apportion;
use super::best_score::{Assigning, by_scores};
use super::domains::{Choice, NOWHERE, Solver};
use super::problem::Problem;
use crate::place::error::PlaceError;
use crate::place::layout::Member;
use crate::place::numbers::times;
use crate::place::sequential::engine::Engine;
use crate::place::sequential::tables::TableEngine;
use crate::state::{Devices, LabelKey, Row, Txn};

/// Members with nodes, in the order placed.
type Order = Vec<(usize, u32)>;

/// Places the members of every part that has a domain, in their order, on the nodes that score
/// best. Members that fit nowhere are left out. The transaction keeps what was placed.
pub(crate) fn lay_out(
    solver: &mut Solver<'_, '_>,
    txn: &mut Txn,
    salt: u64,
) -> Result<Order, PlaceError> {
    let parts = solver.parts;
    let mut places = vec![NOWHERE; solver.model.members.len()];
    let mut order = Vec::new();
    // Parts without wishes of their own are laid out in one go, which keeps scores between them.
    let mut plain: Vec<(usize, usize)> = Vec::new();
    for (part, domain) in leaves(solver) {
        let own = &parts.parts[part];
        let topology = &own.group.topology;
        let shares = shares(solver, txn, part, domain);
        let members: Vec<(usize, usize)> = match shares {
            None if !topology.ranked => {
                plain.extend(own.members.iter().map(|&member| (member, domain)));
                continue;
            }
            None => own.members.iter().map(|&member| (member, domain)).collect(),
            Some(shares) => {
                let domains = shares
                    .into_iter()
                    .flat_map(|(domain, count)| core::iter::repeat_n(domain, count as usize));
                own.members.iter().copied().zip(domains).collect()
            }
        };
        run(solver, txn, &plain, salt, &mut places, &mut order)?;
        plain.clear();
        let before = txn.changes();
        run(solver, txn, &members, salt, &mut places, &mut order)?;
        if topology.ranked {
            rank(solver, txn, before, &own.members, &mut places, &mut order)?;
        }
    }
    run(solver, txn, &plain, salt, &mut places, &mut order)?;
    Ok(order)
}

/// The parts with members that have domains, in the order of members.
fn leaves(solver: &Solver<'_, '_>) -> Vec<(usize, usize)> {
    let parts = &solver.parts.parts;
    let mut leaves: Vec<(usize, usize)> = Vec::new();
    for (part, choice) in solver.choices.iter().enumerate() {
        if let Choice::In { domain, .. } = choice
            && !parts[part].members.is_empty()
        {
            leaves.push((part, *domain));
        }
    }
    leaves.sort_by_key(|(part, _)| parts[*part].members.first().copied());
    leaves
}

/// The same as [`lay_out`] from the tables that the planner keeps, where no part has wishes that
/// they do not know. `None` if one has.
pub(crate) fn by_tables(
    solver: &Solver<'_, '_>,
    tables: &mut TableEngine<'_>,
) -> Result<Option<Vec<Placed>>, PlaceError> {
    let leaves = leaves(solver);
    let is_plain = |&(part, domain): &(usize, usize)| {
        let own = &solver.parts.parts[part];
        let topology = &own.group.topology;
        let key = solver.domains[domain].key.map(|key| solver.keys[key]);
        let shared = own.slice.is_none()
            && (topology.spread.is_some()
                || topology.balanced
                || own.wish.is_some_and(|wish| key != Some(wish)));
        !shared && !topology.ranked
    };
    if !leaves.iter().all(is_plain) {
        return Ok(None);
    }
    tables.rollback(0)?;
    let mut placed = Vec::with_capacity(solver.model.members.len());
    let (mut numbers, mut found) = (Vec::new(), Vec::new());
    for (part, domain) in leaves {
        let members = &solver.parts.parts[part].members;
        numbers.clear();
        numbers.extend(members.iter().map(|&member| solver.model.members[member].number));
        let domain = &solver.domains[domain];
        let rows = (domain.key.is_some() || !solver.model.whole).then_some(&*domain.rows);
        tables.fill_numbers(&numbers, rows, &mut found)?;
        // Both are in the order of members.
        let mut next = 0;
        for Member { number, row, devices } in found.drain(..) {
            while numbers.get(next).is_some_and(|other| *other != number) {
                next += 1;
            }
            let Some(&member) = members.get(next) else { break };
            placed.push(Placed { member, row, devices });
        }
    }
    Ok(Some(placed))
}

/// A member of the model, and what it got.
pub(crate) struct Placed {
    pub(crate) member: usize,
    pub(crate) row: Row,
    pub(crate) devices: Option<Devices>,
}

fn run(
    solver: &Solver<'_, '_>,
    txn: &mut Txn,
    members: &[(usize, usize)],
    salt: u64,
    places: &mut [u32],
    order: &mut Vec<(usize, u32)>,
) -> Result<(), PlaceError> {
    let nodes_of = |domain: usize| &*solver.domains[domain].nodes;
    by_scores(&*solver.model, txn, &Assigning { members, nodes_of: &nodes_of, salt }, places)?;
    let placed = members.iter().map(|&(member, _)| (member, places[member]));
    order.extend(placed.filter(|(_, node)| *node != NOWHERE));
    Ok(())
}

/// Shares of a part of equal pods in finer domains, if that is asked for. They are the domains of
/// `spread`, or the fewest of the preferred level where one domain did not suffice.
fn shares(
    solver: &mut Solver<'_, '_>,
    txn: &Txn,
    part: usize,
    domain: usize,
) -> Option<Vec<(usize, i64)>> {
    let parts = solver.parts;
    let own = &parts.parts[part];
    let &[(class, _)] = parts.classes(part) else { return None };
    let topology = &own.group.topology;
    let pods = own.members.len() as i64;
    let room = |solver: &mut Solver<'_, '_>, domain: usize| -> i64 {
        let nodes = Arc::clone(&solver.domains[domain].nodes);
        nodes.iter().map(|&node| room_now(solver.model, txn, class, node)).sum()
    };
    if own.slice.is_some() {
        return None;
    }
    if let Some(spread) = topology.spread.as_deref() {
        let key = solver.key_place(spread);
        let inside = solver.split(domain, key);
        let rooms: Vec<i64> = inside.iter().map(|&domain| room(solver, domain)).collect();
        let shares = apportion::level(&rooms, pods)?;
        return Some(inside.iter().copied().zip(shares).collect());
    }
    let wish =
        own.wish.or(if topology.balanced { solver.model.cluster.levels().last() } else { None })?;
    if solver.domains[domain].key.is_some_and(|key| solver.keys[key] == wish) {
        return None;
    }
    let key = solver.key_place(wish);
    let inside = solver.split(domain, key);
    let rooms: Vec<i64> = inside.iter().map(|&domain| room(solver, domain)).collect();
    let choose = if topology.balanced { apportion::balanced } else { apportion::fewest };
    let shares = choose(&rooms, pods)?;
    Some(inside.iter().copied().zip(shares).collect())
}

/// How many pods of a class a node takes with what the transaction has placed.
fn room_now(model: &Problem<'_>, txn: &Txn, class: usize, node: u32) -> i64 {
    if model.fits(class, node) == 0 {
        return 0;
    }
    let Some(view) = txn.view(model.rows[node as usize]) else { return 0 };
    i64::from(times(model.dimensions.free(view), &model.classes[class].ask))
}

/// Gives equal members the nodes found in the order of the tree, if every filter agrees.
fn rank(
    solver: &Solver<'_, '_>,
    txn: &mut Txn,
    before: usize,
    members: &[usize],
    places: &mut [u32],
    order: &mut Vec<(usize, u32)>,
) -> Result<(), PlaceError> {
    let model = &*solver.model;
    let cluster = model.cluster;
    let path = |node: u32| -> Vec<Option<&str>> {
        let Some(view) = cluster.view(model.rows[node as usize]) else { return Vec::new() };
        let text = |level: &LabelKey| Some(cluster.label_text(view.label_value(*level)?));
        cluster.levels.iter().map(text).collect()
    };
    let mut ranked = places.to_vec();
    for class in 0..model.classes.len() {
        let placed =
            |member: &&usize| model.members[**member].class == class && places[**member] != NOWHERE;
        let equal: Vec<usize> = members.iter().filter(placed).copied().collect();
        let mut nodes: Vec<u32> = equal.iter().map(|&member| places[member]).collect();
        nodes.sort_by_cached_key(|&node| (path(node), node));
        for (member, node) in equal.into_iter().zip(nodes) {
            ranked[member] = node;
        }
    }
    let changes = txn.changes() - before;
    let old: Vec<(usize, u32)> = order.split_off(order.len() - changes.min(order.len()));
    txn.rollback_to(before)?;
    let mut agreed = true;
    for &member in members.iter().filter(|&&member| ranked[member] != NOWHERE) {
        if !model.place(txn, member, ranked[member])? {
            agreed = false;
            break;
        }
        order.push((member, ranked[member]));
    }
    if agreed {
        places.copy_from_slice(&ranked);
        return Ok(());
    }
    order.truncate(order.len() - (txn.changes() - before));
    txn.rollback_to(before)?;
    for (member, node) in old {
        if model.place(txn, member, node)? {
            order.push((member, node));
        } else {
            places[member] = NOWHERE;
        }
    }
    Ok(())
}
