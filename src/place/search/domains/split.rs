//! Division of domains by label keys, their counts, and their domain-level scores.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

use super::domain::{Area, Domain};
use super::solver::Solver;
use crate::base::RowSet;
use crate::framework::{DomainContext, DomainSums, DomainTotals};
use crate::model::PodShape;
use crate::place::cache::capacity::{Amount, Capacity, Extent};
use crate::place::sequential::weighed;
use crate::place::topology::partition::{Part, split};
use crate::place::topology::tiers::{Path, path_keys};
use crate::place::topology::tree::{TreeDomain, Within};
use crate::state::{Cluster, ResourceId, Row};

impl<'a> Solver<'_, 'a> {
    /// Adds the domain of all nodes of the request.
    pub(crate) fn add_whole(&mut self) {
        let rows = Arc::clone(&self.model.rows);
        if self.model.whole {
            let nodes = Arc::clone(&self.model.rooms.tree.nodes);
            self.add_kept(None, Path::new(), nodes, rows, Extent::Whole);
        } else {
            self.add_own(None, Path::new(), (0..rows.len() as u32).collect());
        }
    }

    fn add_kept(
        &mut self,
        key: Option<usize>,
        path: Path,
        nodes: Arc<[u32]>,
        rows: Arc<[Row]>,
        extent: Extent,
    ) -> usize {
        let (sums, area) = (self.model.free_in(extent), Area::Kept(extent));
        let counts = vec![-1; self.model.classes.len()];
        self.domains.push(Domain { key, path, nodes, rows, area, sums, counts });
        self.domains.len() - 1
    }

    fn add_own(&mut self, key: Option<usize>, path: Path, nodes: Vec<u32>) -> usize {
        let mut sums = vec![0_i64; self.model.width()];
        let mut members = RowSet::new(self.model.rows.len());
        for &node in &nodes {
            for (sum, free) in sums.iter_mut().zip(self.model.free(node)) {
                *sum = sum.saturating_add(free);
            }
            members.insert(Row::from(node));
        }
        let counts = vec![-1; self.model.classes.len()];
        let rows = nodes.iter().map(|&node| self.model.rows[node as usize]).collect();
        let (nodes, area) = (nodes.into(), Area::Own(members));
        self.domains.push(Domain { key, path, nodes, rows, area, sums, counts });
        self.domains.len() - 1
    }

    /// The domains that a key makes of another domain, in order of name.
    pub(crate) fn split(&mut self, within: usize, key: usize) -> Rc<[usize]> {
        if let Some(known) = self.splits.get(&(within, key)) {
            return Rc::clone(known);
        }
        let cluster = self.model.cluster;
        let Some(id) = cluster.label_key(self.keys[key]) else { return Rc::new([]) };
        let (tree, area) = (&mut self.model.rooms.tree, &self.domains[within].area);
        let found = match *area {
            Area::Own(_) => None,
            Area::Kept(extent) => {
                let inner = tree.key(cluster, id);
                let within = match extent {
                    Extent::Whole => Some(Within::Domains(0..tree.partition(inner).domains.len())),
                    Extent::Domain(outer, domain) => tree.within(cluster, (outer, domain), inner),
                };
                within.map(|within| (inner, extent, within))
            }
        };
        let ids: Rc<[usize]> = match found {
            Some((inner, _, Within::Domains(range))) => {
                let add = |place: usize| {
                    let tree = &self.model.rooms.tree;
                    let domain: &TreeDomain = &tree.partition(inner).domains[place];
                    let (nodes, rows) = (Arc::clone(&domain.nodes), Arc::clone(&domain.rows));
                    let path = domain.path.clone();
                    self.add_kept(Some(key), path, nodes, rows, Extent::Domain(inner, place))
                };
                range.map(add).collect()
            }
            Some((_, extent, Within::Itself(path))) => {
                let add = |path: Path| {
                    let domain = &self.domains[within];
                    let (nodes, rows) = (Arc::clone(&domain.nodes), Arc::clone(&domain.rows));
                    self.add_kept(Some(key), path, nodes, rows, extent)
                };
                path.map(add).into_iter().collect()
            }
            None => {
                let domain = &self.domains[within];
                let (nodes, rows) = (Arc::clone(&domain.nodes), Arc::clone(&domain.rows));
                let add = |part: Part| {
                    let nodes = part.places.iter().map(|&place| nodes[place as usize]).collect();
                    self.add_own(Some(key), part.path, nodes)
                };
                split(cluster, &rows, &path_keys(cluster, id)).into_iter().map(add).collect()
            }
        };
        self.splits.insert((within, key), Rc::clone(&ids));
        ids
    }

    /// How many pods of a class fit in a domain, each node by itself.
    pub(crate) fn count(&mut self, class: usize, domain: usize) -> i64 {
        let known = self.domains[domain].counts[class];
        if known >= 0 {
            return known;
        }
        let count = match self.domains[domain].area {
            Area::Kept(extent) => self.model.fits_in(class, extent),
            Area::Own(_) => {
                let nodes = self.domains[domain].nodes.iter();
                nodes.map(|&node| i64::from(self.model.fits(class, node))).sum()
            }
        };
        self.domains[domain].counts[class] = count;
        count
    }

    /// Whether a node is in a domain.
    pub(crate) fn contains(&self, domain: usize, node: u32) -> bool {
        match &self.domains[domain].area {
            Area::Kept(Extent::Whole) => true,
            Area::Kept(Extent::Domain(key, place)) => {
                let row = self.model.rows[node as usize];
                self.model.rooms.tree.partition(*key).of_row[row] as usize == *place
            }
            Area::Own(members) => members.contains(Row::from(node)),
        }
    }

    /// Whether two domains share a node.
    pub(crate) fn overlap(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.domains[a], &self.domains[b]);
        match (&one.area, &other.area) {
            (Area::Kept(Extent::Domain(key, place)), Area::Kept(Extent::Domain(other, theirs)))
                if key == other =>
            {
                place == theirs
            }
            _ if one.nodes.len() <= other.nodes.len() => {
                one.nodes.iter().any(|&node| self.contains(b, node))
            }
            _ => other.nodes.iter().any(|&node| self.contains(a, node)),
        }
    }

    /// The framework's domain-level scores of each domain, before members have nodes: all of them
    /// are proposed on the domain's first.
    pub(crate) fn domain_scores(&mut self, part: usize, tier: &[usize]) -> Vec<i64> {
        let mut totals = vec![0; tier.len()];
        let plugins = self.model.framework.domain_scores();
        if tier.len() < 2 || plugins.is_empty() {
            return totals;
        }
        let group = self.parts.parts[part].group;
        let cluster = self.model.cluster;
        let classes: Vec<&'a PodShape> = self
            .parts
            .members_below(part)
            .map(|member| &**self.model.classes[self.model.members[member].class].shape)
            .collect();
        let sums = RefCell::new(Sums { cluster, rooms: &mut *self.model.rooms, known: Vec::new() });
        let mut proposed: Vec<(&PodShape, Row)> =
            classes.iter().map(|shape| (*shape, Row::new(0))).collect();
        let mut raws: Vec<Vec<i64>> = vec![Vec::with_capacity(tier.len()); plugins.len()];
        for &domain in tier {
            let domain = &self.domains[domain];
            let first = domain.rows.first().copied().unwrap_or(Row::new(0));
            for (_, row) in &mut proposed {
                *row = first;
            }
            let kept = match domain.area {
                Area::Kept(extent) => Some(KeptSums { sums: &sums, extent }),
                Area::Own(_) => None,
            };
            let mut cx = DomainContext::new(cluster, group, &domain.rows, &proposed);
            cx.sums = kept.as_ref().map(|kept| kept as &dyn DomainSums);
            for ((_, plugin), raws) in plugins.iter().zip(&mut raws) {
                raws.push(plugin.score(&cx));
            }
        }
        for ((weight, plugin), raws) in plugins.iter().zip(raws) {
            let own = weighed(*weight, plugin.normalization(), raws);
            totals.iter_mut().zip(own).for_each(|(total, score)| *total += score);
        }
        totals
    }
}

/// Sums that are kept between requests.
#[derive(Debug)]
struct Sums<'m> {
    cluster: &'m Cluster,
    rooms: &'m mut Capacity,
    /// The columns of each resource asked for.
    known: Vec<(ResourceId, [usize; 5])>,
}

/// The same, over one domain.
#[derive(Debug)]
struct KeptSums<'r, 'm> {
    sums: &'r RefCell<Sums<'m>>,
    extent: Extent,
}

impl DomainSums for KeptSums<'_, '_> {
    fn of(&self, resource: ResourceId) -> Option<DomainTotals> {
        let Sums { cluster, rooms, known } = &mut *self.sums.borrow_mut();
        let place = known.iter().position(|(known, _)| *known == resource).unwrap_or_else(|| {
            let amounts = [
                Amount::Allocatable(resource),
                Amount::Used(resource),
                Amount::Free(resource),
                Amount::Scored(resource, 0),
                Amount::Scored(resource, 1),
            ];
            known.push((resource, amounts.map(|amount| rooms.amount(cluster, amount))));
            known.len() - 1
        });
        let [allocatable, used, free, cpu, memory] =
            known[place].1.map(|column| rooms.sum(column, self.extent));
        Some(DomainTotals { allocatable, used, free, scored: [cpu, memory] })
    }
}
