//! Several domains at once: units are released one after another, cheapest first, and a domain is
//! looked at when those that were released make room in it.

use alloc::vec;
use alloc::vec::Vec;

use super::arena::{Arena, Counts, Found, Ground, Sizes, Sums};
use super::branch::{Level, Search};
use super::cost::Cost;
use super::need::{Basis, Need};
use crate::place::PlaceError;
use crate::state::journal::{Change, Moment, NodeChange};
use crate::state::{Cluster, Row};

/// Finds the work lost with the units of a priority.
pub(crate) type Admit<'a> = &'a dyn Fn(&mut Vec<Option<u64>>, i32);

/// Notes that sets from a cost on were not looked at.
pub(super) fn note(open: &mut Option<Cost>, least: Cost) {
    *open = Some(open.map_or(least, |open| open.min(least)));
}

/// A row in no domain.
const NONE: u32 = u32::MAX;

/// Domains that are tried for a first set while units are released.
const FIRST_TRIED: u32 = 8;

/// The domains one of which must hold the group, kept from one request to the next.
#[derive(Debug)]
pub(crate) struct Field {
    basis: Option<Basis>,
    moment: Moment,
    domains: Vec<Domain>,
    /// By row: the domain, and the place in it.
    of_row: Vec<(u32, u32)>,
    sizes: Sizes,
    /// Nodes on which something was released, by domain and place.
    freed: Vec<(u32, u32)>,
}

#[derive(Debug)]
struct Domain {
    ground: Ground,
    /// Sums over all nodes, with nothing released.
    sums: Sums,
    /// Without what was released.
    counts: Counts,
    /// Released atoms with pods here.
    atoms: Vec<u32>,
}

impl Field {
    /// The field of a request, with nothing released: the one that was kept, or another.
    fn open(kept: &mut Option<Field>, need: &Need<'_>, cluster: &Cluster) -> Field {
        let basis = need.basis(cluster);
        let same = kept.take().filter(|own| basis.is_some() && own.basis == basis);
        same.and_then(|own| own.follow(need, cluster)).unwrap_or_else(|| {
            let mut of_row = vec![(NONE, 0); cluster.rows()];
            let mut domains = Vec::new();
            for rows in need.domains(cluster) {
                for (place, &row) in rows.iter().enumerate() {
                    of_row[row] = (domains.len() as u32, place as u32);
                }
                domains.push(Domain::new(cluster, need, rows));
            }
            let (moment, sizes, freed) = (cluster.moment(), Sizes::default(), Vec::new());
            Field { basis, moment, domains, of_row, sizes, freed }
        })
    }

    /// Takes back what was released, and counts the nodes anew that have changed. `None` if domains or
    /// their order may be others. O(released pods + changes + nodes that some pods may not use).
    fn follow(mut self, need: &Need<'_>, cluster: &Cluster) -> Option<Field> {
        let moves =
            [NodeChange::ADDED, NodeChange::REMOVED, NodeChange::LABELS, NodeChange::TIE_RANK];
        let mut changed: Vec<Row> = Vec::new();
        for change in cluster.journal.since(self.moment)? {
            if let Change::Node { change, .. } = change
                && moves.iter().any(|&kind| change.has(kind))
            {
                return None;
            }
            changed.extend(change.row());
        }
        changed.sort_unstable();
        changed.dedup();
        for row in changed {
            let (number, place) = self.of_row[row];
            if let Some(Domain { ground, sums, .. }) = self.domains.get_mut(number as usize) {
                ground.read((cluster, need), place as usize, sums);
                self.freed.push((number, place));
            }
        }
        for (number, place) in self.freed.drain(..) {
            let Domain { ground, sums, counts, atoms } = &mut self.domains[number as usize];
            counts.reset(ground, need, place as usize, sums);
            atoms.clear();
        }
        for domain in self.domains.iter_mut().filter(|own| !own.ground.suits(cluster, need)) {
            *domain = Domain::new(cluster, need, core::mem::take(&mut domain.ground.rows));
        }
        // Numbers of shapes may be others.
        (self.moment, self.sizes) = (cluster.moment(), Sizes::default());
        Some(self)
    }

    /// Releases an atom: its pods are counted as gone. Notes the domains that suffice since.
    fn release(
        &mut self,
        search: &Search<'_, '_>,
        cluster: &Cluster,
        atom: u32,
        ready: &mut Vec<usize>,
    ) {
        let need = search.need;
        for pod in search.units.pods_of(cluster, atom as usize) {
            let Some(node) = pod.node() else { continue };
            let Some(&(number, place)) = self.of_row.get(node.row().index()) else { continue };
            let Some(domain) = self.domains.get_mut(number as usize) else { continue };
            let amounts = self.sizes.of(cluster, need, pod);
            let sufficed = domain.counts.suffices(need);
            domain.counts.give(&domain.ground, need, (place as usize, amounts), 1);
            self.freed.push((number, place));
            if domain.atoms.last() != Some(&atom) {
                domain.atoms.push(atom);
            }
            if !sufficed && domain.counts.suffices(need) {
                ready.push(number as usize);
            }
        }
    }

    /// The nodes of a domain on which something was released of no more work than so much, and the pods
    /// of it.
    fn plot(
        &mut self,
        search: &Search<'_, '_>,
        cluster: &Cluster,
        number: usize,
        most: u64,
    ) -> (Ground, Found) {
        let Domain { ground, sums, atoms, .. } = &mut self.domains[number];
        atoms.sort_unstable();
        let work = |atom: u32| search.work[atom as usize].unwrap_or(0);
        let atoms = atoms.iter().copied().filter(|&atom| work(atom) <= most);
        let of_row = &self.of_row;
        let place_of = |row: Row| {
            let (own, place) = of_row[row];
            (own as usize == number).then_some(place)
        };
        let units = (search.need, search.units);
        let mut found = Found::of_atoms(cluster, units, &place_of, &mut self.sizes, atoms);
        (ground.part(search.need, found.compact(), sums), found)
    }
}

impl Domain {
    fn new(cluster: &Cluster, need: &Need<'_>, rows: Vec<Row>) -> Domain {
        let ground = Ground::new(cluster, need, rows);
        let (counts, sums) = Counts::with_sums(&ground, need);
        Domain { ground, sums, counts, atoms: Vec::new() }
    }
}

/// Looks for the least set that breaks no budget: priority by priority, and there in all domains.
pub(super) fn within_budgets(
    search: &mut Search<'_, '_>,
    (cluster, known): (&Cluster, &mut Option<Field>),
    admit: Admit<'_>,
    open: &mut Option<Cost>,
) -> Result<(), PlaceError> {
    // A group that may take nothing counts nothing.
    let mut field: Option<Field> = None;
    let levels = search.units.classes.len();
    let mut ready = Vec::new();
    for (number, (&ceiling, class)) in search.units.classes.iter().enumerate() {
        admit(&mut search.work, ceiling);
        let level = Level { ceiling, strict: true };
        let admitted = class.iter().copied().filter(|&atom| search.admits(level, atom));
        let work = |atom: u32| search.work[atom as usize].unwrap_or(0);
        let mut queue: Vec<(u64, u32)> = admitted.map(|atom| (work(atom), atom)).collect();
        if queue.is_empty() {
            continue;
        }
        queue.sort_unstable();
        let field = field.get_or_insert_with(|| Field::open(known, search.need, cluster));
        // What is left goes to this priority and the others, none of which starves.
        let kept = search.steps - search.steps / (levels - number).min(4) as u64;
        search.steps -= kept;
        let mut tried = 0;
        for (work, atom) in queue {
            if search.best.as_ref().is_some_and(|best| best.cost.work_lost < work) {
                break;
            }
            ready.clear();
            field.release(search, cluster, atom, &mut ready);
            for &domain in &ready {
                if search.best.is_none() && tried < FIRST_TRIED {
                    tried += 1;
                    let (ground, found) = field.plot(search, cluster, domain, u64::MAX);
                    search.first(&Arena::new(&ground, found), level)?;
                }
            }
        }
        in_domains(search, cluster, field, level, open)?;
        search.steps += kept;
        if search.best.is_some() {
            break;
        }
    }
    *known = field.or_else(|| known.take());
    Ok(())
}

/// Looks for the least set among all that may be taken, budgets or not.
pub(super) fn beyond_budgets(
    search: &mut Search<'_, '_>,
    (cluster, known): (&Cluster, &mut Option<Field>),
    open: &mut Option<Cost>,
) -> Result<(), PlaceError> {
    let Some(&ceiling) = search.units.classes.keys().next_back() else { return Ok(()) };
    let level = Level { ceiling, strict: false };
    let mut field = Field::open(known, search.need, cluster);
    let mut ready = Vec::new();
    for atom in 0..search.units.atoms.len() as u32 {
        if search.admits(level, atom) {
            field.release(search, cluster, atom, &mut ready);
        }
    }
    in_domains(search, cluster, &mut field, level, open)?;
    *known = Some(field);
    Ok(())
}

/// Searches the domains that suffice, least bound first, as long as one may hold something better
/// than the best set.
fn in_domains(
    search: &mut Search<'_, '_>,
    cluster: &Cluster,
    field: &mut Field,
    level: Level,
    open: &mut Option<Cost>,
) -> Result<(), PlaceError> {
    // A set in which one unit alone loses more work than the best set is none.
    let most = search.best.as_ref().filter(|_| level.strict);
    let most = most.map_or(u64::MAX, |best| best.cost.work_lost);
    let mut ranked: Vec<(Cost, usize)> = Vec::new();
    for number in 0..field.domains.len() {
        if !field.domains[number].counts.suffices(search.need) {
            continue;
        }
        let (ground, found) = field.plot(search, cluster, number, most);
        let arena = Arena::new(&ground, found);
        let Some(work_lost) = search.bound(&arena, level) else { continue };
        let least = if level.strict {
            // Without a unit of this priority it would have helped at one before.
            let highest_priority = Some(level.ceiling);
            Cost { highest_priority, work_lost, units: 1, pods: 1, ..Cost::NOTHING }
        } else {
            Cost { budgets_broken: 1, ..Cost::NOTHING }
        };
        if search.best.as_ref().is_none_or(|best| least < best.cost) {
            ranked.push((least, number));
        }
    }
    ranked.sort_unstable();
    // Beyond a domain, units matter to filters that read more than one node.
    let mut extra: Vec<u32> = Vec::new();
    if search.need.wide && !ranked.is_empty() {
        let all = 0..search.units.atoms.len() as u32;
        extra.extend(all.filter(|&atom| search.admits(level, atom)));
    } else if let Some(rule) = search.rule {
        let all = 0..search.units.atoms.len() as u32;
        let matters = |&atom: &u32| search.admits(level, atom) && rule.matters_without_room(atom);
        extra.extend(all.filter(matters));
    }
    let count = ranked.len();
    for (at, (least, number)) in ranked.into_iter().enumerate() {
        if search.best.as_ref().is_some_and(|best| best.cost <= least) {
            break;
        }
        // What is left goes to this domain and the others, none of which starves.
        let share = (count - at).min(4) as u64;
        let quota = (search.steps / share).max(1);
        let (ground, found) = field.plot(search, cluster, number, most);
        let arena = Arena::new(&ground, found);
        if !search.solve(&arena, level, &extra, quota)? {
            note(open, least);
        }
    }
    Ok(())
}
