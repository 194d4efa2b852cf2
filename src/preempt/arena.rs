//! A domain in numbers: what is free on its nodes, and what each unit would give back.

use alloc::vec;
use alloc::vec::Vec;

use super::need::Need;
use super::unit::Units;
use crate::state::{Cluster, Row};

/// What an atom gives back of one node.
#[derive(Debug, Clone, Copy)]
struct Gain {
    place: u32,
    /// Where its amounts begin, a dimension each.
    at: u32,
}

/// The nodes of a domain, and the atoms with pods on them.
#[derive(Debug)]
pub(crate) struct Arena {
    width: usize,
    pub(crate) rows: Vec<Row>,
    /// What is free now, by node and dimension.
    free: Vec<i64>,
    /// Which kinds may use a node, by node and kind.
    usable: Vec<bool>,
    /// The atoms, by number of the units, ascending.
    pub(crate) atoms: Vec<u32>,
    gains_at: Vec<u32>,
    gains: Vec<Gain>,
    amounts: Vec<i64>,
    /// The sum of what each atom gives back on nodes that may be used, by dimension.
    pub(crate) sums: Vec<i128>,
}

/// Counts over an arena while atoms go and come back.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    free: Vec<i64>,
    /// How many pods of each kind fit on a node, by node and kind.
    fits: Vec<i64>,
    /// The same of all nodes.
    total: Vec<i64>,
    /// Sums of what is free on nodes that may be used, never negative, by dimension.
    sum: Vec<i128>,
}

impl Arena {
    /// The arena of some rows, with the atoms that pass.
    pub(crate) fn new(
        cluster: &Cluster,
        need: &Need<'_>,
        units: &Units,
        rows: Vec<Row>,
        passes: &dyn Fn(u32) -> bool,
    ) -> Arena {
        let (width, kinds) = (need.width(), need.kinds.len());
        let mut arena = Arena {
            width,
            free: Vec::with_capacity(rows.len() * width),
            usable: Vec::with_capacity(rows.len() * kinds),
            rows,
            atoms: Vec::new(),
            gains_at: Vec::new(),
            gains: Vec::new(),
            amounts: Vec::new(),
            sums: Vec::new(),
        };
        // By atom, then node: the amounts.
        let mut found: Vec<(u32, u32, u32)> = Vec::new();
        let mut amounts: Vec<i64> = Vec::new();
        let mut of_shape: Vec<Option<Vec<i64>>> = Vec::new();
        for (place, &row) in arena.rows.iter().enumerate() {
            need.free(cluster, row, &mut arena.free);
            for kind in 0..kinds {
                arena.usable.push(need.may_use(cluster, kind, row));
            }
            let Some(node) = cluster.view(row) else { continue };
            for pod in node.pods() {
                let Some(atom) = units.atom_of(pod) else { continue };
                let atom = atom as u32;
                if !passes(atom) {
                    continue;
                }
                let shape = pod.shape_id().0 as usize;
                if of_shape.len() <= shape {
                    of_shape.resize(shape + 1, None);
                }
                let own = of_shape[shape].get_or_insert_with(|| {
                    let requests = &pod.shape().requests;
                    let of = |id: &_| requests.of(cluster.resource_name(*id)).max(0);
                    core::iter::once(1).chain(need.resources.iter().map(of)).collect()
                });
                found.push((atom, place as u32, amounts.len() as u32));
                amounts.extend_from_slice(own);
            }
        }
        found.sort_unstable();
        for run in found.chunk_by(|a, b| a.0 == b.0) {
            arena.atoms.push(run[0].0);
            arena.gains_at.push(arena.gains.len() as u32);
            let sums = arena.sums.len();
            arena.sums.resize(sums + width, 0);
            for on_node in run.chunk_by(|a, b| a.1 == b.1) {
                let place = on_node[0].1;
                let at = arena.amounts.len();
                arena.amounts.resize(at + width, 0);
                for &(_, _, from) in on_node {
                    for dimension in 0..width {
                        let amount = amounts[from as usize + dimension];
                        let sum = &mut arena.amounts[at + dimension];
                        *sum = sum.saturating_add(amount);
                    }
                }
                arena.gains.push(Gain { place, at: at as u32 });
                if arena.is_usable(place as usize, kinds) {
                    for dimension in 0..width {
                        let sum = &mut arena.sums[sums + dimension];
                        *sum += i128::from(arena.amounts[at + dimension]);
                    }
                }
            }
        }
        arena.gains_at.push(arena.gains.len() as u32);
        arena
    }

    /// Whether some kind may use a node.
    fn is_usable(&self, place: usize, kinds: usize) -> bool {
        kinds == 0 || self.usable[place * kinds..(place + 1) * kinds].contains(&true)
    }

    /// The place of an atom in the arena; `None` if it has no pod in it.
    pub(crate) fn place_of(&self, atom: u32) -> Option<usize> {
        self.atoms.binary_search(&atom).ok()
    }

    /// What an atom gives back at most in members of a kind: on each node no more than its amounts
    /// hold, the last one begun counted whole.
    pub(crate) fn most_members(&self, need: &Need<'_>, kind: usize, atom: usize) -> i64 {
        let kinds = need.kinds.len();
        let mut members = 0_i64;
        for gain in self.gains_of(atom) {
            if !self.usable[gain.place as usize * kinds + kind] {
                continue;
            }
            let mut most = 0;
            for (dimension, &ask) in need.kinds[kind].ask.iter().enumerate() {
                if ask > 0 {
                    let amount = self.amounts[gain.at as usize + dimension];
                    most = most.max(amount / ask + i64::from(amount % ask > 0));
                }
            }
            members = members.saturating_add(most);
        }
        members
    }

    /// The nodes that an atom has pods on.
    pub(crate) fn places_of(&self, atom: usize) -> impl Iterator<Item = usize> + '_ {
        self.gains_of(atom).iter().map(|gain| gain.place as usize)
    }

    /// What an atom gives back, by node: the node's place, and the amounts by dimension.
    pub(crate) fn gains(&self, atom: usize) -> impl Iterator<Item = (usize, &[i64])> {
        self.gains_of(atom).iter().map(|gain| {
            let at = gain.at as usize;
            (gain.place as usize, &self.amounts[at..at + self.width])
        })
    }

    /// Whether pods of a kind may use a node.
    pub(crate) fn may_use(&self, need: &Need<'_>, kind: usize, place: usize) -> bool {
        self.usable[place * need.kinds.len() + kind]
    }

    fn gains_of(&self, atom: usize) -> &[Gain] {
        &self.gains[self.gains_at[atom] as usize..self.gains_at[atom + 1] as usize]
    }
}

impl Counts {
    /// Counts with nothing gone.
    pub(crate) fn new(arena: &Arena, need: &Need<'_>) -> Counts {
        let kinds = need.kinds.len();
        let mut counts = Counts {
            free: arena.free.clone(),
            fits: vec![0; arena.rows.len() * kinds],
            total: vec![0; kinds],
            sum: vec![0; arena.width],
        };
        for place in 0..arena.rows.len() {
            counts.add_sum(arena, kinds, place, 1);
            counts.count(arena, need, place);
        }
        counts
    }

    fn add_sum(&mut self, arena: &Arena, kinds: usize, place: usize, sign: i128) {
        if arena.is_usable(place, kinds) {
            let free = &self.free[place * arena.width..(place + 1) * arena.width];
            for (sum, free) in self.sum.iter_mut().zip(free) {
                *sum += sign * i128::from((*free).max(0));
            }
        }
    }

    fn count(&mut self, arena: &Arena, need: &Need<'_>, place: usize) {
        let kinds = need.kinds.len();
        let free = &self.free[place * arena.width..(place + 1) * arena.width];
        for kind in 0..kinds {
            let at = place * kinds + kind;
            let now = if arena.usable[at] { need.times(kind, free) } else { 0 };
            self.total[kind] += now - core::mem::replace(&mut self.fits[at], now);
        }
    }

    /// Takes an atom out (`sign` 1), or puts it back (−1).
    pub(crate) fn apply(&mut self, arena: &Arena, need: &Need<'_>, atom: usize, sign: i64) {
        for gain in arena.gains_of(atom) {
            let place = gain.place as usize;
            self.add_sum(arena, need.kinds.len(), place, -1);
            for dimension in 0..arena.width {
                let amount = arena.amounts[gain.at as usize + dimension];
                let free = &mut self.free[place * arena.width + dimension];
                *free = free.saturating_add(sign * amount);
            }
            self.add_sum(arena, need.kinds.len(), place, 1);
            self.count(arena, need, place);
        }
    }

    /// Whether the need may be met, by counting.
    pub(crate) fn suffices(&self, need: &Need<'_>) -> bool {
        need.kinds.iter().zip(&self.total).all(|(kind, total)| *total >= kind.count)
            && need.least.iter().zip(&self.sum).all(|(least, sum)| *sum >= i128::from(*least))
    }

    /// What is free on a node, by dimension.
    pub(crate) fn free_on(&self, arena: &Arena, place: usize) -> &[i64] {
        &self.free[place * arena.width..(place + 1) * arena.width]
    }

    /// Members of a kind that find no room.
    pub(crate) fn lacking(&self, need: &Need<'_>, kind: usize) -> i64 {
        (need.kinds[kind].count - self.total[kind]).max(0)
    }

    /// What lacks of an amount.
    pub(crate) fn lacking_amount(&self, need: &Need<'_>, dimension: usize) -> i128 {
        (i128::from(need.least[dimension]) - self.sum[dimension]).max(0)
    }
}
