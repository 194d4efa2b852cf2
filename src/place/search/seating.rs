//! Nodes for members with claims: a search that knows of volumes.
//!
//! A matching over the volumes that claims may get tells whether all claims can be met at once, if
//! each went to a node of its own. It is found anew after each choice of a node, and a choice
//! without one is taken back. Members with several claims choose first, among them the member with
//! the fewest nodes left. Members with one claim follow the matching.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::domains::{Choice, Solver};
use crate::base::ObjectName;
use crate::place::error::PlaceError;
use crate::state::{Txn, VolumeNeeds};

/// The result of a seating.
pub(crate) enum Seated {
    /// Members in the order placed, with their nodes. The transaction has placed them.
    Found(Vec<(usize, u32)>),
    /// The claims cannot all be met in these domains.
    Never,
    /// The steps ran out.
    OutOfSteps,
    /// None was found in the order in which members were tried.
    NotInOrder,
    /// No member has claims that are not bound.
    NoClaims,
}

/// The volumes that a claim may get; `None`: one can be made.
type Offers = Option<Vec<u32>>;

/// A member that must be placed.
struct Guest {
    member: usize,
    /// The numbers of its claims.
    claims: Vec<u32>,
    /// The nodes it may go to, and what each claim may get there.
    nodes: Vec<(u32, Vec<Offers>)>,
    /// The place of its node among those.
    seat: Option<usize>,
}

/// Claims and volumes by number.
#[derive(Default)]
struct Numbers {
    claims: BTreeMap<ObjectName, u32>,
    volumes: BTreeMap<String, u32>,
}

impl Numbers {
    fn claim(&mut self, name: &ObjectName) -> u32 {
        let next = self.claims.len() as u32;
        *self.claims.entry(name.clone()).or_insert(next)
    }

    fn volume(&mut self, name: &str) -> u32 {
        let next = self.volumes.len() as u32;
        match self.volumes.get(name) {
            Some(number) => *number,
            None => *self.volumes.entry(name.into()).or_insert(next),
        }
    }
}

/// Looks for nodes for the members of parts that need all of theirs.
pub(crate) fn seat(
    solver: &Solver<'_, '_>,
    txn: &mut Txn,
    fits: &[Vec<u32>],
    steps: &mut u64,
) -> Result<Seated, PlaceError> {
    let Some((guests, numbers)) = guests(solver, fits, steps) else {
        return Ok(Seated::OutOfSteps);
    };
    if guests.iter().all(|guest| guest.claims.is_empty()) {
        return Ok(Seated::NoClaims);
    }
    let claims = numbers.claims.len();
    let mut table = Table { solver, txn, guests, claims, volumes: numbers.volumes.len() };
    if table.matching().is_none() {
        return Ok(Seated::Never);
    }
    table.run(steps)
}

/// The members that must be placed, with what they may get. `None` if the steps ran out.
fn guests(
    solver: &Solver<'_, '_>,
    fits: &[Vec<u32>],
    steps: &mut u64,
) -> Option<(Vec<Guest>, Numbers)> {
    let model = &*solver.model;
    let mut numbers = Numbers::default();
    let mut guests = Vec::new();
    for (part, choice) in solver.choices.iter().enumerate() {
        let (own, Choice::In { domain, .. }) = (&solver.parts.parts[part], choice) else {
            continue;
        };
        if (own.need as usize) < own.members.len() {
            continue;
        }
        for &member in &own.members {
            let class = model.members[member].class;
            let domain = &solver.domains[*domain].nodes;
            let shape = model.classes[class].shape;
            // A pod whose claims are refused anywhere goes nowhere.
            let needs = VolumeNeeds::of(model.cluster, shape).unwrap_or_default();
            let names = needs.unbound();
            let claims = names.map(|name| numbers.claim(name)).collect();
            let mut nodes = Vec::new();
            for &node in fits[class].iter().filter(|node| domain.contains(node)) {
                *steps = steps.checked_sub(1)?;
                let offers = needs.options(model.cluster, model.rows[node as usize]);
                let Some(offers) = offers else { continue };
                let numbered = offers.into_iter().map(|volumes| {
                    volumes.map(|names| names.iter().map(|name| numbers.volume(name)).collect())
                });
                nodes.push((node, numbered.collect()));
            }
            guests.push(Guest { member, claims, nodes, seat: None });
        }
    }
    Some((guests, numbers))
}

struct Table<'s, 'm, 'a> {
    solver: &'s Solver<'m, 'a>,
    txn: &'s mut Txn,
    guests: Vec<Guest>,
    claims: usize,
    volumes: usize,
}

/// A guest that is seated next, and its nodes not yet tried, best last.
struct Turn {
    guest: usize,
    nodes: Vec<usize>,
}

impl Table<'_, '_, '_> {
    fn run(&mut self, steps: &mut u64) -> Result<Seated, PlaceError> {
        let mut order = Vec::new();
        let Some(first) = self.next(steps) else { return Ok(Seated::OutOfSteps) };
        let mut turns = vec![first];
        while let Some(turn) = turns.last_mut() {
            if *steps == 0 {
                return Ok(Seated::OutOfSteps);
            }
            let guest = turn.guest;
            if self.guests[guest].seat.take().is_some() {
                order.pop();
                self.txn.rollback_to(order.len())?;
            }
            let Some(place) = turn.nodes.pop() else {
                turns.pop();
                continue;
            };
            *steps -= 1;
            let (member, node) = (self.guests[guest].member, self.guests[guest].nodes[place].0);
            if !self.solver.model.place(self.txn, member, node)? {
                continue;
            }
            self.guests[guest].seat = Some(place);
            order.push((member, node));
            if order.len() == self.guests.len() {
                return Ok(Seated::Found(order));
            }
            let Some(next) = self.next(steps) else { return Ok(Seated::OutOfSteps) };
            turns.push(next);
        }
        Ok(Seated::NotInOrder)
    }

    /// The guest to be seated next. `None` if the steps ran out.
    fn next(&mut self, steps: &mut u64) -> Option<Turn> {
        let several =
            self.guests.iter().any(|guest| guest.seat.is_none() && guest.claims.len() > 1);
        let mut best: Option<Turn> = None;
        for guest in 0..self.guests.len() {
            let own = &self.guests[guest];
            if own.seat.is_some() || (several && own.claims.len() <= 1) {
                continue;
            }
            let mut nodes = Vec::new();
            for place in 0..own.nodes.len() {
                *steps = steps.checked_sub(1)?;
                self.guests[guest].seat = Some(place);
                let matched = self.matching();
                self.guests[guest].seat = None;
                if let Some(slack) = matched {
                    nodes.push((slack, place));
                }
            }
            // The tightest last, so that it is tried first.
            nodes.sort_unstable_by_key(|(slack, place)| Reverse((*slack, *place)));
            let nodes: Vec<usize> = nodes.into_iter().map(|(_, place)| place).collect();
            let fewer = best.as_ref().is_none_or(|best| nodes.len() < best.nodes.len());
            if fewer {
                let none = nodes.is_empty();
                best = Some(Turn { guest, nodes });
                // The first of those with one claim will do.
                if none || !several {
                    break;
                }
            }
        }
        best.or(Some(Turn { guest: 0, nodes: Vec::new() }))
    }

    /// Volumes that each claim may get: those that all of its pods may get, each on its node or on
    /// any. `None` in place of volumes if one can be made.
    fn offers(&self) -> Option<Vec<Offers>> {
        let mut offers: Vec<Offers> = vec![None; self.claims];
        for guest in &self.guests {
            let seat = guest.seat.map(|place| place..place + 1);
            let nodes = guest.nodes.get(seat.unwrap_or(0..guest.nodes.len()))?;
            if nodes.is_empty() {
                return None;
            }
            for (at, &claim) in guest.claims.iter().enumerate() {
                if nodes.iter().any(|(_, offers)| offers[at].is_none()) {
                    continue;
                }
                let there = nodes.iter().flat_map(|(_, offers)| offers[at].iter().flatten());
                let mut there: Vec<u32> = there.copied().collect();
                there.sort_unstable();
                there.dedup();
                match &mut offers[claim as usize] {
                    known @ None => *known = Some(there),
                    Some(known) => known.retain(|volume| there.binary_search(volume).is_ok()),
                }
            }
        }
        Some(offers)
    }

    /// Whether claims and volumes can be matched, as far as guests are seated: how many pairs are left
    /// to choose from. `None` if they cannot.
    fn matching(&self) -> Option<usize> {
        let offers = self.offers()?;
        let mut holders: Vec<Option<u32>> = vec![None; self.volumes];
        for claim in 0..self.claims {
            if offers[claim].is_some() {
                let mut seen = vec![false; self.volumes];
                if !augment(claim, &offers, &mut holders, &mut seen) {
                    return None;
                }
            }
        }
        Some(offers.iter().flatten().map(Vec::len).sum())
    }
}

/// Finds a volume for a claim; claims that hold one look for another.
fn augment(
    claim: usize,
    offers: &[Offers],
    holders: &mut [Option<u32>],
    seen: &mut [bool],
) -> bool {
    for &volume in offers[claim].iter().flatten() {
        let volume = volume as usize;
        if core::mem::replace(&mut seen[volume], true) {
            continue;
        }
        let freed = match holders[volume] {
            None => true,
            Some(other) => augment(other as usize, offers, holders, seen),
        };
        if freed {
            holders[volume] = Some(claim as u32);
            return true;
        }
    }
    false
}
