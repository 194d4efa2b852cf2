//! Search over the orders of placing, for filters that read beyond the node, or more of it than
//! its sums.
//!
//! Such a filter may pass a pod only after another is in place, so the order of members counts.
//! The search walks over states (how many pods of each demand are on each node), places one pod
//! more wherever every filter passes it, and never visits a state twice.

use alloc::vec;
use alloc::vec::Vec;

use super::domains::{Choice, NOWHERE, Solver};
use crate::base::hash::FixedMap;
use crate::framework::Evaluation;
use crate::place::error::PlaceError;
use crate::state::{Row, Txn};

/// Equal members of one part.
struct Demand {
    part: usize,
    class: usize,
    members: Vec<usize>,
    /// The nodes of its domain that node-local filters and room leave, in the order of ties.
    nodes: Vec<u32>,
    placed: usize,
    /// No filter turns a "no" into a "yes" as pods are placed.
    monotone: bool,
}

struct Walk<'s, 'm, 'a> {
    solver: &'s Solver<'m, 'a>,
    txn: &'s mut Txn,
    demands: Vec<Demand>,
    /// How many members of a part are placed.
    placed: Vec<u32>,
    /// Members in the order placed, with their nodes.
    order: Vec<(usize, u32)>,
    visited: FixedMap<Vec<u32>, ()>,
}

/// Members in an order in which each passes every filter, with their nodes; `Err(true)` if there
/// is no such order within the domains chosen, `Err(false)` if the steps ran out.
pub(crate) type Walked = Result<Vec<(usize, u32)>, bool>;

/// Looks for an order and nodes for the members of the parts that have domains.
pub(crate) fn walk(
    solver: &Solver<'_, '_>,
    txn: &mut Txn,
    fits: &[Vec<u32>],
    steps: &mut u64,
) -> Result<Walked, PlaceError> {
    let model = &*solver.model;
    let mut demands: Vec<Demand> = Vec::new();
    for (part, choice) in solver.choices.iter().enumerate() {
        let Choice::In { domain, .. } = choice else { continue };
        for &member in &solver.parts.parts[part].members {
            let class = model.members[member].class;
            if let Some(known) =
                demands.iter_mut().find(|demand| demand.part == part && demand.class == class)
            {
                known.members.push(member);
                continue;
            }
            let domain = &solver.domains[*domain].nodes;
            let nodes = fits[class].iter().copied().filter(|node| domain.contains(node)).collect();
            let shape = model.classes[class].shape;
            let filters = model.framework.filters();
            let monotone = filters.iter().all(|filter| filter.declare(shape).monotone);
            let members = vec![member];
            demands.push(Demand { part, class, members, nodes, placed: 0, monotone });
        }
    }
    // The fewest nodes first.
    demands.sort_by_key(|demand| demand.nodes.len());
    let mut walk = Walk {
        solver,
        txn,
        demands,
        placed: vec![0; solver.parts.parts.len()],
        order: Vec::new(),
        visited: FixedMap::default(),
    };
    walk.run(steps)
}

/// One state on the path, and the placements from it not yet tried.
struct Frame {
    moves: Vec<(usize, u32)>,
    next: usize,
}

impl Walk<'_, '_, '_> {
    fn run(&mut self, steps: &mut u64) -> Result<Walked, PlaceError> {
        if self.done() {
            return Ok(Ok(Vec::new()));
        }
        let mut frames = vec![Frame { moves: self.moves(steps), next: 0 }];
        while let Some(frame) = frames.last_mut() {
            if *steps == 0 {
                return Ok(Err(false));
            }
            let Some(&(demand, node)) = frame.moves.get(frame.next) else {
                frames.pop();
                if !frames.is_empty() {
                    self.back()?;
                }
                continue;
            };
            frame.next += 1;
            if !self.step(demand, node)? {
                continue;
            }
            if self.done() {
                return Ok(Ok(core::mem::take(&mut self.order)));
            }
            if self.visited.insert(self.state(), ()).is_some() {
                self.back()?;
                continue;
            }
            let moves = self.moves(steps);
            frames.push(Frame { moves, next: 0 });
        }
        Ok(Err(true))
    }

    /// Whether every part that has a domain has what it needs.
    fn done(&self) -> bool {
        self.solver.choices.iter().zip(&self.solver.parts.parts).zip(&self.placed).all(
            |((choice, part), placed)| {
                !matches!(choice, Choice::In { .. })
                    || part.members.is_empty()
                    || *placed >= part.need
            },
        )
    }

    /// All placements that every filter passes; none if some member can never be placed any more.
    fn moves(&self, steps: &mut u64) -> Vec<(usize, u32)> {
        let model = &*self.solver.model;
        let mut moves = Vec::new();
        for (number, demand) in self.demands.iter().enumerate() {
            if demand.placed == demand.members.len() {
                continue;
            }
            *steps = steps.saturating_sub(1);
            let shape = model.classes[demand.class].shape;
            let leaf = self.solver.parts.parts[demand.part].group;
            let evaluation =
                Evaluation::new(model.framework, self.txn, shape, Some(leaf), model.now);
            let first = moves.len();
            let passes = |node: &u32| {
                let row: Row = model.rows[*node as usize];
                self.txn.view(row).is_some_and(|view| evaluation.filter(view).is_ok())
            };
            moves.extend(demand.nodes.iter().copied().filter(passes).map(|node| (number, node)));
            let part = &self.solver.parts.parts[demand.part];
            if moves.len() == first && demand.monotone && part.need == part.all {
                return Vec::new();
            }
        }
        moves
    }

    fn step(&mut self, demand: usize, node: u32) -> Result<bool, PlaceError> {
        let own = &mut self.demands[demand];
        let member = own.members[own.placed];
        if !self.solver.model.place(self.txn, member, node)? {
            return Ok(false);
        }
        own.placed += 1;
        self.placed[own.part] += 1;
        self.order.push((member, node));
        Ok(true)
    }

    fn back(&mut self) -> Result<(), PlaceError> {
        let Some((member, _)) = self.order.pop() else { return Ok(()) };
        for demand in &mut self.demands {
            if demand.placed > 0 && demand.members[demand.placed - 1] == member {
                demand.placed -= 1;
                self.placed[demand.part] -= 1;
            }
        }
        self.txn.rollback_to(self.order.len())?;
        Ok(())
    }

    /// Nodes of the pods of each demand, with their devices: equal for all orders that
    /// come to the same placements. Which devices a pod gets depends on the pods before it.
    fn state(&self) -> Vec<u32> {
        let mut places = vec![vec![NOWHERE]; self.solver.model.members.len()];
        for (change, &(member, node)) in self.order.iter().enumerate() {
            places[member] = vec![node];
            let devices = self.txn.placed_devices(change);
            places[member].extend(devices.iter().flat_map(|lists| lists.iter().flatten()));
        }
        let mut state = Vec::with_capacity(places.len());
        for demand in &self.demands {
            let mut own: Vec<&[u32]> =
                demand.members.iter().map(|&member| &*places[member]).collect();
            own.sort_unstable();
            state.extend(own.into_iter().flatten());
        }
        state
    }
}
