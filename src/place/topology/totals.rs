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
mod tests {
    use std::format;

    use proptest::prelude::*;

    use super::*;
    use crate::framework::DomainContext;
    use crate::model::{Node, Pod, PodGroup};
    use crate::state::{NodeView, Takes};

    /// Some nodes have little of a resource or none, some are overcommitted, and some are gone.
    /// Where `large` is set, amounts are near the end of 64 bits.
    fn cluster(kinds: &[u8], large: bool) -> Cluster {
        let mut cluster = Cluster::new();
        for (at, &kind) in kinds.iter().enumerate() {
            let mut node = Node::new(format!("n{at}")).capacity("cpu", i64::from(kind % 5));
            node = node.capacity("memory", i64::from(kind % 7) << 20);
            if kind % 3 > 0 {
                node = node.capacity("g/g", if large { i64::MAX / 4 } else { i64::from(kind) });
            }
            cluster.add_node(node).unwrap();
            let pod =
                Pod::new().request("cpu", i64::from(kind % 4)).request("g/g", i64::from(kind / 40));
            let pod = pod.request("memory", i64::from(kind % 6) << 20);
            cluster.add_pod(pod.name(format!("p{at}")).on(format!("n{at}"))).unwrap();
        }
        for (at, _) in kinds.iter().enumerate().filter(|(_, kind)| **kind > 240) {
            cluster.remove_node(&format!("n{at}")).unwrap();
        }
        cluster
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn one_pass_comes_to_what_rows_add_up_to(
            kinds in proptest::collection::vec(0..=255_u8, 2..700),
            (domains, large) in (1..9_usize, proptest::bool::weighted(0.2)),
            placed in proptest::collection::vec(0..700_usize, 0..9),
        ) {
            let cluster = cluster(&kinds, large);
            let pod = Pod::new().request("cpu", 2).request("g/g", 1);
            let takes = Takes::of(pod.shape(), &cluster);
            let mut overlay = Overlay::default();
            for row in placed.into_iter().map(Row::new) {
                if cluster.view(row).is_some() {
                    overlay.take(&cluster, row, 0, &takes, None);
                }
            }
            // The last of them is no domain that is asked about.
            let mut rows = vec![Vec::new(); domains + 1];
            for row in cluster.nodes().map(NodeView::row) {
                rows[row.index() * 7 % (domains + 1)].push(row);
            }
            rows.pop();
            let group = PodGroup::gang("g", 1);
            for overlay in [None, Some(&overlay)] {
                let slices = rows.iter().map(Vec::as_slice).collect();
                let totals = Totals::new(&cluster, overlay, slices);
                for name in ["cpu", "g/g", "memory", "cpu"] {
                    let resource = cluster.resource(name).unwrap();
                    for (domain, rows) in rows.iter().enumerate() {
                        let mut cx = DomainContext::new(&cluster, &group, rows, &[]);
                        cx.overlay = overlay;
                        let known = TotalsOf { all: &totals, domain }.of(resource);
                        if let Some(known) = known {
                            prop_assert_eq!(known, cx.totals(resource));
                        }
                        for (scored, native) in ["cpu", "memory"].iter().enumerate() {
                            let own = TotalsOf { all: &totals, domain };
                            if let Some(taken) = own.taken(resource, scored) {
                                prop_assert_eq!(*native, name);
                                prop_assert_eq!(taken, cx.taken(resource, Some(scored)));
                            } else if *native == name {
                                let few = domains < 2 || rows.len() * domains < 8;
                                prop_assert!(few || large);
                            }
                        }
                        let few = domains < 2 || rows.len() * domains < 8;
                        prop_assert!(few || known.is_some() != (large && name == "g/g"));
                    }
                }
            }
        }
    }

    #[test]
    fn domains_with_rows_in_common_are_left_to_be_added_up() {
        let cluster = cluster(&[9; 12], false);
        let cpu = cluster.resource("cpu").unwrap();
        let totals = |domains: &[&[usize]]| {
            let rows: Vec<Vec<Row>> =
                domains.iter().map(|rows| rows.iter().copied().map(Row::new).collect()).collect();
            let totals = Totals::new(&cluster, None, rows.iter().map(Vec::as_slice).collect());
            TotalsOf { all: &totals, domain: 1 }.of(cpu).map(|totals| totals.allocatable)
        };
        assert_eq!(totals(&[&[0, 1], &[2, 3], &[4, 5]]), Some(8_000));
        assert_eq!(totals(&[&[0, 1], &[2, 3], &[3, 4, 5]]), None);
        assert_eq!(totals(&[&[0], &[]]), None);
    }
}
