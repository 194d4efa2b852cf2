//! Sums over candidate domains, of all of them in one pass over the columns.

use alloc::vec;
use alloc::vec::Vec;
use core::cell::{OnceCell, RefCell};

use crate::base::simd::vectorized;
use crate::framework::{Block, DomainSums, DomainTotals};
use crate::model::{CPU, MEMORY};
use crate::state::{Cluster, Overlay, ResourceId, Row};

/// Sums over the nodes of each of several domains, a resource at a time, as they are asked for.
#[derive(Debug)]
pub(crate) struct Totals<'a> {
    cluster: &'a Cluster,
    /// Pods that a decision under way has placed.
    overlay: Option<&'a Overlay>,
    domains: Vec<&'a [Row]>,
    /// By row: the place of its domain, or how many there are if it is in none. `None` where
    /// domains have rows in common.
    domain_of: OnceCell<Option<Vec<u32>>>,
    /// By resource, then by domain.
    known: RefCell<Vec<(ResourceId, Option<Vec<DomainTotals>>)>>,
    natives: OnceCell<Option<Natives>>,
}

/// Sums of CPU and memory by domain, as far as most scores read them.
#[derive(Debug)]
struct Natives {
    resources: [ResourceId; 2],
    /// By domain: the capacity of both, and the use as scores count it, on nodes that have some.
    sums: Vec<[i64; 4]>,
}

/// The same, of one domain.
#[derive(Debug)]
pub(crate) struct TotalsOf<'a, 'c> {
    pub(crate) all: &'a Totals<'c>,
    pub(crate) domain: usize,
}

impl DomainSums for TotalsOf<'_, '_> {
    fn of(&self, resource: ResourceId) -> Option<DomainTotals> {
        let Totals { known, .. } = self.all;
        let mut known = known.borrow_mut();
        let place = known.iter().position(|(known, _)| *known == resource).unwrap_or_else(|| {
            known.push((resource, self.all.add_up(resource)));
            known.len() - 1
        });
        known[place].1.as_ref()?.get(self.domain).copied()
    }

    fn taken(&self, resource: ResourceId, scored: usize) -> Option<(i64, i64)> {
        let all = self.all;
        let natives = all.natives.get_or_init(|| all.add_up_natives()).as_ref()?;
        let sums = natives.sums.get(self.domain)?;
        let own = *natives.resources.get(scored)? == resource;
        own.then(|| (sums[scored], sums[2 + scored]))
    }
}

/// Domains that have fewer of the cluster's rows between them than one in so many are added up by
/// themselves.
const SHARE: usize = 4;

impl<'a> Totals<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        overlay: Option<&'a Overlay>,
        domains: Vec<&'a [Row]>,
    ) -> Totals<'a> {
        let (domain_of, known, natives) = (OnceCell::new(), RefCell::default(), OnceCell::new());
        Totals { cluster, overlay, domains, domain_of, known, natives }
    }

    fn domain_of(&self) -> Option<&[u32]> {
        let make = || {
            let (rows, none) = (self.cluster.rows(), self.domains.len() as u32);
            let own: usize = self.domains.iter().map(|rows| rows.len()).sum();
            if self.domains.len() < 2 || own > rows || own < rows / SHARE {
                return None;
            }
            let mut domain_of = vec![none; rows];
            for (domain, rows) in self.domains.iter().enumerate() {
                for &row in *rows {
                    *domain_of.get_mut(row.index())? = domain as u32;
                }
            }
            // As many rows are in a domain as domains have, unless they have some in common.
            let placed = vectorized(
                #[inline(always)]
                || domain_of.iter().map(|domain| u32::from(*domain != none)).sum::<u32>(),
            );
            (placed as usize == own).then_some(domain_of)
        };
        self.domain_of.get_or_init(make).as_deref()
    }

    /// How many bits amounts may have, so that those of all nodes add up to less than 2⁶².
    fn small(&self) -> Option<u32> {
        61_u32.checked_sub(self.cluster.rows().checked_ilog2()?)
    }

    /// The sums of CPU and memory, in one pass over four columns; `None` as [`Totals::add_up`],
    /// but that any amount of the cluster may be too large for it.
    fn add_up_natives(&self) -> Option<Natives> {
        let resources = [self.cluster.resource(CPU)?, self.cluster.resource(MEMORY)?];
        let small = self.small()?;
        if self.cluster.columns.bits() >> small != 0 {
            return None;
        }
        let domain_of = self.domain_of()?;
        let mut sums = vec![[0; 4]; self.domains.len() + 1];
        for (block, domains) in Block::all(self.cluster).zip(domain_of.chunks(Block::MOST)) {
            let [cpu, memory] = resources.map(|resource| block.allocatable(resource));
            let columns = [cpu, memory, block.scored_cpu(), block.scored_memory()];
            vectorized(
                #[inline(always)]
                || add_natives(domains, columns, &mut sums),
            )?;
        }
        for row in self.overlay.into_iter().flat_map(Overlay::touched) {
            let Some(node) = self.overlay.and_then(|own| own.view(self.cluster, row)) else {
                continue;
            };
            let (now, then) = (node.scored_used(), self.cluster.columns.sums(row).scored());
            if (now[0] | now[1]) as u64 >> small != 0 {
                return None;
            }
            let sums = sums.get_mut(*domain_of.get(row.index())? as usize)?;
            for at in [0, 1] {
                if node.allocatable(resources[at]) > 0 {
                    sums[2 + at] += now[at] - then[at];
                }
            }
        }
        Some(Natives { resources, sums })
    }

    /// The sums of a resource by domain. `None` where rows are to be added up one by one: amounts
    /// are below zero or too large to be added without care, or one pass is not worth it.
    fn add_up(&self, resource: ResourceId) -> Option<Vec<DomainTotals>> {
        let domain_of = self.domain_of()?;
        let small = self.small()?;
        let is_small = |bits: i64| bits as u64 >> small == 0;
        let mut sums = vec![Added::default(); self.domains.len() + 1];
        for (block, domains) in Block::all(self.cluster).zip(domain_of.chunks(Block::MOST)) {
            let columns = [
                block.allocatable(resource),
                block.used(resource),
                block.scored_cpu(),
                block.scored_memory(),
            ];
            let (bits, uneven) = vectorized(
                #[inline(always)]
                || look(columns),
            );
            if !is_small(bits) {
                return None;
            }
            if uneven {
                add_uneven(domains, columns, &mut sums)?;
            } else {
                add_even(domains, columns, &mut sums)?;
            }
        }
        let mut sums: Vec<DomainTotals> = sums.into_iter().map(Added::totals).collect();
        for row in self.overlay.into_iter().flat_map(Overlay::touched) {
            let Some(node) = self.overlay.and_then(|own| own.view(self.cluster, row)) else {
                continue;
            };
            let Some(sums) = domain_of.get(row.index()).and_then(|at| sums.get_mut(*at as usize))
            else {
                continue;
            };
            let (allocatable, before) =
                (node.allocatable(resource), self.cluster.columns.sums(row));
            let (used, was) = (node.used(resource), before.used_of(resource));
            let (now, then) = (node.scored_used(), before.scored());
            if !is_small(used | now[0] | now[1]) {
                return None;
            }
            if allocatable > 0 {
                sums.used += used - was;
                sums.scored[0] += now[0] - then[0];
                sums.scored[1] += now[1] - then[1];
                sums.free += (allocatable - used).max(0) - (allocatable - was).max(0);
            }
        }
        Some(sums)
    }
}

/// Adds the CPU and memory of a block, both capacity and counted use, to the domains of its rows.
/// No amount is below zero.
#[inline(always)]
fn add_natives(domains: &[u32], columns: Columns<'_>, sums: &mut [[i64; 4]]) -> Option<()> {
    let there = |amounts: &[i64]| amounts.iter().fold(0, |signs, amount| signs | (amount - 1)) >= 0;
    let all_have = there(columns[0]) && there(columns[1]);
    for (&domain, row) in domains.iter().zip(rows(columns)) {
        let sums = sums.get_mut(domain as usize)?;
        if all_have {
            sums.iter_mut().zip(row).for_each(|(sum, amount)| *sum += amount);
            continue;
        }
        for at in [0, 1] {
            if row[at] > 0 {
                sums[at] += row[at];
                sums[2 + at] += row[2 + at];
            }
        }
    }
    Some(())
}

/// The columns of a block: what is allocatable, used, and counted by scores as used.
type Columns<'a> = [&'a [i64]; 4];

/// Sums over some rows that have a resource.
#[derive(Debug, Clone, Copy, Default)]
struct Added {
    /// By column.
    sums: [i64; 4],
    /// Amount taken beyond the capacity.
    excess: i64,
}

impl Added {
    #[inline]
    fn add(&mut self, row: [i64; 4]) {
        self.sums.iter_mut().zip(row).for_each(|(sum, amount)| *sum += amount);
    }

    fn totals(self) -> DomainTotals {
        let [allocatable, used, cpu, memory] = self.sums;
        let free = allocatable - used + self.excess;
        DomainTotals { allocatable, used, free, scored: [cpu, memory] }
    }
}

/// The rows of a block.
#[inline(always)]
fn rows([a, b, c, d]: Columns<'_>) -> impl Iterator<Item = [i64; 4]> {
    a.iter().zip(b).zip(c.iter().zip(d)).map(|((a, b), (c, d))| [*a, *b, *c, *d])
}

/// Adds a block to the domains of its rows, all of which have some of the resource, and as much as
/// is used of it.
fn add_even(domains: &[u32], columns: Columns<'_>, sums: &mut [Added]) -> Option<()> {
    for (&domain, row) in domains.iter().zip(rows(columns)) {
        sums.get_mut(domain as usize)?.add(row);
    }
    Some(())
}

/// The same of any block.
fn add_uneven(domains: &[u32], columns: Columns<'_>, sums: &mut [Added]) -> Option<()> {
    for (&domain, row) in domains.iter().zip(rows(columns)) {
        let [allocatable, used, ..] = row;
        if allocatable > 0 {
            let sums = sums.get_mut(domain as usize)?;
            sums.add(row);
            sums.excess += (used - allocatable).max(0);
        }
    }
    Some(())
}

/// The bits that amounts have between them, and whether a node has nothing of the resource, or less
/// than is taken of it.
#[inline(always)]
fn look([allocatable, used, cpu, memory]: Columns<'_>) -> (i64, bool) {
    let (mut bits, mut short) = (0, 0);
    for (allocatable, used) in allocatable.iter().zip(used) {
        bits |= allocatable | used;
        short |= allocatable.wrapping_sub(1) | allocatable.wrapping_sub(*used);
    }
    for (cpu, memory) in cpu.iter().zip(memory) {
        bits |= cpu | memory;
    }
    (bits, short < 0)
}

#[cfg(test)]
mod tests;
