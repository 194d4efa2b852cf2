//! A domain in numbers: free amounts of its nodes, and amounts that each unit frees.

use alloc::vec;
use alloc::vec::Vec;

use super::need::{Kind, Need};
use super::unit::Units;
use crate::state::{Cluster, NodeView, PodView, Row};

/// Capacity of one node that an atom frees.
#[derive(Debug, Clone, Copy)]
struct Gain {
    place: u32,
    /// Where its amounts begin, a dimension each.
    at: u32,
}

/// The nodes of a domain, as they are now; or some of them, with sums of the others.
#[derive(Debug)]
pub(crate) struct Ground {
    width: usize,
    kinds: usize,
    pub(crate) rows: Vec<Row>,
    /// Free amounts, by node and dimension.
    free: Vec<i64>,
    /// Whether a kind may use a node, by node and kind.
    usable: Vec<bool>,
    /// Whether some pods, of a kind or of none, may use every node.
    is_open: bool,
    /// The nodes of the domain that are no rows here.
    rest: Rest,
}

/// Nodes of a domain on which nothing is freed, in sums.
#[derive(Debug, Clone, Default)]
struct Rest {
    sums: Option<Sums>,
    /// The place of the first of them among all nodes of the domain, and those of the rows; none if
    /// there is no such node.
    first: Option<u32>,
    places: Vec<u32>,
}

/// Sums over nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    /// How many pods of each kind fit.
    total: Vec<i64>,
    /// Free amounts of nodes that may be used, never negative, by dimension.
    sum: Vec<i128>,
    /// How many pods of a kind a dimension alone has room for on nodes where some fit, on none more than
    /// are needed, by kind and dimension.
    members: Vec<i64>,
}

/// Capacity that pods free.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// Amounts of a node, by the number of the shape; found when first needed.
    of_shape: Vec<Option<Vec<i64>>>,
    /// A buffer, for what devices come to that.
    of_pod: Vec<i64>,
}

/// Some atoms of a domain, and the amounts that each frees.
#[derive(Debug)]
pub(crate) struct Arena<'g> {
    pub(crate) ground: &'g Ground,
    /// The atoms, by number of the units, ascending.
    pub(crate) atoms: Vec<u32>,
    gains_at: Vec<u32>,
    gains: Vec<Gain>,
    amounts: Vec<i64>,
    /// The sum that each atom frees on nodes that may be used, by dimension.
    pub(crate) sums: Vec<i128>,
}

/// Pods of an arena while it is put together.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The atom, the place of the node, and where the amounts begin.
    pods: Vec<(u32, u32, u32)>,
    amounts: Vec<i64>,
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

impl Ground {
    /// The ground of some rows.
    pub(crate) fn new(cluster: &Cluster, need: &Need<'_>, rows: Vec<Row>) -> Ground {
        let (width, kinds) = (need.width(), need.kinds.len());
        let free = need.free_of_rows(cluster, &rows);
        let (usable, is_open) = usable(cluster, need, &rows);
        Ground { width, kinds, rows, free, usable, is_open, rest: Rest::default() }
    }

    /// Whether the same nodes may be used by another request, or at another time.
    pub(super) fn suits(&self, cluster: &Cluster, need: &Need<'_>) -> bool {
        let (usable, is_open) = usable(cluster, need, &self.rows);
        self.is_open == is_open && self.usable == usable
    }

    /// Reads a node again that has changed, and moves the sums by the difference.
    pub(super) fn read(
        &mut self,
        (cluster, need): (&Cluster, &Need<'_>),
        place: usize,
        sums: &mut Sums,
    ) {
        sums.count(self, need, place, -1);
        let free = need.free_of_rows(cluster, &self.rows[place..=place]);
        self.free[place * self.width..][..self.width].copy_from_slice(&free);
        sums.count(self, need, place, 1);
    }

    /// Some nodes of the domain, by place in ascending order, with the sums of all of it.
    pub(super) fn part(&self, need: &Need<'_>, places: Vec<u32>, all: &Sums) -> Ground {
        let (width, kinds) = (self.width, self.kinds);
        let mut sums = all.clone();
        let mut rows = Vec::with_capacity(places.len());
        let mut free = Vec::with_capacity(places.len() * width);
        let mut usable = Vec::with_capacity(places.len() * kinds);
        for place in places.iter().map(|&place| place as usize) {
            sums.count(self, need, place, -1);
            rows.push(self.rows[place]);
            free.extend_from_slice(self.free_at(place));
            usable.extend_from_slice(&self.usable[place * kinds..][..kinds]);
        }
        let gap = places.iter().zip(0_u32..).position(|(&place, at)| place != at);
        let first = gap.unwrap_or(places.len()) as u32;
        let first = (rows.len() < self.rows.len()).then_some(first);
        let rest = Rest { sums: Some(sums), first, places };
        Ground { width, kinds, rows, free, usable, is_open: self.is_open, rest }
    }

    /// Whether a node that is no row here comes before all rows from a place on.
    pub(super) fn begins_elsewhere(&self, place: Option<usize>) -> bool {
        let own = place.and_then(|place| self.rest.places.get(place));
        self.rest.first.is_some_and(|first| own.is_none_or(|&own| first < own))
    }

    /// How many pods of a kind a dimension alone has room for on the nodes that are no rows here, as
    /// far as some fit there.
    pub(super) fn members_elsewhere(&self, kind: usize, dimension: usize) -> i64 {
        self.rest.sums.as_ref().map_or(0, |sums| sums.members[kind * self.width + dimension])
    }

    /// Whether pods of a kind may use a node.
    pub(crate) fn may_use(&self, kind: usize, place: usize) -> bool {
        self.usable[place * self.kinds + kind]
    }

    /// Free amounts of a node, by dimension.
    fn free_at(&self, place: usize) -> &[i64] {
        &self.free[place * self.width..][..self.width]
    }

    /// How many pods of a kind fit on a node.
    fn fits(&self, need: &Need<'_>, kind: usize, place: usize) -> i64 {
        if self.may_use(kind, place) { need.times(kind, self.free_at(place)) } else { 0 }
    }

    /// Whether some pod of the group may use a node, as far as that is known.
    fn is_usable(&self, place: usize) -> bool {
        let kinds = self.kinds;
        self.is_open || self.usable[place * kinds..(place + 1) * kinds].contains(&true)
    }
}

impl Sums {
    fn new(ground: &Ground) -> Sums {
        let (width, kinds) = (ground.width, ground.kinds);
        Sums { total: vec![0; kinds], sum: vec![0; width], members: vec![0; kinds * width] }
    }

    /// Counts a node in (`sign` 1), or out (−1).
    fn count(&mut self, ground: &Ground, need: &Need<'_>, place: usize, sign: i64) {
        if ground.is_usable(place) {
            for (sum, free) in self.sum.iter_mut().zip(ground.free_at(place)) {
                *sum += i128::from(sign) * i128::from((*free).max(0));
            }
        }
        for kind in 0..ground.kinds {
            self.add_fits(ground, need, (kind, place), sign);
        }
    }

    /// Counts pods of a kind in on a node (`sign` 1), or out (−1). Returns how many fit there.
    fn add_fits(
        &mut self,
        ground: &Ground,
        need: &Need<'_>,
        (kind, place): (usize, usize),
        sign: i64,
    ) -> i64 {
        let fits = ground.fits(need, kind, place);
        if fits > 0 {
            self.total[kind] += sign * fits;
            let Kind { count, ask, .. } = &need.kinds[kind];
            let members = self.members[kind * ground.width..].iter_mut().zip(ask);
            for ((members, &ask), &free) in members.zip(ground.free_at(place)) {
                if ask > 0 {
                    *members += sign * (free.max(0) / ask).min(*count);
                }
            }
        }
        fits
    }
}

impl Sizes {
    /// Capacity that a pod frees, by dimension.
    pub(crate) fn of(&mut self, cluster: &Cluster, need: &Need<'_>, pod: PodView<'_>) -> &[i64] {
        let shape = pod.shape_id().0 as usize;
        if self.of_shape.len() <= shape {
            self.of_shape.resize(shape + 1, None);
        }
        let amounts =
            self.of_shape[shape].get_or_insert_with(|| need.amounts_of(cluster, pod.shape()));
        if need.width() == need.amounts() {
            return amounts;
        }
        self.of_pod.clear();
        self.of_pod.extend_from_slice(amounts);
        self.of_pod.extend(need.devices_of(cluster, pod));
        &self.of_pod
    }
}

impl<'g> Arena<'g> {
    /// The arena of the atoms that pass, found on the nodes.
    pub(crate) fn on_nodes(
        cluster: &Cluster,
        (need, units): (&Need<'_>, &Units),
        ground: &'g Ground,
        sizes: &mut Sizes,
        passes: &dyn Fn(u32) -> bool,
    ) -> Arena<'g> {
        let mut found = Found::default();
        for (place, &row) in ground.rows.iter().enumerate() {
            for pod in cluster.view(row).into_iter().flat_map(NodeView::pods) {
                if let Some(atom) = units.atom_of(pod).filter(|&atom| passes(atom as u32)) {
                    found.add(atom as u32, place as u32, sizes.of(cluster, need, pod));
                }
            }
        }
        Arena::new(ground, found)
    }

    pub(super) fn new(ground: &'g Ground, found: Found) -> Arena<'g> {
        let width = ground.width;
        let (atoms, gains_at, gains) = (Vec::new(), Vec::new(), Vec::new());
        let (amounts, sums) = (Vec::new(), Vec::new());
        let mut arena = Arena { ground, atoms, gains_at, gains, amounts, sums };
        let Found { mut pods, amounts } = found;
        pods.sort_unstable();
        for run in pods.chunk_by(|a, b| a.0 == b.0) {
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
                if ground.is_usable(place as usize) {
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

    /// How many pairs of an atom and a node with pods of it there are.
    pub(crate) fn pairs(&self) -> usize {
        self.gains.len()
    }

    /// The place of an atom in the arena; `None` if it has no pod in it.
    pub(crate) fn place_of(&self, atom: u32) -> Option<usize> {
        self.atoms.binary_search(&atom).ok()
    }

    /// Members of a kind that an atom makes room for at most: on each node no more than its amounts
    /// hold, the last one begun counted whole.
    pub(crate) fn most_members(&self, need: &Need<'_>, kind: usize, atom: usize) -> i64 {
        let mut members = 0_i64;
        for (place, amounts) in self.gains(atom) {
            if !self.ground.may_use(kind, place) {
                continue;
            }
            let mut most = 0;
            for (&amount, &ask) in amounts.iter().zip(&need.kinds[kind].ask) {
                if ask > 0 {
                    most = most.max(amount / ask + i64::from(amount % ask > 0));
                }
            }
            members = members.saturating_add(most);
        }
        members
    }

    /// The nodes that an atom has pods on.
    pub(crate) fn places_of(&self, atom: usize) -> impl Iterator<Item = usize> + '_ {
        self.gains(atom).map(|(place, _)| place)
    }

    /// Capacity that an atom frees, by node: the node's place, and the amounts by dimension.
    pub(crate) fn gains(&self, atom: usize) -> impl Iterator<Item = (usize, &[i64])> {
        let gains = self.gains_at[atom] as usize..self.gains_at[atom + 1] as usize;
        self.gains[gains].iter().map(|gain| {
            let at = gain.at as usize;
            (gain.place as usize, &self.amounts[at..at + self.ground.width])
        })
    }
}

impl Found {
    /// Pods of some atoms, ascending. `place_of` finds the place of a row.
    pub(super) fn of_atoms(
        cluster: &Cluster,
        (need, units): (&Need<'_>, &Units),
        place_of: &dyn Fn(Row) -> Option<u32>,
        sizes: &mut Sizes,
        atoms: impl Iterator<Item = u32>,
    ) -> Found {
        let mut found = Found::default();
        for atom in atoms {
            for pod in units.pods_of(cluster, atom as usize) {
                if let Some(place) = pod.node().and_then(|node| place_of(node.row())) {
                    found.add(atom, place, sizes.of(cluster, need, pod));
                }
            }
        }
        found
    }

    /// The places of the pods, ascending, each of which is replaced by its number among them.
    pub(super) fn compact(&mut self) -> Vec<u32> {
        let mut places: Vec<u32> = self.pods.iter().map(|pod| pod.1).collect();
        places.sort_unstable();
        places.dedup();
        for pod in &mut self.pods {
            pod.1 = places.partition_point(|&place| place < pod.1) as u32;
        }
        places
    }

    fn add(&mut self, atom: u32, place: u32, amounts: &[i64]) {
        self.pods.push((atom, place, self.amounts.len() as u32));
        self.amounts.extend_from_slice(amounts);
    }
}

impl Counts {
    /// Counts with nothing gone.
    pub(crate) fn new(ground: &Ground, need: &Need<'_>) -> Counts {
        Counts::with_sums(ground, need).0
    }

    /// Counts with nothing gone, and the sums over all nodes of the domain.
    pub(super) fn with_sums(ground: &Ground, need: &Need<'_>) -> (Counts, Sums) {
        let mut sums = ground.rest.sums.clone().unwrap_or_else(|| Sums::new(ground));
        let (width, kinds) = (ground.width, ground.kinds);
        for (dimension, sum) in sums.sum.iter_mut().enumerate() {
            let free = ground.free[dimension.min(ground.free.len())..].iter().step_by(width);
            let usable = free.enumerate().filter(|(place, _)| ground.is_usable(*place));
            *sum += usable.map(|(_, free)| i128::from((*free).max(0))).sum::<i128>();
        }
        let mut fits = vec![0; ground.rows.len() * kinds];
        for (place, fits) in fits.chunks_exact_mut(kinds.max(1)).enumerate() {
            for (kind, fits) in fits.iter_mut().enumerate() {
                *fits = sums.add_fits(ground, need, (kind, place), 1);
            }
        }
        let (free, total, sum) = (ground.free.clone(), sums.total.clone(), sums.sum.clone());
        (Counts { free, fits, total, sum }, sums)
    }

    fn add_sum(&mut self, ground: &Ground, place: usize, sign: i128) {
        if ground.is_usable(place) {
            let free = &self.free[place * ground.width..][..ground.width];
            for (sum, free) in self.sum.iter_mut().zip(free) {
                *sum += sign * i128::from((*free).max(0));
            }
        }
    }

    fn count(&mut self, ground: &Ground, need: &Need<'_>, place: usize) {
        let free = &self.free[place * ground.width..][..ground.width];
        for kind in 0..ground.kinds {
            let now = if ground.may_use(kind, place) { need.times(kind, free) } else { 0 };
            let fits = &mut self.fits[place * ground.kinds + kind];
            self.total[kind] += now - core::mem::replace(fits, now);
        }
    }

    /// Takes an atom out (`sign` 1), or puts it back (−1), by its place in the arena.
    pub(crate) fn apply(&mut self, arena: &Arena<'_>, need: &Need<'_>, atom: usize, sign: i64) {
        for gain in arena.gains(atom) {
            self.give(arena.ground, need, gain, sign);
        }
    }

    /// The same by the number of the atom, which may have no pod in the arena.
    pub(crate) fn apply_atom(&mut self, arena: &Arena<'_>, need: &Need<'_>, atom: u32, sign: i64) {
        if let Some(place) = arena.place_of(atom) {
            self.apply(arena, need, place, sign);
        }
    }

    /// Gives amounts back to a node (`sign` 1), or takes them away (−1).
    pub(crate) fn give(
        &mut self,
        ground: &Ground,
        need: &Need<'_>,
        (place, amounts): (usize, &[i64]),
        sign: i64,
    ) {
        self.add_sum(ground, place, -1);
        let free = &mut self.free[place * ground.width..][..ground.width];
        for (free, amount) in free.iter_mut().zip(amounts) {
            *free = free.saturating_add(sign * amount);
        }
        self.add_sum(ground, place, 1);
        self.count(ground, need, place);
    }

    /// Counts a node as it is, and takes the sums over all.
    pub(super) fn reset(&mut self, ground: &Ground, need: &Need<'_>, place: usize, sums: &Sums) {
        let at = place * ground.width..(place + 1) * ground.width;
        self.free[at].copy_from_slice(ground.free_at(place));
        self.count(ground, need, place);
        self.total.clone_from(&sums.total);
        self.sum.clone_from(&sums.sum);
    }

    /// How many pods of a kind fit on a node.
    pub(crate) fn fits(&self, ground: &Ground, kind: usize, place: usize) -> i64 {
        self.fits[place * ground.kinds + kind]
    }

    /// Free amounts of a node, by dimension.
    pub(crate) fn free(&self, ground: &Ground, place: usize) -> &[i64] {
        &self.free[place * ground.width..][..ground.width]
    }

    /// Whether the need may be met, by counting.
    pub(crate) fn suffices(&self, need: &Need<'_>) -> bool {
        need.kinds.iter().zip(&self.total).all(|(kind, total)| *total >= kind.count)
            && need.least.iter().zip(&self.sum).all(|(least, sum)| *sum >= i128::from(*least))
    }

    /// Members of a kind that find no room.
    pub(crate) fn lacking(&self, need: &Need<'_>, kind: usize) -> i64 {
        (need.kinds[kind].count - self.total[kind]).max(0)
    }

    /// The kind that most members lack of, the first of several; `None` if no kind is known.
    pub(crate) fn most_lacking(&self, need: &Need<'_>) -> Option<usize> {
        let kinds = 0..need.kinds.len();
        kinds.max_by_key(|&kind| (self.lacking(need, kind), core::cmp::Reverse(kind)))
    }

    /// The part of an amount that is lacking.
    pub(crate) fn lacking_amount(&self, need: &Need<'_>, dimension: usize) -> i128 {
        (i128::from(need.least[dimension]) - self.sum[dimension]).max(0)
    }
}

/// Whether a kind may use each of some nodes, by node and kind; and whether some pods may use all.
fn usable(cluster: &Cluster, need: &Need<'_>, rows: &[Row]) -> (Vec<bool>, bool) {
    let kinds = need.kinds.len();
    let mut usable = vec![true; rows.len() * kinds];
    let mut is_open = !need.counts_all;
    for kind in 0..kinds {
        if need.may_use_all(kind) {
            is_open = true;
            continue;
        }
        for (place, &row) in rows.iter().enumerate() {
            usable[place * kinds + kind] = need.may_use(cluster, kind, row);
        }
    }
    (usable, is_open)
}
